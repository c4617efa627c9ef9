//! A map from keys to waiting clients or other values. The map needs no random seed, because it consists
//! of an ordered map for each database.

use sluice_base::heap;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Values by database and key. Look-ups cost O(log n) and allocate nothing.
#[derive(Debug)]
pub struct KeyMap<V> {
    dbs: BTreeMap<usize, BTreeMap<Box<[u8]>, V>>,
    len: usize,
}

impl<V> Default for KeyMap<V> {
    fn default() -> KeyMap<V> {
        KeyMap { dbs: BTreeMap::new(), len: 0 }
    }
}

impl<V> KeyMap<V> {
    /// Heap bytes of the map and its keys, without what values own. O(keys).
    pub fn footprint(&self) -> usize {
        let of_db = |keys: &BTreeMap<Box<[u8]>, V>| {
            let names: usize = keys.keys().map(|key| heap::block(key.len())).sum();
            names + heap::tree::<Box<[u8]>, V>(keys.len())
        };
        heap::tree::<usize, BTreeMap<Box<[u8]>, V>>(self.dbs.len())
            + self.dbs.values().map(of_db).sum::<usize>()
    }

    /// The values of all keys, in the order of databases and keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.dbs.values().flat_map(BTreeMap::values)
    }

    /// Number of keys in all databases.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a key.
    pub fn get(&self, db: usize, key: &[u8]) -> Option<&V> {
        self.dbs.get(&db)?.get(key)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, db: usize, key: &[u8]) -> Option<&mut V> {
        self.dbs.get_mut(&db)?.get_mut(key)
    }

    /// The value of a key; a missing one is created first.
    pub fn entry(&mut self, db: usize, key: &[u8]) -> &mut V
    where
        V: Default,
    {
        let keys = self.dbs.entry(db).or_default();
        let before = keys.len();
        if !keys.contains_key(key) {
            keys.insert(key.into(), V::default());
        }
        self.len += keys.len() - before;
        keys.get_mut(key).expect("the key was inserted above")
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, db: usize, key: &[u8]) -> Option<V> {
        let keys = self.dbs.get_mut(&db)?;
        let value = keys.remove(key)?;
        self.len -= 1;
        if keys.is_empty() {
            self.dbs.remove(&db);
        }
        Some(value)
    }

    /// The first key, of the lowest database.
    pub fn first(&self) -> Option<(usize, Box<[u8]>)> {
        let (db, keys) = self.dbs.first_key_value()?;
        Some((*db, keys.keys().next()?.clone()))
    }

    /// The first key after this one, in this database or the next that has keys; this key need not exist.
    pub fn behind(&self, db: usize, key: &[u8]) -> Option<(usize, Box<[u8]>)> {
        let rest = (Bound::Excluded(key), Bound::Unbounded);
        let next = self.dbs.get(&db).and_then(|keys| keys.range::<[u8], _>(rest).next());
        if let Some((key, _)) = next {
            return Some((db, key.clone()));
        }
        let (db, keys) = self.dbs.range(db + 1..).next()?;
        Some((*db, keys.keys().next()?.clone()))
    }

    /// Keys of one database with their values, in order.
    pub fn of_db(&self, db: usize) -> impl Iterator<Item = (&[u8], &V)> {
        self.dbs.get(&db).into_iter().flatten().map(|(key, value)| (&key[..], value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_several_databases_are_counted_and_kept_apart() {
        let mut map: KeyMap<Vec<u32>> = KeyMap::default();
        map.entry(0, b"a").push(1);
        map.entry(0, b"a").push(2);
        map.entry(3, b"a").push(3);
        map.entry(3, b"b").push(4);
        assert_eq!(map.len(), 3);
        assert_eq!(map.get(0, b"a"), Some(&vec![1, 2]));
        assert_eq!(map.get_mut(3, b"a"), Some(&mut vec![3]));
        assert_eq!(map.of_db(3).map(|(key, _)| key.to_vec()).collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(map.remove(0, b"a"), Some(vec![1, 2]));
        assert_eq!(map.remove(0, b"a"), None);
        assert_eq!(map.of_db(0).count(), 0);
        map.remove(3, b"a");
        map.remove(3, b"b");
        assert!(map.is_empty());
    }
}
