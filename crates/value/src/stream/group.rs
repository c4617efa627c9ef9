//! Consumer groups: which entries were sent to each consumer and are not acknowledged yet.
//!
//! Invariants: (1) each pending entry of a group is on the list of exactly one consumer, which the
//! entry names, and each id on such a list is pending in the group; only while a group is loaded, an entry
//! may still lack its consumer; (2) a consumer's number is never reused in its group.

use super::StreamId;
use super::tree::{SharedTree, TreeItem, Weight};
use sluice_base::heap;
use std::cmp::Ordering;
use triomphe::Arc;

/// An entry that was sent to a consumer and is not acknowledged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// Id of the stream entry.
    pub id: StreamId,
    /// Time at which the entry was last sent, ms since the epoch; XCLAIM may set another time.
    pub delivered_ms: i64,
    /// Number of times that the entry was sent; XCLAIM may set another number.
    pub deliveries: u64,
    /// Number of the consumer that the entry was last sent to, or that has claimed it since.
    pub consumer: u32,
}

/// A consumer group: its last id, its consumers and the pending entries.
#[derive(Clone, Debug)]
pub struct ConsumerGroup(Arc<GroupState>);

#[derive(Debug)]
struct GroupState {
    name: Arc<[u8]>,
    last_id: StreamId,
    entries_read: Option<u64>,
    pending: SharedTree<PendingEntry>,
    names: SharedTree<ConsumerName>,
    consumers: SharedTree<StreamConsumer>,
    next_number: u32,
}

impl Clone for GroupState {
    fn clone(&self) -> GroupState {
        GroupState {
            name: self.name.clone(),
            last_id: self.last_id,
            entries_read: self.entries_read,
            pending: self.pending.share(),
            names: self.names.share(),
            consumers: self.consumers.share(),
            next_number: self.next_number,
        }
    }
}

/// A consumer of a group, with its last times of activity.
#[derive(Clone, Debug)]
pub struct StreamConsumer(Arc<ConsumerState>);

#[derive(Debug)]
struct ConsumerState {
    number: u32,
    name: Arc<[u8]>,
    seen_ms: i64,
    active_ms: i64,
    pending: SharedTree<StreamId>,
}

impl Clone for ConsumerState {
    fn clone(&self) -> ConsumerState {
        let pending = self.pending.share();
        ConsumerState { name: self.name.clone(), pending, ..*self }
    }
}

#[derive(Clone, Debug)]
struct ConsumerName {
    name: Arc<[u8]>,
    number: u32,
}

/// A number that no consumer has.
const NO_CONSUMER: u32 = u32::MAX;

/// Bytes allocated for a name.
fn name_bytes(name: &[u8]) -> usize {
    heap::block(size_of::<usize>() + name.len())
}

impl TreeItem for PendingEntry {
    type Key = StreamId;
    type Probe = StreamId;
    fn key(&self) -> StreamId {
        self.id
    }
    fn compare(key: &StreamId, probe: &StreamId) -> Ordering {
        key.cmp(probe)
    }
    fn is_beside(&self, probe: &StreamId) -> Ordering {
        self.id.cmp(probe)
    }
    fn weight(&self) -> Weight {
        Weight { items: 1, ..Weight::default() }
    }
}

impl TreeItem for StreamId {
    type Key = StreamId;
    type Probe = StreamId;
    fn key(&self) -> StreamId {
        *self
    }
    fn compare(key: &StreamId, probe: &StreamId) -> Ordering {
        key.cmp(probe)
    }
    fn is_beside(&self, probe: &StreamId) -> Ordering {
        self.cmp(probe)
    }
    fn weight(&self) -> Weight {
        Weight { items: 1, ..Weight::default() }
    }
}

impl TreeItem for ConsumerName {
    type Key = Arc<[u8]>;
    type Probe = [u8];
    fn key(&self) -> Arc<[u8]> {
        self.name.clone()
    }
    fn compare(key: &Arc<[u8]>, probe: &[u8]) -> Ordering {
        (**key).cmp(probe)
    }
    fn is_beside(&self, probe: &[u8]) -> Ordering {
        (*self.name).cmp(probe)
    }
    fn weight(&self) -> Weight {
        Weight { items: 1, ..Weight::default() }
    }
}

/// Bytes of a consumer without its name and its list of pending ids.
const CONSUMER_BYTES: usize = heap::block(size_of::<usize>() + size_of::<ConsumerState>());

impl TreeItem for StreamConsumer {
    type Key = u32;
    type Probe = u32;
    fn key(&self) -> u32 {
        self.0.number
    }
    fn compare(key: &u32, probe: &u32) -> Ordering {
        key.cmp(probe)
    }
    fn is_beside(&self, probe: &u32) -> Ordering {
        self.0.number.cmp(probe)
    }
    fn weight(&self) -> Weight {
        let heap = CONSUMER_BYTES + name_bytes(&self.0.name) + self.0.pending.weight().heap;
        Weight { items: 1, entries: 0, heap }
    }
    fn own_bytes(&self) -> usize {
        if !self.0.is_unique() {
            return 0;
        }
        CONSUMER_BYTES + name_bytes(&self.0.name) + self.0.pending.own_bytes()
    }
}

/// Bytes of a group without its name and its trees.
const GROUP_BYTES: usize = heap::block(size_of::<usize>() + size_of::<GroupState>());

impl TreeItem for ConsumerGroup {
    type Key = Arc<[u8]>;
    type Probe = [u8];
    fn key(&self) -> Arc<[u8]> {
        self.0.name.clone()
    }
    fn compare(key: &Arc<[u8]>, probe: &[u8]) -> Ordering {
        (**key).cmp(probe)
    }
    fn is_beside(&self, probe: &[u8]) -> Ordering {
        (*self.0.name).cmp(probe)
    }
    fn weight(&self) -> Weight {
        let state = &*self.0;
        let trees = state.pending.weight().heap + state.names.weight().heap + state.consumers.weight().heap;
        Weight { items: 1, entries: 0, heap: GROUP_BYTES + name_bytes(&state.name) + trees }
    }
    fn own_bytes(&self) -> usize {
        if !self.0.is_unique() {
            return 0;
        }
        let state = &*self.0;
        let trees = state.pending.own_bytes() + state.names.own_bytes() + state.consumers.own_bytes();
        GROUP_BYTES + name_bytes(&state.name) + trees
    }
}

impl StreamConsumer {
    /// Number of the consumer, unique in the group.
    pub fn number(&self) -> u32 {
        self.0.number
    }
    /// Name of the consumer, unique in its group.
    pub fn name(&self) -> &[u8] {
        &self.0.name
    }
    /// Time at which the consumer last tried to read or claim entries, ms since the epoch.
    pub fn seen_ms(&self) -> i64 {
        self.0.seen_ms
    }
    /// Time at which the consumer last got an entry, ms since the epoch; -1 for never.
    pub fn active_ms(&self) -> i64 {
        self.0.active_ms
    }
    /// Number of entries that the consumer has not acknowledged. O(1).
    pub fn pending_len(&self) -> usize {
        self.0.pending.weight().items
    }
    /// Ids of the entries that the consumer has not acknowledged, from `from` on.
    pub fn pending_from(&self, from: StreamId) -> impl Iterator<Item = StreamId> {
        self.0.pending.iter(Some(&from)).copied()
    }
    /// The greatest id that the consumer has not acknowledged.
    pub fn last_pending(&self) -> Option<StreamId> {
        self.0.pending.last().copied()
    }
}

impl ConsumerGroup {
    /// A group without consumers.
    pub fn new(name: &[u8], last_id: StreamId, entries_read: Option<u64>) -> ConsumerGroup {
        ConsumerGroup(Arc::new(GroupState {
            name: Arc::from(name),
            last_id,
            entries_read,
            pending: SharedTree::default(),
            names: SharedTree::default(),
            consumers: SharedTree::default(),
            next_number: 0,
        }))
    }

    /// Name of the group, unique in its stream.
    pub fn name(&self) -> &[u8] {
        &self.0.name
    }
    /// The id after which the group continues to read: the id of the last entry sent to a consumer, unless a
    /// command has set another id.
    pub fn last_id(&self) -> StreamId {
        self.0.last_id
    }
    /// Number of entries that were sent to consumers; `None` if it is not known.
    pub fn entries_read(&self) -> Option<u64> {
        self.0.entries_read
    }
    /// Number of entries that are not acknowledged. O(1).
    pub fn pending_len(&self) -> usize {
        self.0.pending.weight().items
    }
    /// Number of consumers. O(1).
    pub fn consumers_len(&self) -> usize {
        self.0.consumers.weight().items
    }
    /// The pending entry of an id.
    pub fn pending(&self, id: StreamId) -> Option<PendingEntry> {
        self.0.pending.get(&id).copied()
    }
    /// The pending entries from an id on.
    pub fn pending_from(&self, from: StreamId) -> impl Iterator<Item = PendingEntry> {
        self.0.pending.iter(Some(&from)).copied()
    }
    /// The greatest id of a pending entry.
    pub fn last_pending(&self) -> Option<StreamId> {
        self.0.pending.last().map(|entry| entry.id)
    }
    /// The consumer of this name.
    pub fn consumer(&self, name: &[u8]) -> Option<&StreamConsumer> {
        self.consumer_of(self.0.names.get(name)?.number)
    }
    /// The consumer of this number.
    pub fn consumer_of(&self, number: u32) -> Option<&StreamConsumer> {
        self.0.consumers.get(&number)
    }
    /// The consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = &StreamConsumer> {
        self.0.names.iter(None).filter_map(|name| self.consumer_of(name.number))
    }

    fn state(&mut self, copied: &mut u64) -> &mut GroupState {
        if !self.0.is_unique() {
            *copied += GROUP_BYTES as u64;
        }
        Arc::make_mut(&mut self.0)
    }

    /// Sets the id of the last entry sent, and the number of entries read.
    pub fn set_position(&mut self, last_id: StreamId, entries_read: Option<u64>, copied: &mut u64) {
        let state = self.state(copied);
        (state.last_id, state.entries_read) = (last_id, entries_read);
    }

    /// Adds a consumer and returns its number; `None` if the name is taken.
    pub fn add_consumer(&mut self, name: &[u8], now_ms: i64, copied: &mut u64) -> Option<u32> {
        if self.0.names.get(name).is_some() {
            return None;
        }
        let state = self.state(copied);
        let number = state.next_number;
        // The number does not overflow in practice, because this would take four thousand million consumers
        // of one group.
        state.next_number = number.checked_add(1)?;
        let shared: Arc<[u8]> = Arc::from(name);
        state.names.insert(name, ConsumerName { name: shared.clone(), number }, copied);
        let pending = SharedTree::default();
        let consumer = ConsumerState { number, name: shared, seen_ms: now_ms, active_ms: -1, pending };
        state.consumers.insert(&number, StreamConsumer(Arc::new(consumer)), copied);
        Some(number)
    }

    /// Removes a consumer and its pending entries; returns how many these were, or `None` if there is no such
    /// consumer. Cost: O(pending entries).
    pub fn remove_consumer(&mut self, name: &[u8], copied: &mut u64) -> Option<usize> {
        let number = self.0.names.get(name)?.number;
        let state = self.state(copied);
        state.names.remove(name, copied);
        let consumer = state.consumers.remove(&number, copied)?;
        for id in consumer.pending_from(StreamId::MIN) {
            state.pending.remove(&id, copied);
        }
        Some(consumer.pending_len())
    }

    /// Records when a consumer tried to read or claim, and, if `active_ms` is given, when it got an entry.
    pub fn note_seen(&mut self, number: u32, seen_ms: i64, active_ms: Option<i64>, copied: &mut u64) {
        self.change_consumer(number, copied, |consumer, _| {
            consumer.seen_ms = seen_ms;
            consumer.active_ms = active_ms.unwrap_or(consumer.active_ms);
        });
    }

    fn change_consumer(
        &mut self,
        number: u32,
        copied: &mut u64,
        change: impl FnOnce(&mut ConsumerState, &mut u64),
    ) {
        self.state(copied).consumers.update(&number, copied, |consumer, copied| {
            if !consumer.0.is_unique() {
                *copied += CONSUMER_BYTES as u64;
            }
            change(Arc::make_mut(&mut consumer.0), copied);
        });
    }

    /// Makes an entry pending. An entry that is pending already moves to the consumer that `entry` names.
    pub fn set_pending(&mut self, entry: PendingEntry, copied: &mut u64) {
        let before = self.pending(entry.id).map(|before| before.consumer);
        self.state(copied).pending.insert(&entry.id, entry, copied);
        if before == Some(entry.consumer) {
            return;
        }
        if let Some(before) = before {
            self.change_consumer(before, copied, |consumer, copied| {
                consumer.pending.remove(&entry.id, copied);
            });
        }
        self.change_consumer(entry.consumer, copied, |consumer, copied| {
            consumer.pending.insert(&entry.id, entry.id, copied);
        });
    }

    /// Adds a pending entry that was read from a file, before its consumer is known; `false`, with no
    /// change, if the id is pending already. Only for a group that is being loaded:
    /// [`ConsumerGroup::load_owner`] must follow for each entry.
    pub fn load_pending(&mut self, id: StreamId, delivered_ms: i64, deliveries: u64) -> bool {
        let is_new = self.pending(id).is_none();
        if is_new {
            let entry = PendingEntry { id, delivered_ms, deliveries, consumer: NO_CONSUMER };
            self.state(&mut 0).pending.insert(&id, entry, &mut 0);
        }
        is_new
    }

    /// Sets the consumer of a pending entry; `false`, with no change, if there is no such entry or it
    /// has a consumer.
    pub fn load_owner(&mut self, id: StreamId, consumer: u32) -> bool {
        match self.pending(id) {
            Some(entry) if entry.consumer == NO_CONSUMER => {
                let state = self.state(&mut 0);
                state.pending.insert(&id, PendingEntry { consumer, ..entry }, &mut 0);
                self.change_consumer(consumer, &mut 0, |consumer, copied| {
                    consumer.pending.insert(&id, id, copied);
                });
                true
            }
            Some(_) | None => false,
        }
    }

    /// Removes an entry from the pending ones; returns whether it was pending.
    pub fn acknowledge(&mut self, id: StreamId, copied: &mut u64) -> bool {
        if self.pending(id).is_none() {
            return false;
        }
        let Some(entry) = self.state(copied).pending.remove(&id, copied) else { return false };
        self.change_consumer(entry.consumer, copied, |consumer, copied| {
            consumer.pending.remove(&id, copied);
        });
        true
    }
}
