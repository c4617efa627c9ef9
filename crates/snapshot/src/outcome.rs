//! What a load has brought, or why it has brought nothing.

use crate::history::LoadedHistory;
use crate::write::Libraries;

/// What a load brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Keys that were loaded.
    pub loaded: u64,
    /// Keys that had expired.
    pub expired: u64,
    /// Keys whose values had no elements.
    pub empty: u64,
    /// Keys whose values are of types that are not there.
    pub skipped: u64,
    /// Records beside keys, and fields with data, that were dropped of a file which has no second name.
    pub dropped: u64,
}

/// Why nothing was loaded; the log says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// There is no such file.
    Missing,
    /// The file is no good, or cannot be read.
    Failed,
    /// The load was stopped.
    Stopped,
}

/// What a file brought beside the keys.
#[derive(Debug, Default)]
pub struct LoadResult {
    /// Numbers for INFO.
    pub counts: LoadCounts,
    /// Libraries of functions.
    pub libraries: Libraries,
    /// Where the data stand in a history of replication.
    pub history: LoadedHistory,
    /// The field `cluster-slot-states`, which primaries of clusters write for their replicas.
    pub slot_states: Option<Vec<u8>>,
}
