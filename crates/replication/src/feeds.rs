//! What replicas take at their own pace, as the process keeps it: snapshots, and the stream behind them.

use sluice_base::Bytes;

/// A snapshot for replicas that is made and taken at the same time. What they have not taken lies in memory
/// up to a bound, and behind that on disk: whoever makes the snapshot does not wait for them. Replicas are
/// counted from 0. One that is dropped is broken off.
pub trait SnapshotPieces {
    /// The next piece for a replica. Does not wait.
    fn next(&mut self, replica: usize) -> NextPiece;

    /// A replica takes nothing more.
    fn leave(&mut self, replica: usize);

    /// How far the snapshot is.
    fn made(&self) -> SnapshotProgress;

    /// Why the rest is made only as all replicas take what there is, where that is so: one that takes nothing
    /// before the snapshot is whole would wait for ever. That this has changed is news.
    fn lacks_room(&self) -> Option<String>;

    /// Whether a replica that was told [`NextPiece::Later`] may find something else by now; `true` once.
    fn has_news(&self) -> bool;

    /// Bytes of memory that pieces take which were made and not taken.
    fn held_bytes(&self) -> usize;
}

/// A part of the replication stream that replicas take later: in memory up to a bound, and behind that on
/// disk. Replicas are counted from 0. One that is dropped frees what was not taken.
pub trait StreamSpool {
    /// Adds the next bytes. Does not wait.
    fn give(&mut self, block: Bytes);

    /// The next bytes for a replica. Does not wait. There is no end: more may come.
    fn next(&mut self, replica: usize) -> NextPiece;

    /// A replica takes nothing more.
    fn leave(&mut self, replica: usize);

    /// Whether a replica that was told [`NextPiece::Later`] may find something else by now; `true` once.
    fn has_news(&self) -> bool;

    /// Bytes that were given and did not get to where they are kept yet: they take memory, because the disk
    /// is slow or full.
    fn unwritten_bytes(&self) -> usize;

    /// Bytes of memory that it has: what is unwritten, and what is kept in memory although there is room on
    /// the disk.
    fn memory_bytes(&self) -> usize;

    /// Why the disk takes nothing more, once.
    fn warning(&mut self) -> Option<String>;
}

/// How far a snapshot for replicas is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotProgress {
    /// More is to come.
    UnderWay,
    /// It was made, and has so many bytes.
    Whole(u64),
    /// It could not be made, or was broken off.
    Failed,
}

/// What there is to take of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextPiece {
    /// This.
    Piece(Bytes),
    /// Nothing yet.
    Later,
    /// Nothing: it was taken whole.
    End,
    /// Nothing: it could not be made, or was broken off.
    Failed,
}
