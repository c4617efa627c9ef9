//! Messages between subscribers of different nodes, and the end of subscriptions to channels of slots that
//! this node loses.

use crate::cluster::driver::ClusterDriver;
use crate::core::Core;
use crate::pubsub::delivery::Delivery;
use sluice_base::{Bytes, SessionKey};
use sluice_cluster::{HashSlot, PublishScope, SlotSet};
use sluice_control::process::Process;
use sluice_resp::{Outbox, Protocol, Reply};
use sluice_subscriptions::registry::TopicKind;

impl ClusterDriver<'_> {
    /// Sends a message that another node has published to the subscribers on this node.
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
        self.core.control.clients.pubsub.find_targets(kind, channel, &mut targets);
        let Core { sessions, control, units, .. } = self.core;
        let spare = &mut units.spare_outboxes;
        let (now, own) = (process.recent(), Protocol::Resp2);
        Delivery { sessions, control, spare, now, own }.send(&targets, channel, message);
        self.core.log_disconnected(process);
    }

    /// Ends the subscriptions to sharded channels of these slots, and notifies their subscribers (T32).
    pub(super) fn end_shard_channels(&mut self, slots: &SlotSet, process: &mut dyn Process) {
        let pubsub = &self.core.control.clients.pubsub;
        let is_wanted = |slot| HashSlot::new(slot).is_some_and(|slot| slots.contains(slot));
        let topics = pubsub.shard_channels_of(is_wanted).into_iter();
        let ended: Vec<(Vec<u8>, Vec<SessionKey>)> =
            topics.map(|topic| (pubsub.name(topic).to_vec(), pubsub.subscribers(topic).to_vec())).collect();
        for (channel, subscribers) in ended {
            for client in subscribers {
                self.end_shard_channel(&channel, client, process);
            }
        }
        self.core.log_disconnected(process);
    }

    fn end_shard_channel(&mut self, channel: &[u8], client: SessionKey, process: &mut dyn Process) {
        self.core.control.clients.pubsub.unsubscribe(TopicKind::Shard, client, channel);
        let subscribed = self.core.control.clients.pubsub.subscribed(client);
        let Some(session) = self.core.sessions.get_mut(client) else { return };
        session.caller.subscribed = subscribed;
        session.mask = self.core.gate.session_mask(session);
        let Core { sessions, control, units, .. } = self.core;
        let spare = &mut units.spare_outboxes;
        let (now, own) = (process.recent(), Protocol::Resp2);
        Delivery { sessions, control, spare, now, own }.send_all(&[client], |proto, buffer| {
            let mut outbox = Outbox::from_buffer(buffer);
            let mut reply = Reply::new(&mut outbox, proto);
            reply.push(3);
            reply.bulk(b"sunsubscribe");
            reply.bulk(channel);
            reply.int(i64::from(subscribed.shards));
            outbox.into_parts().0
        });
    }
}
