//! Clients, and what they wait for: a session with its identity, transaction and output; lists of the
//! sessions that wait, for example for keys, for the end of a pause, or for a thread that produces a
//! reply; and the migrations under way.
//!
//! The engine executes requests, and goes on with a request when its wait is over (`waiting/` of the crate
//! `engine`).
//!
//! Invariants: (1) no socket: output waits in an outbox until the server takes it; (2) no control plane:
//! a list says which client may go on, and the engine runs it; (3) sessions and the lists of waiting
//! clients count the memory that they hold.
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
