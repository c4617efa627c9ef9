//! Clients that wait for keys of slots that this node loses, and clients that have copies of such keys.

use crate::cluster::driver::ClusterDriver;
use crate::cluster::redirect::end_of_wait;
use crate::core::Core;
use crate::pubsub::delivery::Delivery;
use crate::waiting::ending::WaitEnds;
use sluice_base::Now;
use sluice_cluster::{HashSlot, SLOT_COUNT, SlotMap};
use sluice_control::process::Process;
use sluice_resp::Protocol;
use sluice_session::Session;
use sluice_subscriptions::tracking::TrackingMode;

impl ClusterDriver<'_> {
    /// Replies to the clients that wait for keys of slots which this node, or the cluster, does not
    /// serve any more (S-70, S-73). Cost: O(sessions) while a client waits for a key.
    pub(super) fn answer_lost_waits(&mut self, process: &mut dyn Process) {
        let Some(mode) = &self.core.control.cluster else { return };
        if !self.core.control.clients.blocking.wants_keys() {
            return;
        }
        let end = |session: &Session| {
            let (spec, error) = end_of_wait(mode, &self.core.control.config, session)?;
            Some((session.key, spec, error))
        };
        let lost: Vec<_> = self.core.sessions.iter().filter_map(end).collect();
        for (client, spec, error) in lost {
            let text = error.wire();
            self.core.stats.count_error(&text);
            self.core.stats.commands[spec.id.0 as usize].rejected += 1;
            WaitEnds::of(self.core).end_wait(client, process, |reply| reply.error(&text));
        }
    }

    /// Makes clients drop their copies of keys in the slots that `next`, a map about to be put in force,
    /// takes from this node's shard. This includes copies of absent keys, because another node will report
    /// changes of these keys.
    pub(super) fn tell_caches_of_lost(&mut self, next: &SlotMap, now: Now) {
        let Core { control, sessions, units, .. } = &mut *self.core;
        if !control.clients.tracking.is_active() {
            return;
        }
        let Some(mode) = control.cluster.as_deref() else { return };
        let is_served = |map: &SlotMap, slot: HashSlot| {
            map.owner(slot).is_some_and(|owner| owner.is_myself || map.my_primary == Some(owner.id))
        };
        let slots = (0..SLOT_COUNT).filter_map(HashSlot::new);
        let is_lost = |slot: &HashSlot| is_served(&mode.map, *slot) && !is_served(next, *slot);
        let lost: Vec<u16> = slots.filter(is_lost).map(HashSlot::number).collect();
        if lost.is_empty() {
            return;
        }
        control.clients.tracking.note_lost(lost.into_iter());
        let spare = &mut units.spare_outboxes;
        // Clients that track prefixes drop all copies, because the keys that they have read are not
        // recorded.
        Delivery { sessions, control, spare, now, own: Protocol::Resp2 }
            .drop_copies(|mode| mode == TrackingMode::Broadcast);
    }
}
