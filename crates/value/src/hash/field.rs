//! A field of a hash, as it is read.

use crate::ListItem;

/// A field as it is read.
#[derive(Clone, Copy, Debug)]
pub struct HashField<'a> {
    /// The field.
    pub name: ListItem<'a>,
    /// Its value.
    pub value: ListItem<'a>,
    /// When it expires, ms since the epoch.
    pub expiry: Option<i64>,
}
