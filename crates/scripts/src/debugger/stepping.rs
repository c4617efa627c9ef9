//! Running a script under the debugger: line by line, and printing variables and callers.

use crate::run::ScriptRun;
use sluice_commands::CmdError;
use sluice_lua::{RunLimit, RunOutcome, describe};

impl ScriptRun {
    /// Whether a debugger has stopped the run.
    pub fn is_stopped(&self) -> bool {
        self.debugger.as_ref().is_some_and(|debugger| debugger.is_stopped())
    }

    /// Resumes the run instruction by instruction, until a line stops the run ([`ScriptRun::is_stopped`]),
    /// the run ends or requests something, the limit is reached, or `INSTRUCTIONS` instructions were
    /// executed.
    #[cold]
    pub fn resume_by_lines(&mut self, limit: &mut RunLimit, clock: &mut dyn FnMut() -> u64) -> RunOutcome {
        let (Some(debugger), Some(mut running)) = (self.debugger.as_deref_mut(), self.machine.vm.run())
        else {
            return RunOutcome::Done;
        };
        running.stepwise();
        for _ in 0..INSTRUCTIONS {
            if running.next_position().is_some_and(|position| debugger.arrives(&position)) {
                return RunOutcome::OutOfBudget;
            }
            match running.step(limit, clock) {
                RunOutcome::OutOfBudget if !limit.is_over() => {}
                outcome => return outcome,
            }
        }
        RunOutcome::OutOfBudget
    }

    /// The error of a run that its debugger has aborted; `None` for any other run.
    pub fn abortion(&self) -> Option<CmdError> {
        let debugger = self.debugger.as_ref().filter(|debugger| debugger.is_aborted)?;
        let text = format!("ERR script aborted for user request script: on @user_script:{}.", debugger.line);
        Some(CmdError::owned(text))
    }

    /// `server.breakpoint()`: stops the run at the next line. Returns whether there is a debugger.
    pub fn break_here(&mut self) -> bool {
        let Some(debugger) = self.debugger.as_deref_mut() else { return false };
        debugger.reason = Some("server.breakpoint() called");
        true
    }

    /// `server.debug(...)`: adds the arguments to the debugger's output.
    pub fn show_debug(&mut self) {
        let (Some(debugger), Some(running)) = (self.debugger.as_deref_mut(), self.machine.vm.run()) else {
            return;
        };
        let line = running.callers().first().map_or(0, |caller| caller.line);
        let tag = format!("<debug> line {line}: ");
        debugger.print_value(tag.as_bytes(), |text, limit| {
            for (at, value) in running.request_args().iter().enumerate() {
                if at > 0 {
                    text.extend_from_slice(b", ");
                }
                describe(running.objects(), *value, text, limit);
                if text.len() > limit {
                    break;
                }
            }
        });
    }

    /// `print`: shows the local variable `name`, which is searched from the innermost running function
    /// outwards, or `KEYS` or `ARGV`. Without a name, shows all local variables of the innermost function.
    pub fn print(&mut self, name: Option<&[u8]>) {
        let (Some(debugger), Some(running)) = (self.debugger.as_deref_mut(), self.machine.vm.run()) else {
            return;
        };
        let heap = running.objects();
        let Some(name) = name else {
            let locals = running.locals(0);
            for (name, value) in &locals {
                let tag = [b"<value> ", *name, b" = "].concat();
                debugger.print_value(&tag, |text, limit| describe(heap, *value, text, limit));
            }
            return if locals.is_empty() {
                debugger.say("No local variables in the current context.")
            };
        };
        let levels = running.callers().len();
        let local = (0..levels).find_map(|level| {
            let locals = running.locals(level);
            locals.iter().rev().find(|(local, _)| *local == name).map(|(_, value)| *value)
        });
        let texts = match name {
            b"KEYS" => Some(&debugger.keys),
            b"ARGV" => Some(&debugger.argv),
            _ => None,
        };
        match (local, texts) {
            (Some(value), _) => {
                debugger.print_value(b"<value> ", |text, limit| describe(heap, value, text, limit))
            }
            (None, Some(texts)) => {
                let texts = texts.clone();
                debugger.print_value(b"<value> {", |line, limit| {
                    for text in &texts {
                        line.extend_from_slice(text);
                        line.extend_from_slice(b"; ");
                        if line.len() > limit {
                            break;
                        }
                    }
                    line.push(b'}');
                });
            }
            (None, None) => debugger.say("No such variable."),
        }
    }

    /// Shows the functions whose calls have not returned, the innermost first.
    pub fn trace(&mut self) {
        let (Some(debugger), Some(running)) = (self.debugger.as_deref_mut(), self.machine.vm.run()) else {
            return;
        };
        for (at, caller) in running.callers().into_iter().enumerate() {
            let name = match caller.name {
                _ if caller.is_chunk => b"top level".to_vec(),
                Some(name) => name,
                None => b"?".to_vec(),
            };
            let word: &[u8] = if at == 0 { b"In " } else { b"From " };
            debugger.say([word, &*name, b":"].concat());
            debugger.show_line(caller.line);
        }
    }
}

/// Number of instructions between two checks of the clock.
const INSTRUCTIONS: u32 = 500;
