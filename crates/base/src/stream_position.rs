//! The position of the data in a replication history.

/// A position in the replication stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition<'a> {
    /// Database that the stream has selected at this position.
    pub db: usize,
    /// Id of the history.
    pub replid: &'a str,
    /// Bytes of the history before this position.
    pub offset: u64,
}
