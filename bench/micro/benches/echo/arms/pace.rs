//! Limits of an iteration, in the arms that set them.

/// The amount read from a connection in one iteration, where the arm's code decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// At most one chunk.
    Budget,
    /// All available bytes, as in examples of edge-triggered loops.
    Drain,
}

/// Maximum connections accepted in an iteration, as in our loops.
pub const ACCEPTS_PER_TURN: usize = 10;
/// Maximum events of an iteration, as in our loops.
pub const EVENTS_PER_TURN: usize = 256;
/// Maximum bytes of a receive, as in our loops.
pub const CHUNK_BYTES: usize = 16 * 1024;
