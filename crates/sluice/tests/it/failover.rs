//! FAILOVER with real servers: ours and the reference's in either role.

use crate::common::reference::Reference;
use crate::common::relay::Relay;
use crate::common::{Client, Server, until};

/// Makes a server a replica, and waits until it is up to date.
fn follow(replica: &mut Client, primary: &mut Client, port: u16) {
    replica.check(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK\r\n");
    until("the link", || (replica.info("master_link_status") == "up").then_some(()));
    until("an online replica", || primary.info("slave0").contains("state=online").then_some(()));
}

fn same(a: &mut Client, b: &mut Client) {
    until("equal data", || {
        let [left, right] = [&mut *a, &mut *b].map(|client| client.send("DEBUG DIGEST\r\n").line());
        (left == right).then_some(())
    });
}

/// Fails over from `primary` to `replica`, and checks that the old primary then follows by a partial
/// synchronisation and that the roles are exchanged.
fn fail_over(primary: &mut Client, replica: &mut Client, target: u16) {
    let partial = replica.info_number("sync_partial_ok");
    primary.check("SET before failover", "+OK\r\n");
    primary.check(&format!("FAILOVER TO 127.0.0.1 {target} TIMEOUT 20000"), "+OK\r\n");
    until("the end of the failover", || {
        (primary.info("master_failover_state") == "no-failover").then_some(())
    });
    until("the link", || {
        (primary.info("role") == "slave" && primary.info("master_link_status") == "up").then_some(())
    });
    assert_eq!(replica.info("role"), "master");
    assert_eq!(replica.info_number("sync_partial_ok"), partial + 1);
    replica.check("SET behind failover", "+OK\r\n");
    same(primary, replica);
}

#[test]
fn two_of_ours_exchange_their_roles_again_and_again() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (mut a, mut b) = (first.client(), second.client());
    follow(&mut b, &mut a, first.port);
    for _ in 0..3 {
        fail_over(&mut a, &mut b, second.port);
        fail_over(&mut b, &mut a, first.port);
    }
    assert_eq!(a.info_number("sync_full") + b.info_number("sync_full"), 1);
}

/// The target has acknowledged the whole stream before it is asked to take over. After that the stream must
/// not grow, because the target would lack the new bytes.
#[test]
fn idle_servers_exchange_their_roles_without_a_full_copy() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (mut a, mut b) = (first.client(), second.client());
    follow(&mut b, &mut a, first.port);
    a.check("SET k 1", "+OK\r\n");
    for _ in 0..2 {
        let end = format!("offset={},", a.info_number("master_repl_offset"));
        until("the acknowledgement", || a.info("slave0").contains(&end).then_some(()));
        a.check("FAILOVER", "+OK\r\n");
        until("the roles", || (a.info("master_link_status") == "up").then_some(()));
        assert_eq!((b.info("role").as_str(), b.info_number("sync_full")), ("master", 0));
        let end = format!("offset={},", b.info_number("master_repl_offset"));
        until("the acknowledgement", || b.info("slave0").contains(&end).then_some(()));
        b.check("FAILOVER", "+OK\r\n");
        until("the roles", || (b.info("master_link_status") == "up").then_some(()));
        assert_eq!((a.info("role").as_str(), a.info_number("sync_full")), ("master", 1));
    }
    b.check("REPLICAOF NO ONE", "+OK\r\n");
    until("no replica", || (a.info("connected_slaves") == "0").then_some(()));
    a.check("FAILOVER", "-ERR FAILOVER requires connected replicas.\r\n");
}

#[test]
fn a_transaction_that_waits_for_the_failover_is_refused_behind_it() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (mut a, mut b) = (first.client(), second.client());
    follow(&mut b, &mut a, first.port);
    second.signal("STOP");
    // The replica cannot acknowledge this write, because its process is suspended.
    a.check("SET a 1", "+OK\r\n");
    let mut writer = first.client();
    writer.check("MULTI", "+OK\r\n").check("SET a 2", "+QUEUED\r\n");
    a.check("FAILOVER", "+OK\r\n");
    writer.send("EXEC\r\n");
    until("the writer to wait", || (a.info("blocked_clients") == "1").then_some(()));
    second.signal("CONT");
    let refused = writer.line();
    assert!(refused.starts_with("-EXECABORT") || refused.starts_with("-READONLY"), "{refused}");
    until("the end", || (a.info("master_failover_state") == "no-failover").then_some(()));
    b.check("GET a", "$1\r\n1\r\n");
    a.check("GET a", "$1\r\n1\r\n");
}

#[test]
fn ours_and_the_reference_hand_the_role_to_each_other() {
    let Some(reference) = Reference::start(&["--repl-diskless-sync-delay", "0"]) else { return };
    let server = Server::start(&[]);
    let (mut ours, mut theirs) = (server.client(), reference.client());
    follow(&mut theirs, &mut ours, server.port);
    for _ in 0..2 {
        fail_over(&mut ours, &mut theirs, reference.port);
        fail_over(&mut theirs, &mut ours, server.port);
    }
}

/// The new primary's address is sent to a client before the error for its write, and also to an idle client.
#[test]
fn clients_that_have_asked_are_told_of_a_failover_and_where_to_go() {
    for arguments in [&[][..], &["--io-threads", "3", "--io-threads-always-active", "yes"]] {
        told_of_a_failover(&Server::start(arguments));
    }
}

fn told_of_a_failover(first: &Server) {
    let second = Server::start(&[]);
    let (mut a, mut b) = (first.client(), second.client());
    follow(&mut b, &mut a, first.port);
    let (mut writer, mut idle) = (first.client(), first.client());
    for client in [&mut writer, &mut idle] {
        client.send("HELLO 3\r\n");
        until("the end of the reply", || (client.line() == "*0").then_some(()));
        client.check("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", "+OK\r\n");
    }
    second.signal("STOP");
    writer.check("SET a 1", "+OK\r\n");
    a.check("FAILOVER", "+OK\r\n");
    writer.send("SET a 2\r\n");
    until("the writer to wait", || (a.info("blocked_clients") == "1").then_some(()));
    second.signal("CONT");
    let next = format!("127.0.0.1:{}", second.port);
    let length = format!("${}", next.len());
    for client in [&mut writer, &mut idle] {
        let lines: Vec<String> = (0..20).map(|_| client.line()).collect();
        let shown: Vec<&str> =
            lines.iter().filter(|line| !line.starts_with(':')).map(String::as_str).collect();
        let expected = [
            [">4", "$12", "FAILING_OVER", "$2", "[]"],
            [">3", "$11", "FAILED_OVER", "$2", "[]"],
            [">4", "$6", "MOVING", &length, &next],
        ];
        assert_eq!(shown[..], expected.concat()[..]);
    }
    assert!(writer.line().starts_with("-READONLY "));
}

/// The time of day in a log line, milliseconds.
fn logged_ms(line: &str) -> u64 {
    let time =
        line.split(' ').find(|word| word.contains(':') && word.contains('.')).expect("a time of the day");
    let parts: Vec<u64> = time.split([':', '.']).map(|part| part.parse().unwrap()).collect();
    ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1000 + parts[3]
}

/// A replica whose link was lost twice within a second must reconnect without a pause, and then take over.
#[test]
fn regress_a_replica_whose_link_was_cut_twice_within_a_second_takes_over() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (mut a, mut b) = (first.client(), second.client());
    let relay = Relay::to(first.port);
    follow(&mut b, &mut a, relay.port);
    let is_linked = |b: &mut Client| (b.info("master_link_status") == "up").then_some(());
    for cut in 1..=2 {
        let had = a.info_number("sync_partial_ok");
        relay.cut_once();
        until("the link that was cut", || (a.info_number("sync_partial_ok") > had).then_some(()));
        until("the link that was cut", || is_linked(&mut b));
        a.check(&format!("SET cut {cut}"), "+OK\r\n");
    }
    // The log is read before the failover, which ends this link once more.
    let log = second.log.so_far();
    fail_over(&mut a, &mut b, second.port);
    b.check("GET cut", "$1\r\n2\r\n");
    assert_eq!(a.info_number("sync_full") + b.info_number("sync_full"), 1, "nothing was sent twice");
    let times =
        |text: &str| log.lines().filter(|line| line.contains(text)).map(logged_ms).collect::<Vec<_>>();
    let (lost, again) = (times("Connection with primary lost."), times("Reconnecting to PRIMARY"));
    assert_eq!((lost.len(), again.len()), (2, 2), "{log}");
    // If there is a pause after a lost link, it is at least 500 ms; without one, the loss and the
    // reconnection are logged in the same iteration.
    let pauses = lost.iter().zip(&again).map(|(lost, again)| (again + DAY_MS - lost) % DAY_MS);
    assert!(pauses.clone().all(|pause_ms| pause_ms < 400), "{:?}: {log}", pauses.collect::<Vec<_>>());
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
