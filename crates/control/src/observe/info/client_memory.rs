//! What memory clients take, summed one after the other.

use sluice_session::Session;

/// Up to so many clients, a sample looks at each of them; of more, the cron has looked within the last
/// second. A look at a client is some misses of the cache: ten thousand would take a millisecond or two.
pub const LOOKED_AT_MAX: usize = 256;

/// Memory of clients, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientMemory {
    /// Clients other than replicas and the connections of moves of slots.
    pub clients: u64,
    /// Connections of moves of slots to this node.
    pub slot_imports: u64,
    /// Connections of moves of slots from this node.
    pub slot_exports: u64,
    /// Replicas.
    pub replicas: u64,
    /// What replicas were queued and have not received.
    pub replica_queues: u64,
}

impl ClientMemory {
    /// Adds a client.
    pub fn add(&mut self, session: &Session) {
        let bytes = session_bytes(session);
        match session.caller.replica_state() {
            Some(_) => {
                self.replicas += bytes;
                self.replica_queues += (session.outbox_capacity() + session.in_flight) as u64;
            }
            None if session.caller.is_import() => self.slot_imports += bytes,
            None if session.caller.is_export() => self.slot_exports += bytes,
            None => self.clients += bytes,
        }
    }
}

/// Memory of clients as the cron sums it on its way through all of them, which takes a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientMemoryPass {
    /// Of the clients that this pass has seen.
    pub so_far: ClientMemory,
    /// Of all clients, as the last pass has seen them.
    pub last: Option<ClientMemory>,
}

impl ClientMemoryPass {
    /// A pass has begun.
    pub fn begin(&mut self) {
        self.last = Some(std::mem::take(&mut self.so_far));
    }
}

fn session_bytes(session: &Session) -> u64 {
    let buffers = session.outbox_capacity()
        + session.caller.traffic.input_bytes
        + session.caller.traffic.input_free as usize;
    (size_of::<Session>() + buffers + session.in_flight) as u64
}
