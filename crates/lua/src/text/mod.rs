//! Text of numbers.

pub(crate) mod number;
