//! Commands of the replication stream that name many items of one key: SREM of what SPOP has drawn, RPUSH of
//! what SORT has stored. They are encoded at once, some items to a command.

use sluice_keyspace::{DbMut, EncodedCommands, ExpiryMode};
use sluice_resp::command::{push_argument, push_command, push_command_head};

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

/// Items of one command at most.
const ITEMS_AT_ONCE: usize = 1024;
/// Bytes that are reserved for these commands at most, as the first ones may be much longer than the others.
const RESERVED_MAX: usize = 64 << 20;
