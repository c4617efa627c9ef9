//! Values: each type of the data model with its encodings, and what they cost.
//!
//! Strings are the first; a type joins as a variant of [`Value`] with its module. Small strings and integers do not
//! appear here: the keyspace keeps them inside the key's entry.
#![forbid(unsafe_code)]

pub mod list;

use sluice_base::Bytes;

pub use list::{List, ListContext, ListEncoding, ListItem, ListIter, ListLimits, ListRef};

/// A value that lives beside its entry: a large string, or (later) a collection.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string too large for its entry.
    Str(Bytes),
}

/// The type of a value, as TYPE answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A string.
    String,
}

impl Type {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
        }
    }
}

/// How a value is stored, as OBJECT ENCODING answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A 64-bit integer.
    Int,
    /// Bytes in one piece with their entry.
    Embstr,
    /// Bytes of their own.
    Raw,
}

impl Encoding {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Embstr => "embstr",
            Encoding::Raw => "raw",
        }
    }
}

impl Value {
    /// The value's type.
    pub fn type_of(&self) -> Type {
        match self {
            Value::Str(_) => Type::String,
        }
    }

    /// Bytes allocated beyond the enum itself. O(1).
    pub fn heap_bytes(&self) -> usize {
        match self {
            // The reference count and the vector's header, then the contents.
            Value::Str(bytes) => 40 + bytes.capacity(),
        }
    }
}
