//! A run of a script: what it holds while it goes on and while it stands still. The engine runs it in
//! `engine/scripting/run.rs`; its calls of commands are in `run/call.rs` there.

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

/// See the module.
#[derive(Debug)]
pub struct ScriptRun {
    /// The machine, which nobody else uses meanwhile.
    pub machine: Box<ScriptMachine>,
    /// What is run.
    pub what: ScriptKind,
    /// Its name for the log, INFO and FUNCTION STATS.
    pub name: RunName,
    /// The command that runs it, as FUNCTION STATS shows it; empty for EVAL.
    pub command: Vec<Vec<u8>>,
    /// What it may do.
    pub rights: ScriptRights,
    /// It has called a command that writes: it is not broken off any more.
    pub has_written: bool,
    /// What the script has set for its calls.
    pub settings: CallSettings,
    /// When it began, ns of the monotonic clock.
    pub began_ns: u64,
    /// Processor time of the slices before, ns.
    pub spent_ns: u64,
    /// The database that its client has selected.
    pub db: usize,
    /// What it uses for calls.
    pub buffers: Box<RunBuffers>,
    /// Its result on the way to the client.
    pub result: Option<ReplyConversion>,
    /// What is written of the reply.
    pub reply: Outbox,
    /// The library whose program runs.
    pub library: Option<Box<LibraryLoad>>,
    /// FUNCTION RESTORE: the libraries before and after that one.
    pub restore: Option<Box<RestoreRun>>,
    /// Its client debugs it.
    pub debugger: Option<Box<Debugger>>,
}

/// The slot of a cluster that the calls of a run are held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunSlot {
    #[default]
    /// None: the keys of each call may lie in another slot.
    Any,
    /// The slot of the first call that has keys.
    OfFirstCall,
    /// This one.
    Of(u16),
}

impl RunSlot {
    /// Whether a call for keys of `slot` is one of the run.
    pub fn admits(&mut self, slot: u16) -> bool {
        if *self == RunSlot::OfFirstCall {
            *self = RunSlot::Of(slot);
        }
        matches!(*self, RunSlot::Any) || *self == RunSlot::Of(slot)
    }
}

/// What a script sets for the commands that it calls.
#[derive(Clone, Copy, Debug)]
pub struct CallSettings {
    /// `server.setresp(3)`.
    pub is_resp3: bool,
    /// `server.set_repl`: who receives the changes.
    pub receivers: Receivers,
}

impl ScriptRun {
    /// Behind a slice of the program of a library, which took so long.
    ///
    /// # Errors
    /// The program has had its time.
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

/// The name of what runs, as its owner has it: a run that ends in its first slice shows it to nobody.
#[derive(Clone, Debug)]
pub enum RunName {
    /// A script of EVAL.
    Sha(ScriptSha),
    /// A function, or a library.
    Of(Arc<[u8]>),
}

impl RunName {
    /// To be shown to others.
    pub fn shared(&self) -> Arc<[u8]> {
        match self {
            RunName::Sha(sha) => sha[..].into(),
            RunName::Of(name) => name.clone(),
        }
    }
}

/// Whose run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// The script in this slot of the cache.
    Eval(u32),
    /// A function of the library in this slot.
    Function(u32),
    /// The code of a library, which registers functions.
    Library,
}

/// What a run may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptRights {
    /// It calls no command that writes.
    pub is_read_only: bool,
    /// It goes on when the memory is full.
    pub allows_oom: bool,
    /// The memory was full when it began.
    pub is_full: bool,
    /// It was decided on elsewhere: by this server's primary, or in the log that is replayed.
    pub is_obeyed: bool,
    /// It may stand still.
    pub may_stand_still: bool,
    /// The slot that its calls are held to, in a cluster.
    pub slot: RunSlot,
}

impl ScriptRights {
    /// Lifts the limit on memory for a script that was accepted elsewhere: one that failed here would leave
    /// other data.
    pub fn lift_limit(self, machine: &mut ScriptMachine) {
        if self.is_obeyed {
            machine.set_limit(MachineLimits::ACCEPTED_BYTES);
        }
    }
}

/// How far a run has come.
#[derive(Debug)]
pub enum ScriptProgress {
    /// It has ended: its reply is written, or is this error.
    Ended(sluice_commands::Run),
    /// Its slice is over.
    StandsStill,
}

/// How EVAL and its kin name their script, and what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalKind {
    /// EVAL: by its text.
    Text,
    /// EVALSHA: by its SHA-1.
    Sha,
}

/// Error of EVALSHA for a digest that names no script.
pub const NO_SCRIPT: CmdError = CmdError::text("NOSCRIPT No matching script.");

/// How many of the arguments are keys.
pub fn key_count(args: Args<'_>) -> Result<usize, CmdError> {
    let count = args.int(2)?;
    if count > (args.len() - 3) as i64 {
        return Err(CmdError::text("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| CmdError::text("ERR Number of keys can't be negative"))
}

/// Starts a script, with what it can see of its keys and arguments.
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

/// Starts a function with two tables: keys and arguments.
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
    // Most functions take both tables, and many the first alone.
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

/// Values of a table for which nobody is asked before they are there.
const LIST_FREE: usize = 512;

/// Arguments from one position on as a table.
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
