//! Tests how lines in the formats of several versions of the reference, and damaged lines, are read.
use super::*;
use crate::{HashSlot, ShardId};

const A: &str = "1335dccd34bc7ed4e1066419e873733e27aba1ba";
const B: &str = "2e810a0df8a3231d993b6751bdf2eb647f16f1d4";
const C: &str = "4b5eea6c2ba2c9967323e4dcdd372bd9b37ef981";
const SHARD: &str = "e4a8f66f9dbccafaa98814ae59a30fbfae08e016";

/// A file in which `lines` precede the line of this node (A, `myself`) and a complete `vars` line.
fn file(lines: &str) -> String {
    format!(
        "{lines}{A} 10.0.0.1:6379@16379,,tls-port=0,shard-id={SHARD} myself,master - 0 0 3 connected 0-99\n\
         vars currentEpoch 9 lastVoteEpoch 7\n"
    )
}

fn good(text: &str) -> ConfFile {
    read(text.as_bytes(), BusTransport::Tcp).expect("a file to start from")
}

/// The node that is read from `line`, in a file whose only other line of a node is this node's own.
fn other(line: &str) -> SavedNode {
    let mut read = good(&file(&format!("{line}\n")));
    assert_eq!(read.repairs, [], "{line}");
    read.saved.others.pop().expect("the line")
}

fn id(text: &str) -> NodeId {
    NodeId::parse(text.as_bytes()).unwrap()
}

fn slots(first: u16, last: u16) -> SlotSet {
    let mut set = SlotSet::EMPTY;
    (first..=last).filter_map(HashSlot::new).for_each(|slot| {
        set.insert(slot);
    });
    set
}

fn epochs(current: u64, last_vote: Option<u64>) -> SavedEpochs {
    SavedEpochs { current: ClusterEpoch(current), last_vote: last_vote.map(ClusterEpoch) }
}

fn ports(node: &SavedNode) -> (u16, u16, u16) {
    (node.address.tcp_port, node.address.tls_port, node.address.bus_port)
}

#[test]
fn cl_n10_a_file_is_lines_in_any_order_with_blank_ones_and_no_last_end() {
    let whole = good(&file(&format!("{B} 10.0.0.2:6379@16379, master - 0 5 2 connected 100-199\n")));
    assert_eq!(whole.repairs, []);
    assert_eq!(whole.saved.epochs, epochs(9, Some(7)));
    assert_eq!(whole.saved.me.slots, slots(0, 99));
    assert_eq!(whole.saved.others.len(), 1);
    let mut lines: Vec<String> =
        file(&format!("{B} 10.0.0.2:6379@16379, master - 0 5 2 connected 100-199\n"))
            .lines()
            .map(str::to_owned)
            .collect();
    lines.reverse();
    assert_eq!(good(&lines.join("\n\n \r\n")), whole, "vars first, blank lines, no LF at the end");
    let quoted = file(&format!("\"{B}\" '10.0.0.2':6379@16379, \"master\" - 0 5 2 connected 100-\"199\"\n"));
    assert_eq!(good(&quoted), whole, "N-11");
}

#[test]
fn cl_n11_a_line_has_eight_fields_and_slots() {
    let node = other(&format!(
        "{B} fd00::2:6379@16379,b.example.com,availability-zone=z,client-tls-port=7,client-tcp-port=8,\
         client-ipv6=fd00::9,client-ipv4=1.2.3.4,tls-port=9,nodename=bé,shard-id={SHARD} \
         slave,nofailover,fail {C} 12 34 5 disconnected"
    ));
    assert_eq!(&*node.address.ip, "fd00::2");
    assert_eq!(ports(&node), (6379, 9, 16379));
    assert_eq!(&*node.labels.host_name, "b.example.com");
    assert_eq!(&*node.labels.human_name, "bé".as_bytes());
    assert_eq!(&*node.labels.availability_zone, b"z");
    assert_eq!((node.labels.client_port, node.labels.client_tls_port), (8, 7));
    assert_eq!(node.labels.client_ipv4, Some("1.2.3.4".parse().unwrap()));
    assert_eq!(node.labels.client_ipv6, Some("fd00::9".parse().unwrap()));
    assert_eq!(node.shard, ShardId::parse(SHARD.as_bytes()));
    assert_eq!(node.role, SavedRole::Replica(Some(id(C))));
    assert!(node.is_failed && node.no_failover && !node.is_without_address);
    assert_eq!(node.config_epoch, ClusterEpoch(0), "N-15: the epoch on a replica's line is its primary's");
}

#[test]
fn cl_n15_flags_have_two_names_and_ports_two_places() {
    for (flags, role) in [
        ("master", SavedRole::Primary),
        ("PRIMARY", SavedRole::Primary),
        ("slave,fail?", SavedRole::Replica(None)),
        ("replica", SavedRole::Replica(None)),
        ("noflags", SavedRole::Unknown),
    ] {
        let node = other(&format!("{B} :0@0 {flags} - 0 0 4 connected"));
        assert_eq!(node.role, role, "{flags}");
        assert_eq!(node.config_epoch, ClusterEpoch(4));
        assert!(!node.is_failed);
    }
    assert!(other(&format!("{B} :0@0,, noaddr - 0 0 4 connected")).is_without_address);
    let line = |address: &str, transport| {
        let text = file(&format!("{B} {address} master - 0 0 4 connected\n"));
        ports(&read(text.as_bytes(), transport).unwrap().saved.others[0])
    };
    for (address, tcp, tls) in [
        ("h:1@2", (1, 0, 2), (0, 1, 2)),
        ("h:1", (1, 0, 10_001), (0, 1, 10_001)),
        ("h:1@2,,tls-port=3", (1, 3, 2), (1, 3, 2)),
        ("h:1@2,,tcp-port=3", (3, 1, 2), (3, 1, 2)),
        ("h:1@2,,tcp-port=3,tls-port=4", (3, 4, 2), (3, 4, 2)),
    ] {
        assert_eq!(line(address, BusTransport::Tcp), tcp, "{address}");
        assert_eq!(line(address, BusTransport::Tls), tls, "{address} with tls-cluster");
    }
}

#[test]
fn cl_n13_open_slots_stand_on_the_line_of_this_node() {
    let line = format!("{A} h:1@2 myself,master - 0 0 3 connected 0-99 [7->-{B}] [150-<-{C}]\n");
    let read = good(&format!("{line}vars currentEpoch 3 lastVoteEpoch 0\n"));
    assert_eq!(read.saved.migrating, [(HashSlot::new(7).unwrap(), id(B))]);
    assert_eq!(read.saved.importing, [(HashSlot::new(150).unwrap(), id(C))]);
    let of_another = file(&format!("{B} h:1@2 master - 0 0 3 connected [150-<-{C}] [151-<-{C}]\n"));
    let read = good(&of_another);
    assert_eq!((read.saved.others.len(), read.saved.importing.len()), (1, 0));
    assert_eq!(texts(&read), ["Cluster configuration file, line 1: open slots of another node are ignored."]);
}

fn texts(read: &ConfFile) -> Vec<&str> {
    read.repairs.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn cl_n25_what_newer_versions_add_is_passed_over_with_one_notice() {
    let text = file(&format!(
        "{B} h:1@2,,colour=red,tls-port=0 master,shiny - 0 0 4 connected\n\
         {C} h:1@2,,colour=blue master,shiny - 0 0 4 connected\n\
         vars planet 3 currentEpoch 12\n"
    ));
    let read = good(&text);
    assert_eq!(read.saved.others.len(), 2);
    assert_eq!(read.saved.epochs, epochs(12, Some(7)), "the higher of two");
    assert!(read.repairs.iter().all(|(level, _)| *level == LogLevel::Notice));
    assert_eq!(
        texts(&read),
        [
            "Cluster configuration file, line 1: the unknown flag 'shiny' is ignored.",
            "Cluster configuration file, line 1: the unknown field 'colour' is ignored.",
            "Cluster configuration file, line 3: the unknown variable 'planet' is ignored.",
        ]
    );
}

#[test]
fn cl_n25_a_value_that_is_not_valid_counts_as_none() {
    let address = format!("{}:70000@-1", "1".repeat(46));
    let read = good(&file(&format!(
        "{B} {address},h_,shard-id=x,nodename=a;b,availability-zone={},tls-port=x,client-tcp-port=65536,\
         client-ipv4=fd00::1,client-ipv6=1.2.3.4 master - 0 0 4 connected 200\n",
        "z".repeat(1_025)
    )));
    let node = &read.saved.others[0];
    assert_eq!((&*node.address.ip, ports(node)), ("", (0, 0, 0)));
    assert_eq!(node.labels, crate::NodeLabels::default());
    assert_eq!((node.shard, node.slots.len()), (None, 1), "the rest of the line counts");
    assert_eq!(read.repairs.len(), 11);
    assert!(
        texts(&read).contains(
            &"Cluster configuration file, line 1: the value of client-ipv4 is invalid and ignored."
        )
    );
}

#[test]
fn cl_n25_a_line_of_another_that_cannot_be_read_is_dropped() {
    for (line, why) in [
        ("x h:1@2 master - 0 0 4 connected".to_owned(), "its id is invalid"),
        (format!("{B} h:1@2"), "it has fewer than eight fields"),
        (format!("{B} h:1@2 master - 0 0 4"), "it has fewer than eight fields"),
        (format!("{B} h master - 0 0 4 connected"), "its address has no port"),
        (format!("{B} h:1@2 slave x 0 0 4 connected"), "the id of its primary is invalid"),
        (format!("{B} h:1@2 master {C} 0 0 4 connected"), "a primary has no primary"),
        (format!("{B} h:1@2 master,slave {C} 0 0 4 connected"), "its flags say both primary and replica"),
        (
            format!("{B} h:1@2 handshake - 0 0 4 connected"),
            "its node was in handshake, so that its id is not its own",
        ),
        (format!("{B} h:1@2 master - 0 0 -4 connected"), "an epoch is not a number below 2^63"),
        (format!("{B} h:1@2 master - 0 0 {} connected", 1_u64 << 63), "an epoch is not a number below 2^63"),
        (format!("{B} h:1@2 master - 0 0 4 connected 16384"), "its slots are invalid"),
        (format!("{B} h:1@2 master - 0 0 4 connected 9-8"), "its slots are invalid"),
        (format!("{B} h:1@2 master - 0 0 4 connected 8-9-10"), "its slots are invalid"),
        (format!("{B} h:1@2 master - 0 0 4 connected [8]"), "its slots are invalid"),
        (
            format!("{B} h:1@2 master - 0 0 4 connected [8->-x]"),
            "the id of an open slot's other node is invalid",
        ),
        (format!("{B} h:1@2 master - 0 0 4 connected \"8"), "its quotes do not end"),
        (format!("{B} h:1@2 master - 0 0 4 connected 8\0"), "it has a zero byte"),
        ("\0\0\0".to_owned(), "it has a zero byte"),
    ] {
        let read = good(&file(&format!("{line}\n")));
        assert_eq!((read.saved.others.len(), read.saved.own_line), (0, OwnLine::Whole), "{line}");
        let text =
            format!("Cluster configuration file, line 1: dropped, {why}. A live node returns by gossip.");
        assert_eq!(texts(&read), [text], "{line}");
    }
    let most = (1_u64 << 63) - 1;
    assert_eq!(other(&format!("{B} h:1@2 master - 0 0 {most} connected")).config_epoch, ClusterEpoch(most));
}

#[test]
fn cl_n25_the_first_line_of_a_node_and_of_a_slot_counts() {
    let read = good(&file(&format!(
        "{B} h:1@2 master - 0 0 4 connected 50-149\n{B} h:3@4 master - 0 0 5 connected 300\n\
         {A} h:3@4 master - 0 0 5 connected 400\n{C} h:1@2 slave {B} 0 0 4 connected 500-501\n"
    )));
    let saved = &read.saved;
    assert_eq!((saved.others.len(), saved.others[0].config_epoch), (2, ClusterEpoch(4)));
    assert_eq!((&saved.me.slots, &saved.others[0].slots), (&slots(0, 49), &slots(50, 149)));
    assert_eq!(saved.others[1].slots, SlotSet::EMPTY);
    assert_eq!(
        texts(&read),
        [
            "Cluster configuration file, line 2: dropped, line 1 is of the same node.",
            "Cluster configuration file, line 3: dropped, line 5 is of the same node.",
            "Cluster configuration file, line 4: 2 slot(s) of a replica have no owner.",
            "Cluster configuration file, line 5: 50 slot(s) belong to an earlier line.",
        ]
    );
}

#[test]
fn cl_n26_a_damaged_line_of_this_node_keeps_its_id_alone() {
    for rest in [
        "h:1@2 myself,master",
        "h:1@2 myself,master - 0 0 x connected 0-99",
        "h myself,master - 0 0 4 connected 0-99",
        "h:1@2 myself,master - 0 0 4 connected 0-99 [150-<-2e810a0df8a3231d993b6751bdf2eb647f16f1d4] 0-",
        "h:1@2 myself,master - 0 0 4 connected 0-9\0",
        "h:1@2 myself,slave x 0 0 4 connected",
        "h:1@2 myself,master,slave - 0 0 4 connected",
    ] {
        let text = format!(
            "{A} {rest}\n{B} h:1@2 master - 0 0 4 connected 0-99\nvars currentEpoch 9 lastVoteEpoch 7\n"
        );
        let read = good(&text);
        assert_eq!((read.saved.me.id, read.saved.own_line), (id(A), OwnLine::Damaged), "{rest}");
        assert_eq!((read.saved.me.slots.len(), read.saved.importing.len()), (0, 0));
        assert_eq!(read.saved.others[0].slots, slots(0, 99), "what others own is theirs");
        assert_eq!(read.saved.epochs, epochs(9, Some(7)));
        assert_eq!(read.repairs.len(), 1, "{:?}", read.repairs);
        assert!(
            read.repairs[0]
                .1
                .starts_with("Cluster configuration file, line 1: the line of this node is damaged")
        );
    }
}

#[test]
fn cl_n25_a_file_that_names_no_node_or_two_starts_none() {
    let refused = |text: &str| read(text.as_bytes(), BusTransport::Tcp).unwrap_err();
    let blank = refused("\n \n");
    assert_eq!(blank, StartRefused::NoIdentity { suspect: None });
    assert!(
        blank.to_string().starts_with("No line of the cluster configuration file says which node this is. ")
    );
    let zeros = refused("\0\0\0\0");
    assert_eq!(zeros, StartRefused::NoIdentity { suspect: Some(1) });
    assert!(zeros.to_string().contains("line 1 cannot be read"));
    let others = format!("{B} h:1@2 master - 0 0 4 connected\nvars currentEpoch 9 lastVoteEpoch 7\n");
    assert_eq!(refused(&others), StartRefused::NoIdentity { suspect: None });
    let flag = format!("{others}{A} h:1@2 mysxlf,master - 0 0 4 connected\n");
    assert_eq!(refused(&flag), StartRefused::NoIdentity { suspect: Some(3) });
    let two = file(&format!("{B} h:1@2 myself,master - 0 0 4 connected\n"));
    assert_eq!(refused(&two), StartRefused::TwoIdentities { first: 1, second: 2 });
    assert!(refused(&two).to_string().starts_with("Lines 1 and 2 of the cluster configuration file"));
    let same = format!("{}{}", file(""), file(""));
    assert_eq!(
        texts(&good(&same)),
        ["Cluster configuration file, line 3: dropped, line 1 is of the same node."]
    );
}

#[test]
fn cl_n27_epochs_that_are_not_whole_are_none() {
    for vars in [
        "",
        "vars",
        "vars lastVoteEpoch 9",
        "vars currentEpoch 9 lastVoteEpoch",
        "vars currentEpoch x lastVoteEpoch 7",
        "vars currentEpoch 9 lastVoteEpoch 9223372036854775808",
        "vars currentEpoch 9 lastVoteEpoch 7 \"",
        "vars currentEpoch 9 lastVoteEpoch 7\0",
        "vars currentEpoch 9 lastVoteEpoch 7\nvars currentEpoch 9 lastVoteEpoch -1",
    ] {
        let read = good(&format!("{A} h:1@2 myself,master - 0 0 3 connected\n{vars}\n"));
        assert_eq!(read.saved.epochs, SavedEpochs::default(), "{vars}");
        let last = read.repairs.last().expect("a warning");
        assert!(last.1.starts_with("The cluster configuration file lacks the epochs"));
    }
    let two = format!(
        "vars lastVoteEpoch 3 currentEpoch 4\n{A} h:1@2 myself,master - 0 0 3 connected\n\
         vars currentEpoch 9 lastVoteEpoch 2\n"
    );
    assert_eq!(good(&two).saved.epochs, epochs(9, Some(3)));
}

#[test]
fn cl_n27_s12_an_epoch_beside_an_unknown_vote_counts() {
    let read = good(&format!("{A} h:1@2 myself,master - 0 0 3 connected\nvars currentEpoch 9\n"));
    assert_eq!(read.saved.epochs, epochs(9, None));
    let last = read.repairs.last().expect("a warning");
    assert!(last.1.starts_with("The cluster configuration file lacks the epochs"));
}

#[test]
fn cl_x10_nodes_and_reports_are_bounded() {
    let mut lines = String::new();
    for number in 0..NODES_MAX + 150 {
        lines += &format!("{number:040} h:1@2 master - 0 0 4 connected\n");
    }
    let read = good(&file(&lines));
    assert_eq!(read.saved.others.len(), NODES_MAX - 1);
    assert_eq!(read.repairs.len(), REPAIRS_MAX + 1);
    assert_eq!(texts(&read)[REPAIRS_MAX], "Cluster configuration file: 51 more repairs.");
}
