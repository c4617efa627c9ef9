//! Steps the node's state machine (in short, the machine), and carries out its outputs.

use crate::cluster::driver::ClusterDriver;
use crate::cluster::export_links;
use crate::cluster::exports::advance_exports;
use crate::cluster::imports::{FAILED_OVER, end_failed_imports, fail_imports};
use crate::cluster::move_audit::assert_whole;
use crate::cluster::slot_moves;
use crate::core::Core;
use crate::exec::unit::Unit;
use crate::replication::role::RoleChanges;
use crate::upkeep::detached::DetachedSteps;
use crate::waiting::ending::WaitEnds;
use crate::waiting::migration::MigrationEnds;
use sluice_base::{LogLevel, Now};
use sluice_cluster::{
    BusDebug, Cluster, ClusterAnswer, ClusterInput, ClusterOutput, HasKeys, HashSlot, RoleChange,
    SavedCluster, SlotSet, StartRefused, Synchronisation, Ticket,
};
use sluice_commands::WaitFor;
use sluice_config::param;
use sluice_control::Control;
use sluice_control::between_units::BetweenUnits;
use sluice_control::cluster::mode::ClusterMode;
use sluice_control::cluster::order::BusOrder;
use sluice_control::cluster::settings;
use sluice_control::process::Process;
use sluice_control::replication::role::{ReplicaRole, RoleWanted};
use sluice_replication::Primary;
use sluice_session::Sessions;
use std::net::IpAddr;
use std::sync::Arc;

/// Period of the machine's cron, ns.
const TICK_NS: u64 = sluice_cluster::CRON_MS * 1_000_000;

impl ClusterDriver<'_> {
    /// See [`Engine::start_cluster`](crate::engine::Engine::start_cluster).
    pub(crate) fn start_cluster(
        &mut self,
        file: Option<&[u8]>,
        local: &[IpAddr],
        process: &mut dyn Process,
    ) -> Result<(), StartRefused> {
        let settings = Arc::new(settings::of(&self.core.control.config, BusDebug::default()));
        let (now, seed) = (process.now(), self.core.rng.next_u64());
        self.become_node(Cluster::start(now, settings, seed, file, local)?, process);
        Ok(())
    }

    /// See [`Engine::begin_cluster`](crate::engine::Engine::begin_cluster).
    pub(crate) fn begin_cluster(
        &mut self,
        saved: Option<&SavedCluster>,
        local: &[IpAddr],
        process: &mut dyn Process,
    ) {
        let settings = Arc::new(settings::of(&self.core.control.config, BusDebug::default()));
        let (now, seed) = (process.now(), self.core.rng.next_u64());
        let machine = match saved {
            Some(saved) => Cluster::load(now, settings, seed, saved, local),
            None => Cluster::new(now, settings, seed),
        };
        self.become_node(machine, process);
    }

    fn become_node(&mut self, machine: Cluster, process: &mut dyn Process) {
        let mut mode = ClusterMode::new(machine);
        mode.pulse.moved_ns = process.now().mono_ns;
        self.core.control.cluster = Some(Box::new(mode));
        self.core.control.epoch.advance();
        self.take_cluster_outputs(process);
    }

    pub(crate) fn take_cluster_step(&mut self, input: &ClusterInput<'_>, process: &mut dyn Process) {
        notice_standstill(self.core, process);
        let offset = self.offset_for_nodes();
        let Some(mode) = &mut self.core.control.cluster else { return };
        let now = process.recent();
        // The answer to this input may report the offset, and a replica that receives it waits for
        // exactly that offset (M-4).
        if mode.machine.own_offset() != offset {
            mode.machine.step(now, &ClusterInput::Offset(offset));
        }
        mode.machine.step(now, input);
        self.take_cluster_outputs(process);
    }

    /// The offset that this node reports to other nodes (N-8): the end of its stream, or the offset of
    /// its primary's stream up to which it has executed; 0 while a full copy replaces, or is about to
    /// replace, its data.
    pub(crate) fn offset_for_nodes(&self) -> u64 {
        let replication = &self.core.control.replication;
        let has_data = replication.replica.as_ref().is_none_or(|role| role.has_data_of_primary());
        if has_data { replication.stream.offset } else { 0 }
    }

    pub(crate) fn advance_node(&mut self, process: &mut dyn Process) {
        notice_standstill(self.core, process);
        let offset = self.offset_for_nodes();
        // During a load the machine is not informed whether this node has keys, because the load may add
        // keys.
        let is_whole = !self.core.is_loading();
        let now = process.recent();
        let next_tick_ns =
            self.core.control.cluster.as_ref().map_or(u64::MAX, |mode| mode.pulse.next_tick_ns);
        let is_tick = now.mono_ns >= next_tick_ns;
        if is_tick {
            slot_moves::tell_heard(self.core, now);
        }
        let Some(mode) = &mut self.core.control.cluster else { return };
        if is_tick || mode.machine.awaits_own_offset() {
            mode.machine.step(now, &ClusterInput::Offset(offset));
        }
        if is_tick {
            mode.pulse.next_tick_ns = now.mono_ns + TICK_NS;
            let at = contact_ms(
                self.core.control.replication.replica.quietly().as_deref_mut(),
                &self.core.sessions,
                now,
            );
            mode.machine.step(now, &ClusterInput::PrimaryContact { at });
            if is_whole {
                let mut databases =
                    (0..self.core.keyspace.databases()).map(|number| self.core.keyspace.db(number));
                let keys = if databases.any(|db| !db.is_empty()) { HasKeys::Yes } else { HasKeys::No };
                mode.machine.step(now, &ClusterInput::HasKeys(keys));
            }
            mode.machine.step(now, &ClusterInput::Tick);
            mode.forget_offsets();
        } else if mode.machine.deadline().is_some_and(|ms| now.mono_ns / 1_000_000 >= ms) {
            mode.machine.step(now, &ClusterInput::Deadline);
        }
        if mode.machine.awaits_iteration_end() {
            mode.machine.step(now, &ClusterInput::IterationEnd);
        }
        if mode.machine.awaits_unit_end() && !*self.core.control.clients.unit_stands_open {
            mode.machine.step(now, &ClusterInput::UnitEnd);
        }
        if !self.core.is_loading()
            && let Some(mode) = &mut self.core.control.cluster
            && std::mem::take(&mut mode.keys_to_check)
        {
            self.tell_slots_with_keys(now);
        }
        self.take_cluster_outputs(process);
    }

    /// Continues the node's work on its data: imports, exports, and the deletion of lost keys.
    pub(crate) fn advance_node_data(&mut self, process: &mut dyn Process) {
        if self.core.control.between_units(BetweenUnits::Cluster) {
            self.drop_unwanted_data(process);
        }
        fail_imports(self.core, FAILED_OVER, process);
        advance_exports(self.core, process);
        export_links::advance(self.core, process);
        self.take_cluster_outputs(process);
        self.advance_emptying(process);
        DetachedSteps::of(self.core).free_slice(process);
        end_failed_imports(self.core, process);
        slot_moves::begin_jobs(self.core, process);
        self.take_cluster_outputs(process);
        // A migration deletes no key while writes are held. Migrations whose end was put off for this reason
        // end now.
        MigrationEnds::of(self.core).end_paused_migrations(process);
        if cfg!(debug_assertions)
            && !self.core.is_loading()
            && self.core.control.between_units(BetweenUnits::Cluster)
        {
            assert_whole(&self.core.control, &self.core.keyspace);
        }
    }

    /// Sorts the machine's outputs: orders about the bus go to the process, and decisions are carried
    /// out here as soon as no command or transaction is in progress. Serving the clients whose wait ends is
    /// left to the caller, which may be serving already.
    pub(crate) fn take_cluster_outputs(&mut self, process: &mut dyn Process) {
        loop {
            let Some(mode) = &mut self.core.control.cluster else { return };
            while let Some(output) = mode.machine.next_output() {
                match output {
                    ClusterOutput::Dial { link, ip, port } => {
                        mode.orders.push_back(BusOrder::Dial { link, ip, port });
                    }
                    ClusterOutput::Close { link } => mode.orders.push_back(BusOrder::Close { link }),
                    ClusterOutput::Resolve { node, host } => {
                        mode.orders.push_back(BusOrder::Resolve { node, host });
                    }
                    ClusterOutput::Send { link, message, lane } => {
                        mode.orders.push_back(BusOrder::Send { link, message, lane });
                    }
                    ClusterOutput::Persist { generation, file } => {
                        mode.orders.push_back(BusOrder::Persist { generation, file });
                    }
                    ClusterOutput::End(_) => mode.orders.push_back(BusOrder::End),
                    ClusterOutput::Log(level, text) => process.log(level, &text),
                    other => mode.decide(other),
                }
            }
            if !mode.has_decisions() || !self.core.control.between_units(BetweenUnits::Cluster) {
                return;
            }
            let Some(decision) = self.core.control.cluster.as_mut().and_then(|mode| mode.next_decision())
            else {
                return;
            };
            self.carry_out_cluster(decision, process);
        }
    }

    fn carry_out_cluster(&mut self, decision: ClusterOutput, process: &mut dyn Process) {
        match decision {
            ClusterOutput::Reply { to, answer } => self.answer_ticket(to, &answer, process),
            ClusterOutput::Role(change) => self.take_cluster_role(change, process),
            ClusterOutput::Slots(map) => {
                self.keep_returning_slots(&map, process);
                self.tell_caches_of_lost(&map, process.recent());
                if let Some(mode) = &mut self.core.control.cluster {
                    let had_postponed = !mode.map.postponed.is_empty() || mode.map.is_coming_back;
                    mode.set_map(map);
                    self.core.control.epoch.advance();
                    self.answer_lost_waits(process);
                    if had_postponed {
                        self.core.control.clients.blocking.release_postponed();
                    }
                }
            }
            ClusterOutput::Migration(order) => slot_moves::carry_out(self.core, order, process),
            ClusterOutput::EmptySlots { slots, why } => {
                self.empty_slots(&slots, why, process);
            }
            ClusterOutput::ChannelsGone(slots) => self.end_shard_channels(&slots, process),
            ClusterOutput::AskKeys => self.tell_slots_with_keys(process.recent()),
            ClusterOutput::PauseWrites { until } => self.pause_for_failover(until, process),
            ClusterOutput::Unpause => {
                self.set_cluster_pause(None);
                MigrationEnds::of(self.core).end_paused_migrations(process);
                self.core.control.clients.blocking.release_postponed();
            }
            ClusterOutput::Deliver { channel, message, scope } => {
                self.deliver_from_bus(&channel, &message, scope, process);
            }
            // `take_cluster_outputs` handles these outputs itself, so none of them gets here.
            ClusterOutput::Dial { .. }
            | ClusterOutput::Close { .. }
            | ClusterOutput::Resolve { .. }
            | ClusterOutput::Send { .. }
            | ClusterOutput::Persist { .. }
            | ClusterOutput::End(_)
            | ClusterOutput::Log(..) => {}
        }
    }

    /// Replies to the client whose command has this ticket, if the client still waits.
    pub(super) fn answer_ticket(
        &mut self,
        ticket: Ticket,
        answer: &ClusterAnswer,
        process: &mut dyn Process,
    ) {
        let client = self.core.control.cluster.as_mut().and_then(|mode| mode.waiting.remove(&ticket.0));
        let Some(client) = client else { return };
        let waits = self.core.sessions.get(client).is_some_and(|session| {
            session.waiting.as_ref().is_some_and(|waiting| waiting.on == WaitFor::Cluster(ticket.0))
        });
        if !waits {
            return;
        }
        if let ClusterAnswer::Error(text) = answer {
            self.core.stats.count_error(text.as_bytes());
        }
        WaitEnds::of(self.core).end_wait(client, process, |reply| match answer {
            ClusterAnswer::Ok => reply.ok(),
            ClusterAnswer::Integer(number) => reply.int(*number),
            ClusterAnswer::Status(text) => reply.simple(text.as_bytes()),
            ClusterAnswer::Error(text) => reply.error(text.as_bytes()),
        });
    }

    /// Changes the role of this server as the cluster has decided.
    fn take_cluster_role(&mut self, change: RoleChange, process: &mut dyn Process) {
        match &change {
            RoleChange::Primary => {
                self.core.control.replication.role_wanted =
                    Some(RoleWanted { primary: None, by: String::new(), keeps_data: true });
            }
            RoleChange::ReplicaOf { address, synchronisation, .. } => {
                let port = match self.core.control.config.bool(param::TLS_REPLICATION) {
                    true => address.tls_port,
                    false => address.tcp_port,
                };
                let primary = Primary { host: address.ip.to_string(), port };
                // If the change of the role that still waits for the end of a load was to drop the data, the
                // data does not belong to the history of this primary either, and is not kept.
                let wanted = self.core.control.replication.role_wanted.as_ref();
                let is_to_drop = wanted.is_some_and(|wanted| wanted.primary.is_some() && !wanted.keeps_data);
                let keeps_data = *synchronisation == Synchronisation::Partial && !is_to_drop;
                self.core.control.replication.role_wanted =
                    Some(RoleWanted { primary: Some(primary), by: String::new(), keeps_data });
            }
            RoleChange::DropData => {}
        }
        if let Some(mode) = &mut self.core.control.cluster {
            mode.drops_data = change == RoleChange::DropData;
        }
        RoleChanges::of(self.core).apply_role(process);
        self.drop_unwanted_data(process);
    }

    /// Drops the data of the old primary if the cluster has decided that this node becomes an empty primary.
    /// A load in progress is finished first.
    fn drop_unwanted_data(&mut self, process: &mut dyn Process) {
        let is_primary = self.core.control.replication.replica.is_none();
        if let Some(mode) = &mut self.core.control.cluster
            && mode.drops_data
            && is_primary
            && self.core.control.replication.role_wanted.is_none()
        {
            mode.drops_data = false;
            self.drop_all_data(process);
        }
    }

    /// Reports to the machine which slots have keys, except slots whose keys are hidden: those being moved to
    /// this node or emptied. The caller takes the machine's outputs. Cost: O(slots · databases).
    fn tell_slots_with_keys(&mut self, now: Now) {
        let mut slots = SlotSet::EMPTY;
        for number in 0..self.core.keyspace.databases() {
            let db = self.core.keyspace.db(number);
            let held = (0..sluice_cluster::SLOT_COUNT)
                .filter(|slot| db.slot_len(*slot) > 0 && !self.core.keyspace.is_hidden(*slot));
            held.filter_map(HashSlot::new).for_each(|slot| {
                slots.insert(slot);
            });
        }
        if let Some(mode) = &mut self.core.control.cluster {
            mode.machine.step(now, &ClusterInput::KeysIn(&slots));
        }
    }

    /// Holds writes for a manual failover (M-3), until `until_ms` of the monotonic clock, and reports
    /// the end of the stream to the machine.
    fn pause_for_failover(&mut self, until_ms: u64, process: &mut dyn Process) {
        self.set_cluster_pause(Some(until_ms));
        let offset = self.core.control.replication.stream.offset;
        if let Some(mode) = &mut self.core.control.cluster {
            mode.machine.step(process.recent(), &ClusterInput::WritesPaused { offset });
        }
    }

    fn set_cluster_pause(&mut self, until_ms: Option<u64>) {
        if let Some(mode) = &mut self.core.control.cluster {
            mode.paused_until_ms = until_ms;
            self.core.control.epoch.advance();
        }
    }
}

/// Logs how many writes of a script or transaction that ends are lost, because another node has taken over
/// this primary's slots while the script or transaction was running (H-14).
pub(crate) fn log_writes_too_late(control: &Control, unit: &Unit, process: &mut dyn Process) {
    let writes = unit.commands.as_ref().map_or(0, |commands| commands.count());
    let is_late = control.replication.replica.is_none()
        && control.cluster.as_ref().is_some_and(|mode| mode.is_to_follow());
    if is_late && writes > 0 {
        let text = format!(
            "Another node took over this node's slots while a script or transaction was running: its \
             writes ({writes}) are lost, although its client gets a normal reply."
        );
        process.log(LogLevel::Warning, &text);
    }
}

/// Makes the node check its own state if this server was stopped for longer than the node timeout, because
/// another node may own its slots by now (S-24). Called before each batch of a client, because a process
/// can be stopped anywhere in an iteration. Cost: a reading of the clock.
pub(crate) fn notice_standstill(core: &mut Core, process: &mut dyn Process) {
    let Some(mode) = &mut core.control.cluster else { return };
    let now = process.now();
    let stood_ns = now.mono_ns.saturating_sub(std::mem::replace(&mut mode.pulse.moved_ns, now.mono_ns));
    if stood_ns / 1_000_000 > mode.machine.node_timeout_ms().max(STANDSTILL_MIN_MS) {
        mode.machine.step(now, &ClusterInput::Suspension);
        ClusterDriver::of(core).take_cluster_outputs(process);
    }
}

/// When the data were last in contact with a primary, ms of the monotonic clock; `None` for never in this
/// process. Counted in whole seconds, as in the reference. While the link is up, the contact is also recorded
/// in the role.
fn contact_ms(role: Option<&mut ReplicaRole>, sessions: &Sessions, now: Now) -> Option<u64> {
    let role = role?;
    if let Some(session) = role.session.filter(|_| role.is_up()) {
        role.heard_s = sessions.get(session)?.caller.traffic.last_s;
        role.seen_up_s = now.unix_s();
    }
    let contact_s = role.contact_s();
    if contact_s == 0 {
        return None;
    }
    let age_s = u64::try_from(now.unix_s().saturating_sub(contact_s)).unwrap_or(0);
    Some((now.mono_ns / 1_000_000).saturating_sub(age_s.saturating_mul(1_000)))
}

/// Least duration that counts as a standstill, ms, even if the node timeout is shorter, because the event
/// loop may sleep until the next cron.
const STANDSTILL_MIN_MS: u64 = 500;

#[cfg(test)]
mod tests {
    use super::contact_ms;
    use sluice_base::Now;
    use sluice_control::replication::role::ReplicaRole;
    use sluice_replication::{Primary, ReplicaLink};
    use sluice_session::Sessions;

    /// E-41: a server that was stopped notices the end of its link only when it continues.
    #[test]
    fn cl_e41_the_age_of_data_counts_from_the_last_word_of_the_primary() {
        let primary = Primary { host: "127.0.0.1".to_owned(), port: 1 };
        let mut role = ReplicaRole::new(ReplicaLink::new(primary, 1, 0));
        let now = Now { mono_ns: 500_000_000_000, unix_us: 10_000_000_000 };
        let contact = |role: &mut ReplicaRole| contact_ms(Some(role), &Sessions::default(), now);
        assert_eq!(contact(&mut role), None, "never");
        role.down_since_s = 9_990;
        assert_eq!(contact(&mut role), Some(490_000));
        // The link was found up a second before it ended.
        (role.heard_s, role.seen_up_s) = (9_985, 9_989);
        assert_eq!(contact(&mut role), Some(490_000), "a primary that had nothing to say");
        role.seen_up_s = 9_972;
        role.heard_s = 9_970;
        assert_eq!(contact(&mut role), Some(470_000), "this server stood still for 18 s");
        // The server follows another primary, with the same data.
        let primary = Primary { host: "127.0.0.1".to_owned(), port: 2 };
        let mut next = ReplicaRole::new(ReplicaLink::new(primary, 1, 0));
        next.earlier_contact_s = role.contact_at_end_s(false, now.unix_s());
        assert_eq!(contact(&mut next), None, "the data were given up for a copy");
        next.can_resume = true;
        assert_eq!(contact(&mut next), Some(470_000), "its link has not been up");
        // A server that was stopped may learn of the other primary while its link still counts as up.
        assert_eq!(role.contact_at_end_s(true, now.unix_s()), 9_970);
        role.seen_up_s = 9_999;
        assert_eq!(role.contact_at_end_s(true, now.unix_s()), 10_000);
        next.down_since_s = 9_995;
        assert_eq!(contact(&mut next), Some(495_000));
    }
}
