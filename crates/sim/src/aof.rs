//! A node's append-only file while it is written: the work of the server's thread under `everysec`,
//! in virtual time.
//!
//! Invariants: (1) an execution unit (the bytes of a command or of a transaction) is written whole before the
//! next one, even if a refused write has left a part of it; (2) a failed sync is not repeated, and no unit
//! after the last durable one is reported durable before a base of a later cut is in force; (3) a base is put
//! in force only together with the log that begins at its cut, the moment at which its rewrite began.

use crate::disk::{Disk, Refusal};
use sluice_base::Rng;
use std::collections::VecDeque;

/// The append-only file of a node, with its unwritten units and its syncs.
pub struct AofWriter {
    disk: Disk,
    /// The logs after the base in force, or after the cut of the first base while no base is in force. Units
    /// are appended to the last of these logs.
    logs: Vec<usize>,
    /// The logs since the last cut of a rewrite.
    behind_cut: Vec<usize>,
    /// Whether a start of the node reads these logs.
    is_in_force: bool,
    /// Whether the last log begins at the cut of the current rewrite.
    is_cut: bool,
    /// Units that are not written yet, each with the position of its end.
    waiting: VecDeque<(Vec<u8>, u64)>,
    /// Bytes of the first waiting unit that are already in the log.
    torn: usize,
    /// Position of the end of the last written unit.
    written: u64,
    synced: u64,
    /// Whether a sync of the last log has failed.
    is_lost: bool,
    /// The position up to which units were durable when a sync failed. Later units are not durable before a
    /// base of a later cut is in force.
    lost_at: Option<u64>,
    /// The fault that was reported to the engine.
    fault: Option<Refusal>,
    retry_ns: u64,
    /// The earliest time of the next sync. `sync` describes the sync in progress: the time of its end, the
    /// bytes of the log that it covers, and the position after them.
    next_sync_ns: u64,
    sync: Option<(u64, usize, u64)>,
    /// Duration of a sync, and time between the beginnings of two syncs, ns.
    sync_ns: (u64, u64),
}

impl AofWriter {
    /// A writer that appends to the log `log`; `position` is the position of the first unit to come.
    pub fn new(
        disk: Disk,
        log: usize,
        is_in_force: bool,
        (position, now_ns): (u64, u64),
        sync_ns: (u64, u64),
    ) -> AofWriter {
        AofWriter {
            disk,
            logs: vec![log],
            behind_cut: vec![log],
            is_in_force,
            is_cut: true,
            waiting: VecDeque::new(),
            torn: 0,
            written: position,
            synced: position,
            is_lost: false,
            lost_at: None,
            fault: None,
            retry_ns: 0,
            next_sync_ns: now_ns,
            sync: None,
            sync_ns,
        }
    }

    /// Whether a start of the node reads the logs.
    pub fn is_in_force(&self) -> bool {
        self.is_in_force
    }

    /// The failure of a write or of a sync that is not repaired yet, if there is one.
    pub fn fault(&self) -> Option<Refusal> {
        self.fault
    }

    /// The position up to which all units are durable.
    pub fn durable(&self) -> u64 {
        self.synced.min(self.lost_at.unwrap_or(u64::MAX))
    }

    /// Takes units to be written; `end` is the position after them.
    pub fn push(&mut self, bytes: Vec<u8>, end: u64) {
        self.waiting.push_back((bytes, end));
    }

    fn log(&self) -> usize {
        self.logs.last().copied().unwrap_or_default()
    }

    fn write_waiting(&mut self, rng: &mut Rng) -> Result<(), Refusal> {
        while let Some((bytes, end)) = self.waiting.front() {
            let torn = self.torn;
            if let Err((part, reason)) = self.disk.append(self.log(), &bytes[torn..], rng) {
                self.torn += part;
                return Err(reason);
            }
            self.written = *end;
            self.torn = 0;
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Does the writes and syncs that are due.
    pub fn work(&mut self, now_ns: u64, rng: &mut Rng) {
        self.write_if_due(now_ns, rng);
        if let Some((_, len, position)) = self.sync.take_if(|sync| sync.0 <= now_ns) {
            self.end_sync(len, position);
        }
        let is_due = self.sync.is_none() && self.next_sync_ns <= now_ns;
        if is_due && !self.is_lost && self.synced < self.written {
            let (takes_ns, between_ns) = self.sync_ns;
            self.sync = Some((now_ns + takes_ns, self.disk.len(self.log()), self.written));
            self.next_sync_ns = now_ns + between_ns;
        }
    }

    fn write_if_due(&mut self, now_ns: u64, rng: &mut Rng) {
        if now_ns < self.retry_ns {
            return;
        }
        match self.write_waiting(rng) {
            // A write that succeeds ends the fault, unless a sync has failed, because then only a rewrite
            // ends it.
            Ok(()) if self.lost_at.is_none() => (self.fault, self.retry_ns) = (None, 0),
            Ok(()) => self.retry_ns = 0,
            Err(reason) => {
                self.fault.get_or_insert(reason);
                self.retry_ns = now_ns + RETRY_NS;
            }
        }
    }

    fn end_sync(&mut self, len: usize, position: u64) {
        match self.disk.sync(self.log(), len) {
            Ok(()) => self.synced = self.synced.max(position),
            Err(reason) => {
                self.is_lost = true;
                self.lost_at = Some(self.lost_at.unwrap_or(u64::MAX).min(self.synced));
                self.fault.get_or_insert(reason);
            }
        }
    }

    /// Makes the cut of a rewrite: a new log begins after the units taken so far. On an error the old log
    /// continues.
    pub fn cut(&mut self, rng: &mut Rng) -> Result<(), Refusal> {
        self.is_cut = false;
        self.write_waiting(rng)?;
        self.sync = None;
        if !self.is_lost && self.synced < self.written {
            self.end_sync(usize::MAX, self.written);
        }
        let log = self.disk.add_log()?;
        (self.is_cut, self.is_lost, self.synced) = (true, false, self.written);
        self.logs.push(log);
        self.behind_cut = vec![log];
        if self.is_in_force {
            self.disk.add_in_force(log);
        }
        Ok(())
    }

    /// Puts the base of the cut in force; `false` if that fails, or if no cut waits for a base.
    pub fn put_in_force(&mut self, base: Vec<u8>) -> bool {
        if !std::mem::take(&mut self.is_cut) || self.disk.put_in_force(base, self.behind_cut.clone()).is_err()
        {
            return false;
        }
        self.logs.clone_from(&self.behind_cut);
        self.is_in_force = true;
        // The fault continues if a sync of the log after the base has failed, too.
        self.lost_at = self.is_lost.then_some(self.synced);
        if !self.is_lost && self.waiting.is_empty() {
            self.fault = None;
        }
        true
    }

    /// Writes and syncs all units, as far as the disk accepts them.
    pub fn close(mut self, rng: &mut Rng) {
        if self.write_waiting(rng).is_ok() && !self.is_lost {
            self.end_sync(usize::MAX, self.written);
        }
    }
}

const RETRY_NS: u64 = 1_000_000_000;
