//! The configuration of streams.

use super::macro_node::MacroNode;

/// The thresholds of macro nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// `stream-node-max-bytes`: maximum bytes of a macro node's listpack; with 0, only `NODE_BYTES_MAX`
    /// applies.
    pub node_max_bytes: usize,
    /// `stream-node-max-entries`: maximum number of entries of a macro node; 0 for no limit.
    pub node_max_entries: u64,
}

impl Default for StreamLimits {
    fn default() -> StreamLimits {
        StreamLimits { node_max_bytes: 4096, node_max_entries: 100 }
    }
}

/// Maximum bytes of one entry's fields and values, and of a macro node's listpack.
pub const NODE_BYTES_MAX: usize = 1 << 30;

impl StreamLimits {
    /// Whether an entry of this many bytes needs a new node.
    pub(super) fn is_full(self, node: &MacroNode, bytes: usize) -> bool {
        let max = match self.node_max_bytes {
            1..NODE_BYTES_MAX => self.node_max_bytes,
            _ => NODE_BYTES_MAX,
        };
        let entries = u64::from(node.live) + u64::from(node.deleted);
        node.wire_len() + bytes >= max || self.node_max_entries > 0 && entries >= self.node_max_entries
    }
}
