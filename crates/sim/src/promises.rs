//! The promises of a primary to a client: that a number of replicas have a write (WAIT), that the write is on
//! a number of disks (WAITAOF), or that the write is on the primary's own disk (`appendfsync always`).

use crate::net::NodeId;
use sluice_base::SessionKey;
use std::collections::BTreeSet;

/// The promise that a client asks for after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFor {
    /// `WAIT` for this number of replicas.
    Wait(u64),
    /// `WAITAOF`: the local disk (0 or 1), and this number of replicas.
    WaitAof(u64, u64),
    /// No further command is sent: under `appendfsync always` the reply itself promises that the write is on
    /// the primary's disk.
    Answer,
}

/// A write whose promise is not given yet.
#[derive(Debug)]
pub struct PendingPromise {
    pub key: Vec<u8>,
    pub primary: NodeId,
    pub client: SessionKey,
    pub asked: AskedFor,
    /// Nodes that have had the write in memory at some time since it was sent.
    pub had: BTreeSet<NodeId>,
    /// Nodes whose data say nothing about the promise, because they have crashed or loaded other data since.
    pub excused: BTreeSet<NodeId>,
    /// Replies to the client so far.
    pub replies: Vec<u8>,
    /// The number of the promise, if a library is loaded before the write.
    pub library: Option<u64>,
}

/// A promise that was given.
#[derive(Debug)]
pub struct Given {
    pub key: Vec<u8>,
    /// Replicas that had the write when the promise was given, and have neither crashed nor loaded
    /// other data since.
    pub holders: BTreeSet<NodeId>,
    /// Nodes that had the write on disk.
    pub durable: BTreeSet<NodeId>,
}

/// The name of the key of the promise with this number. The first byte of the name occurs in no other text of
/// the workload.
pub fn key_of(number: u64) -> Vec<u8> {
    format!("\x01promise-{number};").into_bytes()
}
