//! Text of numbers and formatted text, as C's library and PUC's Lua 5.1 write and read them. Independent of
//! values and the heap.

pub(crate) mod decimal;
pub(crate) mod format;
pub(crate) mod number;
