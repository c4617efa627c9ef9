//! The engine: sessions, the gate, execution, settling, and the command families. A server without a process.
//!
//! Invariants: (1) no socket, file, thread, clock or entropy: time and facts come in through [`Process`], wishes go out as
//! [`Action`]s; (2) a handler touches what its context holds and nothing else; (3) no handler sees another client's
//! outbox except through `Server` contexts.
#![forbid(unsafe_code)]

mod action;
mod args;
mod commandlog;
mod control;
mod cron;
mod ctx;
mod engine;
mod error;
mod exec;
mod families;
mod gate;
mod histogram;
mod latency;
mod limits;
mod logging;
mod process;
mod redact;
mod routes;
mod session;
mod settle;
mod stats;
mod stream;

pub use action::{Action, Crash};
pub use args::Args;
pub use engine::{Engine, Seeds};
pub use error::CmdError;
pub use exec::{Flow, Submitted};
pub use limits::{Limits, OutputLimit};
pub use process::{Counts, CpuTimes, Facts, LogLevel, Process};
pub use session::{Caller, Closing, Connection, Session, SessionKey};

/// Version of the reference that clients are told: the one whose behaviour this server has.
pub const COMPATIBLE_VERSION: &str = "9.1.2";
/// Version that clients are told who look for the older name.
pub const COMPATIBLE_REDIS_VERSION: &str = "7.2.4";
