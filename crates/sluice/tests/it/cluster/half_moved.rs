//! `valkey-cli --cluster fix` for slots that were left half moved, `reshard` between nodes with users, and
//! `rebalance` by weights. The comment of each test says which nodes are the reference's.

use super::member::Member;
use super::operators::{Group, strangers};
use crate::common::until;

/// A slot of the first of three primaries; the test's keys are in this slot.
const SLOT: u16 = 3;
const KEYS: usize = 10;
/// Number of keys that move in most tests. These are fewer than half, because the tool considers the node
/// with most keys the owner (or a random one of two with equally many), and a source that is the reference's
/// deletes its remaining keys when it receives the other node's claim.
const FEWER: usize = 4;

fn keys() -> Vec<String> {
    let mut tags = (0..).map(|number| format!("tag{number}"));
    let tag = tags.find(|tag| sluice_base::key_slot(tag.as_bytes()) == SLOT).unwrap();
    (0..KEYS).map(|number| format!("{{{tag}}}{number}")).collect()
}

/// One of the steps by which a slot becomes half moved from the first of three nodes to the second.
#[derive(Clone, Copy)]
enum Step {
    /// The second node marks the slot as importing.
    Import,
    /// The third node marks the slot as importing.
    ImportElsewhere,
    /// The first node marks the slot as migrating.
    Export,
    /// This number of keys moves to the second node.
    Move(usize),
    /// The first node (0) or the second one (1) removes its mark.
    Forget(usize),
}

use Step::{Export, Forget, Import, ImportElsewhere, Move};

const SHAPES: &[(&str, &[Step])] = &[
    ("both marks, nothing moved", &[Import, Export]),
    ("both marks, half moved", &[Import, Export, Move(FEWER)]),
    ("all moved and nobody told", &[Import, Export, Move(KEYS)]),
    ("only importing", &[Import, Export, Move(FEWER), Forget(0)]),
    ("only migrating, half moved", &[Import, Export, Move(FEWER), Forget(1)]),
    ("only migrating", &[Export]),
    ("importing twice", &[Import, ImportElsewhere, Export, Move(FEWER)]),
    ("importing at another node", &[Import, Export, Move(FEWER), Forget(1), ImportElsewhere]),
];

fn take(step: Step, [source, target, other]: [&Member; 3]) {
    let set = |at: &Member, what: &str| {
        at.client().check(&format!("CLUSTER SETSLOT {SLOT} {what}"), "+OK\r\n");
    };
    match step {
        Import => set(target, &format!("IMPORTING {}", source.id())),
        ImportElsewhere => set(other, &format!("IMPORTING {}", source.id())),
        Export => set(source, &format!("MIGRATING {}", target.id())),
        Forget(0) => set(source, "STABLE"),
        Forget(_) => set(target, "STABLE"),
        Move(count) => {
            let keys = keys()[..count].join(" ");
            let line = format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {keys}", target.port());
            source.client().check(&line, "+OK\r\n");
        }
    }
}

/// The index of the node that serves the slot.
fn owner(group: &Group) -> usize {
    let key = &keys()[0];
    until("an owner", || {
        (0..3).find(|at| {
            let reply = group.members[*at].client().send(format!("TTL {key}\r\n")).line();
            reply.starts_with(':')
        })
    })
}

/// Executes the steps of each shape, which leave the slot half moved. The owner of the slot before these
/// steps counts as the first node. After the steps of a shape, `fix` must mend the slot.
fn is_mended(kinds: &str, shapes: &[(&str, &[Step])]) {
    let Some(group) = strangers(kinds) else { return };
    group.create(3, "0");
    for (name, steps) in shapes {
        println!("{name}");
        let source = owner(&group);
        let nodes = [0, 1, 2].map(|at| &group.members[(source + at) % 3]);
        for key in keys() {
            nodes[0].client().check(&format!("SET {key} v"), "+OK\r\n");
        }
        steps.iter().for_each(|step| take(*step, nodes));
        group.done(&["fix", &nodes[2].address(), "--cluster-yes"]);
        group.is_well(3);
        let mut client = group.members[owner(&group)].client();
        for key in keys() {
            client.check(&format!("GETDEL {key}"), "$1\r\nv\r\n");
        }
        for node in nodes {
            node.client().check(&format!("CLUSTER COUNTKEYSINSLOT {SLOT}"), ":0\r\n");
        }
    }
}

/// The first and third node are ours.
#[test]
fn cb_o27_half_moved_slots_are_mended_whatever_their_shape() {
    is_mended("oso", SHAPES);
}

/// Only the second node is ours.
#[test]
fn cb_o27_half_moved_slots_are_mended_where_most_nodes_are_stock() {
    is_mended("sos", SHAPES);
}

/// The second and third node are the reference's. The tool makes the target claim the slot while the source
/// still has keys.
#[test]
fn cb_e11_no_key_is_lost_where_the_target_has_most_of_them() {
    let steps: &[Step] = &[Import, Export, Move(KEYS - FEWER)];
    for _ in 0..3 {
        is_mended("oss", &[("most moved", steps)]);
    }
}

/// The second node is the reference's; the default user may not run RESTORE at any node.
#[test]
fn cb_o22_a_reshard_as_a_user_moves_keys_that_the_default_user_may_not_move() {
    let Some(group) = strangers("oso") else { return };
    group.create(3, "0");
    for key in keys() {
        group.members[0].client().check(&format!("SET {key} v"), "+OK\r\n");
    }
    for member in &group.members {
        let mut client = member.client();
        client.check("ACL SETUSER mover on >secret ~* &* +@all", "+OK\r\n");
        client.check("ACL SETUSER default -restore-asking", "+OK\r\n");
    }
    let ids: Vec<String> = group.members.iter().map(Member::id).collect();
    let at = group.members[0].address();
    let count = (SLOT + 1).to_string();
    let reshard = |from: usize, to: usize| {
        let ends = ["--cluster-from", &ids[from], "--cluster-to", &ids[to]];
        [&["reshard", &at][..], &ends, &["--cluster-slots", &count, "--cluster-yes"]].concat()
    };
    let as_mover = ["--user", "mover", "--pass", "secret"];
    // The slots up to that of the keys move from our node to the reference's; the last of these slots is left
    // half moved.
    let (text, _) = group.says(&reshard(0, 1));
    assert!(text.contains("NOPERM"), "{text}");
    group.done(&[&["fix", &at, "--cluster-yes"][..], &as_mover].concat());
    group.is_well(3);
    assert_eq!(owner(&group), 1);
    // The slots move from the reference's node to ours.
    group.done(&[&reshard(1, 2)[..], &as_mover].concat());
    group.is_well(3);
    assert_eq!(owner(&group), 2);
    for key in keys() {
        group.members[2].client().check(&format!("GET {key}"), "$1\r\nv\r\n");
    }
}

/// The second node is the reference's.
#[test]
fn slots_are_shared_by_weights() {
    let Some(group) = strangers("oso") else { return };
    group.create(3, "0");
    let ids: Vec<String> = group.members.iter().map(Member::id).collect();
    let weights: Vec<String> =
        ids.iter().zip(["1", "1.006", "1"]).map(|(id, weight)| format!("{id}={weight}")).collect();
    let at = group.members[2].address();
    let weights = weights.iter().map(String::as_str);
    let words = ["rebalance", &at, "--cluster-threshold", "0.1", "--cluster-weight"];
    group.done(&words.into_iter().chain(weights).collect::<Vec<_>>());
    group.is_well(3);
    let count = |member: &Member| {
        let lines = super::nodes(&mut member.client());
        let own = lines.iter().find(|line| line.contains("myself")).unwrap();
        own.split(' ')
            .skip(8)
            .map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap()
            })
            .sum::<usize>()
    };
    let counts: Vec<usize> = group.members.iter().map(count).collect();
    assert_eq!(counts.iter().sum::<usize>(), 16_384);
    assert!(counts[0] < 5_455 && (5_475..=5_490).contains(&counts[1]) && counts[2] < 5_455, "{counts:?}");
}
