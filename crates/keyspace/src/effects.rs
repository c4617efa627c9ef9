//! The effects of writes: records of what a command changed, from which the commit after the command derives
//! what to propagate, publish and count.
//!
//! Invariants: (1) every change that a command makes goes through [`crate::DbMut`] or [`crate::Dataset`],
//! which record the key here, and count the changes; (2) effects only record, and the commit, which drains
//! them between commands, acts on them; (3) with no listener and no propagation target a write allocates
//! nothing here, except for garbage, and for keys or fields that it finds expired; (4) `recorded` is set by
//! everything that the commit must look at, except counts of look-ups and of changes.

mod access_log;
mod event;
mod promised;

pub use access_log::{AccessedKey, KeyAccessLog};
pub use event::{Class, Classes, Event};
pub use promised::{CommandSource, EncodedCommands, PromisedCommands};

use crate::{Db, Key, KeyFilter};
use access_log::AccessedKeys;
use sluice_base::heap;
use sluice_value::{Stream, Value};
use std::collections::VecDeque;

/// A key that was modified, or of which an event is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModifiedKey {
    /// Number of the key's database.
    pub db: usize,
    /// The key, as a position among the command's arguments or as a copy.
    pub key: KeyRef,
    /// The event that happened to the key.
    pub event: Event,
    /// Whether the key changed. A few events are published without a change.
    pub is_change: bool,
}

/// A key among the arguments of the running command, or a copy of another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRef {
    /// Position in the command's arguments.
    Arg(u16),
    /// A copy of the key's bytes.
    Owned(Box<[u8]>),
}

impl KeyRef {
    fn of(key: Key<'_>) -> KeyRef {
        match key.arg {
            Key::NO_ARG => KeyRef::Owned(key.bytes.into()),
            arg => KeyRef::Arg(arg),
        }
    }
}

/// A change of a database as a whole. No [`ModifiedKey`] is recorded for its keys, except later for the keys
/// of a flushed slot, when they are freed (`Event::Freed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DbChange {
    /// The database was emptied; it may have been empty before.
    Flushed(usize),
    /// A hash slot (second number) of the database was emptied, and its keys are being freed.
    SlotFlushed(usize, u16),
    /// The two databases were swapped.
    Swapped(usize, usize),
}

impl DbChange {
    /// Whether the change may have removed keys or given them other values without a [`ModifiedKey`] for
    /// each.
    pub fn changes_keys(self) -> bool {
        match self {
            DbChange::Flushed(_) => true,
            DbChange::SlotFlushed(..) => false,
            DbChange::Swapped(a, b) => a != b,
        }
    }
}

/// A command to propagate, as its arguments.
pub type Argv = Vec<Vec<u8>>;

/// What one command, or one step of background work, changed. The commit drains it, and it is reused.
#[derive(Default, Debug)]
pub struct Effects {
    /// Classes of events to record, for notifications, WATCH and tracking. If the set is not empty, changes
    /// of databases are recorded, too.
    listening: Classes,
    /// Whether only changes of `listened_keys` are wanted.
    listening_by_key: bool,
    /// Filter of the keys whose changes are wanted if `listening_by_key` is set.
    listened_keys: KeyFilter,
    /// Set while clients are blocked until a key holds an element; keys that get a value are then recorded as
    /// ready.
    pub blocked_listening: bool,
    /// Set while a client waits until a key no longer exists; if `blocked_listening` is set, too, any change
    /// of a key then makes the key ready.
    pub removal_listening: bool,
    /// Set while replicas or the AOF read the propagation stream.
    pub propagating: bool,
    /// Receivers of published messages other than this server's clients.
    pub message_listeners: MessageListeners,
    /// Size in bytes above which a value is left as garbage, to be freed on another
    /// thread; initially [`LAZY_FREE_BYTES`].
    pub lazyfree_threshold: LazyFreeThreshold,
    recorded: bool,
    changes: u64,
    modified: Vec<ModifiedKey>,
    /// Expired keys that were deleted ahead of the look-ups that miss them; their events are recorded when
    /// these look-ups are made.
    expired_ahead: VecDeque<ModifiedKey>,
    ready: Vec<(usize, KeyRef)>,
    databases: Vec<DbChange>,
    expired_by_read: Vec<(usize, Box<[u8]>)>,
    expired_by_write: Vec<(usize, Box<[u8]>)>,
    evicted: Vec<(usize, Box<[u8]>)>,
    /// Number of keys deleted to make room.
    evicted_keys: u64,
    expired_fields: Vec<ExpiredFields>,
    /// Number of expired fields deleted, for INFO.
    fields_deleted: u64,
    /// Keys deleted with their slot; the replication stream gets one command for the whole slot.
    pub flushed_keys: FlushedKeys,
    propagation: Propagation,
    /// Whether the command has published a message that has not been sent yet.
    pub published: bool,
    hits: u64,
    misses: u64,
    garbage: Vec<Value>,
    /// Old contents of emptied databases, each with the database's number.
    garbage_dbs: Vec<(usize, Db)>,
    free_here: bool,
    met: AccessedKeys,
    left_to_others: u64,
}

/// Fields of a hash that were deleted because they had expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredFields {
    /// Number of the hash's database.
    pub db: usize,
    /// Key of the hash.
    pub key: Box<[u8]>,
    /// Names of the deleted fields.
    pub fields: Vec<Vec<u8>>,
}

/// Size in bytes above which a string in one piece is freed by another thread; for other values, see
/// `Value::is_freed_elsewhere`. Below this size, freeing the block costs less than sending it to the other
/// thread, which must often be woken for that.
pub const LAZY_FREE_BYTES: usize = 1 << 20;

/// A size in bytes, [`LAZY_FREE_BYTES`] by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyFreeThreshold(pub usize);

impl Default for LazyFreeThreshold {
    fn default() -> LazyFreeThreshold {
        LazyFreeThreshold(LAZY_FREE_BYTES)
    }
}

/// The keys of flushed slots, if they are to be recorded.
#[derive(Default, Debug)]
pub struct FlushedKeys {
    /// Whether the names of the keys are recorded.
    pub are_wanted: bool,
    /// Whether clients receive an event for each deletion.
    pub are_published: bool,
    keys: Vec<(usize, Box<[u8]>)>,
}

impl FlushedKeys {
    /// Whether each key of a flushed slot must be reported before any later event.
    pub fn each_is_told(&self) -> bool {
        self.are_wanted || self.are_published
    }

    /// Records a key of a database, if keys are wanted.
    pub fn note(&mut self, db: usize, key: &[u8]) {
        if self.are_wanted {
            self.keys.push((db, key.into()));
        }
    }

    /// The keys recorded since the last call, with their databases.
    pub fn take(&mut self) -> Vec<(usize, Box<[u8]>)> {
        std::mem::take(&mut self.keys)
    }
}

/// Receivers of published messages other than this server's clients.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub enum MessageListeners {
    /// Only the clients of this server.
    #[default]
    None,
    /// Replicas, which get messages through the replication stream.
    Replicas,
    /// The nodes of a cluster, including replicas, which get messages through the cluster bus.
    Nodes,
}

/// How a command appears in the propagation stream.
#[derive(Default, Debug)]
pub enum Propagation {
    /// As the client sent it.
    #[default]
    Verbatim,
    /// As the client sent it, even when nothing changed.
    Forced,
    /// As the client sent it, but only to replicas, even when nothing changed.
    ToReplicas,
    /// As these commands instead; an empty list propagates nothing.
    Rewritten(Vec<Argv>),
    /// As these commands instead, which are encoded already. This form is for so many commands that
    /// allocating each argument would take too long.
    Encoded(EncodedCommands),
    /// As these commands instead; their bytes are made later.
    Promised(PromisedCommands),
}

impl From<EncodedCommands> for Propagation {
    fn from(commands: EncodedCommands) -> Propagation {
        Propagation::Encoded(commands)
    }
}

impl From<PromisedCommands> for Propagation {
    fn from(commands: PromisedCommands) -> Propagation {
        Propagation::Promised(commands)
    }
}

/// Methods for command handlers, mostly about how the commit propagates the command.
impl Effects {
    /// Heap bytes of the lists of keys, databases and garbage, which are empty between commands.
    pub fn footprint(&self) -> usize {
        let ahead = self.expired_ahead.capacity() * size_of::<ModifiedKey>();
        let keys = ahead + heap::vec(&self.modified) + heap::vec(&self.ready) + heap::vec(&self.databases);
        let expired =
            heap::vec(&self.expired_by_read) + heap::vec(&self.expired_by_write) + heap::vec(&self.evicted);
        let expired = expired + heap::vec(&self.expired_fields);
        keys + expired + heap::vec(&self.garbage) + heap::vec(&self.garbage_dbs)
    }

    /// Replaces the command in the propagation stream; the closure runs only if the stream has a reader.
    #[inline]
    pub fn rewrite(&mut self, argv: impl FnOnce() -> Argv) {
        if self.propagating {
            self.recorded = true;
            self.propagation = Propagation::Rewritten(vec![argv()]);
        }
    }

    /// Replaces the command in the propagation stream with several commands, or with none; the closure
    /// runs only if the stream has a reader.
    pub fn rewrite_as(&mut self, commands: impl FnOnce() -> Vec<Argv>) {
        self.recorded = true;
        let commands = if self.propagating { commands() } else { Vec::new() };
        self.propagation = Propagation::Rewritten(commands);
    }

    /// Replaces the command in the propagation stream with commands that are encoded now or later; the
    /// closure runs only if the stream has a reader.
    pub fn rewrite_encoded<C: Into<Propagation>>(&mut self, commands: impl FnOnce() -> C) {
        self.recorded = true;
        self.propagation = match self.propagating {
            true => commands().into(),
            false => Propagation::Encoded(EncodedCommands::default()),
        };
    }

    /// Propagates the command even if it changed nothing.
    pub fn force(&mut self) {
        self.recorded = true;
        self.propagation = Propagation::Forced;
    }

    /// Sends the command to replicas although it changes no data.
    pub fn force_to_replicas(&mut self) {
        self.recorded = true;
        self.propagation = Propagation::ToReplicas;
    }

    /// Records that the command publishes a message to `receivers` subscriptions of this server. Replicas get
    /// the command, although it changes no data, unless the cluster bus carries the message. Nothing is
    /// recorded if there are neither subscriptions nor other listeners.
    #[inline]
    pub fn publish(&mut self, receivers: usize) {
        match self.message_listeners {
            MessageListeners::None if receivers == 0 => return,
            MessageListeners::None | MessageListeners::Replicas => self.force_to_replicas(),
            MessageListeners::Nodes => self.do_not_propagate(),
        }
        self.published = true;
    }

    /// Adds `changes` to the number of changes that the command has made.
    pub fn count_more_changes(&mut self, changes: u64) {
        self.changes += changes;
    }

    /// Excludes the command from the propagation stream.
    pub fn do_not_propagate(&mut self) {
        self.recorded = true;
        self.propagation = Propagation::Rewritten(Vec::new());
    }

    /// Marks the old contents of emptied databases to be freed before the command ends, and not on
    /// another thread, unless a cut of them is open. The freeing costs O(keys).
    pub fn free_databases_here(&mut self) {
        self.free_here = true;
    }
}

/// Methods with which the commit reads and drains the effects.
impl Effects {
    /// From now on, records the events of these classes.
    #[inline]
    pub fn listen(&mut self, classes: Classes) {
        self.listening = classes;
        self.listening_by_key = false;
    }

    /// From now on, records changes of the [`Effects::listened_keys`], some changes of other keys, and
    /// all changes of databases.
    #[inline]
    pub fn listen_by_key(&mut self) {
        self.listening = Classes::CHANGES;
        self.listening_by_key = true;
    }

    /// The filter that [`Effects::listen_by_key`] uses.
    #[inline]
    pub fn listened_keys(&mut self) -> &mut KeyFilter {
        &mut self.listened_keys
    }

    /// Prefetches the parts of the filter that decide whether changes of these keys are recorded.
    #[inline]
    pub fn prefetch_listened(&self, hashes: impl Iterator<Item = u64>) {
        if self.listening_by_key {
            hashes.for_each(|hash| self.listened_keys.prefetch(hash));
        }
    }

    /// Bytes of the filter of keys. O(parts of the filter).
    pub fn listened_footprint(&self) -> usize {
        self.listened_keys.footprint()
    }

    /// Whether any class of events is recorded.
    #[inline]
    pub fn is_listening(&self) -> bool {
        !self.listening.is_empty()
    }

    /// Whether look-ups that find no key are recorded.
    #[inline]
    pub fn records_misses(&self) -> bool {
        self.listening.has(Class::Miss)
    }

    /// Whether anything was recorded since the last call, other than look-ups and changes that
    /// are only counted.
    #[inline]
    pub fn take_recorded(&mut self) -> bool {
        std::mem::take(&mut self.recorded)
    }

    /// Number of look-ups that found a key, and of those that found none, since the last call.
    #[inline]
    pub fn take_lookups(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.hits), std::mem::take(&mut self.misses))
    }

    /// Number of changes since the last call. INFO `rdb_changes_since_last_save` counts them, and a
    /// command with changes is propagated.
    #[inline]
    pub fn take_changes(&mut self) -> u64 {
        std::mem::take(&mut self.changes)
    }

    /// Number of changes since the last `Effects::take_changes`.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a modified key, or a change of a whole database, is recorded.
    #[inline]
    pub fn has_modified(&self) -> bool {
        !self.modified.is_empty() || !self.expired_ahead.is_empty() || !self.databases.is_empty()
    }

    /// Number of modified keys recorded.
    pub fn modified_len(&mut self) -> usize {
        self.record_expired_ahead();
        self.modified.len()
    }

    /// Moves each expiry recorded at `from` or later in front of the first look-up that missed the expired
    /// key, because clients get the events in that order. `name_of` resolves a key to its name. Expiries and
    /// misses were both recorded in the order of the look-ups. Cost: O(recorded).
    pub fn record_expiry_before_miss(&mut self, from: usize, name_of: impl Fn(&KeyRef) -> Box<[u8]>) {
        let mut expired = self.modified.split_off(from).into_iter().peekable();
        let told = std::mem::take(&mut self.modified);
        for item in told {
            let is_missed = |expired: &ModifiedKey| {
                item.event == Event::KeyMiss
                    && item.db == expired.db
                    && name_of(&item.key) == name_of(&expired.key)
            };
            self.modified.extend(expired.next_if(is_missed));
            self.modified.push(item);
        }
        self.modified.extend(expired);
    }

    /// Removes and returns the modified keys, in order; only the recorded classes of events are there.
    pub fn drain_modified(&mut self) -> std::vec::Drain<'_, ModifiedKey> {
        self.record_expired_ahead();
        self.modified.drain(..)
    }

    /// Removes and returns the keys, each with its database, that now hold a value for which clients can
    /// wait, or more of such a value; with `removal_listening`, also all other changed keys. Keys are
    /// recorded only while `blocked_listening` is set.
    pub fn drain_ready(&mut self) -> std::vec::Drain<'_, (usize, KeyRef)> {
        self.ready.drain(..)
    }

    /// Removes and returns the changes of whole databases, in order. Such changes are recorded while events
    /// or ready keys are recorded.
    pub fn take_databases(&mut self) -> Vec<DbChange> {
        std::mem::take(&mut self.databases)
    }

    /// Keys that reads found expired, with their databases; the caller deletes them.
    pub fn take_expired_by_read(&mut self) -> Vec<(usize, Box<[u8]>)> {
        std::mem::take(&mut self.expired_by_read)
    }

    /// Whether reads found expired keys.
    #[inline]
    pub fn has_expired_by_read(&self) -> bool {
        !self.expired_by_read.is_empty()
    }

    /// Keys that writes or the expiry cycle found expired and deleted, with their databases. The deletion of
    /// these keys is propagated before the command.
    #[inline]
    pub fn expired_by_write(&self) -> &[(usize, Box<[u8]>)] {
        &self.expired_by_write
    }

    /// Number of expired fields deleted since the last call.
    #[inline]
    pub fn take_fields_deleted(&mut self) -> u64 {
        std::mem::take(&mut self.fields_deleted)
    }

    /// Expired fields that the expiry cycle has deleted or a command has replaced; they are propagated as
    /// deletions.
    #[inline]
    pub fn expired_fields(&self) -> &[ExpiredFields] {
        &self.expired_fields
    }

    /// Clears the list of expired fields after it was propagated.
    #[inline]
    pub fn clear_expired_fields(&mut self) {
        self.expired_fields.clear();
    }

    /// Clears the list of keys that writes or the expiry cycle found expired, once it is propagated.
    #[inline]
    pub fn clear_expired_by_write(&mut self) {
        self.expired_by_write.clear();
    }

    /// Keys that were deleted to make room, with their databases; recorded only while `propagating`.
    #[inline]
    pub fn evicted(&self) -> &[(usize, Box<[u8]>)] {
        &self.evicted
    }

    /// Number of keys deleted to make room since the last call.
    #[inline]
    pub fn take_evicted_keys(&mut self) -> u64 {
        std::mem::take(&mut self.evicted_keys)
    }

    /// Clears the list of evicted keys after it was propagated.
    #[inline]
    pub fn clear_evicted(&mut self) {
        self.evicted.clear();
    }

    /// The form in which the command is propagated.
    #[inline]
    pub fn propagation(&self) -> &Propagation {
        &self.propagation
    }

    /// Makes the next command propagate as its client sent it.
    #[inline]
    pub fn reset_propagation(&mut self) {
        if !matches!(self.propagation, Propagation::Verbatim) {
            self.propagation = Propagation::Verbatim;
        }
    }

    /// Whether values or databases wait to be freed on another thread.
    #[inline]
    pub fn has_garbage(&self) -> bool {
        !self.garbage.is_empty() || !self.garbage_dbs.is_empty()
    }

    /// Removes and returns the values, and parts of values, that are to be freed on another thread.
    pub fn drain_garbage(&mut self) -> std::vec::Drain<'_, Value> {
        self.garbage.drain(..)
    }

    /// Removes and returns the databases that are to be freed on another thread, or have an open cut.
    /// Databases that [`Effects::free_databases_here`] has marked are freed by this call.
    pub fn drain_garbage_dbs(&mut self) -> impl Iterator<Item = Db> {
        if std::mem::take(&mut self.free_here) {
            self.garbage_dbs.retain(|(_, db)| db.cut_state().is_some());
        }
        self.garbage_dbs.drain(..).map(|(_, db)| db)
    }

    /// The old contents of a database that was emptied, if they have not been drained yet.
    pub fn removed_from(&self, number: usize) -> Option<&Db> {
        self.garbage_dbs.iter().find(|(of, _)| *of == number).map(|(_, db)| db)
    }
}

/// Methods for the check whether a command declares the keys and databases that it accesses.
impl Effects {
    /// From now on, records the keys and databases that are accessed, until [`Effects::take_accesses`].
    pub fn record_accesses(&mut self) {
        self.met.start();
    }

    /// The accesses since recording began. Empty in a build without debug assertions.
    pub fn take_accesses(&mut self) -> KeyAccessLog {
        self.met.take()
    }

    /// Records that a command looks up a key by name.
    #[inline(always)]
    pub(crate) fn meet(&mut self, db: usize, key: Key<'_>) {
        self.met.add(db, key, false);
    }

    /// Records that a command accesses a database as a whole.
    #[inline(always)]
    pub(crate) fn meet_database(&self, db: usize) {
        self.met.add_database(db);
    }

    /// Records that a command has changed a key.
    #[inline(always)]
    fn meet_written(&mut self, db: usize, key: Key<'_>) {
        self.met.add(db, key, true);
    }
}

/// Methods with which the keyspace records effects.
impl Effects {
    /// Counts a look-up that found a key.
    #[inline]
    pub(crate) fn hit(&mut self) {
        self.hits += 1;
    }

    /// Counts a look-up that found no key, and records a `keymiss` event.
    #[inline]
    pub(crate) fn miss(&mut self, db: usize, key: Key<'_>) {
        self.misses += 1;
        if self.listening.has(Class::Miss) {
            self.note_modified(db, key, Event::KeyMiss, false);
        }
    }

    /// Counts a look-up that found no key and publishes no event.
    #[inline]
    pub(crate) fn quiet_miss(&mut self) {
        self.misses += 1;
    }

    /// Records that a key was created; the event of the command itself follows.
    #[inline]
    pub(crate) fn key_created(&mut self, db: usize, key: Key<'_>) {
        if self.listening.has(Class::New) {
            self.note_modified(db, key, Event::New, false);
        }
    }

    /// Counts the bytes of a value that lost its key and is still held by a reply, a snapshot or another key.
    #[inline]
    pub fn leave_to_others(&mut self, value: &Value) {
        if value.is_shared() {
            self.left_to_others += value.heap_bytes() as u64;
        }
    }

    /// Takes a value that lost its key. A large value is left to be freed on another thread; a small one is
    /// freed here, because handing it over costs more. No other function decides where a whole value is
    /// freed.
    #[inline]
    pub fn discard(&mut self, value: Option<Value>) {
        let Some(value) = value else { return };
        self.leave_to_others(&value);
        if value.is_freed_elsewhere(self.lazyfree_threshold.0) {
            self.recorded = true;
            self.garbage.push(value);
        }
    }

    /// Total bytes of values, and of parts of values, that lost their key while a snapshot, a reply or
    /// another key held them. For a part that is shared only in its deeper levels, only the bytes that were
    /// copied count.
    pub fn left_to_others(&self) -> u64 {
        self.left_to_others
    }

    /// Takes a part that a collection has released, and of which `copied` bytes were copied. The part is
    /// always freed on another thread.
    pub(crate) fn discard_part(&mut self, part: Value, copied: usize) {
        if part.is_shared() {
            self.left_to_others += copied as u64;
        }
        self.recorded = true;
        self.garbage.push(part);
    }

    /// Records a modified key, and adds `changes` to the number of changes; `changes` is 0 if the event
    /// counts as no change, such as an expiry.
    #[inline]
    pub(crate) fn key_modified(&mut self, db: usize, key: Key<'_>, event: Event, changes: u64) {
        self.changes += changes;
        if event != Event::Expired {
            self.meet_written(db, key);
        }
        if !self.listening.is_empty() {
            self.note_modified(db, key, event, true);
        }
        if self.removal_listening {
            self.key_ready(db, key);
        }
    }

    /// Records a change of a part of a value, as `changes` changes. No client can wait for such a change, but
    /// transactions that watch the key fail.
    pub(crate) fn state_modified(&mut self, db: usize, key: Key<'_>, event: Event, changes: u64) {
        self.changes += changes;
        self.meet_written(db, key);
        if !self.listening.is_empty() {
            self.note_modified(db, key, event, true);
        }
    }

    /// Records an event of a key that did not change.
    #[cold]
    pub(crate) fn key_told(&mut self, db: usize, key: Key<'_>, event: Event) {
        self.meet_written(db, key);
        if !self.listening.is_empty() {
            self.note_modified(db, key, event, false);
        }
    }

    /// Records that a key now holds a value for which clients can wait, or more of such a value, or that the
    /// key changed while a client waits until it no longer exists.
    #[inline]
    pub(crate) fn key_ready(&mut self, db: usize, key: Key<'_>) {
        if self.blocked_listening {
            self.recorded = true;
            self.ready.push((db, KeyRef::of(key)));
        }
    }

    /// Takes a part that a stream has released; the part is always freed on another thread.
    pub(crate) fn discard_stream(&mut self, part: Stream) {
        self.recorded = true;
        self.garbage.push(Value::Stream(part));
    }

    /// Counts bytes that a change copied because they have another owner, too.
    pub(crate) fn count_copied(&mut self, bytes: u64) {
        self.left_to_others += bytes;
    }

    /// Counts one more change of a key that is recorded already.
    pub(crate) fn count_change(&mut self) {
        self.changes += 1;
    }

    /// Records a change or an event, if a listener may want it. The function is not inlined into its callers,
    /// so that a change of a key without a listener costs little.
    #[cold]
    #[inline(never)]
    fn note_modified(&mut self, db: usize, key: Key<'_>, event: Event, is_change: bool) {
        let is_named = !self.listening_by_key || self.listened_keys.may_have(key.hash);
        if is_named && self.listening.has(event.class()) {
            self.record_modified(db, key, event, is_change);
        }
    }

    #[inline(never)]
    fn record_modified(&mut self, db: usize, key: Key<'_>, event: Event, is_change: bool) {
        self.recorded = true;
        let modified = ModifiedKey { db, key: KeyRef::of(key), event, is_change };
        let is_same = |ahead: &ModifiedKey| ahead.db == db && ahead.key == modified.key;
        if event != Event::KeyMiss {
            self.record_expired_ahead();
        } else if self.expired_ahead.front().is_some_and(is_same) {
            self.modified.extend(self.expired_ahead.pop_front());
        }
        self.modified.push(modified);
    }

    /// Begins the deletion of expired keys that look-ups are about to miss. [`Effects::end_expiring_ahead`]
    /// ends it, and takes the result as `since`.
    pub(crate) fn begin_expiring_ahead(&mut self) -> usize {
        self.modified_len()
    }

    /// Defers the events of keys deleted since `since` to the look-ups that miss them, because clients get
    /// the events in the order of the look-ups. If no misses are recorded, the events stay where they are.
    pub(crate) fn end_expiring_ahead(&mut self, since: usize) {
        if self.records_misses() {
            self.expired_ahead.extend(self.modified.drain(since..));
        }
    }

    #[inline]
    fn record_expired_ahead(&mut self) {
        if !self.expired_ahead.is_empty() {
            self.modified.extend(self.expired_ahead.drain(..));
        }
    }

    /// Records that a read found a key expired.
    #[cold]
    pub(crate) fn expired_by_reading(&mut self, db: usize, key: &[u8]) {
        self.recorded = true;
        self.expired_by_read.push((db, key.into()));
    }

    /// Counts expired fields that were deleted.
    pub fn count_fields_deleted(&mut self, count: u64) {
        self.recorded = true;
        self.fields_deleted += count;
    }

    /// Records that fields of a hash were deleted because they had expired.
    pub(crate) fn fields_expired(&mut self, db: usize, key: Key<'_>, fields: Vec<Vec<u8>>) {
        self.count_fields_deleted(fields.len() as u64);
        self.expired_fields.push(ExpiredFields { db, key: key.bytes.into(), fields });
    }

    /// Propagates the deletion of expired fields ahead of a command that writes them again and keeps the
    /// expiry that a replica has for them. The fields are counted already.
    pub fn propagate_expired_fields(&mut self, db: usize, key: Key<'_>, fields: Vec<Vec<u8>>) {
        self.expired_fields.push(ExpiredFields { db, key: key.bytes.into(), fields });
    }

    /// Records that a key was deleted because it had expired.
    #[cold]
    pub(crate) fn expired(&mut self, db: usize, key: Key<'_>) {
        self.recorded = true;
        self.expired_by_write.push((db, key.bytes.into()));
        self.key_modified(db, key, Event::Expired, 0);
    }

    /// Records that a key was deleted to make room.
    #[cold]
    pub(crate) fn evicted_key(&mut self, db: usize, key: Key<'_>) {
        self.recorded = true;
        self.evicted_keys += 1;
        // The list of names serves only propagation; INFO needs just the count.
        if self.propagating {
            self.evicted.push((db, key.bytes.into()));
        }
        self.key_modified(db, key, Event::Evicted, 0);
    }

    /// Records a change of a whole database, as `changes` changes, and takes its old contents.
    pub(crate) fn database_changed(&mut self, change: DbChange, changes: u64, garbage: Option<(usize, Db)>) {
        self.recorded = true;
        self.changes += changes;
        if self.is_listening() || self.blocked_listening {
            self.databases.push(change);
        }
        self.garbage_dbs.extend(garbage);
    }
}
