//! Tests of active expiry in a keyspace: how much a step does, and when a cycle ends.

use sluice_base::HashSeed;
use sluice_keyspace::{Effects, ExpireCycle, ExpireWalk, KeyHasher, Keyspace, Layout, NewValue};

const SEED: HashSeed = HashSeed { k0: 41, k1: 42 };
const NOW_MS: i64 = 1_700_000_000_000;
const CYCLE: ExpireCycle = ExpireCycle { now_ms: NOW_MS, keys_per_round: 20, tolerated_percent: 10 };

fn keyspace_with(layout: Layout, keys: u32, expiry_ms: impl Fn(u32) -> i64) -> Keyspace {
    let mut keyspace = Keyspace::new(1, KeyHasher::new(SEED, layout));
    for number in 0..keys {
        let name = format!("key:{number}");
        keyspace.load(0, name.as_bytes(), NewValue::Str(b"value"), Some(expiry_ms(number)), 0);
    }
    keyspace
}

/// Keys that expired together used to gather in one bucket of the shrinking index, and a single step deleted
/// all of them, which took too long.
#[test]
fn one_cycle_deletes_all_that_expired_a_few_keys_at_a_time() {
    for (layout, keys) in [(Layout::One, 100_000), (Layout::PerSlot, 40_000)] {
        let mut keyspace = keyspace_with(layout, keys, |_| NOW_MS - 1);
        let (mut walk, mut effects, mut expired) = (ExpireWalk::default(), Effects::default(), 0);
        let mut steps = 0;
        walk.begin(1);
        while !walk.is_over() {
            let step = keyspace.expire_step(CYCLE, &mut walk, &mut effects);
            assert!(step.expired <= 8 && step.sampled <= 64, "{layout:?}: {step:?}");
            expired += step.expired;
            steps += 1;
            let is_looked_at = steps % 1024 == 0;
            assert!(!is_looked_at || keyspace.db(0).expires_stats().chain_max <= 4, "{layout:?}");
        }
        assert_eq!(expired, u64::from(keys), "{layout:?}");
        keyspace.db(0).check();
    }
}

#[test]
fn cycles_meet_every_expired_key_among_those_that_have_not_and_leave_these() {
    let mut keyspace = keyspace_with(Layout::One, 20_000, |number| match number % 50 {
        0 => NOW_MS - 1,
        _ => NOW_MS + 1_000_000,
    });
    let (mut walk, mut effects) = (ExpireWalk::default(), Effects::default());
    let (mut cycles, mut expired) = (0, 0);
    while expired < 400 {
        walk.begin(1);
        while !walk.is_over() {
            expired += keyspace.expire_step(CYCLE, &mut walk, &mut effects).expired;
        }
        cycles += 1;
        assert!(cycles <= 20_000 / 20 + 1, "{expired} in a pass: a cycle looks at a round at least");
    }
    assert_eq!((expired, keyspace.db(0).len()), (400, 19_600));
}
