//! Commands of the cluster that a connection may send to any server.

use crate::spec::{Arity, Cat, Flags, Group, Keys, Spec, SpecId};

/// Id of the first spec of this file.
const BASE: u16 = super::connection::END;
/// One past the id of the last.
pub(crate) const END: u16 = BASE + SPECS.len() as u16;

/// Every spec of this file in the order of the ids.
pub(crate) static SPECS: [&Spec; 2] = [&READONLY, &READWRITE];

/// `READONLY`
pub static READONLY: Spec = Spec {
    name: "readonly",
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
    id: SpecId(BASE),
};

/// `READWRITE`
pub static READWRITE: Spec = Spec {
    name: "readwrite",
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
    id: SpecId(BASE + 1),
};
