//! The commands that MULTI has queued; `exec/transaction.rs` runs them.

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
    /// Union of the flags of all queued commands.
    flags: Flags,
    /// Number of queued commands that may not run while the data set is being loaded.
    denied_while_loading: usize,
    /// Number of queued commands that may not run while the data set is stale.
    denied_while_stale: usize,
    /// Database that will be selected after the queued commands; `None` if they select none.
    selected_db: Option<usize>,
    /// Slots of the queued commands, by which a cluster routes EXEC.
    pub route: QueueRoute,
    /// A command was rejected: EXEC will run none of the queued commands.
    pub aborted: bool,
}

/// Slots of the queued commands; commands after the one that aborted the transaction are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRoute {
    /// Number of queued commands that are included here, counted from the first one.
    pub commands: usize,
    /// Slot of the first queued command that has one, by its keys or shard channels; `None` if none has.
    pub slot: Option<u16>,
    /// The keys and shard channels belong to more than one slot.
    pub crosses: bool,
    /// A command of sharded publish/subscribe is queued.
    pub has_shard_pubsub: bool,
    /// A queued command takes a key to another database.
    pub leaves_db: bool,
}

impl QueueRoute {
    /// Adds a command all of whose keys are in this slot.
    pub fn add(&mut self, slot: u16) {
        self.crosses |= *self.slot.get_or_insert(slot) != slot;
    }
}

impl Transaction {
    /// Heap bytes of the transaction.
    pub fn footprint(&self) -> usize {
        heap::boxed::<Transaction>() + self.requests.footprint() + heap::vec(&self.prepared)
    }

    /// Number of queued commands.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether no command is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Union of the flags of all queued commands.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether all queued commands may run while the data set is being loaded.
    pub fn is_allowed_while_loading(&self) -> bool {
        self.denied_while_loading == 0
    }

    /// Whether all queued commands may run while the data set is stale.
    pub fn is_allowed_while_stale(&self) -> bool {
        self.denied_while_stale == 0
    }

    /// Bytes of the transaction, its structure included.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Transaction>()
            + self.requests.heap_bytes()
            + self.prepared.capacity() * size_of::<Prepared>()
    }

    /// Database in which the next queued command will run; `None` if that is the database that the client had
    /// selected before.
    pub fn selected_db(&self) -> Option<usize> {
        self.selected_db
    }

    /// Notes that a SELECT was queued. Does nothing if an earlier command was rejected, because the
    /// transaction is then aborted.
    pub fn select(&mut self, db: usize) {
        if !self.aborted {
            self.selected_db = Some(db);
        }
    }

    /// Whether EXEC will run nothing.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// Notes that a command was rejected, which aborts the transaction.
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// Queues a command, unless the transaction is aborted; `flags` are those of the command, or of the
    /// script that it runs.
    pub fn push(&mut self, flags: Flags, prepared: Prepared, request: &Request<'_>) {
        // EXEC of an aborted transaction runs nothing, so nothing is kept.
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
