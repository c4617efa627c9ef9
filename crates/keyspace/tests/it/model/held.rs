//! The oracle's sets, hashes, sorted sets and streams, and changes that are applied to the oracle and the
//! keyspace.

use sluice_base::Rng;
use sluice_base::num::IntBuffer;
use sluice_keyspace::{DbMut, Event, ValueRef, WrongType};
use sluice_value::stream::{Element, StreamId};
use sluice_value::{HashExpiry, HashLimits, ListItem, SetLimits, StreamLimits, Type, ZsetLimits};
use std::collections::{BTreeMap, BTreeSet};

/// The entries of a stream: fields and values by the entry's id, and the stream's last id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries {
    all: BTreeMap<(u64, u64), Vec<Vec<u8>>>,
    last: (u64, u64),
}

/// The contents of a collection in the oracle.
#[derive(Clone, Debug, PartialEq)]
pub enum Held {
    Set(BTreeSet<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Each member with the bits of its score.
    Zset(BTreeMap<Vec<u8>, u64>),
    Stream(Entries),
}

fn bytes_of(item: ListItem<'_>) -> Vec<u8> {
    item.bytes(&mut IntBuffer::new()).to_vec()
}

/// A random member, field or value. There are only few different ones, and some of them are large.
fn any_text(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(60);
    match rng.below(8) {
        0 => number.to_string().into_bytes(),
        1 => vec![b'a' + (number % 20) as u8; 300],
        2 if number == 7 => vec![b'l'; 5000],
        _ => format!("m{number}").into_bytes(),
    }
}

impl Held {
    /// An empty collection of a random type.
    pub fn any_empty(rng: &mut Rng) -> Held {
        match rng.below(4) {
            0 => Held::Set(BTreeSet::new()),
            1 => Held::Hash(BTreeMap::new()),
            2 => Held::Zset(BTreeMap::new()),
            _ => Held::Stream(Entries::default()),
        }
    }

    /// The contents of a value; `None` for strings and lists.
    pub fn of(value: ValueRef<'_>) -> Option<Held> {
        match value {
            ValueRef::Str(_) | ValueRef::List(_) => None,
            ValueRef::Set(set) => {
                let members: BTreeSet<Vec<u8>> = set.iter().map(bytes_of).collect();
                assert_eq!(members.len(), set.len());
                Some(Held::Set(members))
            }
            ValueRef::Hash(hash) => {
                let pairs = hash.iter().map(|field| (bytes_of(field.name), bytes_of(field.value)));
                let pairs: BTreeMap<Vec<u8>, Vec<u8>> = pairs.collect();
                assert_eq!(pairs.len(), hash.len());
                Some(Held::Hash(pairs))
            }
            ValueRef::Zset(zset) => {
                let pairs = zset.iter_all().map(|(member, score)| (member.to_vec(), score.to_bits()));
                let pairs: BTreeMap<Vec<u8>, u64> = pairs.collect();
                assert_eq!(pairs.len(), zset.len());
                Some(Held::Zset(pairs))
            }
            ValueRef::Stream(stream) => {
                let log = stream.log();
                let text = |element| match element {
                    Element::Int(number) => number.to_string().into_bytes(),
                    Element::Bytes(bytes) => bytes.to_vec(),
                };
                let entries = log.iter(StreamId::MIN, StreamId::MAX).map(|entry| {
                    let texts = entry.pairs().flat_map(|(field, value)| [text(field), text(value)]);
                    ((entry.id().ms, entry.id().seq), texts.collect())
                });
                let all: BTreeMap<(u64, u64), Vec<Vec<u8>>> = entries.collect();
                assert_eq!(all.len() as u64, log.len());
                Some(Held::Stream(Entries { all, last: (log.last_id().ms, log.last_id().seq) }))
            }
        }
    }

    pub fn type_of(&self) -> Type {
        match self {
            Held::Set(_) => Type::Set,
            Held::Hash(_) => Type::Hash,
            Held::Zset(_) => Type::Zset,
            Held::Stream(_) => Type::Stream,
        }
    }

    /// Whether a key with these contents is deleted, because only a stream may be empty.
    pub fn is_gone(&self) -> bool {
        match self {
            Held::Set(members) => members.is_empty(),
            Held::Hash(pairs) => pairs.is_empty(),
            Held::Zset(pairs) => pairs.is_empty(),
            Held::Stream(_) => false,
        }
    }

    /// Checks that both kinds of edits (with and without creation) refuse a key whose value has another type.
    pub fn is_refused(&self, db: &mut DbMut<'_>, key: &[u8]) {
        let (one, other) = match self {
            Held::Set(_) => {
                let limits = SetLimits::default();
                let one = db.edit_set(db.key(key), limits).err();
                (one, db.edit_or_create_set(db.key(key), limits, b"m", 1).err())
            }
            Held::Hash(_) => {
                let limits = HashLimits::default();
                let one = db.edit_hash(db.key(key), limits).err();
                (one, db.edit_or_create_hash(db.key(key), limits).err())
            }
            Held::Zset(_) => {
                let limits = ZsetLimits::default();
                let one = db.edit_zset(db.key(key), limits).err();
                (one, db.edit_or_create_zset(db.key(key), limits).err())
            }
            Held::Stream(_) => {
                let one = db.edit_stream(db.key(key), StreamLimits::default()).err();
                (one, one)
            }
        };
        assert_eq!([one, other], [Some(WrongType); 2]);
    }

    /// Applies the same few random changes to the oracle and, in one edit, to the keyspace.
    pub fn change(&mut self, db: &mut DbMut<'_>, key: &[u8], is_there: bool, rng: &mut Rng) {
        // Half of the edits empty the collection.
        let empties = rng.below(2) == 0;
        let count = if rng.below(6) == 0 { 150 } else { 1 + rng.below(5) };
        match self {
            Held::Set(members) => change_set(members, db, key, (count, empties), rng),
            Held::Hash(pairs) => change_hash(pairs, db, key, (count, empties), rng),
            Held::Zset(pairs) => change_zset(pairs, db, key, (count, empties), rng),
            Held::Stream(entries) => change_stream(entries, db, key, is_there, rng),
        }
    }
}

fn change_set(
    members: &mut BTreeSet<Vec<u8>>,
    db: &mut DbMut<'_>,
    key: &[u8],
    (count, empties): (u64, bool),
    rng: &mut Rng,
) {
    let before = members.clone();
    let mut edit = db.edit_or_create_set(db.key(key), SetLimits::default(), b"1", 1).unwrap();
    let (set, context) = edit.parts();
    for _ in 0..count {
        let member = any_text(rng);
        match rng.below(3) {
            0 => assert_eq!(set.remove(&member, context), members.remove(&member)),
            _ => assert_eq!(set.add(&member, context), members.insert(member)),
        }
    }
    if empties {
        std::mem::take(members).iter().for_each(|member| assert!(set.remove(member, context)));
    }
    if *members == before { edit.unchanged() } else { edit.done(Event::SAdd, count) }
}

fn change_hash(
    pairs: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    db: &mut DbMut<'_>,
    key: &[u8],
    (count, empties): (u64, bool),
    rng: &mut Rng,
) {
    let before = pairs.clone();
    let mut edit = db.edit_or_create_hash(db.key(key), HashLimits::default()).unwrap();
    let (hash, context) = edit.parts();
    let mut stored = 0;
    for _ in 0..count {
        let (name, value) = (any_text(rng), any_text(rng));
        if rng.below(3) == 0 {
            assert_eq!(hash.remove(&name, context), pairs.remove(&name).is_some());
        } else {
            assert_eq!(hash.set(&name, &value, HashExpiry::Clear, context), !pairs.contains_key(&name));
            pairs.insert(name, value);
            stored += 1;
        }
    }
    if empties {
        std::mem::take(pairs).keys().for_each(|name| assert!(hash.remove(name, context)));
    }
    if *pairs == before && stored == 0 { edit.unchanged() } else { edit.done(Event::HSet, count) }
}

fn change_zset(
    pairs: &mut BTreeMap<Vec<u8>, u64>,
    db: &mut DbMut<'_>,
    key: &[u8],
    (count, empties): (u64, bool),
    rng: &mut Rng,
) {
    let before = pairs.clone();
    let mut edit = db.edit_or_create_zset(db.key(key), ZsetLimits::default()).unwrap();
    let (zset, context) = edit.parts();
    for _ in 0..count {
        let (member, score) = (any_text(rng), rng.below(9) as f64 / 2.0);
        assert_eq!(zset.remove(&member, context).map(f64::to_bits), pairs.remove(&member));
        if rng.below(3) > 0 {
            zset.insert(&member, score, context);
            pairs.insert(member, score.to_bits());
        }
    }
    if empties {
        std::mem::take(pairs).keys().for_each(|member| assert!(zset.remove(member, context).is_some()));
    }
    if *pairs == before && count == 0 { edit.unchanged() } else { edit.done(Event::ZAdd, count) }
}

fn change_stream(entries: &mut Entries, db: &mut DbMut<'_>, key: &[u8], is_there: bool, rng: &mut Rng) {
    let limits = StreamLimits::default();
    // A look-up before the edit deletes an expired key, as every write does.
    assert_eq!(db.edit_stream(db.key(key), limits).unwrap().is_some(), is_there);
    let mut edit = match is_there {
        true => db.edit_stream(db.key(key), limits).unwrap().unwrap(),
        false => db.create_stream(db.key(key), limits),
    };
    for _ in 0..1 + rng.below(4) {
        let (stream, context) = edit.parts();
        if rng.below(3) == 0 {
            let id = (entries.last.0.saturating_sub(rng.below(8)), 0);
            let is_deleted = stream.delete(StreamId { ms: id.0, seq: id.1 }, context);
            assert_eq!(is_deleted, entries.all.remove(&id).is_some());
            edit.modified(Event::XDel, u64::from(is_deleted));
        } else {
            let id = (entries.last.0 + 1 + rng.below(3), 0);
            let texts: Vec<Vec<u8>> = (0..2 + rng.below(2) * 2).map(|_| any_text(rng)).collect();
            stream.append(StreamId { ms: id.0, seq: id.1 }, texts.iter().map(Vec::as_slice), context);
            entries.last = id;
            entries.all.insert(id, texts);
            edit.modified(Event::XAdd, 1);
        }
    }
}
