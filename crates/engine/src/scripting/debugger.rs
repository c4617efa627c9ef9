//! The engine's side of the script debugger: the engine stops a run, passes the client's requests to the
//! debugger, and evaluates programs and calls commands for the debugger.

use crate::engine::Engine;
use crate::exec::batch::{Flow, flow_of};
use crate::exec::open_unit::OpenUnit;
use crate::scripting::scripts::Scripts;
use sluice_base::SessionKey;
use sluice_control::action::Action;
use sluice_control::process::Process;
use sluice_lua::{Fault, RunLimit, RunOutcome, Value, compile, describe};
use sluice_resp::{ArgumentList, Requests};
use sluice_scripts::debugger::{DebugStep, Debugger, SHOWN_BYTES_MAX};
use sluice_scripts::machine::{MachineKind, ScriptMachine};
use sluice_scripts::run::ScriptRun;
use sluice_scripts::state::machine_limits;
use sluice_session::{Closing, ScriptDebugging, Session};

/// Maximum nanoseconds that a program evaluated for the debugger may take; during this time no other client
/// is served.
const ASIDE_NS: u64 = 100_000_000;

impl Engine {
    /// Whether a client's requests are for the debugger of its own run, which is stopped.
    pub fn debugs(&self, client: SessionKey) -> bool {
        self.open.as_ref().is_some_and(|open| open.client == client && open.is_stopped())
    }

    /// Executes requests for the debugger while the run is stopped. Returns their number, and whether
    /// the session goes on.
    #[cold]
    pub(crate) fn submit_to_debugger(
        &mut self,
        mut session: Box<Session>,
        input: &[u8],
        requests: &Requests,
        process: &mut dyn Process,
    ) -> (Box<Session>, usize, Flow) {
        let client = session.key;
        let mut executed = 0;
        while executed < requests.len() && self.debugs(client) {
            let request = requests.at(executed, input);
            executed += 1;
            session.caller.traffic.net_in += request.wire_len() as u64;
            let words: Vec<&[u8]> = request.args().collect();
            if !self.ask_debugger(&words, &mut session, process) {
                continue;
            }
            self.core.sessions.put_back(session);
            self.go_on(process);
            session =
                self.core.sessions.take(client).expect("only the server ends sessions, between batches");
            // If the run stops again, the engine asks for the next request.
            let flow = flow_of(&session);
            return (session, executed, flow);
        }
        (session, executed, Flow::Continue)
    }

    /// Executes one request to the debugger. Returns `true` if the run is to go on.
    fn ask_debugger(&mut self, words: &[&[u8]], session: &mut Session, process: &mut dyn Process) -> bool {
        let Some(mut open) = self.open.take() else { return false };
        let mut goes_on = false;
        let now = process.now();
        if let Some(run) = open.at.script.as_deref_mut()
            && let Some(debugger) = run.debugger.as_deref_mut()
        {
            match debugger.ask(words, now.mono_ns) {
                DebugStep::Answered => {}
                DebugStep::GoOn => goes_on = true,
                DebugStep::Print(name) => run.print(name.as_deref()),
                DebugStep::Trace => run.trace(),
                DebugStep::Call => self.call_for_debugger(&words[1..], run, &mut open.unit, session, process),
                DebugStep::Evaluate(program) => {
                    self.evaluate_for_debugger(&program, run, &mut open.unit, session, process);
                }
            }
            if let Some(running) = self.core.control.scripts.running.as_deref_mut() {
                running.has_written = run.has_written;
            }
            if !goes_on && let Some(debugger) = run.debugger.as_deref_mut() {
                debugger.tell(&mut session.outbox);
            }
        }
        self.open = Some(open);
        goes_on
    }

    /// Calls a command as the script would.
    fn call_for_debugger(
        &mut self,
        words: &[&[u8]],
        run: &mut ScriptRun,
        unit: &mut crate::exec::unit::Unit,
        session: &mut Session,
        process: &mut dyn Process,
    ) {
        let mut arguments = ArgumentList::default();
        words.iter().for_each(|word| arguments.push(word));
        let mut now = process.recent();
        let mark_calling = |run: &mut ScriptRun, is_calling| {
            if let Some(debugger) = run.debugger.as_deref_mut() {
                debugger.is_calling = is_calling;
            }
        };
        mark_calling(run, true);
        // The debugger shows the value; the script does not get it.
        drop(self.call_command(run, &arguments, unit, session, &mut now, process));
        mark_calling(run, false);
    }

    /// Evaluates a program in a machine separate from the script's, with the same `KEYS` and `ARGV`.
    fn evaluate_for_debugger(
        &mut self,
        program: &[u8],
        run: &mut ScriptRun,
        unit: &mut crate::exec::unit::Unit,
        session: &mut Session,
        process: &mut dyn Process,
    ) {
        let Some(debugger) = run.debugger.as_deref_mut() else { return };
        let mut aside = match debugger.aside.take().map_or_else(|| self.scripts().open_aside(), Ok) {
            Ok(aside) => aside,
            Err(_) => return debugger.say("<error> not enough memory"),
        };
        match start_aside(&mut aside, program, &debugger.keys, &debugger.argv) {
            Ok(chunk) => {
                // Calls of the evaluated program are served like calls of the script.
                std::mem::swap(&mut run.machine, &mut aside);
                let line = self.run_aside(run, unit, session, process);
                std::mem::swap(&mut run.machine, &mut aside);
                drop(aside.vm.end());
                aside.vm.unload(chunk);
                if let Some(debugger) = run.debugger.as_deref_mut() {
                    debugger.print_shortened(line);
                    debugger.aside = Some(aside);
                }
            }
            Err(text) => {
                drop(aside.vm.end());
                debugger.say(text);
                debugger.aside = Some(aside);
            }
        }
    }

    /// Runs the evaluated program until its end, or until `ASIDE_NS` are over. Returns the line to show.
    fn run_aside(
        &mut self,
        run: &mut ScriptRun,
        unit: &mut crate::exec::unit::Unit,
        session: &mut Session,
        process: &mut dyn Process,
    ) -> Vec<u8> {
        let shown_max = run.debugger.as_ref().map_or(SHOWN_BYTES_MAX, |debugger| debugger.value_bytes());
        let mut now = process.now();
        let mut limit = RunLimit::until(now.mono_ns, now.mono_ns.saturating_add(ASIDE_NS));
        let mut line;
        loop {
            let Some(mut running) = run.machine.vm.run() else { return b"<error> no program".to_vec() };
            match running.resume(&mut limit, &mut || process.now().mono_ns) {
                RunOutcome::Call(code) => {
                    self.serve_script(run, code, unit, session, &mut now, process);
                    limit.note_time(now.mono_ns);
                }
                RunOutcome::OutOfBudget => {}
                RunOutcome::Done => {
                    line = b"<retval> ".to_vec();
                    let value = running.results().first().copied().unwrap_or(Value::NIL);
                    describe(running.objects(), value, &mut line, shown_max.saturating_add(16));
                    return line;
                }
                RunOutcome::Failed(error) => {
                    line = b"<error> ".to_vec();
                    let heap = running.objects();
                    let told = error.as_table().map_or(error, |table| heap.get_text(table, b"err"));
                    describe(heap, told, &mut line, shown_max.saturating_add(16));
                    return line;
                }
            }
            if limit.is_over() {
                return b"<error> evaluated for 100 ms, in which nobody else is served: given up".to_vec();
            }
        }
    }
}

impl Scripts<'_> {
    /// Ends a debugging session whose script did not begin.
    pub(crate) fn end_debugging(&mut self, session: &mut Session) {
        session.outbox.push(b"*1\r\n+<endsession>\r\n");
        session.caller.flags.script_debugging = ScriptDebugging::No;
        session.caller.closing = Closing::AfterReply;
    }

    fn open_aside(&self) -> Result<Box<ScriptMachine>, Fault> {
        let limits = machine_limits(&self.core.control.config);
        ScriptMachine::open(MachineKind::Eval, limits.bytes, limits.is_insecure).map(Box::new)
    }

    /// Reports to the client why its run has stopped, and asks for its next request.
    #[cold]
    pub(crate) fn await_debugger(&mut self, open: &mut OpenUnit, session: &mut Session) {
        let run = open.at.script.as_deref_mut();
        if let Some(debugger) = run.and_then(|run| run.debugger.as_deref_mut()) {
            session.outbox.append(&mut self.scripting.debug_output);
            debugger.tell(&mut session.outbox);
            session.note_output(&mut self.core.control.clients.ready);
            self.core.actions.push(Action::Resume(vec![open.client]));
        }
    }

    /// Ends the debugging session of a run that has ended.
    #[cold]
    pub(crate) fn end_debugger(&mut self, mut debugger: Box<Debugger>, session: &mut Session) {
        debugger.say("<endsession>");
        debugger.tell(&mut self.scripting.debug_output);
        session.caller.flags.script_debugging = ScriptDebugging::No;
        session.caller.closing = Closing::AfterReply;
    }
}

/// Starts a program in the separate machine: as an expression, or as statements if it is no expression.
///
/// # Errors
/// The line to show.
fn start_aside(
    machine: &mut ScriptMachine,
    program: &[u8],
    keys: &[Vec<u8>],
    argv: &[Vec<u8>],
) -> Result<sluice_lua::LoadedChunk, Vec<u8>> {
    const NAME: &[u8] = b"@ldb_eval";
    let memory = |_| b"<error> not enough memory".to_vec();
    if program.len() > machine.limit / 16 {
        return Err(memory(()));
    }
    let expression = [b"return ", program].concat();
    let proto = compile(&expression, NAME)
        .or_else(|_| compile(program, NAME))
        .map_err(|text| [b"Error compiling code: ", &*text].concat())?;
    let chunk = machine.vm.load(&proto).map_err(|fault| {
        drop(fault);
        memory(())
    })?;
    let globals = [(machine.keys, keys), (machine.argv, argv)];
    let mut run = machine.vm.start(chunk);
    for (global, texts) in globals {
        let Some(global) = global else { continue };
        let made = run.heap().new_table(texts.len(), 0).and_then(|table| {
            for (at, text) in texts.iter().enumerate() {
                let text = run.heap().new_string(text)?;
                run.heap().set_int(table, at as i64 + 1, text)?;
            }
            run.set_global(global, table.into())
        });
        if made.is_err() {
            return Err(memory(()));
        }
    }
    Ok(chunk)
}
