//! What a primary has promised to a client: that a write has reached so many replicas (WAIT), or so many
//! disks (WAITAOF), or its own disk (`appendfsync always`).

use crate::net::NodeId;
use sluice_base::SessionKey;
use std::collections::BTreeSet;

/// What is asked for behind a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFor {
    /// `WAIT replicas`.
    Wait(u64),
    /// `WAITAOF local replicas`.
    WaitAof(u64, u64),
    /// Nothing: under `appendfsync always` the answer alone promises that the write is on the primary's disk.
    Answer,
}

/// A write whose promise is awaited.
#[derive(Debug)]
pub struct PendingPromise {
    pub key: Vec<u8>,
    pub primary: NodeId,
    pub client: SessionKey,
    pub asked: AskedFor,
    /// Nodes that have had the write in memory since.
    pub had: BTreeSet<NodeId>,
    /// Nodes of which nothing is known: they have crashed or have other data since.
    pub excused: BTreeSet<NodeId>,
    /// What the client was sent so far.
    pub replies: Vec<u8>,
    /// A library is loaded ahead of the write: the promise's number.
    pub library: Option<u64>,
}

/// A promise that was given.
#[derive(Debug)]
pub struct Given {
    pub key: Vec<u8>,
    /// Replicas that have had the write when the promise was given, and have neither crashed nor begun with
    /// other data since.
    pub holders: BTreeSet<NodeId>,
    /// Nodes that had the write on disk.
    pub durable: BTreeSet<NodeId>,
}

/// The name of the key of the promise with this number. Its first byte is in no other text of the workload.
pub fn key_of(number: u64) -> Vec<u8> {
    format!("\x01promise-{number};").into_bytes()
}
