//! Transaction commands.

use super::shorthand::*;
use crate::spec::{Arg, Arity, Cat, Flags, Group, KeyFlags, Keys, Spec};

specs! {
    transactions:
    DISCARD,
    EXEC,
    MULTI,
    UNWATCH,
    WATCH,
}

/// Flags of every command of the group: refused in scripts; allowed while the data set is loading or a
/// replica's data is stale.
const EVERYWHERE: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);

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
    summary: "Discards the queued commands of a transaction.",
    complexity: "O(N), N being the number of queued commands",
    deprecated: None,
    id: id::DISCARD,
};

pub static EXEC: Spec = Spec {
    full_name: "exec",
    subcommands: &[],
    group: Group::Transactions,
    since: "1.2.0",
    arity: Arity::AtLeast(1),
    flags: EVERYWHERE.or(Flags::SKIP_COMMANDLOG),
    acl: Cat::TRANSACTION,
    keys: Keys::Fn(&[], exec_keys),
    args: &[one_of(
        "condition",
        &[
            block("ifeq", &[condition_key("key"), string("value")]).after("IFEQ"),
            block("ifne", &[condition_key("key"), string("value")]).after("IFNE"),
            condition_key("xx-key").after("XX"),
            condition_key("nx-key").after("NX"),
        ],
    )
    .optional()
    .repeated()
    .since("9.2.0")],
    tips: &[],
    history: &[("9.2.0", "Conditions `IFEQ`, `IFNE`, `XX` and `NX`.")],
    summary: "Runs the commands of a transaction as one unit.",
    complexity: "That of the queued commands, and O(N) for N conditions",
    deprecated: None,
    id: id::EXEC,
};

/// The key to which a condition of EXEC applies.
const fn condition_key(name: &'static str) -> Arg {
    Arg { key_spec: None, ..key(name, 0) }
}

/// Number of words of a condition of EXEC: its name, a key, and for some conditions a value. `None` if the
/// name is unknown.
pub fn condition_len(name: &[u8]) -> Option<usize> {
    let is = |word| crate::is_word(name, word);
    match (is("IFEQ") || is("IFNE"), is("XX") || is("NX")) {
        (true, _) => Some(3),
        (_, true) => Some(2),
        (false, false) => None,
    }
}

fn exec_keys(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()> {
    let mut at = 1;
    while let Some(name) = args.get(at) {
        let end = at + condition_len(name).ok_or(())?;
        if end > args.len() {
            return Err(());
        }
        found.push((at + 1, RO_ACCESS));
        at = end;
    }
    Ok(())
}

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
    summary: "Ends the watch on all keys of the client.",
    complexity: "O(N), N being the number of watched keys",
    deprecated: None,
    id: id::UNWATCH,
};

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
