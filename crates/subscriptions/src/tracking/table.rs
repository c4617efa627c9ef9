//! The table of tracked keys: for each key read by a tracking client, the clients to notify of a change.
//!
//! A row is found by the 64-bit hash of the key's name, for all databases together, so a change of `foo` in
//! one database notifies clients that have read `foo` in another. When a row is evicted, its clients are sent
//! the name of the key, which is found by the hash. So a row keeps the name only of a key that the hash would
//! not find: one that was missing in the reader's database, or was read in a database that is not searched.
//!
//! Invariants: (1) `keys` and `items` are the sums over all rows; (2) a row contains at least one client,
//! each once; (3) no step costs more than work on one shard, a thousandth of the table, because each shard
//! grows, is swept and is freed separately.

use sluice_base::{IdentityHasher, heap};
use sluice_keyspace::KeyFilter;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

/// A client in rows: its slot, and the number it got when it began to track. The number no longer matches
/// once the client has ended or turned tracking off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tracker {
    /// Slot of the client's session key.
    pub slot: u32,
    /// Tracking number, counted over all clients.
    pub number: u32,
}

/// Rows by the hash of the key, in shards.
#[derive(Debug, Default)]
pub(super) struct TrackingTable {
    /// [`SHARDS`] elements, or none before the first row.
    shards: Vec<Shard>,
    keys: usize,
    items: usize,
    /// Bytes that rows own outside of the shards.
    row_bytes: usize,
    /// Number of additional keys as which the names kept in rows count (see [`NAME_BYTES_PER_KEY`]).
    charged_names: usize,
    /// The shard that gives the next row to evict.
    victims_at: usize,
}

/// The rows of the keys whose hashes belong to one shard.
#[derive(Debug, Default)]
pub(super) struct Shard {
    cells: HashMap<u64, RowCell, BuildHasherDefault<IdentityHasher>>,
    /// Rows that do not fit a cell.
    more: Vec<Trackers>,
}

/// A row in 8 bytes: its only client, if the row keeps no name; otherwise an index in the shard's `more`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowCell(u64);

/// The clients that have read a key, removed from the table.
#[derive(Debug)]
pub enum Row {
    /// One client, and no name.
    One(Tracker),
    /// A row that does not fit a cell, in general because it has several clients or a name.
    More(Trackers),
}

/// A row that does not fit a cell.
#[derive(Debug)]
pub struct Trackers {
    /// The hash of the key, to find the cell.
    hash: u64,
    /// The readers, sorted by slot, then by number.
    clients: Vec<Tracker>,
    /// The key's name, if the key cannot be found by its hash.
    name: Option<Box<[u8]>>,
}

impl Row {
    /// The clients, in the order of their slots.
    pub fn clients(&self) -> &[Tracker] {
        match self {
            Row::One(client) => std::slice::from_ref(client),
            Row::More(more) => &more.clients,
        }
    }

    /// The key's name, if it is kept.
    pub fn name(&self) -> Option<&[u8]> {
        match self {
            Row::One(_) => None,
            Row::More(more) => more.name.as_deref(),
        }
    }
}

impl RowCell {
    const MORE: u64 = 1 << 63;

    /// A cell for one client; `None` if the client's slot is so large that it needs the bit that marks an
    /// index.
    fn one(client: Tracker) -> Option<RowCell> {
        let bits = u64::from(client.slot) << 32 | u64::from(client.number);
        (bits & RowCell::MORE == 0).then_some(RowCell(bits))
    }

    fn more(at: usize) -> RowCell {
        RowCell(RowCell::MORE | at as u64)
    }

    fn get(self) -> Result<Tracker, usize> {
        match self.0 & RowCell::MORE {
            0 => Ok(Tracker { slot: (self.0 >> 32) as u32, number: self.0 as u32 }),
            _ => Err((self.0 & !RowCell::MORE) as usize),
        }
    }
}

impl Shard {
    /// Removes an element of `more`; the last element takes its index.
    fn remove_more(&mut self, at: usize) -> Trackers {
        let removed = self.more.swap_remove(at);
        if let Some(cell) = self.more.get(at).and_then(|moved| self.cells.get_mut(&moved.hash)) {
            *cell = RowCell::more(at);
        }
        // Room for twice the remaining rows is kept, so that the next rows need no growth.
        if self.more.len() < self.more.capacity() / 4 {
            self.more.shrink_to(self.more.len() * 2);
        }
        removed
    }

    /// Bytes of heap memory of the shard's map and list, without memory owned by rows.
    pub(super) fn bytes(&self) -> usize {
        if self.cells.capacity() == 0 {
            return heap::vec(&self.more);
        }
        // At most seven of eight slots of the map are used; small maps have 4 or 8 slots.
        let slots = (self.cells.capacity() * 8 / 7).next_power_of_two();
        heap::block(slots * (size_of::<(u64, RowCell)>() + 1) + GROUP_BYTES) + heap::vec(&self.more)
    }
}

/// The effect of adding a client to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The row contained the client already.
    Nothing,
    /// The client replaced an entry of the same slot with an older number.
    InPlace,
    /// The row has one more item.
    Item,
}

impl Trackers {
    /// Bytes that the row owns.
    fn bytes(&self) -> usize {
        heap::vec(&self.clients) + self.name.as_deref().map_or(0, |name| heap::block(name.len()))
    }

    /// Number of additional keys that the name counts as.
    fn charged_name(&self) -> usize {
        self.name.as_deref().map_or(0, |name| name.len() / NAME_BYTES_PER_KEY)
    }

    /// Adds a client; an entry of the same slot with an older number is replaced.
    fn add(&mut self, client: Tracker) -> Added {
        let at = match self.clients.binary_search(&client) {
            Ok(_) => return Added::Nothing,
            Err(at) => at,
        };
        // Numbers grow, so an older entry of the same slot stands just before the new one.
        if let Some(before) = at.checked_sub(1).map(|before| &mut self.clients[before])
            && before.slot == client.slot
        {
            *before = client;
            return Added::InPlace;
        }
        if self.clients.len() == self.clients.capacity() {
            // The capacity grows by a quarter, not by doubling, because rows of many clients take most
            // of the memory.
            self.clients.reserve_exact((self.clients.len() / 4).max(CLIENTS_MIN));
        }
        self.clients.insert(at, client);
        Added::Item
    }
}

impl TrackingTable {
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Number of rows, plus one for every [`NAME_BYTES_PER_KEY`] bytes of each name.
    pub(super) fn charged_keys(&self) -> usize {
        self.keys + self.charged_names
    }

    /// Number of clients in all rows.
    pub(super) fn items(&self) -> usize {
        self.items
    }

    /// Bytes of heap memory of the table and its rows. O(shards).
    pub(super) fn footprint(&self) -> usize {
        heap::vec(&self.shards) + self.shards.iter().map(Shard::bytes).sum::<usize>() + self.row_bytes
    }

    /// Records that a client has read a key. `name` is called for a new row only, and returns the key's
    /// name if the key cannot be found by its hash.
    pub(super) fn add(
        &mut self,
        hash: u64,
        client: Tracker,
        name: impl FnOnce() -> Option<Box<[u8]>>,
    ) -> Added {
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, Shard::default);
        }
        let Shard { cells, more } = &mut self.shards[shard_of(hash)];
        match cells.entry(hash) {
            Entry::Occupied(mut cell) => match cell.get().get() {
                Ok(one) if one == client => Added::Nothing,
                Ok(one) if one.slot == client.slot => {
                    if let Some(newer) = RowCell::one(client) {
                        cell.insert(newer);
                    }
                    Added::InPlace
                }
                Ok(one) => {
                    let mut clients = Vec::with_capacity(CLIENTS_MIN);
                    clients.extend([client.min(one), client.max(one)]);
                    cell.insert(RowCell::more(more.len()));
                    more.push(Trackers { hash, clients, name: None });
                    self.items += 1;
                    self.row_bytes += more.last().map_or(0, Trackers::bytes);
                    Added::Item
                }
                Err(at) => {
                    let row = &mut more[at];
                    let before = row.bytes();
                    let added = row.add(client);
                    self.items += usize::from(added == Added::Item);
                    self.row_bytes += row.bytes() - before;
                    added
                }
            },
            Entry::Vacant(cell) => {
                let name = name();
                match RowCell::one(client).filter(|_| name.is_none()) {
                    Some(one) => {
                        cell.insert(one);
                    }
                    None => {
                        cell.insert(RowCell::more(more.len()));
                        let row = Trackers { hash, clients: vec![client], name };
                        self.row_bytes += row.bytes();
                        self.charged_names += row.charged_name();
                        more.push(row);
                    }
                }
                self.keys += 1;
                self.items += 1;
                Added::Item
            }
        }
    }

    /// Rebuilds the filter's part for a shard from the shard's rows. O(rows of the shard).
    pub(super) fn refill(&self, shard: usize, filter: &mut KeyFilter) {
        if let Some(rows) = self.shards.get(shard) {
            filter.refill(shard, rows.cells.keys().copied());
        }
    }

    /// Removes and returns the row of a key.
    #[inline]
    pub(super) fn take(&mut self, hash: u64) -> Option<Row> {
        if self.keys == 0 {
            return None;
        }
        let shard = &mut self.shards[shard_of(hash)];
        let row = match shard.cells.remove(&hash)?.get() {
            Ok(client) => Row::One(client),
            Err(at) => Row::More(shard.remove_more(at)),
        };
        self.keys -= 1;
        self.items -= row.clients().len();
        if let Row::More(more) = &row {
            self.row_bytes -= more.bytes();
            self.charged_names -= more.charged_name();
        }
        Some(row)
    }

    /// The hashes in a shard for which `is_such` holds. O(rows of the shard).
    pub(super) fn hashes_of(&self, shard: usize, is_such: impl Fn(u64) -> bool) -> Vec<u64> {
        let rows = self.shards.get(shard).into_iter().flat_map(|shard| shard.cells.keys());
        rows.copied().filter(|hash| is_such(*hash)).collect()
    }

    /// Removes and returns an arbitrary row. The shards take turns, because repeated removal from one shard
    /// would scan ever more empty cells at its beginning.
    pub(super) fn take_victim(&mut self) -> Option<(u64, Row)> {
        for _ in 0..self.shards.len() {
            let at = self.victims_at;
            self.victims_at = (at + 1) % SHARDS;
            if let Some(hash) = self.shards[at].cells.keys().next().copied() {
                return Some((hash, self.take(hash)?));
            }
        }
        None
    }

    /// Empties the table in O(1). Returns the shards, to be freed in slices.
    pub(super) fn take_all(&mut self) -> Vec<Shard> {
        let shards = std::mem::take(&mut self.shards);
        *self = TrackingTable { victims_at: self.victims_at, ..TrackingTable::default() };
        shards
    }

    /// Removes the clients of one shard for which `alive` is false, and rows that become empty. Returns the
    /// numbers of removed items and inspected rows. O(rows and items of the shard).
    pub(super) fn sweep(&mut self, at: usize, alive: impl Fn(Tracker) -> bool) -> Swept {
        let Some(shard) = self.shards.get_mut(at) else { return Swept::default() };
        let mut swept = Swept { looked_at: shard.cells.len(), dropped: 0 };
        let row_bytes = &mut self.row_bytes;
        let Shard { cells, more } = &mut *shard;
        cells.retain(|_, cell| match cell.get() {
            Ok(client) => {
                let stays = alive(client);
                swept.dropped += usize::from(!stays);
                stays
            }
            Err(at) => {
                let row = &mut more[at];
                let before = row.clients.len();
                *row_bytes -= row.bytes();
                row.clients.retain(|client| alive(*client));
                if row.clients.len() < row.clients.capacity() / 2 {
                    row.clients.shrink_to_fit();
                }
                let stays = !row.clients.is_empty();
                if stays {
                    *row_bytes += row.bytes();
                }
                swept.dropped += before - row.clients.len();
                stays
            }
        });
        // Rows are visited from the end, because the element that is moved into a freed index was visited
        // already, and stays.
        for at in (0..shard.more.len()).rev() {
            if shard.more[at].clients.is_empty() {
                self.charged_names -= shard.remove_more(at).charged_name();
            }
        }
        self.items -= swept.dropped;
        self.keys -= swept.looked_at - shard.cells.len();
        if shard.cells.len() < shard.cells.capacity() / 4 {
            shard.cells.shrink_to_fit();
        }
        if shard.more.len() < shard.more.capacity() / 4 {
            shard.more.shrink_to_fit();
        }
        swept
    }
}

/// The result of sweeping a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Swept {
    /// Number of rows inspected.
    pub looked_at: usize,
    /// Number of items removed.
    pub dropped: usize,
}

/// The shard of a key. Each shard corresponds to one part of the filter.
fn shard_of(hash: u64) -> usize {
    KeyFilter::part_of(hash)
}

/// Number of shards, equal to the number of parts of the filter.
pub(super) const SHARDS: usize = KeyFilter::PARTS;
/// Initial capacity of a row of several clients.
const CLIENTS_MIN: usize = 2;
/// This many bytes of a kept name count as one key, so that `tracking-table-max-keys` also bounds bytes.
pub(super) const NAME_BYTES_PER_KEY: usize = 64;
/// Control bytes that the standard library's maps repeat at the end of their table.
const GROUP_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use std::collections::{BTreeMap, BTreeSet};

    /// The rows, kept in a plain map for comparison.
    #[derive(Default)]
    struct Oracle(BTreeMap<u64, BTreeMap<u32, u32>>);

    impl Oracle {
        fn check(&self, table: &TrackingTable) {
            assert_eq!(table.keys(), self.0.len());
            assert_eq!(table.items(), self.0.values().map(BTreeMap::len).sum::<usize>());
            let bytes = table.shards.iter().flat_map(|shard| &shard.more).map(Trackers::bytes).sum::<usize>();
            assert_eq!(table.row_bytes, bytes);
            let rows = table.shards.iter().flat_map(|shard| &shard.more);
            assert_eq!(table.charged_names, rows.map(Trackers::charged_name).sum::<usize>());
            for shard in &table.shards {
                let listed = shard.more.iter().enumerate().map(|(at, row)| (row.hash, RowCell::more(at)));
                assert!(listed.into_iter().all(|(hash, cell)| shard.cells[&hash] == cell));
                let cells = shard.cells.values().filter(|cell| cell.get().is_err()).count();
                assert_eq!(cells, shard.more.len());
            }
        }
    }

    #[test]
    fn the_table_is_what_an_ordered_map_says() {
        let mut rng = Rng::new(27);
        let (mut table, mut oracle, mut sweep_at) = (TrackingTable::default(), Oracle::default(), 0);
        let mut numbers = [1_u32; 40];
        let mut alive: BTreeSet<(u32, u32)> = (0..40).map(|slot| (slot, 1)).collect();
        let (mut dropped, mut in_place) = (0, 0);
        for step in 0..60_000 {
            // Few hashes in few shards are used, so that all cases occur.
            let hash = rng.below(300) << 30 | rng.below(3);
            let slot = rng.below(40) as u32;
            let client = Tracker { slot, number: numbers[slot as usize] };
            match rng.below(100) {
                0..70 => {
                    let before = oracle.0.get(&hash).and_then(|row| row.get(&slot)).copied();
                    let named = rng.below(2) == 0;
                    let added =
                        table.add(hash, client, || named.then(|| vec![b'n'; hash as usize % 300].into()));
                    let expected = match before {
                        None => Added::Item,
                        Some(number) if number == client.number => Added::Nothing,
                        Some(_) => Added::InPlace,
                    };
                    in_place += usize::from(added == Added::InPlace);
                    assert_eq!(added, expected);
                    oracle.0.entry(hash).or_default().insert(slot, client.number);
                }
                70..90 => {
                    let row = table.take(hash);
                    let found = row.map(|row| row.clients().iter().map(|c| (c.slot, c.number)).collect());
                    assert_eq!(found, oracle.0.remove(&hash));
                }
                90..92 => {
                    if let Some((hash, row)) = table.take_victim() {
                        let row: BTreeMap<u32, u32> =
                            row.clients().iter().map(|c| (c.slot, c.number)).collect();
                        assert_eq!(Some(row), oracle.0.remove(&hash));
                    } else {
                        assert!(oracle.0.is_empty());
                    }
                }
                92..94 => {
                    alive.remove(&(slot, client.number));
                    numbers[slot as usize] += 1;
                    alive.insert((slot, numbers[slot as usize]));
                }
                94..99 => {
                    sweep_at = (sweep_at + 1) % SHARDS;
                    let swept = table.sweep(sweep_at, |c| alive.contains(&(c.slot, c.number)));
                    let mut gone = 0;
                    for (_, row) in oracle.0.iter_mut().filter(|(hash, _)| shard_of(**hash) == sweep_at) {
                        let before = row.len();
                        row.retain(|slot, number| alive.contains(&(*slot, *number)));
                        gone += before - row.len();
                    }
                    oracle.0.retain(|_, row| !row.is_empty());
                    assert_eq!(swept.dropped, gone);
                    dropped += gone;
                }
                _ if step % 50 == 0 => {
                    let shards = table.take_all();
                    assert_eq!(shards.iter().map(|shard| shard.cells.len()).sum::<usize>(), oracle.0.len());
                    oracle.0.clear();
                }
                _ => {}
            }
            if step % 64 == 0 {
                oracle.check(&table);
            }
        }
        assert!(dropped > 100 && in_place > 100, "{dropped} {in_place}");
    }

    #[test]
    fn rows_that_are_taken_give_their_memory_back() {
        let (mut table, mut rng) = (TrackingTable::default(), Rng::new(2));
        let hashes: Vec<u64> = (0..100_000).map(|_| rng.next_u64()).collect();
        for hash in &hashes {
            for slot in 0..2 {
                table.add(*hash, Tracker { slot, number: 0 }, || None);
            }
        }
        let lists =
            |table: &TrackingTable| table.shards.iter().map(|shard| heap::vec(&shard.more)).sum::<usize>();
        let before = lists(&table);
        assert!(hashes.iter().all(|hash| table.take(*hash).is_some()));
        assert!(lists(&table) < before / 20, "{} of {before}", lists(&table));
        assert_eq!((table.keys(), table.items(), table.row_bytes), (0, 0, 0));
    }

    #[test]
    fn a_row_of_one_client_takes_a_few_words() {
        assert_eq!(size_of::<(u64, RowCell)>(), 16);
        let mut table = TrackingTable::default();
        let mut rng = Rng::new(1);
        for _ in 0..200_000 {
            table.add(rng.next_u64(), Tracker { slot: 0, number: 0 }, || None);
        }
        assert!(table.footprint() < 40 * table.keys(), "{}", table.footprint() / table.keys());
    }
}
