//! The scripts of EVAL that are known: by the SHA-1 of their text, as clients name them, and by a keyed hash
//! of their text, so that EVAL of a known one computes no SHA-1.
//!
//! Invariants: (1) at most `EVALUATED_MAX` scripts that EVAL alone has brought, the last used, and of these
//! no more than `maxmemory-scripts` holds, but for the last one; (2) what SCRIPT LOAD has brought stays until
//! SCRIPT FLUSH.

use crate::machine::sha1_hex;
use crate::shebang::ScriptFlags;
use sluice_base::heap;
use sluice_lua::LoadedChunk;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Scripts of EVAL that are kept; those of SCRIPT LOAD beside them.
pub(crate) const EVALUATED_MAX: usize = 500;

/// Bytes of a script beside its program and its slots in the machine: names, symbols, counts. Measured.
const SCRIPT_FIXED_BYTES: usize = 220;

/// The SHA-1 of a script's text, as 40 hexadecimal digits in lower case.
pub(crate) type ScriptSha = [u8; 40];

/// A script that is known.
#[derive(Debug)]
pub struct CachedScript {
    /// Its name.
    pub sha: ScriptSha,
    /// Its text, the first line included.
    pub body: Arc<[u8]>,
    /// What its first line allows.
    pub flags: ScriptFlags,
    /// The program in the machine.
    pub chunk: LoadedChunk,
    /// Bytes that the compiled program takes, about.
    program_bytes: usize,
    /// The keyed hash of the text.
    hash: u64,
    /// SCRIPT LOAD has brought it, or has named it since.
    is_kept: bool,
    /// The neighbours in the order of last use, where EVAL alone has brought it.
    older: Option<u32>,
    newer: Option<u32>,
}

impl CachedScript {
    /// Bytes that the script takes, about, without its share of tables.
    fn bytes(&self) -> usize {
        self.body.len()
            + size_of::<ScriptSha>()
            + self.program_bytes
            + heap::boxed::<CachedScript>()
            + SCRIPT_FIXED_BYTES
    }
}

/// What is known of a script that is to be added.
#[derive(Debug)]
pub struct NewScript {
    /// Text of the script.
    pub body: Arc<[u8]>,
    /// Flags of its first line.
    pub flags: ScriptFlags,
    /// Its program.
    pub chunk: LoadedChunk,
    /// Bytes that the compiled program takes, about.
    pub program_bytes: usize,
    /// The keyed hash of the text.
    pub hash: u64,
    /// SCRIPT LOAD brings it.
    pub is_kept: bool,
}

/// The scripts: see the module.
#[derive(Debug, Default)]
pub struct ScriptCache {
    scripts: Vec<Option<Box<CachedScript>>>,
    free: Vec<u32>,
    by_sha: HashMap<ScriptSha, u32, BuildHasherDefault<OfHashes>>,
    /// Of two texts with one hash, which a client cannot bring about, the last.
    by_hash: HashMap<u64, u32, BuildHasherDefault<OfHashes>>,
    /// The ends of the order of last use.
    oldest: Option<u32>,
    newest: Option<u32>,
    /// Scripts in that order.
    evaluated: usize,
    /// Bytes of these, see [`CachedScript::bytes`].
    evaluated_bytes: usize,
    /// Bytes of texts and names.
    bytes: usize,
}

impl ScriptCache {
    /// How many scripts there are.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        self.by_sha.len()
    }

    /// Bytes that texts, names and tables take, about.
    pub fn footprint(&self) -> usize {
        let tables = self.by_sha.capacity() * (size_of::<ScriptSha>() + 8) + self.by_hash.capacity() * 16;
        let scripts = self.len() * heap::boxed::<CachedScript>();
        self.bytes
            + tables
            + scripts
            + self.len() * SCRIPT_FIXED_BYTES
            + heap::vec(&self.scripts)
            + heap::vec(&self.free)
    }

    /// The script with this text, whose keyed hash is `hash`. O(length).
    #[inline]
    pub fn find_text(&self, hash: u64, text: &[u8]) -> Option<u32> {
        let slot = *self.by_hash.get(&hash)?;
        let script = self.scripts[slot as usize].as_deref()?;
        (*script.body == *text).then_some(slot)
    }

    /// The script of this name, in letters of any case.
    #[inline]
    pub fn find_sha(&self, name: &[u8]) -> Option<u32> {
        let mut sha: ScriptSha = name.try_into().ok()?;
        sha.make_ascii_lowercase();
        self.by_sha.get(&sha).copied()
    }

    /// A script that was found and is there still.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&CachedScript> {
        self.scripts.get(slot as usize)?.as_deref()
    }

    /// Adds a script, whose text is not known. Returns its slot and the programs of those that it displaces:
    /// scripts of EVAL may take `bytes_max` together.
    pub fn add(&mut self, new: NewScript, bytes_max: usize) -> (u32, Vec<LoadedChunk>) {
        let NewScript { body, flags, chunk, program_bytes, hash, is_kept } = new;
        let sha = sha1_hex(&body);
        self.bytes += body.len() + size_of::<ScriptSha>() + program_bytes;
        let script =
            CachedScript { sha, body, flags, chunk, program_bytes, hash, is_kept, older: None, newer: None };
        let slot = self.free.pop().unwrap_or(self.scripts.len() as u32);
        if slot as usize == self.scripts.len() {
            self.scripts.push(None);
        }
        self.scripts[slot as usize] = Some(Box::new(script));
        self.by_sha.insert(sha, slot);
        self.by_hash.insert(hash, slot);
        let mut displaced = Vec::new();
        if !is_kept {
            self.count_evaluated(slot);
            self.push_newest(slot);
            while self.oldest != Some(slot)
                && (self.evaluated > EVALUATED_MAX || self.evaluated_bytes > bytes_max)
            {
                displaced.extend(self.remove_oldest());
            }
        }
        (slot, displaced)
    }

    /// Keeps a script for good: SCRIPT LOAD has named it.
    pub fn keep(&mut self, slot: u32) {
        if self.get(slot).is_some_and(|script| !script.is_kept) {
            self.unlink(slot);
            self.discount_evaluated(slot);
            if let Some(script) = self.scripts[slot as usize].as_deref_mut() {
                script.is_kept = true;
            }
        }
    }

    /// A script was used. O(1).
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if self.newest != Some(slot) && self.get(slot).is_some_and(|script| !script.is_kept) {
            self.unlink(slot);
            self.push_newest(slot);
        }
    }

    fn remove_oldest(&mut self) -> Option<LoadedChunk> {
        let slot = self.oldest?;
        self.unlink(slot);
        self.discount_evaluated(slot);
        let script = self.scripts[slot as usize].take()?;
        self.free.push(slot);
        self.by_sha.remove(&script.sha);
        if self.by_hash.get(&script.hash) == Some(&slot) {
            self.by_hash.remove(&script.hash);
        }
        self.bytes -= script.body.len() + size_of::<ScriptSha>() + script.program_bytes;
        Some(script.chunk)
    }

    fn count_evaluated(&mut self, slot: u32) {
        self.evaluated += 1;
        self.evaluated_bytes += self.get(slot).map_or(0, CachedScript::bytes);
    }

    fn discount_evaluated(&mut self, slot: u32) {
        self.evaluated -= 1;
        self.evaluated_bytes -= self.get(slot).map_or(0, CachedScript::bytes);
    }

    fn links(&mut self, slot: u32) -> Option<(&mut Option<u32>, &mut Option<u32>)> {
        let script = self.scripts.get_mut(slot as usize)?.as_deref_mut()?;
        Some((&mut script.older, &mut script.newer))
    }

    fn unlink(&mut self, slot: u32) {
        let Some((older, newer)) = self.links(slot) else { return };
        let (older, newer) = (older.take(), newer.take());
        match older.and_then(|slot| self.links(slot)) {
            Some((_, link)) => *link = newer,
            None => self.oldest = newer,
        }
        match newer.and_then(|slot| self.links(slot)) {
            Some((link, _)) => *link = older,
            None => self.newest = older,
        }
    }

    fn push_newest(&mut self, slot: u32) {
        let before = self.newest.replace(slot);
        if let Some((older, _)) = self.links(slot) {
            *older = before;
        }
        match before.and_then(|slot| self.links(slot)) {
            Some((_, newer)) => *newer = Some(slot),
            None => self.oldest = Some(slot),
        }
    }
}

/// A hasher of keys that are hashes themselves: keyed hashes of texts, and SHA-1 sums, which only those can
/// make collide at will who may run scripts, and so may do worse.
#[derive(Clone, Copy, Debug, Default)]
struct OfHashes(u64);

impl Hasher for OfHashes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, digits: &[u8]) {
        for part in digits.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            // Digits leave half of the bits alone: the product spreads them.
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn write_usize(&mut self, _: usize) {
        // The length of a sum is always the same.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_lua::{Vm, compile};

    struct Rig {
        vm: Vm,
        cache: ScriptCache,
    }

    impl Rig {
        fn new() -> Rig {
            let mut vm = Vm::new(64 << 20).unwrap();
            vm.seal(true);
            Rig { vm, cache: ScriptCache::default() }
        }

        fn add(&mut self, number: usize, is_kept: bool) -> (u32, Vec<LoadedChunk>) {
            self.add_within(number, is_kept, usize::MAX)
        }

        fn add_within(&mut self, number: usize, is_kept: bool, bytes_max: usize) -> (u32, Vec<LoadedChunk>) {
            let body = format!("return {number}");
            let chunk = self.vm.load(&compile(body.as_bytes(), b"@user_script").unwrap()).unwrap();
            let flags = ScriptFlags::COMPATIBLE;
            let hash = number as u64;
            let body: Arc<[u8]> = body.into_bytes().into();
            self.cache.add(NewScript { body, flags, chunk, program_bytes: 0, hash, is_kept }, bytes_max)
        }

        fn knows(&self, number: usize) -> bool {
            let body = format!("return {number}");
            let by_text = self.cache.find_text(number as u64, body.as_bytes());
            assert_eq!(by_text, self.cache.find_sha(&sha1_hex(body.as_bytes())));
            by_text.is_some()
        }
    }

    #[test]
    fn the_last_used_scripts_of_eval_stay() {
        let mut rig = Rig::new();
        let kept = rig.add(1_000_000, true).0;
        let first = rig.add(0, false).0;
        for number in 1..EVALUATED_MAX {
            assert!(rig.add(number, false).1.is_empty());
        }
        rig.cache.touch(first);
        rig.cache.touch(kept);
        assert!(rig.add(EVALUATED_MAX, false).1.len() == 1);
        assert!(rig.knows(0) && !rig.knows(1) && rig.knows(2) && rig.knows(1_000_000));
        assert_eq!(rig.cache.len(), EVALUATED_MAX + 1);
        // One that SCRIPT LOAD names leaves the order of last use.
        let second = rig.cache.find_text(2, b"return 2").unwrap();
        rig.cache.keep(second);
        assert!(rig.add(EVALUATED_MAX + 1, false).1.is_empty());
        assert!(rig.add(EVALUATED_MAX + 2, false).1.len() == 1);
        assert!(rig.knows(2) && !rig.knows(3) && rig.knows(4));
    }

    #[test]
    fn scripts_of_eval_make_room_for_the_next_one_but_not_for_those_of_script_load() {
        let mut rig = Rig::new();
        let kept = rig.add(1_000_000, true).0;
        let first = rig.add(10, false).0;
        let one = rig.cache.get(first).unwrap().bytes();
        for number in 11..15 {
            assert!(rig.add_within(number, false, 5 * one).1.is_empty());
        }
        rig.cache.touch(first);
        // Two digits more: one script makes room for none of that size.
        assert_eq!(rig.add_within(1500, false, 5 * one).1.len(), 2);
        assert!(rig.knows(10) && !rig.knows(11) && !rig.knows(12) && rig.knows(13) && rig.knows(1500));
        // One that is larger than all may be alone remains, since it is to be run.
        assert_eq!(rig.add_within(16, false, 1).1.len(), 4);
        assert!(rig.knows(16) && rig.knows(1_000_000) && rig.cache.get(kept).is_some());
        // What SCRIPT LOAD names no longer counts.
        let last = rig.cache.find_text(16, b"return 16").unwrap();
        rig.cache.keep(last);
        assert!(rig.add_within(17, false, one).1.is_empty());
        assert!(rig.add_within(18, true, one).1.is_empty());
        assert!(rig.knows(16) && rig.knows(17) && rig.knows(18));
    }

    #[test]
    fn names_are_found_in_any_case() {
        let mut rig = Rig::new();
        let slot = rig.add(7, true).0;
        let upper = rig.cache.get(slot).unwrap().sha.to_ascii_uppercase();
        assert_eq!(rig.cache.find_sha(&upper), Some(slot));
        assert_eq!(rig.cache.find_sha(b"short"), None);
        assert_eq!(rig.cache.find_text(7, b"another text"), None);
    }
}
