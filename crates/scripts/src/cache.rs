//! The cached scripts of EVAL. They are found by the SHA-1 of their text, by which clients name them, and
//! by a keyed hash of their text, so that EVAL of a cached script computes no SHA-1.
//!
//! Invariants: (1) of the scripts that only EVAL has loaded, the cache keeps the most recently used ones,
//! at most `EVALUATED_MAX`, and their bytes fit in `maxmemory-scripts`, except that the newest script
//! alone may exceed this limit; the bytes of a script are its text, its program, and the growth of the Lua
//! machine when the program was loaded, so a text that several scripts contain counts for the first of
//! them; (2) scripts of SCRIPT LOAD stay until SCRIPT FLUSH.

use crate::machine::{GlobalsRead, sha1_hex};
use crate::shebang::ScriptFlags;
use crate::slots::SlotIndex;
use sluice_base::heap;
use sluice_lua::LoadedChunk;

/// The maximum number of cached scripts that only EVAL has loaded; scripts of SCRIPT LOAD are not counted.
pub(crate) const EVALUATED_MAX: usize = 500;

/// Bytes of a script besides its text, its program and its memory in the Lua machine. This is the
/// script's part of the groups and tables.
const SCRIPT_FIXED_BYTES: usize = 120;

/// Number of scripts in one allocation, which together fill a block of the allocator.
const GROUP: usize = 23;

/// A number that stands for no script, at either end of the order of last use, and in a script that is not in
/// this order.
const NOBODY: u32 = u32::MAX;

/// The SHA-1 of a script's text, as 40 hexadecimal digits in lower case.
pub(crate) type ScriptSha = [u8; 40];

/// A script in the cache.
#[derive(Debug)]
pub struct CachedScript {
    /// The script's text, the first line included.
    pub body: Box<[u8]>,
    /// The program in the Lua machine.
    pub chunk: LoadedChunk,
    /// The slot of the script that was used just before this one; [`NOBODY`] if there is none, or if this
    /// script is not in the order of last use, because SCRIPT LOAD has named it.
    older: u32,
    /// The slot of the script that was used just after this one, or [`NOBODY`] as for `older`.
    newer: u32,
    /// Approximate bytes of the compiled program.
    program_bytes: u32,
    /// Bytes by which the script has increased the Lua machine's memory; the machine's own count includes
    /// these bytes.
    machine_bytes: u32,
    /// Low bits of the keyed hash of the text.
    hash: u32,
    /// The SHA-1 of the text, which is the script's name.
    pub sha: ScriptSha,
    /// The flags of the script's first line.
    pub flags: ScriptFlags,
    /// Which of `KEYS` and `ARGV` the script can read.
    pub globals: GlobalsRead,
    /// Whether SCRIPT LOAD has loaded the script, or has named it later.
    is_kept: bool,
}

const _: () = assert!(size_of::<[Option<CachedScript>; GROUP]>() <= 2048);

impl CachedScript {
    /// Approximate bytes that the script takes outside of the machine.
    fn bytes(&self) -> usize {
        heap::block(self.body.len()) + self.program_bytes as usize + SCRIPT_FIXED_BYTES
    }

    /// Bytes that count against `maxmemory-scripts`, including the script's bytes in the machine.
    fn bytes_with_machine(&self) -> usize {
        self.bytes() + self.machine_bytes as usize
    }
}

/// A script that is to be added to the cache.
#[derive(Debug)]
pub struct NewScript {
    /// The script's text, the first line included.
    pub body: Box<[u8]>,
    /// The flags of the script's first line.
    pub flags: ScriptFlags,
    /// The compiled program, loaded in the machine.
    pub chunk: LoadedChunk,
    /// Which of `KEYS` and `ARGV` the script can read.
    pub globals: GlobalsRead,
    /// Approximate bytes of the compiled program.
    pub program_bytes: usize,
    /// Bytes by which the program has increased the machine's use of memory.
    pub machine_bytes: usize,
    /// The keyed hash of the text, of which the cache uses the low 32 bits.
    pub hash: u64,
    /// Whether SCRIPT LOAD loads the script.
    pub is_kept: bool,
}

/// The cache of the scripts of EVAL and SCRIPT LOAD.
#[derive(Debug)]
pub struct ScriptCache {
    scripts: ScriptSlots,
    free: Vec<u32>,
    by_sha: SlotIndex,
    by_text: SlotIndex,
    /// The slot of the least recently used script in the order of last use; [`NOBODY`] if the order is empty.
    oldest: u32,
    /// The slot of the most recently used script in that order; [`NOBODY`] if the order is empty.
    newest: u32,
    /// The number of scripts in the order of last use.
    evaluated: usize,
    /// Bytes of the scripts in the order of last use, by [`CachedScript::bytes_with_machine`].
    evaluated_bytes: usize,
    /// Bytes of all scripts, by [`CachedScript::bytes`].
    bytes: usize,
}

impl Default for ScriptCache {
    fn default() -> ScriptCache {
        ScriptCache {
            scripts: ScriptSlots::default(),
            free: Vec::new(),
            by_sha: SlotIndex::default(),
            by_text: SlotIndex::default(),
            oldest: NOBODY,
            newest: NOBODY,
            evaluated: 0,
            evaluated_bytes: 0,
            bytes: 0,
        }
    }
}

/// Scripts by slot number, in groups that never move.
#[derive(Debug, Default)]
struct ScriptSlots {
    #[expect(
        clippy::vec_box,
        reason = "a list of scripts themselves would be copied as it grows, and half empty"
    )]
    groups: Vec<Box<[Option<CachedScript>; GROUP]>>,
    /// The number of slots, including free slots.
    len: usize,
}

impl ScriptSlots {
    #[inline]
    fn get(&self, slot: u32) -> Option<&CachedScript> {
        let slot = slot as usize;
        self.groups.get(slot / GROUP)?[slot % GROUP].as_ref()
    }

    fn entry(&mut self, slot: u32) -> Option<&mut Option<CachedScript>> {
        let slot = slot as usize;
        self.groups.get_mut(slot / GROUP).map(|group| &mut group[slot % GROUP])
    }

    /// Adds a slot at the end.
    fn push(&mut self) -> u32 {
        if self.len.is_multiple_of(GROUP) {
            self.groups.push(Box::new([const { None }; GROUP]));
        }
        self.len += 1;
        (self.len - 1) as u32
    }

    /// The hash of the script's name, from its first digits. A user who may run scripts can construct names
    /// with equal hashes, which slows look-ups down; but scripts allow that user worse things.
    fn sha_hash(&self, slot: u32) -> u32 {
        self.get(slot).map_or(0, |script| hash_of_sha(&script.sha))
    }

    fn text_hash(&self, slot: u32) -> u32 {
        self.get(slot).map_or(0, |script| script.hash)
    }
}

/// The first eight digits of a name, in either case, as four bits each.
#[inline]
fn hash_of_sha(sha: &ScriptSha) -> u32 {
    let digits = sha.first_chunk().map_or(0, |digits| u64::from_le_bytes(*digits));
    // The low four bits of a decimal digit are its value; the low four bits of a letter are 1 to 6.
    let (low, is_letter) = (digits & 0x0f0f_0f0f_0f0f_0f0f, digits >> 6 & 0x0101_0101_0101_0101);
    let values = low + is_letter * 9;
    (values ^ values >> 28) as u32
}

impl ScriptCache {
    /// The number of scripts.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        self.by_sha.len()
    }

    /// Approximate bytes of texts, names, programs and tables.
    pub fn footprint(&self) -> usize {
        let groups = heap::vec(&self.scripts.groups) + self.scripts.groups.len() * 2048;
        let tables = groups + self.by_sha.footprint() + self.by_text.footprint() + heap::vec(&self.free);
        self.bytes - self.len() * SCRIPT_FIXED_BYTES + tables
    }

    /// The slot of the script with this text, whose keyed hash is `hash`. O(length).
    #[inline]
    pub fn find_text(&self, hash: u64, text: &[u8]) -> Option<u32> {
        let hash = hash as u32;
        self.by_text.find(hash, |slot| {
            self.scripts.get(slot).is_some_and(|script| script.hash == hash && *script.body == *text)
        })
    }

    /// The slot of the script with this name, whose letters may be of either case.
    #[inline]
    pub fn find_sha(&self, name: &[u8]) -> Option<u32> {
        let name: &ScriptSha = name.try_into().ok()?;
        let is_it = |script: &CachedScript| script.sha == *name || script.sha.eq_ignore_ascii_case(name);
        self.by_sha.find(hash_of_sha(name), |slot| self.scripts.get(slot).is_some_and(is_it))
    }

    /// The script in a slot, if it is still there.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&CachedScript> {
        self.scripts.get(slot)
    }

    /// Adds a script whose text is not cached. Returns the slot of the script, and the programs of the
    /// scripts that it displaces. Scripts are displaced if those that only EVAL has loaded would
    /// otherwise be too many, or take more than `bytes_max` together.
    pub fn add(&mut self, new: NewScript, bytes_max: usize) -> (u32, Vec<LoadedChunk>) {
        let NewScript { body, flags, chunk, globals, program_bytes, machine_bytes, hash, is_kept } = new;
        let (sha, hash) = (sha1_hex(&body), hash as u32);
        let (program_bytes, machine_bytes) = (heap::short(program_bytes), heap::short(machine_bytes));
        let (older, newer) = (NOBODY, NOBODY);
        let script = CachedScript {
            body,
            chunk,
            older,
            newer,
            program_bytes,
            machine_bytes,
            hash,
            sha,
            flags,
            globals,
            is_kept,
        };
        self.bytes += script.bytes();
        let slot = self.free.pop().unwrap_or_else(|| self.scripts.push());
        if let Some(entry) = self.scripts.entry(slot) {
            *entry = Some(script);
        }
        self.by_sha.insert(hash_of_sha(&sha), slot, |slot| self.scripts.sha_hash(slot));
        self.by_text.insert(hash, slot, |slot| self.scripts.text_hash(slot));
        let mut displaced = Vec::new();
        if !is_kept {
            self.count_evaluated(slot);
            self.push_newest(slot);
            while self.oldest != slot && (self.evaluated > EVALUATED_MAX || self.evaluated_bytes > bytes_max)
            {
                displaced.extend(self.remove_oldest());
            }
        }
        (slot, displaced)
    }

    /// Marks a script as loaded by SCRIPT LOAD, so that it stays until SCRIPT FLUSH.
    pub fn keep(&mut self, slot: u32) {
        if self.get(slot).is_some_and(|script| !script.is_kept) {
            self.unlink(slot);
            self.discount_evaluated(slot);
            if let Some(script) = self.script_mut(slot) {
                script.is_kept = true;
            }
        }
    }

    /// Makes a script the most recently used. O(1).
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if self.newest != slot && self.get(slot).is_some_and(|script| !script.is_kept) {
            self.unlink(slot);
            self.push_newest(slot);
        }
    }

    fn script_mut(&mut self, slot: u32) -> Option<&mut CachedScript> {
        self.scripts.entry(slot)?.as_mut()
    }

    fn remove_oldest(&mut self) -> Option<LoadedChunk> {
        let slot = self.oldest;
        let (name, text) = (self.scripts.sha_hash(slot), self.scripts.text_hash(slot));
        self.by_sha.remove(name, slot, |slot| self.scripts.sha_hash(slot));
        self.by_text.remove(text, slot, |slot| self.scripts.text_hash(slot));
        self.unlink(slot);
        self.discount_evaluated(slot);
        let script = self.scripts.entry(slot)?.take()?;
        self.free.push(slot);
        self.bytes -= script.bytes();
        Some(script.chunk)
    }

    fn count_evaluated(&mut self, slot: u32) {
        self.evaluated += 1;
        self.evaluated_bytes += self.get(slot).map_or(0, CachedScript::bytes_with_machine);
    }

    fn discount_evaluated(&mut self, slot: u32) {
        self.evaluated -= 1;
        self.evaluated_bytes -= self.get(slot).map_or(0, CachedScript::bytes_with_machine);
    }

    fn unlink(&mut self, slot: u32) {
        let Some(script) = self.script_mut(slot) else { return };
        let older = std::mem::replace(&mut script.older, NOBODY);
        let newer = std::mem::replace(&mut script.newer, NOBODY);
        match self.script_mut(older) {
            Some(script) => script.newer = newer,
            None => self.oldest = newer,
        }
        match self.script_mut(newer) {
            Some(script) => script.older = older,
            None => self.newest = older,
        }
    }

    fn push_newest(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        if let Some(script) = self.script_mut(slot) {
            script.older = before;
        }
        match self.script_mut(before) {
            Some(script) => script.newer = slot,
            None => self.oldest = slot,
        }
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
            let body = body.into_bytes().into();
            let globals = GlobalsRead::ALL;
            let (program_bytes, machine_bytes) = (0, 0);
            let new = NewScript { body, flags, chunk, globals, program_bytes, machine_bytes, hash, is_kept };
            self.cache.add(new, bytes_max)
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
        // A script that SCRIPT LOAD names leaves the order of last use.
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
        // The next script has a longer text, so displacing one script does not make enough room.
        let long = 10_000_000_000;
        assert_eq!(rig.add_within(long, false, 5 * one).1.len(), 2);
        assert!(rig.knows(10) && !rig.knows(11) && !rig.knows(12) && rig.knows(13) && rig.knows(long));
        // A script that is larger than the limit remains alone, because it is about to run.
        assert_eq!(rig.add_within(16, false, 1).1.len(), 4);
        assert!(rig.knows(16) && rig.knows(1_000_000) && rig.cache.get(kept).is_some());
        // A script that SCRIPT LOAD names no longer counts.
        let last = rig.cache.find_text(16, b"return 16").unwrap();
        rig.cache.keep(last);
        assert!(rig.add_within(17, false, one).1.is_empty());
        assert!(rig.add_within(18, true, one).1.is_empty());
        assert!(rig.knows(16) && rig.knows(17) && rig.knows(18));
    }

    #[test]
    fn scripts_of_eval_take_no_more_of_the_machine_than_they_may() {
        const BYTES_MAX: usize = 400_000;
        let mut rig = Rig::new();
        let base = rig.vm.bytes();
        for number in 0..100 {
            // The script has texts, names, numbers and functions, so that only a small part of its bytes is
            // program.
            let texts: String = (0..200).map(|at| format!("t[{at}.5] = 'text {at} of {number}' ")).collect();
            let body = format!("local t = {{}} {texts} return function() return t.name{number} end");
            let program = compile(body.as_bytes(), b"@user_script").unwrap();
            let program_bytes = program.linked_bytes();
            let (chunk, machine_bytes) = rig.vm.load_owned(program).unwrap();
            assert!(machine_bytes > 10_000 && rig.cache.evaluated_bytes < BYTES_MAX);
            let (flags, globals) = (ScriptFlags::COMPATIBLE, GlobalsRead::ALL);
            let (body, hash, is_kept) = (body.into_bytes().into(), number, false);
            let new = NewScript { body, flags, chunk, globals, program_bytes, machine_bytes, hash, is_kept };
            for chunk in rig.cache.add(new, BYTES_MAX).1 {
                assert!(rig.vm.unload(chunk));
            }
        }
        for _ in 0..2 {
            while !rig.vm.collect(1 << 16) {}
        }
        let all = rig.vm.bytes() - base + rig.cache.footprint();
        assert!((BYTES_MAX / 2..BYTES_MAX + 8192).contains(&all), "{all} bytes of {}", rig.cache.len());
        // The footprint, which is reported in addition to the machine's bytes, does not include the scripts'
        // bytes in the machine.
        assert!(rig.cache.footprint() < rig.cache.evaluated_bytes - 10_000 * rig.cache.len());
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
