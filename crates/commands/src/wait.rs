//! What a command may wait for.

use sluice_value::Type;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The end of a CLIENT PAUSE.
    Pause,
    /// The end of a unit that stands open: the request has not been looked at.
    Held,
    /// Its script's turn: scripts have had their share of the time, and those who wait for them go first.
    Turn,
    /// The end of its own EXEC, which stands still.
    Unit,
    /// The end of the load that it has begun.
    Load,
    /// A file of users that another thread reads.
    Users,
    /// The files of users that others have asked for before: then it is run again.
    UserLoads,
    /// The end of the server: replicas are waited for.
    Shutdown,
    /// A thread that can produce its reply.
    SlowRead {
        /// Since when, ns of the monotonic clock. A handler says 0: `Engine::begin_wait` knows the time.
        since_ns: u64,
    },
    /// The end of its reply, which a thread produces.
    Reply,
    /// The end of this migration.
    Migration(u64),
    /// The answer of the cluster to the command with this ticket.
    Cluster(u64),
    /// A value of a type under one of its keys.
    Keys(BlockOn),
    /// The replicas, which are told of a command before this server executes the command: then it is run
    /// again.
    ReplicasFirst {
        /// How many replicas have to acknowledge.
        count: i64,
        /// Of what offset. A handler says 0: `Engine::park` knows it when the command stands in the stream.
        offset: u64,
        /// Milliseconds of the monotonic clock at which it gives up; 0: never.
        deadline_ms: u64,
    },
    /// Acknowledgements of replicas.
    Replicas {
        /// How many.
        count: i64,
        /// Of what offset.
        offset: u64,
        /// For WAITAOF.
        local: Option<LocalWait>,
        /// Milliseconds of the monotonic clock at which it gives up; 0: never.
        deadline_ms: u64,
    },
}

/// What WAITAOF asks of this server's own append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalWait {
    /// The position up to which the file is to be durable.
    pub position: u64,
    /// Whether that is waited for, or told alone.
    pub is_awaited: bool,
}

/// The keys that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOn {
    /// Its database.
    pub db: usize,
    /// Position of the first key among the arguments.
    pub first: usize,
    /// Number of keys, which stand one behind the other.
    pub count: usize,
    /// Type of value that ends the wait.
    pub wanted: Type,
    /// Whether the wait ends when a key is gone, or comes to hold another type.
    pub ends_without_key: bool,
    /// Milliseconds of the monotonic clock at which it gives up; 0: never.
    pub deadline_ms: u64,
}

impl WaitFor {
    /// Whether who waits for it is shown as blocked. Who waits for a load or a reply runs a command that
    /// takes long.
    pub fn is_blocked(&self) -> bool {
        match self {
            WaitFor::Load
            | WaitFor::Users
            | WaitFor::UserLoads
            | WaitFor::Reply
            | WaitFor::Migration(_)
            | WaitFor::Cluster(_)
            | WaitFor::Held
            | WaitFor::Turn
            | WaitFor::Unit => false,
            WaitFor::Pause
            | WaitFor::SlowRead { .. }
            | WaitFor::Keys(_)
            | WaitFor::Replicas { .. }
            | WaitFor::ReplicasFirst { .. }
            | WaitFor::Shutdown => true,
        }
    }

    /// When the wait times out; 0: never.
    pub fn deadline_ms(&self) -> u64 {
        match self {
            WaitFor::Pause
            | WaitFor::Held
            | WaitFor::Turn
            | WaitFor::Unit
            | WaitFor::Load
            | WaitFor::Users
            | WaitFor::UserLoads
            | WaitFor::Shutdown
            | WaitFor::SlowRead { .. }
            | WaitFor::Reply
            | WaitFor::Migration(_)
            | WaitFor::Cluster(_) => 0,
            WaitFor::Keys(BlockOn { deadline_ms, .. })
            | WaitFor::Replicas { deadline_ms, .. }
            | WaitFor::ReplicasFirst { deadline_ms, .. } => *deadline_ms,
        }
    }
}
