//! The clients that hold most of the server's memory, found by the cron's scan of all clients.

use sluice_base::SessionKey;
use sluice_session::Session;

/// Clients that are shown.
pub const CLIENTS_SHOWN: usize = 20;

/// What the cron has found in the scan of all clients that is under way, and in the one before.
#[derive(Debug, Default)]
pub struct ClientScan {
    so_far: LargestClients,
    last: LargestClients,
}

#[derive(Debug, Default)]
struct LargestClients {
    /// Most bytes first.
    by_bytes: Vec<(usize, SessionKey)>,
    /// Clients that are sent a slow read's reply: as many as there are threads for that, at most.
    reading: Vec<SessionKey>,
}

impl ClientScan {
    /// Looks at a client. Cost: a comparison for nearly all of them.
    pub fn add(&mut self, session: &Session) {
        self.so_far.add(session);
    }

    /// The scan of all clients begins anew.
    pub fn begin(&mut self) {
        self.last = std::mem::take(&mut self.so_far);
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        if !self.so_far.by_bytes.is_empty() || !self.last.by_bytes.is_empty() {
            *self = ClientScan::default();
        }
    }

    /// The clients to be shown, each once, and those that are sent slow reads' replies. Some may have gone.
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

/// What is held for a client, bytes: output that it has not taken, and input.
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
