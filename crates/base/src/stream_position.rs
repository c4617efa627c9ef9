//! Where data stand in a history of replication.

/// Where data stand in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition<'a> {
    /// Database that the stream has selected.
    pub db: usize,
    /// Id of the history.
    pub replid: &'a str,
    /// Bytes of the history before it.
    pub offset: u64,
}
