//! Client-side caching: which keys clients have read, and which prefixes they have asked for, so that they
//! are told what has changed.
//!
//! ```text
//!  a reading command ends ──► rows of its keys (table.rs)        ──a key changes──► sent at once, the row goes
//!  CLIENT TRACKING BCAST  ──► prefixes of the client (prefixes.rs) ──a key changes──► one array at the iteration's end
//! ```
//!
//! Invariants: (1) a client that is not on tracks nothing, and its rows are dead: they name a number that no
//! client has; (2) dead rows cost nobody a look at the whole table: a shard of them is swept every
//! 100 ms, and all in slices once they are more than a quarter of the table; (3) nothing here knows a
//! session: the steps send; (4) whoever tracks nothing is asked nothing here: a flag of the session says
//! so; (5) the filter of the effects has all keys that have rows, so that a change of another key costs a
//! look at the filter.

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

/// All that is tracked.
#[derive(Debug, Default)]
pub struct Tracking {
    /// Advanced where the first client begins to track, or the last one ends; and where there is the first
    /// prefix, or none any more.
    epoch: Epoch,
    table: TrackingTable,
    /// Prefixes of clients that are told of every key under them.
    pub prefixes: Prefixes,
    /// Changes that prefixes are being told of.
    pub broadcasts: BroadcastsUnderWay,
    /// By the slot of the client's key.
    pub clients: Vec<Option<Box<TrackingClient>>>,
    client_count: usize,
    /// The number of the last client that has begun.
    last_number: u32,
    /// Items of clients that have ended.
    dead_items: usize,
    /// The shard that is swept next.
    sweep_at: usize,
    /// Shards that are swept in slices, one after the other, because much of the table is dead.
    sweep_left: usize,
    /// When a shard is swept though little of the table is dead, ns of the monotonic clock.
    sweep_due_ns: u64,
    /// Prefixes of clients that have ended, which are removed in slices.
    dead_prefixes: Vec<(Tracker, BTreeSet<Arc<[u8]>>)>,
    /// What tables held that were emptied, to be freed.
    remains: Vec<Vec<Shard>>,
    /// Clients for which something is held back that leaves at the end of an iteration, if no unit stands
    /// open then.
    pub releasing: Vec<SessionKey>,
    /// Clients that were told in place of clients that have ended since.
    pub orphaned: Vec<SessionKey>,
    /// Memory for the receivers of an invalidation.
    pub targets: Vec<SessionKey>,
    /// Slots that have left this server, and whose rows are being taken.
    lost: Option<LostRows>,
}

/// Slots whose rows are taken, a shard of the table after the other.
#[derive(Debug)]
struct LostRows {
    /// For each slot, whether it has left.
    slots: Box<[bool]>,
    /// The shard that comes next.
    shard: usize,
}

/// A client that tracks.
#[derive(Debug)]
pub struct TrackingClient {
    /// Key of the client.
    pub key: SessionKey,
    number: u32,
    /// What it has asked for.
    pub options: TrackingOptions,
    /// The client that its invalidations go to was not there when one was to be sent.
    pub is_broken: bool,
    /// CLIENT CACHING: its next command is an exception to OPTIN or OPTOUT.
    pub caching: bool,
    prefixes: BTreeSet<Arc<[u8]>>,
    /// What they count as its memory.
    prefix_bytes: usize,
    /// Rows that name it.
    items: usize,
    /// What waits for the reply of the unit that runs, or for the end of a slow read: another client is told,
    /// who could be told before the reply.
    pub held: Option<HeldBack>,
}

/// What a client has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingOptions {
    /// Which keys.
    pub mode: TrackingMode,
    /// It is not told of what it writes itself.
    pub no_loop: bool,
    /// Another client is told.
    pub redirect: Option<Redirect>,
}

/// Which keys a client wants to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackingMode {
    /// What it reads.
    Reads,
    /// What it reads with a command behind CLIENT CACHING YES.
    OptIn,
    /// What it reads, but for a command behind CLIENT CACHING NO.
    OptOut,
    /// All keys with its prefixes.
    Broadcast,
}

/// The client that is told in place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Its id, as it was given.
    pub id: ClientId,
    /// Its name in the table of sessions.
    pub key: SessionKey,
}

/// Invalidations that wait.
#[derive(Debug)]
pub enum HeldBack {
    /// Of these keys.
    Keys(Vec<Box<[u8]>>),
    /// Of all keys.
    All,
}

impl Tracking {
    /// No client that caches, under this epoch.
    pub fn new(epoch: Epoch) -> Tracking {
        Tracking { epoch, ..Tracking::default() }
    }

    /// Whether any client tracks.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.client_count > 0
    }

    /// Clients that track.
    pub fn clients(&self) -> usize {
        self.client_count
    }

    /// Keys that are remembered.
    pub fn keys(&self) -> usize {
        self.table.keys()
    }

    /// Clients of all keys that are remembered, those that have ended since included.
    pub fn items(&self) -> usize {
        self.table.items()
    }

    /// What is held against the bounds: keys and items grow it when they are added.
    pub fn load(&self) -> usize {
        self.table.charged_keys() + self.table.items()
    }

    /// Prefixes that clients have asked for, those of clients that have just ended included.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Bytes that the allocator has given. O(clients and prefixes).
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

    /// A client that tracks.
    #[inline]
    pub fn client(&self, key: SessionKey) -> Option<&TrackingClient> {
        self.clients.get(key.slot as usize)?.as_deref().filter(|client| client.key == key)
    }

    /// What is known of a client, to change.
    #[inline]
    pub fn client_mut(&mut self, key: SessionKey) -> Option<&mut TrackingClient> {
        self.clients.get_mut(key.slot as usize)?.as_deref_mut().filter(|client| client.key == key)
    }

    /// The id of the client that is told in place of this one; 0 for itself, -1 where it does not track.
    pub fn redirection(&self, key: SessionKey) -> i64 {
        self.client(key)
            .map_or(-1, |client| client.options.redirect.map_or(0, |redirect| redirect.id.0 as i64))
    }

    /// Bytes of a client's prefixes, as they count for it.
    pub fn heap_bytes(&self, key: SessionKey) -> usize {
        self.client(key).map_or(0, |client| client.prefix_bytes)
    }

    /// A client tracks from now on, or tracks in another way: the way was checked. Its prefixes stay, and
    /// what CLIENT CACHING has said.
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

    /// The connection of a client has ended, or begins anew: what it has read is not told any more, so a
    /// client that was told in its place is to drop all copies.
    pub fn leave(&mut self, key: SessionKey) {
        let Some(client) = self.client(key) else { return };
        let may_have_copies = client.items > 0 || client.held.is_some() || !client.prefixes.is_empty();
        let redirect = client.options.redirect.filter(|redirect| redirect.key != key && may_have_copies);
        self.turn_off(key);
        self.orphaned.extend(redirect.map(|redirect| redirect.key));
    }

    /// A client tracks nothing any more, if it did. What it leaves is freed in slices.
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

    /// A client asks for the keys with this prefix.
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

    /// Remembers that a client has read a key. `name` says what the key is called where it cannot be
    /// found by its hash.
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
            // Where the client that had the slot before stood.
            Added::InPlace => {
                client.items += 1;
                self.dead_items -= 1;
            }
        }
        if !filter.add(hash) {
            self.table.refill(KeyFilter::part_of(hash), filter);
        }
    }

    /// Takes the row of a key, whose clients count it no more.
    #[inline]
    pub fn take_row(&mut self, hash: u64) -> Option<Row> {
        let row = self.table.take(hash)?;
        self.forget_row(&row);
        Some(row)
    }

    /// Takes a row that has to make room, and the hash of its key.
    pub fn take_victim(&mut self) -> Option<(u64, Row)> {
        let (hash, row) = self.table.take_victim()?;
        self.forget_row(&row);
        Some((hash, row))
    }

    /// Slots have left this server: changes of their keys are not told here any more, so that clients that
    /// have read one are to drop the copy, of a key that was not there as well. O(slots) where anything is
    /// remembered.
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

    /// Whether rows of slots that have left are to be taken.
    #[inline]
    pub fn has_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Takes rows of slots that have left: those of a shard, with the hashes of their keys. O(rows of the
    /// shard).
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

    /// What is held back for a client, if anything is, leaves at the end of the iteration.
    pub fn release_held(&mut self, key: SessionKey) {
        if self.client(key).is_some_and(|client| client.held.is_some()) {
            self.releasing.push(key);
        }
    }

    /// The client that a row names, as long as it tracks.
    #[inline]
    pub fn live(&self, tracker: Tracker) -> Option<&TrackingClient> {
        self.clients.get(tracker.slot as usize)?.as_deref().filter(|client| client.number == tracker.number)
    }

    /// Forgets all rows. O(clients).
    pub fn empty(&mut self) {
        (self.dead_items, self.sweep_left) = (0, 0);
        self.clients.iter_mut().flatten().for_each(|client| client.items = 0);
        let shards = self.table.take_all();
        if !shards.is_empty() {
            self.remains.push(shards);
        }
    }

    /// Whether there are more rows than these bounds allow; 0 keys: no bound.
    pub fn is_over(&self, keys_max: usize) -> bool {
        keys_max > 0
            && (self.table.charged_keys() > keys_max
                || self.table.items() > keys_max.saturating_mul(ITEMS_PER_KEY))
    }

    /// Whether prefixes of clients that have ended, emptied tables, or so many dead rows are left that slices
    /// of work are due at once.
    #[inline]
    pub fn has_remains(&self) -> bool {
        self.sweep_left > 0 || !self.remains.is_empty() || !self.dead_prefixes.is_empty()
    }

    /// Whether clients are to drop all copies once no unit stands open: those have ended in whose place they
    /// were told.
    #[inline]
    pub fn has_orphaned(&self) -> bool {
        !self.orphaned.is_empty()
    }

    /// Whether a shard is to be swept now for the few dead rows that there are.
    pub fn is_sweep_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.dead_items > 0 && now_ns >= self.sweep_due_ns;
        if is_due {
            self.sweep_due_ns = now_ns.saturating_add(SWEEP_EVERY_NS);
        }
        is_due
    }

    /// Removes some prefixes of clients that have ended.
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

    /// Frees a part of what is left: some prefixes, a shard, or the rows of one whose clients have ended.
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

    /// Drops the dead rows of a shard.
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
    /// How rows and prefixes name it.
    fn tracker(&self) -> Tracker {
        Tracker { slot: self.key.slot, number: self.number }
    }

    /// Its prefixes, in the order of their bytes.
    pub fn prefixes(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.prefixes.iter().map(|prefix| &**prefix)
    }

    /// The first of its prefixes that begins with `prefix`, or that `prefix` begins with. O(log prefixes).
    pub fn overlapping(&self, prefix: &[u8]) -> Option<&[u8]> {
        // Its prefixes do not begin with each other, but for the empty one, which every prefix begins with.
        let first = self.prefixes.first().filter(|first| first.is_empty());
        let before = self.prefixes.range::<[u8], _>((Unbounded, Excluded(prefix))).next_back();
        let before = before.filter(|before| prefix.starts_with(before));
        let behind = self.prefixes.range::<[u8], _>((Included(prefix), Unbounded)).next();
        let behind = behind.filter(|behind| behind.starts_with(prefix));
        first.or(before).or(behind).map(|found| &**found)
    }

    /// Whether what its next command reads is remembered.
    pub fn remembers(&self) -> bool {
        match self.options.mode {
            TrackingMode::Reads => true,
            TrackingMode::OptIn => self.caching,
            TrackingMode::OptOut => !self.caching,
            TrackingMode::Broadcast => false,
        }
    }

    /// Keeps an invalidation back: of a key, or of all.
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

/// What a prefix counts as memory of its client, beside the name. The name counts in full for each client
/// that asks for it.
const PREFIX_BYTES: usize = size_of::<Arc<[u8]>>() + size_of::<Tracker>();

/// Prefixes of a client that has ended which are removed at once.
const PREFIXES_AT_ONCE: usize = 64;

/// Items are bounded by so many for each key that `tracking-table-max-keys` allows.
pub(crate) const ITEMS_PER_KEY: usize = 64;

/// One of so many items may be dead before all shards are swept in slices.
const DEAD_SHARE: usize = 4;

/// How often a shard is swept where fewer are, ns: all of them in 102 seconds.
const SWEEP_EVERY_NS: u64 = 100_000_000;

/// Bytes of a key's name that is kept back: for a longer one the client is told to drop all it has.
const HELD_NAME_BYTES_MAX: usize = 1024;

/// Keys whose invalidations are kept back for one client; beyond these it is told to drop all it has.
const HELD_MAX: usize = 4096;
