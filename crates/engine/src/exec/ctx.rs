//! Contexts: what a handler may touch. The kind of its context is stated in its route; [`Handler::rights`] says in data what
//! each kind may do, and [`route`] refuses, while compiling, a kind that the command's declared flags contradict.
//!
//! Only `exec` builds contexts: each holds a [`Seal`], which only `exec` can make.

use crate::args::Args;
use crate::control::Control;
use crate::exec::outcome::Run;
use crate::host::action::Action;
use crate::host::process::{Facts, Process};
use crate::limits::Limits;
use crate::observe::commandlog::CommandLog;
use crate::observe::latency::LatencyMonitor;
use crate::observe::stats::Stats;
use crate::persistence::background::JobState;
use crate::pubsub::registry::PubSub;
use crate::pubsub::watch::Watching;
use crate::session::key::SessionKey;
use crate::session::transaction::Transaction;
use crate::session::{Caller, Session, Sessions};
use crate::waiting::slow_reads::ask::SlowReadAsk;
use sluice_base::{Now, Rng};
use sluice_command::{Access, Flags, KeyFlags, Keys, Spec};
use sluice_keyspace::{Dataset, DbMut, DbRef, Keyspace};
use sluice_resp::Reply;

/// Proof that `exec` has built a context.
pub struct Seal(pub(super) ());

/// For commands that answer from what is compiled in, and the time.
pub struct StaticCtx<'a> {
    /// The time.
    pub now: Now,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    pub(super) _seal: Seal,
}

/// For commands that read keys.
pub struct ReadCtx<'a> {
    /// The caller's database.
    pub db: DbRef<'a>,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Randomness.
    pub rng: &'a mut Rng,
    /// Whether another thread is to produce the reply.
    pub slow: SlowReadAsk<'a>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// Whether it may wait: not inside a transaction.
    pub may_wait: bool,
    pub(super) _seal: Seal,
}

/// For commands that change keys.
pub struct WriteCtx<'a> {
    /// The caller's database.
    pub db: DbMut<'a>,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// Randomness.
    pub rng: &'a mut Rng,
    /// Whether another thread is to produce the reply, out of what the command has taken from the data.
    pub slow: SlowReadAsk<'a>,
    /// The running command.
    pub spec: &'static Spec,
    /// Whether it may wait: not inside a transaction.
    pub may_wait: bool,
    pub(super) _seal: Seal,
}

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
    pub(super) _seal: Seal,
}

/// For commands about the caller's own connection.
pub struct SessionCtx<'a> {
    /// The client that asks; to change.
    pub caller: &'a mut Caller,
    /// Numbers from the configuration, and the users' passwords.
    pub limits: &'a Limits,
    /// Counters.
    pub stats: &'a mut Stats,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    pub(super) _seal: Seal,
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
    pub(super) _seal: Seal,
}

/// For commands that subscribe and publish.
pub struct PubSubCtx<'a> {
    /// The caller's name in the table of sessions.
    pub key: SessionKey,
    /// The client that asks; to change.
    pub caller: &'a mut Caller,
    /// The subscriptions, and the messages published.
    pub pubsub: &'a mut PubSub,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    pub(super) _seal: Seal,
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
    pub job: Option<JobState>,
    /// The process around, to ask.
    pub process: Observed<'a>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    pub(super) _seal: Seal,
}

/// For commands that empty the logs.
pub struct LogCtx<'a> {
    /// Slow commands, large requests, large replies.
    pub commandlog: &'a mut CommandLog,
    /// Spikes of latency by event.
    pub latency: &'a mut LatencyMonitor,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    pub(super) _seal: Seal,
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
    pub(super) _seal: Seal,
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
    pub(super) _seal: Seal,
}

/// The process around, to ask and not to change.
pub struct Observed<'a>(pub(super) &'a mut dyn Process);

impl Observed<'_> {
    /// Facts for INFO, MEMORY and their like. Cost: some system calls.
    pub fn facts(&mut self, keyspace: &Keyspace) -> Facts {
        self.0.facts(keyspace)
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
    Static(fn(&mut StaticCtx<'_>, Args<'_>) -> Run),
    Read(fn(&mut ReadCtx<'_>, Args<'_>) -> Run),
    Write(fn(&mut WriteCtx<'_>, Args<'_>) -> Run),
    /// PFCOUNT: it reads, and keeps what it computed in the value.
    Keeping(fn(&mut WriteCtx<'_>, Args<'_>) -> Run),
    Dataset(fn(&mut DatasetCtx<'_>, Args<'_>) -> Run),
    Session(fn(&mut SessionCtx<'_>, Args<'_>) -> Run),
    Transaction(fn(&mut TransactionCtx<'_>, Args<'_>) -> Run),
    /// EXEC: what the queued commands may, each in a context of its own.
    Exec,
    PubSub(fn(&mut PubSubCtx<'_>, Args<'_>) -> Run),
    Report(fn(&mut ReportCtx<'_>, Args<'_>) -> Run),
    Log(fn(&mut LogCtx<'_>, Args<'_>) -> Run),
    Server(fn(&mut ServerCtx<'_>, Args<'_>) -> Run),
    Debug(fn(&mut DebugCtx<'_>, Args<'_>) -> Run),
}

/// What a kind of handler may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
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

/// What may be done with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRights {
    /// Nothing.
    None,
    /// The caller's database is read.
    Read,
    /// The caller's database is changed, and others by their number.
    Write,
    /// All databases are changed at once.
    AllDbs,
}

impl Handler {
    /// What this kind may touch.
    pub(crate) const fn rights(self) -> Rights {
        use Right::{Change, None, Read};
        const fn of(keys: KeyRights, rest: [Right; 4]) -> Rights {
            let [session, registry, control, process] = rest;
            // The right to the control plane includes the subscriptions, which are a part of it.
            Rights { keys, session, subscriptions: control, registry, control, process }
        }
        match self {
            Handler::Static(_) => of(KeyRights::None, [None, None, None, None]),
            Handler::Read(_) => of(KeyRights::Read, [None, None, None, None]),
            Handler::Write(_) | Handler::Keeping(_) => of(KeyRights::Write, [None, None, None, None]),
            Handler::Dataset(_) => of(KeyRights::AllDbs, [Read, None, None, None]),
            Handler::Session(_) => of(KeyRights::None, [Change, None, None, None]),
            Handler::Transaction(_) => of(KeyRights::Read, [Change, None, None, None]),
            Handler::PubSub(_) => {
                Rights { subscriptions: Change, ..of(KeyRights::None, [Change, None, None, None]) }
            }
            Handler::Report(_) => of(KeyRights::None, [Read, Read, Read, Read]),
            Handler::Log(_) => {
                Rights { subscriptions: None, ..of(KeyRights::None, [None, None, Change, None]) }
            }
            Handler::Server(_) => of(KeyRights::None, [Change, Change, Change, Change]),
            // The commands inside have rights of their own.
            Handler::Exec => of(KeyRights::None, [Change, Change, Change, Change]),
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

/// Joins a command and its handler. A declaration that disagrees with the rights of the handler does not compile, so the
/// flags that COMMAND INFO shows, the gate tests and replication trusts cannot lie.
pub(crate) const fn route(spec: &'static Spec, handler: Handler) -> Route {
    // DEBUG is what it was last asked to be.
    if matches!(handler, Handler::Debug(_)) {
        return Route { spec, handler };
    }
    let keys = handler.rights().keys;
    let writes = spec.flags.has(Flags::WRITE);
    // What it writes follows from what it reads.
    if matches!(handler, Handler::Keeping(_)) {
        assert!(!writes, "a command declared WRITE is no reader");
        return Route { spec, handler };
    }
    match keys {
        KeyRights::Write | KeyRights::AllDbs => {
            assert!(writes, "a handler that may write needs a command declared WRITE");
        }
        KeyRights::Read | KeyRights::None => {
            assert!(!writes, "a command declared WRITE needs a handler that may write")
        }
    }
    let specs = match spec.keys {
        Keys::Specs(specs) | Keys::Fn(specs, _) => specs,
    };
    let mut i = 0;
    while i < specs.len() {
        // The name of a shard channel is looked for as a key is, and is none.
        if specs[i].flags.has(KeyFlags::NOT_KEY) {
            i += 1;
            continue;
        }
        match keys {
            KeyRights::Write => {}
            KeyRights::Read => assert!(
                matches!(specs[i].access(), Access::Read),
                "a written key needs a handler that may write"
            ),
            KeyRights::None | KeyRights::AllDbs => panic!("keys need a handler that may read or write them"),
        }
        i += 1;
    }
    Route { spec, handler }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::outcome::Outcome;

    #[test]
    fn few_routes_may_touch_everything() {
        let all = crate::exec::routes::all().filter(|route| {
            let rights = route.handler.rights();
            rights.control == Right::Change && rights.process == Right::Change
        });
        let names: Vec<&str> = all.map(|route| route.spec.full_name).collect();
        assert!(names.len() <= 26, "{}: {names:?}", names.len());
    }

    #[test]
    fn rights_are_ordered_from_narrow_to_wide() {
        let rights = Handler::Report(|_, _| Ok(Outcome::Done)).rights();
        for part in [rights.session, rights.registry, rights.control, rights.process] {
            assert_eq!(part, Right::Read, "a report changes nothing");
        }
        assert_eq!(Handler::Static(|_, _| Ok(Outcome::Done)).rights().keys, KeyRights::None);
    }
}
