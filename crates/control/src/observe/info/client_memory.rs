//! The memory of clients, summed client by client.

use sluice_session::Session;

/// With at most this many clients, a sample of the memory figures inspects each client; with more, it uses
/// the sums of the cron's last complete pass. Inspecting a client costs some cache misses: ten thousand would
/// take a millisecond or two.
pub const LOOKED_AT_MAX: usize = 256;

/// Memory of clients, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientMemory {
    /// Clients other than replicas and connections of slot migrations.
    pub clients: u64,
    /// Connections of slot migrations to this node.
    pub slot_imports: u64,
    /// Connections of slot migrations from this node.
    pub slot_exports: u64,
    /// Replicas, with the output queued for them.
    pub replicas: u64,
    /// Output queued for replicas and not yet received by them; included in `replicas`.
    pub replica_queues: u64,
}

impl ClientMemory {
    /// Adds a client to the sum of its kind.
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

/// The cron's sums of client memory; a pass over all clients takes a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientMemoryPass {
    /// Sums over the clients inspected in this pass.
    pub so_far: ClientMemory,
    /// Sums over all clients in the last complete pass; `None` before the first.
    pub last: Option<ClientMemory>,
}

impl ClientMemoryPass {
    /// Begins a pass; the sums so far become those of the last pass.
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
