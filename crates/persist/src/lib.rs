//! Persistence formats, RDB and the append-only file, as conversions of bytes. The crate accesses neither the
//! file system nor a keyspace.
//!
//! Invariants: (1) external bytes never cause a panic, and memory grows with the bytes that have arrived and
//! been decompressed, never by an announced length alone; (2) a reader reads back the output of its writer.
#![forbid(unsafe_code)]

pub mod aof;
pub mod rdb;
