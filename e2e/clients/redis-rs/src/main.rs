//! What a Rust program does with a cluster through redis-rs: in-cluster PORT..., those of three primaries and
//! of their replicas. Its sharded subscriptions need its asynchronous half, whose runtime is left out here.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::cluster::{ClusterClient, ClusterClientBuilder, ClusterConnection, cluster_pipe};
use redis::cluster_read_routing::RandomReplicaStrategy;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::{Cmd, Commands, Connection, ProtocolVersion, Script, Value, cmd};

struct Nodes {
    ports: Vec<u16>,
    connections: Vec<Connection>,
}

impl Nodes {
    fn ask<T: redis::FromRedisValue>(&mut self, at: usize, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut self.connections[at]).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// GETs that the replicas have served.
    fn reads(&mut self) -> usize {
        let mut sum = 0;
        for at in 3..6 {
            let text: String = self.ask(at, &["INFO", "commandstats"]);
            let calls = text.split_once("cmdstat_get:calls=").map(|(_, rest)| rest.split(',').next());
            sum += calls.flatten().map_or(0, |calls| calls.parse().expect("a number"));
        }
        sum
    }

    fn open(&mut self, slot: &str, source: usize, target: usize) {
        let from: String = self.ask(source, &["CLUSTER", "MYID"]);
        let to: String = self.ask(target, &["CLUSTER", "MYID"]);
        self.ask::<()>(target, &["CLUSTER", "SETSLOT", slot, "IMPORTING", &from]);
        self.ask::<()>(source, &["CLUSTER", "SETSLOT", slot, "MIGRATING", &to]);
    }

    fn migrate(&mut self, source: usize, target: usize, keys: &[String]) {
        let port = self.ports[target].to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        self.ask::<()>(source, &words);
    }

    fn close(&mut self, slot: &str, source: usize, target: usize) {
        let keys: Vec<String> = self.ask(source, &["CLUSTER", "GETKEYSINSLOT", slot, "100"]);
        self.migrate(source, target, &keys);
        let to: String = self.ask(target, &["CLUSTER", "MYID"]);
        for at in [target, source] {
            self.ask::<()>(at, &["CLUSTER", "SETSLOT", slot, "NODE", &to]);
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn builder(nodes: &Nodes, protocol: ProtocolVersion) -> ClusterClientBuilder {
    ClusterClient::builder([format!("redis://127.0.0.1:{}", nodes.ports[0])]).use_protocol(protocol)
}

/// A slot on its way, and gone: ASK, then MOVED; and back.
fn move_slot(nodes: &mut Nodes, client: &mut ClusterConnection) {
    let tags = (0..).map(|number| format!("{{{number}}}"));
    let (tag, slot) = tags
        .map(|tag| (nodes.ask::<u16>(0, &["CLUSTER", "KEYSLOT", &tag]), tag))
        .find_map(|(slot, tag)| (slot < 5461).then(|| (tag, slot.to_string())))
        .expect("a tag of the first primary");
    let key = |name: &str| format!("{tag}:{name}");
    let set = |client: &mut ClusterConnection, name: &str, value: &str| {
        client.set::<_, _, ()>(key(name), value).expect(name);
    };
    let look = |client: &mut ClusterConnection| {
        for (name, value) in [("here", "1"), ("gone", "2"), ("new", "3")] {
            assert_eq!(client.get::<_, Option<String>>(key(name)).expect(name).as_deref(), Some(value));
        }
    };
    set(client, "here", "1");
    set(client, "gone", "2");
    nodes.open(&slot, 0, 1);
    nodes.migrate(0, 1, &[key("gone")]);
    set(client, "new", "3");
    assert_eq!(nodes.ask::<u64>(1, &["CLUSTER", "COUNTKEYSINSLOT", &slot]), 2);
    look(client);
    nodes.close(&slot, 0, 1);
    look(client);
    nodes.open(&slot, 1, 0);
    look(client);
    nodes.close(&slot, 1, 0);
    look(client);
}

fn exercise(nodes: &mut Nodes, protocol: ProtocolVersion) {
    for at in 0..3 {
        nodes.ask::<()>(at, &["FLUSHALL"]);
    }
    let client = builder(nodes, protocol).build().expect("a client");
    let mut client = client.get_connection().expect("a connection");
    let every = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::Special)));
    let ids = client.route_command(cmd("CLUSTER").arg("MYID"), every).expect("ids of the primaries");
    let Value::Map(ids) = ids else { panic!("{ids:?}") };
    assert_eq!(ids.len(), 3, "three primaries");

    let mut pipeline = cluster_pipe();
    let mut expected = Vec::new();
    for number in 0..300 {
        let name = format!("key:{number}");
        client.set::<_, _, ()>(&name, &name).expect("SET");
        assert_eq!(client.get::<_, String>(&name).expect("GET"), name);
        pipeline.cmd("APPEND").arg(&name).arg("+").ignore();
        pipeline.cmd("GET").arg(&name);
        expected.push(name + "+");
    }
    assert_eq!(pipeline.query::<Vec<String>>(&mut client).expect("a pipeline over all slots"), expected);
    for at in 0..3 {
        assert!(nodes.ask::<usize>(at, &["DBSIZE"]) > 50, "keys on every node");
    }
    client.mset::<_, _, ()>(&[("{tag}:1", "a"), ("{tag}:2", "b")]).expect("MSET");
    let many: Vec<Option<String>> = client.mget(&["{tag}:1", "missing{tag}", "{tag}:2"]).expect("MGET");
    assert_eq!(many, [Some("a".to_owned()), None, Some("b".to_owned())]);
    let script = "return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('incr', KEYS[2])}";
    for sum in [5, 10] {
        let script = Script::new(script);
        let counts: Vec<i64> = script.key("{s}:1").key("{s}:2").arg(5).invoke(&mut client).expect("a script");
        assert_eq!(counts, [sum, sum / 5]);
    }

    until("replicas", || {
        (0..3).all(|at| nodes.ask::<u64>(at, &["DBSIZE"]) == nodes.ask::<u64>(at + 3, &["DBSIZE"]))
    });
    let spread =
        builder(nodes, protocol).read_routing_strategy(RandomReplicaStrategy).build().expect("a client");
    let mut spread = spread.get_connection().expect("a connection");
    let before = nodes.reads();
    for name in &expected {
        assert_eq!(&spread.get::<_, String>(name.trim_end_matches('+')).expect("GET"), name);
    }
    assert!(nodes.reads() > before + 50, "reads of replicas");
    move_slot(nodes, &mut client);
    let shards: Vec<BTreeMap<String, Value>> =
        cmd("CLUSTER").arg("SHARDS").query(&mut nodes.connections[0]).expect("SHARDS");
    assert_eq!(shards.len(), 3);
    let slots: Vec<Value> =
        Cmd::new().arg("CLUSTER").arg("SLOTS").query(&mut nodes.connections[0]).expect("SLOTS");
    assert_eq!(slots.len(), 3);
}

fn main() {
    let ports: Vec<u16> = std::env::args().skip(1).map(|port| port.parse().expect("a port")).collect();
    let connect = |port: &u16| {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).expect("an address");
        client.get_connection().expect("a connection")
    };
    let connections = ports.iter().map(connect).collect();
    let mut nodes = Nodes { ports, connections };
    exercise(&mut nodes, ProtocolVersion::RESP2);
    exercise(&mut nodes, ProtocolVersion::RESP3);
    println!("redis-rs 1.8.1: a cluster by RESP2 and RESP3 works");
}
