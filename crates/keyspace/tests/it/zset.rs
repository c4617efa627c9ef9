//! Compares sorted sets of the keyspace with maps: random edits in every form, renames, copies that share
//! values, and cuts (point-in-time views) during these changes.

use sluice_base::{HashSeed, Now, Rng};
use sluice_keyspace::{
    Access, AccessUpdate, Effects, Event, ExpiryMode, KeyHasher, Keyspace, Layout, NewValue, ValueRef,
};
use sluice_value::{Type, Zset, ZsetLimits, ZsetRef};
use std::collections::BTreeMap;

type Scores = BTreeMap<Vec<u8>, u64>;
type Contents = BTreeMap<(usize, Vec<u8>), Scores>;

/// The members of a sorted set with the bits of their scores; checks the order of the scores.
fn scores_of(value: ValueRef<'_>) -> Scores {
    let ValueRef::Zset(zset) = value else { panic!("the test makes sorted sets alone") };
    let found: Scores = zset.iter_all().map(|(member, score)| (member.to_vec(), score.to_bits())).collect();
    assert_eq!(found.len(), zset.len());
    let order: Vec<f64> = zset.iter_all().map(|(_, score)| score).collect();
    assert!(order.windows(2).all(|pair| pair[0] <= pair[1]));
    found
}

fn contents(keyspace: &Keyspace) -> Contents {
    let entries =
        keyspace.iter().flat_map(|(number, db)| db.iter().map(move |handle| (number, db.entry(handle))));
    entries.map(|(number, entry)| ((number, entry.key().to_vec()), scores_of(entry.value()))).collect()
}

struct Twin {
    keyspace: Keyspace,
    effects: Effects,
    model: Contents,
    rng: Rng,
    done: BTreeMap<&'static str, usize>,
}

const LIMITS: ZsetLimits = ZsetLimits { entries_max: 20, value_max: 40 };

impl Twin {
    fn new(seed: u64) -> Twin {
        let mut effects = Effects::default();
        effects.listen(sluice_keyspace::Classes::CHANGES);
        Twin {
            keyspace: Keyspace::new(2, KeyHasher::new(HashSeed { k0: 3, k1: seed }, Layout::One)),
            effects,
            model: Contents::new(),
            rng: Rng::new(seed),
            done: BTreeMap::new(),
        }
    }

    fn write<R>(&mut self, db: usize, run: impl FnOnce(&mut sluice_keyspace::DbMut<'_>) -> R) -> R {
        let now = Now { mono_ns: 0, unix_us: 1_700_000_000_000_000 };
        let access =
            Access { now, touch: AccessUpdate::Lru(77), expiry: ExpiryMode::Delete, must_obey: false };
        let result = run(&mut self.keyspace.write(db, access, &mut self.effects));
        self.effects.drain_garbage();
        self.effects.drain_modified();
        result
    }

    fn any_key(&mut self) -> Vec<u8> {
        let len = [1, 5, 253, 254, 255, 400][self.rng.below(6) as usize];
        vec![b'a' + self.rng.below(3) as u8; len]
    }

    fn any_member(&mut self) -> Vec<u8> {
        let number = self.rng.below(300);
        let pad = if number < 6 { 300 } else { (number % 5 * 10) as usize };
        format!("{number:0pad$}").into_bytes()
    }

    fn step(&mut self) {
        let db = self.rng.below(2) as usize;
        let key = self.any_key();
        let name = match self.rng.below(40) {
            0 => self.rename(db, &key),
            1 => self.copy(db, &key),
            2 => self.expire(db, &key),
            3 => {
                self.write(db, |d| d.remove(d.key(&key), Event::Del));
                self.model.remove(&(db, key));
                "remove"
            }
            4 => self.store(db, &key),
            _ => self.change(db, &key),
        };
        *self.done.entry(name).or_default() += 1;
    }

    fn rename(&mut self, db: usize, from: &[u8]) -> &'static str {
        let to = self.any_key();
        let was_there = self.write(db, |d| d.rename(d.key(from), d.key(&to)));
        if let Some(scores) = self.model.remove(&(db, from.to_vec())) {
            assert!(was_there);
            self.model.insert((db, to), scores);
        }
        "rename"
    }

    fn copy(&mut self, db: usize, from: &[u8]) -> &'static str {
        let to = self.any_key();
        if from == to.as_slice() {
            return "rest";
        }
        self.write(db, |d| d.copy_to(d.key(from), 1 - db, d.key(&to)));
        if let Some(scores) = self.model.get(&(db, from.to_vec())) {
            self.model.insert((1 - db, to), scores.clone());
        }
        "copy"
    }

    fn expire(&mut self, db: usize, key: &[u8]) -> &'static str {
        let at = (self.rng.below(2) == 0).then_some(1_900_000_000_000);
        self.write(db, |d| d.set_expiry(d.key(key), at, Event::Expire));
        "expire"
    }

    fn store(&mut self, db: usize, key: &[u8]) -> &'static str {
        let count = 1 + self.rng.below(400);
        let scores: Scores = (0..count)
            .map(|number| (format!("s{number:04}").into_bytes(), (number as f64).to_bits()))
            .collect();
        self.write(db, |d| {
            let mut context = d.zset_context(LIMITS);
            let elements: Vec<(&[u8], f64)> =
                scores.iter().map(|(member, bits)| (member.as_slice(), f64::from_bits(*bits))).collect();
            let encoding = LIMITS.encoding_for(elements.len(), 5);
            let zset = Zset::from_sorted(elements.into_iter(), encoding, &mut context);
            d.store_zset(d.key(key), zset, Event::ZUnionStore);
        });
        self.model.insert((db, key.to_vec()), scores);
        "store"
    }

    /// Applies some additions, changes and removals in one edit.
    fn change(&mut self, db: usize, key: &[u8]) -> &'static str {
        let db_key = (db, key.to_vec());
        let mut scores = self.model.get(&db_key).cloned().unwrap_or_default();
        let count = 1 + self.rng.below(12);
        let removes = self.rng.below(100) < if scores.len() > 120 { 80 } else { 35 };
        let changes: Vec<(Vec<u8>, f64)> =
            (0..count).map(|_| (self.any_member(), self.rng.below(50) as f64 / 4.0)).collect();
        let cut = self.rng.below(12) == 0;
        let was_there = self.model.contains_key(&db_key);
        self.write(db, |d| {
            let mut edit = d.edit_or_create_zset(d.key(key), LIMITS).unwrap();
            let (zset, context) = edit.parts();
            for (member, score) in &changes {
                match (zset.view().score(member), removes) {
                    (Some(_), true) => {
                        zset.remove(member, context);
                        scores.remove(member);
                    }
                    (None, true) => {}
                    (Some(old), false) if old != *score => {
                        zset.change(member, context, |_| Some(*score));
                        scores.insert(member.clone(), score.to_bits());
                    }
                    (Some(_), false) => {}
                    (None, false) => {
                        zset.insert(member, *score, context);
                        scores.insert(member.clone(), score.to_bits());
                    }
                }
            }
            if cut {
                let keep = zset.len() / 3;
                let gone: Vec<Vec<u8>> = zset
                    .view()
                    .iter(keep..usize::MAX, sluice_value::Direction::Up)
                    .map(|(m, _)| m.to_vec())
                    .collect();
                for member in &gone {
                    scores.remove(member);
                }
                let len = zset.len();
                zset.remove_ranks(keep..len, context);
            }
            if zset.is_empty() && !was_there {
                edit.unchanged();
            } else {
                edit.done(Event::ZAdd, 1);
            }
        });
        match scores.is_empty() {
            true => drop(self.model.remove(&db_key)),
            false => drop(self.model.insert(db_key, scores)),
        }
        "change"
    }
}

#[test]
fn edits_agree_with_maps() {
    for seed in 0..6 {
        let mut twin = Twin::new(seed);
        let (mut inline, mut outside) = (0, 0);
        for step in 0..2500 {
            twin.step();
            if step % 16 == 0 {
                assert_eq!(contents(&twin.keyspace), twin.model);
                for number in 0..2 {
                    let db = twin.keyspace.db(number);
                    db.check();
                    for entry in db.iter().map(|handle| db.entry(handle)) {
                        assert_eq!(entry.type_of(), Type::Zset);
                        match entry.as_zset() {
                            Ok(ZsetRef::Inline { .. }) => inline += 1,
                            Ok(ZsetRef::Value(_)) => outside += 1,
                            Err(_) => panic!("the test makes sorted sets alone"),
                        }
                    }
                }
            }
        }
        assert!(inline > 200 && outside > 200, "{inline} {outside}");
        assert!(
            ["rename", "copy", "expire", "remove", "store", "change"].iter().all(|name| twin.done[name] > 20)
        );
    }
}

#[test]
fn a_cut_gives_what_was_there_whatever_happens_meanwhile() {
    for seed in 10..16 {
        let mut twin = Twin::new(seed);
        for _ in 0..200 {
            twin.step();
        }
        for _ in 0..12 {
            let wanted = contents(&twin.keyspace);
            twin.keyspace.begin_cut();
            let mut given = Contents::new();
            for _ in 0..60 {
                twin.step();
                if twin.rng.below(8) == 0 {
                    let number = twin.rng.below(2) as usize;
                    take(&mut twin.keyspace, &mut given, number, 3);
                }
            }
            (0..2).for_each(|number| while take(&mut twin.keyspace, &mut given, number, usize::MAX) {});
            twin.keyspace.end_cut();
            assert!(given == wanted, "seed {seed}: what was captured is not what was there at the cut");
        }
    }
}

/// Captures some entries of a database; returns whether any were left to capture.
fn take(keyspace: &mut Keyspace, given: &mut Contents, number: usize, budget: usize) -> bool {
    let Some(piece) = keyspace.advance_cut(number, budget) else { return false };
    for entry in piece.iter() {
        let twice = given.insert((piece.number(), entry.key().to_vec()), scores_of(entry.value()));
        assert_eq!(twice, None, "an entry was captured twice");
    }
    true
}

#[test]
fn strings_are_no_sorted_sets() {
    let mut twin = Twin::new(1);
    twin.keyspace.load(0, b"s", NewValue::Str(b"v"), None, 0);
    let results = twin.write(0, |d| {
        let edited = d.edit_zset(d.key(b"s"), LIMITS).is_err();
        let created = d.edit_or_create_zset(d.key(b"s"), LIMITS).is_err();
        [edited, created]
    });
    assert_eq!(results, [true, true]);
    assert!(twin.write(0, |d| d.edit_zset(d.key(b"none"), LIMITS).unwrap().is_none()));
}
