//! What a load is for, what becomes of the old data, and of keys that come twice.

use sluice_base::SessionKey;
use sluice_snapshot::Duplicates;

/// What a load is to do.
#[derive(Clone, Copy, Debug)]
pub struct LoadPlan {
    /// The reason for the load.
    pub purpose: LoadPurpose,
    /// What becomes of the data that are there.
    pub old: OldData,
    /// What a key that comes twice means.
    pub duplicates: Duplicates,
    /// The data that are there are served until the others are loaded.
    pub serves_old: bool,
    /// The data are those of the RDB file, and of nothing else.
    pub is_of_file: bool,
}

impl LoadPlan {
    /// A load during which nothing is served.
    pub fn new(purpose: LoadPurpose, old: OldData, duplicates: Duplicates) -> LoadPlan {
        LoadPlan { purpose, old, duplicates, serves_old: false, is_of_file: false }
    }
}

/// What a load is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPurpose {
    /// The start of the server.
    Start,
    /// DEBUG RELOAD or DEBUG LOADAOF of this client, which waits for it.
    Debug(SessionKey),
    /// A snapshot of the primary.
    Sync,
}

/// What becomes of the data that are there when a load begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldData {
    /// They are freed: as soon as the header of a snapshot was found good; when an append-only file was
    /// loaded whole.
    Freed,
    /// The file is loaded into them.
    Filled,
    /// They stay until the snapshot is loaded whole, and are freed then: a failure leaves them.
    Kept,
}
