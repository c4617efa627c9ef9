//! What full synchronisations remember between two steps; the steps are in `full_sync.rs`.

use crate::session_key::SessionKey;
use sluice_base::Bytes;
use std::sync::Arc;

/// Replicas that ask for the data.
#[derive(Debug, Default)]
pub struct FullSyncs {
    /// Those that wait for a snapshot, in order of arrival.
    pub(crate) wanted: Vec<Wanted>,
    /// Those that may still read one.
    pub(crate) readers: Vec<SessionKey>,
}

/// A replica that waits for a snapshot.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) client: SessionKey,
    pub(crate) greeting: Greeting,
}

/// What comes before the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// Nothing: SYNC.
    None,
    /// The history's id and the snapshot's place in it: PSYNC.
    Full,
}

/// A snapshot in pieces that all its readers share.
pub(crate) type Snapshot = Arc<[Bytes]>;

/// What a replica has not been queued yet of its snapshot.
#[derive(Debug)]
pub struct Feed {
    pub(crate) pieces: Snapshot,
    /// The piece to be queued next.
    pub(crate) next: usize,
    /// Bytes behind the last piece: the mark of a snapshot whose length was not announced.
    pub(crate) trailer: Option<String>,
    /// When the replica took something last, ns of the monotonic clock.
    pub(crate) progress_ns: u64,
}

impl FullSyncs {
    /// A replica asks for the data.
    pub(crate) fn want(&mut self, client: SessionKey, greeting: Greeting) {
        self.wanted.push(Wanted { client, greeting });
    }

    /// Replicas that wait for a snapshot.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = SessionKey> {
        self.wanted.iter().map(|wanted| wanted.client)
    }
}
