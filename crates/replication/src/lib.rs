//! Replication as state machines: a replica's link to its primary, and the stream, the backlog and the full
//! synchronisations of a primary.
//!
//! Invariants: (1) this crate uses no socket, file, thread or clock: the time is an input of each step, and
//! requests to the host are outputs ([`LinkOutput`]); (2) a state machine is a function of its inputs and its
//! seed, so that a simulation can replay it; (3) this crate does not interpret the bytes of a snapshot or of
//! the stream.
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
