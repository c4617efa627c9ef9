//! Persistence formats, RDB and the append-only file, as conversions of bytes. Knows no files
//! and no keyspace.
//!
//! Invariants: (1) external bytes never cause a panic, nor allocations beyond 264 times their number,
//! which is the most that compression can yield; (2) a reader reads back the output of its writer.
#![forbid(unsafe_code)]

pub mod aof;
pub mod rdb;
