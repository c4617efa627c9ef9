//! The table of tracked keys: for each key that somebody has read, who is to be told when the key changes.
//!
//! A row is found by the 64-bit hash of the key's name, over all databases: a change of `foo` in one database
//! tells whoever has read `foo` in another. Names are not kept, but of keys that the reader's database did
//! not hold: whoever evicts a row must name the key, and finds the name of a key that is there by its hash.
//!
//! Invariants: (1) `keys` and `items` are the sums over all rows; (2) a row names at least one client, each
//! once; (3) nothing here costs more than a shard does, a thousandth of the table: a shard grows by itself,
//! is swept by itself and freed by itself.

use sluice_base::{HashItself, heap};
use sluice_keyspace::KeyFilter;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

/// A client in rows: its slot, and the number of the time at which it began to track. A client that has
/// ended, or has ended tracking, is not found by it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tracker {
    /// Slot of the client's session.
    pub slot: u32,
    /// Which of its times of tracking, over all clients.
    pub number: u32,
}

/// Rows by the hash of their key.
#[derive(Debug, Default)]
pub(super) struct TrackingTable {
    /// As many as [`SHARDS`], or none before the first row.
    shards: Vec<Shard>,
    keys: usize,
    items: usize,
    /// Bytes that rows own outside of the shards.
    row_bytes: usize,
    /// What names in rows count as further keys.
    charged_names: usize,
    /// The shard that gives the next victim.
    victims_at: usize,
}

/// A part of the rows.
#[derive(Debug, Default)]
pub(super) struct Shard {
    cells: HashMap<u64, RowCell, BuildHasherDefault<HashItself>>,
    /// What does not fit a cell.
    more: Vec<Trackers>,
}

/// What a row takes in its shard, in 8 bytes: one client that has read a key that was there, or the position
/// of more in the shard's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowCell(u64);

/// The clients that have read a key, out of the table.
#[derive(Debug)]
pub enum Row {
    /// One, and the key was there.
    One(Tracker),
    /// More, or a key that was not there.
    More(Trackers),
}

/// Clients that have read a key.
#[derive(Debug)]
pub struct Trackers {
    /// The hash by which the row is found.
    hash: u64,
    /// Sorted.
    clients: Vec<Tracker>,
    /// The key's name, where the key cannot be found by its hash.
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

    /// The key's name, where it is kept.
    pub fn name(&self) -> Option<&[u8]> {
        match self {
            Row::One(_) => None,
            Row::More(more) => more.name.as_deref(),
        }
    }
}

impl RowCell {
    const MORE: u64 = 1 << 63;

    /// One client; none for a slot that leaves no room for the mark.
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
    /// Removes what stands in the list, whose last element comes to stand there.
    fn remove_more(&mut self, at: usize) -> Trackers {
        let removed = self.more.swap_remove(at);
        if let Some(cell) = self.more.get(at).and_then(|moved| self.cells.get_mut(&moved.hash)) {
            *cell = RowCell::more(at);
        }
        // To twice what is left, so that the next rows cost no growth.
        if self.more.len() < self.more.capacity() / 4 {
            self.more.shrink_to(self.more.len() * 2);
        }
        removed
    }

    /// Bytes that the allocator has given, without what rows own.
    pub(super) fn bytes(&self) -> usize {
        if self.cells.capacity() == 0 {
            return heap::vec(&self.more);
        }
        // Seven of eight slots are used at most; small ones have 4 or 8 slots.
        let slots = (self.cells.capacity() * 8 / 7).next_power_of_two();
        heap::block(slots * (size_of::<(u64, RowCell)>() + 1) + GROUP_BYTES) + heap::vec(&self.more)
    }
}

/// What came of adding a client to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The row had it.
    Nothing,
    /// It stands where the same client stood with an earlier number.
    InPlace,
    /// The row has one item more.
    Item,
}

impl Trackers {
    /// Bytes that it owns.
    fn bytes(&self) -> usize {
        heap::vec(&self.clients) + self.name.as_deref().map_or(0, |name| heap::block(name.len()))
    }

    /// What its name counts as further keys.
    fn charged_name(&self) -> usize {
        self.name.as_deref().map_or(0, |name| name.len() / NAME_BYTES_PER_KEY)
    }

    /// Adds a client; one that had an earlier number loses that.
    fn add(&mut self, client: Tracker) -> Added {
        let at = match self.clients.binary_search(&client) {
            Ok(_) => return Added::Nothing,
            Err(at) => at,
        };
        // Numbers grow, so that an earlier one of the same slot stands just before.
        if let Some(before) = at.checked_sub(1).map(|before| &mut self.clients[before])
            && before.slot == client.slot
        {
            *before = client;
            return Added::InPlace;
        }
        if self.clients.len() == self.clients.capacity() {
            // By a quarter, not by doubling: rows of many clients are what takes memory.
            self.clients.reserve_exact((self.clients.len() / 4).max(CLIENTS_MIN));
        }
        self.clients.insert(at, client);
        Added::Item
    }
}

impl TrackingTable {
    /// Rows.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Rows, and for each name in one as many more as [`NAME_BYTES_PER_KEY`] bytes of the name.
    pub(super) fn charged_keys(&self) -> usize {
        self.keys + self.charged_names
    }

    /// Clients in all rows.
    pub(super) fn items(&self) -> usize {
        self.items
    }

    /// Bytes that the allocator has given. O(shards).
    pub(super) fn footprint(&self) -> usize {
        heap::vec(&self.shards) + self.shards.iter().map(Shard::bytes).sum::<usize>() + self.row_bytes
    }

    /// Remembers that a client has read a key. `name` says what the key is called where it cannot be found by
    /// its hash; asked where the row is new.
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

    /// Has the filter find the keys of a shard, and of that shard no others. O(rows of the shard).
    pub(super) fn refill(&self, shard: usize, filter: &mut KeyFilter) {
        if let Some(rows) = self.shards.get(shard) {
            filter.refill(shard, rows.cells.keys().copied());
        }
    }

    /// Takes the row of a key.
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

    /// The keys of a shard whose hashes are such. O(rows of the shard).
    pub(super) fn hashes_of(&self, shard: usize, is_such: impl Fn(u64) -> bool) -> Vec<u64> {
        let rows = self.shards.get(shard).into_iter().flat_map(|shard| shard.cells.keys());
        rows.copied().filter(|hash| is_such(*hash)).collect()
    }

    /// Takes any row. The shards take turns, so that the beginning of one is not looked through in vain.
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

    /// Empties the table in O(1); what it held, to be freed in slices.
    pub(super) fn take_all(&mut self) -> Vec<Shard> {
        let shards = std::mem::take(&mut self.shards);
        *self = TrackingTable { victims_at: self.victims_at, ..TrackingTable::default() };
        shards
    }

    /// Drops the clients of one shard that are not `alive` any more, rows without clients with them; how many
    /// items were dropped, and how many rows were looked at. O(rows and items of the shard).
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
        // From the end on, so that what comes to stand in an emptied slot is one that stays.
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

/// What sweeping a shard has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Swept {
    /// Rows that it had.
    pub looked_at: usize,
    /// Items of clients that are gone.
    pub dropped: usize,
}

/// The shard of a key: what one shard holds stands in one part of the filter.
fn shard_of(hash: u64) -> usize {
    KeyFilter::part_of(hash)
}

/// So many parts.
pub(super) const SHARDS: usize = KeyFilter::PARTS;
/// Room for clients that a row begins with once it has more than one.
const CLIENTS_MIN: usize = 2;
/// So many bytes of a name that a row keeps count as a key, so that `tracking-table-max-keys` bounds bytes.
pub(super) const NAME_BYTES_PER_KEY: usize = 64;
/// Control bytes that the standard library's maps repeat at their end.
const GROUP_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use std::collections::{BTreeMap, BTreeSet};

    /// Rows as anybody would write them down.
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
            // Few hashes, in few shards, so that everything meets.
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
