//! Publish/subscribe: topics with their subscribers, and the messages of the running command.
//!
//! Invariants: (1) a topic's list contains a client at most once, at the index that the client's
//! `Subscriber::indexes` gives; (2) a topic without subscribers does not exist; (3) this file has only the
//! keys of sessions, never the sessions: the engine's `delivery.rs` sends the messages.
//!
//! Cost: a subscription begins and ends in O(log topics), however many subscribers the topic has, because
//! the last subscriber in the topic's list takes the index of a removed one. Removing a client costs O(log
//! topics) for each of its subscriptions. The number of subscriptions of a client has no limit; as in the
//! reference, their bytes count in `tot-mem` of CLIENT LIST.

use sluice_base::Epoch;
use sluice_base::SessionKey;
use sluice_base::glob::{self, LongClasses, SHORT_BYTES_MAX};
use sluice_base::{heap, key_slot};
use sluice_resp::Outbox;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The kinds of topics that clients subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicKind {
    /// One channel of PUBLISH.
    Channel,
    /// Every channel that matches a pattern.
    Pattern,
    /// A channel of sharded publish/subscribe.
    Shard,
}

/// A channel, pattern or shard channel; valid as long as it has subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicRef {
    kind: TopicKind,
    slot: u32,
}

/// Numbers of a client's subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscribed {
    /// Number of channels subscribed to by SUBSCRIBE.
    pub channels: u32,
    /// Number of patterns subscribed to by PSUBSCRIBE.
    pub patterns: u32,
    /// Number of shard channels subscribed to by SSUBSCRIBE.
    pub shards: u32,
    /// Bytes of the client's subscriptions, for display; [`u32::MAX`] stands for more.
    pub bytes: u32,
}

impl Subscribed {
    /// Whether the client has any subscription.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.channels + self.patterns + self.shards > 0
    }
}

/// The subscriptions of all clients, and the messages of the running command.
#[derive(Debug, Default)]
pub struct PubSub {
    /// Advanced when the first channel or pattern gets a subscriber, and when the last one has
    /// lost its subscribers.
    epoch: Epoch,
    topics: [Topics; 3],
    /// Indexed by the slot of the client's key.
    clients: Vec<Option<Box<Subscriber>>>,
    client_count: usize,
    /// Messages that the running command has published.
    pub outgoing: Outgoing,
    /// Channels that the running command uses, recorded for a check.
    pub met: RecordedChannels,
}

/// The channels and patterns that a command subscribes to or publishes in. The engine checks that
/// the command's declaration covers them and that rights were checked. Recorded only in builds
/// with debug assertions.
#[derive(Debug, Default)]
pub struct RecordedChannels {
    #[cfg(debug_assertions)]
    names: Option<Vec<Box<[u8]>>>,
}

impl RecordedChannels {
    /// Starts recording, with an empty list.
    pub fn start(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.names = Some(Vec::new());
        }
    }

    #[inline(always)]
    fn add(&mut self, _name: &[u8]) {
        #[cfg(debug_assertions)]
        if let Some(names) = &mut self.names {
            names.push(_name.into());
        }
    }

    /// Stops recording and returns the list.
    pub fn take(&mut self) -> Vec<Box<[u8]>> {
        #[cfg(debug_assertions)]
        return self.names.take().unwrap_or_default();
        #[cfg(not(debug_assertions))]
        Vec::new()
    }
}

/// Messages that are published and not yet fully delivered.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The topics whose subscribers receive the current message.
    pub targets: Vec<TopicRef>,
    /// Messages for the client that runs the command, to be sent after its reply.
    pub own: Outbox,
    /// Clients whose output exceeded their limit because of a message, for the log.
    pub cut: Vec<SessionKey>,
    /// Reused memory for the two encodings of a message.
    pub buffers: [Vec<u8>; 2],
    /// Reused memory for the names of channels of keyspace notifications.
    pub name: Vec<u8>,
}

impl Outgoing {
    /// Whether something remains to be done after the command's reply.
    #[inline]
    pub fn is_unfinished(&self) -> bool {
        !self.own.is_empty() || !self.cut.is_empty()
    }
}

impl TopicRef {
    /// The kind of the topic.
    pub fn kind(self) -> TopicKind {
        self.kind
    }
}

/// Topics of one kind.
#[derive(Debug, Default)]
struct Topics {
    by_name: BTreeMap<Arc<[u8]>, u32>,
    /// Shard channels, sorted by hash slot: (hash slot, index in `slots`).
    by_hash_slot: BTreeSet<(u16, u32)>,
    slots: Vec<Topic>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Topic {
    name: Arc<[u8]>,
    subscribers: Vec<SessionKey>,
    /// The pattern with its long character classes prepared; `None` for a topic without such classes.
    long_classes: Option<LongClasses>,
}

impl Topic {
    /// Whether a channel matches this pattern.
    #[cold]
    fn matches(&self, channel: &[u8]) -> bool {
        match &self.long_classes {
            Some(pattern) => pattern.matches(channel),
            None => glob::matches(&self.name, channel),
        }
    }
}

/// A client with subscriptions.
#[derive(Debug)]
struct Subscriber {
    generation: u32,
    /// For each kind, a map from the slot of a topic to the client's index among the topic's subscribers.
    indexes: [BTreeMap<u32, u32>; 3],
    bytes: usize,
}

impl PubSub {
    /// A registry without subscriptions, which advances `epoch` (see the field).
    pub fn new(epoch: Epoch) -> PubSub {
        PubSub { epoch, ..PubSub::default() }
    }

    fn note_listeners(&self, before: bool) {
        if self.has_listeners() != before {
            self.epoch.advance();
        }
    }

    /// Bytes of heap memory that the registry holds, as the allocator rounds them. O(topics and clients).
    pub fn footprint(&self) -> usize {
        let topic = |topic: &Topic| {
            heap::block(2 * size_of::<usize>() + topic.name.len())
                + heap::vec(&topic.subscribers)
                + topic.long_classes.as_ref().map_or(0, LongClasses::footprint)
        };
        let topics = |topics: &Topics| {
            heap::tree::<Arc<[u8]>, u32>(topics.by_name.len())
                + heap::tree::<(u16, u32), ()>(topics.by_hash_slot.len())
                + heap::vec(&topics.slots)
                + heap::vec(&topics.free)
                + topics.slots.iter().filter(|topic| !topic.name.is_empty()).map(topic).sum::<usize>()
        };
        let client = |client: &Subscriber| {
            let indexes = client.indexes.iter().map(|indexes| heap::tree::<u32, u32>(indexes.len()));
            heap::boxed::<Subscriber>() + indexes.sum::<usize>()
        };
        let clients: usize = self.clients.iter().flatten().map(|own| client(own)).sum();
        let outgoing = &self.outgoing;
        let buffers: usize = outgoing.buffers.iter().map(heap::vec).sum();
        self.topics.iter().map(topics).sum::<usize>()
            + heap::vec(&self.clients)
            + clients
            + heap::vec(&outgoing.targets)
            + outgoing.own.footprint()
            + heap::vec(&outgoing.cut)
            + buffers
            + heap::vec(&outgoing.name)
    }

    /// Whether the client has any subscription.
    pub fn listens(&self, client: SessionKey) -> bool {
        let own = self.clients.get(client.slot as usize).and_then(Option::as_deref);
        own.is_some_and(|own| {
            own.generation == client.generation && own.indexes.iter().any(|of| !of.is_empty())
        })
    }

    /// Subscribes a client; no effect if it is subscribed already.
    pub fn subscribe(&mut self, kind: TopicKind, client: SessionKey, name: &[u8]) {
        self.met.add(name);
        let before = self.has_listeners();
        let slot = self.topics[kind as usize].slot_of(kind, name);
        let index = self.topics[kind as usize].slots[slot as usize].subscribers.len() as u32;
        let own = self.subscriber(client);
        if own.indexes[kind as usize].contains_key(&slot) {
            return;
        }
        own.indexes[kind as usize].insert(slot, index);
        own.bytes += name.len() + SUBSCRIPTION_BYTES;
        self.topics[kind as usize].slots[slot as usize].subscribers.push(client);
        self.note_listeners(before);
    }

    /// Ends a subscription; no effect if there is none.
    pub fn unsubscribe(&mut self, kind: TopicKind, client: SessionKey, name: &[u8]) {
        let Some(&slot) = self.topics[kind as usize].by_name.get(name) else { return };
        let Some(own) = self.known_mut(client) else { return };
        let Some(index) = own.indexes[kind as usize].remove(&slot) else { return };
        own.bytes -= name.len() + SUBSCRIPTION_BYTES;
        if own.indexes.iter().all(BTreeMap::is_empty) {
            self.clients[client.slot as usize] = None;
            self.client_count -= 1;
        }
        let before = self.has_listeners();
        self.leave(TopicRef { kind, slot }, index);
        self.note_listeners(before);
    }

    /// Ends all subscriptions of a client, which no longer exists or was reset.
    pub fn forget(&mut self, client: SessionKey) {
        if self.known(client).is_none() {
            return;
        }
        let Some(own) = self.clients[client.slot as usize].take() else { return };
        self.client_count -= 1;
        let before = self.has_listeners();
        for (kind, indexes) in KINDS.into_iter().zip(own.indexes) {
            for (slot, index) in indexes {
                self.leave(TopicRef { kind, slot }, index);
            }
        }
        self.note_listeners(before);
    }

    /// The names of a client's topics of one kind, in arbitrary order.
    pub fn names_of(&self, kind: TopicKind, client: SessionKey) -> Vec<Arc<[u8]>> {
        let topics = &self.topics[kind as usize];
        let indexes = self.known(client).map(|own| &own.indexes[kind as usize]);
        indexes.into_iter().flatten().map(|(slot, _)| topics.slots[*slot as usize].name.clone()).collect()
    }

    /// All topics of a client, each with a flag that says whether the topic is a pattern, in arbitrary order.
    pub fn names(&self, client: SessionKey) -> impl Iterator<Item = (&[u8], bool)> {
        KINDS.into_iter().flat_map(move |kind| {
            let topics = &self.topics[kind as usize];
            let indexes = self.known(client).map(|own| &own.indexes[kind as usize]);
            let names = indexes.into_iter().flatten().map(|(slot, _)| &*topics.slots[*slot as usize].name);
            names.map(move |name| (name, kind == TopicKind::Pattern))
        })
    }

    /// Numbers of a client's subscriptions.
    pub fn subscribed(&self, client: SessionKey) -> Subscribed {
        let Some(own) = self.known(client) else { return Subscribed::default() };
        let [channels, patterns, shards] = own.indexes.each_ref().map(|indexes| indexes.len() as u32);
        Subscribed { channels, patterns, shards, bytes: heap::short(own.bytes) }
    }

    /// Adds a channel or shard channel, and the patterns that match a channel, as targets of the running
    /// command's message. Returns the number of receivers; a client counts once for each matching
    /// subscription.
    pub fn publish(&mut self, kind: TopicKind, channel: &[u8]) -> usize {
        self.met.add(channel);
        let mut targets = std::mem::take(&mut self.outgoing.targets);
        self.find_targets(kind, channel, &mut targets);
        let receivers = targets.iter().map(|topic| self.subscribers(*topic).len()).sum();
        self.outgoing.targets = targets;
        receivers
    }

    /// Appends the topics that receive a message in a channel: the channel first, then patterns.
    pub fn find_targets(&self, kind: TopicKind, channel: &[u8], targets: &mut Vec<TopicRef>) {
        if let Some(&slot) = self.topics[kind as usize].by_name.get(channel) {
            targets.push(TopicRef { kind, slot });
        }
        let patterns = &self.topics[TopicKind::Pattern as usize];
        if kind == TopicKind::Channel && !patterns.by_name.is_empty() {
            patterns.for_matching(channel, |slot| targets.push(TopicRef { kind: TopicKind::Pattern, slot }));
        }
    }

    /// The subscribers of a topic, in arbitrary order.
    pub fn subscribers(&self, topic: TopicRef) -> &[SessionKey] {
        &self.topics[topic.kind as usize].slots[topic.slot as usize].subscribers
    }

    /// The channel or pattern of a topic.
    pub fn name(&self, topic: TopicRef) -> &[u8] {
        &self.topics[topic.kind as usize].slots[topic.slot as usize].name
    }

    /// Number of topics of a kind, all of which have subscribers.
    pub fn count(&self, kind: TopicKind) -> usize {
        self.topics[kind as usize].by_name.len()
    }

    /// Number of clients with any subscription.
    pub fn clients(&self) -> usize {
        self.client_count
    }

    /// The names of the topics of a kind: shard channels sorted by hash slot, others by name.
    pub fn iter(&self, kind: TopicKind) -> impl Iterator<Item = &[u8]> {
        let topics = &self.topics[kind as usize];
        let by_name = (kind != TopicKind::Shard).then(|| topics.by_name.keys());
        let by_slot = topics.by_hash_slot.iter().map(|(_, at)| &topics.slots[*at as usize].name);
        by_name.into_iter().flatten().chain(by_slot).map(|name| &name[..])
    }

    /// The shard channels in the wanted hash slots, sorted by slot. Cost: O(shard channels).
    pub fn shard_channels_of(&self, is_wanted: impl Fn(u16) -> bool) -> Vec<TopicRef> {
        let all = self.topics[TopicKind::Shard as usize].by_hash_slot.iter();
        let wanted = all.filter(|(hash_slot, _)| is_wanted(*hash_slot));
        wanted.map(|(_, slot)| TopicRef { kind: TopicKind::Shard, slot: *slot }).collect()
    }

    /// Number of subscribers of a topic; 0 for an unknown name.
    pub fn subscriber_count(&self, kind: TopicKind, name: &[u8]) -> usize {
        let slot = self.topics[kind as usize].by_name.get(name);
        slot.map_or(0, |&slot| self.subscribers(TopicRef { kind, slot }).len())
    }

    /// Whether any channel or pattern has a subscriber that could receive keyspace notifications.
    pub fn has_listeners(&self) -> bool {
        self.count(TopicKind::Channel) + self.count(TopicKind::Pattern) > 0
    }

    /// Removes a subscriber from a topic's list; the last subscriber in the list takes the index. A topic
    /// without subscribers is removed.
    fn leave(&mut self, topic: TopicRef, index: u32) {
        let topics = &mut self.topics[topic.kind as usize];
        let subscribers = &mut topics.slots[topic.slot as usize].subscribers;
        subscribers.swap_remove(index as usize);
        let moved = subscribers.get(index as usize).copied();
        if subscribers.is_empty() {
            topics.remove(topic.slot);
        } else if subscribers.len() * 4 < subscribers.capacity() {
            subscribers.shrink_to(subscribers.len() * 2);
        }
        if let Some(own) = moved.and_then(|moved| self.known_mut(moved)) {
            own.indexes[topic.kind as usize].insert(topic.slot, index);
        }
    }

    fn known(&self, client: SessionKey) -> Option<&Subscriber> {
        let own = self.clients.get(client.slot as usize)?.as_deref()?;
        (own.generation == client.generation).then_some(own)
    }

    fn known_mut(&mut self, client: SessionKey) -> Option<&mut Subscriber> {
        let own = self.clients.get_mut(client.slot as usize)?.as_deref_mut()?;
        (own.generation == client.generation).then_some(own)
    }

    /// The entry of a client, which is created if missing.
    fn subscriber(&mut self, client: SessionKey) -> &mut Subscriber {
        let at = client.slot as usize;
        if self.clients.len() <= at {
            self.clients.resize_with(at + 1, || None);
        }
        let entry = &mut self.clients[at];
        debug_assert!(
            entry.as_ref().is_none_or(|own| own.generation == client.generation),
            "it was forgotten"
        );
        self.client_count += usize::from(entry.is_none());
        entry.get_or_insert_with(|| {
            Box::new(Subscriber { generation: client.generation, indexes: Default::default(), bytes: 0 })
        })
    }
}

/// With up to this many patterns, a channel is compared with each of them. With more, the map is searched
/// only for patterns that begin with the channel's first byte or with one of the four special characters (at
/// most five range searches); together these searches cost about as much as this many comparisons.
const PATTERNS_LOOKED_AT: usize = 32;

impl Topics {
    /// Passes the patterns that match a channel to `each`, in the order of their names. Cost: with up to
    /// [`PATTERNS_LOOKED_AT`] patterns, or an empty channel, a comparison for each pattern; otherwise O(log
    /// patterns), and a comparison for each pattern that begins with the channel's first byte or with a
    /// special character.
    fn for_matching(&self, channel: &[u8], mut each: impl FnMut(u32)) {
        let mut look_at = |name: &[u8], slot: u32| {
            let matched = match name.len() {
                ..=SHORT_BYTES_MAX => glob::matches(name, channel),
                _ => self.slots[slot as usize].matches(channel),
            };
            if matched {
                each(slot);
            }
        };
        let Some(&first) = channel.first().filter(|_| self.by_name.len() > PATTERNS_LOOKED_AT) else {
            for (name, &slot) in &self.by_name {
                look_at(name, slot);
            }
            return;
        };
        let mut begins = [first, b'*', b'?', b'[', b'\\'];
        begins.sort_unstable();
        for (at, &begin) in begins.iter().enumerate() {
            if at > 0 && begins[at - 1] == begin {
                continue;
            }
            let from: &[u8] = &[begin];
            let to: &[u8] = &[begin.wrapping_add(1)];
            let end = if begin == u8::MAX { Bound::Unbounded } else { Bound::Excluded(to) };
            for (name, &slot) in self.by_name.range::<[u8], _>((Bound::Included(from), end)) {
                look_at(name, slot);
            }
        }
    }

    /// The slot of a topic, which is created if missing.
    fn slot_of(&mut self, kind: TopicKind, name: &[u8]) -> u32 {
        if let Some(slot) = self.by_name.get(name) {
            return *slot;
        }
        let name: Arc<[u8]> = name.into();
        let long_classes = match kind {
            TopicKind::Pattern => LongClasses::of(&name),
            TopicKind::Channel | TopicKind::Shard => None,
        };
        let topic = Topic { name: name.clone(), subscribers: Vec::new(), long_classes };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = topic;
                slot
            }
            None => {
                self.slots.push(topic);
                (self.slots.len() - 1) as u32
            }
        };
        if kind == TopicKind::Shard {
            self.by_hash_slot.insert((key_slot(&name), slot));
        }
        self.by_name.insert(name, slot);
        slot
    }

    fn remove(&mut self, slot: u32) {
        let topic = std::mem::take(&mut self.slots[slot as usize]);
        self.by_name.remove(&topic.name);
        if !self.by_hash_slot.is_empty() {
            self.by_hash_slot.remove(&(key_slot(&topic.name), slot));
        }
        self.free.push(slot);
        if self.by_name.is_empty() {
            *self = Topics::default();
        }
    }
}

/// All kinds, in the order of their discriminants.
const KINDS: [TopicKind; 3] = [TopicKind::Channel, TopicKind::Pattern, TopicKind::Shard];

/// Approximate bytes of a subscription in addition to the name.
const SUBSCRIPTION_BYTES: usize = 48;

#[cfg(test)]
mod tests;
