//! How much an arm does in an iteration, where the arm decides.

/// How much of a connection is read in one iteration, where the arm's code decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// One chunk.
    Budget,
    /// All there is, as examples of edge-triggered loops have it.
    Drain,
}

/// Connections accepted in an iteration, as our loops have it.
pub const ACCEPTS_PER_TURN: usize = 10;
/// Events of an iteration, likewise.
pub const EVENTS_PER_TURN: usize = 256;
/// Longest receive, likewise.
pub const CHUNK_BYTES: usize = 16 * 1024;
