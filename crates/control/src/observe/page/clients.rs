//! The clients that use most memory, found by the cron's scan of all clients.

use sluice_base::SessionKey;
use sluice_session::Session;

/// Number of clients shown.
pub const CLIENTS_SHOWN: usize = 20;

/// Results of the cron's current scan of all clients, and of the one before.
#[derive(Debug, Default)]
pub struct ClientScan {
    so_far: LargestClients,
    last: LargestClients,
}

#[derive(Debug, Default)]
struct LargestClients {
    /// Bytes and client, largest first.
    by_bytes: Vec<(usize, SessionKey)>,
    /// Clients that receive the reply of a slow read, at most [`CLIENTS_SHOWN`].
    reading: Vec<SessionKey>,
}

impl ClientScan {
    /// Inspects a client. Cost: usually one comparison.
    pub fn add(&mut self, session: &Session) {
        self.so_far.add(session);
    }

    /// Begins a new scan; the results so far become those of the last scan.
    pub fn begin(&mut self) {
        self.last = std::mem::take(&mut self.so_far);
    }

    /// Removes the results of both scans.
    pub fn clear(&mut self) {
        if !self.so_far.by_bytes.is_empty() || !self.last.by_bytes.is_empty() {
            *self = ClientScan::default();
        }
    }

    /// Candidates for the clients to show, from both scans (at most twice [`CLIENTS_SHOWN`], each once, not
    /// sorted), and the clients that receive replies of slow reads. Some of these clients may no longer
    /// exist.
    pub fn found(&self) -> (Vec<SessionKey>, Vec<SessionKey>) {
        let (mut by_bytes, mut reading) = (self.last.by_bytes.clone(), self.last.reading.clone());
        by_bytes.extend_from_slice(&self.so_far.by_bytes);
        reading.extend_from_slice(&self.so_far.reading);
        (distinct(by_bytes.into_iter().map(|(_, key)| key)), distinct(reading.into_iter()))
    }
}

impl LargestClients {
    fn add(&mut self, session: &Session) {
        if session.producing().is_some() && self.reading.len() < CLIENTS_SHOWN {
            self.reading.push(session.key);
        }
        let bytes = held_bytes(session);
        let is_full = self.by_bytes.len() == CLIENTS_SHOWN;
        if is_full && self.by_bytes.last().is_some_and(|(least, _)| *least >= bytes) {
            return;
        }
        let at = self.by_bytes.partition_point(|(other, _)| *other >= bytes);
        self.by_bytes.insert(at, (bytes, session.key));
        self.by_bytes.truncate(CLIENTS_SHOWN);
    }
}

/// Bytes held for a client: unsent output, and input.
pub fn held_bytes(session: &Session) -> usize {
    let traffic = &session.caller.traffic;
    session.output_bytes() + session.outbox_capacity() + traffic.input_bytes + traffic.input_free as usize
}

fn distinct(keys: impl Iterator<Item = SessionKey>) -> Vec<SessionKey> {
    let mut kept: Vec<SessionKey> = Vec::new();
    for key in keys {
        if !kept.contains(&key) {
            kept.push(key);
        }
    }
    kept
}
