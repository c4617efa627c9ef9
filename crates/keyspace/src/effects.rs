//! What writes leave behind: the facts that settle turns into consequences.
//!
//! Invariants: (1) every change of the keyspace goes through [`crate::DbMut`] or [`crate::Dataset`] and leaves at
//! least `dirty`, or the name of an expired key, here; (2) nothing here acts: settle drains it between commands; (3) with no listener and no
//! propagation target a write allocates nothing here.

use sluice_value::Value;

/// What happened to a key, as keyspace notifications name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Event {
    Set,
    Append,
    SetRange,
    IncrBy,
    IncrByFloat,
    Del,
    Expire,
    Persist,
    Expired,
    RenameFrom,
    RenameTo,
    MoveFrom,
    MoveTo,
    CopyTo,
}

impl Event {
    /// The event's name in a notification.
    pub fn name(self) -> &'static str {
        match self {
            Event::Set => "set",
            Event::Append => "append",
            Event::SetRange => "setrange",
            Event::IncrBy => "incrby",
            Event::IncrByFloat => "incrbyfloat",
            Event::Del => "del",
            Event::Expire => "expire",
            Event::Persist => "persist",
            Event::Expired => "expired",
            Event::RenameFrom => "rename_from",
            Event::RenameTo => "rename_to",
            Event::MoveFrom => "move_from",
            Event::MoveTo => "move_to",
            Event::CopyTo => "copy_to",
        }
    }
}

/// A key that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Database.
    pub db: usize,
    /// Key.
    pub key: KeyRef,
    /// What happened.
    pub event: Event,
}

/// A key of the running command, or a copy of one that its arguments do not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRef {
    /// Position in the command's arguments.
    Arg(u16),
    /// A copy.
    Owned(Box<[u8]>),
}

/// A command to propagate: its arguments.
pub type Argv = Vec<Vec<u8>>;

/// What one execution unit did. Reused from unit to unit.
#[derive(Default, Debug)]
pub struct Effects {
    /// Changes since the last drain: what INFO `rdb_changes_since_last_save` counts, and what makes a command propagate.
    pub dirty: u64,
    /// Someone wants `touched`: notifications, WATCH, tracking, blocked clients.
    pub listening: bool,
    /// Someone wants the propagation stream: replicas or the AOF.
    pub propagating: bool,
    /// Keys that changed, in order; only while `listening`.
    pub touched: Vec<Touched>,
    /// Keys a read found expired: `(db, key)`; settle deletes them.
    pub expired_by_read: Vec<(usize, Box<[u8]>)>,
    /// Keys a write found expired and has deleted: `(db, key)`; settle propagates them before the command.
    pub expired_by_write: Vec<(usize, Box<[u8]>)>,
    /// How the command propagates when it changed something.
    pub propagation: Propagation,
    /// Look-ups that found a key.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Values too large to be freed here and now; the server frees them on another thread.
    pub garbage: Vec<Value>,
    /// Values above this many bytes are such; [`LAZY_FREE_BYTES`] at first.
    pub garbage_from: GarbageFrom,
    /// Whole databases to be freed elsewhere.
    pub garbage_dbs: Vec<crate::Db>,
}

/// Values above this many bytes are freed by another thread, where handing one over costs a message.
pub const LAZY_FREE_BYTES: usize = 64 * 1024;

/// A size in bytes, [`LAZY_FREE_BYTES`] by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GarbageFrom(pub usize);

impl Default for GarbageFrom {
    fn default() -> GarbageFrom {
        GarbageFrom(LAZY_FREE_BYTES)
    }
}

/// How a command that changed something appears in the propagation stream.
#[derive(Default, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// As the client sent it.
    #[default]
    Verbatim,
    /// As the client sent it, even when nothing changed.
    Forced,
    /// As these commands instead; none at all when empty.
    Rewritten(Vec<Argv>),
}

impl Effects {
    /// Replaces the command in the propagation stream; the closure runs only when somebody will read it.
    #[inline]
    pub fn rewrite(&mut self, argv: impl FnOnce() -> Argv) {
        if self.propagating {
            self.propagation = Propagation::Rewritten(vec![argv()]);
        }
    }

    /// Propagates the command even when it changed nothing.
    pub fn force(&mut self) {
        self.propagation = Propagation::Forced;
    }

    /// Keeps the command out of the propagation stream.
    pub fn do_not_propagate(&mut self) {
        self.propagation = Propagation::Rewritten(Vec::new());
    }

    /// Takes a value that lost its key: what is large is left to be freed on another thread, what is small is freed here,
    /// as handing it over costs more. The one place that decides.
    #[inline]
    pub(crate) fn discard(&mut self, value: Option<Value>) {
        if let Some(value) = value
            && value.heap_bytes() > self.garbage_from.0
        {
            self.garbage.push(value);
        }
    }

    /// Records a change. That a key expired is no change of its own: it counts elsewhere.
    #[inline]
    pub(crate) fn touch(&mut self, db: usize, key: crate::Key<'_>, event: Event) {
        self.dirty += u64::from(event != Event::Expired);
        if self.listening {
            self.note(db, key, event);
        }
    }

    #[cold]
    fn note(&mut self, db: usize, key: crate::Key<'_>, event: Event) {
        let key = match key.arg {
            crate::Key::NO_ARG => KeyRef::Owned(key.bytes.into()),
            arg => KeyRef::Arg(arg),
        };
        self.touched.push(Touched { db, key, event });
    }
}
