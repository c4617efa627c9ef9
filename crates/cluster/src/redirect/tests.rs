//! Compares the answers with the table in the specification of the slots (1.3), row by row.

use super::*;
use crate::address::{NodeAddress, NodeLabels};
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::node::NodeHealth;
use crate::slots::{SLOT_COUNT, SlotSet};

/// The slot of the requests, and the positions of the nodes in the map.
const SLOT: u16 = 7;
const ME: usize = 0;
const OTHER: usize = 1;
const PRIMARY: usize = 2;

/// The role of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Primary,
    Replica,
}

fn id(position: usize) -> NodeId {
    NodeId::parse(format!("{position:040}").as_bytes()).unwrap()
}

fn node(position: usize) -> MapNode {
    MapNode {
        id: id(position),
        shard: ShardId::parse(id(position).as_bytes()).unwrap(),
        address: NodeAddress::none(),
        labels: NodeLabels::default(),
        health: NodeHealth::Up,
        is_loading: false,
        primary: None,
        is_myself: position == ME,
        is_hidden: false,
        config_epoch: ClusterEpoch(1),
    }
}

/// A map of three nodes in which the slot has this owner.
fn map(role: Role, owner: Option<usize>) -> SlotMap {
    let mut owners = vec![0; usize::from(SLOT_COUNT)];
    owners[usize::from(SLOT)] = owner.map_or(0, |owner| owner as u16 + 1);
    SlotMap {
        state: ClusterState::Ok,
        owners: owners.into(),
        nodes: (0..3).map(node).collect(),
        postponed: SlotSet::EMPTY,
        is_leaving: false,
        is_coming_back: false,
        my_primary: (role == Role::Replica).then(|| id(PRIMARY)),
        migrating: Vec::new(),
        importing: Vec::new(),
    }
}

fn slot() -> HashSlot {
    HashSlot::new(SLOT).unwrap()
}

/// A map in which the slot is in the state called `name`, for a node of this role.
fn state(name: &str, role: Role) -> SlotMap {
    let own = if role == Role::Primary { ME } else { PRIMARY };
    let mut of = match name {
        "mine" | "migrating" | "down" | "down, reads" => map(role, Some(own)),
        "foreign" | "importing" => map(role, Some(OTHER)),
        _ => map(role, None),
    };
    match name {
        "migrating" => of.migrating.push((slot(), id(OTHER))),
        "importing" => of.importing.push((slot(), id(OTHER))),
        "down" | "down, reads" | "unbound, down" => of.state = ClusterState::Fail,
        _ => {}
    }
    of
}

fn request(flags: &str) -> SlotRequest {
    SlotRequest {
        slot: slot(),
        is_shard_pubsub: flags.contains('p'),
        writes: flags.contains('w'),
        is_migrate: flags.contains('m'),
        leaves_db: flags.contains('d'),
        is_asking: flags.contains('a'),
        is_readonly: flags.contains('r'),
    }
}

fn told(verdict: SlotVerdict<'_>) -> String {
    let name = |node: &MapNode| ["me", "other", "primary"][(0..3).find(|at| id(*at) == node.id).unwrap()];
    match verdict {
        SlotVerdict::Local => "local".into(),
        SlotVerdict::LocalLater => "later".into(),
        SlotVerdict::DownAtFirst => "down at first".into(),
        SlotVerdict::Unbound => "unbound".into(),
        SlotVerdict::Down => "down".into(),
        SlotVerdict::DownForWrites => "down for writes".into(),
        SlotVerdict::TryAgain => "try again".into(),
        SlotVerdict::Ask(node) => format!("ask {}", name(node)),
        SlotVerdict::Moved(node) => format!("moved {}", name(node)),
    }
}

/// The counts of a request's keys in the case called `name`: all keys are here, none is, or one of two is.
fn keys(name: &str) -> KeyCounts {
    let of = |existing, missing, are_several| KeyCounts { existing, missing, are_several };
    match name {
        "one here" => of(1, 0, false),
        "all here" => of(2, 0, true),
        "one missing" => of(0, 1, false),
        "all missing" => of(0, 2, true),
        _ => of(1, 1, true),
    }
}

fn answer(name: &str, role: Role, flags: &str, found: &str) -> String {
    let rules = DownRules { allows_reads: name == "down, reads", allows_shard_pubsub: flags.contains('y') };
    told(state(name, role).answer(&request(flags), rules, || keys(found)))
}

/// Each row has the state of the slot, the keys, and five answers: at a primary without and with ASKING, at a
/// replica, and at a replica with READONLY to a read and to a write.
#[test]
fn cb_s11_to_s19_answer_as_the_table() {
    let rows: [(&str, &str, [&str; 5]); 14] = [
        ("mine", "one here", ["local", "local", "moved primary", "local", "moved primary"]),
        ("mine", "all missing", ["local", "local", "moved primary", "local", "moved primary"]),
        ("foreign", "one here", ["moved other"; 5]),
        ("migrating", "all here", ["local", "local", "moved primary", "local", "moved primary"]),
        ("migrating", "all missing", ["ask other", "ask other", "moved primary", "ask other", "ask other"]),
        ("migrating", "one missing", ["ask other", "ask other", "moved primary", "ask other", "ask other"]),
        ("migrating", "some", ["try again", "try again", "moved primary", "try again", "try again"]),
        ("importing", "one here", ["moved other", "local", "moved other", "moved other", "moved other"]),
        ("importing", "one missing", ["moved other", "local", "moved other", "moved other", "moved other"]),
        ("importing", "some", ["moved other", "try again", "moved other", "moved other", "moved other"]),
        ("unbound", "one here", ["unbound"; 5]),
        ("unbound, down", "one here", ["unbound"; 5]),
        ("down", "one here", ["down"; 5]),
        ("down, reads", "one here", ["local", "local", "moved primary", "local", "down for writes"]),
    ];
    for (name, found, wanted) in rows {
        let told = [
            answer(name, Role::Primary, "", found),
            answer(name, Role::Primary, "a", found),
            answer(name, Role::Replica, "", found),
            answer(name, Role::Replica, "r", found),
            answer(name, Role::Replica, "rw", found),
        ];
        assert_eq!(told, wanted, "{name}, {found}");
    }
}

/// Requests for which the specification has rules in addition to its table.
#[test]
fn cb_s13_to_s18_special_requests() {
    let rows = [
        // A write gets this answer at any node while only reads are executed.
        ("down, reads", Role::Primary, "w", "one here", "down for writes"),
        // ASKING at a replica only counts together with READONLY (S-12, S-17).
        ("importing", Role::Replica, "a", "one here", "moved other"),
        ("importing", Role::Replica, "ra", "one here", "local"),
        ("importing", Role::Replica, "raw", "one here", "local"),
        ("importing", Role::Replica, "ra", "some", "try again"),
        ("importing", Role::Primary, "a", "all missing", "try again"),
        // A primary executes MIGRATE (S-15) for slots that it owns or imports; a replica does not execute it.
        ("migrating", Role::Primary, "m", "all missing", "local"),
        ("importing", Role::Primary, "m", "some", "local"),
        ("migrating", Role::Replica, "mw", "all missing", "moved primary"),
        ("foreign", Role::Primary, "m", "one here", "moved other"),
        // These rows are for MOVE and COPY to another database (S-13).
        ("migrating", Role::Primary, "dw", "one here", "try again"),
        ("importing", Role::Primary, "dwa", "one here", "try again"),
        ("importing", Role::Primary, "dw", "one here", "try again"),
        ("mine", Role::Primary, "dw", "one here", "local"),
        ("foreign", Role::Primary, "dw", "one here", "moved other"),
        // These rows are for sharded publish/subscribe (S-13, S-14, S-18).
        ("migrating", Role::Primary, "p", "all missing", "local"),
        ("importing", Role::Primary, "p", "all missing", "moved other"),
        ("importing", Role::Primary, "pa", "all missing", "local"),
        ("mine", Role::Replica, "p", "one here", "local"),
        ("foreign", Role::Replica, "p", "one here", "moved other"),
        ("down", Role::Primary, "py", "one here", "local"),
        ("down", Role::Primary, "p", "one here", "down"),
        ("down, reads", Role::Primary, "p", "one here", "down"),
    ];
    for (name, role, flags, found, wanted) in rows {
        assert_eq!(answer(name, role, flags, found), wanted, "{name}, {role:?}, {flags}, {found}");
    }
}

#[test]
fn a_slot_whose_owner_is_not_in_the_file_yet_is_answered_later() {
    let mut of = state("mine", Role::Primary);
    of.postponed.insert(slot());
    assert_eq!(told(of.answer(&request(""), DownRules::default(), KeyCounts::default)), "later");
    of.state = ClusterState::Fail;
    assert_eq!(told(of.answer(&request(""), DownRules::default(), KeyCounts::default)), "down");
}

#[test]
fn cl_f25_a_node_that_has_come_back_refuses_nothing_until_it_has_heard() {
    for (name, flags, rules, wanted) in [
        ("mine", "", DownRules::default(), "down at first"),
        ("mine", "w", DownRules::default(), "down at first"),
        ("foreign", "", DownRules::default(), "down at first"),
        ("unbound", "", DownRules::default(), "unbound"),
        ("mine", "", DownRules { allows_reads: true, ..DownRules::default() }, "local"),
        ("mine", "w", DownRules { allows_reads: true, ..DownRules::default() }, "down at first"),
    ] {
        let mut of = state(name, Role::Primary);
        (of.state, of.is_coming_back) = (ClusterState::Fail, true);
        let verdict = told(of.answer(&request(flags), rules, KeyCounts::default));
        assert_eq!(verdict, wanted, "{name}, {flags}");
    }
}

#[test]
fn keys_are_looked_for_in_open_slots_alone() {
    for (name, looks) in [("mine", false), ("foreign", false), ("migrating", true), ("importing", true)] {
        let mut looked = false;
        let of = state(name, Role::Primary);
        of.answer(&request(""), DownRules::default(), || {
            looked = true;
            KeyCounts::default()
        });
        assert_eq!(looked, looks, "{name}");
    }
}

/// An empty map, as it is before the first real one, has no owners, and a slot without an owner is not
/// served.
#[test]
fn an_empty_map_binds_no_slot() {
    let empty = SlotMap { owners: Box::default(), ..map(Role::Primary, Some(ME)) };
    assert_eq!(told(empty.answer(&request(""), DownRules::default(), KeyCounts::default)), "unbound");
}
