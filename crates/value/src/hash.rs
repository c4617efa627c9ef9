//! The hash: fields with values, and with expiries of their own.
//!
//! A small hash is stored *inline* in the block of its entry (the bytes of [`Hash::write_inline`], read
//! through [`HashRef::Inline`]). Other hashes are a [`struct@Hash`] outside of the entry: *packed*, a
//! row of listpack entries in the order in which the fields were added, or a *tree* ([`HashTree`]), the
//! only form that can hold expiries.
//!
//! Invariants: (1) [`Hash::share`] costs O(1), and neither hash sees changes of the other; (2) the reported
//! encoding follows the reference's thresholds, and never goes back to a listpack; a hash that reports a
//! listpack is packed, but a small hash may be packed and report a hash table; (3) a reader gets the expiry
//! of a field and decides itself whether the field has expired; reading deletes nothing; (4) long strings
//! that are removed go to [`HashContext::garbage`].

mod field;
mod packed;
#[cfg(test)]
mod tests;

use sluice_base::hash::HashSeed;
use sluice_base::num::IntBuffer;
use sluice_base::{Bytes, heap};
use sluice_collections::hash_tree::{Content, Expiry, Field, HashTree, HashTreeIter, TreeText};
use sluice_collections::listpack;

use crate::ListItem;
pub use field::HashField;
use packed::{Packed, PackedIter, PackedRef};

/// A hash outside of its entry. One word wide.
#[derive(Debug)]
pub struct Hash(Box<HashRoot>);

#[derive(Debug)]
struct HashRoot {
    encoding: HashEncoding,
    body: HashBody,
}

#[derive(Debug)]
enum HashBody {
    Packed(Packed),
    Tree(HashTree),
}

/// The encoding that a hash reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashEncoding {
    /// One listpack, as the reference keeps small hashes.
    #[default]
    Listpack,
    /// A hash table, as the reference keeps all other hashes.
    Hashtable,
}

/// The thresholds of hashes, and the seed of their tables.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// Maximum number of fields in a listpack: config `hash-max-listpack-entries`.
    pub max_entries: usize,
    /// Maximum length in bytes of a field or a value in a listpack: config `hash-max-listpack-value`.
    pub max_value: usize,
    /// Seed of the hash tables, secret and the same for the whole server.
    pub seed: HashSeed,
}

impl Default for HashLimits {
    fn default() -> HashLimits {
        HashLimits { max_entries: 512, max_value: 64, seed: HashSeed::default() }
    }
}

/// Settings for a change of a hash, and the garbage that it leaves.
#[derive(Debug, Default)]
pub struct HashContext {
    /// The thresholds in force.
    pub limits: HashLimits,
    /// Removed long strings, to be freed on another thread.
    pub garbage: Vec<Bytes>,
}

/// A hash for reading, inside its keyspace entry or outside of it.
#[derive(Clone, Copy, Debug)]
pub enum HashRef<'a> {
    /// A hash in the block of its entry.
    Inline {
        /// The bytes that [`Hash::write_inline`] wrote.
        bytes: &'a [u8],
        /// The encoding to report, from the head of the entry.
        encoding: HashEncoding,
    },
    /// A value outside of the entry's block.
    Value(&'a Hash),
}

/// The two forms of a hash for reading.
#[derive(Clone, Copy)]
enum HashShape<'a> {
    Packed(PackedRef<'a>),
    Tree(&'a HashTree),
}

impl<'a> From<TreeText<'a>> for ListItem<'a> {
    fn from(part: TreeText<'a>) -> ListItem<'a> {
        match part {
            TreeText::Bytes(bytes) => ListItem::Bytes(bytes),
            TreeText::Shared(bytes) => ListItem::Shared(bytes),
        }
    }
}

impl<'a> From<Field<'a>> for HashField<'a> {
    fn from(field: Field<'a>) -> HashField<'a> {
        HashField { name: field.name.into(), value: field.value.into(), expiry: field.expiry }
    }
}

impl HashField<'_> {
    /// Whether the field's expiry is over at `now_ms`.
    #[inline]
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expiry.is_some_and(|at| at < now_ms)
    }
}

impl<'a> HashRef<'a> {
    fn shape(self) -> HashShape<'a> {
        match self {
            HashRef::Inline { bytes, .. } => HashShape::Packed(PackedRef::of_inline(bytes)),
            HashRef::Value(hash) => match &hash.0.body {
                HashBody::Packed(packed) => HashShape::Packed(packed.view()),
                HashBody::Tree(tree) => HashShape::Tree(tree),
            },
        }
    }

    /// Prefetches the parts of a large hash that looking up these fields will read.
    pub fn prefetch<'n>(self, fields: impl Iterator<Item = &'n [u8]>) {
        if let HashShape::Tree(tree) = self.shape() {
            tree.prefetch(fields);
        }
    }

    /// Prefetches the fields that one command is about to set, if the hash is large enough for a gain.
    #[inline]
    pub fn prefetch_group<'n>(self, fields: impl ExactSizeIterator<Item = &'n [u8]>) {
        if let HashShape::Tree(tree) = self.shape() {
            tree.prefetch_group(fields);
        }
    }

    /// Number of fields, including expired fields that are not deleted yet. O(1).
    pub fn len(self) -> usize {
        match self.shape() {
            HashShape::Packed(packed) => packed.len(),
            HashShape::Tree(tree) => tree.len(),
        }
    }

    /// Whether there is no field. Never true of a hash in the keyspace.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding(self) -> HashEncoding {
        match self {
            HashRef::Inline { encoding, .. } => encoding,
            HashRef::Value(hash) => hash.encoding(),
        }
    }

    /// Looks up a field. Cost: O(log n), or O(n) in a packed hash.
    pub fn get(self, name: &[u8]) -> Option<HashField<'a>> {
        match self.shape() {
            HashShape::Packed(packed) => packed.get(name),
            HashShape::Tree(tree) => tree.get(name).map(HashField::from),
        }
    }

    /// Looks up each of these fields, in order. Cost for each field: the same as for [`HashRef::get`], but in
    /// a tree the cache misses of several look-ups overlap.
    pub fn get_each<'n>(
        self,
        names: impl Iterator<Item = &'n [u8]>,
        mut visit: impl FnMut(Option<HashField<'a>>),
    ) {
        match self.shape() {
            HashShape::Packed(packed) => names.for_each(|name| visit(packed.get(name))),
            HashShape::Tree(tree) => tree.get_each(names, |field| visit(field.map(HashField::from))),
        }
    }

    /// An iterator over all fields. A packed hash yields them in the order in which they were added.
    pub fn iter(self) -> HashIter<'a> {
        match self.shape() {
            HashShape::Packed(packed) => HashIter(Walk::Packed(packed.iter())),
            HashShape::Tree(tree) => HashIter(Walk::Tree(tree.iter())),
        }
    }

    /// All fields except the first `rank`, in the order of [`HashRef::iter`]. Cost to begin: O(log n),
    /// or O(rank) in a packed hash.
    pub fn iter_from(self, rank: usize) -> HashIter<'a> {
        match self.shape() {
            HashShape::Packed(packed) => {
                let mut iter = packed.iter();
                iter.by_ref().take(rank).for_each(drop);
                HashIter(Walk::Packed(iter))
            }
            HashShape::Tree(tree) => HashIter(Walk::Tree(tree.iter_from(rank))),
        }
    }

    /// The field at index `rank` of an unspecified order. Costs the same as [`HashRef::get`].
    pub fn nth(self, rank: usize) -> Option<HashField<'a>> {
        match self.shape() {
            HashShape::Packed(packed) => packed.iter().nth(rank),
            HashShape::Tree(tree) => tree.nth(rank).map(HashField::from),
        }
    }

    /// Visits about `count` fields from a cursor on and returns the next cursor, 0 at the end. A packed
    /// hash is visited completely.
    pub fn scan(self, cursor: u64, count: usize, mut visit: impl FnMut(HashField<'a>)) -> u64 {
        match self.shape() {
            HashShape::Packed(packed) => {
                packed.iter().for_each(visit);
                0
            }
            HashShape::Tree(tree) => tree.scan(cursor, count, |field| visit(field.into())),
        }
    }

    /// The row of entries and the number of fields; `None` for a tree.
    pub fn row(self) -> Option<(&'a [u8], usize)> {
        match self.shape() {
            HashShape::Packed(packed) => Some((packed.row(), packed.len())),
            HashShape::Tree(_) => None,
        }
    }

    /// Number of fields with an expiry. O(1).
    pub fn volatile_len(self) -> usize {
        match self.shape() {
            HashShape::Packed(_) => 0,
            HashShape::Tree(tree) => tree.volatile_len(),
        }
    }

    /// The earliest expiry of a field, ms since the epoch. O(1).
    pub fn earliest(self) -> Option<i64> {
        match self.shape() {
            HashShape::Packed(_) => None,
            HashShape::Tree(tree) => tree.earliest(),
        }
    }
}

/// An iterator over the fields of a hash, from the first field or from a later one.
#[derive(Clone, Debug)]
pub struct HashIter<'a>(Walk<'a>);

#[derive(Clone, Debug)]
enum Walk<'a> {
    Packed(PackedIter<'a>),
    Tree(HashTreeIter<'a>),
}

impl<'a> Iterator for HashIter<'a> {
    type Item = HashField<'a>;

    fn next(&mut self) -> Option<HashField<'a>> {
        match &mut self.0 {
            Walk::Packed(iter) => iter.next(),
            Walk::Tree(iter) => iter.next().map(HashField::from),
        }
    }
}

impl Default for Hash {
    fn default() -> Hash {
        Hash(Box::new(HashRoot {
            encoding: HashEncoding::Listpack,
            body: HashBody::Packed(Packed::default()),
        }))
    }
}

impl Hash {
    /// An empty hash that reports a listpack.
    pub fn new() -> Hash {
        Hash::default()
    }

    /// A hash from a row of valid entries, fields and values alternating; `None` if the last field has no
    /// value or a field occurs twice. The caller has checked that the entries are well-formed. Cost: O(n) in
    /// time and memory.
    pub fn from_row(row: &[u8]) -> Option<Hash> {
        let packed = Packed::checked(row)?;
        Some(Hash(Box::new(HashRoot { encoding: HashEncoding::Listpack, body: HashBody::Packed(packed) })))
    }

    /// The hash that [`Hash::write_inline`] wrote.
    pub fn from_inline(bytes: &[u8], encoding: HashEncoding) -> Hash {
        let mut hash = Hash::new();
        hash.load_inline(bytes, encoding);
        hash
    }

    /// Replaces the contents by those that [`Hash::write_inline`] wrote, and reuses the memory if
    /// possible. Only for a scratch hash, not for the value of a key: the old contents are freed here and do
    /// not go to [`HashContext::garbage`].
    pub fn load_inline(&mut self, bytes: &[u8], encoding: HashEncoding) {
        self.0.encoding = encoding;
        let source = PackedRef::of_inline(bytes);
        match &mut self.0.body {
            HashBody::Packed(packed) => packed.load(source),
            body @ HashBody::Tree(_) => {
                let mut packed = Packed::default();
                packed.load(source);
                *body = HashBody::Packed(packed);
            }
        }
    }

    /// The number of bytes that [`Hash::write_inline`] writes; `None` for a tree, and for a packed hash that
    /// is too large for the block of an entry. O(1).
    pub fn inline_len(&self) -> Option<usize> {
        match &self.0.body {
            HashBody::Packed(packed) => {
                let max = match self.0.encoding {
                    HashEncoding::Listpack => INLINE_LEN_MAX,
                    HashEncoding::Hashtable => INLINE_TABLE_LEN_MAX,
                };
                Some(packed::INLINE_HEADER_LEN + packed.row().len()).filter(|len| *len <= max)
            }
            HashBody::Tree(_) => None,
        }
    }

    /// Writes the inline form of the hash. `out` has the length [`Hash::inline_len`].
    pub fn write_inline(&self, out: &mut [u8]) {
        if let HashBody::Packed(packed) = &self.0.body {
            packed.write_inline(out);
        }
    }

    /// A second owner of the hash's contents. O(1).
    #[must_use]
    pub fn share(&self) -> Hash {
        let body = match &self.0.body {
            HashBody::Packed(packed) => HashBody::Packed(packed.clone()),
            HashBody::Tree(tree) => HashBody::Tree(tree.share()),
        };
        Hash(Box::new(HashRoot { encoding: self.0.encoding, body }))
    }

    /// The hash for reading.
    pub fn view(&self) -> HashRef<'_> {
        HashRef::Value(self)
    }

    /// Number of fields. O(1).
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding(&self) -> HashEncoding {
        self.0.encoding
    }

    /// Bytes allocated for the hash, including shared parts. O(1).
    pub fn heap_bytes(&self) -> usize {
        heap::boxed::<HashRoot>()
            + match &self.0.body {
                HashBody::Packed(packed) => packed.heap_bytes(),
                HashBody::Tree(tree) => tree.heap_bytes(),
            }
    }

    /// Whether the packed row, or the root of the tree, has another owner. O(1).
    pub(crate) fn is_shared(&self) -> bool {
        match &self.0.body {
            HashBody::Packed(packed) => packed.is_shared(),
            HashBody::Tree(tree) => tree.is_shared(),
        }
    }

    /// Bytes allocated that have no other owner. Cost: one step for each part that is not shared.
    pub(crate) fn own_bytes(&self) -> usize {
        heap::boxed::<HashRoot>()
            + match &self.0.body {
                HashBody::Packed(packed) if packed.is_shared() => 0,
                HashBody::Packed(packed) => packed.heap_bytes(),
                HashBody::Tree(tree) => tree.own_bytes(),
            }
    }

    /// Whether the hash is small and in one piece, so that its memory is worth reusing.
    pub fn is_scratch(&self) -> bool {
        match &self.0.body {
            HashBody::Packed(packed) => !packed.is_shared() && packed.heap_bytes() <= 4 * INLINE_LEN_MAX,
            HashBody::Tree(_) => false,
        }
    }

    /// To be called before fields are added, with their number and the bytes of the longest field or
    /// value. If these alone would be too many or too long for a listpack, the hash reports a hash table
    /// from now on, even if the fields are not added.
    pub fn convert_before_adding(&mut self, count: usize, longest: usize, limits: HashLimits) {
        if count > limits.max_entries || longest > limits.max_value {
            self.convert(limits);
        }
    }

    /// To be called after a hash was loaded from a listpack: sets the encoding that its number
    /// of fields requires.
    pub fn convert_after_loading(&mut self, limits: HashLimits) {
        if self.len() > limits.max_entries {
            self.convert(limits);
        }
    }

    /// Makes the hash report a hash table from now on.
    pub fn convert(&mut self, limits: HashLimits) {
        self.0.encoding = HashEncoding::Hashtable;
        self.outgrow(limits);
    }

    /// Turns a packed hash that reports a hash table and is not small into a tree.
    fn outgrow(&mut self, limits: HashLimits) {
        if let HashBody::Packed(packed) = &self.0.body
            && (packed.row().len() > PACKED_TABLE_BYTES_MAX || packed.len() > PACKED_TABLE_LEN_MAX)
        {
            self.tree(limits);
        }
    }

    /// Turns the hash into a tree that reports a hash table, and returns the tree.
    fn tree(&mut self, limits: HashLimits) -> &mut HashTree {
        self.0.encoding = HashEncoding::Hashtable;
        if let HashBody::Packed(packed) = &self.0.body {
            let mut tree = HashTree::new(limits.seed, Content::Fields);
            let (mut name_digits, mut value_digits) = (IntBuffer::new(), IntBuffer::new());
            let mut garbage = Vec::new();
            for field in packed.view().iter() {
                let (name, value) =
                    (field.name.bytes(&mut name_digits), field.value.bytes(&mut value_digits));
                tree.insert(name, value, Expiry::Clear, &mut garbage);
            }
            self.0.body = HashBody::Tree(tree);
        }
        match &mut self.0.body {
            HashBody::Tree(tree) => tree,
            HashBody::Packed(_) => unreachable!("the hash was just made a tree"),
        }
    }

    /// Sets the value of a field; returns whether the field is new.
    pub fn set(&mut self, name: &[u8], value: &[u8], expiry: Expiry, context: &mut HashContext) -> bool {
        let limits = context.limits;
        let volatile = matches!(expiry, Expiry::At(_));
        let long = name.len().max(value.len()) > limits.max_value;
        if self.0.encoding == HashEncoding::Listpack && (long || volatile) {
            self.0.encoding = HashEncoding::Hashtable;
        }
        if volatile || name.len().max(value.len()) > PACKED_TABLE_BYTES_MAX && long {
            self.tree(limits);
        }
        match &mut self.0.body {
            HashBody::Packed(packed) => {
                let is_new = packed.set(name, value);
                if packed.len() > limits.max_entries || packed.row().len() > ROW_BYTES_MAX {
                    self.0.encoding = HashEncoding::Hashtable;
                }
                if self.0.encoding == HashEncoding::Hashtable {
                    self.outgrow(limits);
                }
                is_new
            }
            HashBody::Tree(tree) => tree.insert(name, value, expiry, &mut context.garbage),
        }
    }

    /// Removes a field; returns whether it existed.
    pub fn remove(&mut self, name: &[u8], context: &mut HashContext) -> bool {
        match &mut self.0.body {
            HashBody::Packed(packed) => packed.remove(name),
            HashBody::Tree(tree) => tree.remove(name, &mut context.garbage),
        }
    }

    /// Removes these fields and returns how many existed. Costs the same as [`HashRef::get_each`].
    pub fn remove_each<'n>(
        &mut self,
        names: impl Iterator<Item = &'n [u8]>,
        context: &mut HashContext,
    ) -> usize {
        match &mut self.0.body {
            HashBody::Tree(tree) => tree.remove_each(names, &mut context.garbage),
            HashBody::Packed(_) => names.filter(|name| self.remove(name, context)).count(),
        }
    }

    /// Sets or clears the expiry of a field; returns whether the field exists.
    pub fn set_expiry(&mut self, name: &[u8], expiry: Option<i64>, context: &mut HashContext) -> bool {
        match (&mut self.0.body, expiry) {
            (HashBody::Packed(packed), None) => packed.view().get(name).is_some(),
            (HashBody::Packed(_), Some(_)) => self.tree(context.limits).set_expiry(name, expiry),
            (HashBody::Tree(tree), _) => tree.set_expiry(name, expiry),
        }
    }

    /// Removes up to `max` fields that have expired at `now_ms`, after `visit` has seen their names;
    /// returns the number removed.
    pub fn remove_expired(
        &mut self,
        now_ms: i64,
        max: usize,
        context: &mut HashContext,
        visit: impl FnMut(&[u8]),
    ) -> usize {
        match &mut self.0.body {
            HashBody::Packed(_) => 0,
            HashBody::Tree(tree) => {
                tree.remove_expired(now_ms.saturating_sub(1), max, &mut context.garbage, visit)
            }
        }
    }
}

/// Maximum bytes of an inline hash that reports a listpack. An edit copies the bytes out and back; a longer
/// row is edited in place.
const INLINE_LEN_MAX: usize = 1024;
/// Maximum bytes of an inline hash that reports a hash table. The alternative for such a hash is a tree,
/// which takes more memory and more time.
const INLINE_TABLE_LEN_MAX: usize = 2000;
/// Maximum bytes of entries in a packed hash that reports a hash table.
const PACKED_TABLE_BYTES_MAX: usize = 1900;
/// Maximum number of fields in a packed hash that reports a hash table, because its fields are searched
/// linearly.
const PACKED_TABLE_LEN_MAX: usize = 64;
/// Maximum bytes of a packed row, whatever the configured thresholds, so that its size fits in the 32 bits of
/// a listpack's header.
const ROW_BYTES_MAX: usize = 1 << 30;

const _: () = assert!(PACKED_TABLE_BYTES_MAX + packed::INLINE_HEADER_LEN <= INLINE_TABLE_LEN_MAX);
const _: () = assert!(listpack::EMPTY_LEN < INLINE_LEN_MAX);
