//! A load in progress, and its end, as seen by the main thread.

mod installation;

use crate::persistence::loading::plan::LoadPlan;
use sluice_base::Now;
use sluice_commands::CmdError;
use sluice_config::{Config, param};
use sluice_scripts::functions::LoadedFunctions;
use sluice_snapshot::{LoadProgress, NotLoaded};
use std::sync::Arc;

/// The kind of file that a load reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadedFrom {
    /// A snapshot in the RDB format.
    Snapshot,
    /// The files of an append-only file.
    Aof,
}

impl LoadedFrom {
    /// The log line after a load that a client requested.
    pub fn done(self) -> &'static str {
        match self {
            LoadedFrom::Snapshot => RELOADED,
            LoadedFrom::Aof => AOF_LOADED,
        }
    }

    /// The error reply after a failed load.
    pub fn failed(self) -> CmdError {
        match self {
            LoadedFrom::Snapshot => NOT_RELOADED,
            LoadedFrom::Aof => AOF_NOT_LOADED,
        }
    }
}

/// The end of a load, by its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadEnded {
    /// The load at the start. After an error the server cannot serve; the reason is logged.
    Start(Result<(), NotLoaded>),
    /// DEBUG RELOAD or DEBUG LOADAOF; the client has been answered.
    Debug,
    /// A snapshot received from the primary.
    Sync(Result<(), NotLoaded>),
}

/// A load in progress.
#[derive(Debug)]
pub struct LoadUnderWay {
    /// The options of the load.
    pub plan: LoadPlan,
    /// The kind of file that is loaded.
    pub from: LoadedFrom,
    /// The progress of the load's thread.
    pub progress: Arc<LoadProgress>,
    /// Time at which the load began.
    pub began: Now,
    /// Whether the previous data has been freed.
    pub has_freed: bool,
    /// The libraries of functions, stored here by the load.
    functions: LoadedFunctions,
}

/// The progress of a load, for INFO.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoadFigures {
    /// Start of the load, in seconds since the epoch.
    pub start_s: i64,
    /// Size of the file in bytes; 0 if unknown.
    pub total_bytes: u64,
    pub rdb_used_memory: u64,
    pub loaded_bytes: u64,
    pub percent: f64,
    pub eta_s: u64,
}

impl LoadUnderWay {
    /// The progress at `now`.
    pub(crate) fn figures(&self, now: Now) -> LoadFigures {
        let [total_bytes, loaded_bytes, rdb_used_memory] = self.progress.bytes();
        let spent_s = u64::try_from(now.unix_s() - self.began.unix_s()).unwrap_or(0);
        // If the size is unknown, the memory that the server had in use when it wrote the file serves as an
        // estimate.
        let expected = if total_bytes > 0 { total_bytes } else { rdb_used_memory };
        let percent = if expected > 0 { loaded_bytes as f64 * 100.0 / expected as f64 } else { 0.0 };
        let left = if expected > 0 {
            expected.saturating_sub(loaded_bytes).max(u64::from(total_bytes == 0))
        } else {
            1
        };
        // In the first second there is no rate yet, and the reference shows 1.
        let eta_s = if spent_s == 0 { 1 } else { spent_s.saturating_mul(left) / (loaded_bytes + 1) };
        LoadFigures {
            start_s: self.began.unix_s(),
            total_bytes,
            rdb_used_memory,
            loaded_bytes,
            percent,
            eta_s,
        }
    }

    /// Bytes loaded so far, and the total if known.
    pub(crate) fn bytes(&self) -> (u64, Option<u64>) {
        let [total, loaded, _] = self.progress.bytes();
        (loaded, Some(total).filter(|total| *total > 0))
    }

    /// Start of the load, in ns of the monotonic clock.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began.mono_ns
    }

    /// Applies a changed `key-load-delay`.
    pub(crate) fn set_key_delay(&self, config: &Config) {
        self.progress.set_key_delay(config.int(param::KEY_LOAD_DELAY));
    }

    /// Whether the present data is served during the load.
    #[inline]
    pub fn is_async(&self) -> bool {
        self.plan.serves_old
    }

    /// Number of keys loaded so far, and of keys left out because they have expired.
    pub(crate) fn keys(&self) -> (u64, u64) {
        self.progress.keys()
    }
}

const RELOADED: &str = "DB reloaded by DEBUG RELOAD";
const AOF_LOADED: &str = "Append Only File loaded by DEBUG LOADAOF";
/// The error reply of DEBUG RELOAD if the load failed.
pub(crate) const NOT_RELOADED: CmdError =
    CmdError::text("ERR Error trying to load the RDB dump, check server logs.");
/// The error reply of DEBUG LOADAOF if the load failed.
const AOF_NOT_LOADED: CmdError = CmdError::text("ERR Error trying to load the AOF files, check server logs.");
