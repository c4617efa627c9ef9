//! The control plane: the state of a server apart from its keys, and the commands about it. It has the
//! state of the append-only file, of saving and loading, of roles, users and limits; the contexts of
//! handlers, their routes, and the families of commands about the server, its clients and its replicas.
//!
//! The engine executes commands and does the work between two commands. Its folders have the names of the
//! modules here, and contain the steps that change the state kept here.
//!
//! Invariants: (1) no socket, file, thread, clock or entropy: time and facts are passed in through
//! [`process::Process`], and requests to the host are passed out as [`action::Action`]s; (2) a handler
//! touches only the contents of its context; (3) no code here executes or commits a whole command or
//! transaction: a handler returns the outcome that it wants, and the caller carries it out.
#![forbid(unsafe_code)]

pub mod action;
pub mod between_units;
mod client_reply;
pub mod cluster;
mod control;
pub mod ctx;
pub mod families;
pub mod observe;
pub mod persistence;
pub mod process;
pub mod replication;
pub mod routes;
mod scripting;
pub mod unknown;
pub mod upkeep;
pub mod users;
mod waiting;

pub use control::{
    ClientRelations, Control, DebugSwitches, PartlyLoaded, Pause, PersistenceState, ReplicationState,
};
