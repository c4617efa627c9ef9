//! A node of a cluster as one state machine: the bus's messages, the nodes, who owns which slot, who has
//! failed, who may follow whom.
//!
//! Invariants: (1) no socket, file, thread, clock, key or client: time comes in with each step, and what is
//! wanted goes out as outputs that are drained; (2) a machine is a function of its inputs and its seed, so
//! that a simulation can replay it; (3) a message changes nothing before the whole of it has been checked;
//! (4) what others may rely on (votes, own epochs, own slots, own role) is told when it is durable, and no
//! earlier.
#![forbid(unsafe_code)]

mod id;
mod slots;
pub mod text;
pub mod wire;

pub use id::{Epoch, NodeId, ShardId};
pub use slots::{BITMAP_LEN, SLOT_COUNT, Slot, SlotSet};
