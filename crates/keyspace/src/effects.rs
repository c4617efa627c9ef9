//! What writes leave behind: the facts that the commit turns into consequences.
//!
//! Invariants: (1) every change of the keyspace goes through [`crate::DbMut`] or [`crate::Dataset`] and
//! leaves its key here, with the number of its changes; (2) nothing here acts: the commit drains it between
//! commands; (3) with no listener and no propagation target a write allocates nothing here; (4) `recorded` is
//! set by everything that the commit has to look at, look-ups alone excepted.

mod access_log;
mod event;
mod promised;

pub use access_log::{KeyAccessLog, MetKey};
pub use event::{Class, Classes, Event};
pub use promised::{CommandSource, EncodedCommands, PromisedCommands};

use crate::{Db, Key, KeyFilter};
use access_log::MetKeys;
use sluice_base::heap;
use sluice_value::{Stream, Value};
use std::collections::VecDeque;

/// A modified key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModifiedKey {
    /// Database.
    pub db: usize,
    /// Key.
    pub key: KeyRef,
    /// What happened.
    pub event: Event,
    /// Whether the key has changed. A few events are published without a change.
    pub is_change: bool,
}

/// A key of the running command, or a copy of one that its arguments do not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRef {
    /// Position in the command's arguments.
    Arg(u16),
    /// A copy.
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

/// What happened to a database as a whole: its keys leave no [`ModifiedKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DbChange {
    /// It was emptied, though it may have been empty before.
    Flushed(usize),
    /// A hash slot of the database was emptied: the keys that it had are being freed.
    SlotFlushed(usize, u16),
    /// These two were swapped.
    Swapped(usize, usize),
}

impl DbChange {
    /// Whether a key may have another value than before, of which no [`ModifiedKey`] tells.
    pub fn changes_keys(self) -> bool {
        match self {
            DbChange::Flushed(_) => true,
            DbChange::SlotFlushed(..) => false,
            DbChange::Swapped(a, b) => a != b,
        }
    }
}

/// A command to propagate: its arguments.
pub type Argv = Vec<Vec<u8>>;

/// What one execution unit did. Reused from unit to unit.
#[derive(Default, Debug)]
pub struct Effects {
    /// The events that someone wants, and changes of databases with them: notifications, WATCH, tracking.
    listening: Classes,
    /// Whoever listens has said of which keys.
    listening_by_key: bool,
    /// These keys.
    listened_keys: KeyFilter,
    /// Someone waits for a key to hold something: blocked clients.
    pub blocked_listening: bool,
    /// Someone waits for a key until it is gone: a key that was changed in any way is ready.
    pub removal_listening: bool,
    /// Someone wants the propagation stream: replicas or the AOF.
    pub propagating: bool,
    /// Receivers of published messages beside the clients of this server.
    pub message_listeners: MessageListeners,
    /// Values above this many bytes are left as garbage; [`LAZY_FREE_BYTES`] at first.
    pub lazyfree_threshold: LazyFreeThreshold,
    recorded: bool,
    changes: u64,
    modified: Vec<ModifiedKey>,
    /// Keys that had expired, deleted ahead of the look-ups that miss them: told with these.
    expired_ahead: VecDeque<ModifiedKey>,
    ready: Vec<(usize, KeyRef)>,
    databases: Vec<DbChange>,
    expired_by_read: Vec<(usize, Box<[u8]>)>,
    expired_by_write: Vec<(usize, Box<[u8]>)>,
    evicted: Vec<(usize, Box<[u8]>)>,
    /// How many were deleted to make room.
    evicted_keys: u64,
    expired_fields: Vec<ExpiredFields>,
    /// Fields deleted since their time has passed, for INFO.
    fields_deleted: u64,
    /// Keys that went with their slot, of which the replication stream is told as a whole.
    pub flushed_keys: FlushedKeys,
    propagation: Propagation,
    /// The command has published its message, which nobody has sent yet.
    pub published: bool,
    hits: u64,
    misses: u64,
    garbage: Vec<Value>,
    /// What was in databases that were emptied, with their numbers.
    garbage_dbs: Vec<(usize, Db)>,
    free_here: bool,
    met: MetKeys,
    left_to_others: u64,
}

/// Fields of a hash that were deleted because they had expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredFields {
    /// Database.
    pub db: usize,
    /// Key of the hash.
    pub key: Box<[u8]>,
    /// Their names.
    pub fields: Vec<Vec<u8>>,
}

/// Strings above this many bytes are freed by another thread, where handing one over costs a message and
/// often wakes a thread that sleeps: more than freeing one block of so many bytes does.
pub const LAZY_FREE_BYTES: usize = 1 << 20;

/// A size in bytes, [`LAZY_FREE_BYTES`] by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyFreeThreshold(pub usize);

impl Default for LazyFreeThreshold {
    fn default() -> LazyFreeThreshold {
        LazyFreeThreshold(LAZY_FREE_BYTES)
    }
}

/// Keys of a flushed slot.
#[derive(Default, Debug)]
pub struct FlushedKeys {
    /// Somebody wants to know them.
    pub are_wanted: bool,
    /// Clients hear of each deletion, by its event.
    pub are_published: bool,
    keys: Vec<(usize, Box<[u8]>)>,
}

impl FlushedKeys {
    /// Whether somebody is to hear of each key, ahead of what happens next.
    pub fn each_is_told(&self) -> bool {
        self.are_wanted || self.are_published
    }

    /// Notes a key of a database, if that is wanted.
    pub fn note(&mut self, db: usize, key: &[u8]) {
        if self.are_wanted {
            self.keys.push((db, key.into()));
        }
    }

    /// The keys since the last call, with their databases.
    pub fn take(&mut self) -> Vec<(usize, Box<[u8]>)> {
        std::mem::take(&mut self.keys)
    }
}

/// Receivers of published messages beside the clients of this server.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub enum MessageListeners {
    /// Nobody.
    #[default]
    None,
    /// Replicas, by the replication stream.
    Replicas,
    /// The nodes of a cluster, replicas among them, by its bus.
    Nodes,
}

/// How a command that changed something appears in the propagation stream.
#[derive(Default, Debug)]
pub enum Propagation {
    /// As the client sent it.
    #[default]
    Verbatim,
    /// As the client sent it, even when nothing changed.
    Forced,
    /// As the client sent it, to replicas alone, even when nothing changed.
    ToReplicas,
    /// As these commands instead; none at all when empty.
    Rewritten(Vec<Argv>),
    /// As these commands instead: where they are so many that memory for each argument would take the time.
    Encoded(EncodedCommands),
    /// As these commands instead, whose bytes are made later.
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

/// What handlers say about the propagation of their command.
impl Effects {
    /// Bytes that the allocator has given for the lists, which are empty between commands.
    pub fn footprint(&self) -> usize {
        let ahead = self.expired_ahead.capacity() * size_of::<ModifiedKey>();
        let keys = ahead + heap::vec(&self.modified) + heap::vec(&self.ready) + heap::vec(&self.databases);
        let expired =
            heap::vec(&self.expired_by_read) + heap::vec(&self.expired_by_write) + heap::vec(&self.evicted);
        let expired = expired + heap::vec(&self.expired_fields);
        keys + expired + heap::vec(&self.garbage) + heap::vec(&self.garbage_dbs)
    }

    /// Replaces the command in the propagation stream; the closure runs only when there is a reader of the
    /// stream.
    #[inline]
    pub fn rewrite(&mut self, argv: impl FnOnce() -> Argv) {
        if self.propagating {
            self.recorded = true;
            self.propagation = Propagation::Rewritten(vec![argv()]);
        }
    }

    /// Replaces the command by several in the propagation stream, or by none; the closure runs only when
    /// there is a reader of the stream.
    pub fn rewrite_as(&mut self, commands: impl FnOnce() -> Vec<Argv>) {
        self.recorded = true;
        let commands = if self.propagating { commands() } else { Vec::new() };
        self.propagation = Propagation::Rewritten(commands);
    }

    /// Replaces the command in the propagation stream by commands that are encoded already, or later; the
    /// closure runs only when there is a reader of the stream.
    pub fn rewrite_encoded<C: Into<Propagation>>(&mut self, commands: impl FnOnce() -> C) {
        self.recorded = true;
        self.propagation = match self.propagating {
            true => commands().into(),
            false => Propagation::Encoded(EncodedCommands::default()),
        };
    }

    /// Propagates the command even when it changed nothing.
    pub fn force(&mut self) {
        self.recorded = true;
        self.propagation = Propagation::Forced;
    }

    /// Tells replicas of the command though it changes no data.
    pub fn force_to_replicas(&mut self) {
        self.recorded = true;
        self.propagation = Propagation::ToReplicas;
    }

    /// The command publishes a message, which so many subscriptions of this server receive. It changes no
    /// data, and reaches replicas whether a client of this server receives it or not.
    #[inline]
    pub fn publish(&mut self, receivers: usize) {
        match self.message_listeners {
            MessageListeners::None if receivers == 0 => return,
            MessageListeners::None | MessageListeners::Replicas => self.force_to_replicas(),
            MessageListeners::Nodes => self.do_not_propagate(),
        }
        self.published = true;
    }

    /// The command counts as more changes than its keys.
    pub fn count_more_changes(&mut self, changes: u64) {
        self.changes += changes;
    }

    /// Keeps the command out of the propagation stream.
    pub fn do_not_propagate(&mut self) {
        self.recorded = true;
        self.propagation = Propagation::Rewritten(Vec::new());
    }

    /// Has what is left of emptied databases freed before the command ends, instead of elsewhere. O(keys).
    pub fn free_databases_here(&mut self) {
        self.free_here = true;
    }
}

/// What the commit drains.
impl Effects {
    /// From now on records the events of these classes.
    #[inline]
    pub fn listen(&mut self, classes: Classes) {
        self.listening = classes;
        self.listening_by_key = false;
    }

    /// From now on records changes of the [`Effects::listened_keys`], of others only some, and all changes of
    /// databases.
    #[inline]
    pub fn listen_by_key(&mut self) {
        self.listening = Classes::CHANGES;
        self.listening_by_key = true;
    }

    /// The keys that [`Effects::listen_by_key`] is about.
    #[inline]
    pub fn listened_keys(&mut self) -> &mut KeyFilter {
        &mut self.listened_keys
    }

    /// Asks the processor for what says whether a change of the keys with these hashes is recorded.
    #[inline]
    pub fn prefetch_listened(&self, hashes: impl Iterator<Item = u64>) {
        if self.listening_by_key {
            hashes.for_each(|hash| self.listened_keys.prefetch(hash));
        }
    }

    /// Bytes of these. O(parts of the filter).
    pub fn listened_footprint(&self) -> usize {
        self.listened_keys.footprint()
    }

    /// Whether any event is recorded.
    #[inline]
    pub fn is_listening(&self) -> bool {
        !self.listening.is_empty()
    }

    /// Whether look-ups that find no key are recorded.
    #[inline]
    pub fn records_misses(&self) -> bool {
        self.listening.has(Class::Miss)
    }

    /// Whether anything happened since the last call, apart from look-ups and from changes that are only
    /// counted.
    #[inline]
    pub fn take_recorded(&mut self) -> bool {
        std::mem::take(&mut self.recorded)
    }

    /// Look-ups that found a key, and those that found none, since the last call.
    #[inline]
    pub fn take_lookups(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.hits), std::mem::take(&mut self.misses))
    }

    /// Changes since the last call: what INFO `rdb_changes_since_last_save` counts, and what makes a command
    /// propagate.
    #[inline]
    pub fn take_changes(&mut self) -> u64 {
        std::mem::take(&mut self.changes)
    }

    /// Changes since they were last taken.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a key, or a database as a whole, was modified while modified keys were recorded.
    #[inline]
    pub fn has_modified(&self) -> bool {
        !self.modified.is_empty() || !self.expired_ahead.is_empty() || !self.databases.is_empty()
    }

    /// How many modified keys are recorded.
    pub fn modified_len(&mut self) -> usize {
        self.record_expired_ahead();
        self.modified.len()
    }

    /// Moves each of the expiries recorded from `from` on in front of the first look-up that missed its key:
    /// that is the order in which a client gets the events. `name_of` says what a key is called. Both were
    /// recorded in the order of the look-ups. Cost: O(recorded).
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

    /// Keys that were modified, in order; recorded only for the classes listened to.
    pub fn drain_modified(&mut self) -> std::vec::Drain<'_, ModifiedKey> {
        self.record_expired_ahead();
        self.modified.drain(..)
    }

    /// Keys that came to hold a value that clients can wait for, or more of it: database and key; recorded
    /// only while `blocked_listening`.
    pub fn drain_ready(&mut self) -> std::vec::Drain<'_, (usize, KeyRef)> {
        self.ready.drain(..)
    }

    /// What happened to whole databases, in order; recorded while modified keys are.
    pub fn take_databases(&mut self) -> Vec<DbChange> {
        std::mem::take(&mut self.databases)
    }

    /// Keys that reads found expired, with their databases: they are to be deleted.
    pub fn take_expired_by_read(&mut self) -> Vec<(usize, Box<[u8]>)> {
        std::mem::take(&mut self.expired_by_read)
    }

    /// Whether reads found expired keys.
    #[inline]
    pub fn has_expired_by_read(&self) -> bool {
        !self.expired_by_read.is_empty()
    }

    /// Keys that writes found expired and have deleted, with their databases: they propagate before the
    /// command.
    #[inline]
    pub fn expired_by_write(&self) -> &[(usize, Box<[u8]>)] {
        &self.expired_by_write
    }

    /// Fields that were deleted because their time had passed, since the last call.
    #[inline]
    pub fn take_fields_deleted(&mut self) -> u64 {
        std::mem::take(&mut self.fields_deleted)
    }

    /// Fields that the expiry cycle has deleted: they propagate as deletions.
    #[inline]
    pub fn expired_fields(&self) -> &[ExpiredFields] {
        &self.expired_fields
    }

    /// Forgets them.
    #[inline]
    pub fn clear_expired_fields(&mut self) {
        self.expired_fields.clear();
    }

    /// Forgets them.
    #[inline]
    pub fn clear_expired_by_write(&mut self) {
        self.expired_by_write.clear();
    }

    /// Keys that were deleted to make room, with their databases.
    #[inline]
    pub fn evicted(&self) -> &[(usize, Box<[u8]>)] {
        &self.evicted
    }

    /// How many keys were deleted to make room since this was asked last.
    #[inline]
    pub fn take_evicted_keys(&mut self) -> u64 {
        std::mem::take(&mut self.evicted_keys)
    }

    /// Forgets them.
    #[inline]
    pub fn clear_evicted(&mut self) {
        self.evicted.clear();
    }

    /// How the command propagates when it changed something.
    #[inline]
    pub fn propagation(&self) -> &Propagation {
        &self.propagation
    }

    /// Lets the next command propagate as it was sent.
    #[inline]
    pub fn reset_propagation(&mut self) {
        if !matches!(self.propagation, Propagation::Verbatim) {
            self.propagation = Propagation::Verbatim;
        }
    }

    /// Whether there is something to be freed elsewhere.
    #[inline]
    pub fn has_garbage(&self) -> bool {
        !self.garbage.is_empty() || !self.garbage_dbs.is_empty()
    }

    /// Values too large to be freed on the main thread.
    pub fn drain_garbage(&mut self) -> std::vec::Drain<'_, Value> {
        self.garbage.drain(..)
    }

    /// Whole databases to be freed elsewhere, or of which a cut is open. Those to be freed here are freed by
    /// this call.
    pub fn drain_garbage_dbs(&mut self) -> impl Iterator<Item = Db> {
        if std::mem::take(&mut self.free_here) {
            self.garbage_dbs.retain(|(_, db)| db.cut_state().is_some());
        }
        self.garbage_dbs.drain(..).map(|(_, db)| db)
    }

    /// What a database held before it was emptied, until garbage is drained.
    pub fn removed_from(&self, number: usize) -> Option<&Db> {
        self.garbage_dbs.iter().find(|(of, _)| *of == number).map(|(_, db)| db)
    }
}

/// What the check asks for that a command declares its keys and databases.
impl Effects {
    /// From now on records what is met, until [`Effects::take_met`].
    pub fn record_met(&mut self) {
        self.met.start();
    }

    /// What was met since recording began. Nothing where the build has no debug assertions.
    pub fn take_met(&mut self) -> KeyAccessLog {
        self.met.take()
    }

    /// A command looks a key up by name.
    #[inline(always)]
    pub(crate) fn meet(&mut self, db: usize, key: Key<'_>) {
        self.met.add(db, key, false);
    }

    /// A command meets a database as a whole.
    #[inline(always)]
    pub(crate) fn meet_database(&self, db: usize) {
        self.met.add_database(db);
    }

    /// A command has changed a key.
    #[inline(always)]
    fn meet_written(&mut self, db: usize, key: Key<'_>) {
        self.met.add(db, key, true);
    }
}

/// What the keyspace records.
impl Effects {
    /// A look-up that found a key.
    #[inline]
    pub(crate) fn hit(&mut self) {
        self.hits += 1;
    }

    /// A look-up that found none.
    #[inline]
    pub(crate) fn miss(&mut self, db: usize, key: Key<'_>) {
        self.misses += 1;
        if self.listening.has(Class::Miss) {
            self.note_modified(db, key, Event::KeyMiss, false);
        }
    }

    /// A look-up that found no key, of which no event is published.
    #[inline]
    pub(crate) fn quiet_miss(&mut self) {
        self.misses += 1;
    }

    /// A key came into being: its own event follows.
    #[inline]
    pub(crate) fn key_created(&mut self, db: usize, key: Key<'_>) {
        if self.listening.has(Class::New) {
            self.note_modified(db, key, Event::New, false);
        }
    }

    /// A value lost its key: what somebody else holds of it is not the data's any more.
    #[inline]
    pub fn leave_to_others(&mut self, value: &Value) {
        if value.is_shared() {
            self.left_to_others += value.heap_bytes() as u64;
        }
    }

    /// Takes a value that lost its key: what is large is left to be freed on another thread, what is small is
    /// freed here, as handing it over costs more. The one function that decides.
    #[inline]
    pub fn discard(&mut self, value: Option<Value>) {
        let Some(value) = value else { return };
        self.leave_to_others(&value);
        if value.is_freed_elsewhere(self.lazyfree_threshold.0) {
            self.recorded = true;
            self.garbage.push(value);
        }
    }

    /// Bytes of values, and of parts of them, so far, that lost their key while somebody else held them: a
    /// cut, a reply, another key. A part that is shared below its top counts as far as was copied.
    pub fn left_to_others(&self) -> u64 {
        self.left_to_others
    }

    /// Takes a part that a collection gave away, of which so many bytes were copied: always to be freed
    /// elsewhere.
    pub(crate) fn discard_part(&mut self, part: Value, copied: usize) {
        if part.is_shared() {
            self.left_to_others += copied as u64;
        }
        self.recorded = true;
        self.garbage.push(part);
    }

    /// A modified key, and how many changes that was: 0 for one that expired, which counts elsewhere.
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

    /// A part of a value changed that nobody waits for, as so many changes: transactions that watch the key
    /// fail.
    pub(crate) fn state_modified(&mut self, db: usize, key: Key<'_>, event: Event, changes: u64) {
        self.changes += changes;
        self.meet_written(db, key);
        if !self.listening.is_empty() {
            self.note_modified(db, key, event, true);
        }
    }

    /// An event of a key that changed nothing.
    #[cold]
    pub(crate) fn key_told(&mut self, db: usize, key: Key<'_>, event: Event) {
        self.meet_written(db, key);
        if !self.listening.is_empty() {
            self.note_modified(db, key, event, false);
        }
    }

    /// A key came to hold a value that clients can wait for, or more of it.
    #[inline]
    pub(crate) fn key_ready(&mut self, db: usize, key: Key<'_>) {
        if self.blocked_listening {
            self.recorded = true;
            self.ready.push((db, KeyRef::of(key)));
        }
    }

    /// Takes a part that a stream gave away: always to be freed elsewhere.
    pub(crate) fn discard_stream(&mut self, part: Stream) {
        self.recorded = true;
        self.garbage.push(Value::Stream(part));
    }

    /// Bytes of parts that a change has copied since somebody else holds them.
    pub(crate) fn count_copied(&mut self, bytes: u64) {
        self.left_to_others += bytes;
    }

    /// One more change of a key that is recorded already.
    pub(crate) fn count_change(&mut self) {
        self.changes += 1;
    }

    /// A change or an event, if anybody may want to hear of it. Apart from what records it, so that a change
    /// of a key that nobody has named costs little.
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

    /// From here on, until [`Effects::end_expiring_ahead`], keys are deleted that have expired and that
    /// look-ups are about to miss.
    pub(crate) fn begin_expiring_ahead(&mut self) -> usize {
        self.modified_len()
    }

    /// The keys deleted since then are told each with the look-up that misses the key, in the order of the
    /// look-ups: that is the order in which a client gets the events. Where nobody listens to misses, they
    /// are told at once.
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

    /// A read found a key expired.
    #[cold]
    pub(crate) fn expired_by_reading(&mut self, db: usize, key: &[u8]) {
        self.recorded = true;
        self.expired_by_read.push((db, key.into()));
    }

    /// So many fields were deleted because their time had passed.
    pub fn count_fields_deleted(&mut self, count: u64) {
        self.recorded = true;
        self.fields_deleted += count;
    }

    /// Fields of a hash were deleted because they had expired.
    pub(crate) fn fields_expired(&mut self, db: usize, key: Key<'_>, fields: Vec<Vec<u8>>) {
        self.count_fields_deleted(fields.len() as u64);
        self.expired_fields.push(ExpiredFields { db, key: key.bytes.into(), fields });
    }

    /// Fields that had expired are written anew by a command that keeps what a replica has as their time: it
    /// is told ahead of the command that they are gone. They are counted already.
    pub fn propagate_expired_fields(&mut self, db: usize, key: Key<'_>, fields: Vec<Vec<u8>>) {
        self.expired_fields.push(ExpiredFields { db, key: key.bytes.into(), fields });
    }

    /// A key was deleted because it had expired.
    #[cold]
    pub(crate) fn expired(&mut self, db: usize, key: Key<'_>) {
        self.recorded = true;
        self.expired_by_write.push((db, key.bytes.into()));
        self.key_modified(db, key, Event::Expired, 0);
    }

    /// A key was deleted to make room.
    #[cold]
    pub(crate) fn evicted_key(&mut self, db: usize, key: Key<'_>) {
        self.recorded = true;
        self.evicted_keys += 1;
        // Only who propagates asks for the names.
        if self.propagating {
            self.evicted.push((db, key.bytes.into()));
        }
        self.key_modified(db, key, Event::Evicted, 0);
    }

    /// A change of a whole database, of so many keys, and what is left of it.
    pub(crate) fn database_changed(&mut self, change: DbChange, changes: u64, garbage: Option<(usize, Db)>) {
        self.recorded = true;
        self.changes += changes;
        if self.is_listening() || self.blocked_listening {
            self.databases.push(change);
        }
        self.garbage_dbs.extend(garbage);
    }
}
