//! The files of a node that outlive its crash: the RDB file, and the append-only file as far as
//! it is durable.
//!
//! Invariants: (1) the RDB file, and the set of files that the next start reads, each change in one durable
//! step (the server's own storage has tests of how it achieves that); (2) the bytes of a log are durable as
//! far as it was synced; a crash leaves these and any number of the bytes after them; (3) bytes whose sync
//! has failed, and all bytes written after them, never become durable, because the kernel considers them
//! written.
//!
//! A faulty disk refuses the operations of its [`DiskFault`] until it is healed. A refused write may
//! have been written in part.

use sluice_base::Rng;
use sluice_control::process::{AofFiles, AofPart, AofSource};
use sluice_snapshot::SnapshotSource;
use sluice_testkit::Snapshots;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The operations that a faulty disk refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// Writes and new files, because the disk is full.
    Full,
    /// Writes and new files, because of an I/O error.
    Writes,
    /// Syncs; writes succeed.
    Syncs,
    /// Reads; writes and syncs succeed.
    Reads,
}

impl DiskFault {
    /// All faults, for a random choice.
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

/// The system's reason for a refusal.
pub type Refusal = &'static str;

#[derive(Debug, Default)]
struct AofLog {
    bytes: Vec<u8>,
    durable: usize,
    /// Whether a sync of the log has failed.
    is_lost: bool,
    /// Whether a crash has cut off the log's end after a failed sync.
    is_cut_off: bool,
}

impl AofLog {
    /// Whether the log may end within a command after a crash.
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

/// The logs and bases of a node, and the fault of its disk.
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

    /// Sets the fault of the disk; `None` heals it.
    pub fn set_fault(&self, fault: Option<DiskFault>) {
        self.lock().fault = fault;
    }

    /// The current fault of the disk.
    pub fn fault(&self) -> Option<DiskFault> {
        self.lock().fault
    }

    /// The reason that nothing can be written, if any.
    pub fn write_fault(&self) -> Option<Refusal> {
        self.fault().and_then(DiskFault::of_write)
    }

    /// The reason that no file can be written, synced and renamed, if any.
    pub fn commit_fault(&self) -> Option<Refusal> {
        let fault = self.fault()?;
        fault.of_write().or(fault.of_sync())
    }

    /// Adds an empty log that no start reads yet.
    pub fn add_log(&self) -> Result<usize, Refusal> {
        let mut aof = self.lock();
        aof.check_write()?;
        aof.logs.push(AofLog::default());
        Ok(aof.logs.len() - 1)
    }

    /// Length of a log in bytes.
    pub fn len(&self, log: usize) -> usize {
        self.lock().logs[log].bytes.len()
    }

    /// Appends to a log. An error contains the reason, and the number of bytes that were appended all the
    /// same, because they could not be cut off again.
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

    /// Makes the first `len` bytes of a log durable, unless a sync of the log has failed, now or earlier.
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

    /// Makes this base and these logs the files that a start reads. On an error nothing changes.
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

    /// Adds a log to those that a start reads.
    pub fn add_in_force(&self, log: usize) {
        if let Some(in_force) = &mut self.lock().in_force {
            in_force.logs.push(log);
        }
    }

    /// The log that a start appends to; `None` without an append-only file.
    pub fn last_log(&self) -> Option<usize> {
        self.lock().in_force.as_ref().and_then(|in_force| in_force.logs.last().copied())
    }

    /// Number of bytes of all files that a start reads, and of the base alone.
    pub fn sizes(&self) -> (u64, u64) {
        let aof = self.lock();
        let Some(in_force) = &aof.in_force else { return (0, 0) };
        let logs: usize = in_force.logs.iter().map(|log| aof.logs[*log].bytes.len()).sum();
        ((in_force.base.len() + logs) as u64, in_force.base.len() as u64)
    }

    /// Whether a start after a crash at this moment would read this key, whose write was promised to be
    /// durable. A command whose end a crash has cut off does not count, nor do the logs after a log that has
    /// lost its end, because a start may refuse them, and [`Disk::repair`] leaves them out.
    pub fn has_durably(&self, key: &[u8]) -> bool {
        let aof = self.lock();
        let Some(in_force) = &aof.in_force else { return false };
        let command = [key, b"\r\n$1\r\n1\r\n"].concat();
        let logs = || in_force.logs.iter().map(|log| &aof.logs[*log]);
        let readable = logs().position(AofLog::has_lost_end).map_or(in_force.logs.len(), |at| at + 1);
        contains(&in_force.base, key)
            || logs().take(readable).any(|log| contains_whole(&log.bytes[..log.durable], &command))
    }

    /// Crashes the computer. Of each log, the durable bytes are left, and any number of the bytes after them.
    pub fn crash(&self, rng: &mut Rng) {
        for log in &mut self.lock().logs {
            let more = (log.bytes.len() - log.durable) as u64;
            let kept = if rng.below(2) == 0 { 0 } else { rng.below(more + 1) };
            log.bytes.truncate(log.durable + kept as usize);
            log.durable = log.bytes.len();
            log.is_cut_off |= std::mem::take(&mut log.is_lost);
        }
    }

    /// Notes that a start has loaded the files, and appends after their present ends.
    pub fn note_loaded(&self) {
        self.lock().logs.iter_mut().for_each(|log| log.is_cut_off = false);
    }

    /// Leaves out the logs after a log whose end a crash has cut off, as an operator does with a tool,
    /// because a log that ends within a command is only loaded if it is the last. Returns whether any log was
    /// left out.
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

    /// A file of this disk with the bytes of `source`.
    pub fn file(&self, source: Box<dyn SnapshotSource>) -> DiskFile {
        DiskFile { source, disk: self.aof.clone() }
    }

    /// The files that a start reads; `None` without an append-only file.
    pub fn aof_files(&self) -> Option<Box<dyn AofFiles>> {
        self.lock().in_force.as_ref()?;
        Some(Box::new(Files(self.aof.clone())))
    }
}

/// An RDB file, on a disk that may refuse reads.
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

/// Whether a log contains a command together with the end of its transaction.
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

/// The position of a text whose first byte is rare.
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
