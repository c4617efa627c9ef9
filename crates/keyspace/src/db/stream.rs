//! Opens streams for changes; they always lie outside their entry.

use super::{Db, Found};
use crate::entry::{self, Form};
use sluice_value::Stream;

impl Db {
    /// The index of an entry's stream among the values; `None` if the value has another type. The
    /// caller may change the stream from now on, and must call [`Db::account_stream`] afterwards.
    pub(crate) fn open_stream(&mut self, found: Found) -> Option<u32> {
        let head = self.head(found.handle);
        if !head.is_form(Form::StreamOutside) {
            return None;
        }
        self.before_change(found.handle);
        Some(entry::index_of(entry::payload(head, self.store.slab.body(found.handle))))
    }

    /// The stream with this index, to be changed.
    pub(crate) fn stream_mut(&mut self, index: u32) -> &mut Stream {
        self.store.outside_mut(index)
    }

    /// The stream with this index, to read.
    pub(crate) fn stream_at(&self, index: u32) -> &Stream {
        self.store.outside(index)
    }

    /// Updates the byte count after a change of a stream that had `heap_bytes_before` bytes.
    pub(crate) fn account_stream(&mut self, index: u32, heap_bytes_before: usize) {
        let heap_bytes = self.stream_at(index).heap_bytes();
        self.store.outside_bytes = self.store.outside_bytes + heap_bytes - heap_bytes_before;
    }
}
