//! The state of a script's run, while it executes and while it is paused. The engine executes runs in
//! `engine/scripting/run.rs`; their calls of commands are in `run/call.rs` there.

use crate::cache::ScriptSha;
use crate::debugger::Debugger;
use crate::library::{LOAD_TIMEOUT, LibraryLoad, MachineLimits};
use crate::machine::{GlobalsRead, Receivers, ScriptMachine};
use crate::restore::RestoreRun;
use crate::state::RunBuffers;
use crate::to_reply::ReplyConversion;
use sluice_base::Now;
use sluice_commands::{Args, CmdError};
use sluice_lua::{Fault, LoadedChunk, Pinned, Value};
use sluice_resp::Outbox;
use std::sync::Arc;

/// One run of a script, a function or a library's program. A long run is executed in slices, between which it
/// is paused.
#[derive(Debug)]
pub struct ScriptRun {
    /// The machine that executes the run, and that belongs to the run until the run ends.
    pub machine: Box<ScriptMachine>,
    /// The kind of code that the run executes, and the slot of the code in the cache or registry.
    pub what: ScriptKind,
    /// The name for the log, INFO and FUNCTION STATS.
    pub name: RunName,
    /// The command that started the run, as FUNCTION STATS shows it; empty for EVAL.
    pub command: Vec<Vec<u8>>,
    /// The permissions of the run.
    pub rights: ScriptRights,
    /// Whether the run has called a command that writes, and therefore must not be killed any more.
    pub has_written: bool,
    /// The settings that the script has made for its calls.
    pub settings: CallSettings,
    /// When the run began, in ns of the monotonic clock.
    pub began_ns: u64,
    /// Processor time that the earlier slices took, in ns.
    pub spent_ns: u64,
    /// The index of the client's selected database.
    pub db: usize,
    /// Buffers for the commands that the run calls.
    pub buffers: Box<RunBuffers>,
    /// The conversion of the result to a reply; `None` before the script has returned.
    pub result: Option<ReplyConversion>,
    /// The part of the reply that is written so far.
    pub reply: Outbox,
    /// The library that is being loaded, if the run executes a library's program.
    pub library: Option<Box<LibraryLoad>>,
    /// The FUNCTION RESTORE of which the load of this library is a part, if any.
    pub restore: Option<Box<RestoreRun>>,
    /// The debugger session of the run's client.
    pub debugger: Option<Box<Debugger>>,
}

/// The cluster slot to which the calls of a run are restricted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunSlot {
    #[default]
    /// No restriction, so that the keys of each call may be in another slot.
    Any,
    /// The slot of the first call that has keys. That call changes this value to `Of`.
    OfFirstCall,
    /// This slot, for all calls with keys.
    Of(u16),
}

impl RunSlot {
    /// Whether the run may call a command with keys of `slot`.
    pub fn admits(&mut self, slot: u16) -> bool {
        if *self == RunSlot::OfFirstCall {
            *self = RunSlot::Of(slot);
        }
        matches!(*self, RunSlot::Any) || *self == RunSlot::Of(slot)
    }
}

/// Settings of a script for the commands that it calls.
#[derive(Clone, Copy, Debug)]
pub struct CallSettings {
    /// `server.setresp(3)`: whether replies to the script are in RESP3.
    pub is_resp3: bool,
    /// `server.set_repl`: who receives the script's changes.
    pub receivers: Receivers,
}

impl ScriptRun {
    /// Subtracts a slice of `spent_ns` from the time that is left for a library's program. If the run cannot
    /// be paused, its time stays the same. Does nothing if the run does not load a library.
    ///
    /// # Errors
    /// The slice is longer than the time that was left.
    pub fn count_load_time(&mut self, spent_ns: u64) -> Result<(), CmdError> {
        let Some(load) = self.library.as_mut() else { return Ok(()) };
        if spent_ns > load.ns_left {
            return Err(CmdError::owned([b"ERR ", LOAD_TIMEOUT].concat()));
        }
        if self.rights.may_stand_still {
            load.ns_left -= spent_ns;
        }
        Ok(())
    }
}

/// The name of a run. A script's name is copied into an `Arc` only when the run is shown to others.
#[derive(Clone, Debug)]
pub enum RunName {
    /// A script of EVAL, which is named by its SHA-1.
    Sha(ScriptSha),
    /// The name of a function or a library.
    Of(Arc<[u8]>),
}

impl RunName {
    /// The name as an `Arc`, for other readers.
    pub fn shared(&self) -> Arc<[u8]> {
        match self {
            RunName::Sha(sha) => sha[..].into(),
            RunName::Of(name) => name.clone(),
        }
    }
}

/// The kind of code that a run executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// The script in this slot of the cache.
    Eval(u32),
    /// A function of the library in this slot.
    Function(u32),
    /// The program of a library, which registers functions.
    Library,
}

/// The permissions and conditions of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptRights {
    /// Whether the run must not call commands that write.
    pub is_read_only: bool,
    /// Whether the run may continue when the memory is full.
    pub allows_oom: bool,
    /// Whether the memory was full when the run began.
    pub is_full: bool,
    /// The command comes from this server's primary or from a log that is replayed, so the run
    /// must not be refused.
    pub is_replicated: bool,
    /// The run may be paused and continued later.
    pub may_stand_still: bool,
    /// The cluster slot to which the run's calls are restricted.
    pub slot: RunSlot,
}

impl ScriptRights {
    /// Lifts the memory limit for a script from the primary or a replayed log, because the data would
    /// differ if such a script failed here.
    pub fn lift_limit(self, machine: &mut ScriptMachine) {
        if self.is_replicated {
            machine.set_limit(MachineLimits::ACCEPTED_BYTES);
        }
    }
}

/// The result of a slice of a run.
#[derive(Debug)]
pub enum ScriptProgress {
    /// The run has ended. Its reply is written, or this is the error.
    Ended(sluice_commands::Run),
    /// The run is paused at the end of its slice.
    StandsStill,
}

/// How EVAL or EVALSHA names its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalKind {
    /// EVAL names the script by its text.
    Text,
    /// EVALSHA names the script by the SHA-1 of its text.
    Sha,
}

/// Error of EVALSHA for a digest that is not in the cache.
pub const NO_SCRIPT: CmdError = CmdError::text("NOSCRIPT No matching script.");

/// The number of keys, from the argument before the keys. Errors: the argument is not an integer, or is
/// negative, or exceeds the number of arguments after it.
pub fn key_count(args: Args<'_>) -> Result<usize, CmdError> {
    let count = args.int(2)?;
    if count > (args.len() - 3) as i64 {
        return Err(CmdError::text("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| CmdError::text("ERR Number of keys can't be negative"))
}

/// Starts a script; `KEYS` and `ARGV` are set if the script can read them.
///
/// # Errors
/// `not enough memory`.
pub fn start_script(
    machine: &mut ScriptMachine,
    (chunk, globals): (LoadedChunk, GlobalsRead),
    args: Args<'_>,
    keys: usize,
    now: Now,
) -> Result<(), Fault> {
    let keys_global = machine.keys.filter(|_| globals.keys);
    let argv_global = machine.argv.filter(|_| globals.argv);
    let mut run = machine.vm.start(chunk);
    run.heap().host.clock = now.mono_ns as f64 / 1e9;
    if let Some(global) = keys_global {
        let table = list(run.heap(), args, 3..3 + keys)?;
        run.set_global(global, table)?;
    }
    if let Some(global) = argv_global {
        let table = list(run.heap(), args, 3 + keys..args.len())?;
        run.set_global(global, table)?;
    }
    Ok(())
}

/// Starts a function with two arguments, the table of keys and the table of the other arguments, as far as
/// the function has parameters.
///
/// # Errors
/// `not enough memory`.
pub fn start_function(
    machine: &mut ScriptMachine,
    callback: Pinned,
    args: Args<'_>,
    keys: usize,
    now: Now,
) -> Result<(), Fault> {
    machine.vm.heap().host.clock = now.mono_ns as f64 / 1e9;
    let function = machine.vm.pinned(callback);
    // A function gets only as many tables as it has parameters, because many functions take only the first
    // table or none.
    let params = machine.vm.params_of(function);
    let mut tables = [Value::NIL; 2];
    let ranges = [3..3 + keys, 3 + keys..args.len()];
    let count = params.min(tables.len());
    for (table, range) in tables.iter_mut().zip(ranges).take(count) {
        *table = list(machine.vm.heap(), args, range)?;
    }
    machine.vm.start_call(function, &tables[..count]);
    Ok(())
}

/// A table of more values than this is made only after a check of the memory limit.
const LIST_FREE: usize = 512;

/// Makes a table of the arguments in a range.
fn list(heap: &mut sluice_lua::Heap, args: Args<'_>, range: std::ops::Range<usize>) -> Result<Value, Fault> {
    if range.len() > LIST_FREE {
        heap.room(range.len().saturating_mul(size_of::<Value>()))?;
    }
    let mut values = Vec::with_capacity(range.len());
    for index in range {
        values.push(match args.shared(index) {
            Some(bytes) => heap.share_string(bytes.clone())?,
            None => heap.new_string(args.at(index))?,
        });
    }
    Ok(sluice_lua::new_list(heap, values)?.into())
}
