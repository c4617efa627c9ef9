//! Requests to the process that are carried out later; the process reports the results, if any, by calling
//! functions of the engine.

use crate::cluster::slot_moves::ExportTarget;
use crate::persistence::loading::LoadJob;
use crate::users::load::UserLoad;
use sluice_acl::User;
use sluice_base::SessionKey;
use sluice_commands::{Migration, SlowRead};
use sluice_keyspace::{Captured, Db};
use sluice_scripts::state::ScriptGarbage;
use sluice_value::Value;
use std::sync::Arc;

/// A request that the engine leaves for the process, which carries it out after the engine has returned.
#[derive(Debug)]
pub enum Action {
    /// Free a value on another thread.
    FreeValue(Value),
    /// Free a whole database on another thread.
    FreeDb(Box<Db>),
    /// Free on another thread the captured entries that no snapshot needs.
    FreeCaptured(Vec<Captured>),
    /// Free scripts and functions on another thread.
    FreeScripts(Box<ScriptGarbage>),
    /// Submit the postponed requests of these sessions again: the cause of the postponement is over.
    Resume(Vec<SessionKey>),
    /// Shrink the query buffer of a client that has unused room in it.
    TrimInput {
        /// The client whose buffer is checked.
        key: SessionKey,
        /// Seconds since its last input.
        idle_s: i64,
    },
    /// From now on, send this replica full packets where possible, which delays the data
    /// (`repl-disable-tcp-nodelay`).
    FillPackets(SessionKey),
    /// Run this load on a thread of its own. When that thread wakes the main thread, the main
    /// thread calls `Engine::advance_load`.
    Load(Box<LoadJob>),
    /// Produce this client's reply on a thread of its own, and pass the pieces to `Engine::take_piece`.
    Produce(SessionKey, Box<SlowRead>),
    /// Move keys to another server on a thread of its own, then call `Engine::end_migration`.
    Migrate(Box<Migration>),
    /// Connect to the target of a slot migration on a thread of its own, then report the result to the
    /// functions of `sluice_engine::exports::links`.
    ConnectExport(Box<ExportTarget>),
    /// Free old versions of users on another thread.
    FreeUsers(Vec<Arc<User>>),
    /// Read and check a file of users on a thread of its own, then call `Engine::end_user_load`.
    LoadUsers(Box<UserLoad>),
    /// From now on, wait this many microseconds before each write to the append-only file: for DEBUG.
    DelayAof(u64),
    /// End the process in an orderly way.
    Shutdown,
    /// End the process in an orderly way, and start the same program in its place after this many
    /// milliseconds: for DEBUG.
    Restart(u64),
    /// Forget the signal to end the process, because the shutdown was cancelled; the next signal counts as
    /// the first. See `Engine::end_waits_for_cron`.
    KeepRunning,
    /// End the process at once, in this way: for DEBUG.
    Crash(Crash),
}

/// The ways in which DEBUG ends the process at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// By a segmentation fault.
    Segfault,
    /// A Rust panic of the main thread.
    Panic,
    /// A failed assertion of the main thread.
    Assert,
    /// An exit without saving.
    Exit,
    /// A start of the same program in place of this one, after this many milliseconds.
    Recover(u64),
}
