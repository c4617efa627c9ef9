//! Strings of the heap. Not interned: two of the same text may lie at two indexes, and compare by length,
//! hash, bytes.
//!
//! Invariants: (1) a string never changes; (2) up to [`INLINE_MAX`] bytes lie in the slot, others in a box of
//! exactly their size or behind a count that the host shares; (3) the hash is computed when it is first asked
//! for.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sluice_base::Bytes;

use crate::arena::{Arena, Colour, Dying, FREE, Object};
use crate::murmur3::murmur3;
use crate::text::number::parse_number;
use crate::value::{StrRef, Value};

/// Longest text that lies in its slot.
pub(crate) const INLINE_MAX: usize = 22;

/// Bytes from which a vector is taken over as it is instead of being copied into a box of its size.
const SHARED_MIN: usize = 4096;

/// A string. Its hash is atomic because several threads may read the strings of an image, all of which are
/// hashed before the image is shared: no other side writes, so no order is needed.
#[derive(Debug)]
pub(crate) struct StringSlot {
    hash: AtomicU32,
    hashed: AtomicBool,
    colour: Colour,
    /// The table of symbols has its index. A slot that is used again begins without.
    is_symbol: bool,
    body: StringForm,
}

#[derive(Debug)]
enum StringForm {
    Inline(u8, [u8; INLINE_MAX]),
    Owned(Box<[u8]>),
    Shared(Bytes),
}

const _: () = assert!(size_of::<StringSlot>() == 32);

impl Default for StringSlot {
    fn default() -> StringSlot {
        StringSlot {
            hash: AtomicU32::new(0),
            hashed: AtomicBool::new(false),
            colour: FREE,
            is_symbol: false,
            body: StringForm::Inline(0, [0; INLINE_MAX]),
        }
    }
}

impl Object for StringSlot {
    type Shared = Arc<[StringSlot]>;

    fn colour(&self) -> Colour {
        self.colour
    }

    fn paint(&mut self, colour: Colour) {
        self.colour = colour;
    }

    fn outside(&self) -> usize {
        match &self.body {
            StringForm::Inline(..) => 0,
            StringForm::Owned(bytes) => bytes.len(),
            // What the host shares counts as if it were ours: a script that keeps it keeps it alive.
            StringForm::Shared(bytes) => bytes.len(),
        }
    }

    fn take_large(&mut self, out: &mut Vec<Dying>) {
        if let StringForm::Owned(bytes) = &mut self.body {
            out.push(Box::new(std::mem::take(bytes).into_vec()));
        }
    }
}

impl StringSlot {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.body {
            StringForm::Inline(len, bytes) => &bytes[..usize::from(*len).min(INLINE_MAX)],
            StringForm::Owned(bytes) => bytes,
            StringForm::Shared(bytes) => bytes,
        }
    }

    #[inline]
    fn known_hash(&self) -> Option<u32> {
        self.hashed.load(Ordering::Relaxed).then(|| self.hash.load(Ordering::Relaxed))
    }
}

/// The string of one byte: the first strings of every heap are these, in the order of the bytes.
#[inline(always)]
pub(crate) fn single(byte: u8) -> Value {
    StrRef(u32::from(byte)).into()
}

/// All strings of a heap.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    pub(crate) texts: Arena<StringSlot>,
    /// Units of work beyond an instruction's own: long searches in tables, long texts compared. They are
    /// taken from the budget when the loop over instructions is left, or by a native function's next charge.
    work: Cell<u32>,
    /// The loop over instructions is to be left: the collector has work, or there is much work to be paid.
    is_due: Cell<bool>,
}

/// Units of work from which on the loop over instructions is left, so that they are paid.
const WORK_DUE: u32 = 1000;

/// Bytes of a text whose comparison costs nothing beyond the instruction.
const COMPARED_FREE: usize = 512;

/// Bytes that are handled for nothing beyond the instruction or the call.
const HANDLED_FREE: usize = 256;

impl Strings {
    /// Copies `bytes`; answers the index and the bytes outside of the slot.
    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8], colour: Colour) -> (StrRef, usize) {
        if bytes.len() <= INLINE_MAX {
            let mut inline = [0; INLINE_MAX];
            inline[..bytes.len()].copy_from_slice(bytes);
            return (self.store(StringForm::Inline(bytes.len() as u8, inline), colour), 0);
        }
        (self.store(StringForm::Owned(bytes.into()), colour), bytes.len())
    }

    /// Copies a part of another string, of which few bytes need no allocation.
    #[inline]
    pub(crate) fn add_part(
        &mut self,
        string: StrRef,
        from: usize,
        to: usize,
        colour: Colour,
    ) -> (StrRef, usize) {
        let text = self.bytes(string);
        let part = &text[from..to];
        let len = part.len();
        let (body, outside) = if len <= INLINE_MAX {
            // What lies behind the text means nothing: a copy of a fixed size is one or two moves.
            let inline = match text[from..].first_chunk() {
                Some(chunk) => *chunk,
                None => {
                    let mut inline = [0; INLINE_MAX];
                    inline[..len].copy_from_slice(part);
                    inline
                }
            };
            (StringForm::Inline(len as u8, inline), 0)
        } else {
            (StringForm::Owned(part.into()), len)
        };
        (self.store(body, colour), outside)
    }

    /// Takes a vector over.
    pub(crate) fn take(&mut self, bytes: Vec<u8>, colour: Colour) -> (StrRef, usize) {
        if bytes.len() <= INLINE_MAX {
            return self.add(&bytes, colour);
        }
        let len = bytes.len();
        let body = if len >= SHARED_MIN && bytes.capacity() - len > len / 8 {
            let mut bytes = bytes;
            bytes.shrink_to_fit();
            StringForm::Owned(bytes.into_boxed_slice())
        } else {
            StringForm::Owned(bytes.into_boxed_slice())
        };
        (self.store(body, colour), len)
    }

    /// Holds bytes that somebody else holds too.
    pub(crate) fn share(&mut self, bytes: Bytes, colour: Colour) -> (StrRef, usize) {
        if bytes.len() < SHARED_MIN {
            return self.add(&bytes, colour);
        }
        let len = bytes.len();
        (self.store(StringForm::Shared(bytes), colour), len)
    }

    #[inline]
    fn store(&mut self, body: StringForm, colour: Colour) -> StrRef {
        let (hash, hashed) = (AtomicU32::new(0), AtomicBool::new(false));
        StrRef(self.texts.add(StringSlot { hash, hashed, colour, is_symbol: false, body }))
    }

    #[inline]
    pub(crate) fn bytes(&self, string: StrRef) -> &[u8] {
        self.texts.at(string.0).bytes()
    }

    /// The bytes of the symbol with that index, where there is one still.
    #[inline]
    pub(crate) fn symbol(&self, index: u32) -> Option<&[u8]> {
        self.texts.get(index).filter(|slot| slot.is_symbol).map(StringSlot::bytes)
    }

    /// Makes a string of the machine's own a symbol, until it is freed.
    pub(crate) fn make_symbol(&mut self, string: StrRef) {
        self.texts.at_mut(string.0).is_symbol = true;
    }

    /// The length of a value that is a string, else 0.
    #[inline]
    pub(crate) fn bytes_of(&self, value: Value) -> usize {
        value.as_str().map_or(0, |string| self.bytes(string).len())
    }

    /// The bytes behind a count, where they already lie so.
    pub(crate) fn shared(&self, string: StrRef) -> Option<Bytes> {
        match &self.texts.at(string.0).body {
            StringForm::Shared(bytes) => Some(bytes.clone()),
            StringForm::Inline(..) | StringForm::Owned(_) => None,
        }
    }

    /// The reference's hash of the text.
    #[inline]
    pub(crate) fn hash(&self, string: StrRef) -> u32 {
        let text = self.texts.at(string.0);
        if !text.hashed.load(Ordering::Relaxed) {
            let bytes = text.bytes();
            text.hash.store(murmur3(bytes), Ordering::Relaxed);
            text.hashed.store(true, Ordering::Relaxed);
            self.handled(bytes.len());
        }
        text.hash.load(Ordering::Relaxed)
    }

    /// Whether two strings are the same text.
    #[inline]
    pub(crate) fn same(&self, a: StrRef, b: StrRef) -> bool {
        if a == b {
            return true;
        }
        let (x, y) = (self.texts.at(a.0), self.texts.at(b.0));
        if let (Some(x), Some(y)) = (x.known_hash(), y.known_hash())
            && x != y
        {
            return false;
        }
        let (x, y) = (x.bytes(), y.bytes());
        if x.len() == y.len() {
            self.compared(x.len());
        }
        x == y
    }

    /// Takes the comparison of so many bytes into account.
    #[inline]
    pub(crate) fn compared(&self, bytes: usize) {
        if bytes > COMPARED_FREE {
            self.worked(bytes / 32);
        }
    }

    /// Takes into account that so many bytes were copied or looked through, once.
    #[inline]
    pub(crate) fn handled(&self, bytes: usize) {
        if bytes > HANDLED_FREE {
            self.worked(bytes / 16);
        }
    }

    /// Takes into account that so many values were copied.
    #[inline]
    pub(crate) fn moved(&self, values: usize) {
        if values > 32 {
            self.worked(values / 8);
        }
    }

    /// The number that a text says: see [`parse_number`].
    #[inline]
    pub(crate) fn number(&self, string: StrRef) -> Option<f64> {
        let text = self.bytes(string);
        // Several passes over the bytes.
        self.handled(text.len().saturating_mul(4));
        parse_number(text)
    }

    /// Raw equality of two values.
    #[inline]
    pub(crate) fn equal(&self, a: Value, b: Value) -> bool {
        match (a.as_number(), b.as_number()) {
            (Some(x), Some(y)) => x == y,
            _ if a.same(b) => true,
            _ => match (a.as_str(), b.as_str()) {
                (Some(x), Some(y)) => self.same(x, y),
                _ => false,
            },
        }
    }

    /// Notes units of work, one for about an instruction's.
    #[cold]
    pub(crate) fn worked(&self, units: usize) {
        let work = self.work.get().saturating_add(u32::try_from(units).unwrap_or(u32::MAX));
        self.work.set(work);
        if work >= WORK_DUE {
            self.is_due.set(true);
        }
    }

    /// The units of work that were noted, which count as paid from here on.
    #[inline]
    pub(crate) fn take_work(&self) -> u32 {
        self.work.take()
    }

    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.get()
    }

    pub(crate) fn set_due(&self, is_due: bool) {
        self.is_due.set(is_due);
    }
}
