//! Compares the index with a set, and checks the index's invariants by reading all of its buckets.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use sluice_base::Rng;

use super::*;

/// The function from an entry's handle to its hash.
#[derive(Clone, Copy, Debug)]
enum Hashes {
    Mixed,
    Equal,
    /// Only eight different hashes, so that chains are long and splits divide them.
    Few,
    /// Equal low bits, so that the first levels separate no entries.
    LowAlike,
}

impl Hashes {
    fn of(self, handle: Handle) -> u64 {
        let mixed = Rng::new(u64::from(handle.raw())).next_u64();
        match self {
            Hashes::Mixed => mixed,
            Hashes::Equal => 0x1234_5678_9abc_def0,
            Hashes::Few => Rng::new(mixed % 8).next_u64(),
            Hashes::LowAlike => mixed << 5,
        }
    }
}

fn handle(raw: u32) -> Handle {
    Handle::from_raw(raw).unwrap()
}

/// The index with a set of its handles; an entry's hash is a function of its handle.
struct Model {
    index: Linear,
    oracle: HashSet<Handle>,
    hashes: Hashes,
    /// The entries that exist: the index may only ask for the hashes of these.
    alive: RefCell<HashSet<Handle>>,
}

impl Model {
    fn new(hashes: Hashes) -> Model {
        Model { index: Linear::new(), oracle: HashSet::new(), hashes, alive: RefCell::new(HashSet::new()) }
    }

    fn insert(&mut self, handle: Handle) {
        self.alive.borrow_mut().insert(handle);
        let (hashes, alive) = (self.hashes, &self.alive);
        let rehash = |handle| {
            assert!(alive.borrow().contains(&handle), "asked for the hash of an entry that is gone");
            hashes.of(handle)
        };
        self.index.insert(hashes.of(handle), handle, rehash, |_| ());
        self.oracle.insert(handle);
    }

    fn find(&self, handle: Handle) -> Option<Position> {
        self.index.find(self.hashes.of(handle), |other| other == handle)
    }

    fn remove(&mut self, handle: Handle) {
        let position = self.find(handle).unwrap();
        self.alive.borrow_mut().remove(&handle);
        let (hashes, alive) = (self.hashes, &self.alive);
        let rehash = |handle| {
            assert!(alive.borrow().contains(&handle));
            hashes.of(handle)
        };
        assert_eq!(self.index.remove(position, rehash), handle);
        self.oracle.remove(&handle);
    }

    /// Removes a bucket and returns the number of its entries.
    fn take_bucket(&mut self) -> usize {
        let (hashes, alive, mut taken) = (self.hashes, &self.alive, Vec::new());
        let rehash = |handle| {
            assert!(alive.borrow().contains(&handle), "asked for the hash of an entry that is gone");
            hashes.of(handle)
        };
        self.index.take_last(&mut taken, rehash);
        for handle in &taken {
            assert!(self.oracle.remove(handle), "taken once, and it was there");
            // From here on the handle may belong to another block.
            self.alive.borrow_mut().remove(handle);
        }
        taken.len()
    }

    fn step(&mut self, budget: usize) -> bool {
        let hashes = self.hashes;
        self.index.step(budget, |handle| hashes.of(handle), |_| ())
    }

    fn check(&self) {
        check_invariants(&self.index, |handle| self.hashes.of(handle));
        let entries: Vec<Handle> = self.index.iter().collect();
        assert_eq!(entries.len(), self.oracle.len());
        assert_eq!(entries.into_iter().collect::<HashSet<_>>(), self.oracle);
        for &handle in &self.oracle {
            assert!(self.find(handle).is_some());
        }
    }
}

/// Asserts invariants (1) to (3) of the index.
fn check_invariants(index: &Linear, rehash: impl Fn(Handle) -> u64) {
    assert!((index.mask + 1).is_power_of_two());
    assert!(index.split() <= index.mask);
    assert_eq!(index.table.len(), index.mask + 1 + index.split());
    let (mut entries, mut overflow) = (0, 0);
    for home in 0..index.table.len() {
        let chain: Vec<&Bucket> = index.chain(home).collect();
        overflow += chain.len() - 1;
        for (i, bucket) in chain.iter().enumerate() {
            assert!(i == 1 || chain.len() == 1 || bucket.vacant().is_empty(), "a hole in a chain");
            assert!(i == 0 || !bucket.filled().is_empty(), "an empty overflow bucket");
            for lane in bucket.filled() {
                let handle = bucket.handle(lane).unwrap();
                assert_eq!(index.home(rehash(handle)), home);
                assert_eq!(tag_of(rehash(handle)), bucket.tag(lane));
                entries += 1;
            }
        }
    }
    assert_eq!(entries, index.len());
    assert_eq!(overflow, index.pool.len(), "a hole in the pool");
}

fn random_traffic(hashes: Hashes, rounds: u32, keys: u64) {
    let mut rng = Rng::new(rounds.into());
    let mut model = Model::new(hashes);
    for round in 0..rounds {
        let grows = (round / (rounds / 6)).is_multiple_of(2);
        let key = handle(1 + rng.below(keys) as u32);
        match (model.oracle.contains(&key), rng.below(10)) {
            (false, choice) if choice < if grows { 9 } else { 2 } => model.insert(key),
            (true, choice) if choice < if grows { 1 } else { 9 } => model.remove(key),
            (true, 9) => {
                let position = model.find(key).unwrap();
                assert_eq!((model.index.handle(position), position.handle()), (key, key));
                assert_eq!(model.index.replace(position, key), key);
            }
            (_, 8) => _ = model.step(rng.below(4) as usize),
            (is_there, _) => {
                assert_eq!(model.find(key).is_some(), is_there);
                let mut asked = 0;
                model.index.prefetch_bucket(hashes.of(key));
                model.index.prefetch_candidates(hashes.of(key), |_| asked += 1);
                assert!(asked <= 1);
                let sampled = model.index.sample(&mut rng);
                assert_eq!(sampled.is_none(), model.oracle.is_empty());
                assert!(sampled.is_none_or(|sampled| model.oracle.contains(&sampled)));
            }
        }
        assert_eq!(model.index.len(), model.oracle.len());
        if round % (rounds / 40) == 0 {
            model.check();
        }
    }
    model.check();
    for key in model.oracle.clone() {
        model.remove(key);
    }
    model.check();
    assert_eq!(model.index.buckets(), 1);
    assert!(model.index.bytes() < 1024, "an empty index is small again");
}

#[test]
fn agrees_with_a_set_under_random_traffic() {
    random_traffic(Hashes::Mixed, 120_000, 20_000);
}

#[test]
fn agrees_with_a_set_at_tiny_levels() {
    for keys in [1, 2, 12, 13, 14, 30, 60, 100] {
        random_traffic(Hashes::Mixed, 6_000, keys);
    }
}

#[test]
fn agrees_with_a_set_when_hashes_collide() {
    random_traffic(Hashes::Equal, 4_000, 600);
    random_traffic(Hashes::Few, 12_000, 2_000);
    random_traffic(Hashes::LowAlike, 40_000, 5_000);
}

#[test]
fn an_index_that_is_taken_apart_gives_each_entry_once_and_finds_the_others() {
    for hashes in [Hashes::Mixed, Hashes::Equal, Hashes::Few, Hashes::LowAlike] {
        for count in [0, 1, 12, 13, 100, 1_000, 12_345] {
            let mut model = Model::new(hashes);
            (1..=count).for_each(|raw| model.insert(handle(raw)));
            // So many entries are removed that the index may be in the middle of a halving.
            (1..=count * 7 / 10).for_each(|raw| model.remove(handle(raw)));
            let (mut left, mut bytes) = (model.oracle.len(), model.index.bytes());
            while left > 0 {
                left -= model.take_bucket();
                assert_eq!(model.index.len(), left, "{hashes:?} {count}");
                assert!(model.index.bytes() <= bytes);
                bytes = model.index.bytes();
                if left.is_multiple_of(7) || count < 200 {
                    model.check();
                }
            }
            model.check();
            model.insert(handle(1));
            model.check();
        }
    }
}

#[test]
fn equal_hashes_cost_linear_time_and_no_more_buckets_than_needed() {
    let mut model = Model::new(Hashes::Equal);
    for raw in 1..=50_000 {
        model.insert(handle(raw));
    }
    let stats = model.index.stats();
    assert!(stats.chain_max <= 50_000 / 12 + 2);
    assert_eq!(stats.overflow_buckets, stats.chain_max - 1);
    let mut compared = 0;
    assert_eq!(
        model.index.find(Hashes::Equal.of(handle(1)), |_| {
            compared += 1;
            false
        }),
        None
    );
    assert_eq!(compared, 50_000);
}

#[test]
fn growing_follows_the_schedule_with_two_splits_at_most() {
    let mut model = Model::new(Hashes::Mixed);
    let mut buckets = 1;
    for raw in 1..=100_000 {
        model.insert(handle(raw));
        let now = model.index.buckets();
        assert!(now - buckets <= 2);
        buckets = now;
        let len = raw as usize;
        // There are between 6 and 8 entries for each bucket of the table (buckets of the pool are not
        // counted), and up to 12 in a table of a single bucket.
        assert!(len <= 8 * now + 4, "{len} in {now}");
        assert!(now == 1 || 6 * now <= len + 6, "{len} in {now}");
    }
}

#[test]
fn shrinking_halves_with_hysteresis_and_two_merges_at_most() {
    let mut model = Model::new(Hashes::Mixed);
    for raw in 1..=100_000 {
        model.insert(handle(raw));
    }
    let full = model.index.buckets();
    let mut buckets = full;
    for raw in 1..=99_990 {
        model.remove(handle(raw));
        let now = model.index.buckets();
        assert!(buckets - now <= 2);
        if 2 * model.index.len() >= 5 * full {
            assert_eq!(now, full, "it does not shrink above 2.5 entries a bucket");
        }
        assert!(now <= model.index.len() + 2);
        buckets = now;
    }
    model.check();
    assert!(buckets <= 4);
}

#[test]
fn an_index_that_was_emptied_is_small_again() {
    let mut model = Model::new(Hashes::Mixed);
    for raw in 1..=128 {
        model.insert(handle(raw));
    }
    for raw in 1..=128 {
        model.remove(handle(raw));
    }
    // The bytes are those of one bucket of the table, of one bucket of the pool, and of the vectors that hold
    // them.
    assert!(model.index.bytes() <= 176, "{} bytes", model.index.bytes());
}

#[test]
fn step_finishes_a_halving_in_bounded_slices() {
    let mut model = Model::new(Hashes::Mixed);
    for raw in 1..=20_000 {
        model.insert(handle(raw));
    }
    let buckets = model.index.buckets();
    let mut raw = 1;
    while !model.index.stats().is_shrinking {
        model.remove(handle(raw));
        raw += 1;
    }
    let mut before = model.index.buckets();
    while model.step(7) {
        assert_eq!(before - model.index.buckets(), 7);
        before = model.index.buckets();
    }
    model.check();
    assert!(!model.index.stats().is_shrinking);
    assert!(model.index.buckets() <= buckets / 2 + 1);
    assert!(!model.step(100), "it rests");
}

#[test]
fn scan_shows_everything_once_when_nothing_changes() {
    for count in [0, 1, 12, 13, 100, 1_000, 5_000, 12_345] {
        let mut model = Model::new(Hashes::Mixed);
        (1..=count).for_each(|raw| model.insert(handle(raw)));
        let mut seen = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = model.index.scan(cursor, |handle| seen.push(handle));
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), count as usize);
        assert_eq!(seen.into_iter().collect::<HashSet<_>>(), model.oracle);
    }
}

/// Keys below `STAYS` are present from the first call to the last; the others are added and
/// removed in between.
fn scan_during_changes(seed: u64, hashes: Hashes) {
    const STAYS: u32 = 120;
    let mut rng = Rng::new(seed);
    let mut model = Model::new(hashes);
    (1..STAYS).for_each(|raw| model.insert(handle(raw)));
    let others = 1 + rng.below(4_000) as u32;
    for raw in STAYS..STAYS + others {
        if rng.below(2) == 0 {
            model.insert(handle(raw));
        }
    }
    let mut seen = HashSet::new();
    let mut cursor = 0;
    let mut grows = rng.below(2) == 0;
    loop {
        cursor = model.index.scan(cursor, |handle| _ = seen.insert(handle));
        if cursor == 0 {
            break;
        }
        if rng.below(20) == 0 {
            grows = !grows;
        }
        // So many changes are made that a large index doubles and halves several times during a scan.
        for _ in 0..rng.below(200) {
            let key = handle(STAYS + rng.below(others.into()) as u32);
            match (model.oracle.contains(&key), grows) {
                (false, true) => model.insert(key),
                (true, false) => model.remove(key),
                _ => _ = model.step(rng.below(2) as usize),
            }
        }
    }
    for raw in 1..STAYS {
        assert!(seen.contains(&handle(raw)), "seed {seed}, {hashes:?}: {raw} was left out");
    }
    model.check();
}

#[test]
fn scan_leaves_out_nothing_that_stays_whatever_splits_and_merges() {
    for seed in 0..150 {
        scan_during_changes(seed, Hashes::Mixed);
    }
    for seed in 0..10 {
        scan_during_changes(seed, Hashes::LowAlike);
        scan_during_changes(seed, Hashes::Few);
    }
}

/// Removes all entries in the order in which `next`, a walk or a scan, visits them. Returns the number of
/// buckets of the longest chain seen, and the number of passes.
fn empty_by(next: impl Fn(&Linear, u64, &mut Vec<Handle>) -> u64) -> (usize, usize) {
    let mut model = Model::new(Hashes::Mixed);
    (1..=60_000).for_each(|raw| model.insert(handle(raw)));
    let (mut cursor, mut chain_max, mut passes, mut calls) = (0, 0, 0, 0);
    let mut met = Vec::new();
    while model.index.len() > 0 {
        cursor = next(&model.index, cursor, &mut met);
        met.drain(..).for_each(|handle| model.remove(handle));
        passes += usize::from(cursor == 0);
        calls += 1;
        if calls % 64 == 0 {
            chain_max = chain_max.max(model.index.stats().chain_max);
        }
    }
    (chain_max, passes)
}

#[test]
fn a_walk_that_removes_what_it_meets_leaves_no_long_chains() {
    let (chain_max, passes) = empty_by(|index, cursor, met| index.walk(cursor, |handle| met.push(handle)));
    assert!(chain_max <= 4 && passes <= 40, "{chain_max} buckets, {passes} passes");
    // A scan gathers the remaining entries in few buckets, which is why there is a walk as well.
    let (chain_max, _) = empty_by(|index, cursor, met| index.scan(cursor, |handle| met.push(handle)));
    assert!(chain_max > 8, "{chain_max} buckets");
}

#[test]
fn a_walk_shows_everything_once_when_nothing_changes_and_takes_any_cursor() {
    let mut model = Model::new(Hashes::Mixed);
    (1..=12_345).for_each(|raw| model.insert(handle(raw)));
    let (mut seen, mut cursor) = (Vec::new(), 0);
    while {
        cursor = model.index.walk(cursor, |handle| seen.push(handle));
        cursor != 0
    } {}
    assert_eq!(seen.len(), 12_345);
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), model.oracle);
    assert_eq!(model.index.walk(u64::MAX, |_| ()), 1, "a position that is gone is the first one");
}

/// Walks several times from end to end while the table grows and, in every other walk, shrinks. A walk
/// without merges visits every key below `STAYS`, in whatever state the previous walk has left the table.
/// Returns the greatest factor by which the table's size changed during a walk.
fn walk_during_changes(seed: u64, hashes: Hashes) -> usize {
    const STAYS: u32 = 120;
    let mut rng = Rng::new(seed);
    let mut model = Model::new(hashes);
    let others = 1 + rng.below(4_000) as u32;
    (1..STAYS + others)
        .filter(|raw| *raw < STAYS || rng.below(2) == 0)
        .for_each(|raw| model.insert(handle(raw)));
    let mut change = 1;
    for pass in 0..4 {
        let shrinks = pass % 2 == 0;
        let (mut seen, mut cursor) = (HashSet::new(), 0);
        let (mut smallest, mut largest) = (model.index.buckets(), model.index.buckets());
        loop {
            cursor = model.index.walk(cursor, |handle| _ = seen.insert(handle));
            if cursor == 0 {
                break;
            }
            assert!(cursor < model.index.buckets() as u64);
            let removes = shrinks && rng.below(4) > 0;
            for _ in 0..rng.below(400) {
                let key = handle(STAYS + rng.below(others.into()) as u32);
                match (model.oracle.contains(&key), removes) {
                    (false, false) => model.insert(key),
                    (true, true) => model.remove(key),
                    _ => {}
                }
            }
            (smallest, largest) = (smallest.min(model.index.buckets()), largest.max(model.index.buckets()));
        }
        change = change.max(largest / smallest);
        let is_whole = (1..STAYS).all(|raw| seen.contains(&handle(raw)));
        assert!(shrinks || is_whole, "seed {seed}, {hashes:?}, pass {pass}: something was left out");
        model.check();
    }
    change
}

#[test]
fn a_walk_leaves_out_nothing_that_stays_while_the_table_grows_whatever_shrank_before() {
    let change = (0..150).map(|seed| walk_during_changes(seed, Hashes::Mixed)).max();
    assert!(change >= Some(8), "the tables hardly changed: {change:?}");
    for seed in 0..10 {
        walk_during_changes(seed, Hashes::LowAlike);
        walk_during_changes(seed, Hashes::Few);
    }
}

#[test]
fn scan_takes_any_cursor() {
    let mut model = Model::new(Hashes::Mixed);
    (1..=1_000).for_each(|raw| model.insert(handle(raw)));
    let mut rng = Rng::new(2);
    for _ in 0..2_000 {
        let mut cursor = rng.next_u64();
        let mut calls = 0;
        while {
            cursor = model.index.scan(cursor, |_| ());
            cursor != 0
        } {
            calls += 1;
            assert!(calls <= model.index.buckets());
        }
    }
}

/// Asserts that `draws` draws look like a uniform choice among `cells`: Pearson's statistic exceeds its mean
/// by less than 1 plus five standard deviations.
fn assert_uniform(counts: &HashMap<Handle, u64>, cells: usize, draws: u64) {
    let expected = draws as f64 / cells as f64;
    let seen: f64 = counts.values().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
    let unseen = (cells - counts.len()) as f64 * expected;
    let freedom = (cells - 1) as f64;
    assert!(seen + unseen < freedom + 1.0 + 5.0 * (2.0 * freedom).sqrt(), "{} over {freedom}", seen + unseen);
}

#[test]
fn sample_is_uniform_over_entries_at_every_stage_of_a_doubling() {
    for count in [1usize, 5, 13, 100, 1_100, 1_300, 1_450] {
        let mut model = Model::new(Hashes::Mixed);
        (1..=count as u32).for_each(|raw| model.insert(handle(raw)));
        let mut rng = Rng::new(count as u64);
        let draws = 200 * count as u64;
        let mut counts = HashMap::new();
        for _ in 0..draws {
            *counts.entry(model.index.sample(&mut rng).unwrap()).or_insert(0) += 1;
        }
        assert_uniform(&counts, count, draws);
    }
}

#[test]
fn sample_from_gives_different_entries_and_reaches_all() {
    let mut model = Model::new(Hashes::Mixed);
    (1..=1_300).for_each(|raw| model.insert(handle(raw)));
    let mut rng = Rng::new(4);
    let mut counts: HashMap<Handle, u64> = HashMap::new();
    for _ in 0..20_000 {
        let mut drawn = HashSet::new();
        assert_eq!(model.index.sample_from(rng.next_u64(), 5, |handle| assert!(drawn.insert(handle))), 5);
        drawn.into_iter().for_each(|handle| *counts.entry(handle).or_insert(0) += 1);
    }
    assert_eq!(counts.len(), 1_300);
    let mut all = 0;
    assert_eq!(model.index.sample_from(rng.next_u64(), usize::MAX, |_| all += 1), 1_300);
    assert_eq!(all, 1_300);
    assert_eq!(Linear::new().sample_from(rng.next_u64(), 5, |_| ()), 0);
    assert_eq!(Linear::new().sample(&mut rng), None);
}

#[test]
fn replace_changes_the_handle_and_nothing_else() {
    for hashes in [Hashes::Mixed, Hashes::Equal] {
        let mut model = Model::new(hashes);
        (1..=500).for_each(|raw| model.insert(handle(raw)));
        // The entry gets another handle and keeps the hash of the old handle.
        let position = model.find(handle(77)).unwrap();
        assert_eq!(model.index.replace(position, handle(9_000)), handle(77));
        assert_eq!(model.index.handle(position), handle(9_000));
        assert_eq!(model.find(handle(77)), None);
        let hash = hashes.of(handle(77));
        let found = model.index.find(hash, |other| other == handle(9_000)).unwrap();
        assert_eq!(found.handle(), handle(9_000));
        assert_eq!(model.index.replace(found, handle(77)), handle(9_000));
        model.check();
    }
}

#[test]
fn stats_add_up() {
    let mut model = Model::new(Hashes::Mixed);
    (1..=1_400).for_each(|raw| model.insert(handle(raw)));
    let stats = model.index.stats();
    assert_eq!(stats.used, 1_400);
    assert_eq!(stats.chains.iter().sum::<usize>(), stats.buckets);
    assert_eq!(stats.entries.iter().zip(0..).map(|(chains, entries)| chains * entries).sum::<usize>(), 1_400);
    assert_eq!(stats.lanes, 12 * (stats.buckets + stats.overflow_buckets));
    assert!(stats.is_growing);
}

#[test]
fn an_index_may_move_to_another_thread() {
    fn is_send<T: Send + Sync>(_: &T) {}
    is_send(&Linear::new());
}

#[test]
fn no_insert_and_no_removal_works_on_more_than_a_few_buckets() {
    let mut index = Linear::new();
    let calls = std::cell::Cell::new(0);
    let rehash = |handle| {
        calls.set(calls.get() + 1);
        Hashes::Mixed.of(handle)
    };
    let mut most = 0;
    for raw in 1..=300_000 {
        calls.set(0);
        index.insert(Hashes::Mixed.of(handle(raw)), handle(raw), rehash, |_| ());
        most = most.max(calls.get());
    }
    assert!((8..=3 * LANES).contains(&most), "{most} hashes for one insert");
    most = 0;
    for raw in 1..=300_000 {
        calls.set(0);
        let position = index.find(Hashes::Mixed.of(handle(raw)), |other| other == handle(raw)).unwrap();
        index.remove(position, rehash);
        most = most.max(calls.get());
    }
    assert_eq!(most, 1, "hashes for one removal: only to move an overflow bucket");
}

#[test]
fn an_index_that_holds_nothing_is_eight_bytes() {
    let mut rng = Rng::new(1);
    let mut index = Index::new();
    assert_eq!((size_of_val(&index), index.bytes(), index.buckets(), index.len()), (8, 0, 0, 0));
    assert_eq!((index.find(7, |_| true), index.scan(7, |_| ()), index.iter().count()), (None, 0, 0));
    assert_eq!((index.sample(&mut rng), index.sample_from(rng.next_u64(), 5, |_| ())), (None, 0));
    assert!(!index.step(10, |_| 0, |_| ()));
    index.insert(7, handle(3), |_| 7, |_| ());
    let position = index.find(7, |_| true).unwrap();
    assert_eq!((index.handle(position), index.bytes() > 0), (handle(3), true));
    assert_eq!(index.replace(position, handle(4)), handle(3));
    assert_eq!(index.remove(position, |_| 7), handle(4));
}

#[test]
fn room_made_ahead_is_that_of_as_many_entries_and_goes_when_they_do_not_come() {
    for entries in [0usize, 1, 9, 12, 100, 1_000, 100_000] {
        let (mut ahead, mut grown) = (Index::new(), Index::new());
        ahead.reserve(entries);
        let before = ahead.buckets();
        for n in 0..entries as u64 {
            let handle = handle(n as u32 + 1);
            let hash = Hashes::Mixed.of(handle);
            ahead.insert(hash, handle, |h| Hashes::Mixed.of(h), |_| {});
            grown.insert(hash, handle, |h| Hashes::Mixed.of(h), |_| {});
        }
        assert_eq!(ahead.buckets(), before, "{entries}: nothing was split");
        assert_eq!(ahead.buckets(), grown.buckets(), "{entries}");
        for n in 0..entries as u64 {
            let handle = handle(n as u32 + 1);
            let hash = Hashes::Mixed.of(handle);
            assert_eq!(ahead.find(hash, |h| h == handle).map(|found| found.handle()), Some(handle));
        }
    }
    let mut index = Index::new();
    index.reserve(100_000);
    let handle = handle(7);
    let hash = Hashes::Mixed.of(handle);
    index.insert(hash, handle, |h| Hashes::Mixed.of(h), |_| {});
    while index.step(64, |h| Hashes::Mixed.of(h), |_| {}) {}
    assert!(index.buckets() <= 2, "{}", index.buckets());
    assert!(index.find(hash, |h| h == handle).is_some());
    // An index with entries is not changed.
    index.reserve(100_000);
    assert!(index.buckets() <= 2);
}
