//! The gate: admission checks, every reason for which a command may not run now. Their order is an array, and
//! only the gate makes a [`Permit`].
//!
//! Each check owns a bit. The engine keeps one word of the checks that can reject anything at all just now
//! ([`Gate::armed`]), and each spec has a word of those that concern it, so that a plain command costs one
//! AND.

use crate::control::Control;
use crate::exec::standing::Standing;
use crate::host::process::AofBacklog;
use crate::persistence::aof::{KeysFound, for_each_key};
use crate::scripting::shebang::{ScriptFlags, runs_script};
use crate::session::{Caller, Session};
use crate::upkeep::evict::Headroom;
use crate::users::rights;
use sluice_acl::Denial;
use sluice_base::Now;
use sluice_base::mistake::{self, Mistake};
use sluice_command::specs::{connection, generic, pubsub, server, string, transactions};
use sluice_command::{Flags, Spec};
use sluice_commands::{Args, CmdError};
use sluice_config::choice::Guard;
use sluice_config::param;

/// Proof that the gate let a command pass.
pub struct Permit(());

/// What the gate says.
pub enum Verdict {
    /// Run it.
    Run(Permit),
    /// Reject it.
    Reject(CmdError),
    /// Reject it, because the user may not run it.
    Deny(Denial),
    /// Keep it for EXEC.
    Queue,
    /// Keep the request; its time will come.
    Postpone,
}

/// What a check sees.
pub struct Asked<'a> {
    /// The command.
    pub spec: &'static Spec,
    /// Its arguments.
    pub args: Args<'a>,
    /// Its flags; for EXEC, those of all commands queued as well.
    pub flags: Flags,
    /// The session that asks.
    pub session: &'a Session,
    /// The client of the session.
    pub caller: &'a Caller,
    /// The control plane.
    pub control: &'a Control,
    /// The time.
    pub now: Now,
    /// Whether there is room for more: asked only when the limit is set.
    pub room: Headroom,
}

impl<'a> Asked<'a> {
    /// Whether it came before this server's role changed, and has waited since for something that is not
    /// over: another server to take over, or the end of a CLIENT PAUSE.
    fn waits_through_failover(&self) -> bool {
        let is_in_progress =
            self.control.replication.failover.as_ref().is_some_and(|failover| failover.is_in_progress);
        self.session.was_postponed && (is_in_progress || self.control.clients.pause.active(self.now))
    }

    /// Whether it may change data. Of a script without flags nothing is known.
    fn may_write(&self) -> bool {
        let is_unknown = runs_script(self.spec) && self.flags.has(Flags::MAY_REPLICATE);
        self.flags.has(Flags::WRITE) || is_unknown
    }

    /// A session's command at a moment; `script`: the flags of the script that it runs, as far as they are
    /// known.
    pub(crate) fn new(
        spec: &'static Spec,
        args: Args<'a>,
        session: &'a Session,
        control: &'a Control,
        script: Option<ScriptFlags>,
        now: Now,
        room: Headroom,
    ) -> Asked<'a> {
        let flags = match (&session.transaction, script) {
            (Some(transaction), _) if is_exec(spec) => {
                let conditions = if args.len() > 1 { Flags::READONLY } else { Flags::NONE };
                spec.flags.or(transaction.flags()).or(conditions)
            }
            (_, script) => flags_of_call(spec, script),
        };
        Asked { spec, args, flags, session, caller: &session.caller, control, now, room }
    }
}

/// What a command does that runs the script of these flags, or none.
pub(crate) fn flags_of_call(spec: &Spec, script: Option<ScriptFlags>) -> Flags {
    script.map_or(spec.flags, |script| flags_of_script(spec.flags, script))
}

/// What a command does whose script says what it does. A script without flags does what its command says.
fn flags_of_script(command: Flags, script: ScriptFlags) -> Flags {
    if script.has(ScriptFlags::COMPATIBLE) {
        return command;
    }
    let judged = Flags::STALE.or(Flags::DENYOOM).or(Flags::WRITE).or(Flags::MAY_REPLICATE);
    let mut flags = command.without(judged);
    let writes = !script.has(ScriptFlags::NO_WRITES);
    if writes {
        flags = flags.or(Flags::WRITE);
    }
    if writes && !script.has(ScriptFlags::ALLOW_OOM) {
        flags = flags.or(Flags::DENYOOM);
    }
    if script.has(ScriptFlags::ALLOW_STALE) {
        flags = flags.or(Flags::STALE);
    }
    flags
}

/// One check.
pub struct Check {
    /// Its name, for the test that prints the order.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test below"))]
    pub name: &'static str,
    /// Whether it can concern this command.
    pub concerns: fn(&Spec) -> bool,
    /// Whether it can reject a command in this state of the server.
    pub armed: fn(&Control) -> bool,
    /// Whether it can reject this session anything, whatever the state of the server: so that a session with
    /// restrictions slows no other.
    pub armed_for: fn(&Session) -> bool,
    /// Whether it concerns this server's primary, whose commands were decided on there.
    pub holds_primary: bool,
    /// Its answer; `None` lets the command pass. Must be `None` in a state in which the check is not armed.
    pub ask: fn(&Asked<'_>) -> Option<Verdict>,
}

/// The checks in the order in which the reference asks them. Existence and arity come before all of these:
/// they need no state, so an I/O thread can check them; only the main thread knows whether NOAUTH is the
/// answer instead.
pub(crate) const CHECKS: &[Check] = &[
    // Before all others: what they would answer may be another thing behind the unit. What replicas
    // acknowledge changes nothing.
    Check {
        name: "open-unit",
        concerns: |_| true,
        armed: |control| *control.clients.unit_stands_open,
        armed_for: |_| false,
        holds_primary: true,
        ask: |asked| {
            let acknowledges = asked.spec.id == server::REPLCONF.id && asked.caller.replica.is_some();
            // Of a busy script others are told: see the check `busy`. What the primary sends is not lost: it
            // waits.
            let is_told = *asked.control.scripts.is_busy && !asked.caller.is_primary();
            let is_forgotten =
                mistake::is_made(Mistake::RoleInsideRun) && asked.spec.id == server::REPLICAOF.id;
            let is_exempt = acknowledges || is_told || is_forgotten;
            let waits = *asked.control.clients.unit_stands_open && !is_exempt;
            waits.then_some(Verdict::Postpone)
        },
    },
    Check {
        name: "auth",
        concerns: |spec| !spec.flags.has(Flags::NO_AUTH),
        armed: |_| false,
        armed_for: |session| !session.caller.flags.authenticated,
        holds_primary: false,
        ask: |asked| {
            // Where the default user is open, that is everybody, whenever the connection came.
            asked.caller.must_authenticate(&asked.control.limits).then_some(Verdict::Reject(CmdError::NoAuth))
        },
    },
    Check {
        name: "protected",
        concerns: |spec| spec.flags.has(Flags::PROTECTED),
        armed: |control| {
            let guards = [param::ENABLE_DEBUG_COMMAND, param::ENABLE_MODULE_COMMAND];
            guards.iter().any(|guard| control.config.choice::<Guard>(*guard) != Guard::Yes)
        },
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            let (guard, text) = match asked.spec.container() {
                Some("module") => (param::ENABLE_MODULE_COMMAND, MODULE_REFUSED),
                _ => (param::ENABLE_DEBUG_COMMAND, DEBUG_REFUSED),
            };
            let open = match asked.control.config.choice::<Guard>(guard) {
                Guard::Yes => true,
                Guard::No => false,
                Guard::Local => asked.caller.is_local(),
            };
            (!open).then_some(Verdict::Reject(CmdError::text(text)))
        },
    },
    Check {
        name: "no-multi",
        concerns: |spec| spec.flags.has(Flags::NO_MULTI),
        armed: |_| false,
        armed_for: |session| session.transaction.is_some(),
        holds_primary: false,
        ask: |asked| {
            asked.session.transaction.as_ref().map(|_| {
                let name = asked.spec.full_name;
                Verdict::Reject(CmdError::owned(format!(
                    "ERR Command '{name}' not allowed inside a transaction"
                )))
            })
        },
    },
    // What the user of the session may not do. A session whose user may do everything is not asked.
    Check {
        name: "rights",
        concerns: |_| true,
        armed: |_| false,
        armed_for: |session| !session.caller.user().allows_all(),
        holds_primary: false,
        ask: |asked| {
            let Asked { spec, args, session, control, .. } = *asked;
            // Conditions of EXEC are about the client's own database, whatever the queue selects.
            let has_conditions = is_exec(spec) && args.len() > 1;
            let db = if has_conditions { session.caller.db } else { rights::database_of(session) };
            rights::check(asked.caller, spec, args, db, control.limits.databases).err().map(Verdict::Deny)
        },
    },
    Check {
        name: "redirect",
        concerns: |spec| spec.flags.has_any(Flags::WRITE.or(Flags::READONLY)) || is_judged_inside(spec),
        armed: |control| control.replication.replica.is_some(),
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            let redirection = asked.control.redirection(asked.caller, asked.flags)?;
            // Until the target has taken over, it would send the client back.
            let is_open = asked.control.replication.failover.is_some();
            Some(if is_open { Verdict::Postpone } else { Verdict::Reject(redirection) })
        },
    },
    Check {
        name: "maxmemory",
        concerns: |spec| spec.flags.has(Flags::DENYOOM) || is_judged_inside(spec),
        armed: |control| control.limits.maxmemory > 0,
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            let over = asked.room == Headroom::None;
            (over && asked.flags.has(Flags::DENYOOM)).then_some(Verdict::Reject(CmdError::text(FULL)))
        },
    },
    Check {
        name: "unsaved",
        concerns: |spec| {
            spec.flags.has(Flags::WRITE) || spec.id == connection::PING.id || is_judged_inside(spec)
        },
        armed: Control::refuses_writes,
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            let concerned = asked.flags.has(Flags::WRITE) || asked.spec.id == connection::PING.id;
            concerned.then_some(Verdict::Reject(CmdError::text(UNSAVED)))
        },
    },
    Check {
        name: "entry-space",
        // Even a new expiry moves an entry to another block.
        concerns: |spec| {
            spec.flags.has(Flags::WRITE) && !ONLY_FREE.iter().any(|free| free.id == spec.id)
                || is_judged_inside(spec)
        },
        armed: |control| *control.nearly_full,
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            (*asked.control.nearly_full && asked.flags.has(Flags::WRITE))
                .then_some(Verdict::Reject(CmdError::NO_ENTRY_SPACE))
        },
    },
    Check {
        name: "aof-fault",
        concerns: |spec| {
            spec.flags.has(Flags::WRITE) || is_judged_inside(spec) || spec.id == connection::PING.id
        },
        armed: |control| control.persistence.aof.report().fault.is_some(),
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            let reason = asked.control.persistence.aof.report().fault.as_ref()?;
            let text = format!("MISCONF Errors writing to the AOF file: {reason}");
            let refuses = asked.flags.has(Flags::WRITE) || asked.spec.id == connection::PING.id;
            refuses.then(|| Verdict::Reject(CmdError::owned(text)))
        },
    },
    Check {
        name: "min-replicas",
        concerns: |spec| spec.flags.has(Flags::WRITE) || is_judged_inside(spec),
        armed: Control::lacks_replicas,
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            (asked.control.lacks_replicas() && asked.flags.has(Flags::WRITE))
                .then_some(Verdict::Reject(CmdError::text(LACKS_REPLICAS)))
        },
    },
    Check {
        name: "read-only",
        concerns: |spec| spec.flags.has(Flags::WRITE) || is_judged_inside(spec),
        armed: |control| {
            control.replication.replica.is_some() && control.config.bool(param::REPLICA_READ_ONLY)
        },
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            let refuses = asked.control.replication.replica.is_some()
                && asked.control.config.bool(param::REPLICA_READ_ONLY);
            (refuses && asked.flags.has(Flags::WRITE)).then(|| match asked.waits_through_failover() {
                // What else was over has released it. Who had to wait is told nothing before the end of that:
                // a sentinel has clients wait until it closes them.
                true => Verdict::Postpone,
                false => Verdict::Reject(CmdError::READ_ONLY_REPLICA),
            })
        },
    },
    Check {
        name: "pubsub",
        concerns: |spec| !WHILE_LISTENING.iter().any(|allowed| allowed.id == spec.id),
        armed: |_| false,
        armed_for: |session| session.caller.only_listens(),
        holds_primary: false,
        ask: |asked| {
            asked.caller.only_listens().then(|| {
                let name = asked.spec.full_name;
                Verdict::Reject(CmdError::owned(format!(
                    "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
                     allowed in this context"
                )))
            })
        },
    },
    Check {
        name: "stale",
        concerns: |spec| !spec.flags.has(Flags::STALE) || is_judged_inside(spec),
        armed: Control::is_stale,
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            let is_allowed = match &asked.session.transaction {
                Some(transaction) if is_exec(asked.spec) => {
                    transaction.is_allowed_while_stale() && asked.args.len() == 1
                }
                Some(_) | None => asked.flags.has(Flags::STALE),
            };
            (asked.control.is_stale() && !is_allowed).then_some(Verdict::Reject(CmdError::STALE_REPLICA))
        },
    },
    Check {
        name: "loading",
        concerns: |spec| {
            !spec.flags.has(Flags::LOADING)
                || spec.flags.has(Flags::NO_ASYNC_LOADING)
                || is_judged_inside(spec)
        },
        armed: |control| control.persistence.load.is_some(),
        armed_for: |_| false,
        holds_primary: true,
        ask: |asked| {
            let load = asked.control.persistence.load.as_ref()?;
            let names_primary = [server::REPLICAOF.id, server::SLAVEOF.id].contains(&asked.spec.id);
            let is_allowed = match &asked.session.transaction {
                // The role that it asks for waits for the end of the load (D-3): there is no reason to have
                // it asked for again.
                None if names_primary && asked.control.awaits_sync_file() => true,
                _ if load.is_async() => !asked.flags.has(Flags::NO_ASYNC_LOADING),
                Some(transaction) if is_exec(asked.spec) => {
                    transaction.is_allowed_while_loading() && asked.args.len() == 1
                }
                Some(_) | None => asked.spec.flags.has(Flags::LOADING),
            };
            (!is_allowed).then(|| match asked.caller.is_primary() {
                // What the primary sends is not lost: it waits.
                true => Verdict::Postpone,
                false => Verdict::Reject(CmdError::LOADING),
            })
        },
    },
    Check {
        name: "busy",
        concerns: |spec| !spec.flags.has(Flags::ALLOW_BUSY),
        armed: |control| *control.scripts.is_busy,
        armed_for: |_| false,
        holds_primary: false,
        ask: |asked| {
            let running =
                asked.control.scripts.running.as_deref().filter(|_| *asked.control.scripts.is_busy)?;
            Some(Verdict::Reject(running.busy_error()))
        },
    },
    Check {
        name: "replica",
        concerns: |spec| touches_keys(spec.flags),
        armed: |_| false,
        armed_for: |session| receives_stream(&session.caller),
        holds_primary: false,
        ask: |asked| {
            receives_stream(asked.caller)
                .then_some(Verdict::Reject(CmdError::text("ERR Replica can't interact with the keyspace")))
        },
    },
    Check {
        name: "pause",
        concerns: |_| true,
        armed: |control| {
            control.clients.pause.until_ms > 0
                || control.persistence.pending_end.is_some()
                || control.replication.failover.is_some()
        },
        armed_for: |_| false,
        holds_primary: true,
        ask: |asked| {
            let pause = *asked.control.clients.pause;
            let writes = asked.flags.has_any(Flags::WRITE.or(Flags::MAY_REPLICATE));
            // Receivers of the replication stream go on: a pause often waits for just that.
            // A server that ends, or hands its role over, takes no writes that its replicas could miss.
            let is_leaving = asked.control.persistence.pending_end.is_some()
                || asked.control.replication.failover.is_some();
            let keeps_back = pause.active(asked.now) && (pause.all || writes) || is_leaving && writes;
            (keeps_back && !receives_stream(asked.caller)).then_some(Verdict::Postpone)
        },
    },
    // What is to be deleted when another server has it is not changed before.
    Check {
        name: "migrating",
        concerns: |spec| spec.flags.has(Flags::WRITE) || is_judged_inside(spec),
        armed: |control| control.clients.migrations.are_under_way(),
        armed_for: |_| false,
        holds_primary: true,
        ask: |asked| {
            let migrations = &asked.control.clients.migrations;
            let is_one_too_many = asked.spec.id == generic::MIGRATE.id && migrations.are_many();
            let waits = asked.may_write() && migrations.hold_any() && touches_held(asked);
            (waits || is_one_too_many).then_some(Verdict::Postpone)
        },
    },
    Check {
        name: "queue",
        concerns: |spec| !NEVER_QUEUED.iter().any(|never| never.id == spec.id),
        armed: |_| false,
        armed_for: |session| session.transaction.is_some(),
        holds_primary: true,
        ask: |asked| asked.session.transaction.as_ref().map(|_| Verdict::Queue),
    },
    // Behind the queue: a transaction waits as a whole.
    Check {
        name: "aof-backlog",
        concerns: |spec| spec.flags.has(Flags::WRITE) || is_judged_inside(spec),
        armed: |control| control.persistence.aof.report().backlog != AofBacklog::Fine,
        armed_for: |_| false,
        holds_primary: true,
        ask: |asked| {
            let is_behind = asked.control.persistence.aof.report().backlog != AofBacklog::Fine;
            (is_behind && asked.may_write()).then_some(Verdict::Postpone)
        },
    },
    // Refuses nothing: whoever asks the gate notes what the reply of a command that may run has to wait for.
    Check {
        name: "durable",
        concerns: |spec| {
            touches_keys(spec.flags)
                || spec.flags.has_any(Flags::PUBSUB.or(Flags::PROTECTED))
                || is_judged_inside(spec)
                || crate::persistence::aof::shows_libraries(spec)
        },
        armed: |control| control.persistence.aof.is_strict(),
        armed_for: |_| false,
        holds_primary: true,
        ask: |_| None,
    },
];

/// The bit of the check `rights` in a session's mask: the session's user may not run everything.
pub(crate) const RIGHTS: u32 = 1 << 4;

/// What takes effect at once inside MULTI.
const NEVER_QUEUED: [&Spec; 6] = [
    &transactions::EXEC,
    &transactions::DISCARD,
    &transactions::MULTI,
    &transactions::WATCH,
    &connection::QUIT,
    &connection::RESET,
];

/// What a client may do that has subscribed and speaks RESP2.
const WHILE_LISTENING: [&Spec; 9] = [
    &pubsub::PSUBSCRIBE,
    &pubsub::PUNSUBSCRIBE,
    &pubsub::SSUBSCRIBE,
    &pubsub::SUBSCRIBE,
    &pubsub::SUNSUBSCRIBE,
    &pubsub::UNSUBSCRIBE,
    &connection::PING,
    &connection::QUIT,
    &connection::RESET,
];

/// The checks of a command that a script calls.
#[cold]
fn ask_called(
    spec: &'static Spec,
    control: &Control,
    rights: NestedRights,
    denied: Option<Denial>,
) -> Result<(), NestedRefusal> {
    let error = |text| Err(NestedRefusal::Error(CmdError::text(text)));
    if rights.is_full && spec.flags.has(Flags::DENYOOM) {
        return error(FULL);
    }
    if let Some(denial) = denied {
        return Err(NestedRefusal::Denied(denial));
    }
    if rights.is_read_only && spec.flags.has_any(Flags::WRITE.or(Flags::MAY_REPLICATE)) {
        return Err(NestedRefusal::Own("Write commands are not allowed from read-only scripts."));
    }
    if spec.flags.has(Flags::WRITE) && *control.nearly_full {
        return Err(NestedRefusal::Error(CmdError::NO_ENTRY_SPACE));
    }
    if spec.flags.has(Flags::WRITE) && !rights.has_written {
        if control.lacks_replicas() {
            return error(LACKS_REPLICAS);
        }
        if !rights.is_obeyed {
            if control.refuses_writes() {
                return error(UNSAVED);
            }
            if let Some(reason) = control.persistence.aof.report().fault.as_ref() {
                let text = format!("MISCONF Errors writing to the AOF file: {reason}");
                return Err(NestedRefusal::Error(CmdError::owned(text)));
            }
            if control.replication.replica.is_some() && control.config.bool(param::REPLICA_READ_ONLY) {
                return Err(NestedRefusal::Error(CmdError::READ_ONLY_REPLICA));
            }
        }
    }
    if control.is_stale() && !spec.flags.has(Flags::STALE) {
        return Err(NestedRefusal::Own("Can not execute the command on a stale replica"));
    }
    Ok(())
}

/// No memory is left.
const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// Too few replicas are there.
const LACKS_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// Whether what is inside decides: EXEC's queued commands, or a script's first line.
fn is_judged_inside(spec: &Spec) -> bool {
    is_exec(spec) || runs_script(spec)
}

fn is_exec(spec: &Spec) -> bool {
    spec.id == transactions::EXEC.id
}

/// Writes that store nothing new.
const ONLY_FREE: [&Spec; 8] = [
    &generic::DEL,
    &generic::UNLINK,
    &string::DELEX,
    &string::DELIFEQ,
    &string::GETDEL,
    &server::FLUSHALL,
    &server::FLUSHDB,
    &server::SWAPDB,
];

/// Whether a command may change a key that a migration is about to delete. The commands of a transaction, and
/// what changes whole databases, may.
fn touches_held(asked: &Asked<'_>) -> bool {
    // A script reaches keys that it does not declare.
    if runs_script(asked.spec) {
        return true;
    }
    let mut is_held = false;
    let found = for_each_key(asked.spec, asked.args, |key| {
        is_held |= asked.control.clients.migrations.hold(key.hash)
    });
    match found {
        KeysFound::Some | KeysFound::ReadsBeyond => is_held,
        KeysFound::None => true,
        KeysFound::Invalid => false,
    }
}

fn touches_keys(flags: Flags) -> bool {
    flags.has_any(Flags::READONLY.or(Flags::WRITE).or(Flags::MAY_REPLICATE))
}

fn receives_stream(caller: &Caller) -> bool {
    caller.replica.is_some() || caller.flags.monitor
}

const UNSAVED: &str = "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands \
                       that may modify the data set are disabled, because this instance is configured to report errors during \
                       writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Valkey logs for \
                       details about the RDB error.";

const DEBUG_REFUSED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
                             can run it from a local connection, otherwise you need to set this option in the \
                             configuration file, and then restart the server.";

const MODULE_REFUSED: &str = "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", \
                             you can run it from a local connection, otherwise you need to set this option in the \
                             configuration file, and then restart the server.";

/// The gate's state.
#[derive(Debug)]
pub struct Gate {
    /// Bits of the checks that can reject something now.
    armed: u32,
    /// Those of them that concern this server's primary.
    armed_for_primary: u32,
    /// By `Spec::id`: bits of the checks that concern the command.
    concerns: Vec<u32>,
}

/// Why a command that a script calls may not run.
pub(crate) enum NestedRefusal {
    /// For a reason that scripts are told in words of their own, without a code.
    Own(&'static str),
    /// For the reason that a client would be told.
    Error(CmdError),
    /// Because the client's user may not run it.
    Denied(Denial),
}

/// What the script may do that calls a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NestedRights {
    /// It has said that it writes nothing.
    pub is_read_only: bool,
    /// There was no memory when it began, it has not said that it does without, and it has not written yet.
    pub is_full: bool,
    /// It has written: what could fail it half done is not asked any more.
    pub has_written: bool,
    /// It was decided on elsewhere.
    pub is_obeyed: bool,
}

impl Gate {
    /// For these specs, in the order of their ids.
    pub fn new(specs: &[&'static Spec]) -> Gate {
        let bits = |spec: &Spec| {
            CHECKS
                .iter()
                .enumerate()
                .filter(|(_, c)| (c.concerns)(spec))
                .fold(0, |bits, (i, _)| bits | 1 << i)
        };
        Gate { armed: 0, armed_for_primary: 0, concerns: specs.iter().map(|spec| bits(spec)).collect() }
    }

    /// Looks again at which checks are armed; to be called when the control plane has changed: by
    /// [`Engine::notice`](crate::Engine).
    pub(crate) fn rearm(&mut self, control: &Control) {
        self.armed = CHECKS
            .iter()
            .enumerate()
            .filter(|(_, c)| (c.armed)(control))
            .fold(0, |bits, (i, _)| bits | 1 << i);
        let holding = CHECKS.iter().enumerate().filter(|(_, c)| c.holds_primary);
        self.armed_for_primary = self.armed & holding.fold(0, |bits, (i, _)| bits | 1 << i);
    }

    /// Bits of the checks that can reject this session something: to be asked for again when the session has
    /// changed.
    pub(crate) fn session_mask(&self, session: &Session) -> u32 {
        CHECKS
            .iter()
            .enumerate()
            .filter(|(_, c)| (c.armed_for)(session) && (c.holds_primary || !session.caller.is_primary()))
            .fold(0, |bits, (i, _)| bits | 1 << i)
    }

    /// A new session with its mask.
    pub(crate) fn masked(&self, mut session: Session) -> Session {
        session.mask = self.session_mask(&session);
        session
    }

    /// The permit of a command of this standing, unless a check has to be asked first.
    #[inline]
    pub(crate) fn pass(&self, spec: &Spec, session: &Session, standing: Standing) -> Option<Permit> {
        (!standing.row().is_checked || self.pending(spec, session) == 0).then_some(Permit(()))
    }

    /// The permit of a command that a script calls. Of the checks, those are asked that concern the state of
    /// the data, in the order in which the reference asks them of such a command; among them `denied`, why
    /// the client's user may not run it.
    ///
    /// # Errors
    /// Why it may not run.
    #[inline]
    pub(crate) fn pass_called(
        &self,
        spec: &'static Spec,
        control: &Control,
        rights: NestedRights,
        denied: Option<Denial>,
    ) -> Result<Permit, NestedRefusal> {
        let concerns = self.concerns.get(spec.id.0 as usize).copied().unwrap_or(u32::MAX);
        if self.armed & concerns != 0 || rights.is_read_only || denied.is_some() {
            ask_called(spec, control, rights, denied)?;
        }
        Ok(Permit(()))
    }

    /// Bits of the checks that are armed and concern the command.
    #[inline]
    fn pending(&self, spec: &Spec, session: &Session) -> u32 {
        let concerns = self.concerns.get(spec.id.0 as usize).copied().unwrap_or(u32::MAX);
        let armed = if session.caller.is_primary() { self.armed_for_primary } else { self.armed };
        (armed | session.mask) & concerns
    }

    /// Asks the checks that are armed and concern the command, in order.
    #[cold]
    pub(crate) fn ask(&self, asked: &Asked<'_>) -> Verdict {
        let mut bits = self.pending(asked.spec, asked.session);
        while let Some(check) = CHECKS.get(bits.trailing_zeros() as usize) {
            if let Some(verdict) = (check.ask)(asked) {
                return verdict;
            }
            bits &= bits - 1;
        }
        Verdict::Run(Permit(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_checks_is_this() {
        let names: Vec<&str> = CHECKS.iter().map(|c| c.name).collect();
        assert_eq!(
            names,
            [
                "open-unit",
                "auth",
                "protected",
                "no-multi",
                "rights",
                "redirect",
                "maxmemory",
                "unsaved",
                "entry-space",
                "aof-fault",
                "min-replicas",
                "read-only",
                "pubsub",
                "stale",
                "loading",
                "busy",
                "replica",
                "pause",
                "migrating",
                "queue",
                "aof-backlog",
                "durable"
            ]
        );
        assert!(CHECKS.len() <= 32);
        assert_eq!(CHECKS[RIGHTS.trailing_zeros() as usize].name, "rights");
    }
}
