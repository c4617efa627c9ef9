//! Stream bytes that wait for the end of a full synchronisation and that the backlog no longer keeps. They
//! are kept in spools that the process provides, beyond a certain number on disk, and count neither as
//! memory nor against the output limit.
//!
//! Replicas that share a snapshot share a spool, because the stream begins for all of them at the same
//! offset. Blocks that leave the backlog go into the spool. A replica reads the spool up to the first
//! byte of the backlog, and then continues in the backlog.
//!
//! Invariant: (1) a spool was given the stream from the snapshot's offset to the first byte of the
//! backlog, or to `end` if `end` is further.

use crate::feeds::{NextPiece, StreamSpool};
use sluice_base::Bytes;

/// The spools of all full synchronisations under way.
#[derive(Debug, Default)]
pub struct Spooled {
    spools: Vec<StreamSpoolState>,
    next_id: u64,
    /// Whether the last attempt to make a spool has failed. Waiting bytes are then kept in memory, and
    /// count as memory and against the output limit.
    pub cannot: bool,
}

struct StreamSpoolState {
    id: u64,
    spool: Box<dyn StreamSpool>,
    /// Replicas that may still take bytes of the spool.
    takers: usize,
    /// Offset after the last byte that was added to the spool.
    end: u64,
}

impl std::fmt::Debug for StreamSpoolState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool").field("takers", &self.takers).field("end", &self.end).finish_non_exhaustive()
    }
}

/// A replica that takes bytes of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolReceiver {
    id: u64,
    number: usize,
}

impl Spooled {
    /// Makes a spool for replicas that will take the stream from `start` on; returns one receiver for each.
    pub fn add(
        &mut self,
        spool: Box<dyn StreamSpool>,
        takers: usize,
        start: u64,
    ) -> impl Iterator<Item = SpoolReceiver> {
        let id = self.next_id;
        self.next_id += 1;
        self.cannot = false;
        self.spools.push(StreamSpoolState { id, spool, takers, end: start });
        (0..takers).map(move |number| SpoolReceiver { id, number })
    }

    /// Stores a block that leaves the backlog.
    pub fn give(&mut self, start: u64, block: &Bytes) {
        let end = start + block.len() as u64;
        for spool in self.spools.iter_mut().filter(|spool| spool.end < end) {
            debug_assert!(spool.end >= start, "a gap in the stream");
            let known = spool.end.saturating_sub(start) as usize;
            let rest = if known == 0 { block.clone() } else { Bytes::copy_from(&block[known..]) };
            spool.spool.give(rest);
            spool.end = end;
        }
    }

    /// Whether there is no spool.
    pub fn is_empty(&self) -> bool {
        self.spools.is_empty()
    }

    fn find(&mut self, taker: SpoolReceiver) -> Option<&mut StreamSpoolState> {
        self.spools.iter_mut().find(|spool| spool.id == taker.id)
    }

    /// The next bytes for a replica.
    pub fn next(&mut self, taker: SpoolReceiver) -> NextPiece {
        self.find(taker).map_or(NextPiece::Failed, |spool| spool.spool.next(taker.number))
    }

    /// Reports that a replica takes nothing more.
    pub fn leave(&mut self, taker: SpoolReceiver) {
        let Some(spool) = self.find(taker) else { return };
        spool.spool.leave(taker.number);
        spool.takers -= 1;
        self.spools.retain(|spool| spool.takers > 0);
    }

    /// Whether a replica that got [`NextPiece::Later`] may now get another answer from its spool.
    pub fn has_news(&self) -> bool {
        self.spools.iter().any(|spool| spool.spool.has_news())
    }

    /// Bytes of a replica's spool that are in memory because the disk does not have them yet.
    pub fn unwritten_bytes(&mut self, taker: SpoolReceiver) -> usize {
        self.find(taker).map_or(0, |spool| spool.spool.unwritten_bytes())
    }

    /// Bytes of memory of all spools.
    pub fn memory_bytes(&self) -> usize {
        self.spools.iter().map(|spool| spool.spool.memory_bytes()).sum()
    }

    /// Warnings of the spools, for the log.
    pub fn warnings(&mut self) -> impl Iterator<Item = String> {
        self.spools.iter_mut().filter_map(|spool| spool.spool.warning())
    }
}
