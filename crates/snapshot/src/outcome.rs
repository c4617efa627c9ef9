//! The result of a load, or the reason why it failed.

use crate::history::LoadedHistory;
use crate::write::Libraries;

/// Counts of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Keys that were loaded.
    pub loaded: u64,
    /// Keys that were left out because they, or all their fields, had expired.
    pub expired: u64,
    /// Keys that were left out because their values had no elements.
    pub empty: u64,
    /// Keys that were left out because this server lacks their type.
    pub skipped: u64,
    /// Module records, and auxiliary fields with unknown names that may hold data, that were dropped. Set to
    /// 0 once the file is kept under a second name, or if it need not be kept.
    pub dropped: u64,
}

/// The reason why a load failed; keys may have been loaded before the failure. The log has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// There is no such file.
    Missing,
    /// The file is malformed or cannot be read, or its contents (keys or function libraries) cannot be
    /// loaded.
    Failed,
    /// The load was stopped.
    Stopped,
}

/// Results of a load beside the loaded keys themselves.
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
