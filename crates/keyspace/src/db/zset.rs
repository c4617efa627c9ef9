//! Sorted sets that are changed: one inside its block is copied out and back, one beside it is changed in its place.

use super::change::Meta;
use super::{Db, Found, mixed_up};
use crate::Key;
use crate::entry::{self, Form, Head};
use crate::new_value::Payload;
use sluice_collections::slab::{Handle, Slab};
use sluice_value::{Value, Zset, ZsetContext, ZsetEncoding};
use std::sync::atomic::Ordering::Relaxed;

/// A sorted set that is being changed.
pub(crate) enum OpenZset {
    /// Of no entry: the key is absent.
    Absent(Zset),
    /// A copy of what the entry's block holds.
    Inside(Found, Zset),
    /// The value of this number; its bytes were so many.
    Outside { found: Found, index: u32, heap_bytes: usize },
}

impl Db {
    /// An empty set for a key that is absent.
    pub(crate) fn open_new_zset(&mut self) -> OpenZset {
        let mut zset = self.store.zset_scratch.take().unwrap_or_default();
        zset.load_inline(&[], ZsetEncoding::Listpack);
        OpenZset::Absent(zset)
    }

    /// The set of an entry; `None` for another type. [`Db::close_zset`] has to follow.
    pub(crate) fn open_zset(&mut self, found: Found) -> Option<OpenZset> {
        let head = self.head(found.handle);
        let encoding = match head.form() {
            Form::ZsetInlineListpack => ZsetEncoding::Listpack,
            Form::ZsetInlineSkiplist => ZsetEncoding::Skiplist,
            Form::ZsetOutside => {
                self.before_change(found.handle);
                let index = entry::index_of(entry::payload(head, self.store.slab.body(found.handle)));
                let heap_bytes = self.zset_at(index).heap_bytes();
                return Some(OpenZset::Outside { found, index, heap_bytes });
            }
            Form::StrInt | Form::StrInline | Form::StrInlineRaw | Form::StrOutside => return None,
            Form::ListInlineListpack | Form::ListInlineQuicklist | Form::ListOutside => return None,
            Form::HashInlineListpack | Form::HashInlineHashtable | Form::HashOutside => return None,
            Form::SetInlineIntset | Form::SetInlineListpack | Form::SetInlineHashtable | Form::SetOutside => {
                return None;
            }
            Form::StreamOutside => return None,
        };
        self.before_change(found.handle);
        let mut zset = self.store.zset_scratch.take().unwrap_or_default();
        zset.load_inline(entry::payload(head, self.store.slab.body(found.handle)), encoding);
        Some(OpenZset::Inside(found, zset))
    }

    fn zset_at(&self, index: u32) -> &Zset {
        match self.store.values.get(index) {
            Some(Value::Zset(zset)) => zset,
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Hash(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => mixed_up(),
        }
    }

    /// The set that is being changed.
    #[inline]
    pub(crate) fn zset_of<'a>(&'a self, open: &'a OpenZset) -> &'a Zset {
        match open {
            OpenZset::Absent(zset) | OpenZset::Inside(_, zset) => zset,
            OpenZset::Outside { index, .. } => self.zset_at(*index),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn zset_of_mut<'a>(&'a mut self, open: &'a mut OpenZset) -> &'a mut Zset {
        match open {
            OpenZset::Absent(zset) | OpenZset::Inside(_, zset) => zset,
            OpenZset::Outside { index, .. } => match self.store.values.get_mut(*index) {
                Some(Value::Zset(zset)) => zset,
                Some(
                    Value::Str(_)
                    | Value::Pages(_)
                    | Value::List(_)
                    | Value::Hash(_)
                    | Value::Stream(_)
                    | Value::Set(_),
                )
                | None => mixed_up(),
            },
        }
    }

    /// Ends a change that was none.
    pub(crate) fn close_zset_unchanged(&mut self, open: OpenZset) {
        match open {
            OpenZset::Absent(zset) | OpenZset::Inside(_, zset) => self.recycle_zset(zset),
            OpenZset::Outside { .. } => {}
        }
    }

    /// Ends a change: the set goes where it fits now; an empty one takes its key with it. What is left over is given back, to be
    /// freed where it hurts least.
    pub(crate) fn close_zset(&mut self, key: Key<'_>, open: OpenZset, meta: Meta) -> Option<Value> {
        let zset = self.zset_of(&open);
        let is_empty = zset.is_empty();
        let len =
            zset.inline_len().filter(|len| entry::fits_inside(key.bytes.len(), meta.expiry.is_some(), *len));
        match (open, len) {
            (OpenZset::Absent(zset), _) if is_empty => self.recycle_zset(zset),
            (OpenZset::Absent(zset), Some(len)) => {
                let name = self.store_name(key.bytes);
                let handle = self.build_zset(name, &zset, (len, 0), meta);
                self.enter(key, handle, meta);
                self.recycle_zset(zset);
            }
            (OpenZset::Absent(zset), None) => {
                self.insert_payload(key, Payload::Outside(Form::ZsetOutside, Value::Zset(zset)), meta);
            }
            (OpenZset::Inside(found, zset), _) if is_empty => {
                self.remove(found, key);
                self.recycle_zset(zset);
            }
            (OpenZset::Inside(found, zset), Some(len)) => {
                if !self.write_zset(found.handle, &zset, len) {
                    let name = self.name_again(found.handle, key);
                    let handle = self.build_zset(name, &zset, (len, len / 4), meta);
                    self.replace_block(found, key, handle);
                }
                self.recycle_zset(zset);
            }
            (OpenZset::Inside(found, zset), None) => {
                let payload = Payload::Outside(Form::ZsetOutside, Value::Zset(zset));
                let handle = self.build(self.name_again(found.handle, key), payload, meta);
                self.replace_block(found, key, handle);
            }
            (OpenZset::Outside { found, index, heap_bytes }, len) => {
                let now_bytes = self.zset_at(index).heap_bytes();
                self.store.outside_bytes = self.store.outside_bytes + now_bytes - heap_bytes;
                if self.zset_at(index).has_remains() && !self.store.zsets_with_remains.contains(&index) {
                    self.store.zsets_with_remains.push(index);
                }
                if is_empty {
                    return self.remove(found, key);
                }
                // Back inside only well below the bound, lest a set at the bound moves with every change.
                if let Some(len) = len.filter(|len| *len <= BACK_INSIDE_MAX) {
                    return self.zset_back_inside((found, index), key, (len, now_bytes), meta);
                }
            }
        }
        None
    }

    /// Has a sorted set give back what it holds for elements that are gone, as many leaves as a budget allows; whether there was one.
    pub(super) fn clear_zset_remains(&mut self, budget: usize) -> bool {
        let Some(&index) = self.store.zsets_with_remains.last() else { return false };
        let has_more = match self.store.values.get_mut(index) {
            Some(Value::Zset(zset)) => {
                let before = zset.heap_bytes();
                let mut context = ZsetContext::default();
                let has_more = zset.clear_remains((budget / STEPS_OF_LEAF).max(1), &mut context);
                let now = zset.heap_bytes();
                self.store.remains.extend(context.take_garbage().map(Value::Zset));
                self.store.outside_bytes = self.store.outside_bytes + now - before;
                has_more
            }
            // Another value has its number since.
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Hash(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => false,
        };
        if !has_more {
            self.store.zsets_with_remains.pop();
        }
        true
    }

    fn zset_back_inside(
        &mut self,
        (found, index): (Found, u32),
        key: Key<'_>,
        (len, heap_bytes): (usize, usize),
        meta: Meta,
    ) -> Option<Value> {
        let name = self.name_again(found.handle, key);
        self.store.outside_bytes -= heap_bytes;
        let value = self.store.values.remove(index);
        let Some(Value::Zset(zset)) = &value else { mixed_up() };
        let handle = self.build_zset(name, zset, (len, 0), meta);
        self.replace_block(found, key, handle);
        value
    }

    /// Writes a set over an inline one; `false`, and no change, when the block has no room or far too much.
    fn write_zset(&mut self, handle: Handle, zset: &Zset, len: usize) -> bool {
        let head = self.head(handle);
        let body = self.store.slab.body_mut(handle);
        let start = entry::payload_at(head, body);
        let Some(slack) = body.len().checked_sub(start + len) else { return false };
        if slack > entry::SLACK_MAX.min(8 + len / 2) {
            return false;
        }
        zset.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head.with_form(Form::zset_inline(zset.encoding())), body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        true
    }

    /// A block with a set of `len` bytes and room for about `spare` more.
    fn build_zset(
        &mut self,
        name: entry::Name<'_>,
        zset: &Zset,
        (len, spare): (usize, usize),
        meta: Meta,
    ) -> Handle {
        let size = entry::block_len(name.len(), meta.expiry.is_some(), len);
        let handle = self.alloc((size + spare).min(Slab::MAX_BLOCK));
        let head =
            Head::new(meta.clock, Form::zset_inline(zset.encoding())).with_expiry(meta.expiry.is_some());
        let body = self.store.slab.body_mut(handle);
        name.write(body);
        if let Some(at) = meta.expiry {
            entry::write_expiry(head, body, at);
        }
        let start = entry::payload_at(head, body);
        zset.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head, body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        handle
    }

    /// Keeps a set's memory for the next: it is small, and nobody shares it.
    fn recycle_zset(&mut self, zset: Zset) {
        self.store.zset_scratch = Some(zset);
    }
}

/// Steps of compaction that clearing a leaf counts for.
const STEPS_OF_LEAF: usize = 8;
/// A set outside comes back into its block when it needs no more bytes than this.
const BACK_INSIDE_MAX: usize = 256;
