//! The purpose of a load, and its treatment of old data and of duplicate keys.

use sluice_base::SessionKey;
use sluice_snapshot::Duplicates;

/// The options of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadPlan {
    /// The reason for the load.
    pub purpose: LoadPurpose,
    /// The treatment of the present data.
    pub old: OldData,
    /// The treatment of a key that is loaded twice, or that the present data has.
    pub duplicates: Duplicates,
    /// Whether the present data is served until the new data is loaded.
    pub serves_old: bool,
    /// Whether a snapshot of the primary was received into the RDB file and is loaded from there, so that
    /// the file has exactly the loaded data.
    pub is_of_file: bool,
}

impl LoadPlan {
    /// A load during which no data is served.
    pub fn new(purpose: LoadPurpose, old: OldData, duplicates: Duplicates) -> LoadPlan {
        LoadPlan { purpose, old, duplicates, serves_old: false, is_of_file: false }
    }
}

/// The purpose of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPurpose {
    /// The start of the server.
    Start,
    /// DEBUG RELOAD or DEBUG LOADAOF by this client, which waits for the end.
    Debug(SessionKey),
    /// A snapshot received from the primary.
    Sync,
}

/// The treatment of the present data by a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldData {
    /// The data is freed: with a snapshot, once its header is known to be valid; with an append-only
    /// file, once it is completely loaded.
    Freed,
    /// The file is loaded into the present data.
    Filled,
    /// The data stays until the snapshot is completely loaded, and is then freed; a failure keeps it.
    Kept,
}
