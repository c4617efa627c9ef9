//! What MULTI has queued; `exec/transaction.rs` runs it.

use sluice_base::heap;
use sluice_command::Flags;
use sluice_commands::Prepared;
use sluice_resp::{OwnedRequests, Request};

/// A transaction that is being queued.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The requests that are queued.
    pub requests: OwnedRequests,
    /// Command, keys and hashes of each request.
    pub prepared: Vec<Prepared>,
    /// The flags of all commands queued.
    flags: Flags,
    /// Commands queued that may not run while the data are loaded.
    denied_while_loading: usize,
    /// Commands queued that may not run while the data are stale.
    denied_while_stale: usize,
    /// The database that the queued commands will have selected; `None`: the client's own.
    selected_db: Option<usize>,
    /// What a cluster routes EXEC by.
    pub route: QueueRoute,
    /// A command was rejected: EXEC will not run the others.
    pub aborted: bool,
}

/// Slots of the commands that are queued, of those that came before the transaction was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRoute {
    /// How many those are, from the first on.
    pub commands: usize,
    /// The slot of the first command that has one.
    pub slot: Option<u16>,
    /// Keys have more slots than one.
    pub crosses: bool,
    /// A command of sharded publish/subscribe is queued.
    pub has_shard_pubsub: bool,
    /// A command is queued that takes a key to another database.
    pub leaves_db: bool,
}

impl QueueRoute {
    /// Adds a command's keys, all of this slot.
    pub fn add(&mut self, slot: u16) {
        self.crosses |= *self.slot.get_or_insert(slot) != slot;
    }
}

impl Transaction {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        heap::boxed::<Transaction>() + self.requests.footprint() + heap::vec(&self.prepared)
    }

    /// Commands queued.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The flags of all commands queued.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether all of them may run while the data are loaded.
    pub fn is_allowed_while_loading(&self) -> bool {
        self.denied_while_loading == 0
    }

    /// Whether all of them may run while the data are stale.
    pub fn is_allowed_while_stale(&self) -> bool {
        self.denied_while_stale == 0
    }

    /// Bytes allocated.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Transaction>()
            + self.requests.heap_bytes()
            + self.prepared.capacity() * size_of::<Prepared>()
    }

    /// The database in which the next command that is queued will run, where it is not the client's own.
    pub fn selected_db(&self) -> Option<usize> {
        self.selected_db
    }

    /// A SELECT was queued. One behind a command that was rejected is not kept, and selects nothing.
    pub fn select(&mut self, db: usize) {
        if !self.aborted {
            self.selected_db = Some(db);
        }
    }

    /// Whether EXEC will run nothing.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// A command was rejected.
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// Queues a command; `flags`: its own, or what the script does that it runs.
    pub fn push(&mut self, flags: Flags, prepared: Prepared, request: &Request<'_>) {
        // One that was rejected fails the transaction: nothing of it is worth keeping.
        if self.aborted {
            return;
        }
        self.flags = self.flags.or(flags);
        self.denied_while_loading += usize::from(!flags.has(Flags::LOADING));
        self.denied_while_stale += usize::from(!flags.has(Flags::STALE));
        self.requests.push(request);
        self.prepared.push(prepared.alone());
    }
}
