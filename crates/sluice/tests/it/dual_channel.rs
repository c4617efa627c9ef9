//! A replica that receives the snapshot on a second connection, end to end, with a primary
//! played by the test.

use crate::common::primary::{Link, PlayedPrimary, REPLID, snapshot};
use crate::common::{self, Client, Server, until};

/// A replica that has requested the snapshot at offset 100 of the history, with its two connections, the main
/// channel and the channel for the snapshot.
struct Sync {
    server: Server,
    primary: PlayedPrimary,
    main: Link,
    channel: Link,
}

impl Sync {
    fn begin(arguments: &[&str]) -> Sync {
        let primary = PlayedPrimary::new();
        let server = Server::start(&[&["--dual-channel-replication-enabled", "yes"], arguments].concat());
        server.client().check("SET old 1", "+OK\r\n");
        server.client().check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
        let main = primary.accept();
        Sync::over(server, primary, main)
    }

    fn over(server: Server, primary: PlayedPrimary, mut main: Link) -> Sync {
        assert!(main.shake_hands().starts_with("PSYNC "));
        main.send("+DUALCHANNELSYNC\r\n");
        let mut channel = primary.accept();
        let port = server.port;
        assert_eq!(
            channel.request(),
            format!("REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port {port} version 9.1.2")
        );
        channel.send("+OK\r\n");
        assert_eq!(channel.line(), "SYNC");
        channel.send(format!("\n$ENDOFF:100 {REPLID} 0 7\r\n"));
        assert_eq!(main.request(), "REPLCONF set-rdb-client-id 7");
        Sync { server, primary, main, channel }
    }

    /// Accepts the partial synchronisation on the main channel, as the primary.
    fn accept(&mut self) {
        self.main.send("+OK\r\n");
        assert_eq!(self.main.request(), format!("PSYNC {REPLID} 101"));
        self.main.send(format!("+CONTINUE {REPLID}\r\n"));
    }
}

fn up(client: &mut Client) {
    until("the link", || (client.info("master_link_status") == "up").then_some(()));
}

/// Commands with numbered elements, so that the test can check their order.
fn pushes(from: usize, to: usize) -> Vec<u8> {
    (from..to).flat_map(|n| common::request(&[b"RPUSH", b"list", n.to_string().as_bytes()])).collect()
}

/// Checks that the list holds the numbers below `to`, in order.
fn numbered(client: &mut Client, to: usize) {
    until("the stream", || (client.send("LLEN list\r\n").line() == format!(":{to}")).then_some(()));
    let elements = (0..to).map(|n| n.to_string()).map(|n| format!("${}\r\n{n}\r\n", n.len()));
    client.send("LRANGE list 0 -1\r\n").expect(format!("*{to}\r\n{}", elements.collect::<String>()));
}

#[test]
fn what_comes_behind_the_snapshot_is_kept_and_executed_in_order() {
    for load in ["disabled", "swapdb"] {
        let mut sync = Sync::begin(&["--repl-diskless-load", load]);
        let mut client = sync.server.client();
        sync.accept();
        let behind = pushes(0, 20_000);
        sync.main.send(&behind);
        until("the buffer", || {
            (client.info_number("replicas_repl_buffer_size") >= behind.len() as i64).then_some(())
        });
        assert_eq!(client.info("master_sync_in_progress"), "1");
        client.check("GET old", "$1\r\n1\r\n").check("EXISTS list", ":0\r\n");
        let buffers = client.info_number("mem_replicas_repl_buffer");
        assert!(buffers >= behind.len() as i64, "{buffers}");
        sync.channel.send_snapshot(&snapshot(&[("new", "2")]));
        up(&mut client);
        // More commands arrive while the buffered ones are executed.
        sync.main.send(pushes(20_000, 21_000));
        numbered(&mut client, 21_000);
        client.check("GET new", "$1\r\n2\r\n").check("EXISTS old", ":0\r\n");
        sync.main.acknowledged(100 + pushes(0, 21_000).len() as u64);
        assert_eq!(client.info("replicas_repl_buffer_size"), "0");
        assert!(client.info_number("replicas_repl_buffer_peak") >= behind.len() as i64);
        for line in [
            "Dual channel replication: PSYNC is not possible, initialize RDB channel.",
            &format!(
                "Dual channel replication: Trying a partial resynchronization using main channel (request {REPLID}:101)."
            ),
            "Dual channel replication: PRIMARY <-> REPLICA sync: Primary accepted a Partial Resynchronization, RDB load in background.",
            "Dual channel replication: Successfully streamed replication data into memory",
            "PRIMARY <-> REPLICA sync: Finished with success",
        ] {
            assert!(sync.server.log.wait(line).is_some(), "{line}");
        }
    }
}

#[test]
fn the_snapshot_may_be_loaded_before_the_primary_answers_on_the_main_channel() {
    let mut sync = Sync::begin(&[]);
    let mut client = sync.server.client();
    sync.channel.send_snapshot(&snapshot(&[("new", "2")]));
    until("the load", || (client.send("EXISTS new\r\n").line() == ":1").then_some(()));
    assert_eq!(client.info("master_link_status"), "down");
    sync.accept();
    sync.main.send(pushes(0, 10));
    up(&mut client);
    numbered(&mut client, 10);
    assert!(sync.server.log.wait("Dual channel replication: Psync established after rdb load").is_some());
}

#[test]
fn beyond_the_output_limit_of_replicas_the_rest_waits_at_the_primary() {
    let mut sync = Sync::begin(&["--client-output-buffer-limit", "replica 100000 0 0"]);
    let mut client = sync.server.client();
    sync.accept();
    let behind = pushes(0, 400_000);
    let mut main = sync.main.duplicate();
    let sender = std::thread::spawn({
        let behind = behind.clone();
        move || main.send(&behind)
    });
    assert!(sync.server.log.wait("Dual channel replication: Replication buffer limit reached (").is_some());
    let kept = client.info_number("replicas_repl_buffer_size");
    assert!((100_000..1_000_000).contains(&kept), "{kept}");
    sync.channel.send_snapshot(&snapshot(&[("new", "2")]));
    up(&mut client);
    sender.join().unwrap();
    numbered(&mut client, 400_000);
}

#[test]
fn the_end_of_either_connection_gives_the_attempt_up_and_the_next_one_succeeds() {
    for ends_main in [true, false] {
        let mut sync = Sync::begin(&[]);
        let mut client = sync.server.client();
        sync.accept();
        let whole = snapshot(&[("new", "2")]);
        sync.channel.send(format!("${}\r\n", whole.len()));
        sync.channel.send(&whole[..20]);
        until("its bytes", || {
            let is_transfer = client.info("master_sync_in_progress") == "1";
            (is_transfer && client.info("master_sync_read_bytes") == "20").then_some(())
        });
        let Sync { server, primary, main, channel } = sync;
        match ends_main {
            true => drop(main),
            false => drop(channel),
        }
        let main = primary.accept();
        let mut sync = Sync::over(server, primary, main);
        client.check("GET old", "$1\r\n1\r\n");
        sync.accept();
        sync.channel.send_snapshot(&whole);
        sync.main.send(pushes(0, 5));
        up(&mut client);
        numbered(&mut client, 5);
        let left = std::fs::read_dir(sync.server.dir.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("temp-"));
        assert_eq!(left.count(), 0, "temporary files");
    }
}

#[test]
fn a_primary_that_does_not_offer_it_sends_the_snapshot_on_the_one_connection() {
    let primary = PlayedPrimary::new();
    let server = Server::start(&["--dual-channel-replication-enabled", "yes"]);
    server.client().check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
    let mut link = primary.accept();
    link.shake_hands();
    link.send(format!("+FULLRESYNC {REPLID} 0\r\n"));
    link.send_snapshot(&snapshot(&[("new", "2")]));
    let mut client = server.client();
    up(&mut client);
    client.check("GET new", "$1\r\n2\r\n");
}

#[test]
fn the_replica_can_be_promoted_meanwhile() {
    let mut sync = Sync::begin(&[]);
    let mut client = sync.server.client();
    sync.accept();
    sync.main.send(pushes(0, 1000));
    client.check("REPLICAOF NO ONE", "+OK\r\n").check("GET old", "$1\r\n1\r\n").check("SET a 1", "+OK\r\n");
    sync.main.expect_end();
    sync.channel.expect_end();
    assert_eq!(client.info("role"), "master");
    until("what was kept is freed", || (client.info_number("mem_replicas_repl_buffer") == 0).then_some(()));
    drop(sync.primary);
}
