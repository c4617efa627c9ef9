//! Commands of the replication stream that name many items of one key: SREM of what SPOP has drawn, RPUSH of
//! what SORT has stored. They are encoded at once, some items to a command; removals of very many members
//! are encoded later.

use sluice_base::num::IntBuffer;
use sluice_keyspace::{CommandSource, DbMut, EncodedCommands, ExpiryMode, PromisedCommands};
use sluice_resp::command::{push_argument, push_command, push_command_head};
use sluice_value::{Set, Value};

/// Whether what is made of several keys propagates as its result, and propagates at all: keys that are absent
/// here are there for a receiver. They have expired and stay, in import mode and on a writable replica.
pub(crate) fn is_told_by_result(db: &DbMut<'_>) -> bool {
    db.access.expiry == ExpiryMode::Hide && db.effects.propagating
}

/// The commands, as they are made.
pub(crate) struct ItemCommands<'k> {
    commands: EncodedCommands,
    name: &'k [u8],
    key: &'k [u8],
    /// Words of an item.
    words: usize,
    /// Items that are still to come, and of these the ones of the command that has begun.
    left: usize,
    left_here: usize,
}

impl<'k> ItemCommands<'k> {
    /// `name key item ...` with so many items, each of so many words.
    pub(crate) fn new((name, key): (&'k [u8], &'k [u8]), (count, words): (usize, usize)) -> ItemCommands<'k> {
        ItemCommands { commands: EncodedCommands::default(), name, key, words, left: count, left_here: 0 }
    }

    /// Has the commands begin with the deletion of the key, where that is there.
    pub(crate) fn in_place_of(mut self, is_there: bool) -> ItemCommands<'k> {
        if is_there {
            push_command(&mut self.commands.bytes, [&b"DEL"[..], self.key].into_iter());
            self.commands.count += 1;
        }
        self
    }

    /// Adds an item.
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
            // The other commands are about as long: memory that grows again and again would take as much time
            // as the items.
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

    /// All of them. As many items have come as were announced.
    pub(crate) fn finish(self) -> EncodedCommands {
        debug_assert_eq!(self.left, 0, "all items have come");
        self.commands
    }
}

/// SREMs of members that are in the data no more, as large sets; made later. `None` where one of the sets is
/// no tree. Cost: a step for each set and command.
pub(crate) fn promised_removals(key: &[u8], sets: &[Set]) -> Option<PromisedCommands> {
    let members = sets.iter().map(Set::bulk_bytes).sum::<Option<usize>>()?;
    // In reverse, so that finished sets are taken off the end.
    let sets: Vec<Set> = sets.iter().rev().map(Set::share).collect();
    let count = sets.iter().map(Set::len).sum();
    let removals = MemberRemovals { key: key.into(), sets, passed: 0, count, written: 0 };
    let bytes = members + (0..count).step_by(ITEMS_AT_ONCE).map(|at| removals.head(at).len()).sum::<usize>();
    Some(PromisedCommands::new(count.div_ceil(ITEMS_AT_ONCE), bytes, Box::new(removals)))
}

/// SREMs of the members of sets.
#[derive(Debug)]
struct MemberRemovals {
    key: Box<[u8]>,
    /// The sets that are left; the one under way comes last.
    sets: Vec<Set>,
    /// Written members of the set under way.
    passed: usize,
    /// Members of all sets, and how many are written.
    count: usize,
    written: usize,
}

impl MemberRemovals {
    /// The head of the command that begins with the member of this number.
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

/// Items of one command at most.
const ITEMS_AT_ONCE: usize = 1024;
/// Bytes that are reserved for these commands at most, as the first ones may be much longer than the others.
const RESERVED_MAX: usize = 64 << 20;
