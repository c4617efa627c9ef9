//! Sets on their way out of their entry, to be changed, and back: inside the block while they are small, else beside it.

use super::change::Meta;
use super::{Db, Found, mixed_up};
use crate::Key;
use crate::entry::{self, Form, Head};
use crate::new_value::Payload;
use sluice_collections::slab::{Handle, Slab};
use sluice_value::{Set, SetEncoding, SetLimits, Value};
use std::sync::atomic::Ordering::Relaxed;

/// A set that was taken out of its entry.
pub(crate) struct OpenSet {
    /// The members.
    pub set: Set,
    home: SetHome,
}

/// Where an open set came from.
enum SetHome {
    /// No entry: the key is absent.
    Absent,
    /// The entry's block, whose bytes are still there.
    Inside(Found),
    /// The place of this number among the values, where a stand-in is now; its bytes were so many.
    Outside { found: Found, index: u32, heap_bytes: usize },
}

impl Db {
    /// An empty set of that encoding for a key that is absent.
    pub(crate) fn open_new_set(&mut self, encoding: SetEncoding, limits: SetLimits) -> OpenSet {
        OpenSet { set: Set::new(encoding, limits), home: SetHome::Absent }
    }

    /// Takes the set of an entry out; `None` for another type. [`Db::close_set`] has to follow.
    pub(crate) fn open_set(&mut self, found: Found) -> Option<OpenSet> {
        let head = self.head(found.handle);
        let encoding = match head.form() {
            Form::SetInlineIntset => SetEncoding::Intset,
            Form::SetInlineListpack => SetEncoding::Listpack,
            Form::SetInlineHashtable => SetEncoding::Hashtable,
            Form::SetOutside => return Some(self.open_set_outside(found, head)),
            Form::StrInt | Form::StrInline | Form::StrInlineRaw | Form::StrOutside => return None,
            Form::ListInlineListpack | Form::ListInlineQuicklist | Form::ListOutside => return None,
            Form::HashInlineListpack | Form::HashInlineHashtable | Form::HashOutside => return None,
            Form::ZsetInlineListpack | Form::ZsetInlineSkiplist | Form::ZsetOutside => return None,
            Form::StreamOutside => return None,
        };
        self.before_change(found.handle);
        let mut set = self.store.set_scratch.take().unwrap_or_default();
        set.load_inline(entry::payload(head, self.store.slab.body(found.handle)), encoding);
        Some(OpenSet { set, home: SetHome::Inside(found) })
    }

    fn open_set_outside(&mut self, found: Found, head: Head) -> OpenSet {
        self.before_change(found.handle);
        let mut set = self.store.set_scratch.take().unwrap_or_default();
        let index = entry::index_of(entry::payload(head, self.store.slab.body(found.handle)));
        match self.store.values.get_mut(index) {
            Some(Value::Set(value)) => std::mem::swap(value, &mut set),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Hash(_)
                | Value::Zset(_)
                | Value::Stream(_),
            )
            | None => mixed_up(),
        }
        let heap_bytes = set.heap_bytes();
        OpenSet { set, home: SetHome::Outside { found, index, heap_bytes } }
    }

    /// Puts a set back that was not changed.
    pub(crate) fn close_set_unchanged(&mut self, open: OpenSet) {
        match open.home {
            SetHome::Absent | SetHome::Inside(_) => self.recycle_set(open.set),
            SetHome::Outside { index, heap_bytes, .. } => {
                // A look for a member that is absent may have copied shared nodes, which takes other memory.
                self.store.outside_bytes = self.store.outside_bytes + open.set.heap_bytes() - heap_bytes;
                self.put_set_back(index, open.set);
            }
        }
    }

    /// Puts a changed set back, whichever place suits it now; an empty one takes its key with it. What is left over is
    /// given back, to be freed where it hurts least.
    pub(crate) fn close_set(&mut self, key: Key<'_>, open: OpenSet, meta: Meta) -> Option<Value> {
        let OpenSet { set, home } = open;
        if set.is_empty() {
            return self.close_empty_set(key, set, home);
        }
        let len =
            set.inline_len().filter(|len| entry::fits_inside(key.bytes.len(), meta.expiry.is_some(), *len));
        match (home, len) {
            (SetHome::Absent, Some(len)) => {
                let name = self.store_name(key.bytes);
                let handle = self.build_set(name, &set, len, 0, meta);
                self.enter(key, handle, meta);
                self.recycle_set(set);
            }
            (SetHome::Absent, None) => {
                self.insert_payload(key, Payload::Outside(Form::SetOutside, Value::Set(set)), meta);
            }
            (SetHome::Inside(found), Some(len)) => {
                if !self.write_set(found.handle, &set, len) {
                    let name = self.name_again(found.handle, key);
                    let handle = self.build_set(name, &set, len, len / 4, meta);
                    self.replace_block(found, key, handle);
                }
                self.recycle_set(set);
            }
            (SetHome::Inside(found), None) => {
                let payload = Payload::Outside(Form::SetOutside, Value::Set(set));
                let handle = self.build(self.name_again(found.handle, key), payload, meta);
                self.replace_block(found, key, handle);
            }
            // Back inside only well below the bound, lest a set at the bound moves with every change.
            (SetHome::Outside { found, index, heap_bytes }, Some(len)) if len <= BACK_INSIDE_MAX => {
                let name = self.name_again(found.handle, key);
                let handle = self.build_set(name, &set, len, 0, meta);
                self.store.outside_bytes -= heap_bytes;
                let stand_in = self.store.values.remove(index);
                self.replace_block(found, key, handle);
                self.recycle_set_value(stand_in);
                return Some(Value::Set(set));
            }
            (SetHome::Outside { index, heap_bytes, .. }, Some(_) | None) => {
                self.store.outside_bytes = self.store.outside_bytes + set.heap_bytes() - heap_bytes;
                self.put_set_back(index, set);
            }
        }
        None
    }

    fn close_empty_set(&mut self, key: Key<'_>, set: Set, home: SetHome) -> Option<Value> {
        match home {
            SetHome::Absent => self.recycle_set(set),
            SetHome::Inside(found) => {
                self.remove(found, key);
                self.recycle_set(set);
            }
            SetHome::Outside { found, index, heap_bytes } => {
                // The stand-in goes with the entry: its bytes are counted instead of the set's until then.
                let stood_in = self.store.values.get(index).map_or(0, Value::heap_bytes);
                self.store.outside_bytes = self.store.outside_bytes - heap_bytes + stood_in;
                let stand_in = self.remove(found, key);
                self.recycle_set_value(stand_in);
                return Some(Value::Set(set));
            }
        }
        None
    }

    /// Writes a set over an inline one; `false`, and no change, when the block has no room or far too much.
    fn write_set(&mut self, handle: Handle, set: &Set, len: usize) -> bool {
        let head = self.head(handle);
        let body = self.store.slab.body_mut(handle);
        let start = entry::payload_at(head, body);
        let Some(slack) = body.len().checked_sub(start + len) else { return false };
        if slack > entry::SLACK_MAX.min(8 + len / 2) {
            return false;
        }
        set.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head.with_form(Form::set_inline(set.encoding())), body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        true
    }

    /// A block with a set of `len` bytes and room for about `spare` more.
    fn build_set(
        &mut self,
        name: entry::Name<'_>,
        set: &Set,
        len: usize,
        spare: usize,
        meta: Meta,
    ) -> Handle {
        let size = entry::block_len(name.len(), meta.expiry.is_some(), len);
        let handle = self.alloc((size + spare).min(Slab::MAX_BLOCK));
        let head = Head::new(meta.clock, Form::set_inline(set.encoding())).with_expiry(meta.expiry.is_some());
        let body = self.store.slab.body_mut(handle);
        name.write(body);
        if let Some(at) = meta.expiry {
            entry::write_expiry(head, body, at);
        }
        let start = entry::payload_at(head, body);
        set.write_inline(&mut body[start..start + len]);
        let head = entry::with_end(head, body, start + len);
        self.store.slab.head(handle).store(head.0, Relaxed);
        handle
    }

    /// Puts a set where a stand-in is.
    fn put_set_back(&mut self, index: u32, mut set: Set) {
        match self.store.values.get_mut(index) {
            Some(Value::Set(stand_in)) => std::mem::swap(stand_in, &mut set),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Hash(_)
                | Value::Zset(_)
                | Value::Stream(_),
            )
            | None => mixed_up(),
        }
        self.recycle_set(set);
    }

    fn recycle_set_value(&mut self, value: Option<Value>) {
        match value {
            Some(Value::Set(set)) => self.recycle_set(set),
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Hash(_)
                | Value::Zset(_)
                | Value::Stream(_),
            )
            | None => mixed_up(),
        }
    }

    /// Keeps a set's memory for the next: it is small, and nobody shares it.
    fn recycle_set(&mut self, set: Set) {
        if set.is_scratch() {
            self.store.set_scratch = Some(set);
        }
    }
}

/// A set outside comes back into its block when it needs no more bytes than this.
const BACK_INSIDE_MAX: usize = 256;
