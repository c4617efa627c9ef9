//! The keyspace's integration tests, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod detached;
mod evict;
mod expire;
mod hash;
mod imports;
mod model;
mod slots;
mod walk;
mod zset;
