//! What of a node outlives its crash: the RDB file, and the append-only file with what of it is durable.
//!
//! Invariants: (1) the RDB file, and which files are in force, change in one step, which is durable; how the server gets that from a disk is
//! tested with its own storage; (2) bytes of a log are durable as far as it was synced; a crash leaves these and any number of those
//! behind them.

use sluice_base::Rng;
use sluice_engine::{AofFiles, AofPart, AofSource, SnapshotSource};
use sluice_testkit::Snapshots;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A log: bytes, and how many of them are durable.
#[derive(Debug, Default)]
struct AofLog {
    bytes: Vec<u8>,
    durable: usize,
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

    /// A log that no start reads yet.
    pub fn add_log(&self) -> usize {
        let mut aof = self.lock();
        aof.logs.push(AofLog::default());
        aof.logs.len() - 1
    }

    /// Appends to a log; how long it is then.
    pub fn append(&self, log: usize, bytes: &[u8]) -> usize {
        let log = &mut self.lock().logs[log];
        log.bytes.extend_from_slice(bytes);
        log.bytes.len()
    }

    /// So many bytes of a log are durable from now on.
    pub fn sync(&self, log: usize, len: usize) {
        let log = &mut self.lock().logs[log];
        log.durable = log.durable.max(len.min(log.bytes.len()));
    }

    /// Forces a log to disk.
    pub fn sync_all(&self, log: usize) {
        self.sync(log, usize::MAX);
    }

    /// A start reads this base and these logs from now on.
    pub fn put_in_force(&self, base: Vec<u8>, logs: Vec<usize>) {
        logs.iter().for_each(|log| self.sync_all(*log));
        let mut aof = self.lock();
        let old = aof.in_force.replace(InForce { base, logs });
        for log in old.into_iter().flat_map(|old| old.logs) {
            let is_used = aof.in_force.as_ref().is_some_and(|now| now.logs.contains(&log));
            if !is_used {
                aof.logs[log] = AofLog::default();
            }
        }
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

    /// Whether the key, with the value of a promise, is in what a start would read after a crash at this moment. A command whose
    /// end a crash has cut off does not count.
    pub fn has_durably(&self, key: &[u8]) -> bool {
        let aof = self.lock();
        let Some(in_force) = &aof.in_force else { return false };
        let command = [key, b"\r\n$1\r\n1\r\n"].concat();
        let logs = in_force.logs.iter().map(|log| &aof.logs[*log]);
        contains(&in_force.base, key)
            || logs.into_iter().any(|log| contains(&log.bytes[..log.durable], &command))
    }

    /// The machine crashes: behind what is durable some is left, or nothing.
    pub fn crash(&self, rng: &mut Rng) {
        for log in &mut self.lock().logs {
            let more = (log.bytes.len() - log.durable) as u64;
            let kept = if rng.below(2) == 0 { 0 } else { rng.below(more + 1) };
            log.bytes.truncate(log.durable + kept as usize);
            log.durable = log.bytes.len();
        }
    }

    /// The files that a start reads; none where there is no append-only file.
    pub fn aof_files(&self) -> Option<Box<dyn AofFiles>> {
        self.lock().in_force.as_ref()?;
        Some(Box::new(Files(self.aof.clone())))
    }
}

/// Whether bytes contain a text whose first byte is rare.
fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let Some(first) = text.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(text) {
            return true;
        }
        rest = &rest[1..];
    }
    false
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
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

impl AofSource for DiskPart {
    fn truncate(&mut self, size: u64) -> Result<(), String> {
        let Some(log) = self.log else { return Err("a base is whole".to_owned()) };
        let log = &mut self.disk.lock().unwrap_or_else(PoisonError::into_inner).logs[log];
        log.bytes.truncate(size as usize);
        log.durable = log.bytes.len();
        Ok(())
    }
}
