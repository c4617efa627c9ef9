//! Maintenance notifications for clients that have asked by CLIENT MAINT_NOTIFICATIONS: a FAILOVER has begun
//! (FAILING_OVER) or ended (FAILED_OVER), or this server has become a replica and clients are to go to
//! another server (MOVING). A client that asks while an earlier notification is still valid gets that
//! notification, too, with the time left. A node of a cluster notifies its clients that slots are leaving it
//! (SMIGRATING) and have left it (SMIGRATED, or MIGRATED if they stay), and sends no other notification:
//! clients of a cluster find primaries by MOVED. docs/maint-notifications.md says which client acts on which
//! notification, and shows the forms of the notifications.
//!
//! Invariants: (1) the client that has asked for the failover or for the role gets no notification,
//! because a program that controls a server watches that server on the same connection; (2) no
//! notification names an address that its client cannot use, because clients end or lose their
//! connection over such an address; (3) ids grow, also on another server and after a restart as far as
//! clocks agree, because clients drop a notification whose id they know.

use crate::core::Core;
use crate::pubsub::delivery::Delivery;
use sluice_base::{Now, SessionKey};
use sluice_cluster::{JobName, MapNode, SlotSet};
use sluice_config::choice::EndpointType;
use sluice_config::param;
use sluice_control::cluster::endpoint::EndpointClient;
use sluice_control::cluster::slot_moves::ExportLink;
use sluice_control::process::Process;
use sluice_control::replication::failover::Failover;
use sluice_control::replication::maintenance::{AddressForm, Departure, NextPrimary, Notice, has_asked};
use sluice_resp::{Outbox, Protocol, Reply};
use sluice_session::{Caller, Session};
use std::collections::BTreeMap;

/// Sends notifications. A client that has not read earlier pushes and is over its output limit is
/// closed; this is logged after the next command.
pub(crate) struct Notices<'a> {
    delivery: Delivery<'a>,
    now: Now,
    /// The session that runs a command, which is not in the table.
    caller: Option<&'a Session>,
}

impl<'a> Notices<'a> {
    /// The sender of notifications, while `caller` runs a command.
    pub(crate) fn of(
        core: &'a mut Core,
        caller: Option<&'a Session>,
        process: &mut dyn Process,
    ) -> Notices<'a> {
        let now = process.recent();
        let Core { control, sessions, units, .. } = core;
        let spare = &mut units.spare_outboxes;
        Notices { delivery: Delivery { sessions, control, spare, now, own: Protocol::Resp3 }, now, caller }
    }
}

impl Notices<'_> {
    /// Notifies clients that writes wait from now on.
    #[cold]
    pub(crate) fn tell_failing_over(&mut self) {
        let id = self.next_id();
        if let Some(failover) = self.delivery.control.replication.failover.as_deref_mut() {
            failover.told_as = Some(id);
            let all = self.those_who_asked(|_| true);
            self.send_failing_over(&all);
        }
    }

    /// Notifies clients that the failover has ended, successfully or not.
    pub(crate) fn tell_failed_over(&mut self, failover: &Failover) {
        if failover.told_as.is_some() {
            let id = self.next_id();
            let all = self.those_who_asked(|session| session.key != failover.asked_by);
            self.send(&all, id, Notice::FailedOver);
        }
    }

    /// Asks clients of this server, which has become a replica, to go to its primary: all clients except
    /// `except` and the client that runs a command, and for a while also new clients.
    #[cold]
    pub(crate) fn tell_moving(&mut self, except: Option<SessionKey>) {
        let control = &*self.delivery.control;
        if control.replication.replica.is_some() && control.cluster.is_none() {
            let (id, until_ms) = (self.next_id(), self.now_ms() + MOVING_MS);
            self.delivery.control.replication.maintenance.departure = Some(Departure { id, until_ms });
            let all = self.those_who_asked(|session| Some(session.key) != except);
            self.send_moving(&all);
        }
    }

    /// If the client that runs a command has just asked for notifications, sends it the notifications that
    /// are still valid. So a client whose library has closed the connection and has connected again gets
    /// them, too.
    #[cold]
    pub(crate) fn tell_newcomer(&mut self) {
        let newcomer: Vec<SessionKey> = self.caller.iter().map(|session| session.key).collect();
        self.send_failing_over(&newcomer);
        self.send_moving(&newcomer);
        let moves = self.delivery.control.cluster.as_deref().map(|mode| mode.moves.exports.as_slice());
        let under_way = moves.unwrap_or_default().iter();
        let told: Vec<(i64, String)> =
            under_way.filter_map(|link| Some((link.told_as?, link.shown_slots.clone()))).collect();
        for (id, slots) in told {
            self.send(&newcomer, id, Notice::SlotsMigrating { slots: &slots });
        }
    }

    /// Notifies clients that the slots of a move are leaving to another node.
    #[cold]
    pub(crate) fn tell_slots_leave(&mut self, job: JobName) {
        let Some(id) = self.next_id_of_node() else { return };
        let link = self.delivery.control.cluster.as_deref_mut().and_then(|mode| mode.moves.export(job));
        let Some(link) = link else { return };
        link.told_as = Some(id);
        let slots = link.shown_slots.clone();
        let all = self.those_who_asked(|_| true);
        self.send(&all, id, Notice::SlotsMigrating { slots: &slots });
    }

    /// Notifies clients that a move is over, and that `slots` are at its target if the map says so.
    #[cold]
    pub(crate) fn tell_move_over(&mut self, link: &ExportLink, slots: &SlotSet) {
        let Some(id) = link.told_as.and_then(|_| self.next_id_of_node()) else { return };
        let is_there = self.is_there(link, slots);
        // Clients that get the same two addresses share a frame.
        let mut told: BTreeMap<Option<(String, String)>, Vec<SessionKey>> = BTreeMap::new();
        for session in self.delivery.sessions.iter().filter(|session| has_asked(session)) {
            let ends = if is_there { self.ends_of_move(link, &session.caller) } else { None };
            told.entry(ends).or_default().push(session.key);
        }
        for (ends, to) in told {
            match &ends {
                Some((source, target)) => {
                    let slots = &link.shown_slots;
                    self.send(&to, id, Notice::SlotsMigrated { source, target, slots });
                }
                None => self.send(&to, id, Notice::MoveEnded),
            }
        }
    }

    /// Whether the target of a move owns the moved slots.
    fn is_there(&self, link: &ExportLink, slots: &SlotSet) -> bool {
        let Some(mode) = self.delivery.control.cluster.as_deref() else { return false };
        let is_target = |slot| mode.map.owner(slot).is_some_and(|owner| owner.id == link.target);
        !slots.is_empty() && slots.iter().all(is_target)
    }

    /// Addresses of this node and of the target of a move, in the form for one client; `None` if one of the
    /// nodes has no address for the client.
    fn ends_of_move(&self, link: &ExportLink, caller: &Caller) -> Option<(String, String)> {
        let control = &*self.delivery.control;
        let map = &control.cluster.as_deref()?.map;
        let client = EndpointClient::of(caller, &control.config);
        let kind = control.config.choice::<EndpointType>(param::CLUSTER_PREFERRED_ENDPOINT_TYPE);
        let address = |is_end: &dyn Fn(&MapNode) -> bool| {
            client.host_and_port(map.nodes.iter().find(|node| is_end(node))?, kind)
        };
        Some((address(&|node| node.is_myself)?, address(&|node| node.id == link.target)?))
    }

    fn next_id_of_node(&mut self) -> Option<i64> {
        let node = self.delivery.control.cluster.as_deref()?.id();
        let maintenance = &mut self.delivery.control.replication.maintenance;
        Some(maintenance.next_id_of_node(self.now.unix_ms(), node))
    }

    /// Notifies clients that a failover is under way, if there is one and other clients were notified of it.
    fn send_failing_over(&mut self, to: &[SessionKey]) {
        let Some(failover) = self.delivery.control.replication.failover.as_deref() else { return };
        let Some(id) = failover.told_as else { return };
        let left_ms = failover.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(self.now_ms()));
        let left_s = left_ms.map_or(FAILOVER_SECONDS, |left_ms| left_ms.div_ceil(1000));
        let to: Vec<SessionKey> = to.iter().copied().filter(|key| *key != failover.asked_by).collect();
        self.send(&to, id, Notice::FailingOver { left_s });
    }

    /// Sends the address to which clients are to go, while [`MOVING_MS`] have not passed.
    fn send_moving(&mut self, to: &[SessionKey]) {
        let control = &*self.delivery.control;
        let Some(Departure { id, until_ms }) = control.replication.maintenance.departure else { return };
        let left_s = until_ms.saturating_sub(self.now_ms()).div_ceil(1000);
        let Some(role) = control.replication.replica.as_ref().filter(|_| left_s > 0) else { return };
        let next = NextPrimary::new(role.primary(), &control.config);
        for (form, endpoint) in
            [(AddressForm::Named, Some(next.endpoint.as_str())), (AddressForm::Absent, None)]
        {
            let session = |key: SessionKey| self.delivery.sessions.get(key).or(self.caller);
            let is_for =
                |key: &SessionKey| session(*key).is_some_and(|session| next.form_for(session) == form);
            let to: Vec<SessionKey> = to.iter().copied().filter(is_for).collect();
            self.send(&to, id, Notice::Moving { left_s, endpoint });
        }
    }

    /// The clients that have asked for notifications and that `chooses` accepts. O(clients).
    fn those_who_asked(&self, chooses: impl Fn(&Session) -> bool) -> Vec<SessionKey> {
        let all = self.delivery.sessions.iter().chain(self.caller);
        all.filter(|session| has_asked(session) && chooses(session)).map(|session| session.key).collect()
    }

    fn send(&mut self, to: &[SessionKey], id: i64, notice: Notice<'_>) {
        self.delivery.send_all(to, |proto, buffer| {
            let mut outbox = Outbox::from_buffer(buffer);
            notice.write(id, Reply::new(&mut outbox, proto));
            outbox.into_parts().0
        });
    }

    fn next_id(&mut self) -> i64 {
        self.delivery.control.replication.maintenance.next_id(self.now.unix_ms())
    }

    fn now_ms(&self) -> u64 {
        self.now.mono_ns / 1_000_000
    }
}

/// Seconds that a failover without TIMEOUT is announced to take. StackExchange.Redis uses longer timeouts
/// during this time.
const FAILOVER_SECONDS: u64 = 30;

/// Milliseconds for which clients prefer the address in a MOVING notification to the address that they are
/// configured with, and for which new clients are sent the notification. A client that is sent no address
/// reconnects after half of this time. Clients were tested with this time; a longer one would delay the end
/// of Python programs, which wait until it is over.
const MOVING_MS: u64 = 15_000;
