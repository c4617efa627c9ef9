//! Delivery of messages from a command to the clients that have subscribed, and keyspace notifications.
//!
//! A message is written once for each protocol version among its receivers. Small messages are copied into
//! every outbox, or once for all receivers that are listed for a group (`multicast`); large ones are shared.
//! Messages to the client that runs a command wait until its reply is written. A receiver whose unread output
//! reaches its limit receives nothing more and is closed.

use crate::cluster::slot_costs::count_message;
use crate::core::Core;
use crate::session::output_limit::is_over_limit;
use sluice_base::SessionKey;
use sluice_base::{Bytes, Now, num};
use sluice_commands::{Args, Limits, Notify};
use sluice_control::process::Process;
use sluice_control::{ClientRelations, Control, PersistenceState};
use sluice_keyspace::Event;
use sluice_resp::{Outbox, Protocol, Reply};
use sluice_session::{Closing, Session, Sessions};
use sluice_subscriptions::multicast::Multicasts;
use sluice_subscriptions::registry::{Outgoing, PubSub, TopicKind, TopicRef};

/// Parts of the engine that sending a message needs.
pub(crate) struct Delivery<'a> {
    pub sessions: &'a mut Sessions,
    pub control: &'a mut Control,
    pub spare: &'a mut Vec<Outbox>,
    /// Current time, for soft limits.
    pub now: Now,
    /// Protocol of the client that runs a command: its session is not in the table.
    pub own: Protocol,
}

impl Core {
    /// Sends the message of a PUBLISH or SPUBLISH to the targets in `Outgoing`.
    pub(crate) fn send_published(&mut self, args: &Args<'_>, now: Now, own: Protocol) {
        let Core { sessions, control, units, .. } = self;
        let spare = &mut units.spare_outboxes;
        let mut targets = std::mem::take(&mut control.clients.pubsub.outgoing.targets);
        let mut delivery = Delivery { sessions, control, spare, now, own };
        delivery.send(&targets, args.at(1), args.at(2));
        targets.clear();
        self.control.clients.pubsub.outgoing.targets = targets;
    }

    /// Appends the messages that a command has sent to its own client, and logs the clients that a message
    /// has closed. Called after a command's reply if `Outgoing::is_unfinished` returns true.
    #[cold]
    pub(crate) fn finish_delivery(&mut self, session: &mut Session, process: &mut dyn Process) {
        session.outbox.append(&mut self.control.clients.pubsub.outgoing.own);
        if session.output_bytes() >= self.control.limits.output_floor {
            self.limit_output(session, process);
        }
        self.log_disconnected(process);
    }

    /// Logs the clients that a message has brought over their output limit.
    pub(crate) fn log_disconnected(&mut self, process: &mut dyn Process) {
        for key in std::mem::take(&mut self.control.clients.pubsub.outgoing.cut) {
            if let Some(session) = self.sessions.take(key) {
                self.log_output_limit(&session, process);
                self.sessions.put_back(session);
            }
        }
    }
}

impl Delivery<'_> {
    /// Sends the keyspace notifications of an event of a key. The channel of the key comes before that
    /// of the event.
    pub fn notify(&mut self, notify: Notify, db: usize, key: &[u8], event: Event) {
        if !notify.classes.has(event.class()) {
            return;
        }
        let name = event.name().as_bytes();
        if notify.keyspace {
            self.send_own("keyspace", db, key, name);
        }
        if notify.keyevent {
            self.send_own("keyevent", db, name, key);
        }
    }

    /// Publishes `message` on the channel `__kind@db__:of`.
    fn send_own(&mut self, kind: &str, db: usize, of: &[u8], message: &[u8]) {
        let outgoing = &mut self.control.clients.pubsub.outgoing;
        let (mut name, mut targets) =
            (std::mem::take(&mut outgoing.name), std::mem::take(&mut outgoing.targets));
        debug_assert!(targets.is_empty(), "what publishes a message changes no key");
        name.clear();
        name.extend_from_slice(b"__");
        name.extend_from_slice(kind.as_bytes());
        name.push(b'@');
        num::push_u64(&mut name, db as u64);
        name.extend_from_slice(b"__:");
        name.extend_from_slice(of);
        self.control.clients.pubsub.find_targets(TopicKind::Channel, &name, &mut targets);
        self.send(&targets, &name, message);
        targets.clear();
        let outgoing = &mut self.control.clients.pubsub.outgoing;
        (outgoing.name, outgoing.targets) = (name, targets);
    }

    /// Sends a message to all subscribers of some topics.
    pub(crate) fn send(&mut self, targets: &[TopicRef], channel: &[u8], message: &[u8]) {
        let mut buffers = std::mem::take(&mut self.control.clients.pubsub.outgoing.buffers);
        for topic in targets {
            buffers = self.send_to(*topic, channel, message, buffers);
        }
        self.control.clients.pubsub.outgoing.buffers = buffers;
    }

    fn send_to(
        &mut self,
        topic: TopicRef,
        channel: &[u8],
        message: &[u8],
        buffers: [Vec<u8>; 2],
    ) -> [Vec<u8>; 2] {
        let (pubsub, mut receivers) = self.parts();
        let write = |proto, buffer| encode(topic, pubsub.name(topic), channel, message, proto, buffer);
        let mut sent = receivers.send(pubsub.subscribers(topic), buffers, write);
        let buffers = sent.finish(&mut pubsub.outgoing);
        if topic.kind() == TopicKind::Shard {
            count_message(self.control, channel, sent.bytes);
        }
        buffers
    }

    /// Sends a message to several clients, any of which may be the one that runs a command. `write`
    /// writes it in a version of the protocol.
    pub(crate) fn send_all(&mut self, keys: &[SessionKey], write: impl Fn(Protocol, Vec<u8>) -> Vec<u8>) {
        let (pubsub, mut receivers) = self.parts();
        let buffers = std::mem::take(&mut pubsub.outgoing.buffers);
        let mut sent = receivers.send(keys, buffers, write);
        pubsub.outgoing.buffers = sent.finish(&mut pubsub.outgoing);
    }

    /// The subscriptions, and the other state that sending changes.
    fn parts(&mut self) -> (&mut PubSub, MessageReceivers<'_>) {
        let Control {
            clients: ClientRelations { pubsub, ready, to_close, multicasts, .. },
            persistence: PersistenceState { aof, .. },
            limits,
            ..
        } = &mut *self.control;
        let receivers = MessageReceivers {
            sessions: self.sessions,
            ready,
            to_close,
            multicasts,
            spare: self.spare,
            limits,
            waits_until_durable: aof.is_strict(),
            now: self.now,
            own: self.own,
        };
        (pubsub, receivers)
    }
}

/// State that sending to clients changes.
struct MessageReceivers<'a> {
    sessions: &'a mut Sessions,
    ready: &'a mut Vec<SessionKey>,
    to_close: &'a mut Vec<SessionKey>,
    multicasts: &'a mut Multicasts,
    spare: &'a mut Vec<Outbox>,
    limits: &'a Limits,
    /// The output must wait until the append-only file is durable, so messages go into outboxes and are not
    /// listed for groups.
    waits_until_durable: bool,
    now: Now,
    own: Protocol,
}

/// The result of sending a message, and the work that is left.
struct DeliveryState {
    forms: [MessageForm; 2],
    /// Bytes of the message, summed over all receivers.
    bytes: usize,
    /// Number of times that the client which runs the command receives the message.
    to_self: usize,
    own: Protocol,
    /// Clients that the message has brought over their limits.
    cut: Vec<SessionKey>,
}

impl DeliveryState {
    /// Stores in `outgoing` the messages to the client that runs a command, and the clients over their
    /// limits. Returns the buffers for the next message.
    fn finish(&mut self, outgoing: &mut Outgoing) -> [Vec<u8>; 2] {
        for _ in 0..self.to_self {
            self.forms[self.own as usize].append_to(&mut outgoing.own);
        }
        outgoing.cut.append(&mut self.cut);
        std::mem::replace(&mut self.forms, [const { MessageForm::NotYet(Vec::new()) }; 2])
            .map(MessageForm::into_buffer)
    }
}

impl MessageReceivers<'_> {
    fn send(
        &mut self,
        keys: &[SessionKey],
        buffers: [Vec<u8>; 2],
        write: impl Fn(Protocol, Vec<u8>) -> Vec<u8>,
    ) -> DeliveryState {
        let mut forms = buffers.map(MessageForm::NotYet);
        let (mut to_self, mut sent_bytes) = (0, 0);
        let mut cut = Vec::new();
        self.multicasts.begin();
        for key in keys {
            let Some(session) = self.sessions.get_mut(*key) else {
                // Only the session of the client that runs a command is not in the table.
                to_self += 1;
                continue;
            };
            if session.caller.closing != Closing::No {
                continue;
            }
            // A replica that has subscribed is closed, because it would read a message in its stream as a
            // command.
            if session.caller.replica.is_some() {
                session.caller.closing = Closing::Now;
                self.to_close.push(*key);
                continue;
            }
            let proto = session.caller.proto;
            let form = &mut forms[proto as usize];
            let bytes = form.write(|buffer| write(proto, buffer));
            sent_bytes += bytes;
            // Output in the session's `front` must be sent before the message.
            let has_front = session.front.is_some();
            session.was_pushed |= self.waits_until_durable;
            let may_list = !self.waits_until_durable && session.outbox.is_empty() && !has_front;
            let group = self.multicasts.group(*key, proto).filter(|_| may_list);
            match group {
                Some(_) => session.in_flight += bytes,
                None => put(form, session, self.spare, self.ready),
            }
            if session.output_bytes() >= self.limits.output_floor
                && is_over_limit(session, self.limits, self.now)
            {
                session.caller.closing = Closing::Now;
                self.to_close.push(*key);
                cut.push(*key);
            } else if let Some(group) = group {
                self.multicasts.add(group, *key, proto, bytes);
            }
        }
        self.multicasts.end(self.spare, |proto, text| forms[proto as usize].append_to(text));
        let own = self.own;
        if to_self > 0 {
            sent_bytes += to_self * forms[own as usize].write(|buffer| write(own, buffer));
        }
        DeliveryState { forms, bytes: sent_bytes, to_self, own, cut }
    }
}

/// Appends a message to the outbox of a receiver.
#[inline]
fn put(form: &MessageForm, session: &mut Session, spare: &mut Vec<Outbox>, ready: &mut Vec<SessionKey>) {
    if session.outbox.capacity_bytes() == 0
        && let Some(spare) = spare.pop()
    {
        session.outbox = spare;
    }
    form.append_to(&mut session.outbox);
    session.note_output(ready);
}

/// A message in one version of the protocol.
enum MessageForm {
    /// The message is not written yet, because no receiver has needed this version. Holds the buffer to
    /// write into.
    NotYet(Vec<u8>),
    /// Small enough to be copied.
    Copied(Vec<u8>),
    /// Large enough to be shared.
    Shared(Bytes),
}

impl MessageForm {
    /// Writes the message at the first call. Returns its length.
    #[inline]
    fn write(&mut self, write: impl FnOnce(Vec<u8>) -> Vec<u8>) -> usize {
        if let MessageForm::NotYet(buffer) = self {
            let bytes = write(std::mem::take(buffer));
            *self = match bytes.len() < SHARED_BYTES_MIN {
                true => MessageForm::Copied(bytes),
                false => MessageForm::Shared(Bytes::from_vec(bytes)),
            };
        }
        match self {
            MessageForm::NotYet(_) => 0,
            MessageForm::Copied(bytes) => bytes.len(),
            MessageForm::Shared(bytes) => bytes.len(),
        }
    }

    /// Appends the message, if it was written.
    #[inline]
    fn append_to(&self, outbox: &mut Outbox) {
        match self {
            MessageForm::NotYet(_) => {}
            MessageForm::Copied(bytes) => outbox.push(bytes),
            MessageForm::Shared(bytes) => outbox.push_shared(bytes.clone()),
        }
    }

    /// The buffer, for the next message.
    fn into_buffer(self) -> Vec<u8> {
        match self {
            MessageForm::NotYet(buffer) | MessageForm::Copied(buffer) => buffer,
            MessageForm::Shared(_) => Vec::new(),
        }
    }
}

/// A message as it is sent to its receivers.
fn encode(
    topic: TopicRef,
    name: &[u8],
    channel: &[u8],
    message: &[u8],
    proto: Protocol,
    buffer: Vec<u8>,
) -> Vec<u8> {
    let mut outbox = Outbox::from_buffer(buffer);
    let mut reply = Reply::new(&mut outbox, proto);
    match topic.kind() {
        TopicKind::Channel => {
            reply.push(3);
            reply.bulk(b"message");
        }
        TopicKind::Pattern => {
            reply.push(4);
            reply.bulk(b"pmessage");
            reply.bulk(name);
        }
        TopicKind::Shard => {
            reply.push(3);
            reply.bulk(b"smessage");
        }
    }
    reply.bulk(channel);
    reply.bulk(message);
    outbox.into_parts().0
}

/// Size in bytes from which a message is shared by its receivers. Measured with a hundred receivers, kernel
/// included: a copy for each receiver costs less than sharing up to 2 KiB, as much at 4 KiB, and one and a
/// half times as much at 16 KiB.
pub const SHARED_BYTES_MIN: usize = 4096;
