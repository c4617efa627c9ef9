//! All databases at once, for FLUSHALL, SWAPDB and loading; this file also opens single databases for
//! commands.

use crate::access::{DbMut, DbRef};
use crate::db::{ChunkMemory, Db, Entry, Meta, freeing, walking};
use crate::effects::{DbChange, Effects, Event};
use crate::hasher::KeyHasher;
use crate::imports::SlotImports;
use crate::{Access, Key, NewValue};
use sluice_base::heap;
use sluice_collections::slab::Slab;

/// All databases of a server.
#[derive(Debug)]
pub struct Keyspace {
    dbs: Vec<Db>,
    hasher: KeyHasher,
    /// Bytes of entries above which a database counts as nearly full; normally [`ROOM`].
    room: usize,
    /// Imports of slots in progress, and slots whose keys are being deleted.
    pub(crate) imports: SlotImports,
    /// Numbers of the databases in which the walk over a slot may be in progress.
    walked: Vec<usize>,
    /// How many times a database was emptied or exchanged as a whole.
    exchanges: u64,
}

/// The limit in bytes at which a database accepts no more writes; each chunk counts at its largest size. Some
/// chunk numbers are reserved for writes before the next check. They suffice, even if all these writes use
/// the smallest blocks, for one batch of commands (a request of the largest size that
/// `client-query-buffer-limit` admits, 1 GiB by default), and for the time until all databases are checked
/// again.
const ROOM: usize = (Slab::CHUNKS_MAX - (2 << 30) / Slab::CHUNK_BYTES_MIN) * Slab::CHUNK_BYTES;

impl Keyspace {
    /// `count` empty databases whose keys are hashed by `hasher`, with the tables of its layout.
    pub fn new(count: usize, hasher: KeyHasher) -> Keyspace {
        let dbs = (0..count).map(|_| Db::new(hasher)).collect();
        Keyspace {
            dbs,
            hasher,
            room: ROOM,
            imports: SlotImports::default(),
            walked: Vec::new(),
            exchanges: 0,
        }
    }

    /// An empty keyspace with the same number of databases and the same hasher, without imports of slots.
    pub fn empty_twin(&self) -> Keyspace {
        let dbs = (0..self.dbs.len()).map(|_| Db::new(self.hasher)).collect();
        Keyspace {
            dbs,
            hasher: self.hasher,
            room: self.room,
            imports: SlotImports::default(),
            walked: Vec::new(),
            exchanges: 0,
        }
    }

    /// Number of databases; they are numbered from 0.
    pub fn databases(&self) -> usize {
        self.dbs.len()
    }

    /// The hasher of all keys.
    pub fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// A key by name, with its hash.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::hashed(bytes, self.hasher)
    }

    /// A database, for statistics and prefetching.
    #[inline]
    pub fn db(&self, number: usize) -> &Db {
        &self.dbs[number]
    }

    /// Every database with its number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Db)> {
        self.dbs.iter().enumerate()
    }

    /// Memory of the entries' chunks, summed over all databases. Cost: one step for each database.
    pub fn chunk_memory(&self) -> ChunkMemory {
        self.dbs.iter().map(Db::chunk_memory).fold(ChunkMemory::default(), ChunkMemory::plus)
    }

    /// Memory of the keyspace in bytes: first the bytes of the entries' blocks, then all other bytes that the
    /// allocator holds for it. Cost: one step for each database, and for each value or key that is stored
    /// outside its entry's block.
    pub fn footprint(&self) -> (usize, usize) {
        let dbs = heap::vec(&self.dbs) + self.imports.footprint();
        (self.chunk_memory().used_bytes, dbs + self.dbs.iter().map(Db::footprint).sum::<usize>())
    }

    /// Whether a database has so many entries that writes must be refused before its handles run out. The
    /// limit is 2^32 entries of up to 256 bytes, or 1 TiB of larger ones, less 3 %. `number` must be below
    /// [`Keyspace::databases`]. O(1).
    #[inline]
    pub fn is_nearly_full(&self, number: usize) -> bool {
        self.dbs[number].entry_bytes_taken() > self.room
    }

    /// Sets the limit in bytes at which a database is nearly full, each chunk counted as 1 MiB. This is for
    /// tests, which cannot fill 1 TiB.
    #[doc(hidden)]
    pub fn set_entry_space_max(&mut self, bytes: usize) {
        self.room = bytes;
    }

    /// Opens a database to read. `number` must be below [`Keyspace::databases`].
    #[inline]
    pub fn read<'a>(&'a self, number: usize, access: Access, effects: &'a mut Effects) -> DbRef<'a> {
        DbRef { db: &self.dbs[number], number, access, effects }
    }

    /// Opens a database to change. `number` must be below [`Keyspace::databases`].
    #[inline]
    pub fn write<'a>(&'a mut self, number: usize, access: Access, effects: &'a mut Effects) -> DbMut<'a> {
        DbMut { dbs: &mut self.dbs, number, access, effects }
    }

    /// Opens all databases to change.
    pub fn dataset<'a>(&'a mut self, access: Access, effects: &'a mut Effects) -> Dataset<'a> {
        Dataset { keyspace: self, access, effects }
    }

    /// Visits the entries of one bucket of a hash slot; returns the next cursor. A walk begins with cursor 0
    /// and ends when 0 is returned. This is for a caller that removes every visited key and continues until
    /// the slot is empty. `number` must be below [`Keyspace::databases`].
    pub fn walk_slot(&self, number: usize, slot: u16, cursor: u64, visit: impl FnMut(Entry<'_>)) -> u64 {
        let (db, mut visit) = (&self.dbs[number], visit);
        let index = db.tables.of_slot(slot);
        index.map_or(0, |index| index.walk(cursor, |handle| visit(db.entry(handle))))
    }

    /// Whether keys of detached slots ([`Dataset::detach_slot`]) are still to be freed. Cost:
    /// one step for each database.
    pub fn has_detached(&self) -> bool {
        self.dbs.iter().any(|db| !db.detached.is_empty())
    }

    /// Detached slots whose keys are not all freed; a slot may appear several times.
    pub fn detached_slots(&self) -> impl Iterator<Item = u16> + '_ {
        self.dbs.iter().flat_map(|db| db.detached.slots())
    }

    /// Whether a key existed when its slot was last detached, and is not freed yet. `number` must
    /// be below [`Keyspace::databases`].
    pub fn was_detached(&self, number: usize, key: Key<'_>) -> bool {
        freeing::was_detached(&self.dbs[number], key)
    }

    /// Frees some dozens of keys of detached slots. The effects invalidate each key for
    /// clients that cache it. The result is `false` if no key was left.
    pub fn free_detached(&mut self, effects: &mut Effects) -> bool {
        let Some(number) = self.dbs.iter().position(|db| !db.detached.is_empty()) else { return false };
        let hasher = self.hasher;
        freeing::free(&mut self.dbs[number], |name, value| {
            effects.discard(value);
            if effects.is_listening() {
                effects.state_modified(number, Key::hashed(name, hasher), Event::Freed, 0);
            }
        });
        true
    }

    /// Opens a cut, a point-in-time view (`db/cut.rs`), of every database that is not empty
    /// ([`Db::begin_cut`]). Cost: one step for each chunk.
    pub fn begin_cut(&mut self) {
        for (number, db) in self.dbs.iter_mut().enumerate().filter(|(_, db)| !db.is_empty()) {
            db.begin_cut(number);
        }
    }

    /// Ends the cuts of all databases; returns what was captured but not taken.
    pub fn end_cut(&mut self) -> Vec<crate::Captured> {
        self.dbs.iter_mut().flat_map(Db::end_cut).collect()
    }

    /// Advances the cut of one database ([`Db::advance_cut`]), whose number must
    /// be below [`Keyspace::databases`].
    pub fn advance_cut(&mut self, number: usize, budget: usize) -> Option<crate::Captured> {
        self.dbs[number].advance_cut(budget)
    }

    /// Takes captured entries of any database ([`Db::take_captured`]).
    pub fn take_captured(&mut self) -> Option<crate::Captured> {
        self.dbs.iter_mut().find_map(Db::take_captured)
    }

    /// Begins a walk over a slot in all databases. Each key is captured once: when the walk reaches it, just
    /// before its first change, or by `Keyspace::capture_read`. A key that enters the slot later is not
    /// captured. Only one walk can be in progress. Cost: one step for each database.
    pub fn begin_slot_walk(&mut self, slot: u16) {
        for (number, db) in self.dbs.iter_mut().enumerate().filter(|(_, db)| db.slot_len(slot) > 0) {
            walking::begin(db, number, slot);
            self.walked.push(number);
        }
    }

    /// Captures a few more entries of the walk; the result is whether any is left.
    pub fn advance_slot_walk(&mut self) -> bool {
        self.walked.iter().any(|number| walking::advance(&mut self.dbs[*number]))
    }

    /// Captures a key that a command reads, unless the walk has captured it already. `number` must
    /// be below [`Keyspace::databases`].
    pub fn capture_read(&mut self, number: usize, name: &[u8]) {
        let key = self.key(name);
        walking::capture_read(&mut self.dbs[number], key);
    }

    /// A copy of a key in its present state; `None` if the key is absent. `number` must be below
    /// [`Keyspace::databases`].
    pub fn image_of(&self, number: usize, name: &[u8]) -> Option<crate::Captured> {
        walking::image_of(&self.dbs[number], number, self.key(name))
    }

    /// Takes what the walk has captured in one of the databases; `None` if nothing is waiting.
    pub fn take_walked(&mut self) -> Option<crate::Captured> {
        self.walked.iter().find_map(|number| walking::take(&mut self.dbs[*number]))
    }

    /// Ends the walk, complete or not.
    pub fn end_slot_walk(&mut self) {
        self.walked.drain(..).for_each(|number| walking::end(&mut self.dbs[number]));
    }

    /// How many times a database was emptied or exchanged as a whole.
    pub fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// Stores a key from a file: the value, the expiry in ms since the epoch and the access clock. Returns
    /// `false`, and changes nothing, if the key exists. The load leaves no effects, so no client may watch
    /// the key or wait for it. `number` must be below [`Keyspace::databases`].
    pub fn load(
        &mut self,
        number: usize,
        name: &[u8],
        value: NewValue<'_>,
        expiry: Option<i64>,
        clock: u32,
    ) -> bool {
        self.load_key(number, Key::hashed(name, self.hasher), value, expiry, clock)
    }

    /// Loads a key whose hash is known; otherwise as [`Keyspace::load`].
    pub fn load_key(
        &mut self,
        number: usize,
        key: Key<'_>,
        value: NewValue<'_>,
        expiry: Option<i64>,
        clock: u32,
    ) -> bool {
        let db = &mut self.dbs[number];
        let absent = db.find(key).is_none();
        if absent {
            db.insert(key, value, Meta { expiry, clock });
        }
        absent
    }

    /// Makes room in an empty database for `keys` keys, of which `expires` have an expiry. The numbers are
    /// only a hint, but the room takes memory: 8 bytes for each key. `number` must be below
    /// [`Keyspace::databases`].
    pub fn reserve(&mut self, number: usize, keys: usize, expires: usize) {
        self.dbs[number].reserve(keys, expires);
    }

    /// Removes a key before it is loaded from a file again, and frees the value at once; leaves no effects.
    /// `number` must be below [`Keyspace::databases`].
    pub fn unload(&mut self, number: usize, name: &[u8]) {
        let key = Key::hashed(name, self.hasher);
        let db = &mut self.dbs[number];
        if let Some(found) = db.find(key) {
            db.remove(found, key);
        }
    }

    pub(crate) fn dbs_mut(&mut self) -> &mut [Db] {
        &mut self.dbs
    }

    /// Shrinks indexes that have become too large, by at most `budget` buckets in each database; the result
    /// is whether more work is left.
    pub fn shrink_step(&mut self, budget: usize) -> bool {
        let mut more = false;
        for db in &mut self.dbs {
            more |= db.shrink_step(budget);
        }
        more
    }
}

/// Whether a replaced database must not be dropped at once, because it has keys, or detached slots to free,
/// or an open cut, which may hold keys that the database no longer has.
fn is_worth_keeping(db: &Db) -> bool {
    !db.is_empty() || !db.detached.is_empty() || db.cut_state().is_some()
}

/// All databases, opened to change.
pub struct Dataset<'a> {
    keyspace: &'a mut Keyspace,
    access: Access,
    /// Collects the effects of changes.
    pub effects: &'a mut Effects,
}

impl Dataset<'_> {
    /// Number of databases; they are numbered from 0.
    pub fn databases(&self) -> usize {
        self.keyspace.databases()
    }

    /// The keyspace, to read.
    pub fn keyspace(&self) -> &Keyspace {
        self.keyspace
    }

    /// Settings under which this command looks up keys.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Opens one database to change. `number` must be below [`Dataset::databases`].
    pub fn db(&mut self, number: usize) -> DbMut<'_> {
        self.keyspace.write(number, self.access, self.effects)
    }

    /// Empties one database. Its old contents go to the effects; the caller frees them now or on another
    /// thread. Returns the number of keys removed. O(1).
    pub fn flush(&mut self, number: usize) -> usize {
        self.effects.meet_database(number);
        let mut twin = Db::new(self.keyspace.hasher);
        twin.tables.hidden = self.keyspace.imports.hidden().cloned();
        self.keyspace.exchanges += 1;
        let old = std::mem::replace(&mut self.keyspace.dbs[number], twin);
        let removed = old.len();
        let garbage = is_worth_keeping(&old).then_some((number, old));
        self.effects.database_changed(DbChange::Flushed(number), removed as u64, garbage);
        removed
    }

    /// Empties a hash slot of all databases, as [`Dataset::detach_slot_of`] does; returns the number of keys
    /// removed. Cost: one step for each database.
    pub fn detach_slot(&mut self, slot: u16) -> usize {
        (0..self.databases()).map(|number| self.detach_slot_of(number, slot)).sum()
    }

    /// Empties a hash slot of a database; [`Keyspace::free_detached`] frees the keys later. The effects mark
    /// the slot as flushed at once for clients that watch its keys or wait for them, and invalidate each key
    /// for clients that cache it when it is freed; no event is published. Returns the number of keys removed.
    /// `number` must be below [`Dataset::databases`]. O(1).
    pub fn detach_slot_of(&mut self, number: usize, slot: u16) -> usize {
        let keys = freeing::detach(&mut self.keyspace.dbs[number], slot);
        if keys > 0 {
            self.effects.meet_database(number);
            self.effects.database_changed(DbChange::SlotFlushed(number, slot), keys as u64, None);
        }
        keys
    }

    /// Replaces all databases with those of `loaded`, which must have as many, and takes over the slot
    /// imports of `loaded`. Slots whose keys are being deleted stay hidden. Watching and waiting clients see
    /// the old databases emptied; the exchange counts as no change. The old databases go to the effects, to
    /// be freed on another thread.
    pub fn replace(&mut self, loaded: Keyspace) {
        assert_eq!(
            loaded.dbs.len(),
            self.keyspace.dbs.len(),
            "a keyspace is replaced by one of the same shape"
        );
        let leaving = self.keyspace.imports.take_leaving();
        self.keyspace.imports = loaded.imports;
        self.keyspace.imports.keep_leaving(leaving);
        self.keyspace.exchanges += 1;
        for (number, db) in loaded.dbs.into_iter().enumerate() {
            let old = std::mem::replace(&mut self.keyspace.dbs[number], db);
            let garbage = is_worth_keeping(&old).then_some((number, old));
            self.effects.database_changed(DbChange::Flushed(number), 0, garbage);
        }
        self.keyspace.tell_databases();
    }

    /// An empty keyspace with the same number of databases and the same hasher.
    pub fn empty_twin(&self) -> Keyspace {
        self.keyspace.empty_twin()
    }

    /// The keyspace, for changes that leave no effects.
    pub fn keyspace_mut(&mut self) -> &mut Keyspace {
        self.keyspace
    }

    /// Exchanges two databases. Both numbers must be below [`Dataset::databases`]. O(1).
    pub fn swap(&mut self, a: usize, b: usize) {
        [a, b].into_iter().for_each(|number| self.effects.meet_database(number));
        self.keyspace.exchanges += 1;
        self.keyspace.dbs.swap(a, b);
        self.effects.database_changed(DbChange::Swapped(a, b), 1, None);
    }
}
