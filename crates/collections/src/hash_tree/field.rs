//! Fields, as they are read and written.

use sluice_base::Bytes;

/// What a tree holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Fields with values.
    Fields,
    /// Members: no values.
    Members,
}

/// A string of a tree.
#[derive(Clone, Copy, Debug)]
pub enum TreeText<'a> {
    /// In its leaf.
    Bytes(&'a [u8]),
    /// With memory of its own, which a reply can share.
    Shared(&'a Bytes),
}

impl<'a> TreeText<'a> {
    /// The string.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            TreeText::Bytes(bytes) => bytes,
            TreeText::Shared(bytes) => bytes,
        }
    }
}

/// A field as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The field, or the member of a set.
    pub name: TreeText<'a>,
    /// The value; empty in a tree of members.
    pub value: TreeText<'a>,
    /// When the field expires, ms since the epoch.
    pub expiry: Option<i64>,
}

/// What becomes of a field's expiry when its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// What there was stays.
    Keep,
    /// None.
    Clear,
    /// This one, ms since the epoch.
    At(i64),
}
