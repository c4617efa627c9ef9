//! Takes collections out of their entry to be changed, and puts them back: inside the block while they
//! are small, otherwise outside.
//!
//! Invariant: while a collection outside is open, its slot among the values holds a stand-in of the same
//! type, whose elements are meaningless.

use super::change::Meta;
use super::{Db, Found, Store};
use crate::Key;
use crate::collection::{Collection, Variant};
use crate::entry::{self, Head, Name, corrupt_entry};
use crate::new_value::Payload;
use sluice_collections::slab::{Handle, Slab};
use sluice_value::Value;
use std::sync::atomic::Ordering::Relaxed;

/// A collection taken out of its entry to be changed.
pub(crate) struct Open<C> {
    /// The collection, to be changed.
    pub value: C,
    origin: CollectionOrigin,
}

/// The place from which an open collection came, and to which it returns.
enum CollectionOrigin {
    /// The collection comes from no entry, because the key is absent.
    Absent,
    /// The entry's block, whose bytes are still there.
    Inside(Found),
    /// A slot among the values, which holds a stand-in while the collection is open.
    OutsideSlot(OutsideSlot),
}

/// The slot of a collection outside, and its state before the change.
struct OutsideSlot {
    found: Found,
    index: u32,
    heap_bytes: usize,
    earliest: Option<i64>,
}

impl<C> Open<C> {
    /// A new collection for an absent key.
    #[inline]
    pub(crate) fn new(value: C) -> Open<C> {
        Open { value, origin: CollectionOrigin::Absent }
    }
}

impl Db {
    /// An empty collection, which takes over the memory of the scratch collection if there is one.
    pub(crate) fn blank<C: Collection>(&mut self, encoding: C::Encoding) -> C {
        let mut value = C::scratch(&mut self.store.scratch).take().unwrap_or_default();
        value.load_inline(&[], encoding);
        value
    }

    /// Takes the collection out of an entry; `None` if the value has another type. [`Db::close`] or
    /// [`Db::close_unchanged`] must follow.
    pub(crate) fn open<C: Collection>(&mut self, found: Found) -> Option<Open<C>> {
        let head = self.head(found.handle);
        let encoding = C::encoding_in(head.form())?;
        self.before_change(found.handle);
        let mut value = C::scratch(&mut self.store.scratch).take().unwrap_or_default();
        let payload = entry::payload(head, self.store.slab.body(found.handle));
        let origin = match encoding {
            Some(encoding) => {
                value.load_inline(payload, encoding);
                CollectionOrigin::Inside(found)
            }
            None => {
                let index = entry::index_of(payload);
                std::mem::swap(self.store.outside_mut(index), &mut value);
                let (heap_bytes, earliest) = (value.heap_bytes(), value.earliest());
                CollectionOrigin::OutsideSlot(OutsideSlot { found, index, heap_bytes, earliest })
            }
        };
        Some(Open { value, origin })
    }

    /// Puts back a collection that was not changed.
    pub(crate) fn close_unchanged<C: Collection>(&mut self, open: Open<C>) {
        let Open { value, origin } = open;
        match origin {
            CollectionOrigin::Absent | CollectionOrigin::Inside(_) => self.store.recycle(value),
            CollectionOrigin::OutsideSlot(OutsideSlot { index, heap_bytes, .. }) => {
                // The byte count is updated nevertheless, because the search for an absent element may have
                // copied shared nodes, and a copy takes another amount of memory.
                self.store.outside_bytes = self.store.outside_bytes + value.heap_bytes() - heap_bytes;
                self.store.put_back(index, value);
            }
        }
    }

    /// Puts back a changed collection, inside the block if it fits there, otherwise outside; a collection
    /// that was outside returns inside only at `BACK_INSIDE_MAX` bytes or less. If the collection is empty,
    /// the key is removed. Returns the old value that is left over, if any, for the caller to free.
    pub(crate) fn close<C: Collection>(&mut self, key: Key<'_>, open: Open<C>, meta: Meta) -> Option<Value> {
        let Open { value, origin } = open;
        let is_empty = value.is_empty();
        let len =
            value.inline_len().filter(|len| entry::fits_inside(key.bytes.len(), meta.expiry.is_some(), *len));
        match (origin, len) {
            (CollectionOrigin::OutsideSlot(outside), len) => {
                return self.close_outside(key, value, outside, len, meta);
            }
            (CollectionOrigin::Absent, _) if is_empty => self.store.recycle(value),
            (CollectionOrigin::Absent, Some(len)) => {
                let name = self.store_name(key.bytes);
                let handle = self.build_inline(name, &value, (len, 0), meta);
                self.enter(key, handle, meta);
                self.store.recycle(value);
            }
            (CollectionOrigin::Absent, None) => {
                self.insert_payload(key, Payload::outside(value), meta);
            }
            (CollectionOrigin::Inside(found), _) if is_empty => {
                self.remove(found, key);
                self.store.recycle(value);
            }
            (CollectionOrigin::Inside(found), Some(len)) => {
                if !self.write_inline(found.handle, &value, len) {
                    let name = self.name_again(found.handle, key);
                    let handle = self.build_inline(name, &value, (len, (len / 4).min(SPARE_MAX)), meta);
                    self.replace_block(found, key, handle);
                }
                self.store.recycle(value);
            }
            (CollectionOrigin::Inside(found), None) => {
                self.volatile.change(key.bytes, None, value.earliest());
                let handle = self.build(self.name_again(found.handle, key), Payload::outside(value), meta);
                self.replace_block(found, key, handle);
            }
        }
        None
    }

    /// Puts back a collection that was outside; `len` is the length that it would have in a block, if it fits
    /// in one.
    #[inline]
    fn close_outside<C: Collection>(
        &mut self,
        key: Key<'_>,
        value: C,
        OutsideSlot { found, index, heap_bytes, earliest }: OutsideSlot,
        len: Option<usize>,
        meta: Meta,
    ) -> Option<Value> {
        self.volatile.change(key.bytes, earliest, value.earliest());
        self.store.outside_bytes = self.store.outside_bytes + value.heap_bytes() - heap_bytes;
        if value.has_remains() && !self.store.zsets_with_remains.contains(&index) {
            self.store.zsets_with_remains.push(index);
        }
        let is_empty = value.is_empty();
        let block = match len {
            // The collection goes back inside only if it is well below the limit, because at the limit it
            // would otherwise move with every change.
            Some(len) if len <= BACK_INSIDE_MAX && !is_empty => {
                let name = self.name_again(found.handle, key);
                Some(self.build_inline(name, &value, (len, 0), meta))
            }
            Some(_) | None => None,
        };
        self.store.put_back(index, value);
        if is_empty {
            return self.remove(found, key);
        }
        let block = block?;
        let value = self.take_value(found.handle);
        self.replace_block(found, key, block);
        value
    }

    /// Writes a collection over an inline one; `false`, and no change, if the block is too small or much too
    /// large.
    fn write_inline<C: Collection>(&mut self, handle: Handle, value: &C, len: usize) -> bool {
        let head = self.head(handle);
        let body = self.store.slab.body_mut(handle);
        let start = entry::payload_at(head, body);
        let Some(slack) = body.len().checked_sub(start + len) else { return false };
        if slack > entry::SLACK_MAX.min(8 + len / 2) {
            return false;
        }
        value.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head.with_form(C::inline_form(value.encoding())), body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        true
    }

    /// Builds a block that holds a collection of `len` bytes and has room for about `spare` more bytes.
    fn build_inline<C: Collection>(
        &mut self,
        name: Name<'_>,
        value: &C,
        (len, spare): (usize, usize),
        meta: Meta,
    ) -> Handle {
        let size = entry::block_len(name.len(), meta.expiry.is_some(), len);
        let handle = self.alloc((size + spare).min(Slab::MAX_BLOCK));
        let form = C::inline_form(value.encoding());
        let head = Head::new(meta.clock, form).with_expiry(meta.expiry.is_some());
        let body = self.store.slab.body_mut(handle);
        name.write(body);
        if let Some(at) = meta.expiry {
            entry::write_expiry(head, body, at);
        }
        let start = entry::payload_at(head, body);
        value.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head, body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        handle
    }
}

impl Store {
    /// The value outside with this index.
    #[inline]
    pub(super) fn outside<V: Variant>(&self, index: u32) -> &V {
        V::of(self.values.get(index).unwrap_or_else(|| corrupt_entry()))
    }

    /// The value outside with this index, to be changed.
    #[inline]
    pub(super) fn outside_mut<V: Variant>(&mut self, index: u32) -> &mut V {
        V::of_mut(self.values.get_mut(index).unwrap_or_else(|| corrupt_entry()))
    }

    /// Puts a collection back in the place of its stand-in.
    fn put_back<C: Collection>(&mut self, index: u32, mut value: C) {
        std::mem::swap(self.outside_mut(index), &mut value);
        self.recycle(value);
    }

    /// Keeps a collection's memory for the next collection of its type, if the memory is worth keeping
    /// (`Collection::is_scratch`); otherwise frees it.
    fn recycle<C: Collection>(&mut self, value: C) {
        if value.is_scratch() {
            *C::scratch(&mut self.scratch) = Some(value);
        }
    }
}

/// Maximum number of spare bytes in the block of a collection that has grown. One byte records the slack of a
/// block, and the slack includes the up to 7 bytes by which the size class rounds up the block's size.
const SPARE_MAX: usize = entry::SLACK_MAX - 7;
const _: () = assert!(Slab::rounded(Slab::MAX_BLOCK - 7) == Slab::MAX_BLOCK, "classes are 8 bytes apart");
/// A collection outside returns to its entry's block if it fits there and needs no more bytes than this.
const BACK_INSIDE_MAX: usize = 256;
