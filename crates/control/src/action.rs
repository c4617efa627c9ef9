//! Wishes to the process that need no answer.

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

/// Something the process must do for the engine.
#[derive(Debug)]
pub enum Action {
    /// Free a value on another thread.
    FreeValue(Value),
    /// Free a whole database on another thread.
    FreeDb(Box<Db>),
    /// Free on another thread what a snapshot has captured and does not need.
    FreeCaptured(Vec<Captured>),
    /// Free on another thread what scripts have left.
    FreeScripts(Box<ScriptGarbage>),
    /// Submit again what these sessions had sent: what postponed them is over.
    Resume(Vec<SessionKey>),
    /// A client that has room for input was looked at: give back what it does not need.
    TrimInput {
        /// The client.
        key: SessionKey,
        /// Seconds since its last input.
        idle_s: i64,
    },
    /// A client is a replica now, and its packets shall be filled at the price of a delay
    /// (`repl-disable-tcp-nodelay`).
    FillPackets(SessionKey),
    /// Run this on a thread of its own; the main thread then calls `Engine::advance_load` when that
    /// one wakes it.
    Load(Box<LoadJob>),
    /// Have a thread of its own produce this client's reply; hand the pieces to
    /// `Engine::take_piece`.
    Produce(SessionKey, Box<SlowRead>),
    /// Move keys to another server, on a thread of its own: `Engine::end_migration` follows.
    Migrate(Box<Migration>),
    /// Connect with the target of a move of slots, on a thread of its own: the functions of
    /// `sluice_engine::exports::links` are told what comes of it.
    ConnectExport(Box<ExportTarget>),
    /// Free users that others have taken the place of, where nobody waits.
    FreeUsers(Vec<Arc<User>>),
    /// Read and judge a file of users on a thread of its own: `Engine::end_user_load` follows.
    LoadUsers(Box<UserLoad>),
    /// Wait so many microseconds before each write of the append-only file, from now on: for DEBUG.
    DelayAof(u64),
    /// End the process in good order.
    Shutdown,
    /// End the process in good order, and have the same program take its place after so many milliseconds:
    /// for DEBUG.
    Restart(u64),
    /// Do not end the process for the signal that waited for the cron: see
    /// `Engine::end_waits_for_cron`.
    KeepRunning,
    /// End the process at once, for DEBUG: by a fault or plainly.
    Crash(Crash),
}

/// Ways to end for DEBUG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// By a segmentation fault.
    Segfault,
    /// By a panic.
    Panic,
    /// By an assertion.
    Assert,
    /// By exiting.
    Exit,
    /// By starting the same program in place of this one, after so many milliseconds.
    Recover(u64),
}
