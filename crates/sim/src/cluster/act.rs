//! Inputs and outputs of a node that have the same form for our nodes and for the stock model.

use crate::cluster::stock::StockFile;
use sluice_cluster::{LinkKey, NodeId, SlotMap, SlotSet};
use std::sync::Arc;

/// The name of a link in its node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    Ours(LinkKey),
    Stock(u64),
}

/// The file of a node: a text, or the stock model's replacement for one.
#[derive(Clone)]
pub(super) enum File {
    Text(Arc<[u8]>),
    Stock(Arc<StockFile>),
}

/// A request of a node to its host.
pub(super) enum Act {
    Dial {
        link: Link,
        ip: String,
    },
    Close {
        link: Link,
    },
    Send {
        link: Link,
        message: Arc<[u8]>,
    },
    /// Write a file. `generation` is 0 for a stock node, which waits for its disk.
    Persist {
        generation: u64,
        file: File,
    },
    Resolve {
        node: NodeId,
        host: Arc<str>,
    },
    Answer {
        ticket: u64,
        text: Result<String, String>,
    },
    /// Delete the keys of these slots.
    Empty(Box<SlotSet>),
    /// Delete all keys, because the node was reset.
    DropKeys,
    /// Follow another node, by a full sync or by continuing its stream.
    Follow {
        is_full: bool,
    },
    /// Become a primary.
    Lead,
    Pause,
    Unpause,
    Map(Arc<SlotMap>),
    /// A stock node has won an election by these votes, each with its voter and the epoch in which it was
    /// given.
    Won {
        epoch: u64,
        votes: Vec<(NodeId, u64)>,
    },
    Log(String),
    End,
}

/// The option of CLUSTER FAILOVER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failover {
    Default,
    Force,
    Takeover,
}

/// A command of an operator.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Meet(String),
    Forget(NodeId),
    Replicate(NodeId),
    ResetSoft,
    ResetHard,
    AddSlots(Box<SlotSet>),
    DelSlots(Box<SlotSet>),
    Bump,
    SetEpoch(i64),
    Failover(Failover),
}
