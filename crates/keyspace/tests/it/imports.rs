//! Compares a keyspace, in which slots are hidden while they are imported, with a plain list of keys. Walks,
//! counts, samples, eviction and expiry must skip the hidden keys, and no other operation may do so.

use sluice_base::{HashSeed, Now, Rng, key_slot};
use sluice_keyspace::{
    Access, AccessUpdate, Effects, EvictionKeys, EvictionOrder, EvictionPool, EvictionRule, ExpireCycle,
    ExpireWalk, ExpiryMode, KeyHasher, Keyspace, Layout, NewValue, SlotImport,
};
use sluice_value::{Hash, HashExpiry};
use std::collections::BTreeSet;

const SEED: HashSeed = HashSeed { k0: 51, k1: 52 };
const NOW_MS: i64 = 1_700_000_000_000;
const NOW: Now = Now { mono_ns: 0, unix_us: NOW_MS * 1000 };

fn keyspace(databases: usize) -> Keyspace {
    Keyspace::new(databases, KeyHasher::new(SEED, Layout::PerSlot))
}

fn import(letter: u8, ranges: &[(u16, u16)]) -> SlotImport {
    SlotImport { name: [letter; 40], source: None, ranges: ranges.into() }
}

fn names(
    keyspace: &Keyspace,
    handles: impl Iterator<Item = sluice_collections::slab::Handle>,
) -> BTreeSet<Vec<u8>> {
    handles.map(|handle| keyspace.db(0).key(handle).to_vec()).collect()
}

/// All keys that a scan returns if it begins at `cursor`.
fn scanned(keyspace: &Keyspace, mut cursor: u64) -> BTreeSet<Vec<u8>> {
    let mut seen = BTreeSet::new();
    loop {
        cursor = keyspace.db(0).scan(cursor, |handle| {
            seen.insert(keyspace.db(0).key(handle).to_vec());
        });
        if cursor == 0 {
            return seen;
        }
    }
}

#[test]
fn cb_g13_walks_and_counts_pass_hidden_slots_by() {
    for (seed, share) in [(1, 0), (2, 10), (3, 50), (4, 99), (5, 100)] {
        let (mut keyspace, mut rng) = (keyspace(1), Rng::new(seed));
        let mut hidden = BTreeSet::new();
        for slot in 0..16_384_u16 {
            if rng.below(100) < share {
                hidden.insert(slot);
            }
        }
        let ranges: Vec<(u16, u16)> = hidden.iter().map(|slot| (*slot, *slot)).collect();
        let (mut shown, mut all, mut shown_expires) = (BTreeSet::new(), BTreeSet::new(), 0);
        for number in 0..3_000 {
            // Half of the keys share three slots.
            let name = match number % 2 {
                0 => format!("{{{}}}{number}", number % 3),
                _ => format!("key:{number}"),
            };
            let expiry = (number % 5 == 0).then_some(NOW_MS + 1_000_000);
            keyspace.load(0, name.as_bytes(), NewValue::Str(b"v"), expiry, 0);
            if !hidden.contains(&key_slot(name.as_bytes())) {
                shown.insert(name.clone().into_bytes());
                shown_expires += usize::from(expiry.is_some());
            }
            all.insert(name.into_bytes());
        }
        if !ranges.is_empty() {
            keyspace.import_marks().begin(import(b'a', &ranges));
        }
        let db = keyspace.db(0);
        assert_eq!((db.len(), db.shown().len()), (3_000, shown.len()), "{share} %");
        assert_eq!((db.expires_len(), db.shown().expires_len()), (600, shown_expires), "{share} %");
        assert_eq!(names(&keyspace, db.iter()), all, "a save has all");
        assert_eq!(names(&keyspace, db.shown().iter()), shown);
        assert_eq!(scanned(&keyspace, 0), shown);
        // A scan whose cursor is in a slot when the slot is hidden continues after this slot.
        for slot in [0, 100, key_slot(b"0"), 16_383] {
            let later = shown.iter().filter(|name| key_slot(name) >= slot).cloned().collect();
            assert_eq!(scanned(&keyspace, u64::from(slot)), later);
        }
        for _ in 0..300 {
            let drawn = db.sample(&mut rng).map(|handle| db.key(handle).to_vec());
            assert_eq!(drawn.is_none(), shown.is_empty());
            assert!(drawn.is_none_or(|name| shown.contains(&name)));
            let drawn = db.sample_expires(&mut rng).map(|handle| db.key(handle).to_vec());
            assert_eq!(drawn.is_none(), shown_expires == 0);
            assert!(drawn.is_none_or(|name| shown.contains(&name)));
        }
        db.check();
        keyspace.import_marks().end(&[b'a'; 40]);
        assert_eq!(keyspace.db(0).shown().len(), 3_000, "one settle");
        assert_eq!(scanned(&keyspace, 0), all);
    }
}

#[test]
fn every_shown_key_is_drawn_though_nearly_all_are_hidden() {
    let (mut keyspace, mut rng) = (keyspace(1), Rng::new(9));
    for number in 0..4_000 {
        keyspace.load(0, format!("{{a}}{number}").as_bytes(), NewValue::Str(b"v"), None, 0);
    }
    for name in ["b", "c", "{c}2"] {
        keyspace.load(0, name.as_bytes(), NewValue::Str(b"v"), None, 0);
    }
    let slot = key_slot(b"a");
    keyspace.import_marks().begin(import(b'a', &[(slot, slot)]));
    let db = keyspace.db(0);
    let draw = |rng: &mut Rng| db.sample(rng).map(|handle| db.key(handle).to_vec());
    let drawn: BTreeSet<Vec<u8>> = (0..200).filter_map(|_| draw(&mut rng)).collect();
    assert_eq!(drawn, [b"b".to_vec(), b"c".to_vec(), b"{c}2".to_vec()].into());
}

#[test]
fn cb_g13_eviction_and_expiry_leave_hidden_slots_alone() {
    let slot = key_slot(b"a");
    let filled = || {
        let mut keyspace = keyspace(1);
        for number in 0..200 {
            for tag in ["a", "b"] {
                let name = format!("{{{tag}}}{number}");
                keyspace.load(0, name.as_bytes(), NewValue::Str(b"v"), Some(NOW_MS - 1), 0);
            }
        }
        keyspace
    };
    let is_hidden_alone = |keyspace: &Keyspace| {
        assert_eq!((keyspace.db(0).len(), keyspace.db(0).slot_len(slot)), (200, 200));
    };
    let (mut effects, mut rng) = (Effects::default(), Rng::new(3));
    for order in [
        EvictionOrder::LeastRecent,
        EvictionOrder::LeastFrequent,
        EvictionOrder::EndsFirst,
        EvictionOrder::Random,
    ] {
        for among in [EvictionKeys::All, EvictionKeys::Volatile] {
            let rule = EvictionRule { order, among, samples: 5, lfu_decay: 1, now: NOW };
            let (mut keyspace, mut pool) = (filled(), EvictionPool::default());
            // After this eviction the pool has candidates from the slot that is hidden next.
            assert!(keyspace.evict(&rule, &mut pool, &mut rng, &mut effects));
            let before = keyspace.db(0).slot_len(slot);
            keyspace.import_marks().begin(import(b'a', &[(slot, slot)]));
            while keyspace.evict(&rule, &mut pool, &mut rng, &mut effects) {}
            assert_eq!((keyspace.db(0).len(), keyspace.db(0).slot_len(slot)), (before, before), "{rule:?}");
        }
    }
    let mut keyspace = filled();
    keyspace.import_marks().begin(import(b'a', &[(slot, slot)]));
    let cycle = ExpireCycle { now_ms: NOW_MS, keys_per_round: 20, tolerated_percent: 10 };
    let mut walk = ExpireWalk::default();
    let mut run = |keyspace: &mut Keyspace| {
        walk.begin(1);
        while !walk.is_over() {
            keyspace.expire_step(cycle, &mut walk, &mut effects);
        }
    };
    run(&mut keyspace);
    is_hidden_alone(&keyspace);
    run(&mut keyspace);
    is_hidden_alone(&keyspace);
    keyspace.import_marks().end(&[b'a'; 40]);
    run(&mut keyspace);
    assert!(keyspace.db(0).is_empty());
}

#[test]
fn cb_g13_fields_of_hidden_slots_do_not_expire() {
    let (mut keyspace, mut effects, mut walk) = (keyspace(1), Effects::default(), ExpireWalk::default());
    for name in ["{a}first", "{b}second"] {
        let mut hash = Hash::default();
        let mut context = sluice_value::HashContext::default();
        hash.set(b"field", b"value", HashExpiry::At(NOW_MS - 1), &mut context);
        hash.set(b"stays", b"value", HashExpiry::Clear, &mut context);
        keyspace.load(0, name.as_bytes(), NewValue::Hash(hash), None, 0);
    }
    let slot = key_slot(b"a");
    keyspace.import_marks().begin(import(b'a', &[(slot, slot)]));
    let cycle = ExpireCycle { now_ms: NOW_MS, keys_per_round: 20, tolerated_percent: 10 };
    let mut run = |keyspace: &mut Keyspace| {
        walk.begin(1);
        while !walk.is_over() {
            keyspace.expire_step(cycle, &mut walk, &mut effects);
        }
    };
    assert_eq!(keyspace.db(0).volatile_len(), 2);
    run(&mut keyspace);
    assert_eq!(keyspace.db(0).volatile_len(), 1, "the other one's field is gone");
    keyspace.import_marks().end(&[b'a'; 40]);
    run(&mut keyspace);
    assert_eq!(keyspace.db(0).volatile_len(), 0);
}

#[test]
fn hidden_hashes_however_many_do_not_keep_fields_of_others_from_expiring() {
    let (mut keyspace, mut effects, mut walk) = (keyspace(1), Effects::default(), ExpireWalk::default());
    let hash_of = |ago_ms: i64| {
        let mut hash = Hash::default();
        let mut context = sluice_value::HashContext::default();
        hash.set(b"field", b"value", HashExpiry::At(NOW_MS - ago_ms), &mut context);
        hash.set(b"stays", b"value", HashExpiry::Clear, &mut context);
        NewValue::Hash(hash)
    };
    // In the order of their expiry, fields of hidden hashes come first, and fields of shown hashes between
    // and after them.
    for number in 0..1_000_i64 {
        let tag = if number % 100 == 99 { "b" } else { "a" };
        keyspace.load(0, format!("{{{tag}}}{number}").as_bytes(), hash_of(2_000 - number), None, 0);
    }
    let slot = key_slot(b"a");
    keyspace.import_marks().begin(import(b'a', &[(slot, slot)]));
    let cycle = ExpireCycle { now_ms: NOW_MS, keys_per_round: 20, tolerated_percent: 10 };
    let mut run = |keyspace: &mut Keyspace| {
        walk.begin(1);
        while !walk.is_over() {
            keyspace.expire_step(cycle, &mut walk, &mut effects);
        }
    };
    run(&mut keyspace);
    assert_eq!(keyspace.db(0).volatile_len(), 990);
    // The next cycle finds a new hash whose field expires earlier than the fields that the last cycle has
    // passed.
    keyspace.load(0, b"{b}early", hash_of(5_000), None, 0);
    run(&mut keyspace);
    assert_eq!(keyspace.db(0).volatile_len(), 990);
    keyspace.import_marks().end(&[b'a'; 40]);
    run(&mut keyspace);
    assert_eq!(keyspace.db(0).volatile_len(), 0);
}

/// A new import replaces an older one that has its name or one of its slots, because the older import must
/// have ended, although nobody reported its end. Therefore there are never more imports, or ranges of
/// imports, than slots.
#[test]
fn imports_share_no_slot_and_are_bounded_by_the_slots() {
    let mut keyspace = keyspace(2);
    for slot in 0..16_384_u16 {
        let mut name = [b'x'; 40];
        name[..5].copy_from_slice(format!("{slot:05}").as_bytes());
        keyspace.import_marks().begin(SlotImport { name, source: None, ranges: [(slot, slot)].into() });
    }
    assert_eq!(keyspace.imports().len(), 16_384);
    keyspace.import_marks().begin(import(b'a', &[(5, 6), (9, 9)]));
    assert_eq!(keyspace.imports().len(), 16_382);
    keyspace.import_marks().begin(import(b'b', &[(0, 16_383)]));
    assert_eq!(keyspace.imports(), [import(b'b', &[(0, 16_383)])]);
    keyspace.import_marks().begin(import(b'b', &[(7, 7)]));
    assert_eq!(keyspace.imports(), [import(b'b', &[(7, 7)])]);
    assert!(keyspace.is_hidden(7) && !keyspace.is_hidden(6) && !keyspace.is_hidden(8));
    assert_eq!(keyspace.import_marks().end(b"nobody"), None);
    assert_eq!(keyspace.import_marks().end(&[b'b'; 40]), Some(import(b'b', &[(7, 7)])));
    assert!(!keyspace.is_hidden(7) && keyspace.imports().is_empty());
}

/// G-15: the slots of an import stay hidden when a database is emptied or swapped, but not when all data are
/// replaced.
#[test]
fn cb_g15_every_database_hides_the_slots_whatever_becomes_of_its_keys() {
    let access =
        Access { now: NOW, touch: AccessUpdate::Lru(1), expiry: ExpiryMode::Ignore, must_obey: true };
    let (mut keyspace, mut effects) = (keyspace(2), Effects::default());
    let slot = key_slot(b"a");
    keyspace.import_marks().begin(import(b'a', &[(slot, slot)]));
    keyspace.load(1, b"a", NewValue::Str(b"v"), None, 0);
    assert_eq!(
        (keyspace.db(1).len(), keyspace.db(1).shown().len()),
        (1, 0),
        "the first key comes after the mark"
    );
    keyspace.dataset(access, &mut effects).flush(1);
    keyspace.load(1, b"{a}2", NewValue::Str(b"v"), None, 0);
    assert_eq!((keyspace.db(1).len(), keyspace.db(1).shown().len()), (1, 0));
    keyspace.dataset(access, &mut effects).swap(0, 1);
    assert_eq!((keyspace.db(0).len(), keyspace.db(0).shown().len()), (1, 0));
    let mut other = keyspace.empty_twin();
    assert!(other.imports().is_empty());
    other.load(0, b"{a}3", NewValue::Str(b"v"), None, 0);
    keyspace.dataset(access, &mut effects).replace(other);
    assert!(keyspace.imports().is_empty(), "the data that were loaded know of none");
    assert_eq!(keyspace.db(0).shown().len(), 1);
    // With one table for all keys nothing is hidden.
    let mut plain = Keyspace::new(1, KeyHasher::new(SEED, Layout::One));
    plain.load(0, b"a", NewValue::Str(b"v"), None, 0);
    plain.import_marks().begin(import(b'a', &[(0, 16_383)]));
    assert_eq!((plain.db(0).shown().len(), scanned(&plain, 0).len()), (1, 1));
}
