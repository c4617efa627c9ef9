//! Contexts: what a handler may touch. The kind of its context is stated in its route; `Handler::rights`
//! says in data what each kind may do, and `route` refuses, while compiling, a kind that the command's
//! declared flags contradict. Contexts of commands about data are those of the crate `commands`.

use crate::Control;
use crate::action::Action;
use crate::cluster::mode::ClusterMode;
use crate::persistence::background::JobNumbers;
use crate::persistence::loading::aof::LogReplay;
use crate::process::{MemoryShown, Process};
use crate::users::UsersState;
use sluice_base::{Entrusted, Now, SessionKey};
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

/// For commands on all databases at once.
pub struct DatasetCtx<'a> {
    /// Every database.
    pub data: Dataset<'a>,
    /// The client that asks.
    pub caller: &'a Caller,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands about slots that are on their way here. A log that is replayed has them too, so no node is
/// needed.
pub struct ImportsCtx<'a> {
    /// The time.
    pub now: Now,
    /// The session of the client that asks.
    pub client: SessionKey,
    /// The client that asks; to change.
    pub caller: &'a mut Caller,
    /// Whether it may wait: not inside a transaction.
    pub may_wait: bool,
    /// The node, where there is one.
    pub mode: Option<&'a mut ClusterMode>,
    /// The imports that are under way, to begin and to end some.
    pub imports: ImportMarks<'a>,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// What the command leaves to be told.
    pub effects: &'a mut Effects,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands about the caller's own connection.
pub struct SessionCtx<'a> {
    /// The client that asks; to change.
    pub caller: Entrusted<'a, Caller>,
    /// Whether a script of the client asks.
    pub is_called: bool,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For AUTH and the commands about users.
pub struct UsersCtx<'a> {
    /// The time.
    pub now: Now,
    /// The client that asks; its output is in `reply` for the time being.
    pub session: &'a mut Session,
    /// The users, and what was refused them.
    pub users: &'a mut UsersState,
    /// What a client's line in the log of refusals shows beside the session.
    pub sources: LineSources<'a>,
    /// The configuration.
    pub config: &'a Config,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Commands renamed by the configuration.
    pub renames: &'a Renames,
    /// Counters.
    pub stats: &'a mut Stats,
    /// The process around: the file of users, randomness, the log.
    pub process: &'a mut dyn Process,
    /// Requests to it.
    pub actions: &'a mut Vec<Action>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// Whether it may wait: not inside a transaction.
    pub may_wait: bool,
}

/// For MULTI, DISCARD, WATCH and UNWATCH.
pub struct TransactionCtx<'a> {
    /// The caller's database, to see which keys have expired.
    pub db: DbRef<'a>,
    /// The caller's name in the table of sessions.
    pub key: SessionKey,
    /// The client that asks; to change.
    pub caller: &'a mut Caller,
    /// What the caller has queued.
    pub transaction: &'a mut Option<Box<Transaction>>,
    /// Clients and the keys that they watch.
    pub watching: &'a mut Watching,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands that subscribe and publish, and for what a client says of the keys that it tracks.
pub struct PubSubCtx<'a> {
    /// The caller's name in the table of sessions.
    pub key: SessionKey,
    /// The client that asks; to change.
    pub caller: &'a mut Caller,
    /// The subscriptions, and the messages published.
    pub pubsub: &'a mut PubSub,
    /// Keys that clients keep copies of.
    pub tracking: &'a mut Tracking,
    /// That a message is published.
    pub effects: &'a mut Effects,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands that report on the server and change nothing.
pub struct ReportCtx<'a> {
    /// The time.
    pub now: Now,
    /// The client that asks; its output is in `reply` for the time being.
    pub session: &'a Session,
    /// Everybody else.
    pub sessions: &'a Sessions,
    /// Configuration, logs, replicas.
    pub control: &'a Control,
    /// Counters.
    pub stats: &'a Stats,
    /// The data, for statistics.
    pub keyspace: &'a Keyspace,
    /// What is written in the background.
    pub job: Option<JobNumbers>,
    /// What scripts take.
    pub scripts: ScriptFacts,
    /// The process around, to ask.
    pub process: Observed<'a>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands that empty the logs.
pub struct LogCtx<'a> {
    /// The time.
    pub now: Now,
    /// Slow commands, large requests, large replies.
    pub commandlog: &'a mut CommandLog,
    /// Spikes of latency by event.
    pub latency: &'a mut LatencyMonitor,
    /// Keys that clients access most.
    pub hot_keys: &'a mut HotKeys,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands that change the server.
pub struct ServerCtx<'a> {
    /// The time.
    pub now: Now,
    /// The client that asks; its output is in `reply` for the time being.
    pub session: &'a mut Session,
    /// Everybody else.
    pub sessions: &'a mut Sessions,
    /// Configuration, logs, replicas.
    pub control: &'a mut Control,
    /// Counters.
    pub stats: &'a mut Stats,
    /// The data, for statistics.
    pub keyspace: &'a Keyspace,
    /// The process around.
    pub process: &'a mut dyn Process,
    /// Requests to it.
    pub actions: &'a mut Vec<Action>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// Whether it may wait: not inside a transaction.
    pub may_wait: bool,
}

/// For CLUSTER: this server as a node.
pub struct ClusterCtx<'a> {
    /// The time.
    pub now: Now,
    /// The client that asks; its output is in `reply` for the time being.
    pub session: &'a Session,
    /// The node.
    pub mode: &'a mut ClusterMode,
    /// The configuration.
    pub config: &'a Config,
    /// How far this server is in the stream of its shard.
    pub offset: u64,
    /// Whether this server follows a primary.
    pub is_replica: bool,
    /// Replicas that are online.
    pub replicas: i64,
    /// What the command leaves to be told.
    pub effects: &'a mut Effects,
    /// The data, for numbers of keys.
    pub keyspace: &'a Keyspace,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// Whether it may wait: not inside a transaction or a script.
    pub may_wait: bool,
}

impl ClusterCtx<'_> {
    /// The client that asks, for the log.
    pub(crate) fn client_line(&self) -> String {
        let hides = self.config.bool(param::HIDE_USER_DATA_FROM_LOG);
        self.session.short_line(hides).to_string()
    }
}

/// For DEBUG: everything.
pub struct DebugCtx<'a> {
    /// The time.
    pub now: Now,
    /// Every database.
    pub data: Dataset<'a>,
    /// The client that asks.
    pub session: &'a mut Session,
    /// Configuration, logs, replicas.
    pub control: &'a mut Control,
    /// The process around.
    pub process: &'a mut dyn Process,
    /// Requests to it.
    pub actions: &'a mut Vec<Action>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// Whether it may wait: not inside a transaction.
    pub may_wait: bool,
    /// What loads an append-only file.
    pub replay: LogReplay,
}

/// The process around, to ask and not to change.
pub struct Observed<'a>(&'a mut dyn Process);

impl<'a> Observed<'a> {
    /// The process, to be asked.
    #[inline]
    pub fn new(process: &'a mut dyn Process) -> Observed<'a> {
        Observed(process)
    }

    /// Facts for INFO, MEMORY and their like. Cost: some system calls.
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

/// A handler of one kind: the kind is what its code may touch.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Handler {
    /// A command about data.
    Data(DataHandler),
    Dataset(fn(&mut DatasetCtx<'_>, Args<'_>) -> Run),
    Session(fn(&mut SessionCtx<'_>, Args<'_>) -> Run),
    Transaction(fn(&mut TransactionCtx<'_>, Args<'_>) -> Run),
    /// EXEC: what the queued commands may, each in a context of its own.
    Exec,
    PubSub(fn(&mut PubSubCtx<'_>, Args<'_>) -> Run),
    Report(fn(&mut ReportCtx<'_>, Args<'_>) -> Run),
    Log(fn(&mut LogCtx<'_>, Args<'_>) -> Run),
    Server(fn(&mut ServerCtx<'_>, Args<'_>) -> Run),
    Cluster(fn(&mut ClusterCtx<'_>, Args<'_>) -> Run),
    Imports(fn(&mut ImportsCtx<'_>, Args<'_>) -> Run),
    /// A command that reads data, and where in the cluster others are.
    ReadByMap(fn(&mut ReadCtx<'_>, &SlotMap, Args<'_>) -> Run),
    Users(fn(&mut UsersCtx<'_>, Args<'_>) -> Run),
    Debug(fn(&mut DebugCtx<'_>, Args<'_>) -> Run),
    /// A command that runs a script, or concerns those that are known: `Engine::run_script`.
    Script(ScriptCommand),
}

/// The commands about scripts and functions, but for HELP.
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

/// What a kind of handler may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandlerRights {
    /// Keys and their values.
    pub keys: KeyRights,
    /// The caller's own session.
    pub session: Right,
    /// The subscriptions, and messages to subscribers.
    pub subscriptions: Right,
    /// Other sessions.
    pub registry: Right,
    /// Configuration, logs, replicas.
    pub control: Right,
    /// The process around.
    pub process: Right,
    /// The users, and the log of what was refused them.
    pub users: Right,
}

/// What may be done with one part of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// It cannot be named.
    None,
    /// It is read.
    Read,
    /// It is changed.
    Change,
}

impl Handler {
    /// What this kind may touch.
    pub(crate) const fn rights(self) -> HandlerRights {
        use Right::{Change, None, Read};
        const fn of(keys: KeyRights, rest: [Right; 4]) -> HandlerRights {
            let [session, registry, control, process] = rest;
            // The right to the control plane includes the subscriptions, which are a part of it.
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
            // Of the control plane the node alone can be changed.
            Handler::Cluster(_) => {
                HandlerRights { subscriptions: None, ..of(KeyRights::None, [Read, None, Change, None]) }
            }
            // Which slots are hidden is no key.
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
            // The commands inside have rights of their own. The conditions of EXEC read keys that no key spec
            // names.
            Handler::Exec | Handler::Script(_) => of(KeyRights::None, [Change, Change, Change, Change]),
            Handler::Debug(_) => of(KeyRights::AllDbs, [Change, Change, Change, Change]),
        }
    }
}

/// A command and its handler.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// The command.
    pub spec: &'static Spec,
    /// What runs it.
    pub handler: Handler,
}

/// Joins a command and its handler. A declaration that disagrees with the rights of the handler does not
/// compile, so the flags that COMMAND INFO shows, the gate tests and replication trusts cannot lie.
pub(crate) const fn route(spec: &'static Spec, handler: Handler) -> Route {
    // DEBUG is what it was last asked to be. A script's keys are those of the commands inside, and what
    // FUNCTION changes are libraries.
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
