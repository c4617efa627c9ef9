//! Saving: the data written to the snapshot file: at one moment for SAVE, DEBUG RELOAD, FLUSHALL and the end
//! of the server; in the background for BGSAVE and at save points, by a job of `background.rs`.
//!
//! Invariants: (1) the file holds one moment: everybody waits, or a cut keeps it; (2) changes count as saved
//! only when the file is durable; (3) a failure leaves the file before, or the new one, and never a part of
//! one: see [`SnapshotSink`](crate::process::SnapshotSink).

pub mod in_place;

use sluice_config::SavePoint;

/// What becomes of the data when the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Saved if there are save points.
    ByConfig,
    /// Saved.
    Save,
    /// Not saved.
    NoSave,
}

/// Microseconds to wait behind the key of that number, as the setting `rdb-key-save-delay` wants it: so many,
/// or, where it is negative, one behind so many keys.
pub fn key_delay_us(setting: i64, number: u64) -> u64 {
    match u64::try_from(setting) {
        Ok(microseconds) => microseconds,
        Err(_) => u64::from(number.is_multiple_of(setting.unsigned_abs())),
    }
}

/// What commands ask of the jobs that write in the background. It is done, in order, after the command, or
/// after the unit that stands open.
#[derive(Clone, Debug)]
pub enum JobAsk {
    /// A save begins.
    Save(Why),
    /// What is written as an RDB file, for the disk or for replicas, is broken off.
    BreakSavesOff,
    /// A rewrite of the append-only file begins.
    Rewrite,
}

/// What saving in the background remembers between two steps.
#[derive(Clone, Debug, Default)]
pub struct Saving {
    /// A save shall begin when nothing else is written in the background.
    pub scheduled: bool,
    /// The save that is under way.
    pub under_way: Option<UnderWay>,
    /// The last one that ended failed.
    pub failed: bool,
    /// When one was begun last, seconds since the epoch.
    pub tried_s: i64,
    /// How long the last one took, seconds.
    pub last_s: Option<i64>,
    /// Bytes copied for commands that changed an entry while the last one was under way.
    pub last_copied_bytes: u64,
}

/// A save under way.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay {
    /// Changes that it has, of those since the save before.
    pub dirty: u64,
    /// When it began, seconds since the epoch.
    pub began_s: i64,
}

/// Why a save begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// BGSAVE.
    Command,
    /// The changes and the seconds of a save point.
    SavePoint(SavePoint),
}
