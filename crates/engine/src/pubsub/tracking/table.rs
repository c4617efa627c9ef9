//! The table of tracked keys: for each key that somebody has read, who is to be told when the key changes.
//!
//! A row is found by the 64-bit hash of the key's name, over all databases: a change of `foo` in one database
//! tells whoever has read `foo` in another. Names are not kept, but of keys that no database held when they
//! were read: whoever evicts a row must name the key, and finds the name of a key that is there by its hash.
//!
//! Invariants: (1) `keys` and `items` are the sums over all rows; (2) a row names at least one client, each
//! once; (3) nothing here costs more than a shard does, a thousandth of the table: a shard grows by itself,
//! is swept by itself and freed by itself.

use sluice_base::heap;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A client in rows: its slot, and the number of the time at which it began to track. A client that has
/// ended, or has ended tracking, is not found by it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tracker {
    /// Slot of the client's session.
    pub slot: u32,
    /// Which of its times of tracking, over all clients.
    pub number: u32,
}

/// Rows by the hash of their key.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// As many as [`SHARDS`], or none before the first row.
    shards: Vec<Shard>,
    keys: usize,
    items: usize,
    /// Bytes that rows own outside of the shards.
    row_bytes: usize,
    /// The shard that gives the next victim.
    victims_at: usize,
}

/// A part of the rows.
pub(super) type Shard = HashMap<u64, Row, BuildHasherDefault<HashItself>>;

/// The clients that have read a key.
#[derive(Debug)]
pub(super) enum Row {
    /// One, and the key was there.
    One(Tracker),
    /// More, or a key that was not there.
    More(Box<Trackers>),
}

/// What a row has that does not fit it.
#[derive(Debug)]
pub(super) struct Trackers {
    /// Sorted.
    clients: Vec<Tracker>,
    /// The key's name, where no database held the key.
    name: Option<Box<[u8]>>,
}

/// A hash is its own hash.
#[derive(Debug, Default)]
pub(super) struct HashItself(u64);

impl Hasher for HashItself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "{} bytes that are no hash", bytes.len());
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Row {
    /// The clients, in the order of their slots.
    pub(super) fn clients(&self) -> &[Tracker] {
        match self {
            Row::One(client) => std::slice::from_ref(client),
            Row::More(more) => &more.clients,
        }
    }

    /// The key's name, where it is kept.
    pub(super) fn name(&self) -> Option<&[u8]> {
        match self {
            Row::One(_) => None,
            Row::More(more) => more.name.as_deref(),
        }
    }

    /// Bytes outside of the shard.
    fn bytes(&self) -> usize {
        match self {
            Row::One(_) => 0,
            Row::More(more) => {
                let name = more.name.as_deref().map_or(0, |name| heap::block(name.len()));
                heap::boxed::<Trackers>() + heap::vec(&more.clients) + name
            }
        }
    }

    /// Adds a client; whether the row did not have it. One that had an earlier number loses that.
    fn add(&mut self, client: Tracker) -> Added {
        match self {
            Row::One(one) if *one == client => Added::Nothing,
            Row::One(one) if one.slot == client.slot => {
                *one = client;
                Added::InPlace
            }
            Row::One(one) => {
                let mut clients = Vec::with_capacity(CLIENTS_MIN);
                clients.extend([client.min(*one), client.max(*one)]);
                *self = Row::More(Box::new(Trackers { clients, name: None }));
                Added::Item
            }
            Row::More(more) => more.add(client),
        }
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

impl Table {
    /// Rows.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Clients in all rows.
    pub(super) fn items(&self) -> usize {
        self.items
    }

    /// Bytes that the allocator has given. O(shards).
    pub(super) fn footprint(&self) -> usize {
        heap::vec(&self.shards) + self.shards.iter().map(shard_bytes).sum::<usize>() + self.row_bytes
    }

    /// Remembers that a client has read a key. `name` says what the key is called where no database holds it;
    /// asked where the row is new.
    pub(super) fn add(
        &mut self,
        hash: u64,
        client: Tracker,
        name: impl FnOnce() -> Option<Box<[u8]>>,
    ) -> Added {
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, Shard::default);
        }
        match self.shards[shard_of(hash)].entry(hash) {
            std::collections::hash_map::Entry::Occupied(mut row) => {
                let before = row.get().bytes();
                let added = row.get_mut().add(client);
                if added == Added::Item {
                    self.items += 1;
                    self.row_bytes += row.get().bytes() - before;
                }
                added
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                let row = match name() {
                    None => Row::One(client),
                    name => Row::More(Box::new(Trackers { clients: vec![client], name })),
                };
                self.row_bytes += row.bytes();
                place.insert(row);
                self.keys += 1;
                self.items += 1;
                Added::Item
            }
        }
    }

    /// Takes the row of a key.
    #[inline]
    pub(super) fn take(&mut self, hash: u64) -> Option<Row> {
        if self.keys == 0 {
            return None;
        }
        let row = self.shards[shard_of(hash)].remove(&hash)?;
        self.forget(&row);
        Some(row)
    }

    /// Takes any row. The shards take turns, so that the beginning of one is not looked through in vain.
    pub(super) fn take_victim(&mut self) -> Option<(u64, Row)> {
        for _ in 0..self.shards.len() {
            let at = self.victims_at;
            self.victims_at = (at + 1) % SHARDS;
            if let Some(hash) = self.shards[at].keys().next().copied() {
                return Some((hash, self.take(hash)?));
            }
        }
        None
    }

    /// Empties the table in O(1); what it held, to be freed in slices.
    pub(super) fn take_all(&mut self) -> Vec<Shard> {
        let shards = std::mem::take(&mut self.shards);
        *self = Table { victims_at: self.victims_at, ..Table::default() };
        shards
    }

    /// Drops the clients of one shard that are not `alive` any more, rows without clients with them; how many
    /// items were dropped, and how many rows were looked at. O(rows and items of the shard).
    pub(super) fn sweep(&mut self, at: usize, alive: impl Fn(Tracker) -> bool) -> Swept {
        let Some(shard) = self.shards.get_mut(at) else { return Swept::default() };
        let mut swept = Swept { looked_at: shard.len(), dropped: 0 };
        let (items, row_bytes) = (&mut self.items, &mut self.row_bytes);
        shard.retain(|_, row| {
            let (before, bytes) = (row.clients().len(), row.bytes());
            let left = match row {
                Row::One(client) => usize::from(alive(*client)),
                Row::More(more) => {
                    more.clients.retain(|client| alive(*client));
                    if more.clients.len() < more.clients.capacity() / 2 {
                        more.clients.shrink_to_fit();
                    }
                    more.clients.len()
                }
            };
            *items -= before - left;
            swept.dropped += before - left;
            *row_bytes -= bytes;
            if left > 0 {
                *row_bytes += row.bytes();
            }
            left > 0
        });
        self.keys -= swept.looked_at - shard.len();
        if shard.len() < shard.capacity() / 4 {
            shard.shrink_to_fit();
        }
        swept
    }

    fn forget(&mut self, row: &Row) {
        self.keys -= 1;
        self.items -= row.clients().len();
        self.row_bytes -= row.bytes();
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

/// Bytes of a shard, without what its rows own.
pub(super) fn shard_bytes(shard: &Shard) -> usize {
    if shard.capacity() == 0 {
        return 0;
    }
    // Seven of eight places are used at most; small ones have 4 or 8 places.
    let places = (shard.capacity() * 8 / 7).next_power_of_two();
    heap::block(places * (size_of::<(u64, Row)>() + 1) + GROUP_BYTES)
}

/// The bits that choose a shard: above those by which a shard finds its places, below those that may hold a
/// hash slot.
fn shard_of(hash: u64) -> usize {
    (hash >> 30) as usize % SHARDS
}

/// So many parts.
pub(super) const SHARDS: usize = 1024;
/// Room for clients that a row begins with once it has more than one.
const CLIENTS_MIN: usize = 2;
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
        fn check(&self, table: &Table) {
            assert_eq!(table.keys(), self.0.len());
            assert_eq!(table.items(), self.0.values().map(BTreeMap::len).sum::<usize>());
            let bytes = table.shards.iter().flat_map(HashMap::values).map(Row::bytes).sum::<usize>();
            assert_eq!(table.row_bytes, bytes);
        }
    }

    #[test]
    fn the_table_is_what_an_ordered_map_says() {
        let mut rng = Rng::new(27);
        let (mut table, mut oracle, mut sweep_at) = (Table::default(), Oracle::default(), 0);
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
                    let added = table.add(hash, client, || named.then(|| b"name".as_slice().into()));
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
                    assert_eq!(shards.iter().map(HashMap::len).sum::<usize>(), oracle.0.len());
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
    fn a_row_of_one_client_takes_a_few_words() {
        assert_eq!(size_of::<(u64, Row)>(), 24);
        let mut table = Table::default();
        let mut rng = Rng::new(1);
        for _ in 0..200_000 {
            table.add(rng.next_u64(), Tracker { slot: 0, number: 0 }, || None);
        }
        assert!(table.footprint() < 80 * table.keys(), "{}", table.footprint() / table.keys());
    }
}
