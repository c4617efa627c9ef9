//! A load as the main thread sees it: begun, watched, and at its end.

mod installation;

use crate::persistence::loading::plan::LoadPlan;
use sluice_base::Now;
use sluice_commands::CmdError;
use sluice_config::{Config, param};
use sluice_scripts::functions::LoadedFunctions;
use sluice_snapshot::{LoadProgress, NotLoaded};
use std::sync::Arc;

/// Where the data of a load come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadedFrom {
    /// From a snapshot.
    Snapshot,
    /// From an append-only file.
    Aof,
}

impl LoadedFrom {
    /// The line of the log behind a load that a client asked for.
    pub fn done(self) -> &'static str {
        match self {
            LoadedFrom::Snapshot => RELOADED,
            LoadedFrom::Aof => AOF_LOADED,
        }
    }

    /// The answer where nothing was loaded.
    pub fn failed(self) -> CmdError {
        match self {
            LoadedFrom::Snapshot => NOT_RELOADED,
            LoadedFrom::Aof => AOF_NOT_LOADED,
        }
    }
}

/// A load that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadEnded {
    /// That of the start. An error, and the server cannot serve; the log says why.
    Start(Result<(), NotLoaded>),
    /// That of DEBUG RELOAD or DEBUG LOADAOF, whose client has its answer.
    Debug,
    /// That of a snapshot of the primary.
    Sync(Result<(), NotLoaded>),
}

/// A load under way.
#[derive(Debug)]
pub struct LoadUnderWay {
    /// What is to be done.
    pub plan: LoadPlan,
    /// Where the data come from.
    pub from: LoadedFrom,
    /// What the thread tells of its work.
    pub progress: Arc<LoadProgress>,
    /// When it began.
    pub began: Now,
    /// Whether the data before have gone.
    pub has_freed: bool,
    /// The libraries of functions that the load has brought.
    functions: LoadedFunctions,
}

/// How far a load is, as INFO shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoadFigures {
    /// Seconds since the epoch.
    pub start_s: i64,
    /// Bytes of the file; 0 where that is not known.
    pub total_bytes: u64,
    pub rdb_used_memory: u64,
    pub loaded_bytes: u64,
    pub percent: f64,
    pub eta_s: u64,
}

impl LoadUnderWay {
    /// The figures at a moment.
    pub(crate) fn figures(&self, now: Now) -> LoadFigures {
        let [total_bytes, loaded_bytes, rdb_used_memory] = self.progress.bytes();
        let spent_s = u64::try_from(now.unix_s() - self.began.unix_s()).unwrap_or(0);
        // Where nobody has said how many bytes come, about as many as the writer had in use.
        let expected = if total_bytes > 0 { total_bytes } else { rdb_used_memory };
        let percent = if expected > 0 { loaded_bytes as f64 * 100.0 / expected as f64 } else { 0.0 };
        let left = if expected > 0 {
            expected.saturating_sub(loaded_bytes).max(u64::from(total_bytes == 0))
        } else {
            1
        };
        // The reference's figure where there is nothing to reckon with yet.
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

    /// Bytes loaded so far, and all of them, where that is known.
    pub(crate) fn bytes(&self) -> (u64, Option<u64>) {
        let [total, loaded, _] = self.progress.bytes();
        (loaded, Some(total).filter(|total| *total > 0))
    }

    /// When it began, monotonic ns.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began.mono_ns
    }

    /// Has another `key-load-delay` take effect.
    pub(crate) fn set_key_delay(&self, config: &Config) {
        self.progress.set_key_delay(config.int(param::KEY_LOAD_DELAY));
    }

    /// Whether the data that are there are served meanwhile.
    #[inline]
    pub fn is_async(&self) -> bool {
        self.plan.serves_old
    }

    /// Keys loaded so far, and keys left out because they have expired.
    pub(crate) fn keys(&self) -> (u64, u64) {
        self.progress.keys()
    }
}

const RELOADED: &str = "DB reloaded by DEBUG RELOAD";
const AOF_LOADED: &str = "Append Only File loaded by DEBUG LOADAOF";
/// The answer of DEBUG RELOAD when nothing was loaded.
pub(crate) const NOT_RELOADED: CmdError =
    CmdError::text("ERR Error trying to load the RDB dump, check server logs.");
/// The answer of DEBUG LOADAOF when nothing was loaded.
const AOF_NOT_LOADED: CmdError = CmdError::text("ERR Error trying to load the AOF files, check server logs.");
