//! Saving on threads: snapshots, bases of the append-only file, and spools for replicas.

pub mod background;
pub mod snapshot;
pub mod spool;
pub mod stream_spool;
