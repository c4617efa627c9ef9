//! Claims about the whole crate.
