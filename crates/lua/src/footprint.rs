//! What a machine takes beyond the bytes in use, which its limit bounds: for sums of the parts of memory.

use std::sync::Arc;

use sluice_base::heap;

use crate::arena::Arena;
use crate::heap::Heap;
use crate::strings::StringSlot;
use crate::value::Value;
use crate::vm::machine::Machine;

/// Bytes of the text of a symbol: mostly up to sixteen of them behind the counts of its owners.
const SYMBOL_BYTES: usize = 32;

impl Heap {
    /// Bytes that the allocator has given beyond those in use: slots without an object, lists, patterns.
    /// Without what is being freed in pieces.
    pub(crate) fn spare_bytes(&self) -> usize {
        let slots = self.strings.texts.spare_bytes()
            + self.tables.spare_bytes()
            + self.closures.spare_bytes()
            + self.upvalues.spare_bytes()
            + self.natives.spare_bytes()
            + self.userdata.spare_bytes()
            + self.threads.spare_bytes();
        // Strings of one byte and names of events are not charged to anybody.
        let names = (self.singles.len() + self.events.len()) * Arena::<StringSlot>::SLOT;
        let lists = heap::vec(&self.singles) + heap::vec(&self.pinned) + heap::vec(&self.events);
        let marks = heap::vec(&self.collector.grey)
            + heap::vec(&self.collector.weak)
            + heap::vec(&self.collector.threads);
        slots + names + lists + marks + self.patterns.footprint()
    }
}

impl Machine {
    /// Bytes that the allocator has given beyond those of the heap that are in use, about; without the stack
    /// of the coroutine that runs.
    pub(crate) fn spare_bytes(&self) -> usize {
        // A slot of the map has a byte of control, one of eight is empty, and texts are short.
        let slot = size_of::<(Arc<[u8]>, Value)>() + 1;
        let symbols = heap::block(self.symbols.capacity() / 7 * 8 * slot) + self.symbols.len() * SYMBOL_BYTES;
        let calls = heap::vec(&self.co.frames) + heap::vec(&self.co.states) + heap::vec(&self.co.open);
        let code = self.code.spare_bytes() + heap::vec(&self.natives);
        self.heap.spare_bytes() + symbols + calls + code
    }
}
