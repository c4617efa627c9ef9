//! Entries with small, stable indices and a free list. Indices have no generations, because only
//! the driver uses them.

use sluice_base::heap;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }

    /// Bytes that the allocator holds: those of the slab itself, plus what `own` returns for each
    /// entry.
    pub(crate) fn footprint(&self, own: impl Fn(&T) -> usize) -> usize {
        heap::vec(&self.entries)
            + heap::vec(&self.free)
            + self.entries.iter().flatten().map(own).sum::<usize>()
    }

    /// Stores `value`; allocates only if the slab has never held so many entries before.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = Some(value);
                index
            }
            None => {
                let index = u32::try_from(self.entries.len()).expect("fewer entries than descriptors");
                self.entries.push(Some(value));
                index
            }
        }
    }

    /// The entry at an index that [`Slab::insert`] returned; `None` if the entry was removed.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// Removes and returns the entry.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.entries.get_mut(index as usize)?.take();
        if value.is_some() {
            self.free.push(index);
        }
        value
    }
}
