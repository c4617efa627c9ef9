//! In-place changes of strings and integers.

use super::Db;
use crate::entry::{self, Form, Head};
use sluice_collections::slab::Handle;
use sluice_value::{PAGE_BYTES, Pages, Value};
use std::sync::atomic::Ordering::Relaxed;

/// Result of a write into a string that is stored outside its entry's block.
pub(crate) struct Written {
    /// Length of the string.
    pub len: usize,
    /// The old string, if another one replaced it; the caller frees it.
    pub garbage: Option<Value>,
}

impl Db {
    /// Writes into the string that the entry keeps outside its block. The string grows with zeros as needed;
    /// the result has the string's new length. `None`, and no change, if the entry has no such string.
    pub(crate) fn write_outside(&mut self, handle: Handle, offset: usize, bytes: &[u8]) -> Option<Written> {
        let head = self.head(handle);
        match head.form() {
            Form::StrOutside => {}
            Form::StrInt | Form::StrInline | Form::StrInlineRaw => return None,
            Form::ListInlineListpack | Form::ListInlineQuicklist | Form::ListOutside => return None,
            Form::HashInlineListpack | Form::HashInlineHashtable | Form::HashOutside => return None,
            Form::StreamOutside => return None,
            Form::ZsetInlineListpack | Form::ZsetInlineSkiplist | Form::ZsetOutside => return None,
            Form::SetInlineIntset | Form::SetInlineListpack | Form::SetInlineHashtable | Form::SetOutside => {
                return None;
            }
        }
        self.before_change(handle);
        let index = entry::index_of(entry::payload(head, self.store.slab.body(handle)));
        let value = self.store.values.get_mut(index)?;
        let before = value.heap_bytes();
        let written = write_large(value, offset, bytes);
        self.store.outside_bytes = self.store.outside_bytes + value.heap_bytes() - before;
        Some(written)
    }

    /// Replaces the integer of an entry in place, and its access clock with what `clock` computes from the
    /// old clock; `false`, and no change, if the entry holds no integer.
    #[inline]
    pub(crate) fn write_int(&mut self, handle: Handle, value: i64, clock: impl FnOnce(u32) -> u32) -> bool {
        self.before_change(handle);
        let (word, body) = self.store.slab.block_mut(handle);
        let head = Head(word.load(Relaxed));
        if !head.is_form(Form::StrInt) {
            return false;
        }
        let at = entry::payload_at(head, body);
        if let Some(bytes) = body.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *bytes = value.to_le_bytes();
        }
        // The clock is written only if it changes, because usually it has not advanced.
        let clock = clock(head.clock());
        if clock != head.clock() {
            word.store(head.with_clock(clock).0, Relaxed);
        }
        true
    }

    /// Lends the bytes of an inline string to be changed in place, grown with zeros to `len_min` bytes; the
    /// string becomes `raw`. `None`, and no change, if the entry has another form or its block has no room.
    pub(crate) fn inline_mut(&mut self, handle: Handle, len_min: usize) -> Option<&mut [u8]> {
        let head = self.head(handle);
        match head.form() {
            Form::StrInline | Form::StrInlineRaw => {}
            Form::StrInt | Form::StrOutside => return None,
            Form::ListInlineListpack | Form::ListInlineQuicklist | Form::ListOutside => return None,
            Form::HashInlineListpack | Form::HashInlineHashtable | Form::HashOutside => return None,
            Form::StreamOutside => return None,
            Form::ZsetInlineListpack | Form::ZsetInlineSkiplist | Form::ZsetOutside => return None,
            Form::SetInlineIntset | Form::SetInlineListpack | Form::SetInlineHashtable | Form::SetOutside => {
                return None;
            }
        }
        let body = self.store.slab.body(handle);
        let (start, end) = (entry::payload_at(head, body), body.len() - entry::slack(head, body));
        let new_end = end.max(start + len_min);
        if new_end > body.len() {
            return None;
        }
        self.before_change(handle);
        let body = self.store.slab.body_mut(handle);
        body[end..new_end].fill(0);
        let head = entry::with_end(head.with_form(Form::StrInlineRaw), body, new_end);
        self.store.slab.head(handle).store(head.0, Relaxed);
        self.store.slab.body_mut(handle).get_mut(start..new_end)
    }
}

/// Writes into a large string. A string in one piece is converted to pages once it is longer than a page. The
/// conversion copies the whole string.
fn write_large(value: &mut Value, offset: usize, bytes: &[u8]) -> Written {
    let end = offset + bytes.len();
    match value {
        Value::Str(large) if large.len().max(end) <= PAGE_BYTES => {
            let vec = large.make_mut();
            if end > vec.len() {
                // Doubles the capacity, so that appends have amortised cost.
                if end > vec.capacity() {
                    vec.reserve_exact(end);
                }
                vec.resize(end, 0);
            }
            vec[offset..end].copy_from_slice(bytes);
            Written { len: vec.len(), garbage: None }
        }
        Value::Str(large) => {
            let mut pages = Pages::copy_from(large);
            pages.write_at(offset, bytes);
            let len = pages.len();
            Written { len, garbage: Some(std::mem::replace(value, Value::Pages(pages))) }
        }
        Value::Pages(pages) => {
            pages.write_at(offset, bytes);
            Written { len: pages.len(), garbage: None }
        }
        Value::List(_) | Value::Hash(_) | Value::Stream(_) | Value::Zset(_) | Value::Set(_) => {
            entry::corrupt_entry()
        }
    }
}
