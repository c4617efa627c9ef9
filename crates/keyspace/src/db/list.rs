//! Lists on their way out of their entry, to be changed, and back: inside the block while they are small, else beside it.

use super::change::Meta;
use super::{Db, Found, mixed_up};
use crate::Key;
use crate::entry::{self, Form, Head};
use sluice_collections::slab::{Handle, Slab};
use sluice_value::{List, Value};
use std::sync::atomic::Ordering::Relaxed;

/// A list that was taken out of its entry.
pub(crate) struct OpenList {
    /// The elements.
    pub list: List,
    home: Home,
}

/// Where an open list came from.
enum Home {
    /// No entry: the key is absent.
    Absent,
    /// The entry's block, whose bytes are still there.
    Inside(Found),
    /// The place of this number among the values, where a stand-in is now; its bytes were so many.
    Outside { found: Found, index: u32, heap_bytes: usize },
}

impl Db {
    /// An empty list for a key that is absent.
    pub(crate) fn open_new_list(&mut self) -> OpenList {
        let mut list = self.store.scratch.take().unwrap_or_default();
        list.load_inline(&[], sluice_value::ListEncoding::Listpack);
        OpenList { list, home: Home::Absent }
    }

    /// Takes the list of an entry out; `None` for another type. [`Db::close_list`] has to follow.
    pub(crate) fn open_list(&mut self, found: Found) -> Option<OpenList> {
        let head = self.head(found.handle);
        let encoding = match head.form() {
            Form::ListInlineListpack => sluice_value::ListEncoding::Listpack,
            Form::ListInlineQuicklist => sluice_value::ListEncoding::Quicklist,
            Form::ListOutside => return Some(self.open_outside(found, head)),
            Form::StrInt | Form::StrInline | Form::StrInlineRaw | Form::StrOutside => return None,
            Form::HashInlineListpack | Form::HashInlineHashtable | Form::HashOutside => return None,
            Form::ZsetInlineListpack | Form::ZsetInlineSkiplist | Form::ZsetOutside => return None,
            Form::SetInlineIntset | Form::SetInlineListpack | Form::SetInlineHashtable | Form::SetOutside => {
                return None;
            }
            Form::StreamOutside => return None,
        };
        self.before_change(found.handle);
        let mut list = self.store.scratch.take().unwrap_or_default();
        list.load_inline(entry::payload(head, self.store.slab.body(found.handle)), encoding);
        Some(OpenList { list, home: Home::Inside(found) })
    }

    fn open_outside(&mut self, found: Found, head: Head) -> OpenList {
        self.before_change(found.handle);
        let mut list = self.store.scratch.take().unwrap_or_default();
        let index = entry::index_of(entry::payload(head, self.store.slab.body(found.handle)));
        match self.store.values.get_mut(index) {
            Some(Value::List(value)) => std::mem::swap(value, &mut list),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::Hash(_)
                | Value::Zset(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => mixed_up(),
        }
        let heap_bytes = list.heap_bytes();
        OpenList { list, home: Home::Outside { found, index, heap_bytes } }
    }

    /// Puts a list back that was not changed.
    pub(crate) fn close_unchanged(&mut self, open: OpenList) {
        match open.home {
            Home::Absent | Home::Inside(_) => self.recycle(open.list),
            Home::Outside { index, .. } => self.put_back(index, open.list),
        }
    }

    /// Puts a changed list back, whichever place suits it now; an empty one takes its key with it. What is left over is
    /// given back, to be freed where it hurts least.
    pub(crate) fn close_list(&mut self, key: Key<'_>, open: OpenList, meta: Meta) -> Option<Value> {
        let OpenList { list, home } = open;
        if list.is_empty() {
            return self.close_empty(key, list, home);
        }
        let len =
            list.inline_len().filter(|len| entry::fits_inside(key.bytes.len(), meta.expiry.is_some(), *len));
        match (home, len) {
            (Home::Absent, Some(len)) => {
                let name = self.store_name(key.bytes);
                let handle = self.build_list(name, &list, len, 0, meta);
                self.enter(key, handle, meta);
                self.recycle(list);
            }
            (Home::Absent, None) => {
                let payload = crate::new_value::Payload::Outside(Form::ListOutside, Value::List(list));
                self.insert_payload(key, payload, meta);
            }
            (Home::Inside(found), Some(len)) => {
                if !self.write_list(found.handle, &list, len) {
                    let name = self.name_again(found.handle, key);
                    let handle = self.build_list(name, &list, len, len / 4, meta);
                    self.replace_block(found, key, handle);
                }
                self.recycle(list);
            }
            (Home::Inside(found), None) => {
                let payload = crate::new_value::Payload::Outside(Form::ListOutside, Value::List(list));
                let handle = self.build(self.name_again(found.handle, key), payload, meta);
                self.replace_block(found, key, handle);
            }
            // Back inside only well below the bound, lest a list at the bound moves with every change.
            (Home::Outside { found, index, heap_bytes }, Some(len)) if len <= BACK_INSIDE_MAX => {
                let name = self.name_again(found.handle, key);
                let handle = self.build_list(name, &list, len, 0, meta);
                self.store.outside_bytes -= heap_bytes;
                let stand_in = self.store.values.remove(index);
                self.replace_block(found, key, handle);
                self.recycle_value(stand_in);
                return Some(Value::List(list));
            }
            (Home::Outside { index, heap_bytes, .. }, Some(_) | None) => {
                self.store.outside_bytes = self.store.outside_bytes + list.heap_bytes() - heap_bytes;
                self.put_back(index, list);
            }
        }
        None
    }

    fn close_empty(&mut self, key: Key<'_>, list: List, home: Home) -> Option<Value> {
        match home {
            Home::Absent => self.recycle(list),
            Home::Inside(found) => {
                self.remove(found, key);
                self.recycle(list);
            }
            Home::Outside { found, index, heap_bytes } => {
                // The stand-in goes with the entry: its bytes are counted instead of the list's until then.
                let stood_in = self.store.values.get(index).map_or(0, Value::heap_bytes);
                self.store.outside_bytes = self.store.outside_bytes - heap_bytes + stood_in;
                let stand_in = self.remove(found, key);
                self.recycle_value(stand_in);
                return Some(Value::List(list));
            }
        }
        None
    }

    /// Writes a list over an inline one; `false`, and no change, when the block has no room or far too much.
    fn write_list(&mut self, handle: Handle, list: &List, len: usize) -> bool {
        let head = self.head(handle);
        let body = self.store.slab.body_mut(handle);
        let start = entry::payload_at(head, body);
        let Some(slack) = body.len().checked_sub(start + len) else { return false };
        if slack > entry::SLACK_MAX.min(8 + len / 2) {
            return false;
        }
        list.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head.with_form(Form::list_inline(list.encoding())), body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        true
    }

    /// A block with a list of `len` bytes and room for about `spare` more.
    fn build_list(
        &mut self,
        name: entry::Name<'_>,
        list: &List,
        len: usize,
        spare: usize,
        meta: Meta,
    ) -> Handle {
        let size = entry::block_len(name.len(), meta.expiry.is_some(), len);
        let handle = self.alloc((size + spare).min(Slab::MAX_BLOCK));
        let head =
            Head::new(meta.clock, Form::list_inline(list.encoding())).with_expiry(meta.expiry.is_some());
        let body = self.store.slab.body_mut(handle);
        name.write(body);
        if let Some(at) = meta.expiry {
            entry::write_expiry(head, body, at);
        }
        let start = entry::payload_at(head, body);
        list.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head, body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        handle
    }

    /// Puts a list where a stand-in is.
    fn put_back(&mut self, index: u32, mut list: List) {
        match self.store.values.get_mut(index) {
            Some(Value::List(stand_in)) => std::mem::swap(stand_in, &mut list),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::Hash(_)
                | Value::Zset(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => mixed_up(),
        }
        self.recycle(list);
    }

    fn recycle_value(&mut self, value: Option<Value>) {
        match value {
            Some(Value::List(list)) => self.recycle(list),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::Hash(_)
                | Value::Zset(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => mixed_up(),
        }
    }

    /// Keeps a list's memory for the next: it is small, and nobody shares it.
    fn recycle(&mut self, list: List) {
        self.store.scratch = Some(list);
    }
}

/// A list outside comes back into its block when it needs no more bytes than this.
const BACK_INSIDE_MAX: usize = 256;
