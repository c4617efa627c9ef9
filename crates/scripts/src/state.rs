//! The state of scripts between their runs, and the part of a paused run that other commands can see.

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

/// The scripts of EVAL, their machine, and memory that runs reuse.
#[derive(Debug, Default)]
pub struct Scripting {
    /// The cached scripts of EVAL and SCRIPT LOAD.
    pub cache: ScriptCache,
    /// The machine of EVAL; `None` before the first script, and while a run has taken the machine.
    pub machine: Option<Box<ScriptMachine>>,
    /// Buffers for the next run; `None` while a run has taken them.
    pub spare: Option<Box<RunBuffers>>,
    /// The used part of the time that scripts may take.
    pub share: ScriptShare,
    /// Whether scripts that waited for their turn are being run.
    pub serves_turns: bool,
    /// Whether the memory was full when the current command began.
    pub is_full: bool,
    /// Bytes of EVAL's machine, as last measured, while a run has taken the machine; 0 otherwise.
    pub running_bytes: usize,
    /// Output of a debugger that is about to be sent to the client.
    pub debug_output: Outbox,
    /// State of `math.random`, which is one generator for all scripts; `None` before the first run.
    pub random: Option<u64>,
}

/// The command time since the clients that run no script were last served.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptShare {
    /// The part of this time that was spent in earlier iterations, in ns.
    pub carried_ns: u64,
    /// The iteration's command time when the share was last renewed, in ns.
    pub base_ns: u64,
}

/// Memory and numbers of scripts, for INFO and MEMORY STATS.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptFacts {
    /// Bytes of the machine of EVAL.
    pub eval_machine_bytes: usize,
    /// Bytes of the cache of EVAL, without the machine.
    pub eval_bytes: usize,
    /// Scripts in the cache of EVAL.
    pub cached: usize,
    /// Functions in all libraries.
    pub functions: usize,
    /// Libraries of functions in the registry.
    pub libraries: usize,
    /// Bytes of the machines of libraries.
    pub function_machine_bytes: usize,
    /// Bytes of libraries, without their machines.
    pub function_bytes: usize,
}

impl ScriptFacts {
    /// Bytes of all scripts, libraries and machines.
    pub fn bytes(&self) -> usize {
        self.eval_machine_bytes + self.eval_bytes + self.function_machine_bytes + self.function_bytes
    }

    /// Bytes of all machines.
    pub fn machine_bytes(&self) -> u64 {
        (self.eval_machine_bytes + self.function_machine_bytes) as u64
    }
}

/// Buffers of a run, which the next run uses again.
#[derive(Debug, Default)]
pub struct RunBuffers {
    /// The arguments of the command that the script calls.
    pub arguments: ArgumentList,
    /// The reply to that command.
    pub reply: Outbox,
    /// The called command after look-up, with its keys hashed.
    pub batch: sluice_commands::PreparedBatch,
    /// Bytes of large arguments that were copied since the last check of the clock.
    pub copied_bytes: usize,
    /// The stack of libraries' machines, kept between the runs of functions.
    pub stack: RunStack,
}

/// The memory of a reply is kept for the next reply if it has at most this many bytes.
const REPLY_KEPT_BYTES: usize = 64 << 10;

impl RunBuffers {
    /// Bytes of heap memory, including the box around this value.
    pub fn footprint(&self) -> usize {
        let kept = self.arguments.footprint()
            + self.reply.footprint()
            + self.batch.footprint()
            + self.stack.footprint();
        heap::boxed::<RunBuffers>() + kept
    }

    /// Empties the buffers of the arguments and of the reply; frees them if they are large.
    pub fn trim(&mut self) {
        self.arguments.clear();
        match self.reply.capacity_bytes() > REPLY_KEPT_BYTES {
            true => self.reply = Outbox::new(),
            false => self.reply.clear(),
        }
    }
}

impl Scripting {
    /// The machine of EVAL, opened if there is none.
    ///
    /// # Errors
    /// The memory limit is too small for Lua's standard libraries.
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

    /// The stack that the last run of a function has left, or an empty stack if there is none.
    #[inline]
    pub fn spare_stack(&mut self) -> RunStack {
        self.spare.as_mut().map(|spare| std::mem::take(&mut spare.stack)).unwrap_or_default()
    }

    /// Sets the machine's limit to that of the configuration. Returns true if a new machine must be
    /// opened, because `lua-enable-insecure-api` has changed.
    pub fn follow_settings(&mut self, limits: MachineLimits) -> bool {
        let Some(machine) = &mut self.machine else { return false };
        machine.set_limit(limits.bytes);
        machine.is_insecure != limits.is_insecure
    }

    /// Removes all scripts of EVAL. Returns their memory, which the caller has to free.
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

/// Memory of scripts that takes long to free, and is therefore freed by lazy free.
#[derive(Debug, Default)]
pub struct ScriptGarbage {
    _scripts: ScriptCache,
    _machine: Option<Box<ScriptMachine>>,
    _run: Option<DiscardedRun>,
    _functions: Functions,
}

impl ScriptGarbage {
    /// Flushed or replaced libraries.
    pub fn of_functions(functions: Functions) -> ScriptGarbage {
        ScriptGarbage { _functions: functions, ..ScriptGarbage::default() }
    }

    /// The machine of a library that was deleted.
    pub fn of_machine(machine: Box<ScriptMachine>) -> ScriptGarbage {
        ScriptGarbage { _machine: Some(machine), ..ScriptGarbage::default() }
    }

    /// The remains of a large run.
    pub fn of_run(garbage: DiscardedRun) -> ScriptGarbage {
        ScriptGarbage { _run: Some(garbage), ..ScriptGarbage::default() }
    }
}

/// The configured limits of the machines of scripts and libraries, for a client's request.
pub fn machine_limits(config: &Config) -> MachineLimits {
    let is_insecure = config.bool(param::LUA_ENABLE_INSECURE_API);
    MachineLimits { bytes: memory_limit(config), is_insecure, is_wish: true }
}

/// Bytes that a machine may use: `script-memory-limit` if this is set; otherwise, if `maxmemory` is set, an
/// eighth of `maxmemory`, but at least 64 MiB; otherwise 1 GiB.
pub fn memory_limit(config: &Config) -> usize {
    let limit = match (config.int(param::SCRIPT_MEMORY_LIMIT), config.int(param::MAXMEMORY)) {
        (0, 0) => 1 << 30,
        (0, maxmemory) => (maxmemory / 8).max(64 << 20),
        (limit, _) => limit,
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// The reason why a script ends before its program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyEnd {
    /// SCRIPT KILL or FUNCTION KILL.
    Killed,
    /// The script's client is gone, and the script has written nothing.
    Unneeded,
    /// A signal ends the server, and the script has written nothing.
    ServerEnds,
}

/// The part of the running script's state that other commands can see. They can see it only while the script
/// is paused.
#[derive(Debug)]
pub struct RunningScript {
    /// The name of the function or library, or the SHA-1 of the script.
    pub name: Arc<[u8]>,
    /// The command that started the run, as FUNCTION STATS shows it; empty for EVAL.
    pub command: Vec<Vec<u8>>,
    /// Whether the script was started by EVAL or a related command, and not by FCALL.
    pub is_eval: bool,
    /// The command came from this server's primary or from a replayed log, so the script must not be killed.
    pub is_replicated: bool,
    /// The script has called a command that writes.
    pub has_written: bool,
    /// If set, the script ends with this reason instead of continuing.
    pub ending: Option<EarlyEnd>,
    /// When the run began, in ns of the monotonic clock.
    pub began_ns: u64,
    /// Whether the log has reported that the server's end waits for the script.
    pub delays_end: bool,
}

impl RunningScript {
    /// The error for other clients' commands while this script is busy.
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

/// The paused script.
#[derive(Debug)]
pub struct ScriptWatch {
    /// The state of the paused script; `None` while no script is paused.
    pub running: Option<Box<RunningScript>>,
    /// Whether the script has run for `busy-reply-threshold`, so that other clients are answered with BUSY.
    pub is_busy: Watched<bool>,
    /// Whether a directive of [`is_machine_setting`] has changed and the machines have not been adapted yet.
    pub settings_changed: bool,
}

/// Whether machines depend on this directive.
pub fn is_machine_setting(id: sluice_config::ParamId) -> bool {
    let settings =
        [param::SCRIPT_MEMORY_LIMIT.any(), param::MAXMEMORY.any(), param::LUA_ENABLE_INSECURE_API.any()];
    settings.contains(&id)
}

impl ScriptWatch {
    /// Called when a signal ends the server. A script that has written nothing is ended. For a script that
    /// has written, or comes from the primary, the end waits without a limit, because otherwise the saved
    /// data would contain a part of the script's changes. `shutdown-timeout` does not apply, because it
    /// limits the wait for replicas, which lose nothing if that wait is short. If the server waits, the
    /// first call returns a line for the log.
    pub fn end_for_server(&mut self) -> Option<String> {
        let running = self.running.as_deref_mut()?;
        if !running.has_written && !running.is_replicated {
            running.ending.get_or_insert(EarlyEnd::ServerEnds);
        } else if !std::mem::replace(&mut running.delays_end, true) {
            let what =
                if running.is_replicated { "a script of the primary" } else { "a script that has written" };
            return Some(format!(
                "The end of the server waits for {what}, for as long as that takes: {}. To end the server without the changes of that \
                 script, and without saving: SHUTDOWN NOSAVE FORCE NOW",
                String::from_utf8_lossy(&running.name)
            ));
        }
        None
    }

    /// Records the command of a paused run, for FUNCTION STATS.
    pub fn note_running_command(&mut self, args: sluice_commands::Args<'_>) {
        if let Some(running) = self.running.as_deref_mut().filter(|run| run.command.is_empty()) {
            running.command = args.iter_from(0).map(Vec::from).collect();
        }
    }

    /// Removes the state of the paused run, because the run has ended.
    pub fn end_watch(&mut self) {
        self.running = None;
        if *self.is_busy {
            *self.is_busy = false;
        }
    }

    /// Ends the paused script, whose client is gone, if the script has written nothing, because nobody
    /// waits for its result.
    pub fn drop_unneeded_script(&mut self, has_written: bool) {
        let is_unneeded = !has_written || mistake::is_made(Mistake::RunDropped);
        if let Some(running) = self.running.as_deref_mut().filter(|_| is_unneeded) {
            running.ending.get_or_insert(EarlyEnd::Unneeded);
        }
    }

    /// A value without a paused script. Each change of `is_busy` advances `epoch`.
    pub fn new(epoch: &sluice_base::Epoch) -> ScriptWatch {
        ScriptWatch { running: None, is_busy: Watched::new(false, epoch), settings_changed: false }
    }
}
