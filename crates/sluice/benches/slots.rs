//! The cost of one table for each hash slot, compared with a single table: memory of a million keys, and
//! instructions of a look-up among them.
//!
//! Method: a keyspace in this process with the server's allocator; keys `key:000000000000` and so on,
//! each in the slot of its checksum. Memory is the growth of the allocator's figure since before the
//! keyspace was made (jemalloc's `stats.allocated`, its rounding included) and the bytes of entries,
//! which are mapped from the system. Instructions are counted by callgrind, which the program runs on
//! itself. Only one function is counted (`--toggle-collect`): its loop looks up 500,000 random existing keys,
//! which were hashed before, with `Db::find`, `Db::entry` and reading the value. The loop itself is counted
//! too, and costs the same with both layouts. Hashing is counted in another function, and shows the cost of
//! computing a slot.
//!
//! `cargo bench -p sluice --bench slots`, or, with `-- memory` or `-- instructions`, only one part. The part
//! `instructions` needs valgrind and takes some minutes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use sluice_base::{HashSeed, Now, Rng};
use sluice_keyspace::{
    Access, AccessUpdate, Effects, Event, ExpiryMode, Key, KeyHasher, Keyspace, Layout, NewValue, SetExpiry,
    Str, ValueRef,
};
use std::hint::black_box;
use std::process::Command;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MILLION: usize = 1_000_000;
const LOOKUPS: usize = 500_000;
const LAYOUTS: [(&str, Layout); 2] = [("one", Layout::One), ("slots", Layout::PerSlot)];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["lookups", layout] => measure_under_callgrind(layout),
        // `cargo test` runs this program too, but without `--bench`; then there is nothing to do.
        words if words.contains(&"--bench") => {
            let runs = |part: &str| words.len() == 1 || words.contains(&part);
            if runs("memory") {
                memory();
            }
            if runs("instructions") {
                instructions();
            }
        }
        _ => {}
    }
}

fn name(number: usize) -> String {
    format!("key:{number:012}")
}

fn keyspace(layout: Layout) -> Keyspace {
    Keyspace::new(1, KeyHasher::new(HashSeed { k0: 1, k1: 2 }, layout))
}

fn fill(keyspace: &mut Keyspace, count: usize, value: &[u8], expiry: SetExpiry) {
    let now = Now { mono_ns: 0, unix_us: 0 };
    let access = Access { now, touch: AccessUpdate::Lru(1), expiry: ExpiryMode::Delete, must_obey: false };
    let mut effects = Effects::default();
    let mut db = keyspace.write(0, access, &mut effects);
    for number in 0..count {
        let name = name(number);
        db.set(db.key(name.as_bytes()), NewValue::Plain(value), expiry, Event::Set);
    }
}

fn allocated() -> usize {
    tikv_jemalloc_ctl::epoch::advance().unwrap();
    tikv_jemalloc_ctl::stats::allocated::read().unwrap()
}

fn memory() {
    println!("memory: bytes a key, of {MILLION} keys of 16 bytes");
    println!("{:>6} {:>7} {:>9} {:>9} {:>7}   tables alone", "value", "expiry", "one", "slots", "ratio");
    for (len, expiry) in
        [(64, SetExpiry::Clear), (3, SetExpiry::Clear), (200, SetExpiry::Clear), (64, SetExpiry::At(1 << 50))]
    {
        let value = vec![b'v'; len];
        let [one, slots] = LAYOUTS.map(|(_, layout)| {
            let before = allocated();
            let mut keyspace = keyspace(layout);
            fill(&mut keyspace, MILLION, &value, expiry);
            let tables = allocated() - before;
            let sum = tables + keyspace.chunk_memory().used_bytes;
            black_box(&keyspace);
            (tables as f64 / MILLION as f64, sum as f64 / MILLION as f64)
        });
        let has_expiry = expiry != SetExpiry::Clear;
        println!(
            "{len:>6} {has_expiry:>7} {:>9.2} {:>9.2} {:>7.4}   {:.2} {:.2}",
            one.1,
            slots.1,
            slots.1 / one.1,
            one.0,
            slots.0
        );
    }
    let before = allocated();
    let mut keyspace = keyspace(Layout::PerSlot);
    fill(&mut keyspace, 1, b"v", SetExpiry::Clear);
    println!("memory: {} bytes for 16,384 tables, one of them with a key", allocated() - before);
}

fn instructions() {
    let this = std::env::current_exe().unwrap();
    for part in ["find", "hash"] {
        let [one, slots] = LAYOUTS.map(|(layout, _)| {
            let output = Command::new("valgrind")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
                .arg(format!("--toggle-collect=*slots*count_{part}*"))
                .arg(&this)
                .args(["lookups", layout])
                .output()
                .expect("valgrind is there");
            let text = String::from_utf8_lossy(&output.stderr);
            let count = text.lines().find_map(|line| line.split("Collected : ").nth(1));
            let count: f64 = count.expect("callgrind says what it collected").trim().parse().unwrap();
            count / LOOKUPS as f64
        });
        println!("instructions: {part}: one {one:.1}, slots {slots:.1}, ratio {:.4}", slots / one);
    }
}

fn measure_under_callgrind(layout: &str) {
    let (_, layout) = LAYOUTS.into_iter().find(|(name, _)| *name == layout).expect("a layout");
    let mut keyspace = keyspace(layout);
    fill(&mut keyspace, MILLION, &[b'v'; 64], SetExpiry::Clear);
    let mut rng = Rng::new(7);
    let names: Vec<String> = (0..LOOKUPS).map(|_| name(rng.below(MILLION as u64) as usize)).collect();
    let keys: Vec<Key<'_>> =
        names.iter().map(|name| Key::hashed(name.as_bytes(), keyspace.hasher())).collect();
    assert_eq!(count_find(&keyspace, &keys), 64 * LOOKUPS);
    black_box(count_hash(keyspace.hasher(), &names));
}

#[inline(never)]
fn count_find(keyspace: &Keyspace, keys: &[Key<'_>]) -> usize {
    let db = keyspace.db(0);
    let mut sum = 0;
    for key in keys {
        if let Some(found) = db.find(*key)
            && let ValueRef::Str(Str::Inline(bytes)) = db.entry(found.handle).value()
        {
            sum += bytes.len();
        }
    }
    sum
}

#[inline(never)]
fn count_hash(hasher: KeyHasher, names: &[String]) -> u64 {
    names.iter().fold(0, |sum, name| sum ^ hasher.hash(name.as_bytes()))
}
