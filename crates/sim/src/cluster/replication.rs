//! Replication as far as elections need it: how much of its primary's stream a replica of ours has.

use crate::cluster::host::Host;
use crate::cluster::queue::HostId;
use crate::cluster::world::World;

impl World {
    /// The offset of a node of ours: the end of its own stream, or its position in its primary's stream
    /// while it is in contact with the primary. `None` without contact, while a full sync is loaded, and
    /// for stock nodes, which compute their own.
    pub(super) fn replicated(&self, number: HostId) -> Option<u64> {
        let host = self.hosts.get(number).filter(|host| host.is_ours() && host.machine.is_some())?;
        let now = host.clock.now(self.now_ns);
        let Some(primary) = host.map.as_ref().and_then(|map| map.my_primary) else {
            return host.is_primary().then(|| host.stream_end(now));
        };
        let source = self.hosts.iter().position(|other| other.id() == Some(primary))?;
        let of_source = &self.hosts[source];
        let is_reached = of_source.frozen_ns <= self.now_ns
            && host.loads_until_ns <= self.now_ns
            && !self.net.is_cut(source, number)
            && !self.net.is_cut(number, source);
        if !is_reached || !of_source.is_primary() {
            return None;
        }
        Some(of_source.stream_end(of_source.clock.now(self.now_ns)))
    }

    /// Checks S-26: when a replica of ours takes over by an agreed failover, its primary, if it lives,
    /// executes no more writes, and the replica has all earlier writes. `old` is a part of a log line; it
    /// begins with the former primary's id.
    pub(super) fn has_all_data(&mut self, number: HostId, old: &str) -> Result<(), String> {
        let Some(caught_up_ns) = self.hosts[number].caught_up_ns.take() else { return Ok(()) };
        let is_old = |host: &&Host| host.id().is_some_and(|id| old.starts_with(&id.to_string()));
        let Some(source) = self.hosts.iter().find(is_old).filter(|host| host.is_primary()) else {
            return Ok(());
        };
        self.met.agreed_failovers += 1;
        let is_same_process = source.started_ns < caught_up_ns;
        let serves = source.view().is_some_and(|view| !view.served().is_empty());
        if serves && source.paused_ns.is_none() {
            return Err(format!(
                "S-26: node {number} takes over, and its primary goes on with writes (the process that has paused \
                 runs: {is_same_process})"
            ));
        }
        let end = source.stream_end(source.clock.now(self.now_ns));
        let here = self.hosts[number].told_offset;
        if end != here && source.paused_ns.is_some() {
            return Err(format!(
                "S-26: node {number} takes over with the offset {here}, and its primary is at {end}"
            ));
        }
        Ok(())
    }
}
