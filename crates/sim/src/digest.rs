//! A fingerprint of all data, including expiries and libraries of functions. Equal data have equal
//! fingerprints, whatever the order of keys and members.

use sluice_base::num::IntBuffer;
use sluice_base::{HashSeed, siphash13};
use sluice_engine::Engine;
use sluice_keyspace::{Str, ValueRef};

const SEED: HashSeed = HashSeed { k0: 7, k1: 11 };

fn hash(salt: u64, bytes: &[u8]) -> u64 {
    siphash13(HashSeed { k0: SEED.k0 ^ salt, k1: SEED.k1 }, bytes)
}

/// The fingerprint of an engine's data. O(data).
pub fn digest(engine: &Engine) -> u64 {
    let mut total = 0_u64;
    for (number, db) in engine.keyspace().iter().filter(|(_, db)| !db.is_empty()) {
        for handle in db.iter() {
            let entry = db.entry(handle);
            let key = hash(number as u64, db.key(handle));
            let expiry = entry.expiry().unwrap_or(-1) as u64;
            let value = value(entry.value());
            total = total
                .wrapping_add(key.wrapping_mul(3) ^ value.rotate_left(17) ^ expiry.wrapping_mul(0x9e37_79b9));
        }
    }
    for code in engine.library_codes() {
        total = total.wrapping_add(hash(6, code));
    }
    total
}

/// The keys with their expiries and the fingerprints of their values, and the beginnings of libraries, as
/// sorted lines.
pub fn lines(engine: &Engine) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, db) in engine.keyspace().iter() {
        for handle in db.iter() {
            let (entry, key) = (db.entry(handle), db.key(handle).escape_ascii());
            lines.push(format!("{number} {key} {:?} {:016x}", entry.expiry(), value(entry.value())));
        }
    }
    let codes = engine.library_codes().filter_map(|code| code.split(|byte| *byte == b';').next());
    lines.extend(codes.map(|head| head.escape_ascii().to_string()));
    lines.sort();
    lines
}

fn value(value: ValueRef<'_>) -> u64 {
    let mut buffer = IntBuffer::new();
    match value {
        ValueRef::Str(Str::Int(number)) => hash(1, buffer.format(number)),
        ValueRef::Str(text) => {
            let mut all = Vec::new();
            text.for_each_slice(|slice| all.extend_from_slice(slice));
            hash(1, &all)
        }
        ValueRef::List(list) => {
            let (mut folded, mut elements) = (2_u64, list.iter(0..list.len()));
            while let Some(element) = elements.next() {
                folded = hash(folded, element.bytes(&mut buffer));
            }
            folded
        }
        ValueRef::Set(set) => {
            let mut folded = 3_u64;
            set.iter().for_each(|member| folded = folded.wrapping_add(hash(3, member.bytes(&mut buffer))));
            folded
        }
        ValueRef::Hash(fields) => {
            let (mut folded, mut other) = (4_u64, IntBuffer::new());
            for field in fields.iter() {
                let name = hash(4, field.name.bytes(&mut buffer));
                folded = folded.wrapping_add(hash(name, field.value.bytes(&mut other)));
            }
            folded
        }
        ValueRef::Zset(zset) => {
            zset.iter_all().fold(5, |folded, (member, score)| hash(folded ^ score.to_bits(), member))
        }
        // For streams the number of entries suffices, because the workload has no streams.
        ValueRef::Stream(stream) => stream.log().len(),
    }
}
