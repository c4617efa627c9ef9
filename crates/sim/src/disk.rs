//! What of a node outlives its crash: the RDB file, and the append-only file with what of it is durable.
//!
//! Invariants: (1) the RDB file, and which files are in force, change in one step, which is durable; how the
//! server gets that from a disk is tested with its own storage; (2) bytes of a log are durable as far as it
//! was synced; a crash leaves these and any number of those behind them; (3) what a sync that has failed
//! should have made durable, and what is written behind that, never is: the kernel takes it for written.
//!
//! A disk that is faulty refuses what [`DiskFault`] says until it is healed. A write that it refuses may have
//! been written in part.

use sluice_base::Rng;
use sluice_control::process::{AofFiles, AofPart, AofSource};
use sluice_snapshot::SnapshotSource;
use sluice_testkit::Snapshots;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a disk refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// Writes, for want of room, and new files.
    Full,
    /// Writes, and new files.
    Writes,
    /// Syncs.
    Syncs,
    /// Reads.
    Reads,
}

impl DiskFault {
    /// All of them.
    pub const ALL: [DiskFault; 4] = [DiskFault::Full, DiskFault::Writes, DiskFault::Syncs, DiskFault::Reads];

    fn of_write(self) -> Option<Refusal> {
        match self {
            DiskFault::Full => Some("No space left on device"),
            DiskFault::Writes => Some(IO_ERROR),
            DiskFault::Syncs | DiskFault::Reads => None,
        }
    }

    fn of_sync(self) -> Option<Refusal> {
        (self == DiskFault::Syncs).then_some(IO_ERROR)
    }
}

/// Why a disk refuses something: the system's reason.
pub type Refusal = &'static str;

/// A log: bytes, and how many of them are durable.
#[derive(Debug, Default)]
struct AofLog {
    bytes: Vec<u8>,
    durable: usize,
    /// A sync of it has failed.
    is_lost: bool,
    /// A crash has taken its end behind such a sync.
    is_cut_off: bool,
}

impl AofLog {
    /// What a crash leaves of the log may end within a command.
    fn has_lost_end(&self) -> bool {
        self.is_lost || self.is_cut_off
    }
}

/// The files that the next start reads.
#[derive(Clone, Debug)]
struct InForce {
    base: Vec<u8>,
    logs: Vec<usize>,
}

/// The append-only file.
#[derive(Debug, Default)]
pub struct AofDisk {
    logs: Vec<AofLog>,
    in_force: Option<InForce>,
    fault: Option<DiskFault>,
}

impl AofDisk {
    fn check_write(&self) -> Result<(), Refusal> {
        self.fault.and_then(DiskFault::of_write).map_or(Ok(()), Err)
    }

    fn check_read(&self) -> Result<(), String> {
        match self.fault {
            Some(DiskFault::Reads) => Err(IO_ERROR.to_owned()),
            Some(DiskFault::Full | DiskFault::Writes | DiskFault::Syncs) | None => Ok(()),
        }
    }
}

/// The files of one node.
#[derive(Clone, Default)]
pub struct Disk {
    /// RDB files by name.
    pub snapshots: Snapshots,
    aof: Arc<Mutex<AofDisk>>,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, AofDisk> {
        self.aof.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses this from now on, or nothing.
    pub fn set_fault(&self, fault: Option<DiskFault>) {
        self.lock().fault = fault;
    }

    /// What it refuses.
    pub fn fault(&self) -> Option<DiskFault> {
        self.lock().fault
    }

    /// Why nothing can be written.
    pub fn write_fault(&self) -> Option<Refusal> {
        self.fault().and_then(DiskFault::of_write)
    }

    /// Why no file can be written, made durable and given its name.
    pub fn commit_fault(&self) -> Option<Refusal> {
        let fault = self.fault()?;
        fault.of_write().or(fault.of_sync())
    }

    /// A log that no start reads yet.
    pub fn add_log(&self) -> Result<usize, Refusal> {
        let mut aof = self.lock();
        aof.check_write()?;
        aof.logs.push(AofLog::default());
        Ok(aof.logs.len() - 1)
    }

    /// How long a log is.
    pub fn len(&self, log: usize) -> usize {
        self.lock().logs[log].bytes.len()
    }

    /// Appends to a log. Errors: so many bytes were appended even so, because they could not be cut off
    /// again; and the reason.
    pub fn append(&self, log: usize, bytes: &[u8], rng: &mut Rng) -> Result<(), (usize, Refusal)> {
        let mut aof = self.lock();
        let result = aof.check_write().map_err(|reason| match rng.below(2) {
            0 => (0, reason),
            _ => (rng.below(bytes.len() as u64 + 1) as usize, reason),
        });
        let written = result.map_or_else(|(part, _)| part, |()| bytes.len());
        aof.logs[log].bytes.extend_from_slice(&bytes[..written]);
        result
    }

    /// So many bytes of a log are durable from now on.
    pub fn sync(&self, log: usize, len: usize) -> Result<(), Refusal> {
        let mut aof = self.lock();
        let refusal = aof.fault.and_then(DiskFault::of_sync);
        let log = &mut aof.logs[log];
        log.is_lost |= refusal.is_some();
        if !log.is_lost {
            log.durable = log.durable.max(len.min(log.bytes.len()));
        }
        refusal.map_or(Ok(()), Err)
    }

    /// A start reads this base and these logs from now on. Errors: nothing has changed.
    pub fn put_in_force(&self, base: Vec<u8>, logs: Vec<usize>) -> Result<(), Refusal> {
        if let Some(reason) = self.commit_fault() {
            return Err(reason);
        }
        logs.iter().try_for_each(|log| self.sync(*log, usize::MAX))?;
        let mut aof = self.lock();
        let old = aof.in_force.replace(InForce { base, logs });
        for log in old.into_iter().flat_map(|old| old.logs) {
            let is_used = aof.in_force.as_ref().is_some_and(|now| now.logs.contains(&log));
            if !is_used {
                aof.logs[log] = AofLog::default();
            }
        }
        Ok(())
    }

    /// A start reads this log, too.
    pub fn add_in_force(&self, log: usize) {
        if let Some(in_force) = &mut self.lock().in_force {
            in_force.logs.push(log);
        }
    }

    /// The log to which a start appends; none where there is no append-only file.
    pub fn last_log(&self) -> Option<usize> {
        self.lock().in_force.as_ref().and_then(|in_force| in_force.logs.last().copied())
    }

    /// Bytes of all files that a start reads, and of the base.
    pub fn sizes(&self) -> (u64, u64) {
        let aof = self.lock();
        let Some(in_force) = &aof.in_force else { return (0, 0) };
        let logs: usize = in_force.logs.iter().map(|log| aof.logs[*log].bytes.len()).sum();
        ((in_force.base.len() + logs) as u64, in_force.base.len() as u64)
    }

    /// Whether the key, with the value of a promise, is in what a start would read after a crash at this
    /// moment. A command whose end a crash has cut off does not count, nor what is behind a log that has
    /// lost its end: a start may refuse the later logs, and [`Disk::repair`] leaves them out.
    pub fn has_durably(&self, key: &[u8]) -> bool {
        let aof = self.lock();
        let Some(in_force) = &aof.in_force else { return false };
        let command = [key, b"\r\n$1\r\n1\r\n"].concat();
        let logs = || in_force.logs.iter().map(|log| &aof.logs[*log]);
        let readable = logs().position(AofLog::has_lost_end).map_or(in_force.logs.len(), |at| at + 1);
        contains(&in_force.base, key)
            || logs().take(readable).any(|log| contains_whole(&log.bytes[..log.durable], &command))
    }

    /// The machine crashes: behind what is durable some is left, or nothing.
    pub fn crash(&self, rng: &mut Rng) {
        for log in &mut self.lock().logs {
            let more = (log.bytes.len() - log.durable) as u64;
            let kept = if rng.below(2) == 0 { 0 } else { rng.below(more + 1) };
            log.bytes.truncate(log.durable + kept as usize);
            log.durable = log.bytes.len();
            log.is_cut_off |= std::mem::take(&mut log.is_lost);
        }
    }

    /// A start has loaded the files: what it appends is behind what it has found.
    pub fn note_loaded(&self) {
        self.lock().logs.iter_mut().for_each(|log| log.is_cut_off = false);
    }

    /// Leaves out what is behind a log whose end a crash has taken, as an operator does with a tool: a file
    /// that ends within a command, and is not the last, is not loaded. Whether there is such a log.
    pub fn repair(&self) -> bool {
        let mut aof = self.lock();
        let Some(mut in_force) = aof.in_force.take() else { return false };
        let cut_off = in_force.logs.iter().position(|log| aof.logs[*log].is_cut_off);
        let kept = cut_off.map_or(in_force.logs.len(), |at| at + 1);
        let is_changed = kept < in_force.logs.len();
        in_force.logs.truncate(kept);
        aof.in_force = Some(in_force);
        is_changed
    }

    /// A file of this disk, whose bytes this source has.
    pub fn file(&self, source: Box<dyn SnapshotSource>) -> DiskFile {
        DiskFile { source, disk: self.aof.clone() }
    }

    /// The files that a start reads; none where there is no append-only file.
    pub fn aof_files(&self) -> Option<Box<dyn AofFiles>> {
        self.lock().in_force.as_ref()?;
        Some(Box::new(Files(self.aof.clone())))
    }
}

/// An RDB file on a disk that may refuse to be read.
pub struct DiskFile {
    source: Box<dyn SnapshotSource>,
    disk: Arc<Mutex<AofDisk>>,
}

impl SnapshotSource for DiskFile {
    fn open(&mut self) -> Result<Option<u64>, String> {
        self.source.open()
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).check_read()?;
        self.source.read(into)
    }
}

/// Whether a log contains a command, and the end of the transaction that the command is a part of.
fn contains_whole(log: &[u8], command: &[u8]) -> bool {
    let Some(at) = find(log, command) else { return false };
    let begun = last(&log[..at], b"MULTI\r\n");
    begun
        .is_none_or(|begun| last(&log[begun..at], b"EXEC\r\n").is_some() || contains(&log[at..], b"EXEC\r\n"))
}

fn last(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).rposition(|part| part == text)
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    find(bytes, text).is_some()
}

/// Where bytes contain a text whose first byte is rare.
fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let first = text.first()?;
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(text) {
            return Some(bytes.len() - rest.len());
        }
        rest = &rest[1..];
    }
    None
}

struct Files(Arc<Mutex<AofDisk>>);

impl AofFiles for Files {
    fn list(&mut self) -> Result<Vec<AofPart>, Vec<String>> {
        let aof = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(in_force) = &aof.in_force else { return Ok(Vec::new()) };
        let part = |bytes: &[u8], log: Option<usize>| AofPart {
            name: log.map_or_else(|| "base".to_owned(), |log| format!("incr.{log}")),
            is_base: log.is_none(),
            is_old_style: false,
            source: Box::new(DiskPart { bytes: bytes.to_vec(), at: 0, log, disk: self.0.clone() }),
        };
        let logs = in_force.logs.iter().map(|log| part(&aof.logs[*log].bytes, Some(*log)));
        Ok(std::iter::once(part(&in_force.base, None)).chain(logs).collect())
    }
}

struct DiskPart {
    bytes: Vec<u8>,
    at: usize,
    log: Option<usize>,
    disk: Arc<Mutex<AofDisk>>,
}

impl SnapshotSource for DiskPart {
    fn open(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.bytes.len() as u64))
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).check_read()?;
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

impl AofSource for DiskPart {
    fn cut_off(&mut self, size: u64, _: i64) -> Result<String, String> {
        let Some(log) = self.log else { return Err("a base is whole".to_owned()) };
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.check_write()?;
        let log = &mut disk.logs[log];
        log.bytes.truncate(size as usize);
        log.durable = log.bytes.len();
        Ok("a file that is not simulated".to_owned())
    }
}

const IO_ERROR: Refusal = "Input/output error";
