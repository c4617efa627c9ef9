//! The control plane: what a server knows of itself beside its keys, and the commands about it. The state of
//! the append-only file, of saving and loading, of roles, users and limits; the contexts of handlers, their
//! routes, and the families of commands about the server, its clients and its replicas.
//!
//! What executes a command, and what goes on between two of them, is the engine's: its folders are named as
//! the modules here, and have the steps that change what stands here.
//!
//! Invariants: (1) no socket, file, thread, clock or entropy: time and facts come in through
//! [`process::Process`], requests to the host go out as [`action::Action`]s; (2) a handler touches what its
//! context holds and nothing else; (3) nobody here knows how a unit runs: a handler says what shall happen,
//! and whoever has called it sees to that.
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
