//! The result of a load, or the reason why nothing was loaded.

use crate::history::LoadedHistory;
use crate::write::Libraries;

/// Counts of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Keys that were loaded.
    pub loaded: u64,
    /// Keys that were left out because they had expired.
    pub expired: u64,
    /// Keys whose values had no elements.
    pub empty: u64,
    /// Keys that were left out because this server lacks their type.
    pub skipped: u64,
    /// Records beside keys, and fields with data, that were dropped; 0 once the file is kept under
    /// a second name.
    pub dropped: u64,
}

/// The reason why nothing was loaded; the log has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// There is no such file.
    Missing,
    /// The file is malformed, or cannot be read.
    Failed,
    /// The load was stopped.
    Stopped,
}

/// Contents of a file beside the keys.
#[derive(Debug, Default)]
pub struct LoadResult {
    /// Counts of keys and dropped records, for INFO.
    pub counts: LoadCounts,
    /// Source code of the file's function libraries.
    pub libraries: Libraries,
    /// The position of the data in a replication history.
    pub history: LoadedHistory,
    /// The field `cluster-slot-states`, which cluster primaries write for their replicas.
    pub slot_states: Option<Vec<u8>>,
}
