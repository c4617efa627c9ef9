//! Tests of slots that are emptied at once, and whose keys are freed later in steps (G-20, G-22).

use sluice_base::{HashSeed, Now, key_slot};
use sluice_keyspace::{
    Access, AccessUpdate, Captured, Classes, DbChange, Effects, Event, ExpireCycle, ExpireWalk, ExpiryMode,
    KeyHasher, Keyspace, Layout, NewValue,
};
use sluice_value::{Hash, HashContext, HashExpiry};

const SEED: HashSeed = HashSeed { k0: 51, k1: 52 };
const NOW_MS: i64 = 1_700_000_000_000;

fn access() -> Access {
    let now = Now { mono_ns: 0, unix_us: NOW_MS * 1000 };
    Access { now, touch: AccessUpdate::Lru(1), expiry: ExpiryMode::Delete, must_obey: false }
}

/// A keyspace with `keys` keys in the slot of `a`, spread over two databases, every second one with an
/// expiry, and with one key in another slot.
fn filled(keys: usize) -> Keyspace {
    let mut keyspace = Keyspace::new(2, KeyHasher::new(SEED, Layout::PerSlot));
    for number in 0..keys {
        let (name, value) = (format!("{{a}}{number}"), vec![b'v'; number % 300]);
        let expiry_ms = (number % 2 == 0).then_some(NOW_MS + 1_000_000);
        keyspace.load(number % 2, name.as_bytes(), NewValue::Str(&value), expiry_ms, 0);
    }
    keyspace.load(0, b"other", NewValue::Str(b"v"), None, 0);
    keyspace
}

fn detach(keyspace: &mut Keyspace, effects: &mut Effects) -> usize {
    keyspace.dataset(access(), effects).detach_slot(key_slot(b"a"))
}

fn free_all(keyspace: &mut Keyspace, effects: &mut Effects) {
    while keyspace.free_detached(effects) {}
}

#[test]
fn cb_g22_a_slot_is_gone_at_once_and_its_memory_comes_back_in_steps() {
    let (mut keyspace, mut effects) = (filled(0), Effects::default());
    let (memory, tables) = (keyspace.data_bytes(), keyspace.footprint());
    for number in 0..20_000 {
        let name = format!("{{a}}{number}");
        keyspace.load(
            0,
            name.as_bytes(),
            NewValue::Str(&[b'v'; 100]),
            (number % 2 == 0).then_some(NOW_MS),
            0,
        );
    }
    let full = keyspace.data_bytes();
    assert_eq!(detach(&mut keyspace, &mut effects), 20_000);
    assert_eq!(effects.take_changes(), 20_000, "each key is a change since the last save");
    let db = keyspace.db(0);
    assert_eq!((db.len(), db.expires_len(), db.slot_len(key_slot(b"a"))), (1, 0, 0));
    assert!(db.find(keyspace.key(b"{a}1")).is_none() && keyspace.was_detached(0, keyspace.key(b"{a}1")));
    assert!(!keyspace.was_detached(0, keyspace.key(b"{a}x")));
    assert!(keyspace.data_bytes() > full * 9 / 10, "nothing is freed yet");
    let (mut steps, mut before) = (0, keyspace.data_bytes());
    while keyspace.free_detached(&mut effects) {
        let freed = before - keyspace.data_bytes();
        // A step frees the entries of some buckets, and the memory of indexes that are then empty.
        assert!((1_000..400_000).contains(&freed), "{freed} in step {steps}");
        before = keyspace.data_bytes();
        if steps % 50 == 0 {
            keyspace.db(0).check();
        }
        steps += 1;
    }
    assert!(steps > 300 && !keyspace.has_detached());
    assert_eq!((keyspace.data_bytes(), keyspace.footprint().0), (memory, tables.0));
    keyspace.db(0).check();
}

#[test]
fn keys_that_are_made_anew_are_no_part_of_what_is_freed() {
    let (mut keyspace, mut effects) = (filled(1_000), Effects::default());
    detach(&mut keyspace, &mut effects);
    for number in 0..100 {
        let name = format!("{{a}}{number}");
        assert!(keyspace.load(0, name.as_bytes(), NewValue::Str(b"new"), None, 0));
    }
    // The slot is emptied again, while the first keys are being freed.
    keyspace.free_detached(&mut effects);
    assert_eq!(detach(&mut keyspace, &mut effects), 100);
    assert!(keyspace.load(0, b"{a}1", NewValue::Str(b"newest"), None, 0));
    free_all(&mut keyspace, &mut effects);
    let db = keyspace.db(0);
    assert_eq!((db.len(), db.slot_len(key_slot(b"a"))), (2, 1));
    db.check();
}

#[test]
fn a_key_that_is_freed_is_told_to_those_who_cache_it_and_to_nobody_else() {
    let (mut keyspace, mut effects) = (filled(300), Effects::default());
    effects.listen(Classes::CHANGES);
    detach(&mut keyspace, &mut effects);
    let slot = key_slot(b"a");
    assert_eq!(effects.take_databases(), [DbChange::SlotFlushed(0, slot), DbChange::SlotFlushed(1, slot)]);
    assert_eq!(effects.drain_modified().count(), 0);
    free_all(&mut keyspace, &mut effects);
    let told: Vec<Event> = effects.drain_modified().map(|modified| modified.event).collect();
    assert_eq!(told.len(), 300);
    assert!(told.iter().all(|event| *event == Event::Freed && !event.is_published()));
    let hash = keyspace.key(b"{a}7").hash;
    let mut keyspace = filled(300);
    assert!(
        effects.listened_keys().add(hash) || effects.listened_keys().may_have(hash) || {
            effects.listened_keys().refill(sluice_keyspace::KeyFilter::part_of(hash), [hash].into_iter());
            true
        }
    );
    effects.listen_by_key();
    detach(&mut keyspace, &mut effects);
    free_all(&mut keyspace, &mut effects);
    assert!(effects.drain_modified().count() < 60, "keys that nobody has named cost no message");
}

/// A walk that copies a slot for another node captures no key that was removed when the slot was emptied,
/// whether before the walk or during it.
#[test]
fn a_walk_over_a_slot_meets_none_of_the_keys_that_went_before_or_meanwhile() {
    let (mut keyspace, mut effects) = (filled(400), Effects::default());
    detach(&mut keyspace, &mut effects);
    keyspace.load(0, b"{a}1", NewValue::Str(b"new"), None, 0);
    keyspace.begin_slot_walk(key_slot(b"a"));
    keyspace.free_detached(&mut effects);
    while keyspace.advance_slot_walk() {}
    free_all(&mut keyspace, &mut effects);
    let walked: usize = std::iter::from_fn(|| keyspace.take_walked()).map(|piece| piece.len()).sum();
    assert_eq!(walked, 1);
    keyspace.end_slot_walk();
    keyspace.begin_slot_walk(key_slot(b"a"));
    detach(&mut keyspace, &mut effects);
    assert!(!keyspace.advance_slot_walk() && keyspace.take_walked().is_none());
    keyspace.db(0).check();
    free_all(&mut keyspace, &mut effects);
    assert!(keyspace.take_walked().is_none());
    keyspace.end_slot_walk();
}

#[test]
fn a_cut_has_the_keys_that_went_later_and_not_those_that_went_before() {
    for (before, wanted) in [(true, 1), (false, 2_001)] {
        let (mut keyspace, mut effects) = (filled(2_000), Effects::default());
        if before {
            detach(&mut keyspace, &mut effects);
            (0..5).for_each(|_| _ = keyspace.free_detached(&mut effects));
        }
        keyspace.begin_cut();
        if !before {
            detach(&mut keyspace, &mut effects);
        }
        let mut pieces: Vec<Captured> = Vec::new();
        // The cursor of the cut passes buckets that are being freed.
        for _ in 0..20 {
            pieces.extend(keyspace.advance_cut(0, 10));
            keyspace.free_detached(&mut effects);
        }
        for number in 0..2 {
            while let Some(piece) = keyspace.advance_cut(number, usize::MAX) {
                pieces.push(piece);
            }
        }
        let captured: usize = pieces.iter().map(Captured::len).sum();
        assert_eq!(captured, wanted);
        keyspace.end_cut();
        free_all(&mut keyspace, &mut effects);
        keyspace.db(0).check();
    }
}

#[test]
fn fields_of_a_hash_that_is_being_freed_do_not_expire_and_keep_no_other_from_it() {
    let (mut keyspace, mut effects) = (filled(0), Effects::default());
    let hash = |at_ms: i64| {
        let (mut hash, mut context) = (Hash::default(), HashContext::default());
        hash.set(b"field", b"value", HashExpiry::At(at_ms), &mut context);
        hash.set(b"stays", b"value", HashExpiry::Clear, &mut context);
        hash
    };
    let mut walk = ExpireWalk::default();
    let cycle = ExpireCycle { now_ms: NOW_MS, keys_per_round: 20, tolerated_percent: 10 };
    let mut run = |keyspace: &mut Keyspace, effects: &mut Effects| {
        walk.begin(1);
        while !walk.is_over() {
            keyspace.expire_step(cycle, &mut walk, effects);
        }
    };
    keyspace.load(0, b"{a}1", NewValue::Hash(hash(NOW_MS - 9)), None, 0);
    keyspace.load(0, b"{a}2", NewValue::Hash(hash(NOW_MS + 50)), None, 0);
    detach(&mut keyspace, &mut effects);
    // New hashes get the names of hashes that are still to be freed. The field of the first expires at
    // another time than in the old hash, the field of the second at the same time.
    keyspace.load(0, b"{a}1", NewValue::Hash(hash(NOW_MS - 5)), None, 0);
    keyspace.load(0, b"{a}2", NewValue::Hash(hash(NOW_MS + 50)), None, 0);
    run(&mut keyspace, &mut effects);
    assert_eq!(effects.take_fields_deleted(), 1, "that of the live hash");
    free_all(&mut keyspace, &mut effects);
    let db = keyspace.db(0);
    assert_eq!(db.volatile_len(), 1, "the time of the live one is kept");
    db.check();
}

#[test]
fn a_database_that_is_flushed_takes_along_what_is_left_to_free() {
    let (mut keyspace, mut effects) = (filled(1_000), Effects::default());
    keyspace.dataset(access(), &mut effects).flush(1);
    effects.drain_garbage_dbs().for_each(drop);
    detach(&mut keyspace, &mut effects);
    keyspace.unload(0, b"other");
    keyspace.dataset(access(), &mut effects).flush(0);
    assert_eq!(effects.drain_garbage_dbs().count(), 1, "it is freed elsewhere though it has no key");
    assert!(!keyspace.has_detached());
}
