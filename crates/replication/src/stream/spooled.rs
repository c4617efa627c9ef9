//! What waits behind a full synchronisation and is more than the backlog keeps: it lies in spools of the
//! process, on disk where it is much, and counts neither as memory nor against the output limit.
//!
//! Replicas that share a snapshot share a spool, because the stream begins for all of them at the same
//! offset. What leaves the backlog goes into the spool; a replica reads the spool until the backlog reaches,
//! and goes on there.
//!
//! Invariant: (1) a spool holds the stream from the snapshot's offset to the first byte of the backlog, or to
//! `end`, where that is further.

use crate::feeds::{NextPiece, StreamSpool};
use sluice_base::Bytes;

/// All spools.
#[derive(Debug, Default)]
pub struct Spooled {
    spools: Vec<StreamSpoolState>,
    next_id: u64,
    /// No spool could be made lately: what waits is kept in memory, and counts.
    pub cannot: bool,
}

struct StreamSpoolState {
    id: u64,
    spool: Box<dyn StreamSpool>,
    /// Replicas that may still take some of it.
    takers: usize,
    /// Offset behind what was given.
    end: u64,
}

impl std::fmt::Debug for StreamSpoolState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool").field("takers", &self.takers).field("end", &self.end).finish_non_exhaustive()
    }
}

/// A replica as a receiver of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolReceiver {
    id: u64,
    number: usize,
}

impl Spooled {
    /// So many replicas are going to take the stream from `start` on; each as a receiver.
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

    /// A block leaves the backlog.
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

    /// Whether nobody takes from a spool.
    pub fn is_empty(&self) -> bool {
        self.spools.is_empty()
    }

    fn find(&mut self, taker: SpoolReceiver) -> Option<&mut StreamSpoolState> {
        self.spools.iter_mut().find(|spool| spool.id == taker.id)
    }

    /// What comes next for a replica.
    pub fn next(&mut self, taker: SpoolReceiver) -> NextPiece {
        self.find(taker).map_or(NextPiece::Failed, |spool| spool.spool.next(taker.number))
    }

    /// A replica takes nothing more.
    pub fn leave(&mut self, taker: SpoolReceiver) {
        let Some(spool) = self.find(taker) else { return };
        spool.spool.leave(taker.number);
        spool.takers -= 1;
        self.spools.retain(|spool| spool.takers > 0);
    }

    /// Whether a replica that found nothing may find something.
    pub fn has_news(&self) -> bool {
        self.spools.iter().any(|spool| spool.spool.has_news())
    }

    /// Bytes of memory that wait for the disk, of the spool of a replica.
    pub fn unwritten_bytes(&mut self, taker: SpoolReceiver) -> usize {
        self.find(taker).map_or(0, |spool| spool.spool.unwritten_bytes())
    }

    /// Bytes of memory of all spools.
    pub fn memory_bytes(&self) -> usize {
        self.spools.iter().map(|spool| spool.spool.memory_bytes()).sum()
    }

    /// Lines for the log.
    pub fn warnings(&mut self) -> impl Iterator<Item = String> {
        self.spools.iter_mut().filter_map(|spool| spool.spool.warning())
    }
}
