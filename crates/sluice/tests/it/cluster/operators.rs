//! Operations on clusters with the tools of the reference, if `SLUICE_PEER_SERVER` names its
//! server and `valkey-cli` and `valkey-benchmark` are beside it: clusters of our nodes, and mixed ones with
//! nodes of the reference.

use super::member::Member;
use crate::common::{Client, Dir, until};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Nodes, and the tools of the reference.
pub(super) struct Group {
    pub(super) members: Vec<Member>,
    tools: PathBuf,
}

/// Starts nodes that do not know each other: for each `o` in `kinds` one of ours, for each `s` one of the
/// reference. Returns `None` if the environment names no reference, or its tools are missing.
pub(super) fn strangers(kinds: &str) -> Option<Group> {
    strangers_with(kinds, &[])
}

/// Like [`strangers`], with these additional arguments.
pub(super) fn strangers_with(kinds: &str, more: &[&str]) -> Option<Group> {
    let Some(server) = std::env::var_os("SLUICE_PEER_SERVER").map(PathBuf::from) else {
        println!("skipped: SLUICE_PEER_SERVER names no reference");
        return None;
    };
    let tools = server.parent()?.to_owned();
    if !tools.join("valkey-cli").exists() || !tools.join("valkey-benchmark").exists() {
        println!("skipped: no tools beside the reference");
        return None;
    }
    let more = [&["--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"], more].concat();
    let members: Option<Vec<Member>> = kinds.chars().map(|kind| Member::start(kind == 's', &more)).collect();
    Some(Group { members: members?, tools })
}

impl Group {
    /// Runs `valkey-cli --cluster` for at most half a minute; returns its output, and whether it succeeded.
    pub(super) fn says(&self, arguments: &[&str]) -> (String, bool) {
        let cli = self.tools.join("valkey-cli");
        let output = Command::new("timeout")
            .args(["30", &cli.display().to_string(), "--cluster"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text + &String::from_utf8_lossy(&output.stderr), output.status.success())
    }

    /// Like [`Group::says`], for a command that must succeed.
    #[track_caller]
    pub(super) fn done(&self, arguments: &[&str]) -> String {
        let (text, is_content) = self.says(arguments);
        let is_done = is_content && !text.contains("[ERR]") && !text.contains("failed");
        assert!(is_done, "{arguments:?}: {text}");
        text
    }

    /// Makes a cluster of the first `count` nodes, with this number of replicas for each primary.
    pub(super) fn create(&self, count: usize, replicas: &str) {
        let addresses: Vec<String> = self.members[..count].iter().map(Member::address).collect();
        let addresses = addresses.iter().map(String::as_str);
        let options = ["--cluster-replicas", replicas, "--cluster-yes"];
        let words: Vec<&str> = std::iter::once("create").chain(addresses).chain(options).collect();
        assert!(self.done(&words).contains("All 16384 slots covered"));
        self.is_well(count);
    }

    /// Waits until the first `count` nodes are primaries that serve, or replicas that are up to date.
    pub(super) fn is_well(&self, count: usize) {
        for member in &self.members[..count] {
            until("a node that serves", || {
                let is_ok = member.client().bulk("CLUSTER INFO").starts_with(b"cluster_state:ok");
                (is_ok && (member.is_primary() || member.follows())).then_some(())
            });
        }
        let mut said = String::new();
        until("all to agree", || {
            let (text, is_content) = self.says(&["check", &self.members[0].address()]);
            let is_well = is_content && !text.contains("[ERR]") && !text.contains("WARNING");
            if !is_well && text != said {
                println!("check says: {text}");
                said = text;
            }
            is_well.then_some(())
        });
    }

    /// Makes a node that is not in the cluster yet a replica of one of the cluster's primaries.
    pub(super) fn follow(&self, replica: usize, primary: usize) {
        let count = replica + 1;
        let (replica, primary) = (&self.members[replica], &self.members[primary]);
        super::meet(&mut replica.client(), primary.port(), primary.bus());
        let line = format!("CLUSTER REPLICATE {}\r\n", primary.id());
        until("the primary to be known", || {
            let mut client = replica.client();
            (client.send(&line).line() == "+OK").then_some(())
        });
        until("a replica that follows", || replica.follows().then_some(()));
        self.all_know(count, replica, primary);
    }

    /// Waits until the first `count` nodes know that `replica` follows `primary`.
    fn all_know(&self, count: usize, replica: &Member, primary: &Member) {
        let (id, of) = (replica.id(), format!("slave {} ", primary.id()));
        until("all to know", || {
            let is_it = |line: &String| line.starts_with(&id) && line.contains(&of);
            self.members
                .iter()
                .take(count)
                .all(|one| super::nodes(&mut one.client()).iter().any(is_it))
                .then_some(())
        });
    }

    /// Waits until two nodes have the same data, and checks that they have keys.
    pub(super) fn have_the_same(&self, one: usize, other: usize) {
        let (one, other) = (&self.members[one], &self.members[other]);
        until("the same data", || (one.digest() == other.digest()).then_some(()));
        assert_ne!(one.client().send("DBSIZE\r\n").line(), ":0");
    }

    /// Starts writes that continue until the returned value is dropped.
    fn load(&self) -> Load {
        let mut command = Command::new(self.tools.join("valkey-benchmark"));
        command.args(["--cluster", "-p", &self.members[1].port().to_string(), "-t", "set,incr,lpush,hset"]);
        command.args(["-r", "500", "-n", "100000000", "-c", "2", "-q"]);
        Load(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

/// A running `valkey-benchmark`, killed on drop.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Executes CLUSTER FAILOVER without an option, with FORCE and with TAKEOVER, in alternating directions,
/// while clients write.
fn fail_over_by_hand(kinds: &str) {
    let Some(group) = strangers(kinds) else { return };
    group.create(3, "0");
    group.follow(3, 0);
    let (mut primary, mut replica) = (0, 3);
    for how in ["", " FORCE", " TAKEOVER"] {
        let (old, new) = (&group.members[primary], &group.members[replica]);
        // The benchmark is started for each failover, because it ends once it is redirected to a node that
        // was no primary at its start.
        let _load = group.load();
        let end_of_stream = || old.client().info_number("master_repl_offset");
        let before = end_of_stream();
        until("writes", || (end_of_stream() > before + 100_000).then_some(()));
        new.client().check(&format!("CLUSTER FAILOVER{how}"), "+OK\r\n");
        until("the roles to change", || (new.is_primary() && old.follows()).then_some(()));
        group.is_well(4);
        (primary, replica) = (replica, primary);
    }
    group.have_the_same(primary, replica);
}

#[test]
fn failovers_by_hand_under_load_among_nodes_of_ours() {
    fail_over_by_hand("oooo");
}

#[test]
fn failovers_by_hand_under_load_between_a_stock_primary_and_a_replica_of_ours() {
    fail_over_by_hand("soso");
}

#[test]
fn failovers_by_hand_under_load_between_a_primary_of_ours_and_a_stock_replica() {
    fail_over_by_hand("osos");
}

/// Suspends the primary for longer than the node timeout, and later kills its successor. Each time the other
/// node must take over.
fn replace(kinds: &str) {
    let Some(mut group) = strangers(kinds) else { return };
    group.create(3, "0");
    group.follow(3, 0);
    drop(group.load());
    group.members[0].signal("STOP");
    until("the replica to take over", || group.members[3].is_primary().then_some(()));
    group.members[0].signal("CONT");
    until("the old primary to follow", || group.members[0].follows().then_some(()));
    group.is_well(4);
    group.members[3].signal("KILL");
    until("the replica to take over", || group.members[0].is_primary().then_some(()));
    if let Member::Ours(node) = group.members.remove(3) {
        group.members.push(Member::Ours(node.kill_and_restart()));
        until("the old primary to follow", || group.members[3].follows().then_some(()));
        group.is_well(4);
    }
}

#[test]
fn a_primary_that_stands_still_or_is_killed_is_replaced_among_nodes_of_ours() {
    replace("oooo");
}

#[test]
fn a_primary_that_stands_still_or_is_killed_is_replaced_by_a_replica_of_ours_with_stock_voters() {
    replace("osso");
}

#[test]
fn a_primary_that_stands_still_or_is_killed_is_replaced_by_a_stock_replica_with_voters_of_ours() {
    replace("ooos");
}

/// Runs the subcommands of `valkey-cli --cluster` with eight nodes, the last two of which join a cluster of
/// six.
fn look_after(kinds: &str) {
    let Some(group) = strangers(kinds) else { return };
    group.create(6, "1");
    let addresses: Vec<String> = group.members.iter().map(Member::address).collect();
    let at = addresses[0].as_str();
    assert!(group.done(&["info", at]).contains("0 keys in 3 primaries"));
    assert_eq!(group.done(&["call", at, "ping"]).matches("PONG").count(), 6);
    let load = group.load();
    let (from, to) = (group.members[0].id(), group.members[1].id());
    let reshard = ["reshard", at, "--cluster-from", &from, "--cluster-to", &to, "--cluster-yes"];
    group.done(&[&reshard[..], &["--cluster-slots", "4"]].concat());
    drop(load);
    group.is_well(6);
    group.done(&["add-node", &addresses[6], at]);
    until("the new node to be known", || {
        let id = group.members[6].id();
        let knows =
            |member: &Member| super::nodes(&mut member.client()).iter().any(|line| line.starts_with(&id));
        group.members[..6].iter().all(knows).then_some(())
    });
    let new = group.members[6].id();
    group.done(&["add-node", &addresses[7], at, "--cluster-replica", "--cluster-primary-id", &new]);
    until("the new replica to follow", || group.members[7].follows().then_some(()));
    // The steps below need both conditions, because a node cannot forget a node that it does not know, and a
    // node that has just joined gets no keys.
    group.all_know(7, &group.members[7], &group.members[6]);
    group.is_well(8);
    group.done(&[
        "reshard",
        at,
        "--cluster-from",
        &to,
        "--cluster-to",
        &new,
        "--cluster-slots",
        "2",
        "--cluster-yes",
    ]);
    let (text, is_content) = group.says(&["del-node", at, &new]);
    assert!(!is_content && text.contains("is not empty! Reshard data away and try again."), "{text}");
    group.done(&["del-node", at, &group.members[7].id()]);
    group.done(&["rebalance", at, "--cluster-weight", &format!("{new}=0")]);
    group.done(&["del-node", at, &new]);
    group.is_well(6);
    // A slot is left open, which `fix` must mend.
    let mut source = group.members[0].client();
    source.check(&format!("CLUSTER SETSLOT 5000 MIGRATING {to}"), "+OK\r\n");
    group.members[1].client().check(&format!("CLUSTER SETSLOT 5000 IMPORTING {from}"), "+OK\r\n");
    let (text, _) = group.says(&["check", at]);
    assert!(text.contains("The following slots are open: 5000."), "{text}");
    group.says(&["fix", at]);
    group.is_well(6);
    let backup = Dir::new();
    group.done(&["backup", at, &backup.join("")]);
    let files = std::fs::read_dir(backup.path()).unwrap().count();
    assert_eq!(files, 4, "three primaries' data, and nodes.json");
}

#[test]
fn the_references_tool_looks_after_a_cluster_of_ours() {
    look_after("oooooooo");
}

#[test]
fn the_references_tool_looks_after_a_cluster_every_second_node_of_which_is_stock() {
    look_after("osososos");
}

/// Two hundred keys of the slots 100 to 300, and two hundred keys of slots of the second of three primaries.
pub(super) fn keys_to_move() -> (Vec<String>, Vec<String>) {
    let (mut moved, mut others) = (Vec::new(), Vec::new());
    for number in 0..100_000 {
        let key = format!("key:{number}");
        match sluice_base::key_slot(key.as_bytes()) {
            100..=300 => moved.push(key),
            6_000..=6_200 => others.push(key),
            _ => {}
        }
    }
    moved.truncate(200);
    others.truncate(200);
    (moved, others)
}

/// The texts in a node's array reply.
fn names_of(client: &mut Client) -> Vec<String> {
    let count: usize = client.line().trim_start_matches('*').parse().unwrap();
    (0..count)
        .map(|_| {
            client.line();
            client.line()
        })
        .collect()
}

/// A node's data as shown by commands over the whole keyspace.
fn shown(member: &Member) -> (String, Vec<String>, Vec<String>) {
    let mut client = member.client();
    let sort = |mut names: Vec<String>| {
        names.sort_unstable();
        names.dedup();
        names
    };
    client.send("KEYS *\r\n");
    let all = sort(names_of(&mut client));
    let (mut cursor, mut scanned) = ("0".to_owned(), Vec::new());
    loop {
        client.send(format!("SCAN {cursor} COUNT 50\r\n")).expect("*2\r\n").line();
        cursor = client.line();
        scanned.append(&mut names_of(&mut client));
        if cursor == "0" {
            break;
        }
    }
    (client.send("DBSIZE\r\n").line(), all, sort(scanned))
}

/// The number of keys of slots 100 to 300 that a node stores, visible or not.
pub(super) fn has_of_moved(member: &Member) -> usize {
    let mut client = member.client();
    let count = |slot: u16| client.send(format!("CLUSTER COUNTKEYSINSLOT {slot}\r\n")).line();
    (100..=300).map(count).map(|line| line.trim_start_matches(':').parse::<usize>().unwrap()).sum()
}

/// The three primaries are the reference's. The second primary has three replicas: one of ours, one of the
/// reference, and another of ours that joins while slots are being moved.
#[test]
fn cb_g13_slots_on_their_way_to_a_stock_primary_are_hidden_at_its_replicas_of_ours() {
    let Some(group) = strangers("sssoso") else { return };
    group.create(3, "0");
    group.follow(3, 1);
    group.follow(4, 1);
    group.is_well(5);
    // Without this setting, a replica of the primary with three replicas would migrate to a primary without
    // replicas.
    for at in [3, 4, 5] {
        group.members[at].client().check("CONFIG SET cluster-allow-replica-migration no", "+OK\r\n");
    }
    let (moved, others) = keys_to_move();
    let (mut source, target) = (group.members[0].client(), &group.members[1]);
    let mut own = target.client();
    for key in &moved {
        source.check(&format!("SET {key} v"), "+OK\r\n");
    }
    for key in &others {
        own.check(&format!("SET {key} v"), "+OK\r\n");
    }
    let begin = |source: &mut Client| {
        source.check("DEBUG SLOTMIGRATION PREVENT-PAUSE 1", "+OK\r\n");
        let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 100 200 201 300 NODE {}", target.id());
        source.check(&line, "+OK\r\n");
    };
    let have_come = |replicas: &[usize]| {
        for at in replicas {
            until("the keys to come", || (has_of_moved(&group.members[*at]) == 200).then_some(()));
        }
    };
    let show_the_same = |replicas: &[usize], count: &str| {
        let wanted = shown(target);
        assert_eq!(wanted.0, count, "of the stock primary");
        for at in replicas {
            let replica = &group.members[*at];
            assert_eq!(shown(replica), wanted, "{at}");
            assert_eq!(replica.digest(), target.digest(), "{at}");
            let line = |member: &Member| member.client().info("db0");
            let keys = |member: &Member| line(member).split(',').next().map(str::to_owned);
            assert_eq!(keys(replica), keys(target), "{at}");
        }
    };
    // The first move is held open, and then cancelled.
    begin(&mut source);
    have_come(&[3, 4]);
    show_the_same(&[3, 4], ":200");
    for _ in 0..50 {
        let drawn = group.members[3].client().bulk("RANDOMKEY");
        assert!(others.iter().any(|key| key.as_bytes() == drawn), "{}", drawn.escape_ascii());
    }
    source.check("CLUSTER CANCELSLOTMIGRATIONS", "+OK\r\n");
    for at in [1, 3, 4] {
        until("the keys to go", || (has_of_moved(&group.members[at]) == 0).then_some(()));
    }
    show_the_same(&[3, 4], ":200");
    // During another move, a new replica learns about the move from its full sync.
    begin(&mut source);
    have_come(&[3, 4]);
    group.follow(5, 1);
    have_come(&[5]);
    show_the_same(&[3, 4, 5], ":200");
    source.check("DEBUG SLOTMIGRATION PREVENT-PAUSE 0", "+OK\r\n");
    for at in [1, 3, 4, 5] {
        let member = &group.members[at];
        until("the keys to be shown", || (member.client().send("DBSIZE\r\n").line() == ":400").then_some(()));
    }
    show_the_same(&[3, 4, 5], ":400");
}

/// The three primaries are the reference's. The second primary's replica is ours, and takes over while slots
/// are being moved.
#[test]
fn cb_a60_a_replica_of_ours_takes_over_from_a_stock_primary_that_imports() {
    let Some(group) = strangers("ssso") else { return };
    group.create(3, "0");
    group.follow(3, 1);
    group.is_well(4);
    let (moved, others) = keys_to_move();
    let (mut source, target) = (group.members[0].client(), &group.members[1]);
    let (mut own, ours) = (target.client(), &group.members[3]);
    for (key, other) in moved.iter().zip(&others) {
        source.check(&format!("SET {key} v"), "+OK\r\n");
        own.check(&format!("SET {other} v"), "+OK\r\n");
    }
    source.check("DEBUG SLOTMIGRATION PREVENT-PAUSE 1", "+OK\r\n");
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 100 300 NODE {}", target.id());
    source.check(&line, "+OK\r\n");
    until("the keys to come", || (has_of_moved(ours) == 200).then_some(()));
    ours.client().check("CLUSTER FAILOVER", "+OK\r\n");
    until("the roles to change", || (ours.is_primary() && target.follows()).then_some(()));
    for member in [ours, target] {
        until("the keys to go", || (has_of_moved(member) == 0).then_some(()));
    }
    until("the same data", || (ours.digest() == target.digest()).then_some(()));
    assert_eq!((shown(ours).0, shown(target).0), (":200".to_owned(), ":200".to_owned()));
    assert_eq!(has_of_moved(&group.members[0]), 200, "the source keeps them");
}

#[test]
fn slots_migrate_between_stock_primaries_whose_replicas_are_ours() {
    let Some(group) = strangers("sssoo") else { return };
    group.create(3, "0");
    group.follow(3, 0);
    group.follow(4, 1);
    group.is_well(5);
    let load = group.load();
    for (from, to) in [(0, 1), (1, 0)] {
        let id = group.members[to].id();
        group.members[from]
            .client()
            .check(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE 100 300 NODE {id}"), "+OK\r\n");
        until("the replicas to know the new owner", || {
            let owns = |line: &String| {
                line.starts_with(&id)
                    && line.split(' ').skip(8).any(|slots| {
                        let mut ends = slots.split('-').map_while(|end| end.parse::<u16>().ok());
                        let (first, last) = (ends.next(), ends.next());
                        first.is_some_and(|first| first <= 100) && last.is_some_and(|last| last >= 300)
                    })
            };
            let knows = |at: usize| super::nodes(&mut group.members[at].client()).iter().any(owns);
            (knows(3) && knows(4)).then_some(())
        });
    }
    drop(load);
    group.have_the_same(0, 3);
    group.have_the_same(1, 4);
    // A replica that has received complete moves takes over.
    group.members[3].client().check("CLUSTER FAILOVER", "+OK\r\n");
    until("the roles to change", || {
        (group.members[3].is_primary() && group.members[0].follows()).then_some(())
    });
    group.have_the_same(0, 3);
}
