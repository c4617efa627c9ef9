//! Saving on threads: snapshots and bases of the append-only file, and what waits in a spool for replicas.

pub mod background;
pub mod snapshot;
pub mod spool;
pub mod stream_spool;
