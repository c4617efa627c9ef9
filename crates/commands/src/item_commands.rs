//! Commands of the replication stream with many items of one key: SREM for the members drawn by SPOP, and
//! RPUSH, SADD or ZADD for stored results, for example of SORT. They are encoded when the command is
//! executed, with a limited number of items in each command of the stream; only removals of very many members
//! are encoded later.

use sluice_base::num::IntBuffer;
use sluice_keyspace::{CommandSource, DbMut, EncodedCommands, ExpiryMode, PromisedCommands};
use sluice_resp::command::{push_argument, push_command, push_command_head};
use sluice_value::{Set, Value};

/// Whether a command that combines several keys is propagated as its result. In import mode and on a
/// writable replica, expired keys count as absent but stay in the keyspace, and a replica would find them.
pub(crate) fn is_told_by_result(db: &DbMut<'_>) -> bool {
    db.access.expiry == ExpiryMode::Hide && db.effects.propagating
}

/// Builds the commands from items added one by one.
pub(crate) struct ItemCommands<'k> {
    commands: EncodedCommands,
    name: &'k [u8],
    key: &'k [u8],
    /// Number of words of an item.
    words: usize,
    /// Number of items still to come in all commands.
    left: usize,
    /// Number of items still to come in the command that has begun.
    left_here: usize,
}

impl<'k> ItemCommands<'k> {
    /// Commands `name key item ...` for `count` items of `words` words each.
    pub(crate) fn new((name, key): (&'k [u8], &'k [u8]), (count, words): (usize, usize)) -> ItemCommands<'k> {
        ItemCommands { commands: EncodedCommands::default(), name, key, words, left: count, left_here: 0 }
    }

    /// Puts a DEL of the key first, if the key exists.
    pub(crate) fn in_place_of(mut self, is_there: bool) -> ItemCommands<'k> {
        if is_there {
            push_command(&mut self.commands.bytes, [&b"DEL"[..], self.key].into_iter());
            self.commands.count += 1;
        }
        self
    }

    /// Adds an item of `words` words.
    pub(crate) fn push(&mut self, item: &[&[u8]]) {
        debug_assert_eq!(item.len(), self.words);
        debug_assert!(self.left > 0, "no more items than were announced");
        if self.left_here == 0 {
            self.begin();
        }
        item.iter().for_each(|word| push_argument(&mut self.commands.bytes, word));
        self.left_here -= 1;
        self.left -= 1;
        if self.left_here == 0 && self.commands.count == 1 {
            // The other commands are about as long, so their memory is reserved at once, because growing it
            // step by step would take as much time as encoding the items.
            let others = self.commands.bytes.len().saturating_mul(self.left.div_ceil(ITEMS_AT_ONCE));
            self.commands.bytes.reserve(others.saturating_add(others / 16).min(RESERVED_MAX));
        }
    }

    fn begin(&mut self) {
        self.left_here = self.left.min(ITEMS_AT_ONCE);
        push_command_head(&mut self.commands.bytes, 2 + self.left_here * self.words);
        push_argument(&mut self.commands.bytes, self.name);
        push_argument(&mut self.commands.bytes, self.key);
        self.commands.count += 1;
    }

    /// The encoded commands. All announced items must have been added.
    pub(crate) fn finish(self) -> EncodedCommands {
        debug_assert_eq!(self.left, 0, "all items have come");
        self.commands
    }
}

/// SREM commands for the members of large sets that were removed from a key. They are encoded later. `None`
/// if one of the sets is not a tree. Cost: a step for each set and command.
pub(crate) fn promised_removals(key: &[u8], sets: &[Set]) -> Option<PromisedCommands> {
    let members = sets.iter().map(Set::bulk_bytes).sum::<Option<usize>>()?;
    // The sets are in reverse order, so that finished ones are removed from the end.
    let sets: Vec<Set> = sets.iter().rev().map(Set::share).collect();
    let count = sets.iter().map(Set::len).sum();
    let removals = MemberRemovals { key: key.into(), sets, passed: 0, count, written: 0 };
    let bytes = members + (0..count).step_by(ITEMS_AT_ONCE).map(|at| removals.head(at).len()).sum::<usize>();
    Some(PromisedCommands::new(count.div_ceil(ITEMS_AT_ONCE), bytes, Box::new(removals)))
}

/// The source of SREMs for the members of sets.
#[derive(Debug)]
struct MemberRemovals {
    key: Box<[u8]>,
    /// The remaining sets; the last one is being written.
    sets: Vec<Set>,
    /// Number of members of the last set that are written already.
    passed: usize,
    /// Number of members of all sets.
    count: usize,
    /// Number of members of all sets that are written already.
    written: usize,
}

impl MemberRemovals {
    /// The head of the command that begins with member number `at`.
    fn head(&self, at: usize) -> Vec<u8> {
        let mut head = Vec::new();
        push_command_head(&mut head, 2 + (self.count - at).min(ITEMS_AT_ONCE));
        push_argument(&mut head, b"SREM");
        push_argument(&mut head, &self.key);
        head
    }
}

impl CommandSource for MemberRemovals {
    fn share(&self) -> Box<dyn CommandSource> {
        let sets = self.sets.iter().map(Set::share).collect();
        Box::new(MemberRemovals { key: self.key.clone(), sets, ..*self })
    }

    fn go_on(&mut self, bytes: usize, out: &mut Vec<u8>, garbage: &mut Vec<Value>) {
        let end = out.len().saturating_add(bytes.max(1));
        let mut digits = IntBuffer::new();
        while let Some(set) = self.sets.last() {
            let mut members = set.view().iter_from(self.passed);
            while out.len() < end
                && let Some(member) = members.next()
            {
                if self.written.is_multiple_of(ITEMS_AT_ONCE) {
                    out.extend_from_slice(&self.head(self.written));
                }
                push_argument(out, member.bytes(&mut digits));
                (self.passed, self.written) = (self.passed + 1, self.written + 1);
            }
            if self.passed < set.len() {
                return;
            }
            self.passed = 0;
            garbage.extend(self.sets.pop().map(Value::Set));
        }
    }

    fn heap_bytes(&self) -> usize {
        self.sets.iter().map(Set::heap_bytes).sum()
    }
}

/// Largest number of items in one command.
const ITEMS_AT_ONCE: usize = 1024;
/// Largest reservation for these commands, in bytes. It is limited because the first commands may be much
/// longer than the others.
const RESERVED_MAX: usize = 64 << 20;
