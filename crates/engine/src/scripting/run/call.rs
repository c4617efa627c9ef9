//! `server.call` and its relatives: requests of a running script to the server.
//!
//! Invariants: (1) a called command is part of the script's execution unit, and is executed by the code that
//! EXEC uses, with a session whose output goes to the script; (2) a command that may not run is refused
//! before it runs, with checks in the order and errors in the wording of the reference; (3) a called command
//! never waits.

use super::frame::{CallFrame, FrameSettings};
use crate::cluster::redirect::{SlotRoute, route_of};
use crate::cluster::slot_costs::note_call;
use crate::core::Core;
use crate::engine::Engine;
use crate::exec::gate::{Asked, CallRights, NotPermitted, Permit, Rejection};
use crate::exec::standing::Standing;
use crate::exec::unit::Unit;
use crate::scripting::scripts::Scripts;
use crate::users::{UserUpdates, denied};
use sluice_acl::RefusalContext;
use sluice_base::{Now, num};
use sluice_command::{Flags, Named, Spec};
use sluice_commands::{Args, CmdError};
use sluice_control::process::Process;
use sluice_control::unknown::unknown_subcommand;
use sluice_lua::{Fault, Heap, Value};
use sluice_replication::Audience;
use sluice_resp::{ArgumentList, Protocol};
use sluice_scripts::from_reply::{ReplyValue, reply_value};
use sluice_scripts::machine::{NO_TEXT, Receivers, ScriptRequest, error_table, first_number, log_line};
use sluice_scripts::run::{RunSlot, ScriptRun};
use sluice_session::Session;

/// Why a called command does not run.
struct CallRefusal {
    /// Text of the error that the script gets.
    told: Vec<u8>,
    /// Text of the error that INFO counts.
    counted: Vec<u8>,
}

impl Engine {
    /// Serves the request for which a run has stopped.
    pub(crate) fn serve_script(
        &mut self,
        run: &mut ScriptRun,
        code: u32,
        unit: &mut Unit,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) {
        let Some(request) = ScriptRequest::of(code) else { return answer(run, Ok(Value::NIL)) };
        match request {
            ScriptRequest::Call | ScriptRequest::Pcall => {
                let result = self.call_of_script(run, unit, session, now, process);
                match result {
                    Ok(ReplyValue { value, is_error: true }) if request == ScriptRequest::Call => {
                        answer(run, Err(Fault::value(value)));
                    }
                    Ok(ReplyValue { value, .. }) => answer(run, Ok(value)),
                    Err(fault) => answer(run, Err(fault)),
                }
            }
            ScriptRequest::SetResp => {
                run.settings.is_resp3 = first_number(&mut run.machine) == 3;
                answer_nothing(run);
            }
            ScriptRequest::SetRepl => {
                run.settings.receivers = Receivers(first_number(&mut run.machine) as u8 & Receivers::ALL);
                answer_nothing(run);
            }
            ScriptRequest::Log => {
                if let Some(load) = run.library.as_deref_mut() {
                    return load.log(&mut run.machine, &mut |level, line| process.log(level, line));
                }
                let (level, line) = log_line(&mut run.machine);
                process.log(level, &line);
                answer_nothing(run);
            }
            ScriptRequest::AclCheckCmd => {
                let answered = self.check_command_of_script(run, session);
                answer(run, answered);
            }
            ScriptRequest::Breakpoint => {
                let is_debugged = run.break_here();
                answer(run, Ok(Value::boolean(is_debugged)));
            }
            ScriptRequest::Debug => {
                run.show_debug();
                answer_nothing(run);
            }
            ScriptRequest::RegisterFunction => {
                let text = b"server.register_function can only be called on FUNCTION LOAD command";
                match run.library.as_mut() {
                    Some(load) => load.register(&mut run.machine),
                    None => {
                        let fault = thrown(run, text);
                        answer(run, Err(fault));
                    }
                }
            }
        }
    }

    /// Runs a command that a script calls. Returns the value of its reply.
    fn call_of_script(
        &mut self,
        run: &mut ScriptRun,
        unit: &mut Unit,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Result<ReplyValue, Fault> {
        let mut arguments = std::mem::take(&mut run.buffers.arguments);
        let result = match take_arguments(run, &mut arguments) {
            Ok(true) => self.call_command(run, &arguments, unit, session, now, process),
            Ok(false) => error_table(run.machine.vm.heap(), NO_TEXT)
                .map(|table| ReplyValue { value: table.into(), is_error: true }),
            Err(fault) => Err(fault),
        };
        arguments.clear();
        run.buffers.arguments = arguments;
        result
    }

    pub(crate) fn call_command(
        &mut self,
        run: &mut ScriptRun,
        arguments: &ArgumentList,
        unit: &mut Unit,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Result<ReplyValue, Fault> {
        let request = arguments.request();
        let mut batch = std::mem::take(&mut run.buffers.batch);
        batch.clear();
        self.preparing.preparer.prepare(&request, &mut batch);
        let item = batch.items()[0];
        let args = Args::new(&request, &item, &batch.hashing);
        // The previous command may have changed the state against which this command is checked.
        self.core.refresh_derived();
        if let Some(debugger) = run.debugger.as_deref_mut() {
            debugger.show_call((0..args.len()).map(|at| args.at(at)));
        }
        let result = match self.admit_call(run, unit.standing, item.named, args, session, process) {
            Ok((spec, permit)) => {
                if self.core.derived.counts_slots {
                    note_call(unit, run.rights.slot, spec, args);
                }
                run.has_written |= spec.flags.has(Flags::WRITE);
                let settings = FrameSettings {
                    proto: if run.settings.is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 },
                    audience: audience(run.settings.receivers),
                    // A script that loops until a time would never end if TIME stood still.
                    told_now: self.core.control.scripts.is_busy.then(|| process.recent()),
                };
                let reply = std::mem::take(&mut run.buffers.reply);
                let frame = CallFrame::enter(&settings, reply, session, unit);
                self.run_called(unit, permit, session, spec, args, request, now, process);
                run.buffers.reply = frame.leave(session, unit);
                if let Some(debugger) = run.debugger.as_deref_mut() {
                    debugger.show_reply(&run.buffers.reply);
                }
                let value = reply_value(&run.buffers.reply, run.machine.vm.heap());
                run.buffers.reply.clear();
                value
            }
            Err(CallRefusal { told, counted }) => {
                self.core.stats.count_error(&counted);
                show_refused_call(run, item.named, args, &told);
                if let Named::Command(spec) = item.named {
                    self.core.stats.commands[spec.id.0 as usize].rejected += 1;
                }
                refused(run.machine.vm.heap(), &told)
            }
        };
        run.buffers.batch = batch;
        result
    }

    /// Whether a script may call this command now.
    fn admit_call(
        &mut self,
        run: &mut ScriptRun,
        standing: Standing,
        named: Named,
        args: Args<'_>,
        session: &mut Session,
        process: &mut dyn Process,
    ) -> Result<(&'static Spec, Permit), CallRefusal> {
        let own = |told: &str, counted: &str| CallRefusal { told: told.into(), counted: counted.into() };
        let spec = match named {
            Named::Command(spec) if spec.arity.accepts(args.len()) => spec,
            Named::Command(_) => {
                return Err(own("Wrong number of args calling command from script", "ERR wrong number"));
            }
            Named::UnknownSubcommand(container) => {
                let wire = unknown_subcommand(container, args).wire().into_owned();
                return Err(CallRefusal { told: [b"-", &*wire].concat(), counted: wire });
            }
            Named::Unknown => {
                return Err(own("Unknown command called from script", "ERR unknown command"));
            }
        };
        if spec.flags.has(Flags::NOSCRIPT) && !self.core.control.debug.scripts_call_all {
            return Err(own("This Valkey command is not allowed from script", "ERR not allowed"));
        }
        let call = CallRights {
            is_read_only: run.rights.is_read_only,
            is_full: match spec.flags.has(Flags::DENYOOM) && self.scripts().asks_for_memory_again(run) {
                true => process.counted_memory(&self.core.keyspace) > self.core.control.limits.maxmemory,
                false => run.rights.is_full && !run.rights.allows_oom && !run.has_written,
            },
            has_written: run.has_written,
            is_replicated: run.rights.is_replicated,
            is_replayed: standing == Standing::Replay,
        };
        if self.core.control.persistence.aof.is_strict() {
            session.wait_until_durable(self.core.control.persistence.aof.needed_by(spec, args));
        }
        if let Some(permit) = self.core.gate.pass_called(spec, session, call) {
            return self.hold_to_slot(run, spec, args, permit);
        }
        let now = process.recent();
        let Core { gate, control, keyspace, .. } = &self.core;
        match gate.ask_inside(&Asked::called(spec, args, session, control, keyspace, call, now)) {
            Ok(permit) => self.hold_to_slot(run, spec, args, permit),
            Err(NotPermitted::Denied(denial)) => {
                let mut users = UserUpdates::of(&mut self.core);
                users.note_denial(session, denial, RefusalContext::Lua, spec, args, now);
                let text = denial.text(session.caller.user_name(), spec);
                let told = [b"ACL failure in script: ", &text[..]].concat();
                Err(CallRefusal { told, counted: b"ERR refused".to_vec() })
            }
            Err(NotPermitted::Rejected(Rejection { in_script: Some(text), .. })) => {
                Err(own(&text, "ERR refused"))
            }
            Err(NotPermitted::Rejected(Rejection { error, in_script: None })) => {
                let wire = error.wire();
                Err(CallRefusal { told: [b"-", &*wire].concat(), counted: wire.into_owned() })
            }
        }
    }

    /// Refuses a call for keys of another hash slot than that to which the run is restricted (T13). This
    /// check follows all others.
    fn hold_to_slot(
        &self,
        run: &mut ScriptRun,
        spec: &'static Spec,
        args: Args<'_>,
        permit: Permit,
    ) -> Result<(&'static Spec, Permit), CallRefusal> {
        if run.rights.slot != RunSlot::Any
            && let SlotRoute::Slot(slot) = route_of(spec, args)
            && !run.rights.slot.admits(slot.number())
        {
            let told = b"Script attempted to access keys that do not hash to the same slot".to_vec();
            return Err(CallRefusal { told, counted: b"ERR refused".to_vec() });
        }
        Ok((spec, permit))
    }

    /// `server.acl_check_cmd`: whether the client's user may run a command.
    fn check_command_of_script(&mut self, run: &mut ScriptRun, session: &Session) -> Result<Value, Fault> {
        let mut arguments = std::mem::take(&mut run.buffers.arguments);
        let taken = take_arguments(run, &mut arguments);
        let mut batch = std::mem::take(&mut run.buffers.batch);
        batch.clear();
        let mut is_allowed = None;
        if matches!(taken, Ok(true)) {
            let request = arguments.request();
            self.preparing.preparer.prepare(&request, &mut batch);
            let item = batch.items()[0];
            let args = Args::new(&request, &item, &batch.hashing);
            is_allowed = match item.named {
                // The number of arguments is not checked here.
                Named::Command(spec) => {
                    Some(denied(&self.core.control, session, spec, args, session.caller.db).is_none())
                }
                Named::UnknownSubcommand(_) | Named::Unknown => None,
            };
        }
        arguments.clear();
        (run.buffers.arguments, run.buffers.batch) = (arguments, batch);
        match (taken?, is_allowed) {
            (false, _) => Err(thrown(run, NO_TEXT)),
            (true, None) => Err(thrown(run, b"Invalid command passed to server.acl_check_cmd()")),
            (true, Some(is_allowed)) => Ok(Value::boolean(is_allowed)),
        }
    }
}

impl Scripts<'_> {
    /// Whether a call that needs memory is checked against `maxmemory` itself: `script-deny-oom-calls`.
    fn asks_for_memory_again(&self, run: &ScriptRun) -> bool {
        self.core.control.limits.maxmemory > 0
            && !run.rights.is_replicated
            && !run.rights.allows_oom
            && self.core.control.config.bool(sluice_config::param::SCRIPT_DENY_OOM_CALLS)
    }
}

fn audience(receivers: Receivers) -> Option<Audience> {
    match receivers.0 {
        Receivers::ALL => Some(Audience::All),
        Receivers::AOF => Some(Audience::File),
        Receivers::REPLICAS => Some(Audience::Replicas),
        _ => None,
    }
}

/// Writes the arguments of the request as those of a command. `false` if one is neither a string nor a
/// number, or there is none.
///
/// # Errors
/// `not enough memory`: the arguments would exceed the script's memory limit.
fn take_arguments(run: &mut ScriptRun, into: &mut ArgumentList) -> Result<bool, Fault> {
    let Some(mut asking) = run.machine.vm.run() else { return Ok(false) };
    let heap = asking.objects();
    let text_bytes = |value: &Value| value.as_str().map_or(0, |text| heap.bytes(text).len());
    let bytes: usize = asking.request_args().iter().map(text_bytes).sum();
    if bytes >= COUNTED_BYTES_MIN {
        // Room for all copies is checked first, because one string may be among the arguments many times.
        asking.heap().room(bytes)?;
        run.buffers.copied_bytes = run.buffers.copied_bytes.saturating_add(bytes);
    }
    let (heap, args) = (asking.objects(), asking.request_args());
    into.reserve(args.len(), bytes);
    for value in args {
        if let Some(text) = value.as_str() {
            into.push(heap.bytes(text));
        } else if let Some(number) = value.as_number() {
            into.push_with(|bytes| push_number(bytes, number));
        } else {
            return Ok(false);
        }
    }
    Ok(!into.is_empty())
}

/// Size of a call's arguments, in bytes, from which they are checked against the script's memory limit.
const COUNTED_BYTES_MIN: usize = 16 << 10;

/// Appends a number as an argument: a whole number as an integer, without a negative zero; NaN
/// keeps its sign.
fn push_number(into: &mut Vec<u8>, number: f64) {
    if number.is_nan() && number.is_sign_negative() {
        into.push(b'-');
    }
    num::push_f64(into, if number == 0.0 { 0.0 } else { number });
}

fn thrown(run: &mut ScriptRun, text: &[u8]) -> Fault {
    sluice_scripts::machine::thrown(run.machine.vm.heap(), text)
}

/// The error of a command that did not run. It is marked as counted.
fn refused(heap: &mut Heap, told: &[u8]) -> Result<ReplyValue, Fault> {
    // Line ends become spaces, because an error reply cannot contain line ends.
    let line = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    let table = error_table(heap, &told.iter().map(line).collect::<Vec<u8>>())?;
    heap.set_text(table, b"ignore_error_stats_update", Value::TRUE)?;
    Ok(ReplyValue { value: table.into(), is_error: true })
}

fn answer(run: &mut ScriptRun, answered: Result<Value, Fault>) {
    let Some(mut asking) = run.machine.vm.run() else { return };
    match answered {
        Ok(value) => asking.answer(&[value]),
        Err(fault) => asking.answer_error(fault),
    }
}

fn answer_nothing(run: &mut ScriptRun) {
    if let Some(mut asking) = run.machine.vm.run() {
        asking.answer(&[]);
    }
}

/// Shows a refused call in the debugger, with the error that a client would get.
fn show_refused_call(run: &mut ScriptRun, named: Named, args: Args<'_>, told: &[u8]) {
    let Some(debugger) = run.debugger.as_deref_mut() else { return };
    let error = match named {
        Named::Unknown => sluice_control::unknown::unknown_command(args),
        Named::Command(spec) if !spec.arity.accepts(args.len()) => CmdError::Arity(spec.full_name),
        Named::Command(spec) if spec.flags.has(sluice_command::Flags::NOSCRIPT) => {
            CmdError::owned(format!("ERR command '{}' is not allowed on script mode", spec.full_name))
        }
        Named::Command(_) | Named::UnknownSubcommand(_) => {
            CmdError::owned(told.strip_prefix(b"-").unwrap_or(told))
        }
    };
    debugger.show_refusal(&error.wire(), told);
}
