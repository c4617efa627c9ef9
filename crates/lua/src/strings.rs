//! Strings of the heap. They are not interned: two strings of the same text may have different indexes, and
//! are compared by length, hash and bytes.
//!
//! Invariants: (1) a string never changes; (2) up to [`INLINE_MAX`] bytes are in the slot, others in a
//! box of exactly their size, or in shared bytes that the host may hold too; (3) the hash is computed
//! at its first use.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sluice_base::Bytes;

use crate::arena::{Arena, Colour, Dying, FREE, Object};
use crate::murmur3::murmur3;
use crate::text::number::parse_number;
use crate::value::{StrRef, Value};

/// Longest text that is stored in its slot.
pub(crate) const INLINE_MAX: usize = 22;

/// From this length on, bytes that the host shares are kept as they are instead of being copied.
const SHARED_MIN: usize = 4096;

/// A string. The hash is atomic because several threads may read the strings of an image. All strings of an
/// image are hashed before the image is shared, so no thread writes their hashes, and no ordering is needed.
#[derive(Debug)]
pub(crate) struct StringSlot {
    hash: AtomicU32,
    hashed: AtomicBool,
    colour: Colour,
    /// Whether the table of symbols has this string's index. A reused slot begins with false.
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
            // Bytes shared with the host count like others, because a script that keeps the
            // string keeps them alive.
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

/// The string of one byte. Every heap begins with these 256 strings, in the order of the bytes.
#[inline(always)]
pub(crate) fn single(byte: u8) -> Value {
    StrRef(u32::from(byte)).into()
}

/// All strings of a heap, with the work that has not been charged yet.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    pub(crate) texts: Arena<StringSlot>,
    /// Units of work beyond that of instructions: long searches in tables, comparisons of long
    /// strings. The interpreter's loop charges them to the budget when it exits, or a native function
    /// at its next charge.
    work: Cell<u32>,
    /// Whether the interpreter's loop must exit, because the collector has work or because much work must be
    /// charged.
    is_due: Cell<bool>,
}

/// When this many units of work are recorded, the interpreter's loop exits to charge them.
const WORK_DUE: u32 = 1000;

/// Comparing up to this many bytes is part of an instruction's cost.
const COMPARED_FREE: usize = 512;

/// Processing up to this many bytes is part of the cost of an instruction or a call.
const HANDLED_FREE: usize = 256;

impl Strings {
    /// Copies `bytes`; returns the index, and the number of bytes outside of the slot.
    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8], colour: Colour) -> (StrRef, usize) {
        if bytes.len() <= INLINE_MAX {
            let mut inline = [0; INLINE_MAX];
            inline[..bytes.len()].copy_from_slice(bytes);
            return (self.store(StringForm::Inline(bytes.len() as u8, inline), colour), 0);
        }
        (self.store(StringForm::Owned(bytes.into()), colour), bytes.len())
    }

    /// Copies a part of another string; a short part needs no allocation.
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
            // Bytes after the part are copied, too, and ignored: a copy of a fixed size compiles to one or
            // two moves.
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

    /// Takes ownership of a vector; returns the index, and the number of bytes outside of the slot.
    pub(crate) fn take(&mut self, bytes: Vec<u8>, colour: Colour) -> (StrRef, usize) {
        if bytes.len() <= INLINE_MAX {
            return self.add(&bytes, colour);
        }
        let len = bytes.len();
        (self.store(StringForm::Owned(bytes.into_boxed_slice()), colour), len)
    }

    /// Makes a string of shared bytes; short ones are copied.
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

    /// The bytes of the symbol with that index, if the slot still holds one.
    #[inline]
    pub(crate) fn symbol(&self, index: u32) -> Option<&[u8]> {
        self.texts.get(index).filter(|slot| slot.is_symbol).map(StringSlot::bytes)
    }

    /// Marks a string of this machine as a symbol. The mark ends when the string is freed.
    pub(crate) fn make_symbol(&mut self, string: StrRef) {
        self.texts.at_mut(string.0).is_symbol = true;
    }

    /// The length in bytes of a value that is a string; 0 for other values.
    #[inline]
    pub(crate) fn bytes_of(&self, value: Value) -> usize {
        value.as_str().map_or(0, |string| self.bytes(string).len())
    }

    /// The string's bytes as shared bytes, if they are stored in that form.
    pub(crate) fn shared(&self, string: StrRef) -> Option<Bytes> {
        match &self.texts.at(string.0).body {
            StringForm::Shared(bytes) => Some(bytes.clone()),
            StringForm::Inline(..) | StringForm::Owned(_) => None,
        }
    }

    /// The reference's hash of the string.
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

    /// Whether two strings have the same text.
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

    /// Records the work of comparing this many bytes.
    #[inline]
    pub(crate) fn compared(&self, bytes: usize) {
        if bytes > COMPARED_FREE {
            self.worked(bytes / 32);
        }
    }

    /// Records the work of copying or searching this many bytes once.
    #[inline]
    pub(crate) fn handled(&self, bytes: usize) {
        if bytes > HANDLED_FREE {
            self.worked(bytes / 16);
        }
    }

    /// Records the work of copying this many values.
    #[inline]
    pub(crate) fn moved(&self, values: usize) {
        if values > 32 {
            self.worked(values / 8);
        }
    }

    /// The number that a string contains: see [`parse_number`].
    #[inline]
    pub(crate) fn number(&self, string: StrRef) -> Option<f64> {
        let text = self.bytes(string);
        // Four times the length is charged, because the parser makes several passes over the bytes.
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

    /// Records units of work; a unit is about an instruction's work.
    #[cold]
    pub(crate) fn worked(&self, units: usize) {
        let work = self.work.get().saturating_add(u32::try_from(units).unwrap_or(u32::MAX));
        self.work.set(work);
        if work >= WORK_DUE {
            self.is_due.set(true);
        }
    }

    /// Takes the recorded units of work, which the caller charges.
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
