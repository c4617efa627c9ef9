//! Changes of a database that may allocate or free an entry's block: insert, overwrite, remove, expiry. A
//! value or key *outside* is one that is stored apart from the entry's block, mostly because it is too large.

use super::tables::IndexKind;
use super::volatile::earliest_in;
use super::{Db, Found, Store};
use crate::entry::{self, Form, Head, Name};
use crate::new_value::{NewValue, Payload};
use crate::{AccessUpdate, Key, reference_string_encoding};
use sluice_collections::slab::{Handle, Slab, SlabFull};
use sluice_value::{Encoding, Value};
use std::sync::atomic::Ordering::Relaxed;

/// The expiry and access clock of an entry.
#[derive(Clone, Copy)]
pub(crate) struct Meta {
    /// Expiry, ms since the epoch; `None` if the key does not expire.
    pub expiry: Option<i64>,
    /// LRU or LFU clock, 24 bits.
    pub clock: u32,
}

impl Db {
    /// Inserts a key that is absent.
    #[inline]
    pub(crate) fn insert(&mut self, key: Key<'_>, value: NewValue<'_>, meta: Meta) -> Handle {
        let payload = Payload::of(key.bytes.len(), meta.expiry.is_some(), value);
        self.insert_payload(key, payload, meta)
    }

    pub(super) fn insert_payload(&mut self, key: Key<'_>, payload: Payload<'_>, meta: Meta) -> Handle {
        self.volatile.change(key.bytes, None, earliest_of(&payload));
        let name = self.store_name(key.bytes);
        let handle = self.build(name, payload, meta);
        self.enter(key, handle, meta);
        handle
    }

    /// Adds a new entry to the indexes. A walk in progress does not capture the entry.
    pub(super) fn enter(&mut self, key: Key<'_>, handle: Handle, meta: Meta) {
        self.tables.insert(IndexKind::Keys, key.hash, handle, &self.store);
        if self.store.walk.is_some() {
            self.store.note_entered(key);
        }
        if meta.expiry.is_some() {
            self.expires_insert(key.hash, handle);
        }
    }

    /// Overwrites an entry in place with a value inside the block, if the old value is inside too, and the
    /// block's size class and the presence of an expiry stay the same; the result is whether the entry was
    /// overwritten. A block of a collection may be larger than the largest block of a string; such a block is
    /// not overwritten with a string. Looks up the block once.
    #[inline]
    pub(crate) fn overwrite_inside(
        &mut self,
        found: Found,
        key: Key<'_>,
        (form, bytes): (Form, &[u8]),
        expiry: Option<i64>,
        touch: AccessUpdate,
    ) -> bool {
        self.before_change(found.handle);
        let (word, body) = self.store.slab.block_mut(found.handle);
        let head = Head(word.load(Relaxed));
        let len = entry::block_len(entry::name_len(key.bytes.len()), expiry.is_some(), bytes.len());
        let stays = !head.form().is_outside()
            && head.has_expiry() == expiry.is_some()
            && Slab::rounded(len) == body.len() + Slab::HEAD
            && (len <= entry::STRING_BLOCK_MAX || form != Form::StrInline);
        if stays {
            let head = head.with_form(form).with_clock(touch.after(head.clock()));
            word.store(write_inside(head, body, bytes, expiry).0, Relaxed);
        }
        stays
    }

    /// Replaces the value, the expiry and the access clock of the entry at `found`; returns the old value
    /// outside, if any. The entry keeps its block if the presence of an expiry stays the same and either both
    /// values are inside and need the same size class, or both are strings outside.
    pub(crate) fn overwrite(
        &mut self,
        found: Found,
        key: Key<'_>,
        payload: Payload<'_>,
        meta: Meta,
    ) -> Option<Value> {
        let head = self.head(found.handle);
        let in_place = !head.form().is_outside() && head.has_expiry() == meta.expiry.is_some();
        if in_place && let Some((form, bytes)) = payload.inside() {
            let name = entry::name_len(key.bytes.len());
            let len = entry::block_len(name, meta.expiry.is_some(), bytes.len());
            if Slab::rounded(len) == self.store.slab.block_size(found.handle) {
                self.before_change(found.handle);
                let head = head.with_form(form).with_clock(meta.clock);
                self.write_payload(found.handle, head, bytes, meta.expiry);
                return None;
            }
        }
        self.rebuild(found, key, payload, meta)
    }

    #[inline]
    fn write_payload(&mut self, handle: Handle, head: Head, bytes: &[u8], expiry: Option<i64>) {
        let (word, body) = self.store.slab.block_mut(handle);
        word.store(write_inside(head, body, bytes, expiry).0, Relaxed);
    }

    fn rebuild(&mut self, found: Found, key: Key<'_>, payload: Payload<'_>, meta: Meta) -> Option<Value> {
        self.before_change(found.handle);
        let payload = match self.replace_outside(found.handle, payload, meta) {
            Ok(old) => return Some(old),
            Err(payload) => payload,
        };
        let had_expiry = self.head(found.handle).has_expiry();
        let payload = match payload.inside() {
            // The reference stores the string first and drops the expiry afterwards, so the expiry
            // affects the encoding.
            Some((Form::StrInline, bytes))
                if had_expiry
                    && reference_string_encoding(key.bytes.len(), true, bytes.len()) == Encoding::Raw =>
            {
                payload.with_form(Form::StrInlineRaw)
            }
            Some(_) | None => payload,
        };
        let after = earliest_of(&payload);
        let handle = self.build(self.name_again(found.handle, key), payload, meta);
        let value = self.take_value(found.handle);
        let before = value.as_ref().and_then(earliest_in);
        self.volatile.change(key.bytes, before, after);
        self.replace_block(found, key, handle);
        value
    }

    /// Replaces a string outside with another one; returns the old string, or `Err` with the payload if
    /// the entry needs another block. The caller has called the hook `before_change`.
    fn replace_outside<'a>(
        &mut self,
        handle: Handle,
        payload: Payload<'a>,
        meta: Meta,
    ) -> Result<Value, Payload<'a>> {
        let head = self.head(handle);
        let fits = head.form() == Form::StrOutside && head.has_expiry() == meta.expiry.is_some();
        let new = match payload {
            Payload::Outside(Form::StrOutside, new) if fits => new,
            other => return Err(other),
        };
        let body = self.store.slab.body_mut(handle);
        if let Some(at) = meta.expiry {
            entry::write_expiry(head, body, at);
        }
        let index = entry::index_of(entry::payload(head, body));
        let Some(slot) = self.store.values.get_mut(index) else { entry::corrupt_entry() };
        let added = new.heap_bytes();
        let old = std::mem::replace(slot, new);
        self.store.outside_bytes = (self.store.outside_bytes + added).saturating_sub(old.heap_bytes());
        self.store.slab.head(handle).store(head.with_clock(meta.clock).0, Relaxed);
        Ok(old)
    }

    /// Points the indexes to the block `new` instead of the entry's old block, which is freed. The value
    /// and key outside belong to the new block from now on. The caller has called the hook `before_change`.
    pub(super) fn replace_block(&mut self, found: Found, key: Key<'_>, new: Handle) {
        self.tables.replace(IndexKind::Keys, key.hash, found.position, new);
        match (self.head(found.handle).has_expiry(), self.head(new).has_expiry()) {
            (true, true) => self.expires_replace(key.hash, found.handle, new),
            (true, false) => self.expires_remove(key.hash, found.handle),
            (false, true) => self.expires_insert(key.hash, new),
            (false, false) => {}
        }
        self.store.slab.free(found.handle);
    }

    /// The name that is written into a new block of an existing entry. A key outside keeps its index.
    pub(super) fn name_again<'k>(&self, old: Handle, key: Key<'k>) -> Name<'k> {
        match entry::name_of(self.store.slab.body(old)) {
            Name::Inside(_) => Name::Inside(key.bytes),
            Name::Outside(index) => Name::Outside(index),
        }
    }

    /// The name for the block of a new entry; a long key is stored outside.
    #[inline]
    pub(super) fn store_name<'k>(&mut self, key: &'k [u8]) -> Name<'k> {
        if key.len() <= entry::KEY_INSIDE_MAX {
            return Name::Inside(key);
        }
        self.store.outside_bytes += key.len();
        Name::Outside(self.store.keys.insert(key.into()))
    }

    pub(super) fn build(&mut self, name: Name<'_>, payload: Payload<'_>, meta: Meta) -> Handle {
        match payload {
            Payload::Int(bytes) => self.build_block(name, Form::StrInt, &bytes, meta),
            Payload::Borrowed(form, bytes) => self.build_block(name, form, bytes, meta),
            Payload::Owned(form, bytes) => self.build_block(name, form, &bytes, meta),
            Payload::Outside(form, value) => {
                self.store.outside_bytes += value.heap_bytes();
                let index = self.store.values.insert(value).to_le_bytes();
                self.build_block(name, form, &index, meta)
            }
        }
    }

    #[inline]
    fn build_block(&mut self, name: Name<'_>, form: Form, payload: &[u8], meta: Meta) -> Handle {
        let size = entry::block_len(name.len(), meta.expiry.is_some(), payload.len());
        let handle = self.alloc(size);
        let head = Head::new(meta.clock, form).with_expiry(meta.expiry.is_some());
        name.write(self.store.slab.body_mut(handle));
        self.write_payload(handle, head, payload, meta.expiry);
        handle
    }

    /// Allocates a block for an entry. If handles or memory run out, the process ends, as at any failed
    /// allocation. The check that admits writes must prevent that handles run out
    /// ([`crate::Keyspace::is_nearly_full`]).
    #[inline]
    pub(super) fn alloc(&mut self, size: usize) -> Handle {
        let handle = match self.store.slab.alloc(size) {
            Ok(handle) => handle,
            Err(SlabFull) => out_of_memory(),
        };
        if self.is_cut() {
            self.store.note_born(handle);
        }
        handle
    }

    /// Takes the value outside from an entry, which then gets another value or is removed; `None` if the
    /// value is inside. The caller has called the hook `before_change`.
    pub(super) fn take_value(&mut self, handle: Handle) -> Option<Value> {
        let head = self.head(handle);
        if !head.form().is_outside() {
            return None;
        }
        let value =
            self.store.values.remove(entry::index_of(entry::payload(head, self.store.slab.body(handle))));
        let bytes = value.as_ref().map_or(0, Value::heap_bytes);
        self.store.outside_bytes = self.store.outside_bytes.saturating_sub(bytes);
        value
    }

    /// Removes the entry at `found`; returns its value outside, for the caller to free.
    pub(crate) fn remove(&mut self, found: Found, key: Key<'_>) -> Option<Value> {
        self.before_change(found.handle);
        if self.store.walk.is_some() {
            self.store.note_left(key);
        }
        if self.head(found.handle).has_expiry() {
            self.expires_remove(key.hash, found.handle);
        }
        self.tables.remove(IndexKind::Keys, key.hash, found.position, &self.store);
        let value = self.take_value(found.handle);
        self.volatile.change(key.bytes, value.as_ref().and_then(earliest_in), None);
        free_block(&mut self.store, found.handle);
        value
    }

    /// Sets or clears the expiry of an entry.
    pub(crate) fn set_expiry(&mut self, found: Found, key: Key<'_>, expiry: Option<i64>) {
        let head = self.head(found.handle);
        match (head.has_expiry(), expiry) {
            (true, Some(at)) => {
                self.before_change(found.handle);
                entry::write_expiry(head, self.store.slab.body_mut(found.handle), at);
            }
            (false, None) => {}
            (true, None) | (false, Some(_)) => {
                self.before_change(found.handle);
                let bytes = entry::payload(head, self.store.slab.body(found.handle)).to_vec();
                let form = self.lasting_form(found.handle);
                let payload = Payload::moved(key.bytes.len(), expiry.is_some(), form, bytes);
                let meta = Meta { expiry, clock: head.clock() };
                let handle = self.build(self.name_again(found.handle, key), payload, meta);
                self.replace_block(found, key, handle);
            }
        }
    }

    /// The form of an entry's value under another key or expiry. A string that is reported as `raw` stays
    /// `raw`.
    pub(super) fn lasting_form(&self, handle: Handle) -> Form {
        match self.head(handle).form() {
            Form::StrInline if self.encoding(handle) == Encoding::Raw => Form::StrInlineRaw,
            form => form,
        }
    }

    fn expires_insert(&mut self, hash: u64, handle: Handle) {
        self.tables.insert(IndexKind::Expires, hash, handle, &self.store);
    }

    fn expires_remove(&mut self, hash: u64, handle: Handle) {
        if let Some(position) = self.tables.index(IndexKind::Expires, hash).find(hash, |h| h == handle) {
            self.tables.remove(IndexKind::Expires, hash, position, &self.store);
        }
    }

    fn expires_replace(&mut self, hash: u64, old: Handle, new: Handle) {
        if let Some(position) = self.tables.index(IndexKind::Expires, hash).find(hash, |h| h == old) {
            self.tables.replace(IndexKind::Expires, hash, position, new);
        }
    }
}

/// Frees the block of an entry, and its key outside.
pub(super) fn free_block(store: &mut Store, handle: Handle) {
    if let Name::Outside(index) = entry::name_of(store.slab.body(handle)) {
        let bytes = store.keys.remove(index).map_or(0, |key| key.len());
        store.outside_bytes = store.outside_bytes.saturating_sub(bytes);
    }
    store.slab.free(handle);
}

/// Earliest expiry of a field of a value that goes outside, in ms; `None` if no field expires.
fn earliest_of(payload: &Payload<'_>) -> Option<i64> {
    match payload {
        Payload::Outside(_, value) => earliest_in(value),
        Payload::Int(_) | Payload::Borrowed(..) | Payload::Owned(..) => None,
    }
}

#[cold]
fn out_of_memory() -> ! {
    std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; Slab::MAX_BLOCK]>())
}

/// Writes the expiry and payload of a block; the result is the head word with its slack.
#[inline]
fn write_inside(head: Head, body: &mut [u8], bytes: &[u8], expiry: Option<i64>) -> Head {
    if let Some(at) = expiry {
        entry::write_expiry(head, body, at);
    }
    let start = entry::payload_at(head, body);
    let end = start + bytes.len();
    body[start..end].copy_from_slice(bytes);
    entry::with_end(head, body, end)
}
