//! What a machine takes beyond the bytes in use, which its limit bounds: for sums of the parts of memory.

use sluice_base::heap;

use crate::arena::Arena;
use crate::heap::Heap;
use crate::strings::StringSlot;
use crate::vm::machine::Machine;

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
        // Strings of one byte and names of events are not charged to anybody; an image has them once.
        let names = match self.strings.texts.first() {
            0 => (256 + self.events.len()) * Arena::<StringSlot>::SLOT,
            _ => 0,
        };
        let lists = heap::vec(&self.pinned);
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
        let calls = heap::vec(&self.co.frames) + heap::vec(&self.co.states) + heap::vec(&self.co.open);
        let natives = if self.symbols.shared.is_some() { 0 } else { heap::vec(&self.natives) };
        self.heap.spare_bytes() + self.symbols.own.footprint() + calls + self.code.spare_bytes() + natives
    }
}
