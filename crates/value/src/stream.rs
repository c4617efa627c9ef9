//! The stream: entries in the order of their ids, and groups of consumers that read them.
//!
//! Invariants: (1) [`Stream::share`] costs O(1), and neither stream sees changes of the other; (2)
//! no entry has an id greater than `last_id`; (3) each macro node has the entries and the listpack
//! size that it would have in the reference after the same commands; (4) removed parts that may be
//! large go to [`StreamContext::garbage`].

mod group;
mod id;
mod limits;
mod log;
mod macro_node;
mod tree;
mod wire;

pub use group::{ConsumerGroup, PendingEntry, StreamConsumer};
pub use id::StreamId;
pub use limits::{NODE_BYTES_MAX, StreamLimits};
pub use log::{Entries, EntriesBack, EntryLog, EntryRef, TrimExtent, TrimTo};
pub use macro_node::EntryPairs;
pub use wire::NodeError;

pub use sluice_collections::listpack::Element;

use sluice_base::heap;
use tree::{SharedTree, TreeItem};

/// A stream. One word wide.
#[derive(Debug, Default)]
pub struct Stream(Box<StreamRoot>);

#[derive(Debug, Default)]
struct StreamRoot {
    log: EntryLog,
    groups: SharedTree<ConsumerGroup>,
}

/// Settings for a change of a stream, and what the change leaves: removed parts, and the number
/// of bytes copied.
#[derive(Debug, Default)]
pub struct StreamContext {
    /// The thresholds in force.
    pub limits: StreamLimits,
    /// Removed parts, each as a stream, to be freed on another thread.
    pub garbage: Vec<Stream>,
    /// Bytes of shared parts that changes have copied.
    pub copied: u64,
}

impl StreamContext {
    /// Puts removed nodes into the garbage, or drops them at once if they have few bytes.
    fn discard_nodes(&mut self, parts: Vec<SharedTree<log::NodeItem>>) {
        if parts.iter().map(|part| part.weight().heap).sum::<usize>() <= DROPPED_HERE_MAX {
            return;
        }
        for nodes in parts {
            self.garbage
                .push(Stream(Box::new(StreamRoot { log: EntryLog::of(nodes), ..StreamRoot::default() })));
        }
    }
}

/// Removed nodes, or a removed group, of at most this many bytes are dropped at once.
const DROPPED_HERE_MAX: usize = 64 << 10;

impl Stream {
    /// A stream without entries or groups.
    pub fn new() -> Stream {
        Stream::default()
    }

    /// A second owner of the stream's contents. O(1).
    #[must_use]
    pub fn share(&self) -> Stream {
        Stream(Box::new(StreamRoot { log: self.0.log.share(), groups: self.0.groups.share() }))
    }

    /// The entries, without the groups.
    pub fn log(&self) -> &EntryLog {
        &self.0.log
    }

    /// Bytes allocated for the stream, including shared parts. O(1).
    pub fn heap_bytes(&self) -> usize {
        heap::boxed::<StreamRoot>() + self.0.log.heap_bytes() + self.0.groups.weight().heap
    }

    /// Whether the top of the tree of macro nodes or of groups, or the last macro node, has another owner.
    /// O(1).
    pub(crate) fn is_shared(&self) -> bool {
        self.0.log.is_shared() || self.0.groups.is_shared()
    }

    /// Bytes allocated that have no other owner. Cost: one step for each part that is not shared.
    pub(crate) fn own_bytes(&self) -> usize {
        heap::boxed::<StreamRoot>() + self.0.log.own_bytes() + self.0.groups.own_bytes()
    }

    /// Adds an entry, whose id must be greater than the last id. `pairs` has fields and values by turns, at
    /// least one pair.
    pub fn append<'v>(
        &mut self,
        id: StreamId,
        pairs: impl Iterator<Item = &'v [u8]> + Clone,
        context: &mut StreamContext,
    ) {
        self.0.log.append(id, pairs, context.limits, &mut context.copied);
    }

    /// Deletes an entry; returns whether it existed.
    pub fn delete(&mut self, id: StreamId, context: &mut StreamContext) -> bool {
        self.0.log.delete(id, &mut context.copied)
    }

    /// Removes the first entries; returns the number removed.
    pub fn trim(&mut self, to: TrimTo, extent: TrimExtent, context: &mut StreamContext) -> u64 {
        self.0.log.trim(to, extent, context)
    }

    /// Sets the last id, the greatest deleted id, and the number of entries ever added. `last_id` must not
    /// be less than any entry's id.
    pub fn set_ids(&mut self, last_id: StreamId, max_deleted_id: StreamId, entries_added: u64) {
        let log = &mut self.0.log;
        (log.last_id, log.max_deleted_id, log.entries_added) = (last_id, max_deleted_id, entries_added);
    }

    /// Number of groups. O(1).
    pub fn groups_len(&self) -> usize {
        self.0.groups.weight().items
    }

    /// The group of this name.
    pub fn group(&self, name: &[u8]) -> Option<&ConsumerGroup> {
        self.0.groups.get(name)
    }

    /// The groups in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = &ConsumerGroup> {
        self.0.groups.iter(None)
    }

    /// Adds a group; `false`, with no change, if the name is taken.
    pub fn add_group(&mut self, group: ConsumerGroup, context: &mut StreamContext) -> bool {
        let name = group.key();
        let is_new = self.group(&name).is_none();
        if is_new {
            self.0.groups.insert(&name, group, &mut context.copied);
        }
        is_new
    }

    /// Removes a group; returns whether it existed.
    pub fn remove_group(&mut self, name: &[u8], context: &mut StreamContext) -> bool {
        let Some(group) = self.0.groups.remove(name, &mut context.copied) else { return false };
        if group.weight().heap > DROPPED_HERE_MAX {
            let mut part = Stream::new();
            part.add_group(group, context);
            context.garbage.push(part);
        }
        true
    }

    /// Calls `change` with a group, the entries, and a count of copied bytes. `change` may modify the group,
    /// and must pass the count to the group's methods. Returns `None` if there is no such group.
    pub fn with_group<R>(
        &mut self,
        name: &[u8],
        context: &mut StreamContext,
        change: impl FnOnce(&mut ConsumerGroup, &EntryLog, &mut u64) -> R,
    ) -> Option<R> {
        let StreamRoot { log, groups } = &mut *self.0;
        groups.update(name, &mut context.copied, |group, copied| change(group, log, copied))
    }
}

#[cfg(test)]
mod tests;
