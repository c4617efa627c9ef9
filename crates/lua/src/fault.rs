//! Errors that a program can catch.
//!
//! Invariant: a fault is one pointer and allocates; code paths without errors make none.

use crate::value::Value;

/// An error, on its way to the call that catches it. The machine adds position and variable names, which
/// only the machine has.
#[derive(Debug)]
pub struct Fault(Box<Cause>);

/// The content of a [`Fault`].
#[derive(Debug)]
pub(crate) enum Cause {
    /// A value that is thrown unchanged.
    Value(Value),
    /// A text; the machine prefixes the position of the function that called the native one.
    Text(Vec<u8>),
    /// A text; the machine prefixes the position of the running function, if that is a Lua function.
    Bare(Vec<u8>),
    /// A text that gets no position.
    WithoutPosition(Vec<u8>),
    /// A wrong argument of a native function: its number, and a description.
    Argument(usize, Vec<u8>),
    /// A value that gets the position of a call level if it is a string, as for `error`.
    Level(Value, u32),
    /// The limit on bytes is exceeded.
    Memory,
}

impl Fault {
    /// An error of a native function with a text, like that of `luaL_error`.
    #[cold]
    pub fn text(text: impl Into<Vec<u8>>) -> Fault {
        Fault(Box::new(Cause::Text(text.into())))
    }

    /// An error of an operation on values. Its text gets a position if an instruction executes the
    /// operation, and none in a native function.
    #[cold]
    pub(crate) fn bare(text: impl Into<Vec<u8>>) -> Fault {
        Fault(Box::new(Cause::Bare(text.into())))
    }

    /// An error whose text gets no position.
    #[cold]
    pub(crate) fn without_position(text: impl Into<Vec<u8>>) -> Fault {
        Fault(Box::new(Cause::WithoutPosition(text.into())))
    }

    /// The error `bad argument #index to 'name' (text)`; `index` counts from 1.
    #[cold]
    pub fn argument(index: usize, text: impl Into<Vec<u8>>) -> Fault {
        Fault(Box::new(Cause::Argument(index, text.into())))
    }

    /// An error whose value is thrown unchanged.
    #[cold]
    pub fn value(value: Value) -> Fault {
        Fault(Box::new(Cause::Value(value)))
    }

    /// The error `not enough memory`.
    #[cold]
    pub fn memory() -> Fault {
        Fault(Box::new(Cause::Memory))
    }

    #[cold]
    pub(crate) fn level(value: Value, level: u32) -> Fault {
        Fault(Box::new(Cause::Level(value, level)))
    }

    /// Whether this is the error of an operation on values, which gets a position if an instruction
    /// executes the operation.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(*self.0, Cause::Bare(_))
    }

    pub(crate) fn into_cause(self) -> Cause {
        *self.0
    }
}
