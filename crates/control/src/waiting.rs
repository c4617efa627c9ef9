//! Storing a session's waiting request, and taking it back.

use crate::Control;
use sluice_commands::{Prepared, WaitFor};
use sluice_resp::OwnedRequests;
use sluice_session::Session;
use sluice_session::blocking::Waiting;

impl Control {
    /// Stores in the session a request that must wait, and registers the session as waiting.
    #[cold]
    pub fn park(
        &mut self,
        session: &mut Session,
        mut request: OwnedRequests,
        prepared: Prepared,
        mut on: WaitFor,
    ) {
        for (index, bytes) in std::mem::take(&mut self.clients.blocking.replaced_args) {
            request.replace_arg(0, index, &bytes);
        }
        if let WaitFor::ReplicasFirst { offset, .. } = &mut on {
            *offset = self.replication.stream.offset;
        }
        let order = self.clients.blocking.next_order();
        let waiting = Box::new(Waiting { request, prepared: prepared.alone(), on, order, unblock: None });
        self.clients.blocking.add(session.key, &waiting);
        session.waiting = Some(waiting);
        if matches!(on, WaitFor::Replicas { .. } | WaitFor::ReplicasFirst { .. }) {
            self.replication.ask_replicas = true;
        }
    }

    /// Takes a session's waiting request back, and unregisters the session.
    pub fn unpark(&mut self, session: &mut Session) -> Option<Box<Waiting>> {
        let waiting = session.waiting.take()?;
        self.clients.blocking.remove(session.key, &waiting);
        Some(waiting)
    }
}
