//! The set: distinct members.
//!
//! A small set is stored *inline* in the block of its entry (the bytes of [`Set::write_inline`], read
//! through [`SetRef::Inline`]). Other sets are a [`Set`] outside of the entry: an *intset*, a *packed*
//! row of listpack entries in the order in which the members were added, or a *tree* ([`HashTree`]).
//!
//! Invariants: (1) [`Set::share`] costs O(1), and neither set sees changes of the other; (2) the reported
//! encoding follows the reference's thresholds, and never goes back; a set that reports an intset or a
//! listpack has that form, and a small set that reports a hash table may be packed; (3) a packed row holds
//! each member once, and integers in integer form; (4) long strings that are removed go to
//! [`SetContext::garbage`].

mod gather;
mod packed;
#[cfg(test)]
mod tests;

use sluice_base::num::parse_i64;
use sluice_base::{Bytes, HashSeed, heap};
use sluice_collections::hash_tree::{Content, Expiry, Finder, HashTree, HashTreeIter, TreeText};
use sluice_collections::intset;
use sluice_collections::listpack::{Element, entry};
use std::ops::Range;
use triomphe::Arc;

use crate::ListItem;
pub use gather::SetGathering;
use packed::{Packed, PackedRef};

/// A set outside of its entry. One word wide.
#[derive(Debug)]
pub struct Set(Box<SetRoot>);

#[derive(Debug)]
struct SetRoot {
    encoding: SetEncoding,
    body: SetBody,
}

#[derive(Debug)]
enum SetBody {
    Ints(Arc<Vec<u8>>),
    Packed(Packed),
    Tree(HashTree),
}

/// The encoding that a set reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetEncoding {
    /// Integers in ascending order.
    Intset,
    /// One listpack, as the reference keeps small sets of strings.
    Listpack,
    /// A hash table, as the reference keeps large sets.
    Hashtable,
}

/// The thresholds of sets, and the seed of their tables.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// Maximum number of members in an intset: config `set-max-intset-entries`.
    pub max_intset: usize,
    /// Maximum number of members in a listpack: config `set-max-listpack-entries`.
    pub max_entries: usize,
    /// Maximum length in bytes of a member in a listpack: config `set-max-listpack-value`.
    pub max_value: usize,
    /// Seed of the hash tables, secret and the same for the whole server.
    pub seed: HashSeed,
}

impl Default for SetLimits {
    fn default() -> SetLimits {
        SetLimits { max_intset: 512, max_entries: 128, max_value: 64, seed: HashSeed::default() }
    }
}

/// Settings for a change of a set, and the garbage that the change leaves.
#[derive(Debug, Default)]
pub struct SetContext {
    /// The thresholds in force.
    pub limits: SetLimits,
    /// Removed long strings, to be freed on another thread.
    pub garbage: Vec<Bytes>,
}

/// A set for reading, inside its keyspace entry or outside of it.
#[derive(Clone, Copy, Debug)]
pub enum SetRef<'a> {
    /// A set in the block of its entry.
    Inline {
        /// The bytes that [`Set::write_inline`] wrote.
        bytes: &'a [u8],
        /// The encoding to report, from the head of the entry.
        encoding: SetEncoding,
    },
    /// A value outside of the entry's block.
    Value(&'a Set),
}

/// The forms of a set for reading.
#[derive(Clone, Copy)]
enum SetShape<'a> {
    Ints(&'a [u8]),
    Packed(PackedRef<'a>),
    Tree(&'a HashTree),
}

fn item_of(part: TreeText<'_>) -> ListItem<'_> {
    match part {
        TreeText::Bytes(bytes) => ListItem::Bytes(bytes),
        TreeText::Shared(bytes) => ListItem::Shared(bytes),
    }
}

impl<'a> SetRef<'a> {
    fn shape(self) -> SetShape<'a> {
        match self {
            SetRef::Inline { bytes, encoding: SetEncoding::Intset } => SetShape::Ints(bytes),
            SetRef::Inline { bytes, encoding: SetEncoding::Listpack | SetEncoding::Hashtable } => {
                SetShape::Packed(PackedRef::of_inline(bytes))
            }
            SetRef::Value(set) => match &set.0.body {
                SetBody::Ints(ints) => SetShape::Ints(ints),
                SetBody::Packed(packed) => SetShape::Packed(packed.view()),
                SetBody::Tree(tree) => SetShape::Tree(tree),
            },
        }
    }

    /// Number of members. O(1).
    pub fn len(self) -> usize {
        match self.shape() {
            SetShape::Ints(ints) => intset::len(ints),
            SetShape::Packed(packed) => packed.len(),
            SetShape::Tree(tree) => tree.len(),
        }
    }

    /// Whether there is no member. Never true of a set in the keyspace.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding(self) -> SetEncoding {
        match self {
            SetRef::Inline { encoding, .. } => encoding,
            SetRef::Value(set) => set.encoding(),
        }
    }

    /// Whether the set has `member`. Cost: O(log n), or O(n) in a packed set.
    pub fn contains(self, member: &[u8]) -> bool {
        match self.shape() {
            SetShape::Ints(ints) => parse_i64(member).is_some_and(|number| intset::contains(ints, number)),
            SetShape::Packed(packed) => packed.contains(member),
            SetShape::Tree(tree) => tree.contains(member),
        }
    }

    /// Calls `visit` for each of `members`, in order, with whether the set has it. Cost for each member: the
    /// same as for [`SetRef::contains`], but in a tree the cache misses of several look-ups overlap.
    pub fn contains_each<'n>(self, members: impl Iterator<Item = &'n [u8]>, mut visit: impl FnMut(bool)) {
        match self.shape() {
            SetShape::Tree(tree) => tree.contains_each(members, visit),
            SetShape::Ints(_) | SetShape::Packed(_) => {
                members.for_each(|member| visit(self.contains(member)));
            }
        }
    }

    /// Prefetches the parts of a large set that looking up these members will read.
    pub fn prefetch<'n>(self, members: impl Iterator<Item = &'n [u8]>) {
        if let SetShape::Tree(tree) = self.shape() {
            tree.prefetch(members);
        }
    }

    /// Prefetches the members that one command is about to add, if the set is large enough for a gain.
    #[inline]
    pub fn prefetch_group<'n>(self, members: impl ExactSizeIterator<Item = &'n [u8]>) {
        if let SetShape::Tree(tree) = self.shape() {
            tree.prefetch_group(members);
        }
    }

    /// Number of members that a look-up compares one by one; 0 for a set that is not packed.
    pub fn searched_len(self) -> usize {
        match self.shape() {
            SetShape::Ints(_) | SetShape::Tree(_) => 0,
            SetShape::Packed(packed) => packed.len(),
        }
    }

    /// A finder, which looks up many members one after another; it is quickest if they come in the order of
    /// [`SetRef::iter`].
    pub fn finder(self) -> SetFinder<'a> {
        match self.shape() {
            SetShape::Tree(tree) => SetFinder::Tree(tree.finder()),
            SetShape::Ints(_) | SetShape::Packed(_) => SetFinder::Other(self),
        }
    }

    /// All members. An intset yields them in ascending order, a packed set in the order in which they were
    /// added.
    pub fn iter(self) -> SetIter<'a> {
        SetIter(match self.shape() {
            SetShape::Ints(ints) => SetWalk::Ints(intset::iter(ints)),
            SetShape::Packed(packed) => SetWalk::Packed(packed.iter()),
            SetShape::Tree(tree) => SetWalk::Tree(tree.iter()),
        })
    }

    /// All members except the first `rank`, in the order of [`SetRef::iter`]. Cost to begin: O(log n),
    /// or O(rank) in a packed set.
    pub fn iter_from(self, rank: usize) -> SetIter<'a> {
        if let SetShape::Tree(tree) = self.shape() {
            return SetIter(SetWalk::Tree(tree.iter_from(rank)));
        }
        let mut iter = self.iter();
        if let Some(last_passed) = rank.checked_sub(1) {
            let _ = iter.nth(last_passed);
        }
        iter
    }

    /// The member at index `rank` of an unspecified order. Costs the same as [`SetRef::contains`].
    pub fn nth(self, rank: usize) -> Option<ListItem<'a>> {
        match self.shape() {
            SetShape::Tree(tree) => tree.nth(rank).map(|field| item_of(field.name)),
            SetShape::Ints(_) | SetShape::Packed(_) => self.iter().nth(rank),
        }
    }

    /// Visits about `count` members from a cursor on and returns the next cursor, 0 at the end. A set
    /// that is no tree is visited completely.
    pub fn scan(self, cursor: u64, count: usize, mut visit: impl FnMut(ListItem<'_>)) -> u64 {
        match self.shape() {
            SetShape::Tree(tree) => tree.scan(cursor, count, |field| visit(item_of(field.name))),
            SetShape::Ints(_) | SetShape::Packed(_) => {
                self.iter().for_each(visit);
                0
            }
        }
    }

    /// The bytes of the intset, if the set reports one.
    pub fn intset(self) -> Option<&'a [u8]> {
        match self.shape() {
            SetShape::Ints(ints) => Some(ints),
            SetShape::Packed(_) | SetShape::Tree(_) => None,
        }
    }

    /// The row of entries and their number, if the set reports a listpack.
    pub fn row(self) -> Option<(&'a [u8], usize)> {
        match self.shape() {
            SetShape::Packed(packed) if self.encoding() == SetEncoding::Listpack => {
                Some((packed.row(), packed.len()))
            }
            SetShape::Ints(_) | SetShape::Packed(_) | SetShape::Tree(_) => None,
        }
    }
}

/// Looks up many members of a set: see [`SetRef::finder`].
#[derive(Clone, Debug)]
pub enum SetFinder<'a> {
    /// A tree: remembers the leaf of the last look-up.
    Tree(Finder<'a>),
    /// A set of any other form.
    Other(SetRef<'a>),
}

impl SetFinder<'_> {
    /// Whether the set has `member`. Costs the same as [`SetRef::contains`], and less for the next member in
    /// order.
    pub fn contains(&mut self, member: &[u8]) -> bool {
        match self {
            SetFinder::Tree(finder) => finder.contains(member),
            SetFinder::Other(set) => set.contains(member),
        }
    }
}

/// An iterator over the members of a set, from the first member or from a later one.
#[derive(Clone, Debug)]
pub struct SetIter<'a>(SetWalk<'a>);

#[derive(Clone, Debug)]
enum SetWalk<'a> {
    Ints(intset::Iter<'a>),
    Packed(entry::Iter<'a>),
    Tree(HashTreeIter<'a>),
}

impl<'a> Iterator for SetIter<'a> {
    type Item = ListItem<'a>;

    fn next(&mut self) -> Option<ListItem<'a>> {
        match &mut self.0 {
            SetWalk::Ints(ints) => ints.next().map(ListItem::Int),
            SetWalk::Packed(row) => row.next().map(|element| match element {
                Element::Int(number) => ListItem::Int(number),
                Element::Bytes(bytes) => ListItem::Bytes(bytes),
            }),
            SetWalk::Tree(tree) => tree.next().map(|field| item_of(field.name)),
        }
    }

    fn nth(&mut self, n: usize) -> Option<ListItem<'a>> {
        match &mut self.0 {
            SetWalk::Ints(ints) => ints.nth(n).map(ListItem::Int),
            SetWalk::Packed(_) | SetWalk::Tree(_) => {
                for _ in 0..n {
                    self.next()?;
                }
                self.next()
            }
        }
    }
}

impl Default for Set {
    fn default() -> Set {
        Set::new(SetEncoding::Intset, SetLimits::default())
    }
}

impl Set {
    /// An empty set that reports this encoding.
    pub fn new(encoding: SetEncoding, limits: SetLimits) -> Set {
        let body = match encoding {
            SetEncoding::Intset => SetBody::Ints(Arc::new(intset::new())),
            SetEncoding::Listpack => SetBody::Packed(Packed::default()),
            SetEncoding::Hashtable => SetBody::Tree(HashTree::new(limits.seed, Content::Members)),
        };
        Set(Box::new(SetRoot { encoding, body }))
    }

    /// The encoding with which a new set begins if `count` members are to be added to it, beginning with
    /// `first`.
    pub fn first_encoding(first: &[u8], count: usize, limits: SetLimits) -> SetEncoding {
        if parse_i64(first).is_some() && count <= limits.max_intset {
            SetEncoding::Intset
        } else if count <= limits.max_entries {
            SetEncoding::Listpack
        } else {
            SetEncoding::Hashtable
        }
    }

    /// A set made of an intset's bytes; `None` if they are malformed.
    pub fn from_intset(bytes: &[u8]) -> Option<Set> {
        let body = SetBody::Ints(Arc::new(bytes.to_vec()));
        intset::is_valid(bytes).then(|| Set(Box::new(SetRoot { encoding: SetEncoding::Intset, body })))
    }

    /// A set made of a row of well-formed entries; `None` if a member occurs twice. Cost: O(n) in time and
    /// memory.
    pub fn from_row(row: &[u8]) -> Option<Set> {
        let body = SetBody::Packed(Packed::checked(row)?);
        Some(Set(Box::new(SetRoot { encoding: SetEncoding::Listpack, body })))
    }

    /// The set that [`Set::write_inline`] wrote.
    pub fn from_inline(bytes: &[u8], encoding: SetEncoding) -> Set {
        let mut set = Set::default();
        set.load_inline(bytes, encoding);
        set
    }

    /// Replaces the contents by those that [`Set::write_inline`] wrote, and reuses the memory if possible.
    /// Only for a set that is not the value of a key, because the old contents are dropped at once.
    pub fn load_inline(&mut self, bytes: &[u8], encoding: SetEncoding) {
        self.0.encoding = encoding;
        match (&mut self.0.body, encoding) {
            (SetBody::Ints(ints), SetEncoding::Intset) => match Arc::get_mut(ints) {
                Some(ints) => {
                    ints.clear();
                    ints.extend_from_slice(bytes);
                }
                None => *ints = Arc::new(bytes.to_vec()),
            },
            (body, SetEncoding::Intset) => *body = SetBody::Ints(Arc::new(bytes.to_vec())),
            (SetBody::Packed(packed), _) => packed.load(PackedRef::of_inline(bytes)),
            (body, _) => {
                let mut packed = Packed::default();
                packed.load(PackedRef::of_inline(bytes));
                *body = SetBody::Packed(packed);
            }
        }
    }

    /// The number of bytes that [`Set::write_inline`] writes; `None` for a tree, and for another set that is
    /// too large for the block of an entry. O(1).
    pub fn inline_len(&self) -> Option<usize> {
        let len = match &self.0.body {
            SetBody::Ints(ints) => ints.len(),
            SetBody::Packed(packed) => packed::INLINE_HEADER_LEN + packed.row().len(),
            SetBody::Tree(_) => return None,
        };
        let max = match self.0.encoding {
            SetEncoding::Intset | SetEncoding::Listpack => INLINE_LEN_MAX,
            SetEncoding::Hashtable => INLINE_TABLE_LEN_MAX,
        };
        (len <= max).then_some(len)
    }

    /// Writes the inline form of the set. `out` has the length [`Set::inline_len`].
    pub fn write_inline(&self, out: &mut [u8]) {
        match &self.0.body {
            SetBody::Ints(ints) => out.copy_from_slice(ints),
            SetBody::Packed(packed) => packed.write_inline(out),
            SetBody::Tree(_) => {}
        }
    }

    /// A second owner of the set's contents. O(1).
    #[must_use]
    pub fn share(&self) -> Set {
        let body = match &self.0.body {
            SetBody::Ints(ints) => SetBody::Ints(ints.clone()),
            SetBody::Packed(packed) => SetBody::Packed(packed.clone()),
            SetBody::Tree(tree) => SetBody::Tree(tree.share()),
        };
        Set(Box::new(SetRoot { encoding: self.0.encoding, body }))
    }

    /// The set for reading.
    pub fn view(&self) -> SetRef<'_> {
        SetRef::Value(self)
    }

    /// Number of members. O(1).
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding(&self) -> SetEncoding {
        self.0.encoding
    }

    /// Bytes allocated for the set, including shared parts. O(1).
    pub fn heap_bytes(&self) -> usize {
        size_of::<SetRoot>()
            + match &self.0.body {
                SetBody::Ints(ints) => counted_vec() + heap::vec(ints),
                SetBody::Packed(packed) => counted_vec() + heap::vec(packed.vec()),
                SetBody::Tree(tree) => tree.heap_bytes(),
            }
    }

    /// Whether the top of the set has another owner. O(1).
    pub(crate) fn is_shared(&self) -> bool {
        match &self.0.body {
            SetBody::Ints(ints) => !ints.is_unique(),
            SetBody::Packed(packed) => packed.is_shared(),
            SetBody::Tree(tree) => tree.is_shared(),
        }
    }

    /// Bytes allocated that have no other owner. Cost: one step for each part that is not shared.
    pub(crate) fn own_bytes(&self) -> usize {
        match &self.0.body {
            SetBody::Tree(tree) => size_of::<SetRoot>() + tree.own_bytes(),
            SetBody::Ints(_) | SetBody::Packed(_) if self.is_shared() => size_of::<SetRoot>(),
            SetBody::Ints(_) | SetBody::Packed(_) => self.heap_bytes(),
        }
    }

    /// Whether the set is small and in one piece, so that its memory is worth reusing.
    pub fn is_scratch(&self) -> bool {
        let is_tree = matches!(self.0.body, SetBody::Tree(_));
        !is_tree && !self.is_shared() && self.heap_bytes() <= 4 * INLINE_LEN_MAX
    }

    /// To be called before `count` members are added together. A set whose encoding does not allow `count`
    /// members reports a hash table from now on, even if the members are not added.
    pub fn convert_before_adding(&mut self, count: usize, limits: SetLimits) {
        let max = match self.0.encoding {
            SetEncoding::Intset => limits.max_intset,
            SetEncoding::Listpack => limits.max_entries,
            SetEncoding::Hashtable => return,
        };
        if count > max {
            self.make_table(limits);
        }
    }

    /// To be called after a set was loaded from an intset or a listpack: sets the encoding
    /// that its size requires.
    pub fn convert_after_loading(&mut self, limits: SetLimits) {
        self.convert_before_adding(self.len(), limits);
    }

    /// Adds a member; returns whether it is new.
    pub fn add(&mut self, member: &[u8], context: &mut SetContext) -> bool {
        let limits = context.limits;
        match &mut self.0.body {
            SetBody::Ints(ints) => {
                let Some(number) = parse_i64(member) else {
                    self.outgrow_ints(member, limits);
                    return self.add_absent(member, context);
                };
                let is_new = !intset::contains(ints, number);
                if is_new {
                    intset::insert(Arc::make_mut(ints), number);
                    self.convert_before_adding(self.len(), limits);
                }
                is_new
            }
            SetBody::Packed(packed) => {
                if packed.view().contains(member) {
                    return false;
                }
                let fits = packed.len() < limits.max_entries
                    && member.len() <= limits.max_value
                    && packed.row().len() + entry::len(Element::of(member)) <= ROW_BYTES_MAX;
                if self.0.encoding == SetEncoding::Listpack && !fits {
                    self.make_table(limits);
                }
                self.add_absent(member, context)
            }
            SetBody::Tree(tree) => tree.insert(member, b"", Expiry::Clear, &mut context.garbage),
        }
    }

    /// Adds an absent member to a set whose encoding may hold it.
    fn add_absent(&mut self, member: &[u8], context: &mut SetContext) -> bool {
        match &mut self.0.body {
            SetBody::Ints(_) => false,
            SetBody::Packed(packed) => {
                packed.push(member);
                if self.0.encoding == SetEncoding::Hashtable {
                    self.outgrow_packed(context.limits);
                }
                true
            }
            SetBody::Tree(tree) => tree.insert(member, b"", Expiry::Clear, &mut context.garbage),
        }
    }

    /// Turns an intset that is about to get a member which is no integer into a listpack if all members
    /// fit, otherwise into a hash table.
    fn outgrow_ints(&mut self, member: &[u8], limits: SetLimits) {
        let SetBody::Ints(ints) = &self.0.body else { return };
        let digits = |number: Option<i64>| number.map_or(0, sluice_base::num::digits_i64);
        let mut ends = intset::iter(ints);
        let longest = digits(ends.next()).max(digits(intset::iter(ints).next_back()));
        let count = intset::len(ints);
        let fits =
            count < limits.max_entries && member.len() <= limits.max_value && longest <= limits.max_value;
        if fits {
            let packed = Packed::of_ints(intset::iter(ints));
            *self.0 = SetRoot { encoding: SetEncoding::Listpack, body: SetBody::Packed(packed) };
        } else {
            self.make_table(limits);
        }
    }

    /// Makes the set report a hash table from now on.
    fn make_table(&mut self, limits: SetLimits) {
        if let SetBody::Ints(ints) = &self.0.body {
            if intset::len(ints) <= PACKED_TABLE_LEN_MAX {
                self.0.body = SetBody::Packed(Packed::of_ints(intset::iter(ints)));
            } else {
                self.make_tree(limits);
            }
        }
        self.0.encoding = SetEncoding::Hashtable;
        self.outgrow_packed(limits);
    }

    /// Turns a packed set that reports a hash table and is not small into a tree.
    fn outgrow_packed(&mut self, limits: SetLimits) {
        if let SetBody::Packed(packed) = &self.0.body
            && (packed.row().len() > PACKED_TABLE_BYTES_MAX || packed.len() > PACKED_TABLE_LEN_MAX)
        {
            self.make_tree(limits);
        }
    }

    fn make_tree(&mut self, limits: SetLimits) {
        let mut tree = HashTree::new(limits.seed, Content::Members);
        let (mut digits, mut garbage) = (sluice_base::num::IntBuffer::new(), Vec::new());
        for member in self.view().iter() {
            tree.insert(member.bytes(&mut digits), b"", Expiry::Clear, &mut garbage);
        }
        self.0.body = SetBody::Tree(tree);
    }

    /// Removes the members at `ranks` (positions in the order of [`SetRef::iter`]) from a large set. The
    /// range must hold at least one member, but not all. Returns the removed members as sets, in the same
    /// order. If the set is no tree, returns `None` and leaves it unchanged. Cost: O(log n); see
    /// [`HashTree::take_ranks`].
    pub fn take_ranks(&mut self, ranks: Range<usize>) -> Option<Vec<Set>> {
        let SetBody::Tree(tree) = &mut self.0.body else { return None };
        let set =
            |tree| Set(Box::new(SetRoot { encoding: SetEncoding::Hashtable, body: SetBody::Tree(tree) }));
        Some(tree.take_ranks(ranks).into_iter().map(set).collect())
    }

    /// Bytes of all members as bulk strings of the wire protocol; `None` if the set is no tree. O(1).
    pub fn bulk_bytes(&self) -> Option<usize> {
        if let SetBody::Tree(tree) = &self.0.body { Some(tree.bulk_bytes()) } else { None }
    }

    /// Removes a member; returns whether it existed.
    pub fn remove(&mut self, member: &[u8], context: &mut SetContext) -> bool {
        match &mut self.0.body {
            SetBody::Ints(ints) => match parse_i64(member) {
                Some(number) if intset::contains(ints, number) => intset::remove(Arc::make_mut(ints), number),
                Some(_) | None => false,
            },
            SetBody::Packed(packed) => packed.remove(member),
            SetBody::Tree(tree) => tree.remove(member, &mut context.garbage),
        }
    }

    /// Removes these members and returns how many existed. Costs the same as [`SetRef::contains_each`].
    pub fn remove_each<'n>(
        &mut self,
        members: impl Iterator<Item = &'n [u8]>,
        context: &mut SetContext,
    ) -> usize {
        match &mut self.0.body {
            SetBody::Tree(tree) => tree.remove_each(members, &mut context.garbage),
            SetBody::Ints(_) | SetBody::Packed(_) => {
                members.filter(|member| self.remove(member, context)).count()
            }
        }
    }
}

/// Bytes that a reference-counted vector takes in addition to its buffer.
fn counted_vec() -> usize {
    heap::block(size_of::<usize>() + size_of::<Vec<u8>>())
}

/// Maximum bytes of an inline set that reports an intset or a listpack. The bound is low because an edit
/// copies the bytes of an inline set out and back; longer rows have their own allocation and are edited in
/// place.
const INLINE_LEN_MAX: usize = 1024;
/// Maximum bytes of an inline set that reports a hash table. The alternative for such a set is a tree, which
/// takes more memory.
const INLINE_TABLE_LEN_MAX: usize = 2000;
/// Maximum bytes of entries in a packed set that reports a hash table.
const PACKED_TABLE_BYTES_MAX: usize = 1900;
/// Maximum number of members in a packed set that reports a hash table, as its members are searched linearly.
const PACKED_TABLE_LEN_MAX: usize = 64;
/// Maximum bytes of a packed row, whatever the configured thresholds, so that its size fits in the 32 bits of
/// a listpack's header.
const ROW_BYTES_MAX: usize = 1 << 30;

const _: () = assert!(PACKED_TABLE_BYTES_MAX + packed::INLINE_HEADER_LEN <= INLINE_TABLE_LEN_MAX);
