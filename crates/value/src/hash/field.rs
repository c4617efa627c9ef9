//! A field of a hash, for reading.

use crate::ListItem;

/// A field with its value and expiry, borrowed from the hash.
#[derive(Clone, Copy, Debug)]
pub struct HashField<'a> {
    /// Name of the field.
    pub name: ListItem<'a>,
    /// Value of the field.
    pub value: ListItem<'a>,
    /// Time at which the field expires, ms since the epoch; `None` for never.
    pub expiry: Option<i64>,
}
