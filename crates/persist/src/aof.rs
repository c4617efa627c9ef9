//! The append-only file: a manifest that names files, and logs of commands that may begin with a snapshot.
//!
//! `docs/formats/aof.md` describes the bytes. The server handles folders, existing names and durability.

mod error;
mod manifest;
mod note;
mod reader;

pub use error::{LogError, LogProblem};
pub use manifest::{
    AofFile, AofFileKind, BaseFormat, Manifest, ManifestError, ManifestProblem, fuzz_manifest, manifest_name,
};
pub use note::{NO_HISTORY, ReplicationNote};
pub use reader::{LogItem, LogOptions, LogProgress, LogReader, LogTail, fuzz_aof};
