//! Strings that constants share with each other and with the names of libraries, so that looking them up
//! compares no bytes: found by text in a table of their indexes, which takes a few bytes for each.
//!
//! Invariants: (1) a table keeps no string: the index of a symbol that went stays in the table until the next
//! rebuild, and is found out by the text that is at that index now; (2) no two symbols of a machine have the
//! same text; (3) a table has no more than four slots for each symbol that lived at its last rebuild, or
//! `SLOTS_MIN`, however many have come and gone: 16 bytes beside a string of 32 or more.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::fault::Fault;
use crate::heap::Heap;
use crate::strings::Strings;
use crate::value::{StrRef, Value};

/// Longest text that is a symbol: names are short.
const SYMBOL_MAX: usize = 64;

/// Slots of the smallest table.
const SLOTS_MIN: usize = 8;

/// A slot without an index.
const EMPTY: u32 = u32::MAX;

/// Indexes of strings by the keyed hash of their text, which names the first slot to look at.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    /// A power of two, or none; a quarter of them at least is empty.
    slots: Box<[u32]>,
    /// Slots with an index.
    used: usize,
    /// Programs choose their names: without a key they could choose those that fall together.
    hasher: RandomState,
}

impl SymbolTable {
    /// The string of that text, where it is one of these and is there still.
    fn find(&self, text: &[u8], strings: &Strings) -> Option<StrRef> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = self.hasher.hash_one(text) as usize & mask;
        loop {
            match *self.slots.get(at)? {
                EMPTY => return None,
                index if strings.symbol(index) == Some(text) => return Some(StrRef(index)),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Adds a string of the machine's own, unless one of that text is there.
    pub(crate) fn add_new(&mut self, string: StrRef, strings: &mut Strings) {
        if self.find(strings.bytes(string), strings).is_none() {
            self.add(string, strings);
        }
    }

    /// Adds a string of the machine's own, whose text is not there. O(1), but for a rebuild.
    fn add(&mut self, string: StrRef, strings: &mut Strings) {
        if self.used * 4 >= self.slots.len() * 3 {
            self.rebuild(strings);
        }
        strings.make_symbol(string);
        self.insert(string.0, strings);
    }

    /// Makes a table of the size that the symbols of today need, and leaves out those that went. About 0.1 us
    /// for each symbol; a quarter of the slots at least was filled since the last time.
    fn rebuild(&mut self, strings: &Strings) {
        let mut live: Vec<u32> = self.slots.iter().copied().filter(|index| *index != EMPTY).collect();
        // Slots of strings are used again: a few of them may have filled the table, each many times. In the
        // order of indexes the texts lie side by side.
        live.sort_unstable();
        live.dedup();
        live.retain(|index| strings.symbol(*index).is_some());
        self.slots = vec![EMPTY; ((live.len() + 1) * 2).next_power_of_two().max(SLOTS_MIN)].into();
        self.used = 0;
        for index in live {
            self.insert(index, strings);
        }
    }

    /// Adds the index of a symbol, unless an earlier text has left that index where the symbol is looked for.
    fn insert(&mut self, index: u32, strings: &Strings) {
        let mask = self.slots.len() - 1;
        let mut at = self.hasher.hash_one(strings.bytes(StrRef(index))) as usize & mask;
        while self.slots[at] != EMPTY {
            if self.slots[at] == index {
                return;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = index;
        self.used += 1;
    }

    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        sluice_base::heap::block(size_of_val(&*self.slots))
    }
}

/// Who asks for a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolUse {
    /// A chunk that stays.
    Lasts,
    /// A chunk that goes with the run.
    GoesWithRun,
}

/// The symbols of a machine.
#[derive(Debug, Default)]
pub(crate) struct MachineSymbols {
    /// Symbols of the image that the machine was made from.
    pub(crate) shared: Option<Arc<SymbolTable>>,
    /// Symbols that chunks of the machine have brought.
    pub(crate) own: SymbolTable,
}

impl MachineSymbols {
    /// The string of that text, made when there is none. Strings of a run become no symbols.
    pub(crate) fn symbol(
        &mut self,
        heap: &mut Heap,
        text: &Arc<[u8]>,
        usage: SymbolUse,
    ) -> Result<Value, Fault> {
        // A longer one is in no table, and its hash takes time; one of a byte is there in any case.
        let is_symbol = (2..=SYMBOL_MAX).contains(&text.len());
        if is_symbol {
            if let Some(string) = self.shared.as_deref().and_then(|shared| shared.find(text, &heap.strings)) {
                return Ok(string.into());
            }
            if let Some(string) = self.own.find(text, &heap.strings) {
                heap.revive(string);
                return Ok(string.into());
            }
        }
        let value = heap.new_string(text)?;
        if usage == SymbolUse::Lasts
            && is_symbol
            && let Some(string) = value.as_str()
        {
            self.own.add(string, &mut heap.strings);
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
