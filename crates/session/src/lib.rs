//! Clients and their waits: a session with its identity, transaction and output; lists of the sessions
//! that wait, for example for keys, for the end of a pause, or for a thread that produces a reply; and
//! the migrations under way.
//!
//! The engine executes requests, and continues a request when its wait is over (`waiting/` of the crate
//! `engine`).
//!
//! Invariants: (1) this crate uses no socket: output waits in an outbox until the server takes it; (2) it
//! has no control plane: a list shows which client may continue, and the engine runs this client's
//! request; (3) sessions and the lists of waiting clients count the memory that they hold.
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
