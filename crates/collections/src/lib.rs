//! The data structures of the keyspace: blocks of bytes in size classes, the hash index over them,
//! listpacks and intsets, tables of fields that can be shared, and bits.
//!
//! Invariants: (1) this crate does not know of servers, keys or clients; (2) no operation's pause grows
//! with the size of the structure, except where its documentation says so; (3) only `slab.rs`,
//! `slab/memory.rs` and `arch.rs` contain `unsafe`.

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
