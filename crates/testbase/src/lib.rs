//! What tests share that need no engine: replies as text, a keyspace as text, RDB files of other servers.
//!
//! Invariant: nothing here depends on a crate above `keyspace`, so that the tests of `commands` and
//! `snapshot` are built without an engine. `testkit`, which has one, passes all of this on.
#![forbid(unsafe_code)]

mod content;
mod foreign_rdb;
mod render;

pub use content::content;
pub use foreign_rdb::{FOREIGN_RDB_FILES, ForeignRdb, foreign_rdb};
pub use render::render;
