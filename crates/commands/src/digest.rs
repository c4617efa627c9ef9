//! Digests of data. The digests of equal data are equal, whatever the order of the keys and the encoding of
//! the values are.
//!
//! A digest of 20 bytes is folded from pieces in two ways. *Xor*: the SHA-1 of the piece is xored onto
//! the digest, so the order of pieces does not matter. *Mix*: the piece is xored in the same way, and then
//! the digest is replaced by its own SHA-1, so the order matters.

use sha1::{Digest as _, Sha1};
use sluice_base::Now;
use sluice_base::num::{IntBuffer, push_f64_shortest};
use sluice_keyspace::{Entry, Keyspace, ValueRef};
use sluice_value::stream::{Element, Stream, StreamId};

/// A digest under construction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Fold([u8; 20]);

impl Fold {
    fn xor(&mut self, piece: &[u8]) {
        self.xor_hash(Sha1::digest(piece).into());
    }

    fn xor_hash(&mut self, hash: [u8; 20]) {
        self.0.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }

    fn mix(&mut self, piece: &[u8]) {
        self.mix_hash(Sha1::digest(piece).into());
    }

    fn mix_hash(&mut self, hash: [u8; 20]) {
        self.xor_hash(hash);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Folds in a value: its type, its contents (of a stream, only the entries), and a mark if the key has an
    /// expiry.
    fn value(&mut self, entry: Entry<'_>, now: Now) {
        match entry.value() {
            ValueRef::Str(text) => {
                self.mix(&STRING_TYPE.to_be_bytes());
                let mut hash = Sha1::new();
                text.for_each_slice(|slice| hash.update(slice));
                self.mix_hash(hash.finalize().into());
            }
            ValueRef::List(list) => {
                self.mix(&LIST_TYPE.to_be_bytes());
                let mut buffer = IntBuffer::new();
                let mut elements = list.iter(0..list.len());
                while let Some(element) = elements.next() {
                    self.mix(element.bytes(&mut buffer));
                }
            }
            ValueRef::Hash(hash) => {
                self.mix(&HASH_TYPE.to_be_bytes());
                let (mut name, mut value) = (IntBuffer::new(), IntBuffer::new());
                // Expired fields are left out, because they are absent to every reader.
                for field in hash.iter().filter(|field| !field.is_expired(now.unix_ms())) {
                    let mut pair = Fold::default();
                    pair.mix(field.name.bytes(&mut name));
                    pair.mix(field.value.bytes(&mut value));
                    self.xor(&pair.0);
                }
            }
            ValueRef::Stream(stream) => self.stream(stream),
            ValueRef::Set(set) => {
                self.mix(&SET_TYPE.to_be_bytes());
                let mut buffer = IntBuffer::new();
                set.iter().for_each(|member| self.xor(member.bytes(&mut buffer)));
            }
            ValueRef::Zset(zset) => {
                self.mix(&ZSET_TYPE.to_be_bytes());
                for (member, score) in zset.iter_all() {
                    let mut element = Fold::default();
                    element.mix(member);
                    let mut text = Vec::new();
                    push_f64_shortest(&mut text, score);
                    element.mix(&text);
                    self.xor(&element.0);
                }
            }
        }
        if entry.expiry().is_some() {
            self.xor(b"!!expire!!");
        }
    }

    fn stream(&mut self, stream: &Stream) {
        self.mix(&STREAM_TYPE.to_be_bytes());
        let mut buffer = IntBuffer::new();
        for entry in stream.log().iter(StreamId::MIN, StreamId::MAX) {
            let id = entry.id();
            self.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
            for element in entry.pairs().flat_map(|(field, value)| [field, value]) {
                match element {
                    Element::Int(number) => self.mix(buffer.format(number)),
                    Element::Bytes(bytes) => self.mix(bytes),
                }
            }
        }
    }
}

/// Type number of strings in the digest.
const STRING_TYPE: u32 = 0;
/// Type number of hashes in the digest.
const HASH_TYPE: u32 = 4;
/// Type number of lists in the digest.
const LIST_TYPE: u32 = 1;
/// Type number of streams in the digest.
const STREAM_TYPE: u32 = 6;
/// Type number of sets in the digest.
const SET_TYPE: u32 = 2;
/// Type number of sorted sets in the digest.
const ZSET_TYPE: u32 = 3;

/// Digest of all databases, without hidden slots. For each database that has keys, the number of the database
/// is mixed in, and then its keys are xored. Cost: O(data).
pub fn digest(keyspace: &Keyspace, now: Now) -> [u8; 20] {
    let mut total = Fold::default();
    for (number, db) in keyspace.iter().filter(|(_, db)| !db.shown().is_empty()) {
        total.mix(&(number as u32).to_be_bytes());
        for handle in db.shown().iter() {
            let mut key = Fold::default();
            key.mix(db.key(handle));
            key.value(db.entry(handle), now);
            total.xor(&key.0);
        }
    }
    total.0
}

/// Digest of a value. Cost: O(value).
pub fn digest_of(entry: Entry<'_>, now: Now) -> [u8; 20] {
    let mut fold = Fold::default();
    fold.value(entry, now);
    fold.0
}
