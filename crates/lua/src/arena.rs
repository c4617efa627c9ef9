//! Arenas: objects of one kind, named by index.
//!
//! Invariants: (1) an index is checked at each access; (2) the mark is a position that is set before a run:
//! an object of the run never gets a slot before the mark, so all objects of the run can be freed by cutting
//! the arena off there; (3) objects of an image have the first indexes, are older than every mark, and never
//! change: several machines share them.

use std::sync::Arc;

use sluice_base::heap;

/// The colour that the collector last gave an object.
pub(crate) type Colour = u8;

/// If at most this many slots before the mark are free, a run keeps the mark and does not use those slots.
const SPARSE_MIN: usize = 1024;

/// The colour of a slot that holds no object.
pub(crate) const FREE: Colour = 0;

/// An object in an arena, with a colour for the collector.
pub(crate) trait Object: Default {
    /// The type that holds such objects in an image: a shared slice with counted owners. For kinds of objects
    /// that are never part of an image it is a `Vec`, which is never made.
    type Shared: std::ops::Deref<Target = [Self]> + std::fmt::Debug;

    fn colour(&self) -> Colour;
    fn paint(&mut self, colour: Colour);
    /// Bytes that the object holds outside of its slot.
    fn outside(&self) -> usize {
        0
    }
    /// Moves the object's large memory out, to be freed in pieces.
    fn take_large(&mut self, _: &mut Vec<Dying>) {}
}

/// Memory of a freed object that is too large to be freed at once, because returning 64 MB to the system
/// takes 6 ms.
pub(crate) type Dying = Box<dyn Shrink + Send>;

/// Memory that is freed in pieces.
pub(crate) trait Shrink: std::fmt::Debug {
    /// Frees a piece of at most [`PIECE`] bytes. Returns false when nothing remains.
    fn shrink(&mut self) -> bool;
}

/// Memory of at least this many bytes is freed in pieces of this size.
pub(crate) const PIECE: usize = 1 << 20;

impl<T: std::fmt::Debug> Shrink for Vec<T> {
    fn shrink(&mut self) -> bool {
        self.truncate(self.len().saturating_sub(PIECE / size_of::<T>()));
        self.shrink_to_fit();
        !self.is_empty()
    }
}

/// Slots of one kind of object.
#[derive(Debug)]
pub(crate) struct Arena<T: Object> {
    /// Objects of the image that the machine was made from.
    shared: Option<T::Shared>,
    /// The number of the image's objects, which is also the index of the first of the arena's own slots.
    first: u32,
    /// The arena's own slots.
    pub(crate) slots: Vec<T>,
    /// Free slots to be used next; all of them are at position `old` or later.
    free: Vec<u32>,
    /// Free slots before `old`, which are not reused.
    free_old: Vec<u32>,
    /// Slots before this index were made before the mark.
    old: u32,
}

impl<T: Object> Default for Arena<T> {
    fn default() -> Arena<T> {
        Arena { shared: None, first: 0, slots: Vec::new(), free: Vec::new(), free_old: Vec::new(), old: 0 }
    }
}

impl<T: Object<Shared = Arc<[T]>>> Arena<T> {
    /// An arena over the objects of an image, without slots of its own.
    pub(crate) fn of_image(shared: &Arc<[T]>) -> Arena<T> {
        let first = shared.len() as u32;
        Arena { shared: Some(shared.clone()), first, old: first, ..Arena::default() }
    }

    /// The slots of an arena, as those of an image. The arena must not have an image itself.
    pub(crate) fn into_image(self) -> Arc<[T]> {
        debug_assert!(self.first == 0);
        self.slots.into()
    }
}

impl<T: Object> Arena<T> {
    /// Bytes of a slot.
    pub(crate) const SLOT: usize = size_of::<T>();

    /// Stores an object, whose colour must not be [`FREE`]; returns the index of the slot.
    #[inline]
    pub(crate) fn add(&mut self, object: T) -> u32 {
        debug_assert!(object.colour() != FREE);
        if let Some(index) = self.free.pop() {
            *self.at_mut(index) = object;
            return index;
        }
        let index = self.first + self.slots.len() as u32;
        self.slots.push(object);
        index
    }

    #[inline(always)]
    pub(crate) fn at(&self, index: u32) -> &T {
        // An index below `first` wraps around and fails the bound check, so the slot is then looked up in
        // the image: an arena without an image pays only for the subtraction.
        match self.slots.get(index.wrapping_sub(self.first) as usize) {
            Some(object) => object,
            None => self.shared_at(index),
        }
    }

    #[inline(never)]
    fn shared_at(&self, index: u32) -> &T {
        &self.shared.as_deref().unwrap_or_default()[index as usize]
    }

    /// The object at an index; `None` beyond the last slot.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        match self.shared.as_deref().and_then(|shared| shared.get(index as usize)) {
            Some(object) => Some(object),
            None => self.own(index),
        }
    }

    /// The object at the index of one of the arena's own slots, to be changed.
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.slots[index.wrapping_sub(self.first) as usize]
    }

    /// The object at an index, if it is one of the arena's own.
    #[inline(always)]
    pub(crate) fn own(&self, index: u32) -> Option<&T> {
        self.slots.get(index.wrapping_sub(self.first) as usize)
    }

    /// The object at an index, to be changed, if it is one of the arena's own.
    #[inline(always)]
    pub(crate) fn own_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index.wrapping_sub(self.first) as usize)
    }

    /// The index of the first slot of the arena's own.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Empties a slot for reuse; a slot before the mark is not used again until the mark is dropped.
    pub(crate) fn release(&mut self, index: u32) {
        *self.at_mut(index) = T::default();
        if index >= self.old { self.free.push(index) } else { self.free_old.push(index) }
    }

    /// Whether the object at `index` was made before the mark.
    #[inline]
    pub(crate) fn is_old(&self, index: u32) -> bool {
        index < self.old
    }

    /// Sets the mark after the last slot: every existing object becomes old.
    pub(crate) fn set_mark(&mut self) {
        self.old = self.first + self.slots.len() as u32;
        self.free_old.append(&mut self.free);
    }

    /// Whether enough slots before the mark are free to be worth reusing.
    pub(crate) fn is_sparse(&self) -> bool {
        self.free_old.len() > SPARSE_MIN && self.free_old.len() * 4 > self.slots.len()
    }

    /// Heap bytes of slots without an object, and of the lists of free slots.
    pub(crate) fn spare_bytes(&self) -> usize {
        let live = self.slots.len() - self.free.len() - self.free_old.len();
        let given = heap::vec(&self.slots) + heap::vec(&self.free) + heap::vec(&self.free_old);
        given.saturating_sub(live * size_of::<T>())
    }

    /// The number of free slots before the mark.
    pub(crate) fn free_old(&self) -> usize {
        self.free_old.len()
    }

    /// Drops the mark: the free slots before it are used again.
    pub(crate) fn drop_mark(&mut self) {
        self.old = self.first;
        self.free.append(&mut self.free_old);
    }

    /// Cuts off all slots made after the mark.
    #[inline]
    pub(crate) fn truncate(&mut self) {
        self.free.clear();
        self.slots.truncate((self.old - self.first) as usize);
    }

    /// Moves the slots after the mark out, for the caller to free. Copies the smaller of the two parts,
    /// before and after the mark.
    pub(crate) fn split(&mut self) -> Vec<T> {
        let mark = (self.old - self.first) as usize;
        self.free = Vec::new();
        if self.young() < mark {
            return self.slots.split_off(mark);
        }
        let mut kept = Vec::with_capacity(mark + mark / 4);
        kept.extend(self.slots.iter_mut().take(mark).map(std::mem::take));
        std::mem::replace(&mut self.slots, kept)
    }

    /// The number of slots after the mark, free ones included.
    pub(crate) fn young(&self) -> usize {
        self.slots.len() - (self.old - self.first) as usize
    }

    /// The slots after the mark, free ones included.
    pub(crate) fn young_mut(&mut self) -> &mut [T] {
        &mut self.slots[(self.old - self.first) as usize..]
    }
}
