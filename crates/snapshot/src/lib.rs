//! Snapshots of a keyspace: written in pieces as an RDB file or as commands, and read back into a keyspace.
//!
//! ```text
//!  Keyspace, or captured entries ──SnapshotFile──► pieces of 256 KiB ──► a file, a replica
//!  a file, a primary ──SnapshotSource──► FileLoad ──► Keyspace, libraries, a point of a history
//! ```
//!
//! Invariants: (1) this crate opens no file and starts no thread: bytes come from a [`SnapshotSource`] and go
//! to a closure; (2) beside the keyspace, a load or a save keeps in memory about one piece, the value being
//! read or written, the function libraries, and the names of expired keys that replicas still have; (3) the
//! numbers of keys that a file states are hints, bounded by the size of the file; (4) unknown parts are not
//! passed on: module records beside the keys and auxiliary fields with unknown names are dropped while a file
//! is read, and the log names the first of them.
#![forbid(unsafe_code)]

mod commands;
mod file;
mod foreign;
mod history;
mod outcome;
mod progress;
mod source;
mod staged;
mod write;

pub use commands::{ValuePosition, write_commands};
pub use file::{Duplicates, FileLoad, LoadOptions, PreambleLoad, keep_dropped, piece_bytes, under_way_line};
pub use history::{LeftOut, LoadedHistory};
pub use outcome::{LoadCounts, LoadResult, NotLoaded};
pub use progress::{LoadNews, LoadOutcome, LoadProgress, LoadThread, Reporter};
pub use source::SnapshotSource;
pub use write::{
    Give, Libraries, RdbAux, SnapshotFile, options, options_for_replicas, pieces_without_keys, write,
};
