//! Client-side caching: the keys that clients have read and the prefixes that they have registered, so
//! that changes can be reported to them.
//!
//! ```text
//!  a reading command ends ──► rows of its keys (table.rs)        ──a key changes──► sent at once, the row goes
//!  CLIENT TRACKING BCAST  ──► prefixes of the client (prefixes.rs) ──a key changes──► one array at the iteration's end
//! ```
//!
//! Invariants: (1) a client that does not track has no entry, and its old items in rows (the entries that
//! name it) are dead, because their tracking number belongs to no client; (2) removing dead items never needs
//! a scan of the whole table at once: one shard is swept every 100 ms, and all shards in slices once more
//! than a quarter of the items is dead; (3) this crate has only the keys of sessions, never the sessions: the
//! engine sends; (4) a client that does not track costs no look-up here, because a flag of the session says
//! so; (5) the filter that commands check at each change (`KeyFilter`) contains all keys with rows, so a
//! change of any other key usually costs only one look at the filter.

pub mod broadcast;
pub mod prefixes;
pub mod table;
mod tree;

use crate::tracking::broadcast::BroadcastsUnderWay;
use crate::tracking::prefixes::Prefixes;
use crate::tracking::table::{Added, Row, SHARDS, Shard, Tracker, TrackingTable};
use sluice_base::crc16::SLOT_COUNT;
use sluice_base::heap;
use sluice_base::{ClientId, Epoch, SessionKey};
use sluice_keyspace::{KeyFilter, slot_of};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// The state of client-side caching for all clients.
#[derive(Debug, Default)]
pub struct Tracking {
    /// Advanced when the first client begins to track and when the last one ends, and when the first
    /// prefix is registered and the last one is removed.
    epoch: Epoch,
    table: TrackingTable,
    /// Prefixes of clients in BCAST mode.
    pub prefixes: Prefixes,
    /// Changes of keys, by their prefixes, that are being sent to clients in BCAST mode.
    pub broadcasts: BroadcastsUnderWay,
    /// Indexed by the slot of the client's key.
    pub clients: Vec<Option<Box<TrackingClient>>>,
    client_count: usize,
    /// The tracking number of the client that began to track last.
    last_number: u32,
    /// Number of items in rows that belong to clients that no longer track.
    dead_items: usize,
    /// The next shard to sweep.
    sweep_at: usize,
    /// Number of shards still to be swept in slices, because many items are dead.
    sweep_left: usize,
    /// Time of the next sweep of one shard while few items are dead, in ns of the monotonic clock.
    sweep_due_ns: u64,
    /// Prefixes of clients that no longer track, to be removed in slices.
    dead_prefixes: Vec<(Tracker, BTreeSet<Arc<[u8]>>)>,
    /// Shards of emptied tables, to be freed in slices.
    remains: Vec<Vec<Shard>>,
    /// Clients whose held-back invalidations are sent at the end of an iteration, unless a transaction or
    /// script is suspended.
    pub releasing: Vec<SessionKey>,
    /// Redirection targets of clients whose tracking was ended by a disconnection or by RESET; these targets
    /// have to drop all copies.
    pub orphaned: Vec<SessionKey>,
    /// Reused memory for the receivers of an invalidation.
    pub targets: Vec<SessionKey>,
    /// Hash slots that this server no longer owns, and whose rows are being removed.
    lost: Option<LostRows>,
}

/// Hash slots that this server has lost; their rows are removed one shard of the table at a time.
#[derive(Debug)]
struct LostRows {
    /// For each slot, whether it is lost.
    slots: Box<[bool]>,
    /// The next shard to search.
    shard: usize,
}

/// A client with tracking turned on.
#[derive(Debug)]
pub struct TrackingClient {
    /// The session of the tracking client.
    pub key: SessionKey,
    number: u32,
    /// The options of CLIENT TRACKING.
    pub options: TrackingOptions,
    /// The redirection target no longer existed when an invalidation was due.
    pub is_broken: bool,
    /// CLIENT CACHING was called: the next command is an exception to OPTIN or OPTOUT.
    pub caching: bool,
    prefixes: BTreeSet<Arc<[u8]>>,
    /// Bytes of the prefixes that count as the client's memory.
    prefix_bytes: usize,
    /// Number of rows that contain the client.
    items: usize,
    /// Invalidations for the redirection target, held back until the reply of the running command or
    /// transaction, or of a slow read, is sent. Otherwise the target could be notified before the reply to an
    /// older read.
    pub held: Option<HeldBack>,
}

/// The options of CLIENT TRACKING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingOptions {
    /// The keys whose changes are reported.
    pub mode: TrackingMode,
    /// NOLOOP: the client's own writes are not reported to it.
    pub no_loop: bool,
    /// The client that receives the invalidations; `None` for the client itself.
    pub redirect: Option<Redirect>,
}

/// The keys whose changes are reported to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackingMode {
    /// Every key that the client reads.
    Reads,
    /// Keys that the client reads in a command after CLIENT CACHING YES.
    OptIn,
    /// Keys that the client reads, except in a command after CLIENT CACHING NO.
    OptOut,
    /// All keys that begin with one of the client's prefixes, read or not.
    Broadcast,
}

/// The client that receives the invalidations of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The client id given to REDIRECT.
    pub id: ClientId,
    /// The session of that client, looked up when tracking was turned on.
    pub key: SessionKey,
}

/// Invalidations that are sent later.
#[derive(Debug)]
pub enum HeldBack {
    /// These keys have changed.
    Keys(Vec<Box<[u8]>>),
    /// All copies have to be dropped.
    All,
}

impl Tracking {
    /// The state without tracking clients, which advances `epoch` (see the field).
    pub fn new(epoch: Epoch) -> Tracking {
        Tracking { epoch, ..Tracking::default() }
    }

    /// Whether any client tracks.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.client_count > 0
    }

    /// Number of clients that track.
    pub fn clients(&self) -> usize {
        self.client_count
    }

    /// Number of keys with a row.
    pub fn keys(&self) -> usize {
        self.table.keys()
    }

    /// Number of items, that is clients in all rows, including clients that no longer track.
    pub fn items(&self) -> usize {
        self.table.items()
    }

    /// Keys and items together; grows when a row or an item is added. A key whose long name is kept counts as
    /// several keys.
    pub fn load(&self) -> usize {
        self.table.charged_keys() + self.table.items()
    }

    /// Number of registered prefixes, including those of ended clients that are not yet removed.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Bytes of heap memory for tracking, as the allocator rounds them. O(clients and prefixes).
    pub fn footprint(&self) -> usize {
        let client = |client: &TrackingClient| {
            let held = match &client.held {
                Some(HeldBack::Keys(keys)) => {
                    heap::vec(keys) + keys.iter().map(|key| heap::block(key.len())).sum::<usize>()
                }
                Some(HeldBack::All) | None => 0,
            };
            heap::boxed::<TrackingClient>() + heap::tree::<Arc<[u8]>, ()>(client.prefixes.len()) + held
        };
        let dead = |(_, names): &(Tracker, BTreeSet<Arc<[u8]>>)| heap::tree::<Arc<[u8]>, ()>(names.len());
        let remains =
            |shards: &Vec<Shard>| heap::vec(shards) + shards.iter().map(Shard::bytes).sum::<usize>();
        self.table.footprint()
            + self.prefixes.footprint()
            + self.broadcasts.footprint()
            + heap::vec(&self.clients)
            + self.clients.iter().flatten().map(|own| client(own)).sum::<usize>()
            + heap::vec(&self.dead_prefixes)
            + self.dead_prefixes.iter().map(dead).sum::<usize>()
            + heap::vec(&self.remains)
            + self.remains.iter().map(remains).sum::<usize>()
            + heap::vec(&self.releasing)
            + heap::vec(&self.orphaned)
            + heap::vec(&self.targets)
    }

    /// The entry of a client; `None` if the client does not track.
    #[inline]
    pub fn client(&self, key: SessionKey) -> Option<&TrackingClient> {
        self.clients.get(key.slot as usize)?.as_deref().filter(|client| client.key == key)
    }

    /// The entry of a client, to be changed; `None` if the client does not track.
    #[inline]
    pub fn client_mut(&mut self, key: SessionKey) -> Option<&mut TrackingClient> {
        self.clients.get_mut(key.slot as usize)?.as_deref_mut().filter(|client| client.key == key)
    }

    /// The id of the client's redirection target; 0 for the client itself, -1 if the client does not track.
    pub fn redirection(&self, key: SessionKey) -> i64 {
        self.client(key)
            .map_or(-1, |client| client.options.redirect.map_or(0, |redirect| redirect.id.0 as i64))
    }

    /// Bytes of prefixes that count as the client's memory.
    pub fn heap_bytes(&self, key: SessionKey) -> usize {
        self.client(key).map_or(0, |client| client.prefix_bytes)
    }

    /// Turns tracking on, or changes its options, which the caller has checked. Prefixes and the state of
    /// CLIENT CACHING are kept.
    pub fn turn_on(&mut self, key: SessionKey, options: TrackingOptions) {
        if let Some(client) = self.client_mut(key) {
            client.options = options;
            client.is_broken = false;
            return;
        }
        let slot = key.slot as usize;
        if self.clients.len() <= slot {
            self.clients.resize_with(slot + 1, || None);
        }
        self.last_number = self.last_number.wrapping_add(1);
        self.clients[slot] = Some(Box::new(TrackingClient {
            key,
            number: self.last_number,
            options,
            is_broken: false,
            caching: false,
            prefixes: BTreeSet::new(),
            prefix_bytes: 0,
            items: 0,
            held: None,
        }));
        self.client_count += 1;
        if self.client_count == 1 {
            self.epoch.advance();
        }
    }

    /// Ends tracking for a client that has disconnected or has sent RESET. Changes of keys that it has read
    /// are no longer reported, so its redirection target has to drop all copies if it may have any.
    pub fn leave(&mut self, key: SessionKey) {
        let Some(client) = self.client(key) else { return };
        let may_have_copies = client.items > 0 || client.held.is_some() || !client.prefixes.is_empty();
        let redirect = client.options.redirect.filter(|redirect| redirect.key != key && may_have_copies);
        self.turn_off(key);
        self.orphaned.extend(redirect.map(|redirect| redirect.key));
    }

    /// Turns tracking off; no effect if it is off. Rows and prefixes are freed in slices.
    pub fn turn_off(&mut self, key: SessionKey) {
        if self.client(key).is_none() {
            return;
        }
        let Some(client) = self.clients[key.slot as usize].take() else { return };
        if !client.prefixes.is_empty() {
            self.dead_prefixes.push((client.tracker(), client.prefixes));
            self.free_prefixes();
        }
        self.dead_items += client.items;
        if self.dead_items > self.table.items() / DEAD_SHARE {
            self.sweep_left = SHARDS;
        }
        self.client_count -= 1;
        if self.client_count == 0 {
            self.epoch.advance();
            self.clients = Vec::new();
            self.releasing = Vec::new();
            self.targets = Vec::new();
            self.empty();
        }
    }

    /// Registers a prefix for a client in BCAST mode.
    pub fn add_prefix(&mut self, key: SessionKey, prefix: &[u8]) {
        let Some(tracker) = self.client(key).map(TrackingClient::tracker) else { return };
        let name = self.prefixes.add(prefix, tracker);
        if self.prefixes.len() == 1 {
            self.epoch.advance();
        }
        let Some(client) = self.client_mut(key) else { return };
        let bytes = PREFIX_BYTES + prefixes::name_bytes(&name);
        if client.prefixes.insert(name) {
            client.prefix_bytes += bytes;
        }
    }

    /// Records that a client has read a key. `name` returns the key's name if the key cannot be found
    /// by its hash.
    #[inline]
    pub fn remember(
        &mut self,
        key: SessionKey,
        hash: u64,
        filter: &mut KeyFilter,
        name: impl FnOnce() -> Option<Box<[u8]>>,
    ) {
        let Some(client) = self.clients.get_mut(key.slot as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        let tracker = Tracker { slot: key.slot, number: client.number };
        match self.table.add(hash, tracker, name) {
            Added::Nothing => {}
            Added::Item => client.items += 1,
            // The item has replaced that of an ended client with the same slot.
            Added::InPlace => {
                client.items += 1;
                self.dead_items -= 1;
            }
        }
        if !filter.add(hash) {
            self.table.refill(KeyFilter::part_of(hash), filter);
        }
    }

    /// Removes and returns the row of a key, and reduces the item counts of its clients.
    #[inline]
    pub fn take_row(&mut self, hash: u64) -> Option<Row> {
        let row = self.table.take(hash)?;
        self.forget_row(&row);
        Some(row)
    }

    /// Removes and returns an arbitrary row, with the hash of its key, to make room.
    pub fn take_victim(&mut self) -> Option<(u64, Row)> {
        let (hash, row) = self.table.take_victim()?;
        self.forget_row(&row);
        Some((hash, row))
    }

    /// Notes hash slots that this server has lost. Changes of their keys are no longer reported, so clients
    /// that have read such a key, present or missing, have to drop their copy. O(slots) if any row exists.
    pub fn note_lost(&mut self, slots: impl Iterator<Item = u16>) {
        if self.table.keys() == 0 {
            return;
        }
        let mut lost = self.lost.take().map_or_else(
            || vec![false; usize::from(SLOT_COUNT)].into_boxed_slice(),
            |under_way| under_way.slots,
        );
        for slot in slots {
            lost[usize::from(slot)] = true;
        }
        self.lost = Some(LostRows { slots: lost, shard: 0 });
    }

    /// Whether rows of lost slots remain to be taken.
    #[inline]
    pub fn has_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Removes and returns the rows of lost slots in one shard, with the hashes of their keys. O(rows
    /// of the shard).
    pub fn take_lost(&mut self) -> Vec<(u64, Row)> {
        let Some(lost) = &mut self.lost else { return Vec::new() };
        let hashes = self.table.hashes_of(lost.shard, |hash| lost.slots[slot_of(hash)]);
        lost.shard += 1;
        if lost.shard == SHARDS {
            self.lost = None;
        }
        hashes.into_iter().filter_map(|hash| Some((hash, self.take_row(hash)?))).collect()
    }

    fn forget_row(&mut self, row: &Row) {
        for tracker in row.clients() {
            match self.clients.get_mut(tracker.slot as usize).and_then(Option::as_deref_mut) {
                Some(client) if client.number == tracker.number => client.items -= 1,
                Some(_) | None => self.dead_items -= 1,
            }
        }
    }

    /// Schedules the held-back invalidations of a client, if any, to be sent at the end of the iteration.
    pub fn release_held(&mut self, key: SessionKey) {
        if self.client(key).is_some_and(|client| client.held.is_some()) {
            self.releasing.push(key);
        }
    }

    /// The client that a row names; `None` if it no longer tracks.
    #[inline]
    pub fn live(&self, tracker: Tracker) -> Option<&TrackingClient> {
        self.clients.get(tracker.slot as usize)?.as_deref().filter(|client| client.number == tracker.number)
    }

    /// Removes all rows. O(clients).
    pub fn empty(&mut self) {
        (self.dead_items, self.sweep_left) = (0, 0);
        self.clients.iter_mut().flatten().for_each(|client| client.items = 0);
        let shards = self.table.take_all();
        if !shards.is_empty() {
            self.remains.push(shards);
        }
    }

    /// Whether the table exceeds its bounds on keys and items; `keys_max` 0 means no bound.
    pub fn is_over(&self, keys_max: usize) -> bool {
        keys_max > 0
            && (self.table.charged_keys() > keys_max
                || self.table.items() > keys_max.saturating_mul(ITEMS_PER_KEY))
    }

    /// Whether slices of work are due at once: prefixes of ended clients, emptied tables, or many dead items.
    #[inline]
    pub fn has_remains(&self) -> bool {
        self.sweep_left > 0 || !self.remains.is_empty() || !self.dead_prefixes.is_empty()
    }

    /// Whether redirection targets of ended clients have to drop all copies once no transaction or script is
    /// suspended.
    #[inline]
    pub fn has_orphaned(&self) -> bool {
        !self.orphaned.is_empty()
    }

    /// Whether one shard is to be swept now although few items are dead. Schedules the next such sweep.
    pub fn is_sweep_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.dead_items > 0 && now_ns >= self.sweep_due_ns;
        if is_due {
            self.sweep_due_ns = now_ns.saturating_add(SWEEP_EVERY_NS);
        }
        is_due
    }

    /// Removes up to `PREFIXES_AT_ONCE` prefixes of an ended client.
    fn free_prefixes(&mut self) {
        let Some((tracker, names)) = self.dead_prefixes.last_mut() else { return };
        for name in std::iter::from_fn(|| names.pop_first()).take(PREFIXES_AT_ONCE) {
            self.prefixes.remove(&name, *tracker);
        }
        if self.prefixes.len() == 0 {
            self.epoch.advance();
        }
        if names.is_empty() {
            self.dead_prefixes.pop();
            self.dead_prefixes.shrink_to_fit();
        }
    }

    /// Does one slice of work: frees some prefixes or one shard of an emptied table, or else
    /// sweeps one shard.
    pub fn free_some(&mut self, filter: &mut KeyFilter) {
        if !self.dead_prefixes.is_empty() {
            return self.free_prefixes();
        }
        if let Some(shards) = self.remains.last_mut() {
            drop(shards.pop());
            if shards.is_empty() {
                self.remains.pop();
                self.remains.shrink_to_fit();
            }
            return;
        }
        self.sweep(filter);
    }

    /// Removes the dead items of the next shard, and rows that become empty. If any items were removed,
    /// rebuilds the filter's part for the shard.
    pub fn sweep(&mut self, filter: &mut KeyFilter) {
        let Tracking { table, clients, .. } = self;
        let is_live = |tracker: Tracker| {
            let client = clients.get(tracker.slot as usize).and_then(Option::as_deref);
            client.is_some_and(|client| client.number == tracker.number)
        };
        let swept = table.sweep(self.sweep_at, is_live);
        if swept.dropped > 0 {
            table.refill(self.sweep_at, filter);
        }
        self.sweep_at = (self.sweep_at + 1) % SHARDS;
        self.dead_items -= swept.dropped;
        self.sweep_left = if self.dead_items == 0 { 0 } else { self.sweep_left.saturating_sub(1) };
    }
}

impl TrackingClient {
    /// The value that stands for this client in rows and prefixes.
    fn tracker(&self) -> Tracker {
        Tracker { slot: self.key.slot, number: self.number }
    }

    /// The registered prefixes, in the order of their bytes.
    pub fn prefixes(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.prefixes.iter().map(|prefix| &**prefix)
    }

    /// The first registered prefix that begins with `prefix` or is a beginning of it. O(log prefixes).
    pub fn overlapping(&self, prefix: &[u8]) -> Option<&[u8]> {
        // Registered prefixes do not begin with each other, except that all begin with the empty one.
        let first = self.prefixes.first().filter(|first| first.is_empty());
        let before = self.prefixes.range::<[u8], _>((Unbounded, Excluded(prefix))).next_back();
        let before = before.filter(|before| prefix.starts_with(before));
        let behind = self.prefixes.range::<[u8], _>((Included(prefix), Unbounded)).next();
        let behind = behind.filter(|behind| behind.starts_with(prefix));
        first.or(before).or(behind).map(|found| &**found)
    }

    /// Whether the keys read by the next command are recorded.
    pub fn remembers(&self) -> bool {
        match self.options.mode {
            TrackingMode::Reads => true,
            TrackingMode::OptIn => self.caching,
            TrackingMode::OptOut => !self.caching,
            TrackingMode::Broadcast => false,
        }
    }

    /// Holds back an invalidation of one key, or of all keys if `name` is `None`. If the name is too long, or
    /// too many names are held back already, all keys count as invalidated instead.
    pub fn hold(&mut self, name: Option<&[u8]>) {
        match (&mut self.held, name) {
            (Some(HeldBack::All), _) => {}
            (Some(HeldBack::Keys(keys)), Some(name))
                if keys.len() < HELD_MAX && name.len() <= HELD_NAME_BYTES_MAX =>
            {
                keys.push(name.into());
            }
            (None, Some(name)) if name.len() <= HELD_NAME_BYTES_MAX => {
                self.held = Some(HeldBack::Keys(vec![name.into()]))
            }
            (Some(HeldBack::Keys(_)) | None, _) => self.held = Some(HeldBack::All),
        }
    }
}

/// Bytes that a prefix adds to its client's memory, besides the name. The name counts in full for each client
/// that has registered it.
const PREFIX_BYTES: usize = size_of::<Arc<[u8]>>() + size_of::<Tracker>();

/// Number of prefixes of an ended client that are removed in one slice.
const PREFIXES_AT_ONCE: usize = 64;

/// Number of items allowed for each key that `tracking-table-max-keys` allows.
pub(crate) const ITEMS_PER_KEY: usize = 64;

/// If more than one item in this many is dead, all shards are swept in slices.
const DEAD_SHARE: usize = 4;

/// Time between sweeps of one shard, in ns, unless [`DEAD_SHARE`] requires a sweep of all shards. A pass over
/// all shards takes 102 seconds.
const SWEEP_EVERY_NS: u64 = 100_000_000;

/// The longest key name that is held back, in bytes; for a longer one the client has to drop all copies.
const HELD_NAME_BYTES_MAX: usize = 1024;

/// Maximum number of keys held back for one client; if more change, the client has to drop all copies.
const HELD_MAX: usize = 4096;
