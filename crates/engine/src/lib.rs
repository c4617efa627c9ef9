//! The engine: sessions, the gate, execution, settling, and the command families. A server without a process.
//!
//! Invariants: (1) no socket, file, thread, clock or entropy: time and facts come in through [`Process`], requests to the host go out as
//! [`Action`]s; (2) a handler touches what its context holds and nothing else; (3) no handler sees another client's
//! outbox except through `Server` contexts.
#![forbid(unsafe_code)]

mod action;
mod aof;
mod args;
mod background;
mod blocking;
mod commandlog;
mod commit;
mod compaction;
mod control;
mod cron;
mod delivery;
mod ending;
mod engine;
mod error;
mod evict;
mod exec;
mod failover;
mod families;
mod full_sync;
mod gate;
mod histogram;
mod info;
mod key_map;
mod latency;
mod limits;
mod loading;
mod local_expiry;
mod logging;
mod migration;
mod multicast;
mod output_limit;
mod parts;
mod prepare;
mod process;
mod pubsub;
mod redact;
mod renames;
mod repl_stream;
mod replica;
mod replicas;
mod rewriting;
mod routes;
mod saving;
mod session;
mod session_key;
mod slow_reads;
mod snapshot;
mod stats;
mod sync_state;
mod transaction;
mod unit;
mod unit_commands;
mod version;
mod waiting;
mod watch;

use exec::ctx;

pub use action::{Action, Crash};
pub use aof::AofBacklog;
pub use args::Args;
pub use background::Slice;
pub use delivery::SHARED_BYTES_MIN;
pub use engine::{Engine, SHOWN_INPUT_BYTES, Seeds};
pub use error::CmdError;
pub use exec::{DeclaredKeysCheck, Flow, Submitted};
pub use limits::{Limits, OutputLimit};
pub use loading::{LoadCounts, LoadEnded, LoadJob, LoadProgress, LoadThread, NotLoaded};
pub use migration::{Migration, MigrationOutcome};
pub use multicast::{GroupOutput, Multicast, OutputGroup};
pub use parts::MemoryPart;
pub use prepare::{PreparedBatch, Preparer};
pub use process::{
    AofFacts, AofFiles, AofIncrement, AofPart, AofSource, Background, BackgroundFile, Counts, CpuTimes,
    Facts, IoThreads, LogLevel, NextPiece, Process, SaveError, SnapshotMade, SnapshotPieces, SnapshotSink,
    SnapshotSource, StreamBufferFacts, StreamSpool, SyncFacts,
};
pub use renames::{Renames, rename_errors, renames};
pub use replica::SyncSource;
pub use saving::{Ending, key_delay_us};
pub use session::{Caller, Closing, Connection, Session};
pub use session_key::SessionKey;
pub use slow_reads::{PieceRoom, Progress, SlowRead};
pub use sluice_replication::{HistoryPoint, LinkState, Primary};
pub use snapshot::{Give, Kept, SnapshotFile};
pub use stats::Peaks;
