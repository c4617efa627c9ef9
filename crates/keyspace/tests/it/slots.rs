//! Compares databases that have a table for each hash slot with maps, under random changes, walks, counts and
//! samples.

use sluice_base::{HashSeed, Now, Rng, key_slot};
use sluice_keyspace::{
    Access, AccessUpdate, DbMut, Effects, Event, ExpireCycle, ExpireWalk, ExpiryMode, Key, KeyHasher,
    Keyspace, Layout, NewValue, SetExpiry,
};
use std::collections::{BTreeMap, BTreeSet};

const SEED: HashSeed = HashSeed { k0: 21, k1: 22 };
const DATABASES: usize = 2;

type Name = Vec<u8>;
/// For each key, the length of its value and its expiry.
type Model = BTreeMap<Name, (usize, Option<i64>)>;

struct Twin {
    keyspace: Keyspace,
    effects: Effects,
    models: [Model; DATABASES],
    now_ms: i64,
    rng: Rng,
    scans: Vec<Scan>,
    done: BTreeMap<&'static str, usize>,
}

/// A scan that continues while keys change.
struct Scan {
    db: usize,
    cursor: u64,
    /// Keys that have existed since the scan began.
    lasting: BTreeSet<Name>,
    seen: BTreeSet<Name>,
}

impl Twin {
    fn new(seed: u64) -> Twin {
        println!("seed {seed}");
        Twin {
            keyspace: Keyspace::new(DATABASES, KeyHasher::new(SEED, Layout::PerSlot)),
            effects: Effects::default(),
            models: [Model::new(), Model::new()],
            now_ms: 1_700_000_000_000,
            rng: Rng::new(seed),
            scans: Vec::new(),
            done: BTreeMap::new(),
        }
    }

    fn access(&self) -> Access {
        let now = Now { mono_ns: 0, unix_us: self.now_ms * 1000 };
        Access { now, touch: AccessUpdate::Lru(77), expiry: ExpiryMode::Delete, must_obey: false }
    }

    fn write<R>(&mut self, db: usize, run: impl FnOnce(&mut DbMut<'_>) -> R) -> R {
        let access = self.access();
        run(&mut self.keyspace.write(db, access, &mut self.effects))
    }

    /// A random key, of one of three slots that many keys share or of a slot with hardly any keys.
    fn any_key(&mut self) -> Name {
        let number = self.rng.below(2000);
        match self.rng.below(3) {
            0 => format!("{{tag{}}}{number}", number % 3),
            1 => format!("key:{number}"),
            _ => format!("key:{}", number % 50),
        }
        .into_bytes()
    }

    fn step(&mut self) {
        let db = self.rng.below(DATABASES as u64) as usize;
        let name = match self.rng.below(100) {
            0..=39 => self.set(db),
            40..=69 => self.remove(db),
            70..=76 => self.expire(db),
            77..=79 => self.move_key(db),
            80..=84 => self.scan(db),
            85..=86 => self.cycle(),
            87..=89 => self.draw(db),
            90 => self.compact(db),
            91 => {
                self.keyspace.shrink_step(1 + self.rng.below(64) as usize);
                "shrink"
            }
            92 => self.remove_many(db),
            95 if self.rng.below(10) == 0 => self.come_and_go(db),
            93 if self.rng.below(40) == 0 => self.flush(db),
            94 if self.rng.below(10) == 0 => self.swap(),
            96 if self.rng.below(3) == 0 => self.detach(),
            97 => {
                (0..self.rng.below(20)).for_each(|_| _ = self.keyspace.free_detached(&mut self.effects));
                "free"
            }
            _ => {
                self.now_ms += self.rng.below(20) as i64;
                "pass"
            }
        };
        *self.done.entry(name).or_default() += 1;
    }

    fn set(&mut self, db: usize) -> &'static str {
        let (key, len) = (self.any_key(), self.rng.below(200) as usize);
        let value = vec![b'v'; len];
        let at = (self.rng.below(3) == 0).then(|| self.now_ms + 1 + self.rng.below(400) as i64);
        let expiry = at.map_or(SetExpiry::Clear, SetExpiry::At);
        self.forget_expired(db, &key);
        let existed = self.write(db, |d| d.set(d.key(&key), NewValue::Plain(&value), expiry, Event::Set));
        assert_eq!(existed, self.models[db].insert(key, (len, at)).is_some());
        "set"
    }

    /// Removes the key from the oracle if it has expired, because a write deletes an expired key that it
    /// looks up.
    fn forget_expired(&mut self, db: usize, key: &[u8]) {
        if self.models[db].get(key).is_some_and(|(_, at)| at.is_some_and(|at| at < self.now_ms)) {
            self.forget(db, key);
        }
    }

    fn forget(&mut self, db: usize, key: &[u8]) -> bool {
        for scan in self.scans.iter_mut().filter(|scan| scan.db == db) {
            scan.lasting.remove(key);
        }
        self.models[db].remove(key).is_some()
    }

    fn remove_key(&mut self, db: usize, key: &[u8]) {
        self.forget_expired(db, key);
        let was_there = self.write(db, |d| d.remove(d.key(key), Event::Del));
        assert_eq!(was_there, self.forget(db, key));
    }

    fn remove(&mut self, db: usize) -> &'static str {
        let key = self.any_key();
        self.remove_key(db, &key);
        "remove"
    }

    /// Removes nearly all keys with one of the hash tags, so that a table must shrink.
    fn remove_many(&mut self, db: usize) -> &'static str {
        let tag = format!("{{tag{}}}", self.rng.below(3));
        let keys: Vec<Name> =
            self.models[db].keys().filter(|k| k.starts_with(tag.as_bytes())).cloned().collect();
        let kept = self.rng.below(3) as usize;
        keys.iter().skip(kept).for_each(|key| self.remove_key(db, key));
        "remove many"
    }

    /// Adds keys of many slots with large values and removes most of them, to give compaction
    /// something to do.
    fn come_and_go(&mut self, db: usize) -> &'static str {
        let value = [b'v'; 900];
        for i in 0..800 {
            let key = format!("large{i}").into_bytes();
            self.write(db, |d| d.set(d.key(&key), NewValue::Plain(&value), SetExpiry::Clear, Event::Set));
            self.models[db].insert(key, (value.len(), None));
        }
        for i in (0..800).filter(|i| i % 10 != 0) {
            self.remove_key(db, format!("large{i}").as_bytes());
        }
        "come and go"
    }

    fn expire(&mut self, db: usize) -> &'static str {
        let key = self.any_key();
        let at = (self.rng.below(2) == 0).then(|| self.now_ms + self.rng.below(300) as i64);
        self.forget_expired(db, &key);
        let was_there = self.write(db, |d| d.set_expiry(d.key(&key), at, Event::Expire));
        assert_eq!(was_there, self.models[db].contains_key(&key));
        if let Some(item) = self.models[db].get_mut(&key) {
            item.1 = at;
        }
        "expire"
    }

    fn move_key(&mut self, db: usize) -> &'static str {
        let (key, to) = (self.any_key(), 1 - db);
        self.forget_expired(db, &key);
        self.forget_expired(to, &key);
        if self.write(to, |d| d.look(d.key(&key)).is_some()) {
            return "move onto another";
        }
        let was_there = self.write(db, |d| d.move_to(d.key(&key), to));
        let item = self.models[db].get(&key).copied();
        assert_eq!(was_there, item.is_some());
        if let Some(item) = item {
            self.forget(db, &key);
            self.models[to].insert(key, item);
        }
        "move"
    }

    /// Advances a random scan, after beginning one if fewer than three are open. When a scan ends, it must
    /// have visited every key that existed all the time.
    fn scan(&mut self, db: usize) -> &'static str {
        if self.scans.len() < 3 {
            let lasting = self.models[db].keys().cloned().collect();
            self.scans.push(Scan { db, cursor: 0, lasting, seen: BTreeSet::new() });
        }
        let chosen = self.rng.below(self.scans.len() as u64) as usize;
        let steps = 1 + self.rng.below(60);
        let scan = &mut self.scans[chosen];
        let view = self.keyspace.db(scan.db);
        for _ in 0..steps {
            let slot = scan.cursor & 16383;
            scan.cursor = view.scan(scan.cursor, |handle| {
                let key = view.key(handle).to_vec();
                assert!(u64::from(key_slot(&key)) >= slot);
                scan.seen.insert(key);
            });
            if scan.cursor == 0 {
                let scan = self.scans.swap_remove(chosen);
                assert!(
                    scan.lasting.is_subset(&scan.seen),
                    "a key that was there all the while was left out"
                );
                return "scan to the end";
            }
        }
        "scan"
    }

    fn cycle(&mut self) -> &'static str {
        let cycle = ExpireCycle { now_ms: self.now_ms, keys_per_round: 20, tolerated_percent: 10 };
        let mut walk = ExpireWalk::default();
        walk.begin(self.keyspace.databases());
        while !walk.is_over() {
            self.keyspace.expire_step(cycle, &mut walk, &mut self.effects);
        }
        let gone: Vec<(usize, Name)> =
            self.effects.expired_by_write().iter().map(|(db, key)| (*db, key.to_vec())).collect();
        self.effects.clear_expired_by_write();
        for (db, key) in gone {
            // The list also has expired keys that earlier writes looked up and deleted.
            if let Some((_, at)) = self.models[db].get(&key).copied()
                && at.is_some_and(|at| at < self.now_ms)
                && self.keyspace.db(db).find(self.keyspace.key(&key)).is_none()
            {
                self.forget(db, &key);
            }
        }
        "cycle"
    }

    fn draw(&mut self, db: usize) -> &'static str {
        let view = self.keyspace.db(db);
        let drawn = view.sample(&mut self.rng).map(|handle| view.key(handle).to_vec());
        assert_eq!(drawn.is_none(), self.models[db].is_empty());
        assert!(drawn.is_none_or(|key| self.models[db].contains_key(&key)));
        let drawn = view.sample_expires(&mut self.rng).map(|handle| view.key(handle).to_vec());
        assert_eq!(drawn.is_none(), self.models[db].values().all(|(_, at)| at.is_none()));
        assert!(drawn.is_none_or(|key| self.models[db][&key].1.is_some()));
        "draw"
    }

    fn compact(&mut self, db: usize) -> &'static str {
        let done = self.keyspace.compact_step(db, 5000);
        assert_eq!(done.abandoned, 0);
        if done.moved > 0 { "compact" } else { "nothing to compact" }
    }

    fn flush(&mut self, db: usize) -> &'static str {
        let access = self.access();
        let removed = self.keyspace.dataset(access, &mut self.effects).flush(db);
        assert_eq!(removed, self.models[db].len());
        self.models[db].clear();
        self.scans.retain(|scan| scan.db != db);
        "flush"
    }

    /// Empties a slot in all databases at once.
    fn detach(&mut self) -> &'static str {
        let (slot, access) = (key_slot(&self.any_key()), self.access());
        let detached = self.keyspace.dataset(access, &mut self.effects).detach_slot(slot);
        let before: usize = self.models.iter().map(Model::len).sum();
        self.models.iter_mut().for_each(|model| model.retain(|key, _| key_slot(key) != slot));
        for scan in &mut self.scans {
            scan.lasting.retain(|key| key_slot(key) != slot);
        }
        assert_eq!(detached, before - self.models.iter().map(Model::len).sum::<usize>());
        assert!(detached == 0 || self.keyspace.detached_slots().any(|other| other == slot));
        if detached > 20 { "detach" } else { "detach few" }
    }

    fn swap(&mut self) -> &'static str {
        let access = self.access();
        self.keyspace.dataset(access, &mut self.effects).swap(0, 1);
        self.models.swap(0, 1);
        self.scans.iter_mut().for_each(|scan| scan.db = 1 - scan.db);
        "swap"
    }

    /// Compares everything that can be read without a change.
    fn compare(&self) {
        for (number, model) in self.models.iter().enumerate() {
            let db = self.keyspace.db(number);
            db.check();
            assert_eq!(db.len(), model.len());
            assert_eq!(db.expires_len(), model.values().filter(|(_, at)| at.is_some()).count());
            for (key, (len, at)) in model {
                let found = db.find(self.keyspace.key(key)).expect("a key that the oracle has");
                let entry = db.entry(found.handle);
                assert_eq!((entry.as_str().unwrap().len(), entry.expiry()), (*len, *at));
            }
            assert_eq!(db.iter().count(), model.len());
            let mut slots: BTreeMap<u16, BTreeSet<&[u8]>> = BTreeMap::new();
            for key in model.keys() {
                slots.entry(key_slot(key)).or_default().insert(key);
            }
            let empty = slots.first_key_value().map_or(5, |(slot, _)| slot.wrapping_sub(1) & 16383);
            assert_eq!(db.slot_len(empty), slots.get(&empty).map_or(0, BTreeSet::len));
            for (slot, keys) in slots {
                assert_eq!(db.slot_len(slot), keys.len());
                let walked: BTreeSet<&[u8]> = db.slot_iter(slot).map(|handle| db.key(handle)).collect();
                assert_eq!(walked, keys);
            }
            assert_eq!(db.index_stats().used, model.len());
            assert_eq!(db.expires_stats().used, db.expires_len());
        }
    }
}

#[test]
fn tables_of_slots_agree_with_a_map() {
    let mut done: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..6 {
        let mut twin = Twin::new(seed);
        for round in 0..6000 {
            twin.step();
            if round % 400 == 0 {
                twin.compare();
            }
        }
        twin.compare();
        for (name, count) in twin.done {
            *done.entry(name).or_default() += count;
        }
    }
    for name in [
        "set",
        "remove",
        "remove many",
        "expire",
        "move",
        "scan to the end",
        "cycle",
        "draw",
        "compact",
        "shrink",
        "flush",
        "detach",
        "free",
        "swap",
    ] {
        assert!(done.get(name).is_some_and(|count| *count > 5), "{name} was hardly done: {done:?}");
    }
}

fn filled(layout: Layout, keys: impl Iterator<Item = String>) -> Keyspace {
    let mut keyspace = Keyspace::new(1, KeyHasher::new(SEED, layout));
    let now = Now { mono_ns: 0, unix_us: 0 };
    let access = Access { now, touch: AccessUpdate::Lru(1), expiry: ExpiryMode::Delete, must_obey: false };
    let mut effects = Effects::default();
    let mut db = keyspace.write(0, access, &mut effects);
    for key in keys {
        db.set(db.key(key.as_bytes()), NewValue::Plain(b"v"), SetExpiry::Clear, Event::Set);
    }
    keyspace
}

#[test]
fn random_keys_are_drawn_alike_however_full_their_slots_are() {
    // One slot has 300 keys, and about 300 slots have one key each.
    let names = (0..300).map(|i| format!("{{a}}{i}")).chain((0..300).map(|i| format!("b{i}")));
    let keyspace = filled(Layout::PerSlot, names);
    let (db, mut rng, draws) = (keyspace.db(0), Rng::new(5), 120_000);
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    for _ in 0..draws {
        *counts.entry(db.key(db.sample(&mut rng).unwrap())).or_default() += 1;
    }
    assert_eq!(counts.len(), 600);
    // Each key is expected 200 times; the tolerance is eight standard deviations, which are 14 each.
    for (key, count) in counts {
        assert!((88..=312).contains(&count), "{} was drawn {count} times", String::from_utf8_lossy(key));
    }
}

#[test]
fn a_walk_over_few_keys_takes_few_steps() {
    let keyspace = filled(Layout::PerSlot, (0..10).map(|i| format!("key{i}")));
    let (mut cursor, mut steps) = (0, 0);
    loop {
        cursor = keyspace.db(0).scan(cursor, |_| {});
        steps += 1;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(steps, 10, "one for each table with a key");
}

#[test]
fn a_walk_in_a_table_that_is_emptied_begins_the_next_at_its_beginning() {
    // The tag with the lower slot is walked first.
    let [first, second] = if key_slot(b"a") < key_slot(b"b") { ["a", "b"] } else { ["b", "a"] };
    let names = |tag: &'static str| (0..300).map(move |i| format!("{{{tag}}}{i}"));
    let mut keyspace = filled(Layout::PerSlot, names(first).chain(names(second)));
    let mut cursor = 0;
    for _ in 0..10 {
        cursor = keyspace.db(0).scan(cursor, |_| {});
    }
    assert_eq!(cursor & 16383, u64::from(key_slot(first.as_bytes())), "in the midst of the first table");
    let now = Now { mono_ns: 0, unix_us: 0 };
    let access = Access { now, touch: AccessUpdate::Lru(1), expiry: ExpiryMode::Delete, must_obey: false };
    let mut effects = Effects::default();
    let mut db = keyspace.write(0, access, &mut effects);
    for name in names(first) {
        assert!(db.remove(db.key(name.as_bytes()), Event::Del));
    }
    let mut seen = BTreeSet::new();
    while cursor != 0 {
        cursor = keyspace.db(0).scan(cursor, |handle| {
            seen.insert(handle);
        });
    }
    assert_eq!(seen.len(), 300);
}

#[test]
fn a_cursor_says_its_slot_in_its_low_bits() {
    let keyspace = filled(Layout::PerSlot, (0..500).map(|i| format!("{{foo}}{i}")));
    let slot = u64::from(key_slot(b"foo"));
    let (mut cursor, mut steps) = (0, 0);
    loop {
        cursor = keyspace.db(0).scan(cursor, |_| {});
        steps += 1;
        if cursor == 0 {
            break;
        }
        assert_eq!(cursor & 16383, slot);
    }
    assert!(steps > 20, "one for each bucket");
    // A cursor that a client invented must not cause a failure.
    for made_up in [u64::MAX, 1 << 63, slot, slot + 1, 16383, 16384] {
        keyspace.db(0).scan(made_up, |_| {});
    }
}

#[test]
fn a_table_that_has_become_empty_gives_its_memory_back() {
    let mut keyspace = filled(Layout::PerSlot, ["{t}0".to_owned()].into_iter());
    let one = keyspace.db(0).index_bytes();
    let access = Access {
        now: Now { mono_ns: 0, unix_us: 0 },
        touch: AccessUpdate::Lru(1),
        expiry: ExpiryMode::Delete,
        must_obey: false,
    };
    let mut effects = Effects::default();
    let names: Vec<String> = (1..2000).map(|i| format!("{{t}}{i}")).collect();
    let mut db = keyspace.write(0, access, &mut effects);
    for name in &names {
        db.set(db.key(name.as_bytes()), NewValue::Plain(b"v"), SetExpiry::At(1000), Event::Set);
    }
    for name in names.iter().map(String::as_str).chain(["{t}0"]) {
        assert!(db.remove(db.key(name.as_bytes()), Event::Del));
    }
    keyspace.db(0).check();
    assert!(keyspace.db(0).index_bytes() < one);
    assert_eq!(keyspace.db(0).expires_bytes(), 0);
    assert_eq!(keyspace.db(0).slot_len(key_slot(b"t")), 0);
}

#[test]
fn shrinking_comes_to_every_table_and_to_an_end() {
    let mut keyspace = filled(Layout::PerSlot, (0..3000).map(|i| format!("{{x{}}}{i}", i % 5)));
    let mut calls = 0;
    while keyspace.shrink_step(2) {
        calls += 1;
        assert!(calls < 10_000);
    }
    keyspace.db(0).check();
    assert_eq!(keyspace.db(0).len(), 3000);
}

#[test]
fn one_table_has_no_slots() {
    let keyspace = filled(Layout::One, (0..20).map(|i| format!("key{i}")));
    let db = keyspace.db(0);
    assert!((0..16384).all(|slot| db.slot_len(slot) == 0 && db.slot_iter(slot).next().is_none()));
    let hashed = Key::hashed(b"key3", keyspace.hasher());
    assert!(db.find(hashed).is_some());
}
