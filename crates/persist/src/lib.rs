//! Persistence formats as byte transducers: RDB and the append-only file. Knows no file and no keyspace.
//!
//! Invariants: (1) bytes from outside never panic and never make it allocate more than their number allows
//! (264 times at most, what the compression can yield); (2) what a writer writes its reader reads back.
#![forbid(unsafe_code)]

pub mod aof;
pub mod rdb;
