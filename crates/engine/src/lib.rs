//! The engine: sessions, the gate, execution, settling, and the command families. A server without a process.
//!
//! Invariants: (1) no socket, file, thread, clock or entropy: time and facts come in through [`Process`],
//! requests to the host go out as [`Action`]s; (2) a handler touches what its context holds and nothing else;
//! (3) no handler sees another client's outbox except through `Server` contexts.
#![forbid(unsafe_code)]

mod cluster;
mod control;
mod engine;
mod exec;
mod families;
mod host;
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

pub use crate::cluster::order::BusOrder;
pub use crate::cluster::settings::bus_port;
pub use crate::host::process::AofBacklog;
pub use crate::persistence::loading::LoadJob;
pub use engine::{Engine, SHOWN_INPUT_BYTES, Seeds};
pub use exec::batch::{Flow, Submitted};
pub use exec::declared::DeclaredKeysCheck;
pub use host::action::{Action, Crash};
pub use host::process::{
    AofFiles, AofIncrement, AofPart, AofSource, AppendOnlyFile, Background, BackgroundFile, Process,
    ProcessClock, ProcessMemory, ProcessSettings, SaveError, SnapshotFiles, SnapshotSink, UserFile,
};

pub use observe::memory_parts::MemoryPart;

pub use persistence::background::Slice;
pub use persistence::loading::LoadEnded;
pub use persistence::saving::{Ending, key_delay_us};
pub use pubsub::delivery::SHARED_BYTES_MIN;

pub use replication::role::{LinkCounts, SyncSource};
pub use replication::transport::{LinkDriver, LinkTransport};

pub use users::load::{JudgedUsers, UserLoad};
