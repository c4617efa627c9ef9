//! Memory of a machine beyond the bytes in use that its limit bounds, for reports about memory.

use sluice_base::heap;

use crate::arena::Arena;
use crate::heap::Heap;
use crate::strings::StringSlot;
use crate::vm::machine::Machine;

impl Heap {
    /// Heap bytes beyond those in use: slots without an object, lists, patterns. Memory that is being freed
    /// in pieces is not included.
    pub(crate) fn spare_bytes(&self) -> usize {
        let slots = self.strings.texts.spare_bytes()
            + self.tables.spare_bytes()
            + self.closures.spare_bytes()
            + self.upvalues.spare_bytes()
            + self.natives.spare_bytes()
            + self.userdata.spare_bytes()
            + self.threads.spare_bytes();
        // Strings of one byte and names of events are never charged; an image has them once for
        // all machines.
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
    /// Approximate bytes that the machine holds beyond the heap's bytes in use; without the stack of the
    /// running coroutine.
    pub(crate) fn spare_bytes(&self) -> usize {
        let calls = heap::vec(&self.co.frames) + heap::vec(&self.co.states) + heap::vec(&self.co.open);
        let natives = if self.symbols.shared.is_some() { 0 } else { heap::vec(&self.natives) };
        self.heap.spare_bytes() + self.symbols.own.footprint() + calls + self.code.spare_bytes() + natives
    }
}
