//! Text of numbers and formatted text, as C's library and PUC's Lua 5.1 write and read it. Knows no value and
//! no heap.

pub(crate) mod decimal;
pub(crate) mod format;
pub(crate) mod number;
