//! Snapshots and parts of the stream that the process keeps until replicas take them at their own pace.

use sluice_base::Bytes;

/// A snapshot for replicas that is made while they take it. Pieces that replicas have not taken yet are
/// kept in memory up to a bound and beyond that on disk, so the job that makes the snapshot waits for
/// replicas only if pieces cannot be kept on disk. Replicas are numbered from 0. Dropping the value aborts
/// the snapshot.
pub trait SnapshotPieces {
    /// The next piece for a replica. Does not wait.
    fn next(&mut self, replica: usize) -> NextPiece;

    /// Reports that a replica takes nothing more.
    fn leave(&mut self, replica: usize);

    /// The state of the snapshot.
    fn made(&self) -> SnapshotProgress;

    /// The reason why the snapshot grows only as fast as all replicas take it; `None` if it does not wait
    /// for them. While there is such a reason, a replica that takes no piece before the snapshot is
    /// complete would wait for ever. A change of this result sets [`SnapshotPieces::has_news`].
    fn lacks_room(&self) -> Option<String>;

    /// Whether a replica that got [`NextPiece::Later`] may get another answer now; `true` once per change.
    fn has_news(&self) -> bool;

    /// Bytes of memory of pieces that were made and not taken yet.
    fn held_bytes(&self) -> usize;
}

/// A part of the replication stream that replicas take later, kept in memory up to a bound and beyond
/// that on disk. Replicas are numbered from 0. Dropping the value frees the bytes that were not taken.
pub trait StreamSpool {
    /// Adds the next bytes. Does not wait.
    fn give(&mut self, block: Bytes);

    /// The next bytes for a replica. Does not wait. Never returns [`NextPiece::End`], because more may come.
    fn next(&mut self, replica: usize) -> NextPiece;

    /// Reports that a replica takes nothing more.
    fn leave(&mut self, replica: usize);

    /// Whether a replica that got [`NextPiece::Later`] may get another answer now; `true` once per change.
    fn has_news(&self) -> bool;

    /// Number of bytes beyond the bound of memory that were added but are not on disk yet. These bytes are
    /// still in memory, because the disk is slow or full.
    fn unwritten_bytes(&self) -> usize;

    /// Bytes of memory of the spool: bytes that are not written yet, and bytes kept in memory although
    /// the disk has room.
    fn memory_bytes(&self) -> usize;

    /// The reason why no more bytes can be written to the disk, returned once; `None` if there is nothing to
    /// report.
    fn warning(&mut self) -> Option<String>;
}

/// The state of a snapshot for replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotProgress {
    /// The snapshot is being made.
    UnderWay,
    /// The snapshot is complete and has this many bytes.
    Whole(u64),
    /// The snapshot could not be made, or was aborted.
    Failed,
}

/// The next piece of a snapshot for one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextPiece {
    /// The next bytes of the snapshot.
    Piece(Bytes),
    /// No bytes are ready yet; ask again after `has_news`.
    Later,
    /// The replica has taken the whole snapshot.
    End,
    /// The snapshot could not be made, or was aborted.
    Failed,
}
