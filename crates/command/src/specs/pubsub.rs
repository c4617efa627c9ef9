//! Publish/subscribe commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, KeyFlags, Keys, Spec};

specs! {
    pubsub:
    PSUBSCRIBE,
    PUBLISH,
    PUBSUB,
    PUBSUB_CHANNELS,
    PUBSUB_HELP,
    PUBSUB_NUMPAT,
    PUBSUB_NUMSUB,
    PUBSUB_SHARDCHANNELS,
    PUBSUB_SHARDNUMSUB,
    PUNSUBSCRIBE,
    SPUBLISH,
    SSUBSCRIBE,
    SUBSCRIBE,
    SUNSUBSCRIBE,
    UNSUBSCRIBE,
}

/// A channel of sharded publish/subscribe is found like a key, so that a cluster knows its slot, but it is no
/// key.
const NOT_KEY: KeyFlags = KeyFlags::NOT_KEY;

/// Flags of every command of the group: allowed while the data set is loading or a replica's data is stale.
const EVERYWHERE: Flags = Flags::LOADING.or(Flags::STALE);

/// Flags of commands that subscribe to messages or unsubscribe.
const SUBSCRIBER: Flags = EVERYWHERE.or(Flags::PUBSUB).or(Flags::NOSCRIPT);

/// Flags of commands that publish messages; replicas receive these commands too.
const PUBLISHER: Flags = EVERYWHERE.or(Flags::PUBSUB).or(Flags::FAST).or(Flags::MAY_REPLICATE);

/// Flags of commands that report about subscriptions.
const ASKING: Flags = EVERYWHERE.or(Flags::PUBSUB);

pub static PSUBSCRIBE: Spec = Spec {
    full_name: "psubscribe",
    subcommands: &[],
    group: Group::PubSub,
    since: "2.0.0",
    arity: Arity::AtLeast(2),
    flags: SUBSCRIBER,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[pattern("pattern").repeated()],
    tips: &[],
    history: &[],
    summary: "Subscribes the client to every channel whose name matches one of the patterns.",
    complexity: "O(log N) for each pattern, N being the number of patterns",
    deprecated: None,
    id: id::PSUBSCRIBE,
};

pub static PUBLISH: Spec = Spec {
    full_name: "publish",
    subcommands: &[],
    group: Group::PubSub,
    since: "2.0.0",
    arity: Arity::Exactly(3),
    flags: PUBLISHER,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("channel"), string("message")],
    tips: &[],
    history: &[],
    summary: "Sends a message to the subscribers of a channel.",
    complexity: "O(N+M), N being the number of receivers and M that of all patterns",
    deprecated: None,
    id: id::PUBLISH,
};

pub static PUBSUB: Spec = Spec {
    full_name: "pubsub",
    subcommands: &[
        &PUBSUB_CHANNELS,
        &PUBSUB_HELP,
        &PUBSUB_NUMPAT,
        &PUBSUB_NUMSUB,
        &PUBSUB_SHARDCHANNELS,
        &PUBSUB_SHARDNUMSUB,
    ],
    group: Group::PubSub,
    since: "2.8.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Container for commands about subscriptions.",
    complexity: "That of the subcommand",
    deprecated: None,
    id: id::PUBSUB,
};

pub static PUBSUB_CHANNELS: Spec = Spec {
    full_name: "pubsub|channels",
    subcommands: &[],
    group: Group::PubSub,
    since: "2.8.0",
    arity: Arity::AtLeast(2),
    flags: ASKING,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[pattern("pattern").optional()],
    tips: &[],
    history: &[],
    summary: "Lists the channels that have subscribers, subscriptions to patterns not counted.",
    complexity: "O(N), N being the number of channels",
    deprecated: None,
    id: id::PUBSUB_CHANNELS,
};

pub static PUBSUB_HELP: Spec = Spec {
    full_name: "pubsub|help",
    subcommands: &[],
    group: Group::PubSub,
    since: "6.2.0",
    arity: Arity::Exactly(2),
    flags: EVERYWHERE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PUBSUB_HELP,
};

pub static PUBSUB_NUMPAT: Spec = Spec {
    full_name: "pubsub|numpat",
    subcommands: &[],
    group: Group::PubSub,
    since: "2.8.0",
    arity: Arity::Exactly(2),
    flags: ASKING,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Counts the patterns that have subscribers.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PUBSUB_NUMPAT,
};

pub static PUBSUB_NUMSUB: Spec = Spec {
    full_name: "pubsub|numsub",
    subcommands: &[],
    group: Group::PubSub,
    since: "2.8.0",
    arity: Arity::AtLeast(2),
    flags: ASKING,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("channel").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Counts the subscribers of channels, subscriptions to patterns not counted.",
    complexity: "O(log N) for each channel named, N being the number of channels",
    deprecated: None,
    id: id::PUBSUB_NUMSUB,
};

pub static PUBSUB_SHARDCHANNELS: Spec = Spec {
    full_name: "pubsub|shardchannels",
    subcommands: &[],
    group: Group::PubSub,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: ASKING,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[pattern("pattern").optional()],
    tips: &[],
    history: &[],
    summary: "Lists the shard channels that have subscribers.",
    complexity: "O(N), N being the number of shard channels",
    deprecated: None,
    id: id::PUBSUB_SHARDCHANNELS,
};

pub static PUBSUB_SHARDNUMSUB: Spec = Spec {
    full_name: "pubsub|shardnumsub",
    subcommands: &[],
    group: Group::PubSub,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: ASKING,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("shardchannel").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Counts the subscribers of shard channels.",
    complexity: "O(log N) for each channel named, N being the number of shard channels",
    deprecated: None,
    id: id::PUBSUB_SHARDNUMSUB,
};

pub static PUNSUBSCRIBE: Spec = Spec {
    full_name: "punsubscribe",
    subcommands: &[],
    group: Group::PubSub,
    since: "2.0.0",
    arity: Arity::AtLeast(1),
    flags: SUBSCRIBER,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[pattern("pattern").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Ends the client's subscriptions to these patterns, or to all of its patterns.",
    complexity: "O(log N) for each pattern, N being the number of patterns",
    deprecated: None,
    id: id::PUNSUBSCRIBE,
};

pub static SPUBLISH: Spec = Spec {
    full_name: "spublish",
    subcommands: &[],
    group: Group::PubSub,
    since: "7.0.0",
    arity: Arity::Exactly(3),
    flags: PUBLISHER,
    acl: Cat::NONE,
    keys: Keys::Specs(&[one(1, NOT_KEY)]),
    args: &[string("shardchannel"), string("message")],
    tips: &[],
    history: &[],
    summary: "Sends a message to the subscribers of a shard channel.",
    complexity: "O(N), N being the number of receivers",
    deprecated: None,
    id: id::SPUBLISH,
};

pub static SSUBSCRIBE: Spec = Spec {
    full_name: "ssubscribe",
    subcommands: &[],
    group: Group::PubSub,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: SUBSCRIBER,
    acl: Cat::NONE,
    keys: Keys::Specs(&[range(1, -1, 1, NOT_KEY)]),
    args: &[string("shardchannel").repeated()],
    tips: &[],
    history: &[],
    summary: "Subscribes the client to shard channels.",
    complexity: "O(log N) for each channel, N being the number of shard channels",
    deprecated: None,
    id: id::SSUBSCRIBE,
};

pub static SUBSCRIBE: Spec = Spec {
    full_name: "subscribe",
    subcommands: &[],
    group: Group::PubSub,
    since: "2.0.0",
    arity: Arity::AtLeast(2),
    flags: SUBSCRIBER,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("channel").repeated()],
    tips: &[],
    history: &[],
    summary: "Subscribes the client to channels.",
    complexity: "O(log N) for each channel, N being the number of channels",
    deprecated: None,
    id: id::SUBSCRIBE,
};

pub static SUNSUBSCRIBE: Spec = Spec {
    full_name: "sunsubscribe",
    subcommands: &[],
    group: Group::PubSub,
    since: "7.0.0",
    arity: Arity::AtLeast(1),
    flags: SUBSCRIBER,
    acl: Cat::NONE,
    keys: Keys::Specs(&[range(1, -1, 1, NOT_KEY)]),
    args: &[string("shardchannel").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Ends the client's subscriptions to these shard channels, or to all of its shard channels.",
    complexity: "O(log N) for each channel, N being the number of shard channels",
    deprecated: None,
    id: id::SUNSUBSCRIBE,
};

pub static UNSUBSCRIBE: Spec = Spec {
    full_name: "unsubscribe",
    subcommands: &[],
    group: Group::PubSub,
    since: "2.0.0",
    arity: Arity::AtLeast(1),
    flags: SUBSCRIBER,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("channel").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Ends the client's subscriptions to these channels, or to all of its channels.",
    complexity: "O(log N) for each channel, N being the number of channels",
    deprecated: None,
    id: id::UNSUBSCRIBE,
};
