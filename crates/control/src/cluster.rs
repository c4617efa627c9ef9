//! This server as a node of a cluster: the engine's knowledge of the node, the node's orders to the process,
//! and the addresses given to clients. The node itself is the state machine of `sluice_cluster`; the engine's
//! module `cluster` passes inputs to it.

pub mod endpoint;
pub mod exports;
pub mod mode;
pub mod move_ends;
pub mod order;
pub mod settings;
pub mod shown_moves;
pub mod slot_moves;
pub mod slot_stats;
