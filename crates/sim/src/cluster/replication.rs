//! Replication as far as elections ask for it: how much of its primary's stream a replica of ours has.

use crate::cluster::host::Host;
use crate::cluster::queue::HostId;
use crate::cluster::world::World;

impl World {
    /// The offset of a node of ours: where its own stream ends, or how far it is in that of its primary,
    /// if it is in contact with that one. None without contact, and for stock nodes, which know their own.
    pub(super) fn replicated(&self, number: HostId) -> Option<u64> {
        let host = self.hosts.get(number).filter(|host| host.is_ours() && host.machine.is_some())?;
        let now = host.clock.now(self.now_ns);
        let Some(primary) = host.map.as_ref().and_then(|map| map.my_primary) else {
            return host.is_primary().then(|| host.stream_end(now));
        };
        let source = self.hosts.iter().position(|other| other.id() == Some(primary))?;
        let of_source = &self.hosts[source];
        let is_reached = of_source.frozen_ns <= self.now_ns
            && !self.net.is_cut(source, number)
            && !self.net.is_cut(number, source);
        if !is_reached || !of_source.is_primary() {
            return None;
        }
        Some(of_source.stream_end(of_source.clock.now(self.now_ns)))
    }

    /// S-26: a replica of ours that takes over by an agreed failover has all that its primary was asked to
    /// write, and the primary, if it lives, writes nothing more. `old` begins with the primary's id.
    pub(super) fn has_all_data(&mut self, number: HostId, old: &str) -> Result<(), String> {
        if !std::mem::take(&mut self.hosts[number].has_caught_up) {
            return Ok(());
        }
        let is_old = |host: &&Host| host.id().is_some_and(|id| old.starts_with(&id.to_string()));
        let Some(source) = self.hosts.iter().find(is_old).filter(|host| host.is_primary()) else {
            return Ok(());
        };
        self.met.agreed_failovers += 1;
        let end = source.stream_end(source.clock.now(self.now_ns));
        let here = self.hosts[number].told_offset;
        if end != here && source.frozen_ns <= self.now_ns {
            return Err(format!(
                "S-26: node {number} takes over with the offset {here}, and its primary is at {end}"
            ));
        }
        Ok(())
    }
}
