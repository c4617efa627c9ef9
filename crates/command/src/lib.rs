//! The command table: each command is declared once, and everything else about it is derived
//! from the declaration.
//!
//! Invariants: (1) a [`Spec`] is immutable static data without counters, so I/O threads may read it in
//! parallel with the main thread; (2) keys, slots, ACL categories, arity, documentation and help are
//! derived from it; (3) this crate knows no handler, no session and no keyspace.
#![forbid(unsafe_code)]

pub mod derive;
pub mod spec;
pub mod specs;
pub mod table;

pub use derive::doc::Doc;
pub use spec::{
    Arg, ArgKind, Arity, Begin, Cat, Find, Flags, Group, KeyAccess, KeyFlags, KeySpec, Keys, KeysFn, Spec,
    SpecId,
};
pub use table::{Named, is_word, lookup, lookup_full, lookup_sub, resolve};
