//! What the engine keeps of scripts between their runs, and what others see of the run that stands still.

use crate::cache::ScriptCache;
use crate::functions::Functions;
use crate::library::MachineLimits;
use crate::machine::{MachineKind, ScriptMachine};
use sluice_base::mistake::{self, Mistake};
use sluice_base::{Watched, heap};
use sluice_commands::CmdError;
use sluice_config::{Config, param};
use sluice_lua::{DiscardedRun, Fault, RunStack};
use sluice_resp::{ArgumentList, Outbox};
use std::sync::Arc;

/// The scripts of EVAL, their machine, and memory that runs use again.
#[derive(Debug, Default)]
pub struct Scripting {
    /// The scripts that are known.
    pub cache: ScriptCache,
    /// The machine of EVAL: none before the first script, or while a run has it.
    pub machine: Option<Box<ScriptMachine>>,
    /// Memory for the next run.
    pub spare: Option<Box<RunBuffers>>,
    /// What is used of the time that scripts may take.
    pub share: ScriptShare,
    /// Scripts that have waited for their turn are run.
    pub serves_turns: bool,
    /// The memory was full when the command began that is being executed.
    pub is_full: bool,
    /// Bytes of the machine while a run has it, as of the last look.
    pub running_bytes: usize,
    /// What a debugger has said, on the way to its client.
    pub debug_output: Outbox,
    /// Where `math.random` stands: one generator for all scripts.
    pub random: Option<u64>,
}

/// The time that has gone since everybody was served who does not run a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptShare {
    /// Of iterations before, ns.
    pub carried_ns: u64,
    /// What commands had taken of this iteration when its part began, ns.
    pub base_ns: u64,
}

/// What scripts take, for INFO and MEMORY STATS.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptFacts {
    /// Bytes of the machine of EVAL.
    pub eval_machine_bytes: usize,
    /// Bytes of the texts that EVAL knows.
    pub eval_bytes: usize,
    /// Scripts that EVAL knows.
    pub cached: usize,
    /// Functions, and the libraries that they are in.
    pub functions: usize,
    /// Libraries of functions.
    pub libraries: usize,
    /// Bytes of the machines of libraries.
    pub function_machine_bytes: usize,
    /// Bytes of libraries beside their machines.
    pub function_bytes: usize,
}

impl ScriptFacts {
    /// Bytes of all that scripts take.
    pub fn bytes(&self) -> usize {
        self.eval_machine_bytes + self.eval_bytes + self.function_machine_bytes + self.function_bytes
    }

    /// Bytes of all machines.
    pub fn machine_bytes(&self) -> u64 {
        (self.eval_machine_bytes + self.function_machine_bytes) as u64
    }
}

/// Memory of a run that the next one uses again.
#[derive(Debug, Default)]
pub struct RunBuffers {
    /// The arguments of the command that the script calls.
    pub arguments: ArgumentList,
    /// The reply of that command.
    pub reply: Outbox,
    /// The command, looked up and hashed.
    pub batch: sluice_commands::PreparedBatch,
    /// Bytes of large arguments that were copied since the last look at the clock.
    pub copied_bytes: usize,
    /// The stack of the machine of a library, between the runs of functions.
    pub stack: RunStack,
}

/// Bytes of a reply whose memory is kept for the next.
const REPLY_KEPT_BYTES: usize = 64 << 10;

impl RunBuffers {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        let kept = self.arguments.footprint()
            + self.reply.footprint()
            + self.batch.footprint()
            + self.stack.footprint();
        heap::boxed::<RunBuffers>() + kept
    }

    /// Gives back what is large.
    pub fn trim(&mut self) {
        self.arguments.clear();
        match self.reply.capacity_bytes() > REPLY_KEPT_BYTES {
            true => self.reply = Outbox::new(),
            false => self.reply.clear(),
        }
    }
}

impl Scripting {
    /// The machine of EVAL, opened where there is none.
    ///
    /// # Errors
    /// The memory limit is too small for the libraries.
    pub fn machine(&mut self, limits: MachineLimits) -> Result<&mut ScriptMachine, Fault> {
        let MachineLimits { bytes, is_insecure, .. } = limits;
        if let Some(machine) = self.machine.as_mut() {
            machine.set_limit(bytes);
        } else {
            let machine = ScriptMachine::open(MachineKind::Eval, bytes, is_insecure)?;
            self.machine = Some(Box::new(machine));
        }
        self.machine.as_deref_mut().ok_or_else(Fault::memory)
    }

    /// The stack that the last run of a function has left.
    #[inline]
    pub fn spare_stack(&mut self) -> RunStack {
        self.spare.as_mut().map(|spare| std::mem::take(&mut spare.stack)).unwrap_or_default()
    }

    /// Gives the machine the limit of the configuration. True where the machine has libraries that it should
    /// not have, or lacks some: it has to be opened anew.
    pub fn follow_settings(&mut self, limits: MachineLimits) -> bool {
        let Some(machine) = &mut self.machine else { return false };
        machine.set_limit(limits.bytes);
        machine.is_insecure != limits.is_insecure
    }

    /// Forgets all scripts. What they took comes out, to be freed where that suits.
    pub fn flush(&mut self) -> ScriptGarbage {
        ScriptGarbage {
            _scripts: std::mem::take(&mut self.cache),
            _machine: self.machine.take(),
            ..ScriptGarbage::default()
        }
    }

    /// Bytes of the machine of EVAL.
    pub fn machine_bytes(&self) -> usize {
        self.machine.as_ref().map_or(self.running_bytes, |machine| machine.bytes())
    }
}

/// What scripts leave, which takes time to be freed.
#[derive(Debug, Default)]
pub struct ScriptGarbage {
    _scripts: ScriptCache,
    _machine: Option<Box<ScriptMachine>>,
    _run: Option<DiscardedRun>,
    _functions: Functions,
}

impl ScriptGarbage {
    /// Libraries that were flushed or replaced.
    pub fn of_functions(functions: Functions) -> ScriptGarbage {
        ScriptGarbage { _functions: functions, ..ScriptGarbage::default() }
    }

    /// The machine of a library that was deleted.
    pub fn of_machine(machine: Box<ScriptMachine>) -> ScriptGarbage {
        ScriptGarbage { _machine: Some(machine), ..ScriptGarbage::default() }
    }

    /// What a large run has left.
    pub fn of_run(garbage: DiscardedRun) -> ScriptGarbage {
        ScriptGarbage { _run: Some(garbage), ..ScriptGarbage::default() }
    }
}

/// What machines of libraries may use and have.
pub fn machine_limits(config: &Config) -> MachineLimits {
    let is_insecure = config.bool(param::LUA_ENABLE_INSECURE_API);
    MachineLimits { bytes: memory_limit(config), is_insecure, is_wish: true }
}

/// Bytes that a machine may use: `script-memory-limit`, or 1 GiB, or where there is `maxmemory` an eighth of
/// that, 64 MiB at least.
pub fn memory_limit(config: &Config) -> usize {
    let limit = match (config.int(param::SCRIPT_MEMORY_LIMIT), config.int(param::MAXMEMORY)) {
        (0, 0) => 1 << 30,
        (0, maxmemory) => (maxmemory / 8).max(64 << 20),
        (limit, _) => limit,
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Why a script ends in its middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyEnd {
    /// SCRIPT KILL or FUNCTION KILL.
    Killed,
    /// Its client has gone, and it has changed nothing.
    Unneeded,
    /// A signal ends the server, and it has changed nothing.
    ServerEnds,
}

/// What everybody may know of the script that runs: it stands still, or nobody could ask.
#[derive(Debug)]
pub struct RunningScript {
    /// Its name: of a function, or the SHA-1 of a script.
    pub name: Arc<[u8]>,
    /// The command that runs it, as FUNCTION STATS shows it; empty for EVAL.
    pub command: Vec<Vec<u8>>,
    /// It runs by EVAL or its kin.
    pub is_eval: bool,
    /// It came from this server's primary, and is not to be killed.
    pub is_obeyed: bool,
    /// It has called a command that writes.
    pub has_written: bool,
    /// It ends instead of going on.
    pub ending: Option<EarlyEnd>,
    /// When it began, ns of the monotonic clock.
    pub began_ns: u64,
    /// The log has said that the end of the server waits for it.
    pub delays_end: bool,
}

impl RunningScript {
    /// What others are told while this script is busy.
    pub fn busy_error(&self) -> CmdError {
        match self.is_eval {
            true => CmdError::text(
                "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            ),
            false => CmdError::text(
                "BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
            ),
        }
    }
}

/// The script that stands still.
#[derive(Debug)]
pub struct ScriptWatch {
    /// Nothing where none does.
    pub running: Option<Box<RunningScript>>,
    /// It has run for `busy-reply-threshold`: others are told so.
    pub is_busy: Watched<bool>,
    /// A directive has changed that machines depend on, and they do not know it yet.
    pub settings_changed: bool,
}

/// The directives that machines depend on.
pub fn is_machine_setting(id: sluice_config::ParamId) -> bool {
    let settings =
        [param::SCRIPT_MEMORY_LIMIT.any(), param::MAXMEMORY.any(), param::LUA_ENABLE_INSECURE_API.any()];
    settings.contains(&id)
}

impl ScriptWatch {
    /// A signal ends the server. A script that has changed nothing is ended. One that has written, and one of
    /// the primary, is waited for without a bound: half of its changes would be in the data that are saved,
    /// and `shutdown-timeout` is for replicas, which lose nothing. A line for the log, where it has not been
    /// said that the server waits.
    pub fn end_for_server(&mut self) -> Option<String> {
        let running = self.running.as_deref_mut()?;
        if !running.has_written && !running.is_obeyed {
            running.ending.get_or_insert(EarlyEnd::ServerEnds);
        } else if !std::mem::replace(&mut running.delays_end, true) {
            let what =
                if running.is_obeyed { "a script of the primary" } else { "a script that has written" };
            return Some(format!(
                "The end of the server waits for {what}, for as long as that takes: {}. To end the server without the changes of that \
                 script, and without saving: SHUTDOWN NOSAVE FORCE NOW",
                String::from_utf8_lossy(&running.name)
            ));
        }
        None
    }

    /// FUNCTION STATS shows the command of a run that stands still.
    pub fn note_running_command(&mut self, args: sluice_commands::Args<'_>) {
        if let Some(running) = self.running.as_deref_mut().filter(|run| run.command.is_empty()) {
            running.command = args.iter_from(0).map(Vec::from).collect();
        }
    }

    /// The run that stood still has ended.
    pub fn end_watch(&mut self) {
        self.running = None;
        if *self.is_busy {
            *self.is_busy = false;
        }
    }

    /// A script whose client has gone, and that has changed nothing, has nothing left to do: it ends instead
    /// of going on.
    pub fn drop_unneeded_script(&mut self, has_written: bool) {
        let is_unneeded = !has_written || mistake::is_made(Mistake::RunDropped);
        if let Some(running) = self.running.as_deref_mut().filter(|_| is_unneeded) {
            running.ending.get_or_insert(EarlyEnd::Unneeded);
        }
    }

    /// No script runs, under this epoch.
    pub fn new(epoch: &sluice_base::Epoch) -> ScriptWatch {
        ScriptWatch { running: None, is_busy: Watched::new(false, epoch), settings_changed: false }
    }
}
