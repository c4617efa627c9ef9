//! What a node is asked for, and what it wants done, whichever model it is.

use crate::cluster::stock::StockFile;
use sluice_cluster::{LinkKey, NodeId, SlotMap, SlotSet};
use std::sync::Arc;

/// The name of a link within its node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    Ours(LinkKey),
    Stock(u64),
}

/// The file of a node: a text, or what the stock model keeps in place of one.
#[derive(Clone)]
pub(super) enum File {
    Text(Arc<[u8]>),
    Stock(Arc<StockFile>),
}

/// What a node wants done.
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
    /// A file to be written; `generation` is 0 for a stock node, which waits for its disk.
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
    /// The keys of these slots go.
    Empty(Box<SlotSet>),
    /// All keys go: the node was reset.
    DropKeys,
    /// The node follows another by now: by a full copy of its data, or going on with its stream.
    Follow {
        is_full: bool,
    },
    /// The node follows nobody any more.
    Lead,
    Pause,
    Unpause,
    Map(Arc<SlotMap>),
    /// A stock node has won an election by these votes: by whose, and in which epochs they were given.
    Won {
        epoch: u64,
        votes: Vec<(NodeId, u64)>,
    },
    Log(String),
    End,
}

/// How a replica is told to take over.
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
