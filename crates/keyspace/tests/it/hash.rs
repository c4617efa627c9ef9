//! Compares hashes of the keyspace with maps, under random changes, renames, copies and expiries of fields,
//! and during cuts (point-in-time views). The invariants of every database are checked after each step.

use sluice_base::num::IntBuffer;
use sluice_base::{HashSeed, Now, Rng};
use sluice_keyspace::{
    Access, AccessUpdate, Captured, Effects, Event, ExpireCycle, ExpireWalk, ExpiryMode, Key, KeyHasher,
    Keyspace, Layout, NewValue, SetExpiry, Str, ValueRef,
};
use sluice_value::{HashExpiry, HashLimits, HashRef};
use std::collections::{BTreeMap, BTreeSet};

const SEED: HashSeed = HashSeed { k0: 11, k1: 12 };

type Fields = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;
type Model = BTreeMap<Vec<u8>, Fields>;

fn fields(hash: HashRef<'_>) -> Fields {
    let (mut name, mut value) = (IntBuffer::new(), IntBuffer::new());
    let each = hash.iter().map(|field| {
        let value = field.value.bytes(&mut value).to_vec();
        (field.name.bytes(&mut name).to_vec(), (value, field.expiry))
    });
    each.collect()
}

fn contents(keyspace: &Keyspace) -> Model {
    let db = keyspace.db(0);
    let mut all = Model::new();
    for entry in db.iter().map(|handle| db.entry(handle)) {
        match entry.value() {
            ValueRef::Hash(hash) => drop(all.insert(entry.key().to_vec(), fields(hash))),
            other => panic!("{other:?}"),
        }
    }
    all
}

struct Twin {
    keyspace: Keyspace,
    effects: Effects,
    model: Model,
    now_ms: i64,
    rng: Rng,
    /// Whether values are about 100 bytes long. Then hashes are encoded as a hash table, and grow and shrink
    /// around the largest length that a block holds.
    has_long_values: bool,
}

impl Twin {
    fn access(&self) -> Access {
        let now = Now { mono_ns: 0, unix_us: self.now_ms * 1000 };
        Access { now, touch: AccessUpdate::Lru(7), expiry: ExpiryMode::Delete, must_obey: false }
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(12) {
            0 => vec![b'k'; 300],
            number => format!("key{number}").into_bytes(),
        }
    }

    fn name(&mut self) -> Vec<u8> {
        format!("f{}", self.rng.below(40)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.below(30) {
            _ if self.has_long_values => vec![b'x'; 65 + self.rng.below(100) as usize],
            0 => vec![b'v'; 100 + self.rng.below(3000) as usize],
            1..8 => self.rng.below(100_000).to_string().into_bytes(),
            _ => vec![b'w'; self.rng.below(20) as usize],
        }
    }

    /// Stores one field, or occasionally 150 pairs, so that the hash becomes large.
    fn set(&mut self, limits: HashLimits) {
        let key = self.key();
        let many = if self.rng.below(30) == 0 { 150 } else { 1 };
        let pairs: Vec<(Vec<u8>, Vec<u8>, Option<i64>)> = (0..many)
            .map(|_| {
                let at = (self.rng.below(8) == 0).then(|| self.now_ms + self.rng.below(300) as i64);
                (self.name(), self.value(), at)
            })
            .collect();
        let access = self.access();
        let mut db = self.keyspace.write(0, access, &mut self.effects);
        let mut edit =
            db.edit_or_create_hash(Key::hashed(&key, KeyHasher::new(SEED, Layout::One)), limits).unwrap();
        let model = self.model.entry(key.clone()).or_default();
        for (name, value, at) in pairs {
            let (hash, context) = edit.parts();
            let expiry = at.map_or(HashExpiry::Clear, HashExpiry::At);
            assert_eq!(hash.set(&name, &value, expiry, context), !model.contains_key(&name));
            model.insert(name, (value, at));
        }
        edit.done(Event::HSet, 1);
    }

    fn remove(&mut self, limits: HashLimits) {
        let (key, count) = (self.key(), 1 + self.rng.below(30));
        let names: Vec<Vec<u8>> = (0..count).map(|_| self.name()).collect();
        let access = self.access();
        let mut db = self.keyspace.write(0, access, &mut self.effects);
        let Some(mut edit) =
            db.edit_hash(Key::hashed(&key, KeyHasher::new(SEED, Layout::One)), limits).unwrap()
        else {
            assert!(!self.model.contains_key(&key));
            return;
        };
        let model = self.model.get_mut(&key).unwrap();
        let mut removed = 0;
        for name in names {
            let (hash, context) = edit.parts();
            let was_there = hash.remove(&name, context);
            assert_eq!(was_there, model.remove(&name).is_some());
            removed += u64::from(was_there);
        }
        if removed == 0 {
            edit.unchanged()
        } else {
            edit.done(Event::HDel, removed)
        }
        self.model.retain(|_, fields| !fields.is_empty());
    }

    fn expire(&mut self) {
        self.now_ms += 50;
        let now_ms = self.now_ms;
        let mut wanted = BTreeSet::new();
        for (key, fields) in &mut self.model {
            fields.retain(|name, (_, at)| {
                let expired = at.is_some_and(|at| at < now_ms);
                if expired {
                    wanted.insert((key.clone(), name.clone()));
                }
                !expired
            });
        }
        self.model.retain(|_, fields| !fields.is_empty());
        let cycle = ExpireCycle { now_ms, keys_per_round: 20, tolerated_percent: 10 };
        let (mut walk, mut expired) = (ExpireWalk::default(), 0);
        walk.begin(self.keyspace.databases());
        while !walk.is_over() {
            expired += self.keyspace.expire_step(cycle, &mut walk, &mut self.effects).fields;
        }
        assert_eq!(expired, wanted.len() as u64);
        let mut told = BTreeSet::new();
        for expired in self.effects.expired_fields() {
            told.extend(expired.fields.iter().map(|field| (expired.key.to_vec(), field.clone())));
        }
        assert_eq!(told, wanted, "what is deleted is told, to be propagated");
        self.effects.clear_expired_fields();
        assert_eq!(self.effects.take_fields_deleted(), expired);
    }

    fn rename_or_copy(&mut self) {
        let (from, to, copies) = (self.key(), self.key(), self.rng.below(2) == 0);
        let hasher = KeyHasher::new(SEED, Layout::One);
        if from == to {
            return;
        }
        let access = self.access();
        let mut db = self.keyspace.write(0, access, &mut self.effects);
        let (from_key, to_key) = (Key::hashed(&from, hasher), Key::hashed(&to, hasher));
        let was_there = if copies { db.copy_to(from_key, 0, to_key) } else { db.rename(from_key, to_key) };
        assert_eq!(was_there, self.model.contains_key(&from));
        if let Some(fields) = self.model.get(&from).cloned() {
            self.model.insert(to, fields);
            if !copies {
                self.model.remove(&from);
            }
        }
    }

    fn set_or_clear_expiry(&mut self) {
        let key = self.key();
        let at = (self.rng.below(2) == 0).then_some(self.now_ms + 1_000_000);
        let access = self.access();
        let mut db = self.keyspace.write(0, access, &mut self.effects);
        let key_hashed = Key::hashed(&key, KeyHasher::new(SEED, Layout::One));
        assert_eq!(db.set_expiry(key_hashed, at, Event::Expire), self.model.contains_key(&key));
    }

    fn check(&mut self) {
        self.keyspace.db(0).check();
        let volatile = self.model.values().filter(|fields| fields.values().any(|(_, at)| at.is_some()));
        assert_eq!(self.keyspace.db(0).volatile_len(), volatile.count());
        self.effects.drain_garbage().for_each(drop);
    }
}

/// A cut in progress, with its expected and its captured contents.
struct Cut {
    wanted: Model,
    given: Model,
}

impl Cut {
    fn begin(twin: &mut Twin) -> Cut {
        twin.keyspace.begin_cut();
        Cut { wanted: twin.model.clone(), given: Model::new() }
    }

    fn take(&mut self, piece: Option<Captured>) {
        for entry in piece.iter().flat_map(Captured::iter) {
            let ValueRef::Hash(hash) = entry.value() else { panic!("only hashes are there") };
            assert!(self.given.insert(entry.key().to_vec(), fields(hash)).is_none(), "captured twice");
        }
    }

    fn finish(mut self, keyspace: &mut Keyspace) {
        while let Some(piece) = keyspace.take_captured() {
            self.take(Some(piece));
        }
        while let Some(piece) = keyspace.advance_cut(0, usize::MAX) {
            self.take(Some(piece));
        }
        for piece in keyspace.end_cut() {
            self.take(Some(piece));
        }
        assert!(self.given == self.wanted, "what was captured is not what was there at the cut");
    }
}

#[test]
fn hashes_do_what_maps_do_and_the_index_of_expiring_fields_agrees() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut twin = Twin {
            keyspace: Keyspace::new(1, KeyHasher::new(SEED, Layout::One)),
            effects: Effects::default(),
            model: Model::new(),
            now_ms: 1_700_000_000_000,
            rng: Rng::new(seed),
            has_long_values: seed % 4 > 1,
        };
        let max_entries = [8, 512][seed as usize % 2];
        let limits = HashLimits { max_entries, ..HashLimits::default() };
        let mut cut: Option<Cut> = None;
        for turn in 0..1500 {
            match twin.rng.below(20) {
                0..9 => twin.set(limits),
                9..15 => twin.remove(limits),
                15 => twin.expire(),
                16 | 17 => twin.rename_or_copy(),
                18 => twin.set_or_clear_expiry(),
                _ => {
                    let key = twin.key();
                    let access = twin.access();
                    let mut db = twin.keyspace.write(0, access, &mut twin.effects);
                    let was_there =
                        db.remove(Key::hashed(&key, KeyHasher::new(SEED, Layout::One)), Event::Del);
                    assert_eq!(was_there, twin.model.remove(&key).is_some());
                }
            }
            twin.check();
            match turn % 100 {
                10 => cut = Some(Cut::begin(&mut twin)),
                70 => drop(cut.take().map(|cut| cut.finish(&mut twin.keyspace))),
                _ => cut.iter_mut().for_each(|cut| cut.take(twin.keyspace.advance_cut(0, 3))),
            }
            if turn % 50 == 0 {
                assert_eq!(contents(&twin.keyspace), twin.model);
            }
        }
        assert_eq!(contents(&twin.keyspace), twin.model);
    }
}

#[test]
fn another_type_is_refused_and_overwriting_forgets_expiring_fields() {
    let hasher = KeyHasher::new(SEED, Layout::One);
    let mut keyspace = Keyspace::new(1, hasher);
    let mut effects = Effects::default();
    let now = Now { mono_ns: 0, unix_us: 1_000_000 };
    let access = Access { now, touch: AccessUpdate::Lru(7), expiry: ExpiryMode::Delete, must_obey: false };
    let (h, s) = (Key::hashed(b"h", hasher), Key::hashed(b"s", hasher));
    let mut db = keyspace.write(0, access, &mut effects);
    db.set(s, NewValue::Str(b"v"), SetExpiry::Clear, Event::Set);
    assert!(db.edit_hash(s, HashLimits::default()).is_err());
    assert!(db.edit_or_create_hash(s, HashLimits::default()).is_err());
    let mut edit = db.edit_or_create_hash(h, HashLimits::default()).unwrap();
    let (hash, context) = edit.parts();
    hash.set(b"f", b"v", HashExpiry::At(5000), context);
    edit.done(Event::HSet, 1);
    assert_eq!(keyspace.db(0).volatile_len(), 1);
    keyspace.write(0, access, &mut effects).set(h, NewValue::Str(b"v"), SetExpiry::Clear, Event::Set);
    assert_eq!(keyspace.db(0).volatile_len(), 0);
    keyspace.db(0).check();
}

#[test]
fn a_string_over_a_hash_of_its_length_leaves_the_large_block() {
    let hasher = KeyHasher::new(SEED, Layout::One);
    let mut keyspace = Keyspace::new(1, hasher);
    let mut effects = Effects::default();
    let now = Now { mono_ns: 0, unix_us: 1_000_000 };
    let access = Access { now, touch: AccessUpdate::Lru(7), expiry: ExpiryMode::Delete, must_obey: false };
    let key = Key::hashed(b"k", hasher);
    // At one of these lengths the string fits exactly into the block of the hash that it replaces.
    for len in 1400..1440 {
        let mut db = keyspace.write(0, access, &mut effects);
        let mut edit = db.edit_or_create_hash(key, HashLimits::default()).unwrap();
        let (hash, context) = edit.parts();
        for field in 0..7 {
            hash.set(format!("f{field}").as_bytes(), &[b'v'; 196], HashExpiry::Clear, context);
        }
        assert!(hash.inline_len().is_some_and(|len| (1400..1440).contains(&len)));
        edit.done(Event::HSet, 7);
        let text = vec![b'x'; len];
        db.set(key, NewValue::Str(&text), SetExpiry::Clear, Event::Set);
        let stored = db.get(key).map(|entry| matches!(entry.value(), ValueRef::Str(Str::Shared(_))));
        assert_eq!(stored, Some(true), "a string of {len} bytes has memory of its own");
        db.remove(key, Event::Del);
    }
    keyspace.db(0).check();
}
