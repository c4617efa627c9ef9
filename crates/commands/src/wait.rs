//! The events for which a command may wait.

use sluice_value::Type;

/// The event for which a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The end of the condition for which the gate (the checks before a command runs) or a handler has
    /// postponed the request, for example CLIENT PAUSE or a failover.
    Pause,
    /// The end of a suspended transaction or script; the request has not been processed yet.
    Held,
    /// The client's turn to run a script or function, because scripts have used up their share of the time,
    /// or because other clients already wait for their turn.
    Turn,
    /// The end of the client's own EXEC, which is suspended.
    Unit,
    /// The end of the load that the client has begun.
    Load,
    /// The file of users that another thread is reading for this command.
    Users,
    /// The end of earlier loads of user files; the command is then run again.
    UserLoads,
    /// The end of the server process, which first waits for its replicas, or for one of them to take over.
    Shutdown,
    /// A thread that can produce the reply.
    SlowRead {
        /// Start of the wait, ns of the monotonic clock. A handler leaves 0, and `Engine::begin_wait`
        /// sets it.
        since_ns: u64,
    },
    /// The end of the reply that a thread produces.
    Reply,
    /// The end of the migration with this number.
    Migration(u64),
    /// The answer of the cluster node's state machine to the command with this ticket.
    Cluster(u64),
    /// A value of a given type under one of the command's keys.
    Keys(BlockOn),
    /// The replicas, which must acknowledge a command before this server executes it; the command is
    /// then run again.
    ReplicasFirst {
        /// Number of replicas that must acknowledge.
        count: i64,
        /// Offset that they must acknowledge. A handler leaves 0; `Engine::park` sets it once the
        /// command is in the stream.
        offset: u64,
        /// Time of the monotonic clock, in ms, at which the wait ends; 0 means never.
        deadline_ms: u64,
    },
    /// Acknowledgements of replicas, for WAIT and WAITAOF.
    Replicas {
        /// Number of replicas that must acknowledge.
        count: i64,
        /// Offset of the replication stream that they must acknowledge.
        offset: u64,
        /// For WAITAOF: the condition on this server's AOF; `None` for WAIT.
        local: Option<LocalWait>,
        /// Time of the monotonic clock, in ms, at which the wait ends; 0 means never.
        deadline_ms: u64,
    },
}

/// The condition of WAITAOF on this server's AOF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalWait {
    /// Position up to which the AOF must be durable.
    pub position: u64,
    /// Whether the command waits for this position; otherwise the reply only reports whether it was reached.
    pub is_awaited: bool,
}

/// The keys for which a command waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOn {
    /// Number of the keys' database.
    pub db: usize,
    /// Position of the first key among the arguments.
    pub first: usize,
    /// Number of keys, in consecutive arguments.
    pub count: usize,
    /// Type of value that ends the wait.
    pub wanted: Type,
    /// Whether the wait also ends when a key is deleted or changes its type.
    pub ends_without_key: bool,
    /// Time of the monotonic clock, in ms, at which the wait ends; 0 means never.
    pub deadline_ms: u64,
}

impl WaitFor {
    /// Whether the waiting client is reported as blocked. Other waits, for example for a load, a reply or the
    /// end of another client's script, count as a running command.
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

    /// Time of the monotonic clock, in ms, at which the wait ends; 0 means never.
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
