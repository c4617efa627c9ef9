//! Execution of EVAL and its variants, and of SCRIPT. Their routes are in `control/families/scripts.rs`.

use crate::engine::Engine;
use crate::exec::unit::Unit;
use crate::scripting::scripts::Scripts;
use sluice_base::Now;
use sluice_command::specs::scripting as specs;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_config::param;
use sluice_control::action::Action;
use sluice_control::ctx::ScriptCommand;
use sluice_control::process::Process;
use sluice_control::unknown::wrong_form;
use sluice_resp::Reply;
use sluice_scripts::run::{EvalKind, NO_SCRIPT};
use sluice_scripts::state::machine_limits;
use sluice_session::{ScriptDebugging, Session};

/// Error of SCRIPT DEBUG YES, and of the next script of its client, who believes that the script's
/// changes are dropped.
const NO_COPY: &str = "ERR SCRIPT DEBUG YES needs a copy of the process, which this server does not make: use SCRIPT DEBUG SYNC";

/// Whether the command runs a script that the client may want to debug in a copy of the server.
fn runs_a_script(command: ScriptCommand) -> bool {
    match command {
        ScriptCommand::Eval | ScriptCommand::EvalRo | ScriptCommand::EvalSha | ScriptCommand::EvalShaRo => {
            true
        }
        ScriptCommand::Fcall | ScriptCommand::FcallRo => true,
        ScriptCommand::FunctionDelete
        | ScriptCommand::FunctionDump
        | ScriptCommand::FunctionFlush
        | ScriptCommand::FunctionKill
        | ScriptCommand::FunctionList
        | ScriptCommand::FunctionLoad
        | ScriptCommand::FunctionRestore
        | ScriptCommand::FunctionStats
        | ScriptCommand::ScriptDebug
        | ScriptCommand::ScriptExists
        | ScriptCommand::ScriptFlush
        | ScriptCommand::ScriptKill
        | ScriptCommand::ScriptLoad
        | ScriptCommand::ScriptShow => false,
    }
}

fn script_debug(session: &mut Session, args: Args<'_>) -> Run {
    if args.len() > 4 {
        return Err(wrong_form(&specs::SCRIPT, args));
    }
    if args.len() == 4 && !args.is(3, "lua") {
        let name = String::from_utf8_lossy(args.at(3)).into_owned();
        let text = format!("ERR No scripting engine found with name '{name}' to enable debug");
        return Err(CmdError::owned(text));
    }
    let is_on = match () {
        () if args.is(2, "NO") => false,
        () if args.is(2, "SYNC") => true,
        () if args.is(2, "YES") => {
            // The reference forks a copy of the server for SCRIPT DEBUG YES; this process has threads, which
            // a fork does not copy.
            session.caller.flags.script_debugging = ScriptDebugging::Refused;
            return Err(CmdError::text(NO_COPY));
        }
        () => return Err(CmdError::text("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
    };
    if is_on && session.output_bytes() > 0 {
        return Err(CmdError::text("ERR SCRIPT DEBUG must be called outside a pipeline"));
    }
    session.caller.flags.script_debugging = if is_on { ScriptDebugging::Sync } else { ScriptDebugging::No };
    Reply::new(&mut session.outbox, session.caller.proto).ok();
    Ok(Outcome::Done)
}

impl Engine {
    /// Runs a command about scripts or functions.
    pub(crate) fn run_script(
        &mut self,
        command: ScriptCommand,
        unit: &mut Unit,
        session: &mut Session,
        args: Args<'_>,
        clock: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        if self.core.control.scripts.settings_changed {
            self.scripts().follow_script_settings();
        }
        if session.caller.flags.script_debugging == ScriptDebugging::Refused && runs_a_script(command) {
            // The client's next script is refused, once, because a client that believes to work on a copy
            // must not change the data.
            session.caller.flags.script_debugging = ScriptDebugging::No;
            return Err(CmdError::text(NO_COPY));
        }
        match command {
            ScriptCommand::Eval => self.eval(EvalKind::Text, false, unit, session, args, clock, process),
            ScriptCommand::EvalRo => self.eval(EvalKind::Text, true, unit, session, args, clock, process),
            ScriptCommand::EvalSha => self.eval(EvalKind::Sha, false, unit, session, args, clock, process),
            ScriptCommand::EvalShaRo => self.eval(EvalKind::Sha, true, unit, session, args, clock, process),
            ScriptCommand::ScriptExists => self.scripts().script_exists(session, args),
            ScriptCommand::ScriptFlush => self.scripts().script_flush(session, args),
            ScriptCommand::ScriptKill => self.core.control.kill_script(true, session),
            ScriptCommand::ScriptLoad => self.scripts().script_load(session, args),
            ScriptCommand::ScriptShow => self.scripts().script_show(session, args),
            ScriptCommand::ScriptDebug => script_debug(session, args),
            ScriptCommand::Fcall
            | ScriptCommand::FcallRo
            | ScriptCommand::FunctionDelete
            | ScriptCommand::FunctionDump
            | ScriptCommand::FunctionFlush
            | ScriptCommand::FunctionKill
            | ScriptCommand::FunctionList
            | ScriptCommand::FunctionLoad
            | ScriptCommand::FunctionRestore
            | ScriptCommand::FunctionStats => {
                self.run_function_command(command, unit, session, args, clock, process)
            }
        }
    }
}

impl Scripts<'_> {
    /// Applies the configuration to the machines. If `lua-enable-insecure-api` has changed, EVAL gets a new
    /// machine, and its cached scripts are dropped. Loaded libraries keep the functions of the insecure
    /// interface that they have seen, as in the reference.
    #[cold]
    fn follow_script_settings(&mut self) {
        self.core.control.scripts.settings_changed = false;
        let limits = machine_limits(&self.core.control.config);
        self.core.control.functions.set_limit(limits.bytes);
        if self.scripting.follow_settings(limits) {
            let garbage = self.scripting.flush();
            self.core.actions.push(Action::FreeScripts(Box::new(garbage)));
        }
    }

    fn script_exists(&mut self, session: &mut Session, args: Args<'_>) -> Run {
        let mut reply = Reply::new(&mut session.outbox, session.caller.proto);
        reply.array(args.len() - 2);
        for name in args.iter_from(2) {
            // As in the reference, a name ends at its first zero byte, in this command only.
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            reply.int(i64::from(self.scripting.cache.find_sha(name).is_some()));
        }
        Ok(Outcome::Done)
    }

    fn script_load(&mut self, session: &mut Session, args: Args<'_>) -> Run {
        let slot = self.script_of_text(args.at(2), true, session.caller.is_primary())?;
        let Some(script) = self.scripting.cache.get(slot) else { return Err(NO_SCRIPT) };
        Reply::new(&mut session.outbox, session.caller.proto).bulk(&script.sha);
        Ok(Outcome::Done)
    }

    fn script_show(&mut self, session: &mut Session, args: Args<'_>) -> Run {
        let slot = self.scripting.cache.find_sha(args.at(2));
        let Some(script) = slot.and_then(|slot| self.scripting.cache.get(slot)) else {
            return Err(NO_SCRIPT);
        };
        Reply::new(&mut session.outbox, session.caller.proto).bulk(&script.body);
        Ok(Outcome::Done)
    }

    fn script_flush(&mut self, session: &mut Session, args: Args<'_>) -> Run {
        let is_async = match args.len() {
            2 => self.core.control.config.bool(param::LAZYFREE_LAZY_USER_FLUSH),
            3 if args.is(2, "SYNC") => false,
            3 if args.is(2, "ASYNC") => true,
            _ => return Err(CmdError::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
        };
        let garbage = self.scripting.flush();
        match is_async {
            true => self.core.actions.push(Action::FreeScripts(Box::new(garbage))),
            false => drop(garbage),
        }
        Reply::new(&mut session.outbox, session.caller.proto).ok();
        Ok(Outcome::Done)
    }
}
