//! Hashes on their way out of their entry, to be changed, and back: inside the block while they are small, else beside it.

use super::change::Meta;
use super::{Db, Found, mixed_up};
use crate::Key;
use crate::entry::{self, Form, Head};
use crate::new_value::Payload;
use sluice_collections::slab::{Handle, Slab};
use sluice_value::{Hash, HashEncoding, Value};
use std::sync::atomic::Ordering::Relaxed;

/// A hash that was taken out of its entry.
pub(crate) struct OpenHash {
    /// The fields.
    pub hash: Hash,
    home: HashHome,
}

/// Where an open hash came from.
enum HashHome {
    /// No entry: the key is absent.
    Absent,
    /// The entry's block, whose bytes are still there.
    Inside(Found),
    /// The place of this number among the values, where a stand-in is now; its bytes were so many, and its first field to expire
    /// did so then.
    Outside { found: Found, index: u32, heap_bytes: usize, earliest: Option<i64> },
}

impl Db {
    /// An empty hash for a key that is absent.
    pub(crate) fn open_new_hash(&mut self) -> OpenHash {
        let mut hash = self.store.hash_scratch.take().unwrap_or_default();
        hash.load_inline(&[], HashEncoding::Listpack);
        OpenHash { hash, home: HashHome::Absent }
    }

    /// Takes the hash of an entry out; `None` for another type. [`Db::close_hash`] has to follow.
    pub(crate) fn open_hash(&mut self, found: Found) -> Option<OpenHash> {
        let head = self.head(found.handle);
        let encoding = match head.form() {
            Form::HashInlineListpack => HashEncoding::Listpack,
            Form::HashInlineHashtable => HashEncoding::Hashtable,
            Form::HashOutside => return Some(self.open_hash_outside(found, head)),
            Form::StrInt | Form::StrInline | Form::StrInlineRaw | Form::StrOutside => return None,
            Form::ListInlineListpack | Form::ListInlineQuicklist | Form::ListOutside => return None,
            Form::ZsetInlineListpack | Form::ZsetInlineSkiplist | Form::ZsetOutside => return None,
            Form::SetInlineIntset | Form::SetInlineListpack | Form::SetInlineHashtable | Form::SetOutside => {
                return None;
            }
            Form::StreamOutside => return None,
        };
        self.before_change(found.handle);
        let mut hash = self.store.hash_scratch.take().unwrap_or_default();
        hash.load_inline(entry::payload(head, self.store.slab.body(found.handle)), encoding);
        Some(OpenHash { hash, home: HashHome::Inside(found) })
    }

    fn open_hash_outside(&mut self, found: Found, head: Head) -> OpenHash {
        self.before_change(found.handle);
        let mut hash = self.store.hash_scratch.take().unwrap_or_default();
        let index = entry::index_of(entry::payload(head, self.store.slab.body(found.handle)));
        match self.store.values.get_mut(index) {
            Some(Value::Hash(value)) => std::mem::swap(value, &mut hash),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Zset(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => mixed_up(),
        }
        let (heap_bytes, earliest) = (hash.heap_bytes(), hash.view().earliest());
        OpenHash { hash, home: HashHome::Outside { found, index, heap_bytes, earliest } }
    }

    /// Puts a hash back that was not changed.
    pub(crate) fn close_hash_unchanged(&mut self, open: OpenHash) {
        match open.home {
            HashHome::Absent | HashHome::Inside(_) => self.recycle_hash(open.hash),
            HashHome::Outside { index, .. } => self.put_hash_back(index, open.hash),
        }
    }

    /// Puts a changed hash back, whichever place suits it now; an empty one takes its key with it. What is left over is
    /// given back, to be freed where it hurts least.
    pub(crate) fn close_hash(&mut self, key: Key<'_>, open: OpenHash, meta: Meta) -> Option<Value> {
        let OpenHash { hash, home } = open;
        if hash.is_empty() {
            return self.close_empty_hash(key, hash, home);
        }
        let len =
            hash.inline_len().filter(|len| entry::fits_inside(key.bytes.len(), meta.expiry.is_some(), *len));
        match (home, len) {
            (HashHome::Absent, Some(len)) => {
                let name = self.store_name(key.bytes);
                let handle = self.build_hash(name, &hash, len, 0, meta);
                self.enter(key, handle, meta);
                self.recycle_hash(hash);
            }
            (HashHome::Absent, None) => {
                self.insert_payload(key, Payload::Outside(Form::HashOutside, Value::Hash(hash)), meta);
            }
            (HashHome::Inside(found), Some(len)) => {
                if !self.write_hash(found.handle, &hash, len) {
                    let name = self.name_again(found.handle, key);
                    let handle = self.build_hash(name, &hash, len, len / 4, meta);
                    self.replace_block(found, key, handle);
                }
                self.recycle_hash(hash);
            }
            (HashHome::Inside(found), None) => {
                self.volatile.change(key.bytes, None, hash.view().earliest());
                let payload = Payload::Outside(Form::HashOutside, Value::Hash(hash));
                let handle = self.build(self.name_again(found.handle, key), payload, meta);
                self.replace_block(found, key, handle);
            }
            // Back inside only well below the bound, lest a hash at the bound moves with every change.
            (HashHome::Outside { found, index, heap_bytes, earliest }, Some(len))
                if len <= BACK_INSIDE_MAX =>
            {
                self.volatile.change(key.bytes, earliest, None);
                let name = self.name_again(found.handle, key);
                let handle = self.build_hash(name, &hash, len, 0, meta);
                self.store.outside_bytes -= heap_bytes;
                let stand_in = self.store.values.remove(index);
                self.replace_block(found, key, handle);
                self.recycle_hash_value(stand_in);
                return Some(Value::Hash(hash));
            }
            (HashHome::Outside { index, heap_bytes, earliest, .. }, Some(_) | None) => {
                self.volatile.change(key.bytes, earliest, hash.view().earliest());
                self.store.outside_bytes = self.store.outside_bytes + hash.heap_bytes() - heap_bytes;
                self.put_hash_back(index, hash);
            }
        }
        None
    }

    fn close_empty_hash(&mut self, key: Key<'_>, hash: Hash, home: HashHome) -> Option<Value> {
        match home {
            HashHome::Absent => self.recycle_hash(hash),
            HashHome::Inside(found) => {
                self.remove(found, key);
                self.recycle_hash(hash);
            }
            HashHome::Outside { found, index, heap_bytes, earliest } => {
                self.volatile.change(key.bytes, earliest, None);
                // The stand-in goes with the entry: its bytes are counted instead of the hash's until then.
                let stood_in = self.store.values.get(index).map_or(0, Value::heap_bytes);
                self.store.outside_bytes = self.store.outside_bytes - heap_bytes + stood_in;
                let stand_in = self.remove(found, key);
                self.recycle_hash_value(stand_in);
                return Some(Value::Hash(hash));
            }
        }
        None
    }

    /// Writes a hash over an inline one; `false`, and no change, when the block has no room or far too much.
    fn write_hash(&mut self, handle: Handle, hash: &Hash, len: usize) -> bool {
        let head = self.head(handle);
        let body = self.store.slab.body_mut(handle);
        let start = entry::payload_at(head, body);
        let Some(slack) = body.len().checked_sub(start + len) else { return false };
        if slack > entry::SLACK_MAX.min(8 + len / 2) {
            return false;
        }
        hash.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head.with_form(Form::hash_inline(hash.encoding())), body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        true
    }

    /// A block with a hash of `len` bytes and room for about `spare` more.
    fn build_hash(
        &mut self,
        name: entry::Name<'_>,
        hash: &Hash,
        len: usize,
        spare: usize,
        meta: Meta,
    ) -> Handle {
        let size = entry::block_len(name.len(), meta.expiry.is_some(), len);
        let handle = self.alloc((size + spare).min(Slab::MAX_BLOCK));
        let head =
            Head::new(meta.clock, Form::hash_inline(hash.encoding())).with_expiry(meta.expiry.is_some());
        let body = self.store.slab.body_mut(handle);
        name.write(body);
        if let Some(at) = meta.expiry {
            entry::write_expiry(head, body, at);
        }
        let start = entry::payload_at(head, body);
        hash.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head, body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        handle
    }

    /// Puts a hash where a stand-in is.
    fn put_hash_back(&mut self, index: u32, mut hash: Hash) {
        match self.store.values.get_mut(index) {
            Some(Value::Hash(stand_in)) => std::mem::swap(stand_in, &mut hash),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Zset(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => mixed_up(),
        }
        self.recycle_hash(hash);
    }

    fn recycle_hash_value(&mut self, value: Option<Value>) {
        match value {
            Some(Value::Hash(hash)) => self.recycle_hash(hash),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Zset(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => mixed_up(),
        }
    }

    /// Keeps a hash's memory for the next: it is small, and nobody shares it.
    fn recycle_hash(&mut self, hash: Hash) {
        if hash.is_scratch() {
            self.store.hash_scratch = Some(hash);
        }
    }
}

/// A hash outside comes back into its block when it needs no more bytes than this.
const BACK_INSIDE_MAX: usize = 256;
