//! Limits of an iteration, for the arms whose own code sets them.

/// How much is read from a connection in one iteration, for the arms whose own code decides this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// At most one chunk.
    Budget,
    /// All available bytes, as in examples of edge-triggered loops.
    Drain,
}

/// Maximum number of connections accepted in an iteration, as in our loops.
pub const ACCEPTS_PER_TURN: usize = 10;
/// Maximum number of events of an iteration, as in our loops.
pub const EVENTS_PER_TURN: usize = 256;
/// Maximum bytes of a receive, as in our loops.
pub const CHUNK_BYTES: usize = 16 * 1024;
