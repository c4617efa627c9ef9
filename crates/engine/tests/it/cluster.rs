//! Tests of a cluster node: the CLUSTER commands, their replies, and when the replies are sent. Some tests
//! check replies that a server without cluster mode also gives.

use sluice_base::{Bytes, Now};
use sluice_cluster::{
    BusLane, Cluster, ClusterEpoch, ClusterInput, ClusterOutput, ClusterSettings, DialMoment, Generation,
    HashSlot, LinkKey, NodeAddress, NodeId, NodeLabels, OwnLine, PublishScope, SavedCluster, SavedEpochs,
    SavedNode, SavedRole, ShardId, SlotSet,
};
use sluice_control::cluster::mode::{ClusterMode, Emptying};
use sluice_control::cluster::order::BusOrder;
use sluice_testkit::{Rig, request_of};

pub(crate) const ME: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
pub(crate) const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
pub(crate) const REPLICA: &str = "cccccccccccccccccccccccccccccccccccccccc";

fn id(text: &str) -> NodeId {
    NodeId::parse(text.as_bytes()).unwrap()
}

pub(crate) fn slots(ranges: &[(u16, u16)]) -> SlotSet {
    let mut set = SlotSet::EMPTY;
    for slot in ranges.iter().flat_map(|(first, last)| *first..=*last) {
        set.insert(HashSlot::new(slot).unwrap());
    }
    set
}

pub(crate) fn node(text: &str, port: u16, role: SavedRole, slots: SlotSet) -> SavedNode {
    let shard = match role {
        SavedRole::Replica(Some(primary)) => primary.to_string(),
        SavedRole::Replica(None) | SavedRole::Primary | SavedRole::Unknown => text.to_owned(),
    };
    SavedNode {
        id: id(text),
        address: NodeAddress { ip: "10.0.0.1".into(), tcp_port: port, tls_port: 0, bus_port: port + 10_000 },
        labels: NodeLabels::default(),
        shard: ShardId::parse(shard.as_bytes()),
        role,
        is_failed: false,
        is_without_address: false,
        no_failover: false,
        config_epoch: ClusterEpoch(u64::from(port)),
        slots,
    }
}

/// Two primaries, of which this node is the first, and a replica of the second.
pub(crate) fn two_shards() -> SavedCluster {
    SavedCluster {
        me: node(ME, 7000, SavedRole::Primary, slots(&[(0, 8191)])),
        own_line: OwnLine::Whole,
        others: vec![
            node(OTHER, 7001, SavedRole::Primary, slots(&[(8192, 16383)])),
            node(REPLICA, 7002, SavedRole::Replica(Some(id(OTHER))), SlotSet::EMPTY),
        ],
        migrating: Vec::new(),
        importing: Vec::new(),
        epochs: SavedEpochs { current: ClusterEpoch(7001), last_vote: Some(ClusterEpoch(0)) },
    }
}

#[test]
fn cb_k1_without_cluster_mode_every_subcommand_says_so() {
    let mut rig = Rig::new();
    for line in ["CLUSTER HELP", "CLUSTER NODES", "CLUSTER ADDSLOTS 1", "CLUSTER MEET a 1"] {
        rig.check(line, "-ERR This instance has cluster support disabled");
    }
    rig.check("CLUSTER foo", "-ERR unknown subcommand 'foo'. Try CLUSTER HELP.");
    rig.check("CLUSTER INFO x", "-ERR wrong number of arguments for 'cluster|info' command");
}

#[test]
fn cb_k10_k18_errors_are_the_references() {
    let mut rig = Rig::node(None, &[]);
    let myself = rig.run("CLUSTER MYID").trim_matches('"').to_owned();
    for (line, error) in [
        ("meet 127.0.0.1 abc", "Invalid base port specified: abc"),
        ("meet 127.0.0.1 99999", "Port number is out of range"),
        ("meet 127.0.0.1 0", "Port number is out of range"),
        ("meet 127.0.0.1 -5", "Port number is out of range"),
        ("meet 127.0.0.1 60000", "Cluster bus port number is out of range"),
        ("meet 127.0.0.1 6000 abc", "Invalid bus port specified: abc"),
        ("meet 127.0.0.1 6000 99999", "Cluster bus port number is out of range"),
        ("meet 127.0.0.1 6000 0", "Cluster bus port number is out of range"),
        ("meet foo 6000", "Invalid node address specified: foo:6000"),
        (
            "meet foo 6000 1 2",
            "unknown subcommand or wrong number of arguments for 'meet'. Try CLUSTER HELP.",
        ),
        ("addslots 1 a", "Invalid or out of range slot"),
        ("addslots 1 16384", "Invalid or out of range slot"),
        ("addslots -1", "Invalid or out of range slot"),
        ("addslots 1 1", "Slot 1 specified multiple times"),
        ("addslotsrange 1 2 3", "wrong number of arguments for 'cluster|addslotsrange' command"),
        ("delslotsrange 1 2 3", "wrong number of arguments for 'cluster|delslotsrange' command"),
        ("addslotsrange 3 1", "start slot number 3 is greater than end slot number 1"),
        ("addslotsrange 1 x", "Invalid or out of range slot"),
        ("addslotsrange 0 16383 0 16383 0 16383", "Slot 0 specified multiple times"),
        ("delslots 5", "Slot 5 is already unassigned"),
        ("forget abc", "Unknown node abc"),
        ("replicate abc", "Unknown node abc"),
        ("replicate NO", "Unknown node NO"),
        (
            "replicate NO ONE X",
            "unknown subcommand or wrong number of arguments for 'replicate'. Try CLUSTER HELP.",
        ),
        (
            "replicate a b",
            "unknown subcommand or wrong number of arguments for 'replicate'. Try CLUSTER HELP.",
        ),
        ("reset foo", "syntax error"),
        ("reset SOFT x", "unknown subcommand or wrong number of arguments for 'reset'. Try CLUSTER HELP."),
        ("set-config-epoch abc", "value is not an integer or out of range"),
        ("set-config-epoch -1", "Invalid config epoch specified: -1"),
        ("count-failure-reports abc", "Unknown node abc"),
        ("replicas abc", "Unknown node abc"),
        ("setslot 1 foo", "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"),
        ("setslot 1 node abc", "Unknown node abc"),
        ("setslot x stable", "Invalid or out of range slot"),
        ("setslot 1 importing abc", "I don't know about node abc"),
        ("setslot 1 migrating abc", "I'm not the owner of hash slot 1"),
        ("setslot 1 stable TIMEOUT", "Missing timeout value"),
        ("setslot 1 stable TIMEOUT -1", "timeout is negative"),
        ("setslot 1 stable TIMEOUT x", "timeout is not an integer or out of range"),
    ] {
        rig.check(&format!("CLUSTER {line}"), &format!("-ERR {error}"));
    }
    rig.check(&format!("CLUSTER REPLICATE {myself}"), "-ERR Can't replicate myself");
    rig.check(&format!("CLUSTER FORGET {myself}"), "-ERR I tried hard but I can't forget myself...");
    rig.check(&format!("CLUSTER SETSLOT 1 IMPORTING {myself}"), "-ERR Target node is myself");
}

#[test]
fn cb_k25_an_answer_waits_until_its_file_is_durable_and_nobody_else_does() {
    let mut rig = Rig::node(None, &[]);
    rig.holds_saves = true;
    let operator = rig.connect();
    rig.argv_unread(operator, &[b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"16383"]);
    assert_eq!(rig.output(operator), b"", "the file is not durable");
    rig.check("PING", "+PONG");
    let saves: Vec<_> =
        rig.orders.drain(..).filter(|order| matches!(order, BusOrder::Persist { .. })).collect();
    let [BusOrder::Persist { generation, file }] = &saves[..] else { panic!("one write: {saves:?}") };
    let text = String::from_utf8_lossy(file);
    assert!(text.contains(" 0-16383\n"), "{text}");
    rig.step_cluster(&ClusterInput::Saved { generation: *generation });
    assert_eq!(rig.output(operator), b"+OK\r\n");
    // A refused command changes nothing, so its reply does not wait for a file.
    rig.check("CLUSTER ADDSLOTS 1", "-ERR Slot 1 is already busy");
}

#[test]
fn cb_k10_the_first_slot_that_is_wrong_is_told_and_nothing_changes() {
    let mut rig = Rig::node(None, &[]);
    rig.check("CLUSTER ADDSLOTSRANGE 5 9", "+OK");
    const BAD: &str = "-ERR Invalid or out of range slot";
    for (line, reply) in [
        ("CLUSTER ADDSLOTS 1 5 x", BAD),
        ("CLUSTER ADDSLOTS 1 x 5", BAD),
        ("CLUSTER ADDSLOTS 1 1 5", "-ERR Slot 1 specified multiple times"),
        ("CLUSTER ADDSLOTS 1 1 16384", BAD),
        ("CLUSTER ADDSLOTS 1 5 1", "-ERR Slot 5 is already busy"),
        ("CLUSTER ADDSLOTSRANGE 1 5 7 x", "-ERR Slot 5 is already busy"),
        ("CLUSTER ADDSLOTSRANGE 1 4 7 x", BAD),
        ("CLUSTER ADDSLOTSRANGE 1 4 1 5 3 2", "-ERR Slot 1 specified multiple times"),
        ("CLUSTER ADDSLOTSRANGE 1 4 3 2", "-ERR start slot number 3 is greater than end slot number 2"),
        ("CLUSTER ADDSLOTSRANGE 1 5 x", "-ERR wrong number of arguments for 'cluster|addslotsrange' command"),
        ("CLUSTER DELSLOTS 5 4 x", BAD),
        ("CLUSTER DELSLOTS 5 4 5", "-ERR Slot 4 is already unassigned"),
        ("CLUSTER DELSLOTS 5 5 4", "-ERR Slot 5 specified multiple times"),
        ("CLUSTER DELSLOTSRANGE 5 9 4 x", BAD),
        ("CLUSTER DELSLOTSRANGE 5 10 4 x", "-ERR Slot 10 is already unassigned"),
    ] {
        rig.check(line, reply);
    }
    assert!(rig.run("CLUSTER NODES").contains(" 5-9\\n"), "{}", rig.run("CLUSTER NODES"));
}

#[test]
fn cb_k8_in_a_transaction_the_answer_comes_at_once() {
    let mut rig = Rig::node(None, &[]);
    rig.holds_saves = true;
    rig.check("MULTI", "+OK");
    rig.check("CLUSTER ADDSLOTS 1 2", "+QUEUED");
    rig.check("CLUSTER ADDSLOTS 2 3", "+QUEUED");
    rig.check("EXEC", "[+OK, -ERR Slot 2 is already busy]");
    assert!(rig.run("CLUSTER NODES").contains(" 1-2\\n"), "{}", rig.run("CLUSTER NODES"));
}

#[test]
fn cb_k30_nodes_are_lines() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000"), ("cluster-announce-ip", "10.0.0.1")]);
    let text = rig.run("CLUSTER NODES");
    let lines: Vec<Vec<&str>> =
        text.trim_matches('"').split_terminator("\\n").map(|line| line.split(' ').collect()).collect();
    let columns = |line: &[&str]| [&line[..4], &line[6..]].concat().join(" ");
    let shown: Vec<String> = lines.iter().map(|line| columns(line)).collect();
    let expected = [
        format!("{ME} 10.0.0.1:7000@17000 myself,master - 7000 connected 0-8191"),
        format!("{OTHER} 10.0.0.1:7001@17001 master - 7001 disconnected 8192-16383"),
        format!("{REPLICA} 10.0.0.1:7002@17002 slave {OTHER} 7001 disconnected"),
    ];
    assert_eq!(shown, expected, "{text}");
    let lines = rig.run(&format!("CLUSTER REPLICAS {OTHER}"));
    assert!(lines.starts_with(&format!("[\"{REPLICA} ")) && !lines.contains("\\n"), "{lines}");
    rig.check(&format!("CLUSTER SLAVES {REPLICA}"), "-ERR The specified node is not a master");
}

#[test]
fn cb_k31_slots_name_the_owner_and_replicas_that_have_data() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000"), ("cluster-announce-ip", "10.0.0.1")]);
    let node = |port: u16, id: &str| format!("[\"10.0.0.1\", :{port}, \"{id}\", []]");
    let expected = format!("[[:0, :8191, {}], [:8192, :16383, {}]]", node(7000, ME), node(7001, OTHER));
    rig.check("CLUSTER SLOTS", &expected);
    // The second reply is a cached copy.
    rig.check("CLUSTER SLOTS", &expected);
    rig.check("CONFIG SET cluster-preferred-endpoint-type unknown-endpoint", "+OK");
    let node = |port: u16, id: &str| format!("[nil, :{port}, \"{id}\", [\"ip\", \"10.0.0.1\"]]");
    let expected = format!("[[:0, :8191, {}], [:8192, :16383, {}]]", node(7000, ME), node(7001, OTHER));
    rig.check("CLUSTER SLOTS", &expected);
}

#[test]
fn cb_o5_a_slot_is_given_away_when_its_keys_are_gone() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000")]);
    rig.check(&format!("CLUSTER SETSLOT 100 MIGRATING {REPLICA}"), "-ERR Target node is not a master");
    rig.check(&format!("CLUSTER SETSLOT 100 MIGRATING {OTHER}"), "+OK");
    let text = rig.run("CLUSTER NODES");
    assert!(text.contains(&format!("0-8191 [100->-{OTHER}]\\n")), "{text}");
    rig.check(&format!("CLUSTER SETSLOT 100 NODE {OTHER}"), "+OK");
    let text = rig.run("CLUSTER NODES");
    assert!(text.contains(" 0-99 101-8191\\n"), "{text}");
    assert!(text.contains(" 100 8192-16383"), "{text}");
}

#[test]
fn cb_k8_what_a_command_changes_is_in_force_for_the_next_one_of_anybody() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000")]);
    rig.pass_ms(2_100);
    rig.end_iteration();
    let (operator, client) = (rig.connect(), rig.connect());
    let slot = sluice_base::key_slot(b"{b}").to_string();
    rig.holds_saves = true;
    // These requests arrive in one iteration of the event loop.
    rig.argv_unread(client, &[b"SET", b"{b}0", b"v"]);
    rig.argv_unread(operator, &[b"CLUSTER", b"DELSLOTS", slot.as_bytes()]);
    rig.argv_unread(client, &[b"SET", b"{b}1", b"v"]);
    assert_eq!(rig.output(client), b"+OK\r\n-CLUSTERDOWN Hash slot not served\r\n");
    assert_eq!(rig.output(operator), b"", "its file is not durable");
    // A transaction is checked as a whole before its commands run; a command after it already sees its
    // changes.
    rig.argv_unread(operator, &[b"PING"]);
    rig.argv_unread(client, &[b"MULTI"]);
    rig.argv_unread(client, &[b"CLUSTER", b"DELSLOTS", b"1"]);
    rig.argv_unread(client, &[b"EXEC"]);
    let key = (0..).map(|n| format!("k{n}")).find(|key| sluice_base::key_slot(key.as_bytes()) == 1).unwrap();
    rig.argv_unread(client, &[b"GET", key.as_bytes()]);
    let replies = b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n-CLUSTERDOWN Hash slot not served\r\n";
    assert_eq!(rig.output(client).escape_ascii().to_string(), replies.escape_ascii().to_string());
}

#[test]
fn cb_o3_replicas_have_an_open_slot_before_their_primary() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000")]);
    let replica = rig.replica();
    rig.fed(replica);
    let operator = rig.connect();
    let line = format!("CLUSTER SETSLOT 100 MIGRATING {OTHER}");
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    rig.argv_unread(operator, &words);
    assert_eq!(rig.output(operator), b"");
    assert!(!rig.run("CLUSTER NODES").contains("[100"), "no replica has it");
    let told = rig.fed(replica);
    assert!(told.starts_with(&line), "{told}");
    let offset = rig.run("INFO replication");
    let offset = offset.split("master_repl_offset:").nth(1).unwrap().split("\\r").next().unwrap().to_owned();
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", offset.as_bytes()]);
    rig.end_iteration();
    assert_eq!(rig.output(operator), b"+OK\r\n");
    assert!(rig.run("CLUSTER NODES").contains("[100->-"), "executed once");
    assert_eq!(rig.fed(replica), "", "told once");
    // No replica acknowledges the command.
    rig.argv_unread(operator, &[b"CLUSTER", b"SETSLOT", b"100", b"STABLE", b"TIMEOUT", b"500"]);
    rig.pass_ms(600);
    rig.cron();
    assert_eq!(rig.output(operator), b"-NOREPLICAS Not enough good replicas to write.\r\n");
    assert!(rig.run("CLUSTER NODES").contains("[100->-"));
}

#[test]
fn cb_k18_reset_forgets_the_others_and_the_slots() {
    let mut rig = Rig::node(Some(&two_shards()), &[]);
    rig.check("CLUSTER RESET", "+OK");
    let text = rig.run("CLUSTER NODES");
    assert!(text.contains(ME) && !text.contains(OTHER) && !text.contains("0-8191"), "{text}");
    rig.check("CLUSTER RESET HARD", "+OK");
    assert!(!rig.run("CLUSTER NODES").contains(ME));
    rig.check("CLUSTER SLOTS", "[]");
}

/// Nodes whose cluster buses are connected; each message arrives at once.
pub(crate) struct Buses {
    pub(crate) nodes: Vec<(u16, Rig)>,
    /// Both ends of each connection, by node and link.
    joined: Vec<[(usize, LinkKey); 2]>,
    /// Writes of `nodes.conf` that are held, with their nodes.
    standing: Vec<(usize, Generation)>,
}

impl Buses {
    fn new(nodes: Vec<(u16, Rig)>) -> Buses {
        Buses { nodes, joined: Vec::new(), standing: Vec::new() }
    }

    fn other_end(&self, end: (usize, LinkKey)) -> Option<(usize, LinkKey)> {
        self.joined.iter().find_map(|ends| match ends {
            [one, other] if *one == end => Some(*other),
            [other, one] if *one == end => Some(*other),
            _ => None,
        })
    }

    /// Lets time pass, and delivers all bus messages that are sent during this time.
    pub(crate) fn pass_ms(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            for at in 0..self.nodes.len() {
                self.nodes[at].1.pass_ms(100);
                self.nodes[at].1.cron();
                self.nodes[at].1.end_iteration();
            }
            while (0..self.nodes.len()).any(|at| self.carry_out(at)) {}
        }
    }

    /// Carries out the orders of a node to its bus. Returns whether there were any.
    fn carry_out(&mut self, at: usize) -> bool {
        let orders = std::mem::take(&mut self.nodes[at].1.orders);
        let any = !orders.is_empty();
        for order in orders {
            match order {
                BusOrder::Dial { link, port, .. } => self.dial(at, link, port),
                BusOrder::Send { link, message, lane } => {
                    let sent = ClusterInput::Sent { link, lane, bytes: message.len() };
                    self.nodes[at].1.step_cluster(&sent);
                    if let Some((to, link)) = self.other_end((at, link)) {
                        let input = ClusterInput::ReceivedMessage { link, bytes: &message };
                        self.nodes[to].1.step_cluster(&input);
                    }
                }
                BusOrder::Close { link } => {
                    if let Some((to, link)) = self.other_end((at, link)) {
                        self.nodes[to].1.step_cluster(&ClusterInput::Closed { link });
                    }
                    self.joined.retain(|ends| !ends.contains(&(at, link)));
                }
                BusOrder::Persist { generation, .. } if self.nodes[at].1.holds_saves => {
                    self.standing.push((at, generation));
                }
                BusOrder::Resolve { .. } | BusOrder::Persist { .. } | BusOrder::End => {
                    panic!("not asked for here: {order:?}")
                }
            }
        }
        any
    }

    /// Completes the held writes of `nodes.conf` successfully; later writes complete at once.
    fn save(&mut self) {
        self.nodes.iter_mut().for_each(|(_, rig)| rig.holds_saves = false);
        for (at, generation) in std::mem::take(&mut self.standing) {
            self.nodes[at].1.step_cluster(&ClusterInput::Saved { generation });
        }
    }

    fn dial(&mut self, at: usize, link: LinkKey, port: u16) {
        let Some(to) = self.nodes.iter().position(|(own, _)| own + 10_000 == port) else {
            let moment = DialMoment::Later;
            return self.nodes[at].1.step_cluster(&ClusterInput::DialFailed { link, moment });
        };
        let ip = "10.0.0.1".parse().unwrap();
        let rig = &mut self.nodes[to].1;
        let accepted = rig.engine.accept_bus_link(ip, ip, &mut rig.process).expect("there is room");
        self.joined.push([(at, link), (to, accepted)]);
        self.nodes[at].1.step_cluster(&ClusterInput::Connected { link });
    }
}

fn node_at(port: u16) -> (u16, Rig) {
    (port, Rig::node(None, &[("port", &port.to_string()), ("cluster-announce-ip", "10.0.0.1")]))
}

#[test]
fn cl_g12_two_nodes_meet_and_serve_once_all_slots_have_an_owner() {
    let mut buses = Buses::new(vec![node_at(7000), node_at(7001)]);
    buses.nodes[0].1.check("CLUSTER ADDSLOTSRANGE 0 8191", "+OK");
    buses.nodes[1].1.check("CLUSTER ADDSLOTSRANGE 8192 16383", "+OK");
    buses.nodes[1].1.check("CLUSTER SET-CONFIG-EPOCH 2", "+OK");
    buses.nodes[0].1.check("CLUSTER MEET 10.0.0.1 7001", "+OK");
    buses.pass_ms(5_000);
    for (port, rig) in &mut buses.nodes {
        let info = rig.run("CLUSTER INFO");
        assert!(
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2"),
            "{port}: {info}"
        );
        let nodes = rig.run("CLUSTER NODES");
        assert!(nodes.contains(" connected 0-8191\\n") && nodes.contains(" connected 8192-16383"), "{nodes}");
        assert_eq!(rig.run("CLUSTER LINKS").matches("direction").count(), 2);
    }
}

#[test]
fn cl_r30_keys_of_others_stay_until_their_owner_has_spoken() {
    let directives = [("port", "7000"), ("cluster-enabled", "yes"), ("cluster-announce-ip", "10.0.0.1")];
    let mut rig = Rig::with(&directives);
    rig.check("DEBUG POPULATE 300", "+OK");
    rig.engine.begin_cluster(Some(&two_shards()), &[], &mut rig.process);
    let mut buses = Buses::new(vec![(7000, rig)]);
    buses.pass_ms(5_000);
    buses.nodes[0].1.check("DBSIZE", ":300");
    // The owner joins; its `nodes.conf` names this node and the replica.
    let (me, replica) = (two_shards().me, two_shards().others.remove(1));
    let saved = SavedCluster { me: two_shards().others.remove(0), others: vec![me, replica], ..two_shards() };
    let other = Rig::node(Some(&saved), &[("port", "7001"), ("cluster-announce-ip", "10.0.0.1")]);
    buses.nodes.push((7001, other));
    buses.pass_ms(5_000);
    let rig = &mut buses.nodes[0].1;
    let kept: usize =
        (0..300).filter(|n| sluice_base::key_slot(format!("key:{n}").as_bytes()) < 8192).count();
    rig.check("DBSIZE", &format!(":{kept}"));
    let line = format!("{} keys of ", 300 - kept);
    assert!(rig.process.log.iter().any(|(_, text)| text.starts_with(&line)), "{:?}", rig.process.log);
}

/// Three nodes with connected buses: two that serve half of the slots each, and a replica of the second.
pub(crate) fn joined() -> Buses {
    let saved = |me: usize| {
        let SavedCluster { me: first, others, .. } = two_shards();
        let mut nodes = [vec![first], others].concat();
        let me = nodes.remove(me);
        SavedCluster { me, others: nodes, ..two_shards() }
    };
    let nodes = (0..3_u16).map(|at| {
        let port = 7000 + at;
        let directives = [("port", &*port.to_string()), ("cluster-announce-ip", "10.0.0.1")];
        (port, Rig::node(Some(&saved(usize::from(at))), &directives))
    });
    let mut buses = Buses::new(nodes.collect());
    buses.pass_ms(5_000);
    buses
}

/// Keys of one slot, and the slot's number.
fn keys_of_a_slot(count: usize) -> (Vec<String>, u16) {
    ((0..count).map(|n| format!("{{a}}{n}")).collect(), sluice_base::key_slot(b"a"))
}

#[test]
fn cl_m3_a_failover_and_client_pause_do_not_end_each_other() {
    let mut buses = joined();
    let (_, slot) = keys_of_a_slot(1);
    assert!(slot > 8191, "of the second node");
    // The replication stream never reaches the node that is to take over, so the failover waits until it
    // times out.
    let replica = buses.nodes[1].1.replica();
    buses.nodes[1].1.fed(replica);
    buses.nodes[1].1.check("SET {a} 1", "+OK");
    buses.nodes[2].1.check("CLUSTER FAILOVER", "+OK");
    buses.pass_ms(200);
    let rig = &mut buses.nodes[1].1;
    let info = rig.run("INFO clients");
    assert!(info.contains("paused_reason:failover_in_progress\\r\\npaused_actions:write"), "{info}");
    let writer = rig.connect();
    rig.argv_unread(writer, &[b"SET", b"{a}", b"2"]);
    assert_eq!(rig.output(writer), b"");
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.end_iteration();
    assert_eq!(rig.output(writer), b"", "the replica waits for an offset behind which nothing comes");
    rig.check("CLIENT PAUSE 100000 WRITE", "+OK");
    buses.pass_ms(6_000);
    let rig = &mut buses.nodes[1].1;
    assert!(rig.run("INFO clients").contains("paused_reason:client_pause"), "a client's pause goes on");
    assert_eq!(rig.output(writer), b"");
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.end_iteration();
    assert_eq!(rig.output(writer), b"+OK\r\n");
}

#[test]
fn cl_s26_a_pause_tells_the_offset_of_its_beginning() {
    let mut buses = joined();
    let replica = buses.nodes[1].1.replica();
    buses.nodes[1].1.fed(replica);
    buses.pass_ms(200);
    // A write and then the request for a failover arrive between two ticks.
    buses.nodes[1].1.check("SET {a} 1", "+OK");
    buses.nodes[2].1.check("CLUSTER FAILOVER", "+OK");
    while (0..3).any(|at| buses.carry_out(at)) {}
    let info = buses.nodes[1].1.run("INFO replication");
    let offset = info.split("master_repl_offset:").nth(1).unwrap().split("\\r").next().unwrap().to_owned();
    let line = format!("Received replication offset for paused primary manual failover: {offset}");
    let log = &buses.nodes[2].1.process.log;
    assert!(log.iter().any(|(_, text)| *text == line), "{line}: {log:?}");
}

#[test]
fn cb_g22_keys_of_a_slot_that_comes_back_are_not_deleted() {
    let mut buses = joined();
    let (keys, slot) = keys_of_a_slot(500);
    let rig = &mut buses.nodes[1].1;
    keys.iter().for_each(|key| rig.check(&format!("SET {key} 1"), "+OK"));
    // The first node takes the slot, with a higher epoch.
    let first = &mut buses.nodes[0].1;
    first.check(&format!("CLUSTER SETSLOT {slot} NODE {ME}"), "+OK");
    first.check("CLUSTER BUMPEPOCH", "+BUMPED 7002");
    first.pass_ms(2_000);
    first.cron();
    first.end_iteration();
    for order in std::mem::take(&mut buses.nodes[0].1.orders) {
        let BusOrder::Send { link, message, .. } = order else { continue };
        let Some((1, link)) = buses.other_end((0, link)) else { continue };
        let (_, Rig { engine, process, .. }) = &mut buses.nodes[1];
        engine.step_cluster(&ClusterInput::ReceivedMessage { link, bytes: &message }, process);
    }
    // In the same iteration an operator moves the slot back.
    let rig = &mut buses.nodes[1].1;
    assert!(
        rig.process
            .log
            .iter()
            .any(|(_, text)| *text == format!("Deleting keys in dirty slot {slot}: 500 keys"))
    );
    rig.check(&format!("CLUSTER SETSLOT {slot} NODE {OTHER}"), "+OK");
    rig.check("DBSIZE", ":500");
}

#[test]
fn cb_g22_a_slot_that_comes_back_when_some_of_its_keys_are_gone_comes_back_empty() {
    let mut buses = joined();
    let (keys, slot) = keys_of_a_slot(500);
    let rig = &mut buses.nodes[1].1;
    keys.iter().for_each(|key| rig.check(&format!("SET {key} 1"), "+OK"));
    // Each reading of the clock advances it by 1.5 ms, so a time slice for deleting the lost slot's keys ends
    // at once.
    rig.process.us_each_look = 1_500;
    let first = &mut buses.nodes[0].1;
    first.check(&format!("CLUSTER SETSLOT {slot} NODE {ME}"), "+OK");
    first.check("CLUSTER BUMPEPOCH", "+BUMPED 7002");
    let left = |rig: &mut Rig| rig.engine.keyspace().db(0).len();
    while left(&mut buses.nodes[1].1) == 500 {
        buses.pass_ms(100);
    }
    let rig = &mut buses.nodes[1].1;
    assert!(left(rig) > 0, "one slice");
    // Commands no longer find the remaining keys.
    rig.check("DBSIZE", ":0");
    rig.check("SCAN 0", "[\"0\", []]");
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {slot}"), ":0");
    rig.engine.begin_aof();
    rig.appended();
    let remain = left(rig);
    rig.check(&format!("CLUSTER SETSLOT {slot} NODE {OTHER}"), "+OK");
    rig.check("DBSIZE", ":0");
    assert_eq!(rig.engine.keyspace().db(0).len(), 0, "all at once");
    rig.check("SET {a} new", "+OK");
    // For each key that was left, and for no other key, the stream has UNLINK, a command that replicas of any
    // version know.
    let told = rig.appended();
    let told = told.strip_suffix(" SET {a} new").expect(&told);
    let unlinked: Vec<&str> = told.split(' ').filter(|word| word.starts_with("{a}")).collect();
    let others = told.split(' ').filter(|word| !word.starts_with("{a}") && *word != "UNLINK");
    assert_eq!(others.collect::<Vec<_>>(), ["SELECT", "0"]);
    assert_eq!(unlinked.len(), remain, "{told}");
    assert!(unlinked.iter().all(|word| keys.iter().any(|key| key == word)), "{told}");
    (0..500).for_each(|_| rig.end_iteration());
    assert_eq!(rig.appended(), "", "keys that are freed are told to nobody");
    rig.check("DBSIZE", ":1");
}

/// The second node has keys of this slot, and loses the slot to the first; the write of the second node's
/// file is held.
fn lost_ahead_of_its_file(keys: &[String], slot: u16) -> Buses {
    let mut buses = joined();
    let rig = &mut buses.nodes[1].1;
    keys.iter().for_each(|key| rig.check(&format!("SET {key} 1"), "+OK"));
    rig.holds_saves = true;
    let first = &mut buses.nodes[0].1;
    first.check(&format!("CLUSTER SETSLOT {slot} NODE {ME}"), "+OK");
    first.check("CLUSTER BUMPEPOCH", "+BUMPED 7002");
    buses.pass_ms(2_000);
    let rig = &mut buses.nodes[1].1;
    rig.check(&format!("GET {}", keys[0]), &format!("-MOVED {slot} 10.0.0.1:7000"));
    rig.check("DBSIZE", ":0");
    buses
}

#[test]
fn cl_e53_keys_of_a_lost_slot_go_when_the_file_is_without_the_slot() {
    let (keys, slot) = keys_of_a_slot(50);
    let mut buses = lost_ahead_of_its_file(&keys, slot);
    let left = |buses: &Buses| buses.nodes[1].1.engine.keyspace().db(0).len();
    assert_eq!(left(&buses), 50, "a start would take the slot for this node's");
    buses.save();
    buses.pass_ms(200);
    assert_eq!(left(&buses), 0);
}

#[test]
fn cl_e53_keys_for_a_lost_slot_wait_until_the_file_is_without_the_slot() {
    let (keys, slot) = keys_of_a_slot(50);
    let mut buses = lost_ahead_of_its_file(&keys, slot);
    let rig = &mut buses.nodes[1].1;
    // In a transaction the reply does not wait for the file.
    rig.check("MULTI", "+OK");
    rig.check(&format!("CLUSTER SETSLOT {slot} IMPORTING {ME}"), "+QUEUED");
    rig.check("EXEC", "[+OK]");
    rig.end_iteration();
    assert_eq!(rig.engine.keyspace().db(0).len(), 50);
    let client = rig.connect();
    rig.check_as(client, "ASKING", "+OK");
    rig.argv_unread(client, &[b"SET", b"{a}0", b"new"]);
    assert_eq!(rig.output(client), b"");
    buses.save();
    buses.pass_ms(200);
    let rig = &mut buses.nodes[1].1;
    assert_eq!(rig.output(client), b"+OK\r\n");
    rig.check("DBSIZE", ":1");
}

#[test]
fn cb_e11_keys_of_an_open_slot_that_another_node_claims_stay_for_importing() {
    for comes_back in [true, false] {
        let mut buses = joined();
        let (keys, slot) = keys_of_a_slot(50);
        let rig = &mut buses.nodes[1].1;
        keys.iter().for_each(|key| rig.check(&format!("SET {key} 1"), "+OK"));
        rig.check(&format!("CLUSTER SETSLOT {slot} MIGRATING {ME}"), "+OK");
        rig.engine.begin_aof();
        rig.appended();
        let first = &mut buses.nodes[0].1;
        first.check(&format!("CLUSTER SETSLOT {slot} NODE {ME}"), "+OK");
        first.check("CLUSTER BUMPEPOCH", "+BUMPED 7002");
        buses.pass_ms(2_000);
        let rig = &mut buses.nodes[1].1;
        assert!(rig.process.log.iter().any(|(_, text)| text.contains("its keys are kept for 30 s")));
        rig.check("DBSIZE", ":0");
        assert!(rig.engine.cluster_deadline_ns() > 0, "nothing to do until then");
        if comes_back {
            rig.check(&format!("CLUSTER SETSLOT {slot} IMPORTING {ME}"), "+OK");
            rig.check("DBSIZE", ":50");
            assert_eq!(rig.appended(), "");
            buses.pass_ms(40_000);
            buses.nodes[1].1.check("DBSIZE", ":50");
        } else {
            buses.pass_ms(30_000);
            let rig = &mut buses.nodes[1].1;
            assert_eq!(rig.engine.keyspace().db(0).len(), 0);
            assert_eq!(rig.appended().matches("UNLINK").count(), 50);
        }
    }
}

#[test]
fn cb_g22_what_a_lost_slot_has_left_makes_room_ahead_of_keys_and_of_refusals() {
    for policy in ["noeviction", "allkeys-lru"] {
        let mut buses = joined();
        let (keys, slot) = keys_of_a_slot(1000);
        let rig = &mut buses.nodes[1].1;
        let value = "v".repeat(100);
        keys.iter().for_each(|key| rig.check(&format!("SET {key} {value}"), "+OK"));
        let mut written = (0..).filter(|n| rig.run(&format!("SET o{n} {value}")) == "+OK");
        assert!(written.nth(199).is_some());
        // Each reading of the clock advances it by 1.5 ms, which ends a slice.
        rig.process.us_each_look = 1_500;
        let first = &mut buses.nodes[0].1;
        first.check(&format!("CLUSTER SETSLOT {slot} NODE {ME}"), "+OK");
        first.check("CLUSTER BUMPEPOCH", "+BUMPED 7002");
        while buses.nodes[1].1.engine.keyspace().db(0).len() == 1200 {
            buses.pass_ms(100);
        }
        let rig = &mut buses.nodes[1].1;
        rig.process.us_each_look = 0;
        (rig.process.facts.used_memory, rig.process.counts_data) = (0, true);
        let limit = rig.engine.keyspace().data_bytes();
        rig.check(&format!("CONFIG SET maxmemory {limit} maxmemory-policy {policy}"), "+OK");
        // These commands run in one iteration, without a slice of deletions in between.
        let names = (0..).map(|n| format!("p{n}"));
        let is_own = |name: &String| {
            let of = sluice_base::key_slot(name.as_bytes());
            of > 8_191 && of != slot
        };
        let own = names.filter(is_own).take(200);
        let batch: Vec<u8> = own.flat_map(|name| request_of(&format!("SET {name} {value}"))).collect();
        assert_eq!(rig.bytes(rig.client, &batch), b"+OK\r\n".repeat(200), "{policy}");
        rig.check("DBSIZE", ":400");
        assert!(rig.run("INFO stats").contains("evicted_keys:0\\r"), "{policy}");
    }
}

#[test]
fn cb_g22_the_slot_that_was_begun_is_emptied_first_and_known_no_longer() {
    let slot = |number: u16| HashSlot::new(number).unwrap();
    let mut emptying = Emptying::default();
    let next = |emptying: &Emptying| emptying.next(0, |_| true);
    emptying.slots.insert(slot(5));
    assert_eq!(emptying.next(0, |_| false), None);
    assert_eq!(next(&emptying), Some(slot(5)));
    emptying.begun = Some(slot(5));
    // A slot that is lost later is emptied later; otherwise two slots would be half empty.
    emptying.slots.insert(slot(3));
    assert_eq!(next(&emptying), Some(slot(5)));
    emptying.remove(slot(3));
    assert_eq!(emptying.begun, Some(slot(5)));
    emptying.remove(slot(5));
    // The slot is lost again, with other keys, of which none is deleted yet.
    emptying.slots.insert(slot(5));
    assert_eq!((emptying.begun, next(&emptying)), (None, Some(slot(5))));
}

#[test]
fn cb_g22_keys_of_a_slot_that_is_imported_are_new_ones() {
    let mut buses = joined();
    let (keys, slot) = keys_of_a_slot(500);
    let rig = &mut buses.nodes[1].1;
    keys.iter().for_each(|key| rig.check(&format!("SET {key} 1"), "+OK"));
    let first = &mut buses.nodes[0].1;
    first.check(&format!("CLUSTER SETSLOT {slot} NODE {ME}"), "+OK");
    first.check("CLUSTER BUMPEPOCH", "+BUMPED 7002");
    buses.pass_ms(2_000);
    let rig = &mut buses.nodes[1].1;
    rig.check("DBSIZE", ":0");
    rig.check(&format!("CLUSTER SETSLOT {slot} IMPORTING {ME}"), "+OK");
    rig.check("ASKING", "+OK");
    rig.check("SET {a} new", "+OK");
    buses.pass_ms(2_000);
    buses.nodes[1].1.check("DBSIZE", ":1");
}

#[test]
fn cb_t43_a_watched_key_of_another_slot_fails_the_transaction_as_any_other() {
    let mut buses = joined();
    let slot = sluice_base::key_slot(b"a");
    let (_, rig) = &mut buses.nodes[1];
    // Keys of two slots of this node: one key is watched, the other is used in the transaction.
    let other = (0..).map(|n| format!("o{n}")).find(|name| {
        sluice_base::key_slot(name.as_bytes()) != slot && rig.run(&format!("SET {name} 0")) == "+OK"
    });
    let other = other.unwrap();
    let by_expiry: &dyn Fn(&mut Rig) = &|rig| rig.pass_ms(60);
    for (name, change) in [
        ("expiry", by_expiry),
        ("FLUSHALL", &|rig| rig.check("FLUSHALL", "+OK")),
        ("FLUSHSLOT", &|rig| rig.check(&format!("CLUSTER FLUSHSLOT {slot}"), "+OK")),
    ] {
        rig.check("SET {a}x 1 PX 50", "+OK");
        let client = rig.connect();
        rig.check_as(client, "WATCH {a}x", "+OK");
        rig.check_as(client, "MULTI", "+OK");
        rig.check_as(client, &format!("SET {other} 1"), "+QUEUED");
        change(rig);
        rig.check_as(client, "EXEC", "nil-array");
        assert_ne!(rig.run(&format!("GET {other}")), "\"1\"", "{name}");
    }
}

#[test]
fn cl_m21_a_replica_that_begins_anew_has_no_data_and_no_functions() {
    let (me, others) = (two_shards().others.remove(1), vec![two_shards().me, two_shards().others.remove(0)]);
    let saved = SavedCluster { me, others, ..two_shards() };
    let directives =
        [("port", "7002"), ("cluster-enabled", "yes"), ("appendonly", "yes"), ("save", "3600 1")];
    let mut rig = Rig::with(&directives);
    rig.engine.begin_aof();
    rig.argv(
        rig.client,
        &[b"FUNCTION", b"LOAD", b"#!lua name=l\nredis.register_function('f', function() return 1 end)"],
    );
    rig.check("SET a 1", "+OK");
    rig.engine.begin_cluster(Some(&saved), &[], &mut rig.process);
    rig.end_iteration();
    rig.appended();
    assert!(rig.run("INFO replication").contains("role:slave"));
    rig.check("CLUSTER RESET", "+OK");
    rig.check("DBSIZE", ":0");
    rig.check("FUNCTION LIST", "[]");
    assert!(rig.run("INFO replication").contains("role:master"));
    let log = rig.appended();
    assert!(log.contains("FLUSHALL") && log.contains("FUNCTION FLUSH"), "{log}");
    assert!(!rig.process.snapshots.borrow().is_empty(), "the file of the old data is gone");
    assert!(rig.run("INFO persistence").contains("rdb_changes_since_last_save:0\\r"));
}

#[test]
fn what_waits_for_the_end_of_a_unit_is_bounded() {
    let now = Now { mono_ns: 1_000_000_000, unix_us: 1_700_000_000_000_000 };
    let mut machine = Cluster::new(now, ClusterSettings::default().into(), 1);
    let is_map = |output: &ClusterOutput| matches!(output, ClusterOutput::Slots(_));
    let map = std::iter::from_fn(|| machine.next_output()).find(is_map).expect("the first map");
    let mut mode = ClusterMode::new(machine);
    let message = || ClusterOutput::Deliver {
        channel: Bytes::copy_from(b"channel"),
        message: Bytes::copy_from(&[b'm'; 1 << 20]),
        scope: PublishScope::All,
    };
    for _ in 0..100 {
        mode.decide(map.clone());
        mode.decide(map.clone());
    }
    (0..100).for_each(|_| mode.decide(message()));
    mode.decide(map.clone());
    let kept: Vec<_> = std::iter::from_fn(|| mode.next_decision()).collect();
    assert_eq!(kept.iter().filter(|output| is_map(output)).count(), 2);
    assert_eq!(kept.len(), 2 + 63, "messages of 64 MiB with what they take beside");
    mode.decide(message());
    assert!(mode.next_decision().is_some(), "the bound is free again");
}

#[test]
fn the_wish_to_read_from_replicas_is_shown_until_it_is_taken_back() {
    let mut rig = Rig::new();
    let shown = |rig: &mut Rig| rig.run("CLIENT INFO").contains(" flags=r ");
    assert!(!shown(&mut rig));
    for (wish, other) in [("READONLY", "READWRITE"), ("READONLY", "RESET")] {
        rig.check(wish, "+OK");
        assert!(shown(&mut rig));
        rig.run(other);
        assert!(!shown(&mut rig), "{other}");
    }
    rig.check("READONLY x", "-ERR wrong number of arguments for 'readonly' command");
    rig.check("READWRITE x", "-ERR wrong number of arguments for 'readwrite' command");
}

#[test]
fn cb_k34_a_replica_lists_itself_in_slots_once_it_has_data() {
    let mut saved = two_shards();
    saved.me.slots = SlotSet::EMPTY;
    saved.me.role = SavedRole::Replica(Some(id(OTHER)));
    saved.me.shard = ShardId::parse(OTHER.as_bytes());
    let mut rig = Rig::node(Some(&saved), &[("port", "7000"), ("cluster-announce-ip", "10.0.0.1")]);
    assert!(!rig.run("CLUSTER SLOTS").contains(ME));
    rig.engine.step_cluster(&ClusterInput::Offset(14), &mut rig.process);
    assert!(rig.run("CLUSTER SLOTS").contains(ME));
}

#[test]
fn cb_o21_a_node_sends_keys_to_a_node_that_does_not_own_their_slot() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000")]);
    rig.pass_ms(2_100);
    rig.end_iteration();
    rig.check("SET {b}0 v", "+OK");
    let client = rig.connect();
    assert_eq!(rig.run_as(client, "MIGRATE 10.0.0.1 7001 {b}0 0 1000 REPLACE"), "");
    let mut sent = Vec::new();
    rig.migrations.pop().unwrap().push_restore(0, &mut sent);
    assert!(sent.starts_with(b"*5\r\n$14\r\nRESTORE-ASKING\r\n"), "{}", sent.escape_ascii());
}

#[test]
fn cb_v2_resetstat_sets_the_counts_of_the_bus_back() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000")]);
    let ip = [10, 0, 0, 1].into();
    let link = rig.engine.accept_bus_link(ip, ip, &mut rig.process).unwrap();
    rig.step_cluster(&ClusterInput::Sent { link, lane: BusLane::Control, bytes: 5 });
    assert!(rig.run("CLUSTER INFO").contains("cluster_stats_bytes_sent:5\\r"));
    rig.check("CONFIG RESETSTAT", "+OK");
    assert!(rig.run("CLUSTER INFO").contains("cluster_stats_bytes_sent:0\\r"));
}

#[test]
fn cb_k34_what_config_set_changes_is_shown_in_the_same_transaction() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000"), ("cluster-announce-ip", "10.0.0.1")]);
    rig.check("CONFIG SET cluster-preferred-endpoint-type hostname", "+OK");
    assert!(!rig.run("CLUSTER SLOTS").contains("me.com"));
    rig.check("MULTI", "+OK");
    rig.run("CONFIG SET cluster-announce-hostname me.com");
    rig.run("CLUSTER SLOTS");
    rig.run("CLUSTER SHARDS");
    let replies = rig.run("EXEC");
    assert_eq!(replies.matches("me.com").count(), 3, "{replies}");
    assert!(rig.run("CLUSTER SLOTS").contains("me.com"));
}

#[test]
fn cb_k34_nodes_shows_a_link_as_soon_as_it_is_made() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000")]);
    rig.pass_ms(100);
    rig.end_iteration();
    let orders = std::mem::take(&mut rig.orders).into_iter();
    let dialled = orders.filter_map(|order| match order {
        BusOrder::Dial { link, .. } => Some(link),
        _ => None,
    });
    let dialled: Vec<_> = dialled.collect();
    let mut left = dialled.len();
    assert_eq!(left, 2);
    for link in dialled {
        // The second request gets the cached reply of the first. A new link does not change the slot map, but
        // it must still invalidate that cached reply.
        assert_eq!(rig.run("CLUSTER NODES").matches(" disconnected").count(), left);
        assert_eq!(rig.run("CLUSTER NODES").matches(" disconnected").count(), left);
        rig.step_cluster(&ClusterInput::Connected { link });
        left -= 1;
    }
    assert_eq!(rig.run("CLUSTER NODES").matches(" disconnected").count(), 0);
}

#[test]
fn cl_g33_info_counts_two_connections_for_each_other_node() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000")]);
    assert!(rig.run("INFO clients").contains("cluster_connections:4\\r"));
    assert!(Rig::new().run("INFO clients").contains("cluster_connections:0\\r"));
}

#[test]
fn cb_v3_links_are_counted_in_memory() {
    let mut rig = Rig::node(Some(&two_shards()), &[("port", "7000")]);
    rig.engine.accept_bus_link([10, 0, 0, 1].into(), [10, 0, 0, 1].into(), &mut rig.process);
    let links = |rig: &mut Rig| {
        let info = rig.run("INFO memory");
        let text = info.split("mem_cluster_links:").nth(1).unwrap().split("\\r").next().unwrap().to_owned();
        text.parse::<u64>().unwrap()
    };
    let idle = links(&mut rig);
    assert!(idle > 0);
    let stats = rig.run("MEMORY STATS");
    assert!(stats.contains(&format!("\"cluster.links\", :{idle}")), "{stats}");
}

#[test]
fn cl_f21_f25_requests_wait_while_a_primary_that_has_come_back_does_not_know_what_it_is() {
    let mut buses = Buses::new(vec![(7000, Rig::node(Some(&two_shards()), &[("port", "7000")]))]);
    let rig = &mut buses.nodes[0].1;
    let [asker, other, queues] = std::array::from_fn(|_| rig.connect());
    rig.argv_unread(asker, &[b"SET", b"{b}", b"1"]);
    rig.argv_unread(other, &[b"SET", b"{a}", b"1"]);
    rig.run_as(queues, "MULTI");
    rig.argv_unread(queues, &[b"GET", b"{b}"]);
    rig.end_iteration();
    for client in [asker, other, queues] {
        assert_eq!(rig.output(client), b"", "nothing is refused yet");
    }
    // Commands without keys are answered, and a script gets an error, because it cannot wait.
    rig.check("PING", "+PONG");
    assert!(rig.run("CLUSTER INFO").contains("cluster_state:fail"));
    let down = "Can not execute a command 'get' while the cluster is down";
    assert!(rig.run("EVAL \"return redis.call('get', 'b')\" 0").contains(down));
    // No other node sends news, so this node stops waiting after two seconds.
    buses.pass_ms(2_200);
    let rig = &mut buses.nodes[0].1;
    let wanted = ["+OK\r\n", "-MOVED 15495 10.0.0.1:7001\r\n", "+QUEUED\r\n"];
    for (client, wanted) in [asker, other, queues].into_iter().zip(wanted) {
        assert_eq!(String::from_utf8(rig.output(client)).unwrap(), wanted);
    }
    // From then on a cluster that is down is reported at once.
    rig.check("CLUSTER DELSLOTS 16383", "+OK");
    rig.check("GET {b}", "-CLUSTERDOWN The cluster is down");
}
