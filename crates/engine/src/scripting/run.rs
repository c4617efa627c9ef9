//! How a script's run begins, goes on in slices, and ends.
//!
//! A slice takes [`SLICE_NS`]. After a slice the run is suspended with its execution unit, and the server
//! does the work between two iterations: see `exec/open_unit.rs`.

mod call;
mod frame;

use crate::cluster::redirect::{SlotRoute, route_of};
use crate::engine::Engine;
use crate::exec::standing::Standing;
use crate::exec::unit::{Suspension, Unit};
use crate::scripting::scripts::Scripts;
use sluice_base::Now;
use sluice_command::Spec;
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor, until_zero};
use sluice_config::param;
use sluice_control::action::Action;
use sluice_control::between_units::BetweenUnits;
use sluice_control::ctx::{Handler, ScriptCommand};
use sluice_control::process::Process;
use sluice_lua::{RunLimit, RunOutcome, Value, compile_as};
use sluice_resp::{Outbox, Reply};
use sluice_scripts::cache::NewScript;
use sluice_scripts::debugger::{Debugger, LOOK_NS};
use sluice_scripts::library;
use sluice_scripts::library::MachineLimits;
use sluice_scripts::machine::{GlobalsRead, RANDOM_START, Receivers, ScriptMachine, error_table};
use sluice_scripts::run::RunName;
use sluice_scripts::run::{
    CallSettings, EvalKind, NO_SCRIPT, RunSlot, ScriptKind, ScriptProgress, ScriptRights, ScriptRun,
    key_count, start_script,
};
use sluice_scripts::shebang::{ScriptFlags, script_head};
use sluice_scripts::state::{
    EarlyEnd, RunBuffers, RunningScript, ScriptFacts, ScriptGarbage, machine_limits,
};
use sluice_scripts::to_reply::{ReplyConversion, ReplyProgress, is_counted, write_plain};
use sluice_session::{ScriptDebugging, Session};
use std::sync::Arc;

/// Nanoseconds that commands may take before scripts wait until all other clients have been served: the
/// longest wait that many short scripts cause.
pub(crate) const SHARE_NS: u64 = 20_000_000;

/// Nanoseconds of a slice of a run.
pub(crate) const SLICE_NS: u64 = 2_000_000;

/// Number of hexadecimal digits in a script's SHA-1 name.
const SHA_LEN: usize = 40;

/// Bytes of large arguments that cost one unit of the machine's budget to copy.
const COPIED_PER_UNIT: usize = 128;

/// Error of a script that has used up its slice and may not be suspended. The script ends with this error if
/// it has written nothing, or if the load that replays it was stopped.
const ENDS_WITH_SERVER: &str =
    "ERR The script was ended: the server is about to end, or its load was stopped";

/// Number of elements of a result that are converted between two readings of the clock.
const ELEMENTS: i64 = 10_000;

/// Runs the first slice of a run, and then ends or suspends the run. A macro, because a run is large and
/// a function would copy it.
macro_rules! begin {
    ($engine:expr, $run:ident, $unit:expr, $session:expr, $now:expr, $process:expr) => {
        match $engine.first_slice(&mut $run, $unit, $session, $now, $process) {
            Some(result) => {
                let ScriptRun { what, machine, buffers, .. } = $run;
                $engine.scripts().give_back(what, machine, buffers);
                result
            }
            None => {
                $engine.scripts().leave_run(Box::new($run), $unit, $now.mono_ns);
                Ok(Outcome::StandStill)
            }
        }
    };
}
pub(crate) use begin;

impl Engine {
    /// EVAL, EVALSHA and their read-only forms.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn eval(
        &mut self,
        kind: EvalKind,
        is_read_only: bool,
        unit: &mut Unit,
        session: &mut Session,
        args: Args<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        if session.caller.flags.script_debugging != ScriptDebugging::Sync {
            return self.eval_script(kind, is_read_only, unit, session, args, now, process);
        }
        if kind == EvalKind::Sha {
            if args.at(1).len() != SHA_LEN {
                return Err(NO_SCRIPT);
            }
            return Err(CmdError::text("ERR Please use EVAL instead of EVALSHA for debugging"));
        }
        let result = self.eval_script(kind, is_read_only, unit, session, args, now, process);
        if let (Err(error), Standing::Client) = (&result, unit.standing) {
            // The end of the debugging session is reported before the error.
            self.scripts().end_debugging(session);
            self.core.reply_error(session, error);
            return Ok(Outcome::DoneWithError);
        }
        result
    }

    #[allow(clippy::too_many_arguments)]
    fn eval_script(
        &mut self,
        kind: EvalKind,
        is_read_only: bool,
        unit: &mut Unit,
        session: &mut Session,
        args: Args<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        if self.scripts().script_waits_for_turn(unit, session) {
            return Ok(Outcome::Wait(Box::new(WaitFor::Turn)));
        }
        self.scripts().show_script_to_monitors(unit, session, args, *now);
        if kind == EvalKind::Sha && args.at(1).len() != SHA_LEN {
            return Err(NO_SCRIPT);
        }
        let keys = key_count(args)?;
        let slot = match kind {
            EvalKind::Sha => self.scripting.cache.find_sha(args.at(1)).ok_or(NO_SCRIPT)?,
            EvalKind::Text => {
                let is_replicated = unit.standing == Standing::Replay || session.caller.is_primary();
                self.scripts().script_of_text(args.at(1), false, is_replicated)?
            }
        };
        let Some(script) = self.scripting.cache.get(slot) else { return Err(NO_SCRIPT) };
        let (flags, chunk, name) = (script.flags, script.chunk, script.sha);
        let globals = match session.caller.flags.script_debugging {
            ScriptDebugging::No | ScriptDebugging::Refused => script.globals,
            // A debugger may read any global.
            ScriptDebugging::Sync => GlobalsRead::ALL,
        };
        let rights = self.scripts().rights_of_script(flags, is_read_only, unit, session)?;
        let Some(mut machine) = self.scripting.machine.take() else { return Err(NO_SCRIPT) };
        rights.lift_limit(&mut machine);
        if let Err(fault) = start_script(&mut machine, (chunk, globals), args, keys, process.recent()) {
            drop(fault);
            let _ = machine.vm.end();
            self.scripts().end_lift(&mut machine, rights);
            self.scripting.machine = Some(machine);
            return Err(CmdError::text("ERR Error running script, not enough memory"));
        }
        let mut run = self.scripts().new_run(
            machine,
            ScriptKind::Eval(slot),
            RunName::Sha(name),
            rights,
            session,
            *now,
        );
        run.rights.slot = self.scripts().slot_of_run(flags, rights, args);
        if session.caller.flags.script_debugging == ScriptDebugging::Sync && rights.may_stand_still {
            run.debugger = Some(Box::new(Debugger::new(args, keys)));
        }
        begin!(self, run, unit, session, now, process)
    }

    /// Runs the first slice. Returns the result of the run, or `None` if the run is to be suspended;
    /// `begin!` then ends or suspends the run.
    pub(crate) fn first_slice(
        &mut self,
        run: &mut ScriptRun,
        unit: &mut Unit,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Option<Run> {
        let mark = session.outbox.mark();
        match self.run_slice_from(run, mark, unit, session, now, process) {
            ScriptProgress::Ended(result) => {
                self.scripts().note_overrun(run, process);
                self.scripts().settle_run(run, session);
                Some(result)
            }
            ScriptProgress::StandsStill => None,
        }
    }

    /// Continues a suspended run: runs a slice, or ends the run if the script was killed or is to be ended
    /// early.
    pub(crate) fn resume_run(
        &mut self,
        run: &mut ScriptRun,
        unit: &mut Unit,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> ScriptProgress {
        let early = self.core.control.scripts.running.as_ref().and_then(|running| running.ending);
        if let Some(early) = early {
            let command = if matches!(run.what, ScriptKind::Eval(_)) { "SCRIPT" } else { "FUNCTION" };
            let text = match early {
                EarlyEnd::Killed => format!("Script killed by user with {command} KILL."),
                EarlyEnd::ServerEnds => {
                    "A script that had changed nothing was ended: the server ends".to_owned()
                }
                EarlyEnd::Unneeded => {
                    "A script that had changed nothing was ended: its client has gone".to_owned()
                }
            };
            process.log(sluice_base::LogLevel::Notice, &text);
            let error = error_table(run.machine.vm.heap(), text.as_bytes()).map_or(Value::NIL, Into::into);
            run.reply = Outbox::new();
            return ScriptProgress::Ended(self.scripts().failed(run, error, session));
        }
        if let Some(error) = run.abortion() {
            return ScriptProgress::Ended(Err(error));
        }
        let mark = session.outbox.mark();
        let mut written = std::mem::take(&mut run.reply);
        session.outbox.append(&mut written);
        let progress = self.run_slice_from(run, mark, unit, session, now, process);
        self.scripts().note_running_bytes(run);
        if matches!(progress, ScriptProgress::Ended(_)) {
            self.scripts().note_overrun(run, process);
        }
        progress
    }

    /// Memory and numbers of scripts and libraries, for INFO.
    pub(crate) fn script_facts(&self) -> ScriptFacts {
        let functions = &self.core.control.functions;
        ScriptFacts {
            eval_machine_bytes: self.scripting.machine_bytes(),
            eval_bytes: self.scripting.cache.footprint(),
            cached: self.scripting.cache.len(),
            functions: functions.count(),
            libraries: functions.libraries(),
            function_machine_bytes: functions.machine_bytes(),
            function_bytes: functions.footprint(),
        }
    }

    /// Whether scripts wait for their turn and will get it, which is no longer the case once the server has
    /// stopped.
    pub(crate) fn has_turns(&self) -> bool {
        self.core.control.clients.blocking.scripts() > 0 && !self.core.control.persistence.has_stopped
    }

    /// Runs the scripts that wait for their turn, in the order in which they began to wait, as far as
    /// the share of scripts allows.
    #[cold]
    pub(crate) fn serve_turns(&mut self, process: &mut dyn Process) {
        self.scripting.serves_turns = true;
        while self.core.control.between_units(BetweenUnits::Service)
            && self.has_turns()
            && !self.scripts().script_share_is_used()
            && let Some(client) = self.core.control.clients.blocking.next_script()
        {
            self.run_waiting(client, process);
            // The loop ends if the client's script waits again.
            if self.core.control.clients.blocking.next_script() == Some(client) {
                break;
            }
        }
        self.scripting.serves_turns = false;
    }

    /// Flags of the script that a command runs, as far as they are known before the command runs. `None`
    /// if the command runs no script.
    pub(crate) fn flags_of_called_script(&self, spec: &'static Spec, args: Args<'_>) -> Option<ScriptFlags> {
        let cache = &self.scripting.cache;
        let of = |slot: Option<u32>| slot.and_then(|slot| cache.get(slot)).map(|script| script.flags);
        match self.preparing.handlers[spec.id.0 as usize] {
            Handler::Script(ScriptCommand::Eval | ScriptCommand::EvalRo) => {
                let text = args.at(1);
                let known = of(cache.find_text(self.core.keyspace.hasher().hash(text), text));
                let head = || script_head(text).map_or(ScriptFlags::COMPATIBLE, |head| head.flags);
                Some(known.unwrap_or_else(head))
            }
            Handler::Script(ScriptCommand::EvalSha | ScriptCommand::EvalShaRo) => {
                Some(of(cache.find_sha(args.at(1))).unwrap_or(ScriptFlags::COMPATIBLE))
            }
            Handler::Script(ScriptCommand::Fcall | ScriptCommand::FcallRo) => {
                let functions = &self.core.control.functions;
                let found = functions.find(args.at(1)).and_then(|found| functions.function(found));
                Some(found.map_or(ScriptFlags::COMPATIBLE, |function| function.flags))
            }
            _ => None,
        }
    }

    /// Marks a script as busy, and logs it, once the script has run for `busy-reply-threshold`: other
    /// clients get BUSY from then on.
    pub(crate) fn look_at_busy_script(&mut self, process: &mut dyn Process) {
        let threshold_ms = self.core.control.config.int(param::BUSY_REPLY_THRESHOLD);
        let Some(running) = self.core.control.scripts.running.as_deref() else { return };
        let elapsed_ms = process.recent().mono_ns.saturating_sub(running.began_ns) / 1_000_000;
        let is_due = threshold_ms > 0 && elapsed_ms >= threshold_ms as u64;
        if !is_due || *self.core.control.scripts.is_busy {
            return;
        }
        let command = if running.is_eval { "SCRIPT KILL" } else { "FUNCTION KILL" };
        let text = format!(
            "Slow script detected: still in execution after {elapsed_ms} milliseconds. You can try killing the script using \
             the {command} command. Script name is: {}.",
            String::from_utf8_lossy(&running.name)
        );
        process.log(sluice_base::LogLevel::Warning, &text);
        *self.core.control.scripts.is_busy = true;
        // A client whose request waits for the end of the script gets BUSY now.
        for client in self.core.control.clients.blocking.postponed() {
            let is_held = self
                .core
                .sessions
                .get(client)
                .and_then(|session| session.waiting.as_deref())
                .is_some_and(|waiting| matches!(waiting.on, WaitFor::Held | WaitFor::Turn));
            if is_held {
                self.run_waiting(client, process);
            }
        }
    }

    /// Runs until the run has ended or its slice is over. The reply is written from `mark` on.
    fn run_slice_from(
        &mut self,
        run: &mut ScriptRun,
        mark: sluice_resp::Mark,
        unit: &mut Unit,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> ScriptProgress {
        let began_ns = now.mono_ns;
        let mut limit = RunLimit::until(began_ns, began_ns.saturating_add(SLICE_NS));
        loop {
            if let Some(result) = run.result.as_mut() {
                if let Some(ended) = self.scripts().write_result(result, &mut run.machine, mark, session) {
                    return ScriptProgress::Ended(ended);
                }
                limit.note_time(process.now().mono_ns);
            } else {
                let clock = &mut || process.now().mono_ns;
                let outcome = match run.machine.vm.run() {
                    Some(_) if run.debugger.is_some() => run.resume_by_lines(&mut limit, clock),
                    Some(mut running) => running.resume(&mut limit, clock),
                    None => RunOutcome::Done,
                };
                self.scripts().show_time_to_debugger(run, limit.seen_ns());
                match outcome {
                    _ if run.is_stopped() => {
                        run.reply = session.outbox.split_off(mark);
                        return ScriptProgress::StandsStill;
                    }
                    RunOutcome::Call(code) => {
                        self.serve_script(run, code, unit, session, now, process);
                        // If the request was a call, `now` is the time at which the called command ended.
                        limit.note_time(now.mono_ns);
                        let copied = std::mem::take(&mut run.buffers.copied_bytes);
                        limit.charge((copied / COPIED_PER_UNIT) as u64);
                    }
                    RunOutcome::Done => {
                        let is_restoring = run.restore.is_some();
                        if let Some(ended) = self.scripts().finish_program(run, session) {
                            return ScriptProgress::Ended(ended);
                        }
                        if is_restoring {
                            limit.note_time(process.now().mono_ns);
                        }
                    }
                    RunOutcome::Failed(error) => {
                        return ScriptProgress::Ended(self.scripts().failed(run, error, session));
                    }
                    RunOutcome::OutOfBudget => {}
                }
            }
            if !limit.is_over() {
                continue;
            }
            if let Err(error) = run.count_load_time(limit.seen_ns().saturating_sub(began_ns)) {
                return ScriptProgress::Ended(Err(error));
            }
            if run.rights.may_stand_still {
                run.reply = session.outbox.split_off(mark);
                return ScriptProgress::StandsStill;
            }
            if process.is_broken_off() || unit.standing != Standing::Replay && !run.has_written {
                session.outbox.rewind(mark);
                return ScriptProgress::Ended(Err(CmdError::text(ENDS_WITH_SERVER)));
            }
            limit = RunLimit::until(limit.seen_ns(), limit.seen_ns().saturating_add(SLICE_NS));
        }
    }
}

impl Scripts<'_> {
    /// The run of a program that the machine has just started.
    pub(crate) fn new_run(
        &mut self,
        mut machine: Box<ScriptMachine>,
        what: ScriptKind,
        name: RunName,
        rights: ScriptRights,
        session: &Session,
        now: Now,
    ) -> ScriptRun {
        machine.vm.heap().host.random = self.scripting.random.unwrap_or(RANDOM_START);
        ScriptRun {
            machine,
            what,
            name,
            rights,
            has_written: false,
            settings: CallSettings { is_resp3: false, receivers: Receivers(Receivers::ALL) },
            began_ns: now.mono_ns,
            spent_ns: 0,
            db: session.caller.db,
            command: Vec::new(),
            buffers: self.scripting.spare.take().unwrap_or_default(),
            result: None,
            reply: Outbox::new(),
            library: None,
            restore: None,
            debugger: None,
        }
    }

    /// Suspends a run with its unit, for a later slice.
    pub(crate) fn leave_run(&mut self, mut run: Box<ScriptRun>, unit: &mut Unit, at_ns: u64) {
        self.core.stats.iteration.script_slices += 1;
        self.note_running_bytes(&run);
        let watch = &mut self.core.control.scripts;
        let running = watch.running.get_or_insert_with(|| {
            Box::new(RunningScript {
                name: run.name.shared(),
                command: std::mem::take(&mut run.command),
                is_eval: matches!(run.what, ScriptKind::Eval(_)),
                is_replicated: run.rights.is_replicated,
                has_written: run.has_written,
                ending: None,
                began_ns: run.began_ns,
                delays_end: false,
            })
        });
        running.has_written = run.has_written;
        let until_ns = if run.is_stopped() { at_ns.saturating_add(LOOK_NS) } else { at_ns };
        unit.suspended = Some(Box::new(Suspension { transaction: None, script: Some(run), until_ns }));
    }

    /// Notes for INFO how far beyond `maxmemory` a writing script has come: this can happen because scripts
    /// are checked against `maxmemory` only when they begin, unless `script-deny-oom-calls` is on.
    fn note_overrun(&mut self, run: &ScriptRun, process: &mut dyn Process) {
        let limit = self.core.control.limits.maxmemory;
        if limit > 0 && run.has_written && !run.rights.is_replicated {
            let beyond = process.counted_memory(&self.core.keyspace).saturating_sub(limit) as u64;
            self.core.stats.eviction.script_overrun_max =
                self.core.stats.eviction.script_overrun_max.max(beyond);
        }
    }

    /// Notes for INFO how much memory a suspended run takes.
    fn note_running_bytes(&mut self, run: &ScriptRun) {
        let bytes = run.machine.bytes() + run.restore.as_ref().map_or(0, |restore| restore.footprint());
        match run.what {
            ScriptKind::Eval(_) => self.scripting.running_bytes = bytes,
            ScriptKind::Function(_) | ScriptKind::Library => self.core.control.functions.note_lent(bytes),
        }
    }

    /// Whether a script has to wait for its turn: commands have taken [`SHARE_NS`] since all other
    /// clients were served, or other scripts wait. Scripts inside EXEC, and those of the primary or a
    /// log, do not wait.
    pub(crate) fn script_waits_for_turn(&self, unit: &Unit, session: &Session) -> bool {
        let others_wait = self.core.control.clients.blocking.scripts() > 0 && !self.scripting.serves_turns;
        let waits = others_wait || self.script_share_is_used();
        waits && unit.standing == Standing::Client && !session.caller.is_primary()
    }

    fn script_share_is_used(&self) -> bool {
        let share = &self.scripting.share;
        share.carried_ns + self.core.stats.iteration.command_ns.saturating_sub(share.base_ns) >= SHARE_NS
    }

    /// Renews the share of scripts at the end of an iteration. While a transaction or script is suspended,
    /// other clients have not been served, and the share is not renewed.
    #[inline]
    pub(crate) fn renew_script_share(&mut self) {
        let command_ns = self.core.stats.iteration.command_ns;
        let share = &mut self.scripting.share;
        share.carried_ns = match *self.core.control.clients.unit_stands_open {
            true => share.carried_ns + command_ns.saturating_sub(share.base_ns),
            false => 0,
        };
        share.base_ns = command_ns;
    }

    /// Ends a run: returns its machine to the owner of the machine, and its buffers to the next run.
    pub(crate) fn end_run(&mut self, mut run: ScriptRun, session: &mut Session) {
        self.settle_run(&mut run, session);
        self.give_back(run.what, run.machine, run.buffers);
    }

    /// Ends a run, except for its machine.
    fn settle_run(&mut self, run: &mut ScriptRun, session: &mut Session) {
        session.caller.db = run.db;
        if let Some(debugger) = run.debugger.take() {
            self.end_debugger(debugger, session);
        }
        self.scripting.random = Some(run.machine.vm.heap().host.random);
        if let Some(garbage) = run.machine.vm.end() {
            self.core.actions.push(Action::FreeScripts(Box::new(ScriptGarbage::of_run(garbage))));
        }
        self.end_lift(&mut run.machine, run.rights);
        run.buffers.trim();
        if !matches!(run.what, ScriptKind::Eval(_)) {
            run.buffers.stack = run.machine.vm.take_stack();
        }
    }

    /// Returns the machine of a settled run to its owner, and the buffers of the run to the next run.
    pub(crate) fn give_back(
        &mut self,
        what: ScriptKind,
        machine: Box<ScriptMachine>,
        buffers: Box<RunBuffers>,
    ) {
        self.scripting.spare = Some(buffers);
        match what {
            ScriptKind::Eval(slot) => {
                self.scripting.cache.touch(slot);
                // The machine still belongs to the cache, because SCRIPT FLUSH cannot run while a script
                // does.
                self.scripting.machine = Some(machine);
            }
            ScriptKind::Function(slot) => {
                if let Some(library) = self.core.control.functions.get_mut(slot) {
                    library.machine = Some(machine);
                }
            }
            // The library was not accepted, so its machine is dropped.
            ScriptKind::Library => {}
        }
        self.scripting.running_bytes = 0;
        self.core.control.functions.note_lent(0);
        if self.core.control.scripts.running.is_some() {
            self.core.control.scripts.end_watch();
        }
    }

    /// Sets a machine's memory limit back to the limit for clients' scripts.
    fn end_lift(&self, machine: &mut ScriptMachine, rights: ScriptRights) {
        if rights.is_replicated {
            machine.set_limit(machine_limits(&self.core.control.config).bytes);
        }
    }

    /// Slot of the script with this text, which is compiled if it is unknown. `is_kept`: whether SCRIPT LOAD
    /// keeps the script.
    ///
    /// # Errors
    /// The first line or the program of the script is wrong, or the memory limit does not allow the script.
    pub(crate) fn script_of_text(
        &mut self,
        text: &[u8],
        is_kept: bool,
        is_replicated: bool,
    ) -> Result<u32, CmdError> {
        let hash = self.core.keyspace.hasher().hash(text);
        if let Some(slot) = self.scripting.cache.find_text(hash, text) {
            if is_kept {
                self.scripting.cache.keep(slot);
            }
            return Ok(slot);
        }
        let added = self.add_script(text, hash, is_kept, self.core.control.limits_of_load(is_replicated));
        if is_replicated && let Some(machine) = self.scripting.machine.as_mut() {
            machine.set_limit(machine_limits(&self.core.control.config).bytes);
        }
        added
    }

    /// Compiles a script that is not known yet. Returns its slot.
    fn add_script(
        &mut self,
        text: &[u8],
        hash: u64,
        is_kept: bool,
        limits: MachineLimits,
    ) -> Result<u32, CmdError> {
        let head = script_head(text).map_err(|text| CmdError::owned([b"ERR ", &*text].concat()))?;
        let machine = self.scripting.machine(limits);
        let machine = machine.map_err(|_| {
            CmdError::text("ERR script-memory-limit is too small for the libraries of scripts")
        })?;
        let program = compile_bounded(&text[head.len..], machine)?;
        let program_bytes = program.linked_bytes();
        let Ok((chunk, machine_bytes)) = machine.vm.load_owned(program) else {
            return Err(CmdError::text("ERR Error compiling script (new function): not enough memory"));
        };
        let (flags, globals) = (head.flags, machine.globals_of(chunk));
        let body = text.into();
        let new = NewScript { body, flags, chunk, globals, program_bytes, machine_bytes, hash, is_kept };
        let bytes_max = match self.core.control.config.uint(param::MAXMEMORY_SCRIPTS) {
            0 => usize::MAX,
            bytes => bytes as usize,
        };
        let (slot, displaced) = self.scripting.cache.add(new, bytes_max);
        for chunk in displaced {
            self.core.stats.eviction.scripts += 1;
            if let Some(machine) = self.scripting.machine.as_mut() {
                machine.vm.unload(chunk);
            }
        }
        Ok(slot)
    }

    /// The hash slot to which the calls of a script are restricted (T13): the slot of the keys that the
    /// script declares, or of its first call if the declared keys name no single slot. A script is not
    /// restricted outside a cluster, nor if it has no first line with flags, declares that it crosses slots,
    /// or comes from the primary or a log.
    pub(crate) fn slot_of_run(&self, flags: ScriptFlags, rights: ScriptRights, args: Args<'_>) -> RunSlot {
        let is_free = flags.has(ScriptFlags::COMPATIBLE) || flags.has(ScriptFlags::ALLOW_CROSS_SLOT_KEYS);
        match args.spec() {
            Some(spec) if self.core.control.cluster.is_some() && !is_free && !rights.is_replicated => {
                match route_of(spec, args) {
                    SlotRoute::Slot(slot) => RunSlot::Of(slot.number()),
                    SlotRoute::Keyless | SlotRoute::Crosses => RunSlot::OfFirstCall,
                }
            }
            Some(_) | None => RunSlot::Any,
        }
    }

    /// Rights of a script with these flags in the current state.
    ///
    /// # Errors
    /// The script may not run in the current state.
    pub(crate) fn rights_of_script(
        &self,
        flags: ScriptFlags,
        is_read_only: bool,
        unit: &Unit,
        session: &Session,
    ) -> Result<ScriptRights, CmdError> {
        let control = &self.core.control;
        if control.cluster.is_some() && flags.has(ScriptFlags::NO_CLUSTER) {
            return Err(CmdError::text("ERR Can not run script on cluster, 'no-cluster' flag is set."));
        }
        let is_replayed = unit.standing == Standing::Replay;
        let is_replicated = is_replayed || session.caller.is_primary();
        let is_full = self.scripting.is_full && control.limits.maxmemory > 0 && !is_replicated;
        let is_compatible = flags.has(ScriptFlags::COMPATIBLE);
        let writes = !flags.has(ScriptFlags::NO_WRITES);
        if control.is_stale() && !is_replayed && (is_compatible || !flags.has(ScriptFlags::ALLOW_STALE)) {
            return Err(match is_compatible {
                true => CmdError::STALE_REPLICA,
                false => CmdError::text(
                    "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag \
                     is not set on the script.",
                ),
            });
        }
        if !is_compatible && writes {
            if !is_replicated {
                self.core.control.may_write_by_script()?;
            }
            if is_read_only {
                return Err(CmdError::text(
                    "ERR Can not execute a script with write flag using *_ro command.",
                ));
            }
            if control.lacks_replicas() {
                return Err(CmdError::text("NOREPLICAS Not enough good replicas to write."));
            }
        }
        if !is_compatible && writes && is_full && !flags.has(ScriptFlags::ALLOW_OOM) {
            return Err(CmdError::text(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
            ));
        }
        Ok(ScriptRights {
            is_read_only: is_read_only || !is_compatible && !writes,
            allows_oom: !is_compatible && flags.has(ScriptFlags::ALLOW_OOM),
            is_full,
            is_replicated,
            may_stand_still: !is_replayed && !control.persistence.saved_for_end,
            slot: RunSlot::Any,
        })
    }

    /// Shows a script's command to MONITOR, before the commands that the script calls.
    pub(crate) fn show_script_to_monitors(
        &mut self,
        unit: &Unit,
        session: &mut Session,
        args: Args<'_>,
        now: Now,
    ) {
        let Some(spec) = args.spec() else { return };
        if !self.core.control.clients.monitors.is_empty() && unit.standing.row().is_monitored {
            self.core.show_to_monitors(session, spec, args, unit.standing, now);
        }
    }

    /// Handles the end of the program. `None` if the run goes on: with the next library of FUNCTION
    /// RESTORE, or with writing its result to the client.
    fn finish_program(&mut self, run: &mut ScriptRun, session: &mut Session) -> Option<Run> {
        if run.restore.is_some() {
            return self.go_on_restoring(run, session);
        }
        if run.library.is_some() {
            return Some(self.finish_function_load(run, session));
        }
        let result = run.machine.vm.run().and_then(|running| running.results().first().copied());
        let result = result.unwrap_or(Value::NIL);
        let (proto, limit) = (session.caller.proto, reply_limit(&run.machine));
        if write_plain(result, run.machine.vm.objects(), proto, &mut session.outbox, limit) {
            return Some(Ok(Outcome::Done));
        }
        run.result = Some(ReplyConversion::new(result, run.settings.is_resp3));
        None
    }

    /// Reports to a debugger where its run is, if the run has gone on for long.
    fn show_time_to_debugger(&mut self, run: &mut ScriptRun, mono_ns: u64) {
        if let Some(debugger) = run.debugger.as_deref_mut() {
            let threshold_ms = self.core.control.config.int(param::BUSY_REPLY_THRESHOLD);
            debugger.look_at_time(mono_ns, u64::try_from(threshold_ms).unwrap_or(0));
        }
    }

    /// Writes the next part of a run's result. Returns the outcome of the run when all of it is written.
    fn write_result(
        &mut self,
        result: &mut ReplyConversion,
        machine: &mut ScriptMachine,
        mark: sluice_resp::Mark,
        session: &mut Session,
    ) -> Option<Run> {
        let (proto, limit) = (session.caller.proto, reply_limit(machine));
        let mut work = ELEMENTS;
        let progress = result.step(machine.vm.heap(), proto, &mut session.outbox, limit, &mut work);
        for error in std::mem::take(&mut result.errors) {
            self.core.stats.count_custom_error(&error);
        }
        match progress {
            ReplyProgress::Done if result.has_error => Some(Ok(Outcome::DoneWithError)),
            ReplyProgress::Done => Some(Ok(Outcome::Done)),
            ReplyProgress::TooLarge => {
                session.outbox.rewind(mark);
                let text = "ERR The reply of the script is larger than script-memory-limit";
                Some(Err(CmdError::text(text)))
            }
            ReplyProgress::More => None,
        }
    }

    /// Turns an error that the script did not catch into the command's result. An error of a called
    /// command that was counted already is not counted again.
    fn failed(&mut self, run: &mut ScriptRun, error: Value, session: &mut Session) -> Run {
        if run.library.is_some() {
            let text = library::failed(run.machine.vm.heap(), error);
            return Err(CmdError::owned([b"ERR ", &*text].concat()));
        }
        let position = match run.machine.vm.run() {
            Some(running) => running.failed_at().map(|(source, line)| (source.to_vec(), line)),
            None => None,
        };
        let heap = run.machine.vm.heap();
        let table = error.as_table();
        let mut text = match table {
            Some(table) => {
                let told = heap.get_text(table, b"err");
                shown(heap, told).unwrap_or_else(|| b"ERR unknown error".to_vec())
            }
            None => {
                let told = shown(heap, error).unwrap_or_else(|| error.plain_text().into_bytes());
                [b"ERR ", &*told].concat()
            }
        };
        text.truncate(until_zero(&text).len());
        // A native function that is itself registered as a library's function has no position.
        if let Some((source, line)) = position {
            text.extend_from_slice(&[b" script: on ", &*source, format!(":{line}.").as_bytes()].concat());
        }
        if let Some(table) = table {
            if !is_counted(table, heap) {
                self.core.stats.count_custom_error(&text);
            }
            Reply::new(&mut session.outbox, session.caller.proto).error_of_script(&text);
            return Ok(Outcome::DoneWithError);
        }
        Err(CmdError::owned(text))
    }
}

/// Bytes of a string, or of a number as text; `None` for other values.
fn shown(heap: &mut sluice_lua::Heap, value: Value) -> Option<Vec<u8>> {
    let text = match value.as_number() {
        Some(number) => heap.number_string(number).ok()?.as_str(),
        None => value.as_str(),
    };
    text.map(|text| heap.bytes(text).to_vec())
}

/// Maximum bytes of a script's reply.
fn reply_limit(machine: &ScriptMachine) -> usize {
    machine.limit
}

/// Compiles a script, if the memory limit allows its length, because the compiler takes time and memory in
/// proportion to the length, and that memory is not counted for the machine.
fn compile_bounded(program: &[u8], machine: &ScriptMachine) -> Result<Arc<sluice_lua::Proto>, CmdError> {
    let error =
        |text: &[u8]| CmdError::owned([b"ERR Error compiling script (new function): ", text].concat());
    if program.len() > machine.limit / COMPILED_PER_BYTE {
        return Err(error(b"not enough memory"));
    }
    compile_as(program, &machine.chunk_name).map_err(|text| error(&text))
}

/// Approximate upper bound of the compiler's bytes for a byte of a program.
const COMPILED_PER_BYTE: usize = 16;
