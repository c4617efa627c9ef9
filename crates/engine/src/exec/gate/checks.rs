//! The checks of the gate: every reason for which a command may not run in the current state.
//!
//! A row of [`CHECKS`] says which askers it concerns, in which states of the server and of a session it can
//! reject a command, and what it answers. A reason that clients and scripts share is one row: `Rejection`
//! has both wordings.

use super::check::{Asked, Asker, Askers, Check, Rejection, Verdict, is_exec};
use crate::cluster::exports::held;
use crate::cluster::redirect;
use crate::exec::standing::Standing;
use sluice_base::mistake::{self, Mistake};
use sluice_command::derive::keys::has_routing_keys;
use sluice_command::specs::{cluster, connection, generic, pubsub, server, string, transactions};
use sluice_command::{Flags, Spec};
use sluice_commands::CmdError;
use sluice_config::choice::Guard;
use sluice_config::param;
use sluice_control::Control;
use sluice_control::persistence::aof::{KeysFound, for_each_key};
use sluice_control::process::AofBacklog;
use sluice_control::upkeep::evict::Headroom;
use sluice_control::users::rights;
use sluice_scripts::shebang::runs_script;
use sluice_session::{Authentication, Caller};

/// The checks in the order in which the reference asks them. The checks of existence and arity come before
/// all of these. They need no state, so an I/O thread can make them; only the main thread knows whether
/// NOAUTH is the answer instead.
pub(super) const CHECKS: &[Check] = &[
    // This check comes before all others, because their answers may differ once the open unit, a suspended
    // transaction or script, has ended. Acknowledgements of replicas change nothing and pass.
    Check {
        name: "open-unit",
        concerns: |_| true,
        armed: |control| *control.clients.unit_stands_open,
        armed_for: |_| false,
        askers: Askers::CLIENT.and(Asker::Primary).and(Asker::Import),
        ask: |asked| {
            let acknowledges = asked.spec.id == server::REPLCONF.id && asked.caller.replica.is_some();
            // While a script is busy, clients pass here, and get the error of the check `busy`. Commands of
            // other servers must not be lost, so they wait.
            let is_sent = asked.caller.is_primary() || asked.caller.is_import();
            let is_told = *asked.control.scripts.is_busy && !is_sent;
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
        armed_for: |session| session.caller.flags.authentication != Authentication::Now,
        askers: Askers::CLIENT,
        ask: |asked| {
            // If the default user is open, every client passes, no matter when it connected.
            asked.caller.must_authenticate(&asked.control.limits).then_some(Verdict::reject(CmdError::NoAuth))
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
        askers: Askers::CLIENT,
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
            (!open).then_some(Verdict::reject(CmdError::text(text)))
        },
    },
    Check {
        name: "no-multi",
        concerns: |spec| spec.flags.has(Flags::NO_MULTI),
        armed: |_| false,
        armed_for: |session| session.transaction.is_some(),
        askers: Askers::CLIENT,
        ask: |asked| {
            asked.session.transaction.as_ref().map(|_| {
                let name = asked.spec.full_name;
                Verdict::reject(CmdError::owned(format!(
                    "ERR Command '{name}' not allowed inside a transaction"
                )))
            })
        },
    },
    // The rights of the session's user. The check is not armed for a session whose user may do everything,
    // nor for the connection to the target of a move of slots.
    Check {
        name: "rights",
        concerns: |_| true,
        armed: |_| false,
        armed_for: |session| !session.caller.user().allows_all() && !session.caller.is_export(),
        askers: Askers::CLIENT.and(Asker::Queued).and_calls(20).and(Asker::ObeyedCall).and(Asker::Import),
        ask: |asked| {
            let Asked { spec, args, session, control, standing, .. } = *asked;
            // A command that MULTI queues is checked for the database that the queue will have selected by
            // then. Conditions of EXEC are about the client's own database, whatever the queue selects.
            let is_about_own = standing != Standing::Client || is_exec(spec) && args.len() > 1;
            let db = if is_about_own { session.caller.db } else { rights::database_of(session) };
            rights::check(asked.caller, spec, args, db, control.limits.databases).err().map(Verdict::Deny)
        },
    },
    // Requests for keys of another node are redirected in any state of this server.
    Check {
        name: "slots",
        concerns: |spec| has_routing_keys(spec) || is_exec(spec),
        armed: |control| control.cluster.is_some(),
        armed_for: |_| false,
        askers: Askers::CLIENT.and_calls(25),
        ask: redirect::ask,
    },
    Check {
        name: "read-only-script",
        concerns: |spec| spec.flags.has_any(Flags::WRITE.or(Flags::MAY_REPLICATE)),
        armed: |_| false,
        armed_for: |_| false,
        askers: Askers::calls(30),
        ask: |asked| {
            let is_read_only = asked.call.is_some_and(|call| call.is_read_only);
            is_read_only.then_some(Verdict::Reject(Rejection::of_call(READ_ONLY_SCRIPT)))
        },
    },
    Check {
        name: "replica-redirect",
        concerns: |spec| spec.flags.has_any(Flags::WRITE.or(Flags::READONLY)) || is_judged_inside(spec),
        armed: |control| control.replication.replica.is_some(),
        armed_for: |_| false,
        askers: Askers::CLIENT,
        ask: |asked| {
            let redirection = asked.control.redirection(asked.caller, asked.flags)?;
            // During a failover the request waits, because the target would redirect the client back to
            // this server until it has taken over.
            let is_open = asked.control.replication.failover.is_some();
            Some(if is_open { Verdict::Postpone } else { Verdict::reject(redirection) })
        },
    },
    Check {
        name: "maxmemory",
        concerns: |spec| spec.flags.has(Flags::DENYOOM) || is_judged_inside(spec),
        armed: |control| control.limits.maxmemory > 0,
        armed_for: |_| false,
        askers: Askers::CLIENT.and_calls(10).and(Asker::Import),
        ask: |asked| {
            (asked.room == Headroom::None && asked.flags.has(Flags::DENYOOM))
                .then_some(Verdict::reject(CmdError::text(FULL)))
        },
    },
    Check {
        name: "unsaved",
        concerns: |spec| {
            spec.flags.has(Flags::WRITE) || spec.id == connection::PING.id || is_judged_inside(spec)
        },
        armed: Control::refuses_writes,
        armed_for: |_| false,
        askers: Askers::CLIENT.and_calls(60),
        ask: |asked| {
            asked.begins_write_or_asks_for_health().then_some(Verdict::reject(CmdError::text(UNSAVED)))
        },
    },
    Check {
        name: "entry-space",
        // Commands that only set an expiry time are checked, too, because a new expiry time moves an entry
        // to another block.
        concerns: |spec| {
            spec.flags.has(Flags::WRITE) && !ONLY_FREE.iter().any(|free| free.id == spec.id)
                || is_judged_inside(spec)
        },
        armed: |control| *control.nearly_full,
        armed_for: |_| false,
        askers: Askers::CLIENT.and_calls(40).and(Asker::ObeyedCall).and(Asker::Import),
        ask: |asked| {
            (*asked.control.nearly_full && asked.flags.has(Flags::WRITE))
                .then_some(Verdict::reject(CmdError::NO_ENTRY_SPACE))
        },
    },
    Check {
        name: "aof-fault",
        concerns: |spec| {
            spec.flags.has(Flags::WRITE) || is_judged_inside(spec) || spec.id == connection::PING.id
        },
        armed: |control| control.persistence.aof.report().fault.is_some(),
        armed_for: |_| false,
        askers: Askers::CLIENT.and_calls(70),
        ask: |asked| {
            let reason = asked.control.persistence.aof.report().fault.as_ref()?;
            let text = format!("MISCONF Errors writing to the AOF file: {reason}");
            asked.begins_write_or_asks_for_health().then(|| Verdict::reject(CmdError::owned(text)))
        },
    },
    Check {
        name: "min-replicas",
        concerns: |spec| spec.flags.has(Flags::WRITE) || is_judged_inside(spec),
        armed: Control::lacks_replicas,
        armed_for: |_| false,
        askers: Askers::CLIENT.and_calls(50).and(Asker::ObeyedCall).and(Asker::Import),
        ask: |asked| {
            (asked.control.lacks_replicas() && asked.begins_write())
                .then_some(Verdict::reject(CmdError::text(LACKS_REPLICAS)))
        },
    },
    Check {
        name: "read-only",
        concerns: |spec| spec.flags.has(Flags::WRITE) || is_judged_inside(spec),
        armed: |control| {
            control.replication.replica.is_some() && control.config.bool(param::REPLICA_READ_ONLY)
        },
        armed_for: |_| false,
        askers: Askers::CLIENT.and_calls(80),
        ask: |asked| {
            let refuses = asked.control.replication.replica.is_some()
                && asked.control.config.bool(param::REPLICA_READ_ONLY);
            (refuses && asked.begins_write()).then(|| match asked.waits_through_failover() {
                // The request was postponed for a reason that is over now. It gets no error before the
                // failover ends, because a sentinel relies on clients waiting until the sentinel closes
                // their connections.
                true => Verdict::Postpone,
                false => Verdict::reject(CmdError::READ_ONLY_REPLICA),
            })
        },
    },
    Check {
        name: "pubsub",
        concerns: |spec| !WHILE_LISTENING.iter().any(|allowed| allowed.id == spec.id),
        armed: |_| false,
        armed_for: |session| session.caller.only_listens(),
        askers: Askers::CLIENT,
        ask: |asked| {
            asked.caller.only_listens().then(|| {
                let name = asked.spec.full_name;
                Verdict::reject(CmdError::owned(format!(
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
        askers: Askers::CLIENT.and_calls(90).and(Asker::ObeyedCall),
        ask: |asked| {
            let is_allowed = match &asked.session.transaction {
                Some(transaction) if is_exec(asked.spec) => {
                    transaction.is_allowed_while_stale() && asked.args.len() == 1
                }
                Some(_) | None => asked.flags.has(Flags::STALE),
            };
            (asked.control.is_stale() && !is_allowed).then_some(Verdict::Reject(Rejection {
                error: CmdError::STALE_REPLICA,
                in_script: Some(STALE_CALL.into()),
            }))
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
        askers: Askers::CLIENT.and(Asker::Primary).and(Asker::Import),
        ask: |asked| {
            let load = asked.control.persistence.load.as_ref()?;
            let names_primary = [server::REPLICAOF.id, server::SLAVEOF.id].contains(&asked.spec.id);
            let is_allowed = match &asked.session.transaction {
                // REPLICAOF is accepted during this load, because the new role waits for the end of the load
                // (D-3); the client need not ask again.
                None if names_primary && asked.control.awaits_sync_file() => true,
                _ if load.is_async() => !asked.flags.has(Flags::NO_ASYNC_LOADING),
                Some(transaction) if is_exec(asked.spec) => {
                    transaction.is_allowed_while_loading() && asked.args.len() == 1
                }
                Some(_) | None => asked.spec.flags.has(Flags::LOADING),
            };
            (!is_allowed).then(|| match asked.caller.is_primary() {
                // Commands of the primary must not be lost, so they wait.
                true => Verdict::Postpone,
                false => Verdict::reject(CmdError::LOADING),
            })
        },
    },
    Check {
        name: "busy",
        concerns: |spec| !spec.flags.has(Flags::ALLOW_BUSY),
        armed: |control| *control.scripts.is_busy,
        armed_for: |_| false,
        askers: Askers::CLIENT,
        ask: |asked| {
            let running =
                asked.control.scripts.running.as_deref().filter(|_| *asked.control.scripts.is_busy)?;
            Some(Verdict::reject(running.busy_error()))
        },
    },
    Check {
        name: "replica",
        concerns: |spec| touches_keys(spec.flags),
        armed: |_| false,
        armed_for: |session| receives_stream(&session.caller),
        askers: Askers::CLIENT,
        ask: |asked| {
            receives_stream(asked.caller)
                .then_some(Verdict::reject(CmdError::text("ERR Replica can't interact with the keyspace")))
        },
    },
    Check {
        name: "pause",
        concerns: |_| true,
        armed: |control| {
            control.clients.pause.until_ms > 0
                || control.persistence.holds_writes_for_end()
                || control.replication.failover.is_some()
                || control.is_paused_by_cluster()
        },
        armed_for: |_| false,
        askers: Askers::CLIENT.and(Asker::Primary).and(Asker::Import),
        ask: |asked| {
            let pause = *asked.control.clients.pause;
            let writes = asked.flags.has_any(Flags::WRITE.or(Flags::MAY_REPLICATE));
            // Replicas, clients of MONITOR and targets of moves of slots are not paused, because a pause
            // often waits for them. A server that ends, or hands its role over, holds writes, because its
            // replicas could miss them.
            let is_leaving = asked.control.persistence.holds_writes_for_end()
                || asked.control.replication.failover.is_some()
                || asked.control.is_paused_by_cluster();
            let keeps_back = pause.active(asked.now) && (pause.all || writes) || is_leaving && writes;
            let goes_on = receives_stream(asked.caller) || asked.caller.is_export();
            (keeps_back && !goes_on).then_some(Verdict::Postpone)
        },
    },
    // While MIGRATE moves a key, nothing changes the key, because it is deleted here as soon as the other
    // server has it. A further MIGRATE waits while many are under way.
    Check {
        name: "migrating",
        concerns: |spec| spec.flags.has(Flags::WRITE) || is_judged_inside(spec),
        armed: |control| control.clients.migrations.are_under_way(),
        armed_for: |_| false,
        askers: Askers::CLIENT.and(Asker::Primary).and(Asker::Import),
        ask: |asked| {
            let migrations = &asked.control.clients.migrations;
            let is_one_too_many = asked.spec.id == generic::MIGRATE.id && migrations.are_many();
            let waits = asked.may_write() && migrations.hold_any() && touches_held(asked);
            (waits || is_one_too_many).then_some(Verdict::Postpone)
        },
    },
    // Keys that another node is about to own are not changed after that node was sent PAUSED.
    Check {
        name: "exported",
        concerns: |spec| spec.flags.has_any(Flags::WRITE.or(Flags::MAY_REPLICATE)) || is_judged_inside(spec),
        armed: |control| control.cluster.as_ref().is_some_and(|mode| mode.exports().may_hold()),
        armed_for: |_| false,
        askers: Askers::CLIENT,
        ask: held::ask,
    },
    Check {
        name: "queue",
        concerns: |spec| !NEVER_QUEUED.iter().any(|never| never.id == spec.id),
        armed: |_| false,
        armed_for: |session| session.transaction.is_some(),
        askers: Askers::CLIENT.and(Asker::Primary),
        ask: |asked| asked.session.transaction.as_ref().map(|_| Verdict::Queue),
    },
    // This check follows `queue`, because a transaction waits as a whole.
    Check {
        name: "aof-backlog",
        concerns: |spec| spec.flags.has(Flags::WRITE) || is_judged_inside(spec),
        armed: |control| control.persistence.aof.report().backlog != AofBacklog::Fine,
        armed_for: |_| false,
        askers: Askers::CLIENT.and(Asker::Primary).and(Asker::Import),
        ask: |asked| {
            let is_behind = asked.control.persistence.aof.report().backlog != AofBacklog::Fine;
            (is_behind && asked.may_write()).then_some(Verdict::Postpone)
        },
    },
    Check {
        name: "export-words",
        concerns: |spec| spec.id != cluster::CLUSTER_SYNCSLOTS.id,
        armed: |_| false,
        armed_for: |session| session.caller.is_export(),
        askers: Askers::NONE.and(Asker::Import),
        ask: |_| Some(Verdict::reject(CmdError::text(NO_WORD))),
    },
    // A source that moves slots to this server may write only to those slots. A command that accesses
    // keys without naming them is refused.
    Check {
        name: "import-scope",
        concerns: |spec| {
            spec.flags.has(Flags::WRITE) || runs_script(spec) || spec.id == transactions::MULTI.id
        },
        armed: |_| false,
        armed_for: |session| session.caller.is_import(),
        askers: Askers::NONE.and(Asker::Import),
        ask: |asked| {
            let is_inside = asked.spec.flags.has(Flags::WRITE)
                && !runs_script(asked.spec)
                && redirect::is_of_import(asked);
            (!is_inside).then_some(Verdict::reject(CmdError::text(NOT_OF_IMPORT)))
        },
    },
];

/// Commands that are executed or rejected at once inside MULTI.
const NEVER_QUEUED: [&Spec; 6] = [
    &transactions::EXEC,
    &transactions::DISCARD,
    &transactions::MULTI,
    &transactions::WATCH,
    &connection::QUIT,
    &connection::RESET,
];

/// Commands allowed to a subscribed client of RESP2.
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

/// Error when no memory is left below `maxmemory`.
const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// Error when too few good replicas are connected.
const LACKS_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// Error for the target of a move of slots that sends a command which is no message about the move. The
/// target gets no reply, and the move fails.
const NO_WORD: &str = "ERR This connection is that of a move of slots";
/// Error for the source of a move of slots that writes to other slots. The error is logged, and the import
/// fails.
const NOT_OF_IMPORT: &str = "ERR The command is not about the slots that this connection moves";

/// Error for a write of a script that has declared to write nothing.
const READ_ONLY_SCRIPT: &str = "Write commands are not allowed from read-only scripts.";
/// Error for a script's call whose answer may be out of date.
const STALE_CALL: &str = "Can not execute the command on a stale replica";

/// Whether a command is judged by the flags of what it runs: the flags of EXEC's queued commands, or those
/// that a script's first line declares.
fn is_judged_inside(spec: &Spec) -> bool {
    is_exec(spec) || runs_script(spec)
}

/// Writing commands that store nothing new.
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

/// Whether a command may change a key that a migration is about to delete. A command without keys of its
/// own, such as EXEC or a command that changes whole databases, counts as one that may.
fn touches_held(asked: &Asked<'_>) -> bool {
    // A script may access keys that it does not declare.
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

/// Whether a reply of this command can show data that a strict append-only file has not made durable yet.
pub(super) fn shows_data(spec: &Spec) -> bool {
    touches_keys(spec.flags)
        || spec.flags.has_any(Flags::PUBSUB.or(Flags::PROTECTED))
        || is_judged_inside(spec)
        || sluice_control::persistence::aof::shows_libraries(spec)
}
