//! Saving the data to the RDB file: in place for SAVE, DEBUG RELOAD, FLUSHALL and shutdown; in the
//! background for BGSAVE and at save points, by a job of `background.rs`.
//!
//! Invariants: (1) the file has the data of one moment: either all clients wait, or a cut preserves it;
//! (2) changes count as saved only once the file is durable; (3) a failure leaves the old file or the new
//! one, never a part of one: see [`SnapshotSink`](crate::process::SnapshotSink).

pub mod in_place;

use sluice_config::SavePoint;

/// Whether the data is saved when the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Saved if there are save points.
    ByConfig,
    /// Saved even without save points.
    Save,
    /// Not saved, whatever the save points.
    NoSave,
}

/// Microseconds to wait after key `number`, for the setting `rdb-key-save-delay`: the setting itself. A
/// negative setting -n means one microsecond after every n-th key.
pub fn key_delay_us(setting: i64, number: u64) -> u64 {
    match u64::try_from(setting) {
        Ok(microseconds) => microseconds,
        Err(_) => u64::from(number.is_multiple_of(setting.unsigned_abs())),
    }
}

/// A command's request to the background jobs, carried out in order after the command, or after the
/// transaction or script to which the command belongs.
#[derive(Clone, Debug)]
pub enum JobAsk {
    /// Begin a save for this reason.
    Save(Why),
    /// Break off the RDB file being written, for the disk or for replicas.
    BreakSavesOff,
    /// Begin a rewrite of the append-only file.
    Rewrite,
}

/// The state of background saves between two steps.
#[derive(Clone, Debug, Default)]
pub struct Saving {
    /// A save begins as soon as no other background job runs.
    pub scheduled: bool,
    /// The save in progress, if any.
    pub under_way: Option<UnderWay>,
    /// Whether the last completed save failed.
    pub failed: bool,
    /// Start of the last save, in seconds since the epoch.
    pub tried_s: i64,
    /// Duration of the last save, in seconds; `None` before the first.
    pub last_s: Option<i64>,
    /// Bytes of entries that were copied during the last save because commands changed them before they were
    /// written (copy on write).
    pub last_copied_bytes: u64,
}

/// A background save in progress.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay {
    /// Number of changes since the previous save that the file contains.
    pub dirty: u64,
    /// Start of the save, in seconds since the epoch.
    pub began_s: i64,
}

/// The reason for a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// BGSAVE, with or without SCHEDULE.
    Command,
    /// A save point was reached.
    SavePoint(SavePoint),
}
