//! What a node of a cluster asks of the process.

use sluice_cluster::{BusLane, Generation, IpText, LinkKey, NodeId};
use std::sync::Arc;

/// Something the process must do for the node, in the order of the orders.
#[derive(Clone, Debug)]
pub enum BusOrder {
    /// Connect to a node's bus port, without waiting. The end is told by
    /// [`ClusterInput::Connected`](sluice_cluster::ClusterInput::Connected) or
    /// [`ClusterInput::DialFailed`](sluice_cluster::ClusterInput::DialFailed).
    Dial {
        /// The link that the connection is to be.
        link: LinkKey,
        /// The address.
        ip: IpText,
        /// The port of the bus.
        port: u16,
    },
    /// Close a link's connection, with what is queued on it. Nothing is owed for it.
    Close {
        /// The link.
        link: LinkKey,
    },
    /// Ask for the addresses of a host name, on a thread of its own. The end is told by
    /// [`ClusterInput::Resolved`](sluice_cluster::ClusterInput::Resolved).
    Resolve {
        /// The node that has announced the name.
        node: NodeId,
        /// The name.
        host: Arc<str>,
    },
    /// Queue a message on a link: those of [`BusLane::Control`] leave ahead of published ones. Bytes that
    /// were written are told by [`ClusterInput::Sent`](sluice_cluster::ClusterInput::Sent).
    Send {
        /// The link.
        link: LinkKey,
        /// The message.
        message: Arc<[u8]>,
        /// What overtakes what.
        lane: BusLane,
    },
    /// Write this text as `nodes.conf`, durably, on a thread of its own. The end is told by
    /// [`ClusterInput::Saved`](sluice_cluster::ClusterInput::Saved) or
    /// [`ClusterInput::SaveFailed`](sluice_cluster::ClusterInput::SaveFailed).
    Persist {
        /// What the file makes durable.
        generation: Generation,
        /// The text of the file.
        file: Arc<[u8]>,
    },
    /// End the process with status 1: `nodes.conf` cannot be written.
    End,
}
