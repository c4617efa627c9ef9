//! The command table: what each command is, declared once, and everything that follows from the declaration.
//!
//! Invariants: (1) a [`Spec`] is immutable static data without counters, so I/O threads may read it beside
//! the executing thread; (2) keys, slots, ACL categories, arity, documentation and help derive from it; (3)
//! nothing here knows a handler, a session or a keyspace.
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
