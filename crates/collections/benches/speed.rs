//! Benchmarks of the slab and the index together, as the keyspace uses them:
//! `cargo bench -p sluice-collections`.
//!
//! Entries are blocks of 88 bytes that begin with a 16-byte key; hashes are computed from the key. The
//! program prints one line for each measurement. An argument selects one of them: `bytes`, `insert`, `find`,
//! `cache`, `churn`, `slab`.

// A benchmark reads the clock.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::Instant;

use sluice_base::{HashSeed, Rng, siphash13};
use sluice_collections::{Handle, Index, Slab};

const SEED: HashSeed = HashSeed { k0: 1, k1: 2 };
const BLOCK: usize = 88;
const MILLION: usize = 1_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` also runs this program, without `--bench`; nothing is measured then.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let runs = |name: &str| arguments.len() == 1 || arguments.iter().any(|argument| argument == name);
    if runs("bytes") {
        bytes_per_key();
    }
    if runs("insert") {
        insert();
    }
    if runs("find") {
        find();
    }
    if runs("cache") {
        find_in_cache();
    }
    if runs("churn") {
        churn();
    }
    if runs("slab") {
        slab();
    }
}

/// Keys in a slab with an index over them.
struct Store {
    slab: Slab,
    index: Index,
}

fn key(number: usize) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    key[8..].copy_from_slice(&(number as u64).to_le_bytes());
    key
}

fn hash_of(slab: &Slab, handle: Handle) -> u64 {
    slab.body(handle).first_chunk::<16>().map_or(0, |key| siphash13(SEED, key))
}

impl Store {
    fn new() -> Store {
        Store { slab: Slab::new(), index: Index::new() }
    }

    fn with(count: usize) -> Store {
        let mut store = Store::new();
        (0..count).for_each(|number| store.insert(number));
        store
    }

    #[inline]
    fn alloc(&mut self, number: usize) -> Handle {
        let handle = self.slab.alloc(BLOCK).expect("there is room");
        self.slab.body_mut(handle)[..16].copy_from_slice(&key(number));
        handle
    }

    #[inline]
    fn insert(&mut self, number: usize) {
        let handle = self.alloc(number);
        let hash = siphash13(SEED, &key(number));
        self.add(hash, handle);
    }

    #[inline]
    fn add(&mut self, hash: u64, handle: Handle) {
        let slab = &self.slab;
        self.index.insert(hash, handle, |handle| hash_of(slab, handle), |handle| slab.prefetch(handle));
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8; 16]) -> Option<Handle> {
        Some(self.index.find(hash, |handle| slab_key(&self.slab, handle) == Some(key))?.handle())
    }
}

#[inline]
fn slab_key(slab: &Slab, handle: Handle) -> Option<&[u8; 16]> {
    slab.body(handle).first_chunk::<16>()
}

fn bytes_per_key() {
    let mut store = Store::new();
    let (mut sum, mut points, mut worst) = (0.0, 0, 0.0f64);
    let mut next = MILLION as f64;
    for number in 0..2 * MILLION {
        store.insert(number);
        let count = number + 1;
        let bytes = store.index.bytes() as f64 / count as f64;
        if count as f64 >= next {
            // The points are evenly spaced in the logarithm of the number of keys, so that every size is
            // equally likely.
            (sum, points, worst) = (sum + bytes, points + 1, worst.max(bytes));
            next *= 1.005;
        }
        if [1_000_000, 1_400_000, 1_670_000, 2_000_000].contains(&count) {
            let stats = store.index.stats();
            let load = count as f64 / stats.lanes as f64;
            println!(
                "bytes: {count} keys: {bytes:.2} bytes a key, load {:.1} %, overflow {:.2} %, longest chain {}",
                load * 100.0,
                100.0 * stats.overflow_buckets as f64 / stats.buckets as f64,
                stats.chain_max,
            );
        }
    }
    println!("bytes: mean from 1 M to 2 M keys: {:.2}, worst {worst:.2}", sum / f64::from(points));
}

fn insert() {
    let count = 4 * MILLION;
    let mut store = Store::new();
    let handles: Vec<Handle> = (0..count).map(|number| store.alloc(number)).collect();
    let hashes: Vec<u64> = (0..count).map(|number| siphash13(SEED, &key(number))).collect();
    // The order is shuffled, so that a split does not read the keys written last.
    let mut order: Vec<u32> = (0..count as u32).collect();
    shuffle(&mut order);
    let start = Instant::now();
    for &number in &order {
        store.add(hashes[number as usize], handles[number as usize]);
    }
    println!("insert: {:.1} ns each, {count} keys in random order", ns_each(start, count));
    drop(std::mem::take(&mut store.index));
    let mut times: Vec<u32> = Vec::with_capacity(count);
    let mut new_segments = Vec::new();
    for &number in &order {
        let bytes = store.index.bytes();
        let start = Instant::now();
        store.add(hashes[number as usize], handles[number as usize]);
        let time = start.elapsed().as_nanos() as u32;
        times.push(time);
        if store.index.bytes() != bytes {
            new_segments.push(time);
        }
    }
    times.sort_unstable();
    new_segments.sort_unstable();
    println!(
        "insert: {} of them with a new segment: median {} ns",
        new_segments.len(),
        new_segments[new_segments.len() / 2]
    );
    let at = |share: f64| times[((count - 1) as f64 * share) as usize];
    println!(
        "insert: p50 {} ns, p99 {}, p99.99 {}, p99.999 {}, p99.9999 {}, longest {} (timer included)",
        at(0.5),
        at(0.99),
        at(0.9999),
        at(0.999_99),
        at(0.999_999),
        at(1.0)
    );
}

fn find() {
    for count in [1_000_000, 1_400_000, 2_000_000] {
        let store = Store::with(count);
        let mut order: Vec<u32> = (0..count as u32).collect();
        shuffle(&mut order);
        let hits: Vec<[u8; 16]> = order.iter().map(|&number| key(number as usize)).collect();
        let misses: Vec<[u8; 16]> = order.iter().map(|&number| key(number as usize + 2 * count)).collect();
        for (what, keys, found) in [("hit", &hits, count), ("miss", &misses, 0)] {
            let start = Instant::now();
            let seen = keys.iter().filter(|key| store.find(siphash13(SEED, *key), key).is_some()).count();
            let alone = ns_each(start, count);
            assert_eq!(seen, found);
            let start = Instant::now();
            let seen = find_in_batches(&store, keys);
            let batched = ns_each(start, count);
            assert_eq!(seen, found);
            println!(
                "find: {count} keys, {what}: {alone:.1} ns one by one, {batched:.1} ns prefetched in batches of 16"
            );
        }
    }
}

fn find_in_batches(store: &Store, keys: &[[u8; 16]]) -> usize {
    let mut seen = 0;
    for batch in keys.chunks(16) {
        let mut hashes = [0; 16];
        for (hash, key) in hashes.iter_mut().zip(batch) {
            *hash = siphash13(SEED, key);
            store.index.prefetch_buckets(std::iter::once(*hash));
        }
        let batch_hashes = hashes[..batch.len()].iter().copied();
        store.index.prefetch_candidates(batch_hashes, |handle| store.slab.prefetch(handle));
        seen += hashes.iter().zip(batch).filter(|(hash, key)| store.find(**hash, key).is_some()).count();
    }
    seen
}

/// Measures searches without cache misses: there are few keys, and hashes are computed in advance.
fn find_in_cache() {
    let count = 2_000;
    let store = Store::with(count);
    let keys: Vec<([u8; 16], u64)> = (0..count).map(|n| (key(n), siphash13(SEED, &key(n)))).collect();
    let start = Instant::now();
    for _ in 0..1_000 {
        for (key, hash) in &keys {
            black_box(store.find(*hash, key));
        }
    }
    println!("find: {count} keys in cache, hash known: {:.1} ns", ns_each(start, count * 1_000));
}

/// Measures removals and insertions at a constant number of keys, the removal of all keys, and samples.
fn churn() {
    let count = MILLION;
    let mut store = Store::with(count);
    let mut rng = Rng::new(2);
    let mut live: Vec<usize> = (0..count).collect();
    let start = Instant::now();
    for fresh in count..2 * count {
        let at = rng.below(count as u64) as usize;
        let old = key(std::mem::replace(&mut live[at], fresh));
        let slab = &store.slab;
        let position = store.index.find(siphash13(SEED, &old), |handle| slab_key(slab, handle) == Some(&old));
        let position = position.expect("it was inserted");
        let handle = store.index.remove(position, |handle| hash_of(slab, handle));
        store.slab.free(handle);
        store.insert(fresh);
    }
    println!("churn: {:.1} ns for removing one key and inserting another", ns_each(start, count));
    let start = Instant::now();
    for number in live {
        let old = key(number);
        let slab = &store.slab;
        let position = store.index.find(siphash13(SEED, &old), |handle| slab_key(slab, handle) == Some(&old));
        store.index.remove(position.expect("it was inserted"), |handle| hash_of(slab, handle));
    }
    println!("churn: {:.1} ns for each key of removing all, merges included", ns_each(start, count));
    let store = Store::with(count);
    let start = Instant::now();
    for _ in 0..count {
        black_box(store.index.sample(&mut rng));
    }
    println!("churn: {:.1} ns for a sample", ns_each(start, count));
}

fn slab() {
    let mut slab = Slab::new();
    let start = Instant::now();
    let mut handles: Vec<Handle> = (0..MILLION).map(|_| slab.alloc(BLOCK).expect("room")).collect();
    println!("slab: {:.1} ns for a fresh block (page faults included)", ns_each(start, MILLION));
    println!(
        "slab: {:.3} bytes touched for each byte used",
        slab.bytes_touched() as f64 / slab.bytes_used() as f64
    );
    let mut rng = Rng::new(3);
    let start = Instant::now();
    for _ in 0..MILLION {
        let at = rng.below(MILLION as u64) as usize;
        slab.free(handles[at]);
        handles[at] = slab.alloc(BLOCK).expect("room");
    }
    println!("slab: {:.1} ns for freeing a random block and taking one", ns_each(start, MILLION));
}

fn shuffle(order: &mut [u32]) {
    let mut rng = Rng::new(1);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

fn ns_each(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}
