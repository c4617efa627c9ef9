//! Values: each type of the data model with its encodings, and what they cost.
//!
//! Strings are the first; a type joins as a variant of [`Value`] with its module. Small strings and integers do not
//! appear here: the keyspace keeps them inside the key's entry.
//!
//! A value moves. [`Value::share`] alone makes a second owner, in O(1). Code that reads values names every variant, so that a
//! new one is a compile error wherever values are read, copied, saved, digested, measured or freed; `cargo xtask probe`
//! proves it by adding one.
#![forbid(unsafe_code)]

use sluice_base::Bytes;

/// A value that lives beside its entry: a large string, or (later) a collection. It has no `Clone`: see [`Value::share`].
#[derive(Debug)]
#[cfg_attr(sluice_probe = "value", non_exhaustive)]
pub enum Value {
    /// A string too large for its entry.
    Str(Bytes),
    /// Nothing: the variant that `cargo xtask probe` adds.
    #[cfg(sluice_probe = "variant")]
    Probe,
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
    /// Bytes allocated beyond the enum itself. O(1).
    pub fn heap_bytes(&self) -> usize {
        match self {
            // The reference count and the vector's header, then the contents.
            Value::Str(bytes) => 40 + bytes.capacity(),
        }
    }

    /// A second owner of the same contents. A writer copies what it changes while there are two. O(1).
    pub fn share(&self) -> Value {
        match self {
            Value::Str(bytes) => Value::Str(bytes.clone()),
        }
    }
}
