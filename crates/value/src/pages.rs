//! A large string: a tree of pages, which two owners can share and change independently.
//!
//! ```text
//!   top ── inner ── inner ─┬─ page, 64 KiB
//!                          ├─ none: 64 KiB of zeros
//!                          └─ page, 100 bytes: these, then zeros
//! ```
//!
//! Page n has the bytes from n * [`PAGE_BYTES`] on; the bits of n give the path to the page.
//!
//! Invariants: (1) a page stores only its first bytes; all further bytes, up to the end of the page or of the
//! string, are zeros, and so are all bytes of a missing page or branch; (2) no page holds bytes past the end
//! of the string; (3) [`Pages::share`] costs O(1), and neither string sees changes of the other; (4) a write
//! copies at most the inner nodes on its path and the pages it touches, and only those with a second owner;
//! (5) a string never becomes shorter.

use std::iter::successors;
use std::ops::Range;

use sluice_base::Bytes;
use triomphe::Arc;

/// Bytes of a page, which a write copies when the page has a second owner. Exactly a size
/// class of the allocator.
pub const PAGE_BYTES: usize = 64 << 10;

/// A string in pages. One word wide.
#[derive(Debug, Default)]
pub struct Pages(Box<Root>);

/// A stretch of a string as it is stored.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// All bytes that a page holds; they can be shared.
    Page(&'a Bytes),
    /// A part of the bytes that a page holds.
    Part(&'a [u8]),
    /// This many zeros, at most a page.
    Zeros(usize),
}

#[derive(Clone, Debug, Default)]
struct Root {
    top: Option<Node>,
    /// Number of levels of inner nodes above the pages.
    height: u32,
    len: usize,
    /// Bytes allocated for the nodes and pages below.
    heap_bytes: usize,
}

#[derive(Clone, Debug)]
enum Node {
    Page(Bytes),
    Inner(Arc<Inner>),
}

/// A child is `None` where nothing was written below it.
#[derive(Clone, Debug, Default)]
struct Inner {
    children: [Option<Node>; FANOUT],
}

/// Children of an inner node: three levels reach 2 GiB. A write after a share copies this many children for
/// each level.
const FANOUT: usize = 1 << FANOUT_BITS;
const FANOUT_BITS: u32 = 5;
/// Bytes of an inner node: its count of owners and its children.
const INNER_BYTES: usize = size_of::<usize>() + size_of::<Inner>();
/// Bytes of a page: counts of owners, the vector's header, the contents.
const PAGE_HEAP_BYTES: usize = 40 + PAGE_BYTES;

/// The bytes of a missing page.
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

impl Pages {
    /// The empty string, which takes no page.
    pub fn new() -> Pages {
        Pages::default()
    }

    /// A copy of `bytes` in pages. Pages of zeros take no memory.
    pub fn copy_from(bytes: &[u8]) -> Pages {
        let mut pages = Pages::new();
        pages.0.grow(bytes.len());
        for (index, page) in bytes.chunks(PAGE_BYTES).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                pages.0.write_page(index, 0, page);
            }
        }
        pages
    }

    /// Length of the string in bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the string is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes allocated. Shared parts count for each owner. O(1).
    pub fn heap_bytes(&self) -> usize {
        size_of::<Root>() + self.0.heap_bytes
    }

    /// Whether the top node has another owner. O(1).
    pub(crate) fn is_shared(&self) -> bool {
        self.0.top.as_ref().is_some_and(Node::is_shared)
    }

    /// Bytes allocated that have no other owner. Cost: one step for each node that is not shared.
    pub(crate) fn own_bytes(&self) -> usize {
        size_of::<Root>() + self.0.top.as_ref().map_or(0, Node::own_bytes)
    }

    /// A second owner of the same bytes. O(1).
    pub fn share(&self) -> Pages {
        Pages(self.0.clone())
    }

    /// Writes `bytes` at `offset`, filling the gap after the old end with zeros. Cost: O(bytes), and a
    /// copy of each touched page that is shared; the gap costs nothing.
    pub fn write_at(&mut self, offset: usize, mut bytes: &[u8]) {
        self.0.grow(offset + bytes.len());
        let mut at = offset;
        while !bytes.is_empty() {
            let inside = at % PAGE_BYTES;
            let (now, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - inside));
            self.0.write_page(at / PAGE_BYTES, inside, now);
            at += now.len();
            bytes = later;
        }
    }

    /// Appends a page after the present ones, which must all be full. The vector itself is stored if its
    /// capacity is [`PAGE_BYTES`]; otherwise its bytes are copied, and the vector is returned. A page of
    /// zeros alone is not stored, and its vector is returned, too.
    pub fn push_page(&mut self, page: Vec<u8>) -> Option<Vec<u8>> {
        let (at, len) = (self.len(), page.len());
        debug_assert!(at.is_multiple_of(PAGE_BYTES) && len <= PAGE_BYTES);
        self.0.grow(at + len);
        if page.iter().all(|byte| *byte == 0) {
            return Some(page);
        }
        if page.capacity() == PAGE_BYTES {
            self.0.page_mut_or(at / PAGE_BYTES, || page);
            return None;
        }
        self.0.write_page(at / PAGE_BYTES, 0, &page);
        Some(page)
    }

    /// Writes `bytes` at the end.
    pub fn append(&mut self, bytes: &[u8]) {
        self.write_at(self.len(), bytes);
    }

    /// The bytes of `range` in pieces. `range` may reach past the end of the string.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Piece<'_>> {
        let end = range.end.min(self.len());
        let first = self.0.piece(range.start, end);
        successors(first, move |(_, at)| self.0.piece(*at, end)).map(|(piece, _)| piece)
    }

    /// The bytes of a range, as slices.
    pub fn slices(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        self.pieces(range).map(Piece::bytes)
    }

    /// The bytes copied into one vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.slices(0..self.len()).for_each(|slice| all.extend_from_slice(slice));
        all
    }

    /// Whether the string equals `bytes`. Stops at the first difference.
    pub fn is(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        self.len() == bytes.len()
            && self.slices(0..self.len()).all(|slice| {
                let (here, later) = rest.split_at(slice.len());
                rest = later;
                here == slice
            })
    }
}

impl<'a> Piece<'a> {
    /// Bytes of the piece, at most one page.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Piece::Page(page) => page,
            Piece::Part(part) => part,
            Piece::Zeros(len) => &ZEROS[..len],
        }
    }
}

impl Root {
    /// Extends the string to `len` bytes with zeros, if it is shorter. Cost: O(height).
    fn grow(&mut self, len: usize) {
        self.len = self.len.max(len);
        while self.len.div_ceil(PAGE_BYTES) > 1 << (FANOUT_BITS * self.height) {
            if let Some(top) = self.top.take() {
                let mut inner = Inner::default();
                inner.children[0] = Some(top);
                self.heap_bytes += INNER_BYTES;
                self.top = Some(Node::Inner(Arc::new(inner)));
            }
            self.height += 1;
        }
    }

    /// Writes into one page. The string must be long enough already.
    fn write_page(&mut self, index: usize, inside: usize, bytes: &[u8]) {
        let page = self.page_mut(index);
        let end = inside + bytes.len();
        if page.len() <= inside {
            page.resize(inside, 0);
            page.extend_from_slice(bytes);
        } else {
            page.resize(page.len().max(end), 0);
            page[inside..end].copy_from_slice(bytes);
        }
        debug_assert!(page.capacity() == PAGE_BYTES);
    }

    /// The page for writing. A missing page is created, and a page with a second owner is copied.
    fn page_mut(&mut self, index: usize) -> &mut Vec<u8> {
        self.page_mut_or(index, || Vec::with_capacity(PAGE_BYTES))
    }

    /// The page for writing; a missing page is created by `fresh`.
    fn page_mut_or(&mut self, index: usize, fresh: impl FnOnce() -> Vec<u8>) -> &mut Vec<u8> {
        let mut node = &mut self.top;
        for level in (0..self.height).rev() {
            let inner = node.get_or_insert_with(|| {
                self.heap_bytes += INNER_BYTES;
                Node::Inner(Arc::new(Inner::default()))
            });
            // Dropping the old node frees nothing below it, because the copy owns the same children.
            node = &mut Arc::make_mut(inner.inner_mut()).children[child(index, level)];
        }
        let page = node.get_or_insert_with(|| {
            self.heap_bytes += PAGE_HEAP_BYTES;
            Node::Page(Bytes::from_vec(fresh()))
        });
        let page = page.page_mut();
        if page.is_shared() {
            // The copy gets the capacity of a whole page, which a plain clone would not have.
            let mut copy = Vec::with_capacity(PAGE_BYTES);
            copy.extend_from_slice(page);
            *page = Bytes::from_vec(copy);
        }
        page.make_mut()
    }

    fn page(&self, index: usize) -> Option<&Bytes> {
        let mut node = self.top.as_ref()?;
        for level in (0..self.height).rev() {
            node = node.inner().children[child(index, level)].as_ref()?;
        }
        Some(node.page())
    }

    /// The longest piece of one page from `at` on that ends at or before `end`, and its end.
    fn piece(&self, at: usize, end: usize) -> Option<(Piece<'_>, usize)> {
        if at >= end {
            return None;
        }
        let (index, inside) = (at / PAGE_BYTES, at % PAGE_BYTES);
        let stop = PAGE_BYTES.min(inside + (end - at));
        let page = self.page(index).filter(|page| page.len() > inside);
        let piece = match page {
            Some(page) if inside == 0 && page.len() <= stop => Piece::Page(page),
            Some(page) => Piece::Part(&page[inside..stop.min(page.len())]),
            None => Piece::Zeros(stop - inside),
        };
        let len = match piece {
            Piece::Page(page) => page.len(),
            Piece::Part(part) => part.len(),
            Piece::Zeros(len) => len,
        };
        Some((piece, at + len))
    }
}

impl Node {
    fn inner(&self) -> &Inner {
        match self {
            Node::Inner(inner) => inner,
            Node::Page(_) => corrupt_page(),
        }
    }

    fn is_shared(&self) -> bool {
        match self {
            Node::Page(page) => page.is_shared(),
            Node::Inner(inner) => !inner.is_unique(),
        }
    }

    fn own_bytes(&self) -> usize {
        match self {
            _ if self.is_shared() => 0,
            Node::Page(_) => PAGE_HEAP_BYTES,
            Node::Inner(inner) => {
                INNER_BYTES + inner.children.iter().flatten().map(Node::own_bytes).sum::<usize>()
            }
        }
    }

    fn inner_mut(&mut self) -> &mut Arc<Inner> {
        match self {
            Node::Inner(inner) => inner,
            Node::Page(_) => corrupt_page(),
        }
    }

    fn page(&self) -> &Bytes {
        match self {
            Node::Page(page) => page,
            Node::Inner(_) => corrupt_page(),
        }
    }

    fn page_mut(&mut self) -> &mut Bytes {
        match self {
            Node::Page(page) => page,
            Node::Inner(_) => corrupt_page(),
        }
    }
}

/// The index of the child that leads to a page. Level 0 is the one above the pages.
fn child(index: usize, level: u32) -> usize {
    index >> (FANOUT_BITS * level) & (FANOUT - 1)
}

/// Panics, because a page is where an inner node should be, or vice versa: memory is corrupt.
#[cold]
fn corrupt_page() -> ! {
    panic!("the tree of a string is not as high as it says")
}

#[cfg(test)]
mod tests;
