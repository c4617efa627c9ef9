//! Values of one type in numbered slots. The slots are in segments, so that growing never moves more than one
//! segment.
//!
//! Invariants: (1) `with_room` lists exactly the segments with fewer than `SEGMENT` values; values are added
//! only to the segment at the end of `with_room`, so when a segment becomes full, popping `with_room` removes
//! it; (2) a segment's free slots form a list that begins at `free`; a segment without values has no memory.

#![forbid(unsafe_code)]

/// Values of type `T`, each at an index that does not change until the value is removed.
pub struct TypedSlab<T> {
    segments: Vec<Segment<T>>,
    /// Segments with room; values are added to the last one.
    with_room: Vec<u32>,
    len: usize,
}

struct Segment<T> {
    slots: Vec<TypedSlot<T>>,
    /// First free slot, `NONE` when all of `slots` are filled.
    free: u32,
    used: u32,
}

enum TypedSlot<T> {
    /// The next free slot of the segment, or `NONE`.
    Free(u32),
    Filled(T),
}

impl<T> TypedSlab<T> {
    /// An empty slab, which allocates nothing.
    pub const fn new() -> TypedSlab<T> {
        TypedSlab { segments: Vec::new(), with_room: Vec::new(), len: 0 }
    }

    /// Number of values that the slab holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slab is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated for the segments, without those owned by the values. Cost: one step for each segment.
    pub fn bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(|segment| segment.slots.capacity()).sum();
        slots * size_of::<TypedSlot<T>>()
            + self.segments.capacity() * size_of::<Segment<T>>()
            + self.with_room.capacity() * size_of::<u32>()
    }

    /// Stores `value` and returns its index.
    ///
    /// # Panics
    /// When 2^32 slots are filled.
    pub fn insert(&mut self, value: T) -> u32 {
        let number = match self.with_room.last() {
            Some(&number) => number,
            None => self.add_segment(),
        };
        let segment = &mut self.segments[number as usize];
        let slot = segment.put(value);
        if segment.used as usize == SEGMENT {
            self.with_room.pop();
        }
        self.len += 1;
        number << SEGMENT_BITS | slot
    }

    /// Removes the value at `index`; `None` if there is none. A segment that loses its last value is freed.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let number = index >> SEGMENT_BITS;
        let segment = self.segments.get_mut(number as usize)?;
        let value = segment.take(index & SLOT_MASK)?;
        if segment.used as usize == SEGMENT - 1 {
            self.with_room.push(number);
        }
        if segment.used == 0 {
            *segment = Segment::EMPTY;
        }
        self.len -= 1;
        Some(value)
    }

    /// The value at `index`; `None` if there is none.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        match self.segments.get((index >> SEGMENT_BITS) as usize)?.slots.get((index & SLOT_MASK) as usize)? {
            TypedSlot::Filled(value) => Some(value),
            TypedSlot::Free(_) => None,
        }
    }

    /// The value at `index`, for a change; `None` if there is none.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let segment = self.segments.get_mut((index >> SEGMENT_BITS) as usize)?;
        match segment.slots.get_mut((index & SLOT_MASK) as usize)? {
            TypedSlot::Filled(value) => Some(value),
            TypedSlot::Free(_) => None,
        }
    }

    /// All values with their indices, in order of index.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.segments.iter().zip(0u32..).flat_map(|(segment, number)| {
            segment.slots.iter().zip(0u32..).filter_map(move |(slot, low)| match slot {
                TypedSlot::Filled(value) => Some((number << SEGMENT_BITS | low, value)),
                TypedSlot::Free(_) => None,
            })
        })
    }

    /// Drops every value and all memory.
    pub fn clear(&mut self) {
        *self = TypedSlab::new();
    }

    #[cold]
    fn add_segment(&mut self) -> u32 {
        assert!(self.segments.len() < SEGMENTS_MAX, "a slab of values has 2^32 slots");
        let number = self.segments.len() as u32;
        self.segments.push(Segment::EMPTY);
        self.with_room.push(number);
        number
    }
}

impl<T> Default for TypedSlab<T> {
    fn default() -> TypedSlab<T> {
        TypedSlab::new()
    }
}

impl<T> Segment<T> {
    const EMPTY: Segment<T> = Segment { slots: Vec::new(), free: NONE, used: 0 };

    fn put(&mut self, value: T) -> u32 {
        self.used += 1;
        if self.free == NONE {
            self.slots.push(TypedSlot::Filled(value));
            return self.slots.len() as u32 - 1;
        }
        let index = self.free;
        if let TypedSlot::Free(next) =
            std::mem::replace(&mut self.slots[index as usize], TypedSlot::Filled(value))
        {
            self.free = next;
        }
        index
    }

    fn take(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        if matches!(slot, TypedSlot::Free(_)) {
            return None;
        }
        let taken = std::mem::replace(slot, TypedSlot::Free(self.free));
        self.free = index;
        self.used -= 1;
        match taken {
            TypedSlot::Filled(value) => Some(value),
            TypedSlot::Free(_) => None,
        }
    }
}

const SEGMENT_BITS: u32 = 10;
/// Slots of a segment.
const SEGMENT: usize = 1 << SEGMENT_BITS;
const SLOT_MASK: u32 = SEGMENT as u32 - 1;
const SEGMENTS_MAX: usize = 1 << (32 - SEGMENT_BITS);
const NONE: u32 = u32::MAX;
