//! Contexts: what a handler of a command about data may touch, and [`route`], which refuses, while compiling,
//! a handler that the command's declared flags contradict.

use crate::args::Args;
use crate::entries::CommandEntries;
use crate::limits::{Limits, STRING_BYTES_MAX};
use crate::outcome::Run;
use crate::slow_reads::SlowReadAsk;
use sluice_base::{Now, Rng};
use sluice_command::{Flags, KeyAccess, KeyFlags, Keys, Spec};
use sluice_keyspace::{DbMut, DbRef};
use sluice_resp::Reply;

/// For commands that answer from what is compiled in, and the time.
pub struct StaticCtx<'a> {
    /// The time.
    pub now: Now,
    /// What COMMAND INFO has answered before.
    pub entries: &'a mut CommandEntries,
    /// Where the reply goes.
    pub reply: Reply<'a>,
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
    /// Whether its user may read keys that no argument names; told to SORT and SORT_RO alone.
    pub reads_any_key: bool,
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
    /// Whether its user may read keys that no argument names; told to SORT and SORT_RO alone.
    pub reads_any_key: bool,
}

impl WriteCtx<'_> {
    /// Bytes of the largest string that the command may make.
    pub(crate) fn string_bytes_max(&self) -> usize {
        if self.db.access.is_decided { STRING_BYTES_MAX } else { self.limits.proto_max_bulk_len }
    }
}

/// A handler of one kind: the kind is what its code may touch.
#[derive(Clone, Copy)]
pub enum DataHandler {
    /// It answers from what is compiled in.
    Static(fn(&mut StaticCtx<'_>, Args<'_>) -> Run),
    /// It reads keys.
    Read(fn(&mut ReadCtx<'_>, Args<'_>) -> Run),
    /// It changes keys.
    Write(fn(&mut WriteCtx<'_>, Args<'_>) -> Run),
    /// PFCOUNT: it reads, and keeps what it computed in the value.
    Keeping(fn(&mut WriteCtx<'_>, Args<'_>) -> Run),
}

/// What may be done with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRights {
    /// Nothing.
    None,
    /// The caller's database is read.
    Read,
    /// The caller's database is read, and what was computed is kept in the value.
    Keep,
    /// The caller's database is changed, and others by their number.
    Write,
    /// All databases are changed at once.
    AllDbs,
}

impl DataHandler {
    /// What this kind may do with keys.
    pub const fn keys(self) -> KeyRights {
        match self {
            DataHandler::Static(_) => KeyRights::None,
            DataHandler::Read(_) => KeyRights::Read,
            DataHandler::Write(_) => KeyRights::Write,
            DataHandler::Keeping(_) => KeyRights::Keep,
        }
    }
}

/// A command about data and its handler.
#[derive(Clone, Copy)]
pub struct DataRoute {
    /// The command.
    pub spec: &'static Spec,
    /// What runs it.
    pub handler: DataHandler,
}

/// Joins a command and its handler. See [`check_route`].
pub(crate) const fn route(spec: &'static Spec, handler: DataHandler) -> DataRoute {
    check_route(spec, handler.keys());
    DataRoute { spec, handler }
}

/// Whether a handler with these rights may run a command. A command declared otherwise does not compile, so
/// the flags that COMMAND INFO shows, the gate tests and replication trusts cannot lie.
///
/// # Panics
/// Where it may not: in a constant, that is an error of compilation.
pub const fn check_route(spec: &'static Spec, keys: KeyRights) {
    let writes = spec.flags.has(Flags::WRITE);
    match keys {
        KeyRights::Write | KeyRights::AllDbs => {
            assert!(writes, "a handler that may write needs a command declared WRITE");
        }
        KeyRights::Read | KeyRights::None => {
            assert!(!writes, "a command declared WRITE needs a handler that may write");
        }
        // What it writes follows from what it reads.
        KeyRights::Keep => {
            assert!(!writes, "a command declared WRITE is no reader");
            return;
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
            KeyRights::Write | KeyRights::Keep => {}
            KeyRights::Read => assert!(
                matches!(specs[i].access(), KeyAccess::Read),
                "a written key needs a handler that may write"
            ),
            KeyRights::None | KeyRights::AllDbs => panic!("keys need a handler that may read or write them"),
        }
        i += 1;
    }
}
