//! This server as a node of a cluster: what is known of the node, what the process is to do for it, and how
//! clients are told where nodes are. The node itself is the state machine of `sluice_cluster`; the engine's
//! room `cluster` steps it.

pub mod endpoint;
pub mod exports;
pub mod mode;
pub mod move_ends;
pub mod order;
pub mod settings;
pub mod shown_moves;
pub mod slot_moves;
pub mod slot_stats;
