//! What a session queues for a replica: the pieces of a snapshot, then the replication stream.

use crate::{Closing, Session, SyncStage};
use sluice_base::Now;
use sluice_replication::{Backlog, FullSyncs, NextPiece, SnapshotProgress, Spooled, WINDOW_BYTES};

/// Whether the snapshot that a session sends can still be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FeedResult {
    /// The snapshot is still readable, or no longer needed.
    Well,
    /// The snapshot has ended early, so the replica has to ask for another one.
    Failed,
}

/// Result of queueing a part of the stream for a replica.
pub enum StreamTaken {
    /// Number of bytes queued; 0 if there was nothing to queue or no room for it.
    Bytes(u64),
    /// The stream kept for the replica has ended, so the replica has to ask for a new synchronisation.
    Failed,
}

impl Session {
    /// Whether part of a snapshot is not sent yet.
    pub fn reads_snapshot(&self) -> bool {
        self.feed.is_some() || self.caller.replica_state().is_some_and(|replica| replica.snapshot_queued > 0)
    }

    /// Queues pieces of the snapshot until `AHEAD_BYTES` are queued or no piece is available. After the last
    /// piece, the trailer follows if there is one. If the replica needs the length first, nothing is queued
    /// before the snapshot is complete.
    pub fn feed_on(&mut self, syncs: &mut FullSyncs, now: Now) -> FeedResult {
        let Some(feed) = &mut self.feed else { return FeedResult::Well };
        let Some(replica) = &mut self.caller.replica else { return FeedResult::Well };
        if feed.needs_length {
            let bytes = match syncs.made() {
                SnapshotProgress::UnderWay => return FeedResult::Well,
                SnapshotProgress::Failed => return FeedResult::Failed,
                SnapshotProgress::Whole(bytes) => bytes,
            };
            let header = format!("${bytes}\r\n");
            self.outbox.push(header.as_bytes());
            replica.snapshot_queued += header.len();
            replica.stage = SyncStage::Sending;
            feed.needs_length = false;
            (feed.progress_ns, feed.began_ns) = (now.mono_ns, now.mono_ns);
        }
        while replica.snapshot_queued < AHEAD_BYTES {
            match syncs.next_piece(&mut feed.source) {
                NextPiece::Piece(piece) => {
                    if replica.snapshot_queued == 0 {
                        feed.progress_ns = now.mono_ns;
                    }
                    replica.snapshot_queued += piece.len();
                    self.outbox.push_shared(piece);
                }
                NextPiece::Later => return FeedResult::Well,
                NextPiece::Failed => return FeedResult::Failed,
                NextPiece::End => {
                    self.end_feed(syncs, now);
                    return FeedResult::Well;
                }
            }
        }
        FeedResult::Well
    }

    /// Ends the snapshot, all pieces of which are queued now.
    fn end_feed(&mut self, syncs: &mut FullSyncs, now: Now) {
        let Some(mut feed) = self.feed.take() else { return };
        syncs.leave(&feed.source);
        syncs.ended.push(self.key);
        let Some(replica) = &mut self.caller.replica else { return };
        if let Some(trailer) = feed.trailer.take() {
            self.outbox.push(trailer.as_bytes());
            replica.snapshot_queued += trailer.len();
        }
        replica.stage = SyncStage::Online;
        // The time since the last acknowledgement counts from now on, because the replica had nothing to
        // acknowledge before.
        replica.acked_s = now.unix_s();
        let rdb_only = self.caller.origin.announced.as_ref().is_some_and(|announced| announced.rdb_only);
        if rdb_only && self.caller.closing == Closing::No {
            self.caller.closing = Closing::AfterReply;
        }
    }

    /// Notes that the replica has taken `bytes` of output, and queues further pieces of its snapshot.
    pub fn note_taken(&mut self, bytes: usize, syncs: &mut FullSyncs, now: Now) -> FeedResult {
        let Some(replica) = &mut self.caller.replica else { return FeedResult::Well };
        let of_snapshot = replica.snapshot_queued.min(bytes);
        replica.snapshot_queued -= of_snapshot;
        match &mut self.feed {
            Some(feed) => {
                feed.progress_ns = now.mono_ns;
                feed.taken_bytes = feed.taken_bytes.saturating_add(of_snapshot as u64);
            }
            None => return FeedResult::Well,
        }
        self.feed_on(syncs, now)
    }

    /// Queues the next part of the stream, as far as the window allows.
    pub fn take_stream(&mut self, backlog: &Backlog, spooled: &mut Spooled) -> StreamTaken {
        let Session { outbox, feed, caller, in_flight, .. } = self;
        let Some(replica) = &mut caller.replica else { return StreamTaken::Bytes(0) };
        if replica.stage != SyncStage::Online || replica.awaits_ack || feed.is_some() {
            return StreamTaken::Bytes(0);
        }
        let from = replica.next;
        while replica.next < backlog.end() && outbox.len() + *in_flight < WINDOW_BYTES {
            let room = WINDOW_BYTES - outbox.len() - *in_flight;
            let Some(receiver) = replica.spool else {
                let next = backlog.read(replica.next, room, outbox);
                if next == replica.next {
                    // The next bytes are promised: they count in `end`, but their commands are not encoded
                    // yet.
                    break;
                }
                replica.next = next;
                continue;
            };
            if backlog.reaches(replica.next) {
                spooled.leave(receiver);
                replica.spool = None;
                continue;
            }
            match spooled.next(receiver) {
                NextPiece::Piece(piece) => {
                    replica.next += piece.len() as u64;
                    outbox.push_shared(piece);
                }
                NextPiece::Later => break,
                NextPiece::End | NextPiece::Failed => return StreamTaken::Failed,
            }
        }
        StreamTaken::Bytes(replica.next.saturating_sub(from))
    }

    /// Whether the replica has a position in the stream but cannot receive the stream yet, because it is
    /// receiving a snapshot.
    pub fn waits_for_snapshot(&self) -> bool {
        let state = self.caller.replica_state();
        state.is_some_and(|replica| {
            replica.stage != SyncStage::Online || replica.awaits_ack || self.feed.is_some()
        })
    }
}

/// No further piece of a snapshot is queued while at least this many bytes of the snapshot are queued but not
/// sent.
const AHEAD_BYTES: usize = 4 << 20;
