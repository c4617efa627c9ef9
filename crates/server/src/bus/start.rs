//! The start of a cluster node: its file is claimed and read, and the settings for its bus are checked.

use super::node_file::FileWriter;
use crate::host::Host;
use crate::listen;
use nix::ifaddrs::getifaddrs;
use sluice_base::LogLevel;
use sluice_config::{Config, ParamId, param};
use sluice_engine::Engine;
use sluice_evloop::Waker;
use sluice_storage::node_file::NodeFile;
use std::net::IpAddr;

/// A cluster node whose file is claimed.
pub struct NodeStart {
    /// The claimed file `nodes.conf`.
    file: NodeFile,
    /// The text of the file; `None` for a new node.
    text: Option<Vec<u8>>,
}

impl NodeStart {
    /// Claims and reads the file, and checks the port and the bind addresses. Returns `None` if this server
    /// is not to be a cluster node.
    ///
    /// # Errors
    /// The reason why the server does not start, as text for the log.
    pub fn prepare(host: &mut Host, config: &Config) -> Result<Option<NodeStart>, String> {
        if !config.bool(param::CLUSTER_ENABLED) {
            return Ok(None);
        }
        let storage = host.storage.clone();
        let mut said = Vec::new();
        let claimed = NodeFile::claim(storage.as_ref(), config, &mut |text| said.push(text));
        said.iter().for_each(|text| host.note(LogLevel::Warning, text));
        let file = claimed?;
        let text = file.read(storage.as_ref())?;
        if let Some((_, text)) = port_refusal(config) {
            return Err(text.to_owned());
        }
        Ok(Some(NodeStart { file, text }))
    }

    /// Makes the engine a cluster node, and returns the writer of its file; `waker` is woken
    /// after each write.
    ///
    /// # Errors
    /// A line of the file cannot be read, or the thread cannot be started. The error is a text for the log.
    pub fn begin(self, engine: &mut Engine, host: &mut Host, waker: Waker) -> Result<FileWriter, String> {
        let started = engine.start_cluster(self.text.as_deref(), &own_addresses(), host);
        started.map_err(|refused| refused.to_string())?;
        let writer = FileWriter::start(self.file, host.storage.clone(), waker);
        writer.map_err(|error| format!("starting the thread of the cluster's file: {error}"))
    }
}

/// The reason why a node with this configuration cannot have a bus, and the directive at fault; `None` if
/// there is no such reason.
pub fn port_refusal(config: &Config) -> Option<(ParamId, &'static str)> {
    if listen::bus_port(config).is_none() {
        return Some((param::PORT.any(), PORT_TOO_HIGH));
    }
    let text = "No bind address is configured, but it is required for the Cluster bus.";
    config.list(param::BIND).is_empty().then_some((param::BIND.any(), text))
}

/// The addresses of this machine; empty if the system does not report them.
fn own_addresses() -> Vec<IpAddr> {
    let address = |storage: nix::sys::socket::SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    let Ok(interfaces) = getifaddrs() else { return Vec::new() };
    interfaces.filter_map(|interface| address(interface.address?)).collect()
}

/// The reference's text with this server's name. Test harnesses search the log for this text.
pub const PORT_TOO_HIGH: &str = "Sluice port number too high. Cluster communication port is 10,000 port numbers higher than your \
                             Sluice port. Your Sluice port number must be 55535 or less.";
