//! Clients, and what they wait for: a session with its identity, transaction and output, and lists of those
//! that wait for keys, for the end of a pause, for a thread that produces a reply, for a migration.
//!
//! What executes a request, and what goes on when a wait is over, is the engine's: see `waiting/` there.
//!
//! Invariants: (1) no socket: output waits in an outbox until the server takes it; (2) no control plane: a
//! list says who may go on, and whoever asks runs it; (3) what a client holds is counted where it is held.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod migration;
mod session;
pub mod slow_reads;

pub use session::table::{SessionCounts, Sessions};
pub use session::{
    Announced, AskingState, Authentication, Caller, ClientAddress, ClientFlags, ClientKind, ClientOrigin,
    ClientTraffic, Closing, Labels, MaintenanceNotices, Medium, MultiShown, NOT_ACKED, ReplicaState,
    ScriptDebugging, Session, SyncStage, front, identity, ip_of, line, replica_feed, transaction,
};
