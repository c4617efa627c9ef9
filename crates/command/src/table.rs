//! All specs in the order of their ids, and the look-up of a spec by name.
//!
//! Invariants: (1) the id of a spec is its position in [`ALL`], checked at compile time; (2) a container
//! precedes its subcommands; (3) a look-up allocates nothing and compares whole names, so a bad hash costs
//! only time. Renamed commands are not handled here.

use crate::spec::Spec;
use crate::specs::{self, TABLES};

/// Number of specs, subcommands included.
pub const COUNT: usize = specs::COUNT;

/// Every spec, containers and subcommands alike; the position of a spec is its id.
pub static ALL: [&Spec; COUNT] = all();

/// The top-level commands, in the order of [`ALL`].
pub static TOP: [&Spec; TOP_COUNT] = top();

/// The top-level command with this name, ignoring case; `None` for an unknown name and for the name of a
/// subcommand. Costs a hash of at most three words and usually one comparison; the name in most requests has
/// up to eight bytes and fits one word.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Spec> {
    if matches!(name.len(), 1..=SHORT_LEN_MAX) {
        let (head, len) = (lower(short_word(name)), name.len() as u64);
        // The other words of a short name are zero, so the keys are equal if their lengths and heads are
        // equal.
        return probe(NameKey { head, middle: 0, tail: 0, len }, |known| {
            known.head == head && known.len == len
        });
    }
    lookup_long(name)
}

#[inline(never)]
fn lookup_long(name: &[u8]) -> Option<&'static Spec> {
    let key = NameKey::of(name)?;
    probe(key, |known| *known == key)
}

/// Probes the hash table from the slot of `key` on; returns the first command for whose name `is_it` is true.
#[inline(always)]
fn probe(key: NameKey, is_it: impl Fn(&NameKey) -> bool) -> Option<&'static Spec> {
    let mut at = key.hash();
    loop {
        // The number in an empty slot is past the end of `NAMES`.
        let top = SLOTS[at] as usize;
        if is_it(NAMES.get(top)?) {
            return TOP.get(top).copied();
        }
        at = (at + 1) % SLOT_COUNT;
    }
}

/// The subcommand with this name, ignoring case. `name` does not contain the container's name. Costs a walk
/// over the container's subcommands.
pub fn lookup_sub(container: &Spec, name: &[u8]) -> Option<&'static Spec> {
    // `is_word` ends the name at a zero byte, because in the reference a subcommand's name ends there,
    // whereas a command's name does not.
    let bar = container.full_name.len();
    container.subcommands.iter().copied().find(|sub| is_word(name, &sub.full_name[bar + 1..]))
}

/// Whether an argument equals this word, ignoring case. The argument ends at a zero byte, as
/// in the reference.
#[inline]
pub fn is_word(arg: &[u8], word: &str) -> bool {
    match arg.split_at_checked(word.len()) {
        Some((head, tail)) => matches!(tail, [] | [0, ..]) && head.eq_ignore_ascii_case(word.as_bytes()),
        None => false,
    }
}

/// The command named by the first words of a request.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// A command, or a subcommand if the second word names one. A container without a second word is the
    /// command itself; its arity decides whether that is allowed.
    Command(&'static Spec),
    /// This container has no subcommand with the given name.
    UnknownSubcommand(&'static Spec),
    /// No command has the name.
    Unknown,
}

/// The command that a request calls; [`Named::Unknown`] for an empty request.
#[inline]
pub fn resolve(args: &[&[u8]]) -> Named {
    let Some(spec) = args.first().and_then(|name| lookup(name)) else { return Named::Unknown };
    match args.get(1) {
        Some(name) if !spec.subcommands.is_empty() => match lookup_sub(spec, name) {
            Some(sub) => Named::Command(sub),
            None => Named::UnknownSubcommand(spec),
        },
        _ => Named::Command(spec),
    }
}

/// The spec with this full name, ignoring case: `get` or `config|get`, as in ACL rules and COMMAND INFO.
pub fn lookup_full(name: &[u8]) -> Option<&'static Spec> {
    match name.iter().position(|&byte| byte == b'|') {
        None => lookup(name),
        Some(bar) => lookup_sub(lookup(&name[..bar])?, &name[bar + 1..]),
    }
}

/// A lower-case name as words. Two names are equal if and only if their keys are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NameKey {
    head: u64,
    middle: u64,
    tail: u64,
    len: u64,
}

impl NameKey {
    /// The key of a name; `None` if no command has a name of this length.
    #[inline]
    const fn of(name: &[u8]) -> Option<NameKey> {
        let (head, middle, tail) = match name.len() {
            1..=SHORT_LEN_MAX => (short_word(name), 0, 0),
            len @ SHORT_LEN_AFTER..=16 => (word(name, 0), 0, word(name, len - 8)),
            len @ 17..=NAME_LEN_MAX => (word(name, 0), word(name, 8), word(name, len - 8)),
            _ => return None,
        };
        Some(NameKey { head: lower(head), middle: lower(middle), tail: lower(tail), len: name.len() as u64 })
    }

    #[inline]
    const fn hash(&self) -> usize {
        let mixed = (self.head ^ self.middle.rotate_left(23) ^ self.tail.rotate_left(43) ^ self.len)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - SLOT_COUNT.trailing_zeros())) as usize
    }

    const fn equals(&self, other: &NameKey) -> bool {
        self.head == other.head
            && self.middle == other.middle
            && self.tail == other.tail
            && self.len == other.len
    }
}

/// The eight bytes from `at` on; the name must be long enough.
#[inline]
const fn word(name: &[u8], at: usize) -> u64 {
    let (_, rest) = name.split_at(at);
    match rest.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// A name of one to eight bytes as a word: its first and last four bytes, which may overlap. A name of fewer
/// than four bytes is represented by its first, middle and last byte, some of which may coincide.
#[inline(always)]
const fn short_word(name: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return u32::from_le_bytes(*first) as u64 | (u32::from_le_bytes(*last) as u64) << 32;
    }
    match name {
        [] => 0,
        [first, ..] => {
            let (middle, last) = (name[name.len() / 2], name[name.len() - 1]);
            *first as u64 | (middle as u64) << 8 | (last as u64) << 16
        }
    }
}

/// Converts ASCII letters among eight bytes to lower case.
#[inline]
const fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let ascii = word & (0x7f * EACH);
    // In `from_a` the top bit of each byte records that the byte is at least `A`; in `past_z`, that it is
    // beyond `Z`. Seven-bit bytes cannot carry into their neighbours.
    let from_a = ascii + (0x80 - b'A' as u64) * EACH;
    let past_z = ascii + (0x80 - b'Z' as u64 - 1) * EACH;
    let upper = from_a & !past_z & !word & (0x80 * EACH);
    word | (upper >> 2)
}

const NAME_LEN_MAX: usize = 24;
/// Length of the longest name that fits one word.
const SHORT_LEN_MAX: usize = 8;
const SHORT_LEN_AFTER: usize = SHORT_LEN_MAX + 1;
/// A power of two, at least twice the number of names, so that probing ends soon.
const SLOT_COUNT: usize = 1024;
const EMPTY: u16 = u16::MAX;
const TOP_COUNT: usize = top_count();

/// The names of [`TOP`], in the same order.
static NAMES: [NameKey; TOP_COUNT] = names();
/// Positions in [`TOP`] by hash; a name whose slot is taken goes to the next free one.
static SLOTS: [u16; SLOT_COUNT] = slots();

const fn all() -> [&'static Spec; COUNT] {
    let mut all = [TABLES[0][0]; COUNT];
    let mut group = 0;
    let mut next = 0;
    while group < TABLES.len() {
        let mut at = 0;
        while at < TABLES[group].len() {
            all[next] = TABLES[group][at];
            assert!(all[next].id.0 as usize == next, "the id of a spec is its position");
            next += 1;
            at += 1;
        }
        group += 1;
    }
    all
}

const fn is_top(spec: &Spec) -> bool {
    spec.container().is_none()
}

const fn top_count() -> usize {
    let all = all();
    let mut count = 0;
    let mut at = 0;
    while at < COUNT {
        count += is_top(all[at]) as usize;
        at += 1;
    }
    count
}

const fn top() -> [&'static Spec; TOP_COUNT] {
    let all = all();
    let mut top = [all[0]; TOP_COUNT];
    let mut next = 0;
    let mut at = 0;
    while at < COUNT {
        if is_top(all[at]) {
            top[next] = all[at];
            next += 1;
        }
        at += 1;
    }
    top
}

const fn names() -> [NameKey; TOP_COUNT] {
    let top = top();
    let mut names = [NameKey { head: 0, middle: 0, tail: 0, len: 0 }; TOP_COUNT];
    let mut at = 0;
    while at < TOP_COUNT {
        names[at] = NameKey::of(top[at].full_name.as_bytes()).expect("names are not empty and not too long");
        at += 1;
    }
    names
}

const fn slots() -> [u16; SLOT_COUNT] {
    const { assert!(TOP_COUNT * 2 <= SLOT_COUNT) };
    let names = names();
    let mut slots = [EMPTY; SLOT_COUNT];
    let mut at = 0;
    while at < TOP_COUNT {
        let mut slot = names[at].hash();
        while slots[slot] != EMPTY {
            assert!(!names[slots[slot] as usize].equals(&names[at]), "a name is declared once");
            slot = (slot + 1) % SLOT_COUNT;
        }
        slots[slot] = at as u16;
        at += 1;
    }
    slots
}

#[cfg(test)]
mod tests;
