//! Replication as state machines: what a replica says to its primary, in what order, and when it gives up.
//!
//! Invariants: (1) no socket, file, thread or clock: time comes in with each step, wishes go out as
//! [`LinkOutput`]s; (2) a machine is a function of its inputs and its seed, so that a simulation can replay
//! it; (3) what the bytes of a snapshot or of the stream mean is not known here.
#![forbid(unsafe_code)]

mod backoff;
mod feeds;
mod framing;
mod full_syncs;
mod fuzz;
mod link;
mod stream;
mod unit_commands;

pub use feeds::{NextPiece, SnapshotPieces, SnapshotProgress, StreamSpool};
pub use framing::{Extent, Framing, FramingError};
pub use full_syncs::{Feed, FeedSource, FullSyncs, SharedSnapshot, SyncGreeting, SyncRequest};
pub use fuzz::fuzz_primary;
pub use link::{
    Credentials, HistoryPoint, Input, LinkDecision, LinkOutput, LinkState, Primary, ReplicaLink,
    Surroundings, SyncFailure, TransportOrder,
};
pub use stream::{Backlog, ReplicationStream, Reserved, SpoolReceiver, Spooled, WINDOW_BYTES};
pub use unit_commands::{Audience, Grouping, UnitCommands};
