//! Orders of the cluster node to the process.

use sluice_cluster::{BusLane, Generation, IpText, LinkKey, NodeId};
use std::sync::Arc;

/// An order to the process; orders are carried out one after the other.
#[derive(Clone, Debug)]
pub enum BusOrder {
    /// Connect to a node's bus port, without blocking. The result is reported as
    /// [`ClusterInput::Connected`](sluice_cluster::ClusterInput::Connected) or
    /// [`ClusterInput::DialFailed`](sluice_cluster::ClusterInput::DialFailed).
    Dial {
        /// The link for which the connection is made.
        link: LinkKey,
        /// IP address of the node.
        ip: IpText,
        /// The port of the bus.
        port: u16,
    },
    /// Close a link's connection and drop its queue. No result is reported.
    Close {
        /// The link whose connection is closed.
        link: LinkKey,
    },
    /// Look up the addresses of a host name, on a thread of its own. The result is
    /// reported as [`ClusterInput::Resolved`](sluice_cluster::ClusterInput::Resolved).
    Resolve {
        /// The node that announced the name.
        node: NodeId,
        /// The host name to look up.
        host: Arc<str>,
    },
    /// Queue a message on a link. Messages of [`BusLane::Control`] are sent before published ones.
    /// Written bytes are reported as [`ClusterInput::Sent`](sluice_cluster::ClusterInput::Sent).
    Send {
        /// The link on which the message is sent.
        link: LinkKey,
        /// The message in the bus's encoding.
        message: Arc<[u8]>,
        /// The message's priority class.
        lane: BusLane,
    },
    /// Write this text durably as `nodes.conf`, on a thread of its own. The result is reported as
    /// [`ClusterInput::Saved`](sluice_cluster::ClusterInput::Saved) or
    /// [`ClusterInput::SaveFailed`](sluice_cluster::ClusterInput::SaveFailed).
    Persist {
        /// The version of the node's state in the file.
        generation: Generation,
        /// The text of the file.
        file: Arc<[u8]>,
    },
    /// End the process with status 1, because `nodes.conf` cannot be written.
    End,
}
