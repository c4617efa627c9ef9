//! Streams on their way to be changed: they always lie beside their entry.

use super::{Db, Found};
use crate::entry::{self, Form};
use sluice_value::Stream;

impl Db {
    /// The index of an entry's stream among the values; `None` for another type. The stream may be changed
    /// from now on, and [`Db::account_stream`] has to follow.
    pub(crate) fn open_stream(&mut self, found: Found) -> Option<u32> {
        let head = self.head(found.handle);
        if !head.is_form(Form::StreamOutside) {
            return None;
        }
        self.before_change(found.handle);
        Some(entry::index_of(entry::payload(head, self.store.slab.body(found.handle))))
    }

    /// The stream of that index.
    pub(crate) fn stream_mut(&mut self, index: u32) -> &mut Stream {
        self.store.outside_mut(index)
    }

    /// The stream of an index, to look at.
    pub(crate) fn stream_at(&self, index: u32) -> &Stream {
        self.store.outside(index)
    }

    /// Counts the bytes of a stream that was changed, and had so many before.
    pub(crate) fn account_stream(&mut self, index: u32, heap_bytes_before: usize) {
        let heap_bytes = self.stream_at(index).heap_bytes();
        self.store.outside_bytes = self.store.outside_bytes + heap_bytes - heap_bytes_before;
    }
}
