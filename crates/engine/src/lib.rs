//! The engine: a server without a process. It has the gate, the execution and the commit of commands,
//! and the work between two execution units (commands, transactions or scripts).
//!
//! The state that the engine keeps about the server is in the crate `control`, with the handlers of
//! commands about the server. The handlers of commands about data are in the crate `commands`. A folder
//! here with the name of a module of `control` has the steps that change the state of that module.
//!
//! Invariants: (1) no socket, file, thread, clock or entropy: time and facts come in through
//! [`Process`](sluice_control::process::Process), requests to the host go out as
//! [`Action`](sluice_control::action::Action)s; (2) a handler is given what its context holds and nothing
//! else; (3) no handler sees another client's outbox except through `Server` and `Report` contexts.
#![forbid(unsafe_code)]

mod cluster;
mod core;
mod engine;
mod exec;
mod observe;
mod persistence;
mod pubsub;
mod replication;
mod scripting;
mod session {
    pub(crate) mod output_limit;
}
mod upkeep;
mod users;
mod waiting;

pub use engine::exports;
pub use engine::iteration_end::beside_commands;
pub use engine::memory_parts::MemoryPart;
pub use engine::{Engine, SHOWN_INPUT_BYTES, Seeds};
pub use exec::batch::{Flow, Submitted};
pub use exec::declared::DeclaredKeysCheck;
pub use persistence::ending::EndBegun;
pub use pubsub::delivery::SHARED_BYTES_MIN;
pub use replication::transport::{LinkDriver, LinkTransport};
