//! Execution of FCALL, FCALL_RO and FUNCTION. Their routes are in `control/families/functions.rs`.

use crate::engine::Engine;
use crate::exec::standing::Standing;
use crate::exec::unit::Unit;
use crate::scripting::garbage::{free_functions, free_library};
use crate::scripting::run::begin;
use crate::scripting::scripts::Scripts;
use sluice_base::Now;
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor, until_zero};
use sluice_config::Config;
use sluice_config::param;
use sluice_control::ctx::ScriptCommand;
use sluice_control::process::Process;
use sluice_persist::rdb::dump_functions;
use sluice_resp::Reply;
use sluice_scripts::library::{LibraryLoad, MachineLimits, library_head};
use sluice_scripts::machine::ScriptMachine;
use sluice_scripts::restore::{RestorePolicy, RestoreRun, without_code};
use sluice_scripts::run::{RunName, ScriptKind, ScriptRights, ScriptRun, key_count, start_function};
use sluice_scripts::state::machine_limits;
use sluice_session::{Caller, ClientKind, Session};
use std::sync::Arc;

/// Maximum milliseconds that a library's program may run when a client loads it.
const LOAD_MS_MAX: u64 = 500;

impl Engine {
    pub(crate) fn fcall(
        &mut self,
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
        let not_found = CmdError::text("ERR Function not found");
        let Some(found) = self.core.control.functions.find(args.at(1)) else { return Err(not_found) };
        let Some(function) = self.core.control.functions.function(found) else { return Err(not_found) };
        let (flags, callback, name) = (function.flags, function.callback, RunName::Of(function.name.clone()));
        let keys = match args.int(2) {
            Ok(_) => key_count(args)?,
            Err(_) => return Err(CmdError::text("ERR Bad number of keys provided")),
        };
        let rights = self.scripts().rights_of_script(flags, is_read_only, unit, session)?;
        let library = self.core.control.functions.get_mut(found.library);
        let Some(mut machine) = library.and_then(|library| library.machine.take()) else {
            return Err(not_found);
        };
        let what = ScriptKind::Function(found.library);
        rights.lift_limit(&mut machine);
        machine.vm.give_stack(self.scripting.spare_stack());
        if start_function(&mut machine, callback, args, keys, process.recent()).is_err() {
            let run = self.scripts().new_run(machine, what, name, rights, session, *now);
            self.scripts().end_run(run, session);
            return Err(CmdError::text("ERR Error running script, not enough memory"));
        }
        let mut run = self.scripts().new_run(machine, what, name, rights, session, *now);
        run.rights.slot = self.scripts().slot_of_run(flags, rights, args);
        let ended = begin!(self, run, unit, session, now, process);
        self.core.control.scripts.note_running_command(args);
        ended
    }

    /// FUNCTION LOAD: begins to run the library's program. [`Scripts::finish_function_load`]
    /// completes the command.
    pub(crate) fn function_load(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        args: Args<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        let (replaces, at) = match args.is(2, "REPLACE") && args.len() > 3 {
            true => (true, 3),
            false => (false, 2),
        };
        // REPLACE may be given more than once.
        let options = (at..args.len() - 1).find(|index| !args.is(*index, "REPLACE"));
        if let Some(index) = options {
            let option = until_zero(args.at(index));
            return Err(CmdError::owned([b"ERR Unknown option given: ", option].concat()));
        }
        let code = args.at(args.len() - 1);
        let head = library_head(code).map_err(without_code)?;
        self.core.control.functions.may_load(&head.name, replaces).map_err(without_code)?;
        let is_replicated = session.caller.must_obey();
        let limits = limits_of_library(&self.core.control.config, &session.caller);
        let images = self.core.control.functions.images();
        let (mut load, machine) =
            LibraryLoad::begin(head, code.into(), replaces, limits, images).map_err(without_code)?;
        load.ns_left = if is_replicated { u64::MAX } else { LOAD_MS_MAX * 1_000_000 };
        self.begin_load_run((load, machine), None, is_replicated, unit, session, args, now, process)
    }

    /// FUNCTION RESTORE: the programs of the libraries run one after another, in slices, like the program of
    /// FUNCTION LOAD. If a client sends the command, all programs together have the time limit of one.
    fn function_restore(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        args: Args<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        if args.len() > 4 {
            return Err(wrong_subcommand(args));
        }
        let policy = match args.len() {
            3 => RestorePolicy::Append,
            _ if args.is(3, "APPEND") => RestorePolicy::Append,
            _ if args.is(3, "REPLACE") => RestorePolicy::Replace,
            _ if args.is(3, "FLUSH") => RestorePolicy::Flush,
            _ => {
                return Err(CmdError::text(
                    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
                ));
            }
        };
        let is_replicated = session.caller.must_obey();
        let codes = self.core.control.codes_of_payload(args.at(2), is_replicated)?;
        let limits = limits_of_library(&self.core.control.config, &session.caller);
        let restored = self.core.control.functions.beside();
        let mut restore = Box::new(RestoreRun { codes: codes.into(), restored, policy, limits });
        let Some((mut load, machine)) = restore.begin_next()? else {
            let name: Arc<[u8]> = Arc::default();
            return self.scripts().end_restore(*restore, &name, session).map(|_| Outcome::Done);
        };
        load.ns_left = if is_replicated { u64::MAX } else { LOAD_MS_MAX * 1_000_000 };
        self.begin_load_run((load, machine), Some(restore), is_replicated, unit, session, args, now, process)
    }

    /// Runs the first slice of a library's program.
    #[allow(clippy::too_many_arguments)]
    fn begin_load_run(
        &mut self,
        (load, mut machine): (LibraryLoad, Box<ScriptMachine>),
        restore: Option<Box<RestoreRun>>,
        is_replicated: bool,
        unit: &mut Unit,
        session: &mut Session,
        args: Args<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        machine.vm.give_stack(self.scripting.spare_stack());
        load.start(&mut machine);
        machine.vm.heap().host.clock = process.recent().mono_ns as f64 / 1e9;
        let rights = ScriptRights {
            is_read_only: true,
            is_replicated,
            may_stand_still: unit.standing != Standing::Replay
                && !self.core.control.persistence.saved_for_end,
            ..ScriptRights::default()
        };
        let name = RunName::Of(load.name.clone());
        let mut run = self.scripts().new_run(machine, ScriptKind::Library, name, rights, session, *now);
        run.library = Some(Box::new(load));
        run.restore = restore;
        let ended = begin!(self, run, unit, session, now, process);
        self.core.control.scripts.note_running_command(args);
        ended
    }

    /// Runs a command about functions.
    pub(crate) fn run_function_command(
        &mut self,
        command: ScriptCommand,
        unit: &mut Unit,
        session: &mut Session,
        args: Args<'_>,
        clock: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        match command {
            ScriptCommand::Fcall => self.fcall(false, unit, session, args, clock, process),
            ScriptCommand::FcallRo => self.fcall(true, unit, session, args, clock, process),
            ScriptCommand::FunctionDelete => self.scripts().function_delete(session, args),
            ScriptCommand::FunctionDump => self.core.control.function_dump(session),
            ScriptCommand::FunctionFlush => self.scripts().function_flush(session, args),
            ScriptCommand::FunctionKill => self.core.control.kill_script(false, session),
            ScriptCommand::FunctionList => self.core.control.function_list(session, args),
            ScriptCommand::FunctionLoad => self.function_load(unit, session, args, clock, process),
            ScriptCommand::FunctionRestore => self.function_restore(unit, session, args, clock, process),
            ScriptCommand::FunctionStats => self.core.control.function_stats(session, *clock),
            ScriptCommand::Eval
            | ScriptCommand::EvalRo
            | ScriptCommand::EvalSha
            | ScriptCommand::EvalShaRo
            | ScriptCommand::ScriptDebug
            | ScriptCommand::ScriptExists
            | ScriptCommand::ScriptFlush
            | ScriptCommand::ScriptKill
            | ScriptCommand::ScriptLoad
            | ScriptCommand::ScriptShow => Err(CmdError::Syntax),
        }
    }
}

impl Scripts<'_> {
    /// Adds a library whose program has ended: its functions can be called now.
    ///
    /// # Errors
    /// The library has no functions, has a function with an invalid name, or conflicts with another library.
    pub(crate) fn finish_function_load(&mut self, run: &mut ScriptRun, session: &mut Session) -> Run {
        let Some(load) = run.library.take() else { return Ok(Outcome::Done) };
        let replaces = load.replaces;
        let library = load.finish(&mut run.machine).map_err(without_code)?;
        // The limit is set now, because an accepted library had no memory limit while it was loaded.
        run.machine.set_limit(machine_limits(&self.core.control.config).bytes);
        let name = library.name.clone();
        let old = self.core.control.functions.add(library, replaces).map_err(without_code)?;
        // The end of the run gives the library its machine, as after each call of a function.
        if let Some(slot) = self.core.control.functions.slot(&name) {
            run.what = ScriptKind::Function(slot);
        }
        free_library(&mut self.core.actions, old);
        self.note_functions_changed();
        Reply::new(&mut session.outbox, session.caller.proto).bulk(&name);
        Ok(Outcome::Done)
    }

    fn function_delete(&mut self, session: &mut Session, args: Args<'_>) -> Run {
        let Some(library) = self.core.control.functions.remove(args.at(2)) else {
            return Err(CmdError::text("ERR Library not found"));
        };
        free_library(&mut self.core.actions, Some(library));
        self.note_functions_changed();
        Reply::new(&mut session.outbox, session.caller.proto).ok();
        Ok(Outcome::Done)
    }

    fn function_flush(&mut self, session: &mut Session, args: Args<'_>) -> Run {
        if args.len() > 3 {
            return Err(wrong_subcommand(args));
        }
        let is_async = match args.len() {
            2 => self.core.control.config.bool(param::LAZYFREE_LAZY_USER_FLUSH),
            3 if args.is(2, "SYNC") => false,
            3 if args.is(2, "ASYNC") => true,
            _ => return Err(CmdError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        };
        let old = std::mem::take(&mut self.core.control.functions);
        free_functions(&mut self.core.actions, old, is_async);
        self.note_functions_changed();
        Reply::new(&mut session.outbox, session.caller.proto).ok();
        Ok(Outcome::Done)
    }

    /// Adds a library of FUNCTION RESTORE whose program has ended to the restored ones, and begins the
    /// program of the next. Returns the result of the command after the last library or an error; `None` if
    /// the next program was begun.
    pub(crate) fn go_on_restoring(&mut self, run: &mut ScriptRun, session: &mut Session) -> Option<Run> {
        let (Some(load), Some(mut restore)) = (run.library.take(), run.restore.take()) else {
            return Some(Ok(Outcome::Done));
        };
        let ns_left = load.ns_left;
        let finished = load.finish(&mut run.machine).and_then(|library| {
            let name = library.name.clone();
            restore.restored.add(library, false).map(|_| name)
        });
        let name = match finished {
            Ok(name) => name,
            Err(error) => return Some(Err(without_code(error))),
        };
        match restore.begin_next() {
            Ok(Some((mut next, mut machine))) => {
                next.ns_left = ns_left;
                machine.vm.give_stack(run.machine.vm.take_stack());
                next.start(&mut machine);
                machine.vm.heap().host.random = run.machine.vm.heap().host.random;
                let machine = std::mem::replace(&mut run.machine, machine);
                if let Some(library) =
                    restore.restored.slot(&name).and_then(|slot| restore.restored.get_mut(slot))
                {
                    library.machine = Some(machine);
                }
                run.library = Some(Box::new(next));
                run.restore = Some(restore);
                None
            }
            Ok(None) => Some(self.end_restore(*restore, &name, session).map(|slot| {
                // The end of the run gives the last library its machine.
                run.what = slot.map_or(ScriptKind::Library, ScriptKind::Function);
                Outcome::Done
            })),
            Err(error) => Some(Err(error)),
        }
    }

    /// Adds the restored libraries to the existing ones, or replaces these, as the policy says. Returns
    /// the slot of the library `name`, if it exists.
    fn end_restore(
        &mut self,
        restore: RestoreRun,
        name: &[u8],
        session: &mut Session,
    ) -> Result<Option<u32>, CmdError> {
        let RestoreRun { restored, policy, .. } = restore;
        // The client's payload may be of a version that other servers refuse, so replicas get a new one.
        let told = self.core.effects.propagating.then(|| {
            let codes = restored.codes().map(|code| &**code);
            dump_functions(codes, self.core.control.config.choice(param::RDBCOMPRESSION).is_of_strings())
        });
        let old = match policy {
            RestorePolicy::Flush => std::mem::replace(&mut self.core.control.functions, restored),
            RestorePolicy::Append => {
                self.core.control.functions.join(restored, false).map_err(without_code)?
            }
            RestorePolicy::Replace => {
                self.core.control.functions.join(restored, true).map_err(without_code)?
            }
        };
        // The limit is set now, because accepted libraries had no memory limit while they were loaded.
        self.core.control.functions.set_limit(machine_limits(&self.core.control.config).bytes);
        let is_async = self.core.control.config.bool(param::LAZYFREE_LAZY_USER_FLUSH);
        free_functions(&mut self.core.actions, old, is_async);
        self.note_functions_changed();
        if let Some(payload) = told {
            let words = [&b"FUNCTION"[..], b"RESTORE", &payload, policy.word()];
            self.core.effects.rewrite(|| words.map(<[u8]>::to_vec).to_vec());
        }
        Reply::new(&mut session.outbox, session.caller.proto).ok();
        Ok(self.core.control.functions.slot(name))
    }

    /// Counts a change of the libraries as a change of the data, so that replicas and the append-only
    /// file get the command.
    fn note_functions_changed(&mut self) {
        self.core.effects.force();
        self.core.effects.count_more_changes(1);
    }
}

/// Error for an unknown subcommand or a wrong number of arguments.
fn wrong_subcommand(args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(until_zero(args.at(1)));
    text.extend_from_slice(b"'. Try FUNCTION HELP.");
    CmdError::owned(text)
}

/// Memory limits of a library's machine while the library is loaded. The limits depend on where the library
/// comes from: a client, this server's primary, or a file.
fn limits_of_library(config: &Config, caller: &Caller) -> MachineLimits {
    let limits = machine_limits(config);
    match caller.kind {
        ClientKind::Log => limits.of_file(),
        _ if caller.must_obey() => limits.of_accepted(),
        _ => limits,
    }
}
