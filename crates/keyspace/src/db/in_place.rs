//! Changes of a value where it stands: strings and integers.

use super::Db;
use crate::entry::{self, Form};
use sluice_base::Bytes;
use sluice_collections::slab::Handle;
use sluice_value::Value;
use std::sync::atomic::Ordering::Relaxed;

impl Db {
    /// Gives the string outside at `handle` to be changed in place; `None` when the entry has none.
    /// The closure returns its result; the accounting of bytes follows.
    pub(crate) fn edit_string_outside<R>(
        &mut self,
        handle: Handle,
        edit: impl FnOnce(&mut Bytes) -> R,
    ) -> Option<R> {
        let head = self.head(handle);
        match head.form() {
            Form::StrOutside => {}
            Form::StrInt | Form::StrInline | Form::StrInlineRaw => return None,
            Form::ListInlineListpack | Form::ListInlineQuicklist | Form::ListOutside => return None,
        }
        self.before_change(handle);
        let index = entry::index_of(entry::payload(head, self.slab.body(handle)));
        let value = self.values.get_mut(index)?;
        let before = value.heap_bytes();
        let result = match value {
            Value::Str(bytes) => edit(bytes),
            Value::List(_) => super::mixed_up(),
        };
        self.outside_bytes = self.outside_bytes + value.heap_bytes() - before;
        Some(result)
    }

    /// Changes the integer of an entry in place, and its clock to what `clock` makes of the old one; `false`, and no change,
    /// when the entry holds none.
    #[inline]
    pub(crate) fn write_int(&mut self, handle: Handle, value: i64, clock: impl FnOnce(u32) -> u32) -> bool {
        let head = self.head(handle);
        if head.form() != Form::StrInt {
            return false;
        }
        self.before_change(handle);
        let body = self.slab.body_mut(handle);
        let at = entry::payload_at(head, body);
        if let Some(bytes) = body.get_mut(at..at + 8) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        // Writing only when it changes: mostly the clock has not moved.
        let clock = clock(head.clock());
        if clock != head.clock() {
            self.slab.head(handle).store(head.with_clock(clock).0, Relaxed);
        }
        true
    }

    /// Gives the bytes of an inline string to be changed in place, grown with zeros to `len_min` bytes; it becomes `raw`.
    /// `None`, and no change, when the entry is of another form or its block has no room.
    pub(crate) fn inline_mut(&mut self, handle: Handle, len_min: usize) -> Option<&mut [u8]> {
        let head = self.head(handle);
        match head.form() {
            Form::StrInline | Form::StrInlineRaw => {}
            Form::StrInt | Form::StrOutside => return None,
            Form::ListInlineListpack | Form::ListInlineQuicklist | Form::ListOutside => return None,
        }
        let body = self.slab.body(handle);
        let (start, end) = (entry::payload_at(head, body), body.len() - entry::slack(head, body));
        let new_end = end.max(start + len_min);
        if new_end > body.len() {
            return None;
        }
        self.before_change(handle);
        let body = self.slab.body_mut(handle);
        body[end..new_end].fill(0);
        let head = entry::with_end(head.with_form(Form::StrInlineRaw), body, new_end);
        self.slab.head(handle).store(head.0, Relaxed);
        self.slab.body_mut(handle).get_mut(start..new_end)
    }
}
