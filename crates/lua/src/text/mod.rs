//! Text of numbers and formatted text, as C's library and PUC-Rio's Lua 5.1 write and read them. Nothing in
//! this module uses values or the heap.

pub(crate) mod decimal;
pub(crate) mod format;
pub(crate) mod number;
