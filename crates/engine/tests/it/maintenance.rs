//! Tests of CLIENT MAINT_NOTIFICATIONS: the clients that may ask for notifications, and the notifications of
//! a failover and of changes of roles, in their order.

use crate::cluster::{OTHER, two_shards};
use sluice_base::SessionKey;
use sluice_session::{ClientAddress, Medium};
use sluice_testkit::Rig;

/// The output of a client since the last call, in one line, with `|` for line ends and `#` for each
/// notification id.
fn told(rig: &mut Rig, client: SessionKey) -> String {
    let text = String::from_utf8_lossy(&rig.output(client)).replace("\r\n", "|");
    let mut shown = text.clone();
    for id in ids(&text) {
        shown = shown.replacen(&format!(":{id}|"), ":#|", 1);
    }
    shown
}

/// The ids of the notifications in a text: the integer after each name.
fn ids(text: &str) -> Vec<i64> {
    let words: Vec<&str> = text.split('|').collect();
    let is_name = |word: &str| ["FAILING_OVER", "FAILED_OVER", "MOVING"].contains(&word);
    let behind = words.windows(2).filter(|pair| is_name(pair[0])).map(|pair| &pair[1][1..]);
    behind.map(|id| id.parse().unwrap()).collect()
}

const BEGUN: &str = ">4|$12|FAILING_OVER|:#|:30|$2|[]|";

const ENDED: &str = ">3|$11|FAILED_OVER|:#|$2|[]|";

/// A MOVING to this address.
fn moving(endpoint: &str) -> String {
    format!(">4|$6|MOVING|:#|:15|${}|{endpoint}|", endpoint.len())
}

/// A MOVING without an address.
const MOVING: &str = ">4|$6|MOVING|:#|:15|_|";

/// A primary with a replica at this address and port 7000; no client has asked for notifications.
fn with_replica(ip: &str, directives: &[(&str, &str)]) -> (Rig, SessionKey) {
    let mut rig = Rig::with(directives);
    let replica = rig.connect();
    let line = format!("REPLCONF listening-port 7000 ip-address {ip} capa psync2");
    assert_eq!(rig.run_as(replica, &line), "+OK");
    rig.engine.feed(replica);
    rig.run("SET k 1");
    (rig, replica)
}

/// A client in RESP3 that asks with these words after ON.
fn asking(rig: &mut Rig, words: &str) -> SessionKey {
    let client = rig.connect();
    ask(rig, client, words);
    client
}

fn ask(rig: &mut Rig, client: SessionKey, words: &str) {
    rig.run_as(client, "HELLO 3");
    rig.check_as(client, &format!("CLIENT MAINT_NOTIFICATIONS ON {words}"), "+OK");
}

/// Makes the replica acknowledge everything, so that it is asked to take over.
fn hand_over(rig: &mut Rig, replica: SessionKey) {
    let text = rig.run("INFO replication");
    let offset = text.split("master_repl_offset:").nth(1).unwrap().split("\\r\\n").next().unwrap().to_owned();
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", offset.as_bytes()]);
    rig.end_iteration();
    assert!(rig.engine.is_failing_over());
}

const BY_IP: &str = "moving-endpoint-type internal-ip";

#[test]
fn the_words_are_those_that_clients_send() {
    let syntax = "-ERR syntax error";
    let types =
        "-ERR moving-endpoint-type must be internal-ip, internal-fqdn, external-ip, external-fqdn or none";
    let arity = "-ERR wrong number of arguments for 'client|maint_notifications' command";
    let mut rig = Rig::new();
    rig.run("HELLO 3");
    for (words, reply) in [
        ("", arity),
        ("ON", "+OK"),
        ("on moving-endpoint-type internal-ip", "+OK"),
        ("ON moving-endpoint-type internal-fqdn", "+OK"),
        ("ON moving-endpoint-type external-ip", "+OK"),
        ("ON MOVING-ENDPOINT-TYPE EXTERNAL-FQDN", "+OK"),
        ("ON moving-endpoint-type none", "+OK"),
        ("OFF", "+OK"),
        ("off", "+OK"),
        ("ON moving-endpoint-type", syntax),
        ("ON moving-endpoint-type ip", types),
        ("ON moving-endpoint-type none none", syntax),
        ("ON endpoint-type none", syntax),
        ("OFF moving-endpoint-type none", syntax),
        ("MAYBE", syntax),
    ] {
        rig.check(&format!("CLIENT MAINT_NOTIFICATIONS {words}"), reply);
    }
    assert!(rig.run("CLIENT HELP").contains("+MAINT_NOTIFICATIONS (ON|OFF) "));
}

#[test]
fn resp2_is_refused_and_may_turn_them_off() {
    let mut rig = Rig::new();
    rig.check(
        "CLIENT MAINT_NOTIFICATIONS ON",
        "-ERR Maintenance notifications require RESP3, which HELLO 3 selects",
    );
    rig.check("CLIENT MAINT_NOTIFICATIONS OFF", "+OK");
}

/// A node notifies clients of slots that leave (`moves_out.rs`). Clients of a cluster find primaries by
/// MOVED, so a client that was sent MOVING would send requests for other nodes' slots to the address in it.
#[test]
fn clients_of_a_node_that_becomes_a_replica_are_not_moved() {
    let mut rig = Rig::node(Some(&two_shards()), &[]);
    rig.pass_ms(2_100);
    rig.end_iteration();
    let client = asking(&mut rig, BY_IP);
    rig.check("CLUSTER FLUSHSLOTS", "+OK");
    rig.check(&format!("CLUSTER REPLICATE {OTHER}"), "+OK");
    assert!(rig.run("INFO replication").contains("role:slave"));
    assert_eq!(told(&mut rig, client), "");
}

#[test]
fn a_user_needs_the_right_to_the_subcommand() {
    let mut rig = Rig::new();
    rig.check("ACL SETUSER one on nopass +hello +client|maint_notifications", "+OK");
    rig.check("ACL SETUSER other on nopass +@connection -client|maint_notifications", "+OK");
    rig.run("HELLO 3 AUTH one x");
    rig.check("CLIENT MAINT_NOTIFICATIONS ON", "+OK");
    let other = rig.connect();
    rig.run_as(other, "HELLO 3 AUTH other x");
    assert!(rig.run_as(other, "CLIENT MAINT_NOTIFICATIONS ON").starts_with("-NOPERM "));
}

#[test]
fn client_list_does_not_show_them() {
    let mut rig = Rig::new();
    rig.run("HELLO 3");
    let before = rig.run("CLIENT LIST").replace("cmd=hello", "");
    rig.check("CLIENT MAINT_NOTIFICATIONS ON", "+OK");
    let flags = |text: &str| text.split(" flags=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let after = rig.run("CLIENT LIST");
    assert_eq!(flags(&after), flags(&before));
    assert_eq!(after.matches('=').count(), before.matches('=').count());
}

#[test]
fn a_failover_is_told_at_its_beginning_and_at_its_end_with_the_next_primary() {
    let (mut rig, replica) = with_replica("10.0.0.2", &[]);
    let named = asking(&mut rig, BY_IP);
    let unnamed = asking(&mut rig, "moving-endpoint-type none");
    let bare = asking(&mut rig, "");
    let silent = rig.connect();
    rig.run_as(silent, "HELLO 3");
    rig.check("FAILOVER", "+OK");
    for client in [named, unnamed, bare] {
        assert_eq!(told(&mut rig, client), BEGUN);
    }
    hand_over(&mut rig, replica);
    assert_eq!(told(&mut rig, named), "", "the target has not answered yet");
    rig.engine.end_failover(&mut rig.process);
    assert_eq!(told(&mut rig, named), format!("{ENDED}{}", moving("10.0.0.2:7000")));
    for client in [unnamed, bare] {
        assert_eq!(told(&mut rig, client), format!("{ENDED}{MOVING}"));
    }
    assert_eq!(told(&mut rig, silent), "");
    rig.end_iteration();
    assert_eq!(told(&mut rig, named), "", "each is told once");
}

/// The client can retry its write at the new address.
#[test]
fn a_write_that_has_waited_is_told_where_to_go_ahead_of_its_error() {
    let (mut rig, replica) = with_replica("10.0.0.2", &[]);
    let (writer, reader) = (asking(&mut rig, BY_IP), asking(&mut rig, BY_IP));
    rig.run_as(reader, "BLPOP nothing 0");
    rig.check("FAILOVER", "+OK");
    rig.argv_unread(writer, &[b"SET", b"a", b"1"]);
    hand_over(&mut rig, replica);
    rig.engine.end_failover(&mut rig.process);
    let expected =
        [BEGUN, ENDED, &moving("10.0.0.2:7000"), "-READONLY You can't write against a read only replica.|"]
            .concat();
    assert_eq!(told(&mut rig, writer), expected);
    let text = told(&mut rig, reader);
    let (pushes, error) = text.split_once('-').unwrap();
    assert_eq!(pushes, [BEGUN, ENDED, &moving("10.0.0.2:7000")].concat());
    assert!(error.starts_with("UNBLOCKED "), "{error}");
}

#[test]
fn the_time_left_is_that_of_timeout() {
    for (timeout_ms, seconds) in [(1, 1), (1000, 1), (1001, 2), (90_000, 90)] {
        let (mut rig, _) = with_replica("10.0.0.2", &[]);
        let client = asking(&mut rig, BY_IP);
        rig.check(&format!("FAILOVER TIMEOUT {timeout_ms}"), "+OK");
        let expected = format!(">4|$12|FAILING_OVER|:#|:{seconds}|$2|[]|");
        assert_eq!(told(&mut rig, client), expected);
    }
}

#[test]
fn one_that_comes_to_nothing_moves_nobody() {
    // The failover is aborted by a client that has asked for notifications; its reply comes before the
    // notification.
    let (mut rig, replica) = with_replica("10.0.0.2", &[]);
    let (client, aborts) = (asking(&mut rig, BY_IP), asking(&mut rig, BY_IP));
    rig.check("FAILOVER", "+OK");
    assert_eq!(told(&mut rig, client), BEGUN);
    assert_eq!(told(&mut rig, aborts), BEGUN);
    rig.argv_unread(aborts, &[b"FAILOVER", b"ABORT"]);
    assert_eq!(told(&mut rig, aborts), format!("+OK|{ENDED}"));
    assert_eq!(told(&mut rig, client), ENDED);
    // The failover is refused by the target.
    rig.check("FAILOVER", "+OK");
    hand_over(&mut rig, replica);
    rig.engine.abort_failover("Failover target rejected psync request", &mut rig.process);
    assert_eq!(told(&mut rig, client), format!("{BEGUN}{ENDED}"));
    // The failover ends with its timeout.
    let (mut rig, _) = with_replica("10.0.0.2", &[]);
    let client = asking(&mut rig, BY_IP);
    rig.check("FAILOVER TIMEOUT 500", "+OK");
    rig.pass_ms(600);
    rig.end_iteration();
    let begun = BEGUN.replace(":30|", ":1|");
    assert_eq!(told(&mut rig, client), format!("{begun}{ENDED}"));
}

/// An operator's program keeps its connection to this server.
#[test]
fn the_client_that_has_asked_for_the_failover_is_told_nothing() {
    let (mut rig, replica) = with_replica("10.0.0.2", &[]);
    let (operator, client) = (asking(&mut rig, BY_IP), asking(&mut rig, BY_IP));
    rig.check_as(operator, "FAILOVER", "+OK");
    rig.argv_unread(operator, &[b"CLIENT", b"MAINT_NOTIFICATIONS", b"ON"]);
    assert_eq!(told(&mut rig, operator), "+OK|");
    hand_over(&mut rig, replica);
    rig.engine.end_failover(&mut rig.process);
    assert_eq!(told(&mut rig, operator), "");
    assert_eq!(told(&mut rig, client), [BEGUN, ENDED, &moving("10.0.0.2:7000")].concat());
}

/// Libraries close a connection that got READONLY, and reconnect to the server in their configuration, which
/// is this one.
#[test]
fn whoever_asks_meanwhile_is_told_the_same_with_the_time_left() {
    let (mut rig, replica) = with_replica("10.0.0.2", &[]);
    let first = asking(&mut rig, BY_IP);
    rig.check("FAILOVER TO 10.0.0.2 7000 TIMEOUT 9000", "+OK");
    let begun = rig.output(first);
    rig.pass_ms(4000);
    let second = rig.connect();
    rig.run_as(second, "HELLO 3");
    let ask = "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip";
    let ask: Vec<&[u8]> = ask.split(' ').map(str::as_bytes).collect();
    rig.argv_unread(second, &ask);
    let late = rig.output(second);
    let expected = String::from_utf8(begun).unwrap().replace("\r\n:9\r\n", "\r\n:5\r\n");
    assert_eq!(String::from_utf8(late).unwrap(), format!("+OK\r\n{expected}"));
    hand_over(&mut rig, replica);
    rig.engine.end_failover(&mut rig.process);
    let at_end = told(&mut rig, first);
    assert_eq!(at_end, format!("{ENDED}{}", moving("10.0.0.2:7000")));
    for (ms, seconds) in [(1, 15), (4999, 10), (9999, 1)] {
        rig.pass_ms(ms);
        let late = rig.connect();
        rig.run_as(late, "HELLO 3");
        rig.argv_unread(late, &ask);
        let expected = moving("10.0.0.2:7000").replace(":15|", &format!(":{seconds}|"));
        assert_eq!(told(&mut rig, late), format!("+OK|{expected}"));
        let unnamed = rig.connect();
        rig.run_as(unnamed, "HELLO 3");
        rig.argv_unread(unnamed, &[b"CLIENT", b"MAINT_NOTIFICATIONS", b"ON"]);
        assert_eq!(
            told(&mut rig, unnamed),
            format!("+OK|{}", MOVING.replace(":15|", &format!(":{seconds}|")))
        );
        rig.argv_unread(late, &[b"CLIENT", b"MAINT_NOTIFICATIONS", b"OFF"]);
        assert_eq!(told(&mut rig, late), "+OK|");
    }
    rig.pass_ms(1);
    let late = rig.connect();
    rig.run_as(late, "HELLO 3");
    rig.argv_unread(late, &ask);
    assert_eq!(told(&mut rig, late), "+OK|");
}

/// A Sentinel makes the former primary follow the one that it has promoted, as operators do by hand.
#[test]
fn a_primary_that_becomes_a_replica_moves_its_clients() {
    let mut rig = Rig::new();
    let (named, unnamed) = (asking(&mut rig, BY_IP), asking(&mut rig, ""));
    let operator = asking(&mut rig, BY_IP);
    rig.check_as(operator, "REPLICAOF 10.0.0.3 7001", "+OK");
    assert_eq!(told(&mut rig, named), moving("10.0.0.3:7001"));
    assert_eq!(told(&mut rig, unnamed), MOVING);
    assert_eq!(told(&mut rig, operator), "");
    // A replica has no clients that write, so neither another primary nor its promotion moves a client. A
    // late client gets the present primary's address.
    for line in ["REPLICAOF 10.0.0.4 7001", "REPLICAOF NO ONE"] {
        rig.check(line, "+OK");
        assert_eq!(told(&mut rig, named), "", "{line}");
        let late = rig.connect();
        rig.run_as(late, "HELLO 3");
        rig.argv_unread(
            late,
            &[b"CLIENT", b"MAINT_NOTIFICATIONS", b"ON", b"moving-endpoint-type", b"external-ip"],
        );
        let expected = if line.contains("10.0.0.4") { moving("10.0.0.4:7001") } else { String::new() };
        assert_eq!(told(&mut rig, late), format!("+OK|{expected}"), "{line}");
    }
}

/// A Sentinel sends its REPLICAOF with CLIENT KILL in one transaction, so the clients are closed as usual.
#[test]
fn clients_that_are_killed_in_the_same_transaction_are_told_nothing() {
    let mut rig = Rig::new();
    let client = asking(&mut rig, BY_IP);
    for line in ["MULTI", "REPLICAOF 10.0.0.3 7001", "CLIENT KILL TYPE normal", "EXEC"] {
        rig.run(line);
    }
    assert!(rig.is_closing(client));
    assert_eq!(told(&mut rig, client), "");
}

#[test]
fn ids_grow_and_an_event_has_one_for_all() {
    let (mut rig, _) = with_replica("10.0.0.2", &[]);
    let clients = [asking(&mut rig, BY_IP), asking(&mut rig, "")];
    let mut last = 0;
    for _ in 0..2 {
        rig.check("FAILOVER", "+OK");
        rig.check("FAILOVER ABORT", "+OK");
        let seen =
            clients.map(|client| ids(&String::from_utf8_lossy(&rig.output(client)).replace("\r\n", "|")));
        assert_eq!(seen[0], seen[1]);
        assert!(last < seen[0][0] && seen[0][0] < seen[0][1], "{seen:?}");
        last = seen[0][1];
    }
    // Ids can be compared with those of another server, because they are near the current time.
    let behind_clock = rig.process.now.unix_ms() - last;
    assert!((-10..10).contains(&behind_clock), "{behind_clock}");
}

#[test]
fn reset_off_and_resp2_end_them() {
    for line in ["RESET", "CLIENT MAINT_NOTIFICATIONS OFF", "HELLO 2"] {
        let (mut rig, _) = with_replica("10.0.0.2", &[]);
        let client = asking(&mut rig, BY_IP);
        rig.run_as(client, line);
        if line == "RESET" {
            rig.run_as(client, "HELLO 3");
        }
        rig.check("FAILOVER", "+OK");
        assert_eq!(told(&mut rig, client), "", "{line}");
    }
}

/// A client with replies turned off gets pushes as usual. A client that became a replica would take a push
/// for a command, so it gets none.
#[test]
fn replicas_are_pushed_nothing_and_clients_without_replies_are() {
    let (mut rig, _) = with_replica("10.0.0.2", &[]);
    let (quiet, replica) = (asking(&mut rig, BY_IP), asking(&mut rig, BY_IP));
    rig.argv_unread(quiet, &[b"CLIENT", b"REPLY", b"OFF"]);
    rig.engine.feed(replica);
    rig.output(replica);
    rig.check("FAILOVER", "+OK");
    assert_eq!(told(&mut rig, quiet), BEGUN);
    assert_eq!(told(&mut rig, replica), "");
    assert!(!rig.is_closing(replica));
}

/// A client on this medium.
fn connect_by(rig: &mut Rig, medium: Medium) -> SessionKey {
    let connection = ClientAddress {
        addr: "10.0.0.9:5000".to_owned(),
        laddr: "".into(),
        fd: 9,
        medium,
        has_priority: false,
    };
    rig.engine.connect(connection, &mut rig.process)
}

/// A client that asks for no address always gets a MOVING without one.
#[test]
fn nobody_is_named_an_address_that_it_cannot_use() {
    use Medium::{Tcp, Tls, Unix};
    let (plain, tls) = ("no", "yes");
    let (by_ip, by_name) = (BY_IP, "moving-endpoint-type external-fqdn");
    for (replicates_by_tls, host, medium, words, is_named) in [
        (plain, "10.0.0.3", Tcp, by_ip, true),
        (plain, "10.0.0.3", Tcp, by_name, true),
        (plain, "db.example", Tcp, by_ip, true),
        (plain, "db.example", Tcp, by_name, true),
        // The port must be one for TLS if and only if the client uses TLS.
        (plain, "10.0.0.3", Tls, by_ip, false),
        (tls, "10.0.0.3", Tcp, by_ip, false),
        (tls, "10.0.0.3", Tls, by_ip, true),
        // No certificate is valid for the address of a client that wants a name.
        (tls, "10.0.0.3", Tls, by_name, false),
        (tls, "db.example", Tls, by_name, true),
        (plain, "10.0.0.3", Unix, by_ip, false),
        // Clients split the address at its first colon.
        (plain, "fd00::3", Tcp, by_ip, false),
    ] {
        let mut rig = Rig::with(&[("tls-replication", replicates_by_tls)]);
        let client = connect_by(&mut rig, medium);
        ask(&mut rig, client, words);
        let unnamed = connect_by(&mut rig, medium);
        ask(&mut rig, unnamed, "moving-endpoint-type none");
        rig.check(&format!("REPLICAOF {host} 7001"), "+OK");
        let expected = if is_named { moving(&format!("{host}:7001")) } else { String::new() };
        assert_eq!(told(&mut rig, client), expected, "{replicates_by_tls} {host} {medium:?} {words}");
        assert_eq!(told(&mut rig, unnamed), MOVING);
    }
}
