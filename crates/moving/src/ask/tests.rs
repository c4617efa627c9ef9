use super::*;
use crate::facts::{NodeCondition, OpenSlotFact};

/// A peer with fixed replies. A request that has no fixed reply is answered with an error.
struct Made {
    replies: Vec<(&'static str, Value)>,
    asked: Vec<String>,
    pauses: usize,
}

impl Peer for Made {
    fn ask_all(&mut self, requests: &[Vec<&[u8]>]) -> Result<Vec<Value>, NoAnswer> {
        let one = |words: &Vec<&[u8]>| {
            let line = String::from_utf8_lossy(&words.join(&b' ')).into_owned();
            let known = self.replies.iter().find(|(begins, _)| line.starts_with(begins));
            let reply =
                known.map_or(Value::Error(b"ERR unknown command".to_vec()), |(_, reply)| reply.clone());
            self.asked.push(line);
            reply
        };
        Ok(requests.iter().map(one).collect())
    }

    fn pause(&mut self) {
        self.pauses += 1;
    }
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn list(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(|text| bulk(text)).collect())
}

fn plan() -> MovePlan {
    MovePlan::read(vec![b"--check-move".to_vec(), b"h:1".to_vec()], &|_| None).unwrap()
}

fn facts_of(replies: Vec<(&'static str, Value)>) -> (MoveFacts, Made) {
    let mut made = Made { replies, asked: Vec::new(), pauses: 0 };
    made.replies.push(("PING", Value::Simple(b"PONG".to_vec())));
    (ask(&mut made, &mut |_, _| Err("no connection".to_owned()), &plan()).unwrap(), made)
}

#[test]
fn secrets_are_no_facts() {
    let digest = "ab".repeat(32);
    let (facts, _) = facts_of(vec![
        (
            "CONFIG",
            list(&["requirepass", "planted", "masterauth", "", "new-api-key", "planted", "maxmemory", "5"]),
        ),
        ("ACL", list(&[&format!("user a on #{digest} >planted <planted !planted ~k* +get")])),
        (
            "MODULE",
            Value::Array(vec![Value::Array(vec![
                bulk("name"),
                bulk("m"),
                bulk("ver"),
                Value::Int(3),
                bulk("args"),
                list(&["planted"]),
            ])]),
        ),
        (
            "CLIENT LIST",
            bulk(
                "id=1 name=app flags=N lib-name=x lib-ver=1 resp=3 user=planted\nid=2 name=sluice-check-move\n",
            ),
        ),
    ]);
    let text = format!("{facts:?}");
    assert!(!text.contains("planted") && !text.contains(&digest), "{text}");
    let settings = facts.settings.unwrap();
    let values: Vec<_> = settings.iter().map(|setting| setting.value.clone()).collect();
    let plain = SettingValue::Plain(b"5".to_vec());
    assert_eq!(values, [SettingValue::Secret, SettingValue::NoSecret, SettingValue::Secret, plain]);
    assert_eq!(facts.modules.unwrap(), [(b"m".to_vec(), 3)]);
    assert_eq!(facts.clients.unwrap().len(), 1);
}

#[test]
fn what_is_refused_is_unknown_and_says_why() {
    let noperm = Value::Error(b"NOPERM User planted has no permissions".to_vec());
    let (facts, _) = facts_of(vec![
        ("INFO commandstats", Value::Int(3)),
        ("INFO", bulk("redis_version:7.0\r\n")),
        ("ACL", noperm.clone()),
        ("CONFIG", Value::Error(b"-weird planted".to_vec())),
        ("SCAN", noperm),
    ]);
    let why = |unknown: UnknownFact| (unknown.command, unknown.why);
    assert_eq!(why(facts.users.unwrap_err()), ("ACL LIST", WhyUnknown::Rights));
    assert_eq!(why(facts.modules.unwrap_err()), ("MODULE LIST", WhyUnknown::NoCommand));
    assert_eq!(why(facts.calls.unwrap_err()), ("INFO commandstats", WhyUnknown::Strange));
    assert_eq!(why(facts.settings.unwrap_err()), ("CONFIG GET", WhyUnknown::Error("an error".to_owned())));
}

#[test]
fn a_scan_without_end_ends() {
    let (facts, made) = facts_of(vec![
        ("INFO", bulk("db0:keys=1000000,expires=0\r\ndb3:keys=1,expires=0\r\n")),
        ("SELECT", Value::Simple(b"OK".to_vec())),
        ("SCAN", Value::Array(vec![bulk("77"), list(&["k"; 5000])])),
        ("TYPE", Value::Simple(b"string".to_vec())),
        ("OBJECT", bulk("int")),
        ("MEMORY", Value::Int(60)),
        ("DUMP", bulk("not a payload")),
    ]);
    let sample = facts.keys.unwrap();
    assert_eq!(sample.looked_at, KEYS_MAX);
    assert_eq!(sample.payloads.len(), DUMPS_OF_KIND);
    let count = |begins: &str| made.asked.iter().filter(|line| line.starts_with(begins)).count();
    assert_eq!((count("SCAN"), count("DUMP"), count("SELECT")), (10, 2, 2));
    assert_eq!(made.pauses, 10);
    // The SCAN of this server returns no keys.
    let (facts, made) = facts_of(vec![
        ("INFO", bulk("db0:keys=1000000,expires=0\r\n")),
        ("SELECT", Value::Simple(b"OK".to_vec())),
        ("SCAN", Value::Array(vec![bulk("77"), list(&[])])),
    ]);
    assert_eq!((facts.keys.unwrap().looked_at, made.pauses), (0, SLICES_MAX));
}

#[test]
fn no_password_and_a_wrong_one_end_the_check() {
    let ask_with = |reply: &str| {
        let replies = vec![("PING", Value::Error(reply.as_bytes().to_vec()))];
        let mut made = Made { replies, asked: Vec::new(), pauses: 0 };
        ask(&mut made, &mut |_, _| unreachable!(), &plan()).unwrap_err()
    };
    assert_eq!(ask_with("NOAUTH Authentication required."), NoAnswer::NoAuth);
    assert_eq!(ask_with("DENIED planted"), NoAnswer::Refused("DENIED".to_owned()));
}

#[test]
fn every_command_that_is_asked_only_reads() {
    let (_, made) = facts_of(vec![
        ("INFO", bulk("db0:keys=1,expires=0\r\ncluster_enabled:1\r\n")),
        ("SELECT", Value::Simple(b"OK".to_vec())),
        ("SCAN", Value::Array(vec![bulk("0"), list(&["k"])])),
        ("TYPE", Value::Simple(b"string".to_vec())),
        ("OBJECT", bulk("int")),
        ("MEMORY", Value::Int(60)),
    ]);
    for line in made.asked {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let sluice_command::Named::Command(spec) = sluice_command::resolve(&words) else { panic!("{line}") };
        assert!(!spec.flags.has(sluice_command::Flags::WRITE), "{line}");
        assert!(!spec.flags.has(sluice_command::Flags::BLOCKING), "{line}");
    }
}

/// The reply of CLUSTER NODES in a cluster of four nodes: the second node is the one that replies, the first
/// has a migrating slot, and the third has failed.
const NODES: &str = "\
aa 10.0.0.1:7001@17001,one master - 0 1 1 connected 0-99 101-8000 [9->-bb] [x->-bb]
bb :7002@17002 myself,master - 0 1 2 connected 8001-16382
cc 10.0.0.3:7003@17003 slave,fail aa 0 1 1 disconnected
dd 10.0.0.4:7004@17004 slave aa 0 1 1 connected
not a line
";

#[test]
fn a_cluster_is_asked_node_by_node() {
    let mut made = Made {
        replies: vec![
            ("PING", Value::Simple(b"PONG".to_vec())),
            ("INFO", bulk("cluster_enabled:1\r\n")),
            ("CLUSTER NODES", bulk(NODES)),
        ],
        asked: Vec::new(),
        pauses: 0,
    };
    let mut opened = Vec::new();
    let mut open = |host: &str, port: u16| -> Result<Box<dyn Peer>, String> {
        opened.push(format!("{host}:{port}"));
        let line = "aa 10.0.0.1:7001@17001 myself,master - 0 1 1 connected 0-99 [9->-bb] [7-<-bb]";
        let replies = vec![
            ("PING", Value::Simple(b"PONG".to_vec())),
            ("INFO", bulk("valkey_version:9.0.0\r\n")),
            ("MODULE", Value::Array(Vec::new())),
            ("CLUSTER NODES", bulk(line)),
        ];
        if port == 7004 {
            Err("no connection".to_owned())
        } else {
            Ok(Box::new(Made { replies, asked: Vec::new(), pauses: 0 }))
        }
    };
    let cluster = ask(&mut made, &mut open, &plan()).unwrap().cluster.unwrap().unwrap();
    assert_eq!(opened, ["10.0.0.1:7001", "10.0.0.4:7004"]);
    assert_eq!(cluster.uncovered, [(100, 100), (16_383, 16_383)]);
    let [first, second, third, fourth] = cluster.nodes.as_slice() else { panic!("{cluster:?}") };
    let view = first.view.as_ref().unwrap().as_ref().unwrap();
    assert_eq!(view.info.as_ref().unwrap().text("valkey_version"), b"9.0.0");
    let open = [(9, true), (7, false)].map(|(slot, leaves)| OpenSlotFact { slot, leaves });
    assert_eq!(view.open.as_ref().unwrap(), &open);
    assert_eq!(first.open, open[..1]);
    assert!(second.is_asked_one && second.view.is_none() && second.has_slots);
    assert_eq!((third.health, third.is_primary, third.view.is_none()), (NodeCondition::Failed, false, true));
    assert_eq!(fourth.view.as_ref().unwrap().as_ref().unwrap_err(), "no connection");
}

#[test]
fn a_view_of_a_cluster_may_be_any_bytes() {
    for line in [
        "a :1@1 myself,master - 0 0 0 connected 99999-1 5-99999 -7 7- [ [] [-> [99999->-x] 18446744073709551616",
        "",
        "a b c",
        ":",
        "a x:y@ - - - - - -",
    ] {
        let facts = cluster::read(line.as_bytes());
        assert!(facts.nodes.len() <= 1, "{facts:?}");
    }
    let many = "a h:1@2 slave - 0 0 0 connected\n".repeat(5_000);
    assert_eq!(cluster::read(many.as_bytes()).nodes.len(), 201);
}

#[test]
fn slots_of_nodes_that_are_too_many_to_be_asked_have_an_owner() {
    let line = |node: usize| {
        let (first, last) = (node * 64, node * 64 + 63);
        format!("a h:{}@1 master - 0 0 0 connected {first}-{last}\n", node + 1)
    };
    let text: String = (0..256).map(line).collect();
    let text = text + "a h:9@1 myself,slave - 0 0 0 connected\n";
    let facts = cluster::read(text.as_bytes());
    assert_eq!((facts.nodes.len(), facts.omitted, facts.uncovered.as_slice()), (202, 55, &[][..]));
    assert!(facts.nodes[201].is_asked_one);
}

#[test]
fn no_node_is_tried_after_the_eighth_that_could_not_be_asked() {
    let nodes: String =
        (1..=20).map(|port| format!("a h:{port}@1 master - 0 0 0 connected {port}\n")).collect();
    let mut opened = 0;
    let mut open = |_: &str, _: u16| {
        opened += 1;
        Err("no connection".to_owned())
    };
    let facts = cluster::cluster(Value::Bulk(nodes.into_bytes()), &mut open, &plan()).unwrap();
    assert_eq!(facts.nodes.iter().filter(|node| node.view.is_some()).count(), 8);
    assert_eq!(opened, 8);
}
