//! Commands of the cluster that a connection may send to any server.

use super::shorthand::specs;
use crate::spec::{Arity, Cat, Flags, Group, Keys, Spec};

specs! {
    cluster:
    READONLY,
    READWRITE,
}

/// `READONLY`
pub static READONLY: Spec = Spec {
    full_name: "readonly",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Lets the connection read from a replica of a cluster.",
    complexity: "O(1)",
    deprecated: None,
    id: id::READONLY,
};

/// `READWRITE`
pub static READWRITE: Spec = Spec {
    full_name: "readwrite",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Takes READONLY back.",
    complexity: "O(1)",
    deprecated: None,
    id: id::READWRITE,
};
