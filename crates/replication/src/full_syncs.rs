//! The state of a primary's full synchronisations. The code that advances them is in
//! `replication/full_sync.rs` of the crate `engine`.

use crate::feeds::{NextPiece, SnapshotPieces, SnapshotProgress};
use sluice_base::Bytes;
use sluice_base::SessionKey;

/// Replicas that ask for or take a full synchronisation, and the snapshot that they share.
#[derive(Debug, Default)]
pub struct FullSyncs {
    /// Replicas that wait for a snapshot, in order of arrival.
    pub wanted: Vec<SyncRequest>,
    /// Replicas that may still read a snapshot.
    pub readers: Vec<SessionKey>,
    /// Replicas whose whole snapshot was queued, and for which the log does not yet report the end of the
    /// synchronisation.
    pub ended: Vec<SessionKey>,
    /// The snapshot that replicas take now, made from a cut (the keyspace as it was at one moment).
    pub shared: Option<SharedSnapshot>,
    /// When the cut of this snapshot was made, seconds since the epoch; `None` while no job makes a snapshot.
    pub began_s: Option<i64>,
}

/// A snapshot made from a cut (the keyspace as it was at one moment), with the number of replicas that have
/// not taken all of it.
pub struct SharedSnapshot {
    /// The snapshot's pieces, and the job that makes them.
    pub pieces: Box<dyn SnapshotPieces>,
    takers: usize,
}

impl std::fmt::Debug for SharedSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedSnapshot").field("takers", &self.takers).finish_non_exhaustive()
    }
}

/// A replica that waits for a snapshot.
#[derive(Debug)]
pub struct SyncRequest {
    /// Session of the replica.
    pub client: SessionKey,
    /// The lines that precede the snapshot.
    pub greeting: SyncGreeting,
    /// When the replica asked, ns of the monotonic clock.
    pub since_ns: u64,
}

/// The lines that precede a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncGreeting {
    /// SYNC: no line precedes the snapshot.
    None,
    /// PSYNC: the history's id and the snapshot's position in it.
    Full,
    /// SYNC on a connection of its own, beside that of the stream: the history's id, the snapshot's
    /// position and the client's id.
    EndOffset,
}

/// The part of a snapshot that is not in the replica's output yet.
#[derive(Debug)]
pub struct Feed {
    /// The source of the pieces.
    pub source: FeedSource,
    /// Whether the replica needs the snapshot's length first. The length is known only when the snapshot is
    /// complete.
    pub needs_length: bool,
    /// Bytes to be sent after the last piece. This is the mark of a snapshot whose length was not announced.
    pub trailer: Option<String>,
    /// When the replica last took bytes, or bytes were queued for it after it had taken all earlier ones; ns
    /// of the monotonic clock.
    pub progress_ns: u64,
    /// Bytes that the replica has taken, including the lines before the snapshot and the mark after it.
    pub taken_bytes: u64,
    /// When the first bytes were ready for the replica, ns of the monotonic clock.
    pub began_ns: u64,
}

/// The source of a replica's snapshot.
#[derive(Debug)]
pub enum FeedSource {
    /// A snapshot without keys, namely its pieces that were not taken yet.
    WithoutKeys(std::vec::IntoIter<Bytes>),
    /// The shared snapshot, in which the replica has this number.
    Shared(usize),
}

impl FullSyncs {
    /// Whether a replica waits for a snapshot, takes the shared snapshot, or has the end of a snapshot in its
    /// output.
    #[inline]
    pub fn are_under_way(&self) -> bool {
        !self.wanted.is_empty() || self.shared.is_some() || !self.ended.is_empty()
    }

    /// Adds a replica that asks for a full synchronisation.
    pub fn want(&mut self, client: SessionKey, greeting: SyncGreeting, since_ns: u64) {
        self.wanted.push(SyncRequest { client, greeting, since_ns });
    }

    /// Replicas that wait for a snapshot.
    pub fn waiting(&self) -> impl Iterator<Item = SessionKey> {
        self.wanted.iter().map(|wanted| wanted.client)
    }

    /// Begins a snapshot that this many replicas take.
    pub fn share(&mut self, pieces: Box<dyn SnapshotPieces>, takers: usize, began_s: i64) {
        self.shared = Some(SharedSnapshot { pieces, takers });
        self.began_s = Some(began_s);
    }

    /// The next piece for a replica. [`NextPiece::Failed`] if the shared snapshot no longer exists.
    pub fn next_piece(&mut self, source: &mut FeedSource) -> NextPiece {
        match (source, &mut self.shared) {
            (FeedSource::WithoutKeys(left), _) => left.next().map_or(NextPiece::End, NextPiece::Piece),
            (FeedSource::Shared(number), Some(shared)) => shared.pieces.next(*number),
            (FeedSource::Shared(_), None) => NextPiece::Failed,
        }
    }

    /// The state of the shared snapshot; [`SnapshotProgress::Failed`] if there is none.
    pub fn made(&self) -> SnapshotProgress {
        self.shared.as_ref().map_or(SnapshotProgress::Failed, |shared| shared.pieces.made())
    }

    /// See [`SnapshotPieces::lacks_room`]; `None` unless the shared snapshot is being made.
    pub fn lacks_room(&self) -> Option<String> {
        let shared = self.shared.as_ref()?;
        (shared.pieces.made() == SnapshotProgress::UnderWay).then(|| shared.pieces.lacks_room())?
    }

    /// Reports that a replica takes nothing more. When the last replica of the shared snapshot leaves, that
    /// snapshot is freed.
    pub fn leave(&mut self, source: &FeedSource) {
        if let (FeedSource::Shared(number), Some(shared)) = (source, &mut self.shared) {
            shared.pieces.leave(*number);
            shared.takers -= 1;
            if shared.takers == 0 {
                self.shared = None;
            }
        }
    }

    /// Bytes of memory of pieces of the shared snapshot that were made and not taken yet.
    pub fn held_bytes(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.pieces.held_bytes())
    }
}
