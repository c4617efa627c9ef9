//! Contexts: what a handler may touch. Only `exec` builds them, from the engine taken apart.
//!
//! | kind | data | own session | other sessions, config, process |
//! |---|---|---|---|
//! | `Read` | one database, read | read | – |
//! | `Write` | one database (others of the keyspace by number) | read | – |
//! | `Dataset` | all databases | read | – |
//! | `Session` | – | changes it | users, read |
//! | `Transaction` | one database, read | its transaction and watched keys | – |
//! | `Exec` | what the queued commands may | the same | the same |
//! | `Server` | statistics only | changes it | all |
//! | `Debug` | all databases | changes it | all |

use crate::action::Action;
use crate::args::Args;
use crate::blocking::WaitFor;
use crate::control::Control;
use crate::error::CmdError;
use crate::limits::Limits;
use crate::process::Process;
use crate::session::{Caller, Session, SessionKey, Sessions};
use crate::stats::Stats;
use crate::transaction::Transaction;
use crate::watch::Watching;
use sluice_base::{Now, Rng};
use sluice_command::{Access, Flags, Keys, Spec};
use sluice_keyspace::{Dataset, DbMut, DbRef, Keyspace};
use sluice_resp::Reply;

/// How a command ended well.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its reply is written.
    Done,
    /// It must wait, and is run again when what it waits for may be there.
    Wait(WaitFor),
}

/// What a handler returns.
pub type Run = Result<Outcome, CmdError>;

/// For commands that read keys.
pub struct ReadCtx<'a> {
    /// The caller's database.
    pub db: DbRef<'a>,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Randomness.
    pub rng: &'a mut Rng,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands that change keys.
pub struct WriteCtx<'a> {
    /// The caller's database.
    pub db: DbMut<'a>,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// The running command.
    pub spec: &'static Spec,
    /// Whether it may wait: not inside a transaction.
    pub may_wait: bool,
}

/// For MULTI, DISCARD, WATCH and UNWATCH.
pub struct TransactionCtx<'a> {
    /// The caller's database, to see which keys have expired.
    pub db: DbRef<'a>,
    /// The caller's name in the table of sessions.
    pub key: SessionKey,
    /// Who asks; to change.
    pub caller: &'a mut Caller,
    /// What the caller has queued.
    pub transaction: &'a mut Option<Box<Transaction>>,
    /// Who watches what.
    pub watching: &'a mut Watching,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands on all databases at once.
pub struct DatasetCtx<'a> {
    /// Every database.
    pub data: Dataset<'a>,
    /// Who asks.
    pub caller: &'a Caller,
    /// Numbers from the configuration.
    pub limits: &'a Limits,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands about the caller's own connection.
pub struct SessionCtx<'a> {
    /// Who asks; to change.
    pub caller: &'a mut Caller,
    /// Numbers from the configuration, and the users' passwords.
    pub limits: &'a Limits,
    /// Counters.
    pub stats: &'a mut Stats,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// For commands about the server.
pub struct ServerCtx<'a> {
    /// The time.
    pub now: Now,
    /// Who asks; its output is in `reply` for the time being.
    pub session: &'a mut Session,
    /// Everybody else.
    pub sessions: &'a mut Sessions,
    /// Configuration, logs, replicas.
    pub control: &'a mut Control,
    /// Counters.
    pub stats: &'a mut Stats,
    /// The data, for statistics and snapshots.
    pub keyspace: &'a Keyspace,
    /// The process around.
    pub process: &'a mut dyn Process,
    /// Wishes to it.
    pub actions: &'a mut Vec<Action>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// Whether it may wait: not inside a transaction.
    pub may_wait: bool,
}

/// For DEBUG: everything.
pub struct DebugCtx<'a> {
    /// The time.
    pub now: Now,
    /// Every database.
    pub data: Dataset<'a>,
    /// Who asks.
    pub session: &'a mut Session,
    /// Configuration, logs, replicas.
    pub control: &'a mut Control,
    /// The process around.
    pub process: &'a mut dyn Process,
    /// Wishes to it.
    pub actions: &'a mut Vec<Action>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
}

/// A handler of one kind: the kind is what its code may touch.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Handler {
    Read(fn(&mut ReadCtx<'_>, Args<'_>) -> Run),
    Write(fn(&mut WriteCtx<'_>, Args<'_>) -> Run),
    Dataset(fn(&mut DatasetCtx<'_>, Args<'_>) -> Run),
    Session(fn(&mut SessionCtx<'_>, Args<'_>) -> Run),
    Transaction(fn(&mut TransactionCtx<'_>, Args<'_>) -> Run),
    Exec,
    Server(fn(&mut ServerCtx<'_>, Args<'_>) -> Run),
    Debug(fn(&mut DebugCtx<'_>, Args<'_>) -> Run),
}

/// A command and its handler.
#[derive(Clone, Copy)]
pub struct Route {
    /// The command.
    pub spec: &'static Spec,
    /// What runs it.
    pub handler: Handler,
}

/// Joins a command and its handler. A declaration that disagrees with the handler's kind does not compile, so the
/// flags that COMMAND INFO shows, the gate tests and replication trusts cannot lie.
pub const fn route(spec: &'static Spec, handler: Handler) -> Route {
    let writes = spec.flags.has(Flags::WRITE);
    match handler {
        Handler::Write(_) | Handler::Dataset(_) => {
            assert!(writes, "a Write or Dataset handler needs a command declared WRITE");
        }
        Handler::Read(_)
        | Handler::Session(_)
        | Handler::Server(_)
        | Handler::Transaction(_)
        | Handler::Exec => {
            assert!(!writes, "only Write and Dataset handlers may write");
        }
        Handler::Debug(_) => {}
    }
    let specs = match spec.keys {
        Keys::Specs(specs) | Keys::Fn(specs, _) => specs,
    };
    let mut i = 0;
    while i < specs.len() {
        match handler {
            Handler::Read(_) | Handler::Transaction(_) => {
                assert!(
                    matches!(specs[i].access(), Access::Read),
                    "a Read handler cannot have a written key"
                );
            }
            Handler::Session(_) | Handler::Server(_) | Handler::Dataset(_) | Handler::Exec => {
                panic!("keys need a Read or Write handler");
            }
            Handler::Write(_) | Handler::Debug(_) => {}
        }
        i += 1;
    }
    Route { spec, handler }
}
