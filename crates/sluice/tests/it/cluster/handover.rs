//! Nodes that are shut down: a primary hands over to a replica first, and redirects its clients; clients are
//! not sent to a replica that is shutting down. The comment of each test says which nodes are the
//! reference's.

use super::member::Member;
use super::{meet, nodes};
use crate::common::{Client, request, until};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// First and last slots of the three primaries.
const SHARES: [(u16, u16); 3] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];

/// Starts a cluster with a node for each letter of `kinds`: three primaries, then replicas of the first,
/// second and third primary. `o` is a node of ours, `s` one of the reference. Returns `None` if a node of the
/// reference is needed and the environment names no reference.
pub(super) fn cluster(kinds: &str) -> Option<Vec<Member>> {
    let more = ["--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"];
    let members: Option<Vec<Member>> = kinds.chars().map(|kind| Member::start(kind == 's', &more)).collect();
    let members = members?;
    for (member, (first, last)) in members.iter().zip(SHARES) {
        member.client().check(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"), "+OK\r\n");
    }
    for other in &members[1..] {
        meet(&mut members[0].client(), other.port(), other.bus());
    }
    // All nodes must know each other first, because a primary that does not know a replica yet would never
    // learn the replica's role.
    for member in &members {
        until("a node that knows all", || {
            let lines = nodes(&mut member.client());
            let is_there =
                lines.len() == members.len() && !lines.iter().any(|line| line.contains("handshake"));
            is_there.then_some(())
        });
    }
    for (replica, primary) in members[3..].iter().zip(&members) {
        let line = format!("CLUSTER REPLICATE {}\r\n", primary.id());
        until("the primary to be known", || (replica.client().send(&line).line() == "+OK").then_some(()));
    }
    for member in &members {
        until("a node that serves, and knows all", || {
            let mut client = member.client();
            let is_ok = client.bulk("CLUSTER INFO").starts_with(b"cluster_state:ok");
            let replicas = nodes(&mut client).iter().filter(|line| line.contains("slave ")).count();
            let is_there = is_ok && replicas + 3 == members.len();
            (is_there && (member.is_primary() || member.follows())).then_some(())
        });
    }
    Some(members)
}

/// A small client that writes one key after another, and follows MOVED. An error, or a connection that ends
/// before a reply, makes its thread panic.
struct Writer {
    thread: JoinHandle<BTreeMap<u32, u64>>,
    stops: Arc<AtomicBool>,
    /// Number of acknowledged writes.
    done: Arc<Mutex<u64>>,
}

/// Number of the writer's keys: enough for all nodes.
const KEYS: u64 = 64;

impl Writer {
    /// Starts writing at a node. If `keeps` is set, connections to nodes without keys stay open.
    fn start(port: u16, keeps: bool) -> Writer {
        let (stops, done) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(0)));
        let (stop, count) = (Arc::clone(&stops), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            let mut conns: BTreeMap<u16, Client> = BTreeMap::new();
            let mut ports: BTreeMap<u32, u16> = BTreeMap::new();
            let mut written = BTreeMap::new();
            // Relaxed: only the flag matters.
            for value in (1_u64..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let key = (value % KEYS) as u32;
                let text = request(&[b"SET", key.to_string().as_bytes(), value.to_string().as_bytes()]);
                loop {
                    let to = *ports.entry(key).or_insert(port);
                    let conn = conns.entry(to).or_insert_with(|| Client::to("127.0.0.1", to));
                    let reply = conn.send(&text).line();
                    match reply.strip_prefix("-MOVED ") {
                        Some(rest) => {
                            let (_, port) = rest.rsplit_once(':').unwrap();
                            ports.insert(key, port.parse().unwrap());
                            if !keeps && ports.values().all(|port| *port != to) {
                                conns.remove(&to);
                            }
                        }
                        None => {
                            assert_eq!(reply, "+OK", "of the node at port {to}");
                            break;
                        }
                    }
                }
                written.insert(key, value);
                *count.lock().unwrap() += 1;
            }
            written
        });
        Writer { thread, stops, done }
    }

    /// Waits for enough writes to touch each key a few times.
    fn goes_on(&self) {
        let enough = *self.done.lock().unwrap() + 5 * KEYS;
        until("writes", || {
            let is_over = self.thread.is_finished();
            assert!(!is_over, "the client met an error");
            (*self.done.lock().unwrap() >= enough).then_some(())
        });
    }

    /// Stops the client; each key must have its last acknowledged value at one of these nodes.
    fn stop(self, members: &[&Member]) {
        self.stops.store(true, Ordering::Relaxed);
        let written = self.thread.join().expect("a client that met no error");
        assert_eq!(written.len() as u64, KEYS);
        for (key, value) in written {
            let found = members.iter().any(|member| {
                let mut client = member.client();
                let header = client.send(format!("GET {key}\r\n")).line();
                header.starts_with('$') && client.line() == value.to_string()
            });
            assert!(found, "key {key} has lost {value}");
        }
    }
}

/// Waits until a process has ended successfully.
fn has_ended(member: &mut Member) {
    match member {
        Member::Ours(node) => assert!(node.server.wait().success(), "{}", node.server.log.all()),
        Member::Stock(server, _) => until("the end", || server.log().contains("bye bye").then_some(())),
    }
}

fn log_of(member: &Member) -> String {
    match member {
        Member::Ours(node) => node.server.log.so_far(),
        Member::Stock(server, _) => server.log(),
    }
}

/// The integers in a node's CLUSTER SLOTS: the ports of nodes, and slots.
fn ports_in_slots(client: &mut Client) -> Vec<u16> {
    fn value(client: &mut Client, ports: &mut Vec<u16>) {
        let head = client.line();
        let (kind, rest) = head.split_at(1);
        match kind {
            "*" | "%" => {
                let each = if kind == "%" { 2 } else { 1 };
                (0..each * rest.parse::<usize>().unwrap()).for_each(|_| value(client, ports));
            }
            "$" if rest != "-1" => _ = client.line(),
            ":" => ports.extend(rest.parse::<u16>()),
            _ => {}
        }
    }
    let mut ports = Vec::new();
    client.send("CLUSTER SLOTS\r\n");
    value(client, &mut ports);
    ports
}

/// All nodes are ours.
#[test]
fn cl_m10_m13_no_client_notices_the_end_of_a_primary_that_hands_over() {
    let Some(mut members) = cluster("oooooo") else { return };
    // With SAFE, a node whose vote counts does not shut down.
    let [mut one, mut two] = [members[0].client(), members[1].client()];
    one.check("SHUTDOWN SAFE NOW", "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    let refused = "This is a voting primary. Shutting down may cause the cluster to go down. Can't exit.";
    until("the refusal", || log_of(&members[0]).contains(refused).then_some(()));
    two.check("CONFIG SET shutdown-on-sigterm \"safe failover\"", "+OK\r\n");
    members[1].signal("TERM");
    until("the refusal", || log_of(&members[1]).contains(refused).then_some(()));
    one.check("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n");

    one.check("CONFIG SET shutdown-on-sigterm failover", "+OK\r\n");
    let writer = Writer::start(members[0].port(), true);
    writer.goes_on();
    members[0].signal("TERM");
    until("the new primary", || members[3].is_primary().then_some(()));
    let old = members[0].port();
    until("the old one to be named to no client", || {
        (!ports_in_slots(&mut members[1].client()).contains(&old)).then_some(())
    });
    writer.goes_on();
    has_ended(&mut members[0]);
    let log = log_of(&members[0]);
    let id = members[3].id();
    assert!(log.contains(&format!("Perform auto failover to replica {id} on shutdown.")), "{log}");
    assert!(log.contains("Clients are redirected before this node shuts down."), "{log}");
    let asked = "Forced failover primary request accepted (primary request from";
    until("the order in the heir's log", || log_of(&members[3]).contains(asked).then_some(()));

    // The next shutdown is requested by a command, which gets no reply. The server does not wait for a client
    // that has closed its connection.
    writer.stop(&[&members[1], &members[2], &members[3]]);
    let writer = Writer::start(members[1].port(), false);
    writer.goes_on();
    let mut asker = members[1].client();
    asker.send("SHUTDOWN FAILOVER\r\n");
    until("the new primary", || members[4].is_primary().then_some(()));
    writer.goes_on();
    asker.expect_end();
    has_ended(&mut members[1]);
    writer.stop(&[&members[2], &members[3], &members[4]]);

    // A replica that is shutting down redirects its readers, and is not announced to clients any more.
    let (port, primary) = (members[5].port(), members[2].port());
    assert!(ports_in_slots(&mut members[2].client()).contains(&port));
    let mut reader = members[5].client();
    reader.check("READONLY", "+OK\r\n").check("GET {a}x", "$-1\r\n");
    reader.check("CONFIG SET shutdown-on-sigint failover", "+OK\r\n");
    members[5].signal("INT");
    let moved = format!("-MOVED 15495 127.0.0.1:{primary}");
    until("a redirect", || (reader.send("GET {a}x\r\n").line() == moved).then_some(()));
    assert!(!ports_in_slots(&mut members[2].client()).contains(&port));
    drop(reader);
    has_ended(&mut members[5]);
}

/// Nodes 1 and 3 are the reference's. The reference's replica takes over from our primary, and our replica
/// from the reference's primary.
#[test]
fn cl_m11_m12_replicas_of_either_kind_take_over_from_primaries_of_the_other() {
    let Some(mut members) = cluster("ososo") else { return };
    for member in &members {
        member.client().check("CONFIG SET shutdown-on-sigterm failover", "+OK\r\n");
    }
    let writer = Writer::start(members[0].port(), false);
    writer.goes_on();
    members[0].signal("TERM");
    until("the stock replica as a primary", || members[3].is_primary().then_some(()));
    writer.goes_on();
    has_ended(&mut members[0]);
    writer.goes_on();
    writer.stop(&[&members[1], &members[2], &members[3]]);

    // The reference's primary ends at once. Clients would get errors, so the writer has been stopped.
    let before = members[4].digest();
    members[1].signal("TERM");
    until("our replica as a primary", || members[4].is_primary().then_some(()));
    has_ended(&mut members[1]);
    assert_eq!(members[4].digest(), before);
    let asked = "Forced failover primary request accepted (primary request from";
    until("the order in the heir's log", || log_of(&members[4]).contains(asked).then_some(()));
    until("all slots served", || {
        let mut client = members[2].client();
        let text = String::from_utf8(client.bulk("CLUSTER INFO")).unwrap();
        let is_ok = text.starts_with("cluster_state:ok") && text.contains("cluster_slots_pfail:0");
        is_ok.then_some(())
    });
}

/// The first successor, a node of the reference, dies before our replica has a link to it. The replica's data
/// nevertheless count as the shard's, and their age follows from the replica's link to the previous primary.
#[test]
fn cl_e41_two_primaries_in_a_row_may_die() {
    let Some(members) = cluster("ooos") else { return };
    let other = Member::start(false, &["--cluster-node-timeout", "2000"]).expect("a node of ours");
    meet(&mut other.client(), members[0].port(), members[0].bus());
    let line = format!("CLUSTER REPLICATE {}\r\n", members[0].id());
    until("the primary to be known", || (other.client().send(&line).line() == "+OK").then_some(()));
    until("the second replica's link", || other.follows().then_some(()));
    members[0].client().check("SET {06S} v", "+OK\r\n");
    until("the write at the second replica", || {
        let mut client = other.client();
        client.check("READONLY", "+OK\r\n");
        (client.send("GET {06S}\r\n").line() == "$1").then_some(())
    });
    // The second replica's next link fails, because the replica sends a password and the successor has none.
    other.client().check("CONFIG SET primaryauth wrong cluster-replica-no-failover yes", "+OK\r\n");
    let heir = &members[3];
    members[0].signal("STOP");
    until("the first heir", || heir.is_primary().then_some(()));
    let heir_id = heir.id();
    until("the second replica follows it", || {
        let lines = nodes(&mut other.client());
        let own = lines.iter().find(|line| line.contains("myself")).expect("its own line");
        own.contains(&heir_id).then_some(())
    });
    other.client().check("CONFIG SET cluster-replica-no-failover no", "+OK\r\n");
    heir.signal("STOP");
    until("the second heir", || other.is_primary().then_some(()));
    until("the write", || (other.client().send("GET {06S}\r\n").line() == "$1").then_some(()));
}
