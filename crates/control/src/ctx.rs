//! Contexts: the parts of the server that a handler may touch. An execution unit is a command, or a
//! transaction or script as a whole. A route states the kind of its handler's context; `Handler::rights`
//! states as data what each kind may do, and `route` refuses at compile time a kind that contradicts the
//! command's declared flags. Contexts of commands about data are in the crate `commands`.

use crate::Control;
use crate::action::Action;
use crate::cluster::mode::ClusterMode;
use crate::persistence::background::JobNumbers;
use crate::persistence::loading::aof::LogReplay;
use crate::process::{MemoryShown, Process};
use crate::users::UsersState;
use sluice_base::{ChangeGuard, Now, SessionKey};
use sluice_cluster::SlotMap;
use sluice_command::Spec;
use sluice_commands::{Args, DataHandler, KeyRights, Limits, ReadCtx, Renames, Run, check_route};
use sluice_config::{Config, param};
use sluice_keyspace::{Dataset, DbRef, Effects, ImportMarks, Keyspace};
use sluice_numbers::commandlog::CommandLog;
use sluice_numbers::facts::Facts;
use sluice_numbers::hot_keys::HotKeys;
use sluice_numbers::latency::LatencyMonitor;
use sluice_numbers::stats::Stats;
use sluice_resp::Reply;
use sluice_scripts::state::ScriptFacts;
use sluice_session::line::LineSources;
use sluice_session::transaction::Transaction;
use sluice_session::{Caller, Session, Sessions};
use sluice_subscriptions::registry::PubSub;
use sluice_subscriptions::tracking::Tracking;
use sluice_subscriptions::watch::Watching;

/// The context of commands on all databases.
pub struct DatasetCtx<'a> {
    /// Every database of the server.
    pub data: Dataset<'a>,
    /// The client that runs the command.
    pub caller: &'a Caller,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// The destination of the reply.
    pub reply: Reply<'a>,
}

/// The context of commands about slots being imported. An append-only file that is loaded may contain such
/// commands, too, so a cluster node is not required.
pub struct ImportsCtx<'a> {
    /// Time of the execution unit, by which keys expire.
    pub now: Now,
    /// The session of the client that runs the command.
    pub client: SessionKey,
    /// The client that runs the command.
    pub caller: &'a mut Caller,
    /// Whether the command may block: not inside a transaction or a script.
    pub may_wait: bool,
    /// The cluster node; `None` without cluster mode.
    pub mode: Option<&'a mut ClusterMode>,
    /// The imports in progress, to be begun and ended.
    pub imports: ImportMarks<'a>,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Effects that the command leaves for commit.
    pub effects: &'a mut Effects,
    /// The destination of the reply.
    pub reply: Reply<'a>,
}

/// The context of commands about the caller's own connection.
pub struct SessionCtx<'a> {
    /// The client that runs the command.
    pub caller: ChangeGuard<'a, Caller>,
    /// Whether a script of the client calls the command.
    pub is_called: bool,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// The destination of the reply.
    pub reply: Reply<'a>,
}

/// The context of AUTH and of commands about users.
pub struct UsersCtx<'a> {
    /// Time of the execution unit, by which keys expire.
    pub now: Now,
    /// The client that runs the command; its output is temporarily in `reply`.
    pub session: &'a mut Session,
    /// The users, and the log of refusals.
    pub users: &'a mut UsersState,
    /// The data for a client's line in the log that is not in the session.
    pub sources: LineSources<'a>,
    /// The values of all directives.
    pub config: &'a Config,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Commands renamed by the configuration.
    pub renames: &'a Renames,
    /// The counters, to count refusals.
    pub stats: &'a mut Stats,
    /// The process: the file of users, randomness, the log.
    pub process: &'a mut dyn Process,
    /// Requests to the process, to be added to.
    pub actions: &'a mut Vec<Action>,
    /// The destination of the reply.
    pub reply: Reply<'a>,
    /// Whether the command may block: not inside a transaction or a script.
    pub may_wait: bool,
}

/// The context of MULTI, DISCARD, WATCH and UNWATCH.
pub struct TransactionCtx<'a> {
    /// The caller's database, to determine which keys have expired.
    pub db: DbRef<'a>,
    /// The session that runs the command.
    pub key: SessionKey,
    /// The client that runs the command.
    pub caller: &'a mut Caller,
    /// The caller's queued commands; `None` outside of MULTI.
    pub transaction: &'a mut Option<Box<Transaction>>,
    /// Clients and their watched keys.
    pub watching: &'a mut Watching,
    /// The destination of the reply.
    pub reply: Reply<'a>,
}

/// The context of commands that subscribe, publish, or control tracking.
pub struct PubSubCtx<'a> {
    /// The session that runs the command.
    pub key: SessionKey,
    /// The client that runs the command.
    pub caller: &'a mut Caller,
    /// The subscriptions, and the published messages.
    pub pubsub: &'a mut PubSub,
    /// The state of client-side caching.
    pub tracking: &'a mut Tracking,
    /// Effects, to record that a message was published.
    pub effects: &'a mut Effects,
    /// The destination of the reply.
    pub reply: Reply<'a>,
}

/// The context of commands that report on the server and change nothing.
pub struct ReportCtx<'a> {
    /// Time of the execution unit, by which keys expire.
    pub now: Now,
    /// The client that runs the command; its output is temporarily in `reply`.
    pub session: &'a Session,
    /// All sessions except the caller's.
    pub sessions: &'a Sessions,
    /// Configuration, logs and replicas, read only.
    pub control: &'a Control,
    /// The counters of the engine.
    pub stats: &'a Stats,
    /// The data, for statistics.
    pub keyspace: &'a Keyspace,
    /// Figures of the background save or rewrite, if one runs.
    pub job: Option<JobNumbers>,
    /// Memory and counts of scripts.
    pub scripts: ScriptFacts,
    /// The process, for queries only.
    pub process: Observed<'a>,
    /// The destination of the reply.
    pub reply: Reply<'a>,
}

/// The context of commands that empty logs, and of HOTKEYS.
pub struct LogCtx<'a> {
    /// Time of the execution unit, by which keys expire.
    pub now: Now,
    /// Slow commands, large requests, large replies.
    pub commandlog: &'a mut CommandLog,
    /// Spikes of latency by event.
    pub latency: &'a mut LatencyMonitor,
    /// Counts of the most accessed keys.
    pub hot_keys: &'a mut HotKeys,
    /// The destination of the reply.
    pub reply: Reply<'a>,
}

/// The context of commands that change the server.
pub struct ServerCtx<'a> {
    /// Time of the execution unit, by which keys expire.
    pub now: Now,
    /// The client that runs the command; its output is temporarily in `reply`.
    pub session: &'a mut Session,
    /// All sessions except the caller's.
    pub sessions: &'a mut Sessions,
    /// Configuration, logs and replicas.
    pub control: &'a mut Control,
    /// The counters of the engine.
    pub stats: &'a mut Stats,
    /// The data, for statistics.
    pub keyspace: &'a Keyspace,
    /// The process, for any request.
    pub process: &'a mut dyn Process,
    /// Requests to the process, to be added to.
    pub actions: &'a mut Vec<Action>,
    /// The destination of the reply.
    pub reply: Reply<'a>,
    /// Whether the command may block: not inside a transaction or a script.
    pub may_wait: bool,
}

/// The context of CLUSTER: this server as a node.
pub struct ClusterCtx<'a> {
    /// Time of the execution unit, by which keys expire.
    pub now: Now,
    /// The client that runs the command; its output is temporarily in `reply`.
    pub session: &'a Session,
    /// The cluster node with its map.
    pub mode: &'a mut ClusterMode,
    /// The values of all directives.
    pub config: &'a Config,
    /// Offset of this server in the replication stream of its shard.
    pub offset: u64,
    /// Whether this server follows a primary.
    pub is_replica: bool,
    /// Number of online replicas.
    pub replicas: i64,
    /// Effects that the command leaves for commit.
    pub effects: &'a mut Effects,
    /// The data, for counting keys.
    pub keyspace: &'a Keyspace,
    /// The destination of the reply.
    pub reply: Reply<'a>,
    /// Whether the command may block: not inside a transaction or a script.
    pub may_wait: bool,
}

impl ClusterCtx<'_> {
    /// A description of the calling client, for the log.
    pub(crate) fn client_line(&self) -> String {
        let hides = self.config.bool(param::HIDE_USER_DATA_FROM_LOG);
        self.session.short_line(hides).to_string()
    }
}

/// The context of DEBUG, which may change everything.
pub struct DebugCtx<'a> {
    /// Time of the execution unit, by which keys expire.
    pub now: Now,
    /// Every database of the server.
    pub data: Dataset<'a>,
    /// The client that runs the command.
    pub session: &'a mut Session,
    /// Configuration, logs and replicas.
    pub control: &'a mut Control,
    /// The process, for any request.
    pub process: &'a mut dyn Process,
    /// Requests to the process, to be added to.
    pub actions: &'a mut Vec<Action>,
    /// The destination of the reply.
    pub reply: Reply<'a>,
    /// Whether the command may block: not inside a transaction or a script.
    pub may_wait: bool,
    /// The function that loads an append-only file.
    pub replay: LogReplay,
}

/// The process, for queries without changes.
pub struct Observed<'a>(&'a mut dyn Process);

impl<'a> Observed<'a> {
    /// A wrapper that permits only queries.
    #[inline]
    pub fn new(process: &'a mut dyn Process) -> Observed<'a> {
        Observed(process)
    }

    /// Facts for INFO, MEMORY and similar commands. Cost: some system calls.
    pub fn facts(&mut self, keyspace: &Keyspace) -> Facts {
        self.0.facts(keyspace)
    }

    /// Facts for INFO: see [`Process::facts_for_info`].
    pub fn facts_for_info(&mut self, keyspace: &Keyspace, memory: MemoryShown) -> Facts {
        self.0.facts_for_info(keyspace, memory)
    }

    /// The allocator's own report.
    pub fn malloc_stats(&mut self) -> String {
        self.0.malloc_stats()
    }
}

/// A handler; the kind determines the parts of the server that its code may touch.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Handler {
    /// A command about data.
    Data(DataHandler),
    Dataset(fn(&mut DatasetCtx<'_>, Args<'_>) -> Run),
    Session(fn(&mut SessionCtx<'_>, Args<'_>) -> Run),
    Transaction(fn(&mut TransactionCtx<'_>, Args<'_>) -> Run),
    /// EXEC, which runs the queued commands, each in its own context.
    Exec,
    PubSub(fn(&mut PubSubCtx<'_>, Args<'_>) -> Run),
    Report(fn(&mut ReportCtx<'_>, Args<'_>) -> Run),
    Log(fn(&mut LogCtx<'_>, Args<'_>) -> Run),
    Server(fn(&mut ServerCtx<'_>, Args<'_>) -> Run),
    Cluster(fn(&mut ClusterCtx<'_>, Args<'_>) -> Run),
    Imports(fn(&mut ImportsCtx<'_>, Args<'_>) -> Run),
    /// A command that reads data and needs the map of slots.
    ReadByMap(fn(&mut ReadCtx<'_>, &SlotMap, Args<'_>) -> Run),
    Users(fn(&mut UsersCtx<'_>, Args<'_>) -> Run),
    Debug(fn(&mut DebugCtx<'_>, Args<'_>) -> Run),
    /// A command about scripts or functions, run by `Engine::run_script`.
    Script(ScriptCommand),
}

/// The commands about scripts and functions, except HELP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ScriptCommand {
    Eval,
    EvalRo,
    EvalSha,
    EvalShaRo,
    Fcall,
    FcallRo,
    FunctionDelete,
    FunctionDump,
    FunctionFlush,
    FunctionKill,
    FunctionList,
    FunctionLoad,
    FunctionRestore,
    FunctionStats,
    ScriptDebug,
    ScriptExists,
    ScriptFlush,
    ScriptKill,
    ScriptLoad,
    ScriptShow,
}

/// The parts of the server that a kind of handler may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandlerRights {
    /// Keys and their values.
    pub keys: KeyRights,
    /// The caller's own session.
    pub session: Right,
    /// The subscriptions, and messages to subscribers.
    pub subscriptions: Right,
    /// Sessions of other clients.
    pub registry: Right,
    /// Configuration, logs and replicas.
    pub control: Right,
    /// The process and its requests.
    pub process: Right,
    /// The users, and the log of refusals.
    pub users: Right,
}

/// Access to one part of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// The part is not accessible.
    None,
    /// The part may be read.
    Read,
    /// The part may be read and changed.
    Change,
}

impl Handler {
    /// The parts that this kind may touch.
    pub(crate) const fn rights(self) -> HandlerRights {
        use Right::{Change, None, Read};
        const fn of(keys: KeyRights, rest: [Right; 4]) -> HandlerRights {
            let [session, registry, control, process] = rest;
            // Subscriptions and users are parts of the control plane, so they have its rights unless a kind
            // says otherwise.
            HandlerRights {
                keys,
                session,
                subscriptions: control,
                registry,
                control,
                process,
                users: control,
            }
        }
        match self {
            Handler::Data(handler) => of(handler.keys(), [None, None, None, None]),
            Handler::Dataset(_) => of(KeyRights::AllDbs, [Read, None, None, None]),
            Handler::Session(_) => of(KeyRights::None, [Change, None, None, None]),
            Handler::Transaction(_) => of(KeyRights::Read, [Change, None, None, None]),
            Handler::PubSub(_) => {
                HandlerRights { subscriptions: Change, ..of(KeyRights::None, [Change, None, None, None]) }
            }
            // The node is the only part of the control plane that can be changed.
            Handler::Cluster(_) => {
                HandlerRights { subscriptions: None, ..of(KeyRights::None, [Read, None, Change, None]) }
            }
            // No right to keys is needed, because the set of hidden slots does not count as a key.
            Handler::Imports(_) => HandlerRights {
                subscriptions: None,
                users: None,
                ..of(KeyRights::None, [Read, None, None, None])
            },
            Handler::ReadByMap(_) => HandlerRights {
                subscriptions: None,
                users: None,
                ..of(KeyRights::Read, [None, None, Read, None])
            },
            Handler::Users(_) => HandlerRights {
                subscriptions: None,
                users: Change,
                ..of(KeyRights::None, [Change, None, Read, Change])
            },
            Handler::Report(_) => of(KeyRights::None, [Read, Read, Read, Read]),
            Handler::Log(_) => {
                HandlerRights { subscriptions: None, ..of(KeyRights::None, [None, None, Change, None]) }
            }
            Handler::Server(_) => of(KeyRights::None, [Change, Change, Change, Change]),
            // The commands that EXEC or a script runs have rights to keys of their own. The right to read
            // keys for the conditions of EXEC is not stated, because no key spec names those keys.
            Handler::Exec | Handler::Script(_) => of(KeyRights::None, [Change, Change, Change, Change]),
            Handler::Debug(_) => of(KeyRights::AllDbs, [Change, Change, Change, Change]),
        }
    }
}

/// A command's declaration with its handler.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// The declaration of the command.
    pub spec: &'static Spec,
    /// The handler that runs it.
    pub handler: Handler,
}

/// Joins a command and its handler. A declaration that contradicts the handler's rights does not compile,
/// so the flags shown by COMMAND INFO, tested by the gate and used by replication are correct.
pub(crate) const fn route(spec: &'static Spec, handler: Handler) -> Route {
    // DEBUG's rights depend on its subcommand. A script's keys are those of the commands inside, and
    // FUNCTION changes libraries, not keys.
    if !matches!(handler, Handler::Debug(_) | Handler::Script(_)) {
        check_route(spec, handler.rights().keys);
    }
    Route { spec, handler }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_commands::Outcome;

    #[test]
    fn few_routes_may_touch_everything() {
        let all = crate::routes::all().filter(|route| {
            let rights = route.handler.rights();
            let is_script = matches!(route.handler, Handler::Script(_));
            !is_script && rights.control == Right::Change && rights.process == Right::Change
        });
        let names: Vec<&str> = all.map(|route| route.spec.full_name).collect();
        assert!(names.len() <= 27, "{}: {names:?}", names.len());
    }

    #[test]
    fn rights_are_ordered_from_narrow_to_wide() {
        let rights = Handler::Report(|_, _| Ok(Outcome::Done)).rights();
        for part in [rights.session, rights.registry, rights.control, rights.process] {
            assert_eq!(part, Right::Read, "a report changes nothing");
        }
        let data = Handler::Data(DataHandler::Static(|_, _| Ok(Outcome::Done))).rights();
        assert_eq!((data.keys, data.session), (KeyRights::None, Right::None));
    }
}
