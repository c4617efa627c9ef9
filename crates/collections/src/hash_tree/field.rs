//! Fields of a tree, for reading and writing.

use sluice_base::Bytes;

/// The kind of a tree's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A hash: fields with values.
    Fields,
    /// A set: members, without values.
    Members,
}

/// A string of a tree.
#[derive(Clone, Copy, Debug)]
pub enum TreeText<'a> {
    /// A string that is stored in its leaf.
    Bytes(&'a [u8]),
    /// A string with its own allocation, which a reply can share.
    Shared(&'a Bytes),
}

impl<'a> TreeText<'a> {
    /// Bytes of the string.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            TreeText::Bytes(bytes) => bytes,
            TreeText::Shared(bytes) => bytes,
        }
    }
}

/// A field for reading, borrowed from its leaf.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The field's name, or the member of a set.
    pub name: TreeText<'a>,
    /// The value; empty in a tree of members.
    pub value: TreeText<'a>,
    /// Time at which the field expires, ms since the epoch; `None` for never.
    pub expiry: Option<i64>,
}

/// The change of a field's expiry when its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The field keeps its expiry, if it has one.
    Keep,
    /// The field has no expiry afterwards.
    Clear,
    /// The field expires at this time, ms since the epoch.
    At(i64),
}
