//! Test support without an engine: replies as text, a keyspace as text, RDB files of other servers.
//!
//! Invariant: nothing here depends on a crate above `keyspace`, so that the tests of `commands` and
//! `snapshot` are built without an engine. `testkit`, which has an engine, re-exports all of this.
#![forbid(unsafe_code)]

mod content;
mod foreign_rdb;
mod render;

pub use content::content;
pub use foreign_rdb::{FOREIGN_RDB_FILES, ForeignRdb, foreign_rdb};
pub use render::render;
