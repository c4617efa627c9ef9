//! Counters of the bus (V-1, V-6).

/// Number of message types that are counted: all types of W-5.
pub(crate) const COUNTED_TYPES: usize = 11;

/// Counters; CONFIG RESETSTAT sets all to 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
// Fields without a comment are explained by their names.
#[allow(missing_docs)]
pub struct Statistics {
    /// Messages queued, by the number of their type.
    pub sent: [u64; COUNTED_TYPES],
    /// Messages received as a whole, by the number of their type.
    pub received: [u64; COUNTED_TYPES],
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub pubsub_bytes_sent: u64,
    pub pubsub_bytes_received: u64,
    pub module_bytes_received: u64,
    /// Links that were closed because their queue, or incomplete messages, took too much memory (G-31,
    ///
    pub buffer_limit_exceeded: u64,
    /// Published messages that were dropped because they did not fit into the queue of a link (G-32).
    pub dropped_publishes: u64,
    pub dropped_publish_bytes: u64,
    pub invalid_packets: u64,
    pub votes_granted: u64,
    pub votes_denied: u64,
    pub pfails: u64,
    pub fails: u64,
    pub state_changes: u64,
}
