//! Contexts, which hold the state that a handler of a data command may access. [`route`] refuses, at compile
//! time, a handler that contradicts the command's declared flags.

use crate::args::Args;
use crate::entries::CommandEntries;
use crate::limits::{Limits, STRING_BYTES_MAX};
use crate::outcome::Run;
use crate::slow_reads::SlowReadAsk;
use sluice_base::{Now, Rng};
use sluice_command::{Flags, KeyAccess, KeyFlags, Keys, Spec};
use sluice_keyspace::{DbMut, DbRef};
use sluice_resp::Reply;

/// Context of commands that need only compiled-in data and the time.
pub struct StaticCtx<'a> {
    /// Present time, the same for the whole execution unit.
    pub now: Now,
    /// Cache of encoded COMMAND INFO entries.
    pub entries: &'a mut CommandEntries,
    /// The writer of the command's reply.
    pub reply: Reply<'a>,
}

/// Context of commands that read keys.
pub struct ReadCtx<'a> {
    /// The database that the client has selected.
    pub db: DbRef<'a>,
    /// Settings from the configuration.
    pub limits: &'a Limits,
    /// Source of random numbers for the command.
    pub rng: &'a mut Rng,
    /// Decides whether another thread produces the reply.
    pub slow: SlowReadAsk<'a>,
    /// The writer of the command's reply.
    pub reply: Reply<'a>,
    /// Whether the command may wait; false, for example, inside a transaction or a script.
    pub may_wait: bool,
    /// Whether the user may read keys that no argument names; set for SORT and SORT_RO only.
    pub reads_any_key: bool,
}

/// Context of commands that change keys.
pub struct WriteCtx<'a> {
    /// The database that the client has selected.
    pub db: DbMut<'a>,
    /// Settings from the configuration.
    pub limits: &'a Limits,
    /// The writer of the command's reply.
    pub reply: Reply<'a>,
    /// Source of random numbers for the command.
    pub rng: &'a mut Rng,
    /// Decides whether another thread produces the reply of a command that replies with what it has removed.
    pub slow: SlowReadAsk<'a>,
    /// Spec of the running command.
    pub spec: &'static Spec,
    /// Whether the command may wait; false, for example, inside a transaction or a script.
    pub may_wait: bool,
    /// Whether the user may read keys that no argument names; set for SORT and SORT_RO only.
    pub reads_any_key: bool,
}

impl WriteCtx<'_> {
    /// Length in bytes of the largest string that the command may create.
    pub(crate) fn string_bytes_max(&self) -> usize {
        if self.db.access.must_obey { STRING_BYTES_MAX } else { self.limits.proto_max_bulk_len }
    }
}

/// A handler of one kind. The kind limits the handler to the state that its context holds.
#[derive(Clone, Copy)]
pub enum DataHandler {
    /// Uses only compiled-in data and the time.
    Static(fn(&mut StaticCtx<'_>, Args<'_>) -> Run),
    /// Reads keys, and changes none.
    Read(fn(&mut ReadCtx<'_>, Args<'_>) -> Run),
    /// Reads and changes keys.
    Write(fn(&mut WriteCtx<'_>, Args<'_>) -> Run),
    /// The handler of PFCOUNT, which reads keys, and stores the computed estimate in the value.
    Keeping(fn(&mut WriteCtx<'_>, Args<'_>) -> Run),
}

/// What a handler may do with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRights {
    /// No access to keys.
    None,
    /// Reads the caller's database.
    Read,
    /// Reads the caller's database, and stores computed results in values.
    Keep,
    /// Changes the caller's database, and others by number.
    Write,
    /// Changes all databases at once.
    AllDbs,
}

impl DataHandler {
    /// What handlers of this kind may do with keys.
    pub const fn keys(self) -> KeyRights {
        match self {
            DataHandler::Static(_) => KeyRights::None,
            DataHandler::Read(_) => KeyRights::Read,
            DataHandler::Write(_) => KeyRights::Write,
            DataHandler::Keeping(_) => KeyRights::Keep,
        }
    }
}

/// A data command and its handler.
#[derive(Clone, Copy)]
pub struct DataRoute {
    /// Spec of the command.
    pub spec: &'static Spec,
    /// The function that runs the command.
    pub handler: DataHandler,
}

/// Joins a command with its handler. See [`check_route`].
pub(crate) const fn route(spec: &'static Spec, handler: DataHandler) -> DataRoute {
    check_route(spec, handler.keys());
    DataRoute { spec, handler }
}

/// Checks that a handler with these rights may run a command. A contradiction does not compile. So the flags
/// are always right that COMMAND INFO shows, that the gate (the checks before a command) reads, and that
/// replication trusts.
///
/// # Panics
/// If the handler may not run the command. In a constant, the panic is a compile error.
pub const fn check_route(spec: &'static Spec, keys: KeyRights) {
    let writes = spec.flags.has(Flags::WRITE);
    match keys {
        KeyRights::Write | KeyRights::AllDbs => {
            assert!(writes, "a handler that may write needs a command declared WRITE");
        }
        KeyRights::Read | KeyRights::None => {
            assert!(!writes, "a command declared WRITE needs a handler that may write");
        }
        // A handler of the kind `Keep` stores only results computed from the value that it reads, so its
        // command is not declared as a write.
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
        // The name of a shard channel is found like a key, but is not a key.
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
