//! Symbols: strings that constants share with each other and with the names of libraries, so that table
//! look-ups compare no bytes. A hash table of their indexes, which takes a few bytes for each symbol, finds
//! them by text.
//!
//! Invariants: (1) a table keeps no string alive: the index of a freed symbol stays in the table until the
//! next rebuild, and is detected by the text that is now at that index; (2) no two symbols of a machine have
//! the same text; (3) a table has at most four slots for each symbol that lived at its last rebuild, or
//! `SLOTS_MIN`, however many symbols were made and freed; that is 16 bytes for each symbol, whose string
//! takes 32 bytes or more.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::fault::Fault;
use crate::heap::Heap;
use crate::strings::Strings;
use crate::value::{StrRef, Value};

/// Longest text that becomes a symbol, because names are short.
const SYMBOL_MAX: usize = 64;

/// Number of slots of the smallest table.
const SLOTS_MIN: usize = 8;

/// A slot without an index.
const EMPTY: u32 = u32::MAX;

/// Indexes of strings in a hash table by the keyed hash of their text, with linear probing.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    /// The length is a power of two, or 0; at least a quarter of the slots is empty.
    slots: Box<[u32]>,
    /// The number of slots with an index.
    used: usize,
    /// A keyed hash, because programs choose names and could otherwise choose colliding ones.
    hasher: RandomState,
}

impl SymbolTable {
    /// The symbol with that text, if it is in the table and still alive.
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

    /// Adds a string of this machine, unless there is a symbol with its text.
    pub(crate) fn add_new(&mut self, string: StrRef, strings: &mut Strings) {
        if self.find(strings.bytes(string), strings).is_none() {
            self.add(string, strings);
        }
    }

    /// Adds a string of this machine, whose text no symbol has. O(1), except for a rebuild.
    fn add(&mut self, string: StrRef, strings: &mut Strings) {
        if self.used * 4 >= self.slots.len() * 3 {
            self.rebuild(strings);
        }
        strings.make_symbol(string);
        self.insert(string.0, strings);
    }

    /// Makes a table of the size that the living symbols need, and leaves out the others. This takes about
    /// 0.1 us for each symbol, and is rare: at least a quarter of the slots was filled since the last
    /// rebuild.
    fn rebuild(&mut self, strings: &Strings) {
        let mut live: Vec<u32> = self.slots.iter().copied().filter(|index| *index != EMPTY).collect();
        // Slots of strings are reused, so the same few indexes may fill the table, each many times, and
        // repeated indexes are therefore removed. The indexes are sorted, so that the texts are then read in
        // the order of memory.
        live.sort_unstable();
        live.dedup();
        live.retain(|index| strings.symbol(*index).is_some());
        self.slots = vec![EMPTY; ((live.len() + 1) * 2).next_power_of_two().max(SLOTS_MIN)].into();
        self.used = 0;
        for index in live {
            self.insert(index, strings);
        }
    }

    /// Adds the index of a symbol, unless the index is already in the probe sequence, left there by an
    /// earlier text.
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

    /// Heap bytes of the slots.
    pub(crate) fn footprint(&self) -> usize {
        sluice_base::heap::block(size_of_val(&*self.slots))
    }
}

/// The lifetime of the chunk that needs a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolUse {
    /// A chunk that stays loaded.
    Lasts,
    /// A chunk that is freed with the run.
    GoesWithRun,
}

/// The symbols of a machine.
#[derive(Debug, Default)]
pub(crate) struct MachineSymbols {
    /// Symbols of the image that the machine was made from.
    pub(crate) shared: Option<Arc<SymbolTable>>,
    /// Symbols of the machine's own chunks, and of its libraries if it was not made from an image.
    pub(crate) own: SymbolTable,
}

impl MachineSymbols {
    /// The string with that text, made if there is none. Strings made for a run do not become symbols.
    pub(crate) fn symbol(
        &mut self,
        heap: &mut Heap,
        text: &Arc<[u8]>,
        usage: SymbolUse,
    ) -> Result<Value, Fault> {
        // A longer text is in no table, and its hash takes time; a text of one byte always exists.
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
