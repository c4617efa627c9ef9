//! Transaction commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, Keys, Spec};

specs! {
    transactions:
    DISCARD,
    EXEC,
    MULTI,
    UNWATCH,
    WATCH,
}

/// What every command of the group may do while the data set is loading or a replica's data is stale.
const EVERYWHERE: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);

/// `DISCARD`
pub static DISCARD: Spec = Spec {
    full_name: "discard",
    subcommands: &[],
    group: Group::Transactions,
    since: "2.0.0",
    arity: Arity::Exactly(1),
    flags: EVERYWHERE.or(Flags::FAST).or(Flags::ALLOW_BUSY),
    acl: Cat::TRANSACTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Forgets the commands of a transaction.",
    complexity: "O(N), N being the number of queued commands",
    deprecated: None,
    id: id::DISCARD,
};

/// `EXEC`
pub static EXEC: Spec = Spec {
    full_name: "exec",
    subcommands: &[],
    group: Group::Transactions,
    since: "1.2.0",
    arity: Arity::Exactly(1),
    flags: EVERYWHERE.or(Flags::SKIP_COMMANDLOG),
    acl: Cat::TRANSACTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Runs the commands of a transaction as one unit.",
    complexity: "That of the queued commands",
    deprecated: None,
    id: id::EXEC,
};

/// `MULTI`
pub static MULTI: Spec = Spec {
    full_name: "multi",
    subcommands: &[],
    group: Group::Transactions,
    since: "1.2.0",
    arity: Arity::Exactly(1),
    flags: EVERYWHERE.or(Flags::FAST).or(Flags::NO_MULTI).or(Flags::ALLOW_BUSY),
    acl: Cat::TRANSACTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Begins a transaction: the commands that follow are queued until EXEC.",
    complexity: "O(1)",
    deprecated: None,
    id: id::MULTI,
};

/// `UNWATCH`
pub static UNWATCH: Spec = Spec {
    full_name: "unwatch",
    subcommands: &[],
    group: Group::Transactions,
    since: "2.2.0",
    arity: Arity::Exactly(1),
    flags: EVERYWHERE.or(Flags::FAST).or(Flags::ALLOW_BUSY),
    acl: Cat::TRANSACTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Forgets the keys that the client watches.",
    complexity: "O(N), N being the number of watched keys",
    deprecated: None,
    id: id::UNWATCH,
};

/// `WATCH`
pub static WATCH: Spec = Spec {
    full_name: "watch",
    subcommands: &[],
    group: Group::Transactions,
    since: "2.2.0",
    arity: Arity::AtLeast(2),
    flags: EVERYWHERE.or(Flags::FAST).or(Flags::NO_MULTI).or(Flags::ALLOW_BUSY),
    acl: Cat::TRANSACTION,
    keys: Keys::Specs(&[range(1, -1, 1, RO)]),
    args: &[key("key", 0).repeated()],
    tips: &[],
    history: &[],
    summary: "Makes the next transaction fail if one of the keys changes before it runs.",
    complexity: "O(log N) for each key, N being the number of watched keys",
    deprecated: None,
    id: id::WATCH,
};
