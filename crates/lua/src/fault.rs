//! What ends an operation other than by a result: an error that a program can catch.
//!
//! Invariant: a fault is two words and allocates; nothing on a path without errors makes one.

use crate::value::Value;

/// An error on its way to whoever catches it. The machine adds what only the machine knows: position and
/// names.
#[derive(Debug)]
pub struct Fault(Box<Cause>);

/// What a [`Fault`] is about.
#[derive(Debug)]
pub(crate) enum Cause {
    /// A value that is thrown as it is.
    Value(Value),
    /// A text; the position of the function that called the native one is put in front.
    Text(Vec<u8>),
    /// A text; the position of the running function is put in front, when that is of the language.
    Bare(Vec<u8>),
    /// A text without a position.
    WithoutPosition(Vec<u8>),
    /// A wrong argument of a native function: its number, and what is wrong.
    Argument(usize, Vec<u8>),
    /// A value that gets the position of a level when it is a string, as `error` does.
    Level(Value, u32),
    /// A limit on bytes was met.
    Memory,
}

impl Fault {
    /// An error of a native function with a text, as `luaL_error` makes it.
    #[cold]
    pub fn text(text: impl Into<Vec<u8>>) -> Fault {
        Fault(Box::new(Cause::Text(text.into())))
    }

    /// An error of an operation on values: its text gets a position where an instruction does it, and none in
    /// a native function.
    #[cold]
    pub(crate) fn bare(text: impl Into<Vec<u8>>) -> Fault {
        Fault(Box::new(Cause::Bare(text.into())))
    }

    /// An error whose text gets no position.
    #[cold]
    pub(crate) fn without_position(text: impl Into<Vec<u8>>) -> Fault {
        Fault(Box::new(Cause::WithoutPosition(text.into())))
    }

    /// `bad argument #index to 'name' (text)`; `index` counts from 1.
    #[cold]
    pub fn argument(index: usize, text: impl Into<Vec<u8>>) -> Fault {
        Fault(Box::new(Cause::Argument(index, text.into())))
    }

    /// Throws a value as it is.
    #[cold]
    pub fn value(value: Value) -> Fault {
        Fault(Box::new(Cause::Value(value)))
    }

    /// `not enough memory`
    #[cold]
    pub fn memory() -> Fault {
        Fault(Box::new(Cause::Memory))
    }

    #[cold]
    pub(crate) fn level(value: Value, level: u32) -> Fault {
        Fault(Box::new(Cause::Level(value, level)))
    }

    /// Whether an operation on values failed, in an instruction perhaps.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(*self.0, Cause::Bare(_))
    }

    pub(crate) fn into_cause(self) -> Cause {
        *self.0
    }
}
