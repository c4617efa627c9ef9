//! The connections of a node's bus, and the node's `nodes.conf`.

use crate::net::{ConnId, NodeId, Side};
use crate::node_file::NodeFile;
use crate::process::SimProcess;
use sluice_cluster::LinkKey;
use sluice_engine::Engine;
use std::net::{IpAddr, Ipv4Addr};

/// A connection to another node's bus, or from one.
pub(in crate::node) struct BusSeat {
    pub(in crate::node) link: LinkKey,
    pub(in crate::node) conn: ConnId,
    pub(in crate::node) side: Side,
}

/// The bus of a node: its connections by link, and its file.
pub(in crate::node) struct Bus {
    pub(in crate::node) file: NodeFile,
    pub(in crate::node) seats: Vec<BusSeat>,
    /// Links whose connections are being established.
    pub(in crate::node) dialling: Vec<LinkKey>,
}

/// The IP address of a node; it depends on the node's number only.
pub fn ip_of(node: NodeId) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, node as u8 + 1))
}

impl Bus {
    /// Makes the engine a node of a cluster. The engine's data are loaded later.
    pub(in crate::node) fn start(
        id: NodeId,
        file: NodeFile,
        engine: &mut Engine,
        process: &mut SimProcess,
    ) -> Result<Bus, String> {
        let started = engine.start_cluster(Some(&file.text()), &[ip_of(id)], process);
        started.map_err(|why| format!("the node's file is not read: {why}"))?;
        Ok(Bus { file, seats: Vec::new(), dialling: Vec::new() })
    }
}
