//! Tests of eviction from a keyspace: the candidates in the pool may change, move or be deleted at any time.

use sluice_base::{HashSeed, Now, Rng};
use sluice_keyspace::{
    Effects, EvictionKeys, EvictionOrder, EvictionPool, EvictionRule, KeyHasher, Keyspace, Layout, NewValue,
};
use std::collections::BTreeSet;

const SEED: HashSeed = HashSeed { k0: 31, k1: 32 };
const NOW_S: i64 = 1_700_000_000;
const EXPIRY_MS: i64 = NOW_S * 1000 + 1_000_000;

fn rule(order: EvictionOrder, among: EvictionKeys) -> EvictionRule {
    let now = Now { mono_ns: 0, unix_us: NOW_S * 1_000_000 };
    EvictionRule { order, among, samples: 5, lfu_decay: 1, now }
}

/// A short name, or one so long that it is stored outside its entry.
fn name(number: u64) -> Vec<u8> {
    match number % 7 {
        0 => format!("{number}:{}", "long".repeat(100)).into_bytes(),
        _ => format!("key:{number}").into_bytes(),
    }
}

fn names(keyspace: &Keyspace, db: usize) -> BTreeSet<Vec<u8>> {
    let db = keyspace.db(db);
    db.iter().map(|handle| db.key(handle).to_vec()).collect()
}

/// Adds, removes and evicts keys, whose blocks are reused while the pool still refers to them.
fn churn(layout: Layout, order: EvictionOrder, among: EvictionKeys) {
    let mut rng = Rng::new(7);
    let mut keyspace = Keyspace::new(3, KeyHasher::new(SEED, layout));
    let (mut pool, mut effects) = (EvictionPool::default(), Effects::default());
    effects.propagating = true;
    let mut there = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for round in 0..2_000 {
        let db = rng.below(2) as usize * 2;
        for _ in 0..rng.below(5) {
            let number = rng.below(300);
            let clock = NOW_S as u32 - rng.below(1000) as u32;
            if keyspace.load(db, &name(number), NewValue::Str(b"value"), Some(EXPIRY_MS), clock) {
                there[db].insert(name(number));
            }
        }
        for _ in 0..rng.below(5) {
            let number = rng.below(300);
            keyspace.unload(db, &name(number));
            there[db].remove(&name(number));
        }
        let any = there.iter().any(|keys| !keys.is_empty());
        assert_eq!(keyspace.evict(&rule(order, among), &mut pool, &mut rng, &mut effects), any);
        for (db, gone) in effects.evicted() {
            assert!(there[*db].remove(&gone[..]), "what was evicted was there, and is named");
        }
        assert_eq!(effects.take_evicted_keys(), u64::from(any));
        effects.clear_evicted();
        if round % 16 == 0 {
            (0..3).for_each(|db| keyspace.db(db).check());
        }
    }
    for (db, keys) in there.iter().enumerate() {
        assert_eq!(names(&keyspace, db), *keys);
    }
    while keyspace.evict(&rule(order, among), &mut pool, &mut rng, &mut effects) {}
    (0..3).for_each(|db| assert!(keyspace.db(db).is_empty()));
}

#[test]
fn evicting_keeps_databases_whole_whatever_became_of_the_candidates() {
    for layout in [Layout::One, Layout::PerSlot] {
        churn(layout, EvictionOrder::LeastRecent, EvictionKeys::All);
        churn(layout, EvictionOrder::LeastFrequent, EvictionKeys::Volatile);
        churn(layout, EvictionOrder::EndsFirst, EvictionKeys::Volatile);
        churn(layout, EvictionOrder::Random, EvictionKeys::All);
    }
}

#[test]
fn the_oldest_tenth_goes_before_the_newest_half() {
    for layout in [Layout::One, Layout::PerSlot] {
        let mut keyspace = Keyspace::new(2, KeyHasher::new(SEED, layout));
        let (mut pool, mut effects, mut rng) = (EvictionPool::default(), Effects::default(), Rng::new(3));
        for number in 0..10_000 {
            let clock = NOW_S as u32 - 10_000 + number;
            keyspace.load(0, &name(u64::from(number)), NewValue::Str(b"value"), None, clock);
        }
        let rule = EvictionRule { samples: 20, ..rule(EvictionOrder::LeastRecent, EvictionKeys::All) };
        for _ in 0..2_000 {
            assert!(keyspace.evict(&rule, &mut pool, &mut rng, &mut effects));
        }
        let left = names(&keyspace, 0);
        let among = |from: u64, to: u64| (from..to).filter(|number| left.contains(&name(*number))).count();
        assert!(among(0, 1_000) < 80, "{layout:?}: {} of the oldest thousand are left", among(0, 1_000));
        assert_eq!(among(5_000, 10_000), 5_000, "{layout:?}");
    }
}

#[test]
fn keys_in_an_index_made_for_very_many_are_found() {
    let mut keyspace = Keyspace::new(1, KeyHasher::new(SEED, Layout::One));
    keyspace.reserve(0, 1_000_000, 1_000_000);
    let (mut pool, mut effects, mut rng) = (EvictionPool::default(), Effects::default(), Rng::new(4));
    for number in 0..3 {
        keyspace.load(0, &name(number), NewValue::Str(b"value"), Some(EXPIRY_MS), 0);
    }
    for among in [EvictionKeys::All, EvictionKeys::Volatile, EvictionKeys::All] {
        assert!(keyspace.evict(&rule(EvictionOrder::LeastRecent, among), &mut pool, &mut rng, &mut effects));
        pool.clear();
    }
    assert!(keyspace.db(0).is_empty());
}
