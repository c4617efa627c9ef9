//! The structures that the keyspace is made of: blocks of bytes in size classes, the hash index over them,
//! rows of elements, tables of fields that can be shared, and bits.
//!
//! Invariants: (1) nothing here knows that a server, a key or a client exists; (2) no operation's pause grows
//! with the size of the structure, except where its documentation says so; (3) `unsafe` lives in `slab.rs`,
//! `slab/memory.rs` and `arch.rs` alone.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod arch;
pub mod bits;
pub mod hash_tree;
pub mod index;
pub mod intset;
pub mod listpack;
#[allow(unsafe_code)]
pub mod slab;

pub use arch::prefetch_items;
pub use hash_tree::HashTree;
pub use index::Index;
pub use slab::{Handle, Slab, TypedSlab};
