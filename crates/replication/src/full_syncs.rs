//! What full synchronisations remember between two steps; the steps are in `full_sync.rs`.

use crate::feeds::{NextPiece, SnapshotPieces, SnapshotProgress};
use sluice_base::Bytes;
use sluice_base::SessionKey;

/// Replicas that ask for the data.
#[derive(Debug, Default)]
pub struct FullSyncs {
    /// Those that wait for a snapshot, in order of arrival.
    pub wanted: Vec<SyncRequest>,
    /// Those that may still read one.
    pub readers: Vec<SessionKey>,
    /// Those that have been queued all of one since the log was told.
    pub ended: Vec<SessionKey>,
    /// The snapshot of a cut that replicas take.
    pub shared: Option<SharedSnapshot>,
    /// When the cut was made, seconds since the epoch, while the job of this snapshot is under way.
    pub began_s: Option<i64>,
}

/// A snapshot of a cut, and how many replicas have not taken all of it.
pub struct SharedSnapshot {
    /// Its pieces.
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
    /// Its session.
    pub client: SessionKey,
    /// What it is told before the snapshot.
    pub greeting: SyncGreeting,
    /// When it asked, ns of the monotonic clock.
    pub since_ns: u64,
}

/// What comes before the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncGreeting {
    /// Nothing: SYNC.
    None,
    /// The history's id and the snapshot's position in it: PSYNC.
    Full,
    /// The history's id, the snapshot's position and the client's id: SYNC on a connection of its own, beside
    /// that of the stream.
    EndOffset,
}

/// What a replica has not been queued yet of its snapshot.
#[derive(Debug)]
pub struct Feed {
    /// Where it is taken from.
    pub source: FeedSource,
    /// The replica is to be told the length, and was not yet: the snapshot has to be whole first.
    pub needs_length: bool,
    /// Bytes behind the last piece: the mark of a snapshot whose length was not announced.
    pub trailer: Option<String>,
    /// When the replica took something last while it had something to take, ns of the monotonic clock.
    pub progress_ns: u64,
    /// Bytes that the replica has taken, what stands before and behind the snapshot among them.
    pub taken_bytes: u64,
    /// Since when there is something to take for the replica, ns of the monotonic clock.
    pub began_ns: u64,
}

/// Where a replica's snapshot comes from.
#[derive(Debug)]
pub enum FeedSource {
    /// A snapshot without keys: its pieces that are left.
    WithoutKeys(std::vec::IntoIter<Bytes>),
    /// That of a cut, which the replica takes under this number.
    Shared(usize),
}

impl FullSyncs {
    /// Whether a replica waits for a snapshot, or takes one, or was queued the last of one.
    #[inline]
    pub fn are_under_way(&self) -> bool {
        !self.wanted.is_empty() || self.shared.is_some() || !self.ended.is_empty()
    }

    /// A replica asks for the data.
    pub fn want(&mut self, client: SessionKey, greeting: SyncGreeting, since_ns: u64) {
        self.wanted.push(SyncRequest { client, greeting, since_ns });
    }

    /// Replicas that wait for a snapshot.
    pub fn waiting(&self) -> impl Iterator<Item = SessionKey> {
        self.wanted.iter().map(|wanted| wanted.client)
    }

    /// So many replicas take a snapshot.
    pub fn share(&mut self, pieces: Box<dyn SnapshotPieces>, takers: usize, began_s: i64) {
        self.shared = Some(SharedSnapshot { pieces, takers });
        self.began_s = Some(began_s);
    }

    /// The next piece for a replica.
    pub fn next_piece(&mut self, source: &mut FeedSource) -> NextPiece {
        match (source, &mut self.shared) {
            (FeedSource::WithoutKeys(left), _) => left.next().map_or(NextPiece::End, NextPiece::Piece),
            (FeedSource::Shared(number), Some(shared)) => shared.pieces.next(*number),
            (FeedSource::Shared(_), None) => NextPiece::Failed,
        }
    }

    /// How far the snapshot of a cut is.
    pub fn made(&self) -> SnapshotProgress {
        self.shared.as_ref().map_or(SnapshotProgress::Failed, |shared| shared.pieces.made())
    }

    /// Why the rest is made only as all replicas take what there is, where that is so.
    pub fn lacks_room(&self) -> Option<String> {
        let shared = self.shared.as_ref()?;
        (shared.pieces.made() == SnapshotProgress::UnderWay).then(|| shared.pieces.lacks_room())?
    }

    /// A replica takes nothing more of its snapshot. The last one that takes a snapshot of a cut frees it.
    pub fn leave(&mut self, source: &FeedSource) {
        if let (FeedSource::Shared(number), Some(shared)) = (source, &mut self.shared) {
            shared.pieces.leave(*number);
            shared.takers -= 1;
            if shared.takers == 0 {
                self.shared = None;
            }
        }
    }

    /// Bytes of memory that pieces take which replicas have not taken.
    pub fn held_bytes(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.pieces.held_bytes())
    }
}
