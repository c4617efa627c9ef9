//! Test of a walk over all keys of a database.

use sluice_base::{HashSeed, Now};
use sluice_keyspace::{Access, AccessUpdate, Effects, ExpiryMode, KeyHasher, Keyspace, Layout, NewValue};
use std::collections::BTreeSet;

const SEED: HashSeed = HashSeed { k0: 43, k1: 44 };

/// The numbers of keys lie around the number of entries that a walk prefetches.
#[test]
fn every_live_key_is_visited_once_however_many_there_are() {
    let now = Now { mono_ns: 0, unix_us: 1_700_000_000_000_000 };
    let access = Access { now, touch: AccessUpdate::Lru(1), expiry: ExpiryMode::Hide, must_obey: false };
    for layout in [Layout::One, Layout::PerSlot] {
        for keys in [0, 1, 31, 32, 33, 63, 64, 65, 1000] {
            let mut keyspace = Keyspace::new(1, KeyHasher::new(SEED, layout));
            let mut live = BTreeSet::new();
            for number in 0..keys {
                let name = format!("key:{number}").into_bytes();
                let expiry_ms = (number % 5 == 4).then(|| now.unix_ms() - 1);
                keyspace.load(0, &name, NewValue::Str(b"value"), expiry_ms, 0);
                if expiry_ms.is_none() {
                    live.insert(name);
                }
            }
            let mut effects = Effects::default();
            let view = keyspace.read(0, access, &mut effects);
            view.for_each(|entry| assert!(live.remove(entry.key()), "{:?}", entry.key()));
            assert!(live.is_empty(), "{layout:?}, {keys} keys: {live:?}");
        }
    }
}
