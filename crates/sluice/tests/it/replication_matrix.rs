//! A replica whose link to its primary is cut in every way while values of all types are written. In the end
//! the replica must have the primary's data.
//!
//! A case is an event of the link × a way of sending × a way of loading × one or two connections. By default
//! a part of the combinations is run; with `SLUICE_TEST_MATRIX=all` all of them are (`cargo xtask deep
//! matrix`).

use crate::common::reference::Reference;
use crate::common::relay::Relay;
use crate::common::{Client, Server, request, until};
use sluice_base::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// An event of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    None,
    /// The link is cut, and restored at once.
    Cut,
    /// The link is cut for a while.
    Delay,
    /// The link is cut while more is written than the backlog keeps.
    BacklogTooSmall,
    /// The link is cut until the backlog is freed.
    BacklogExpired,
}

const EVENTS: [Event; 5] =
    [Event::None, Event::Cut, Event::Delay, Event::BacklogTooSmall, Event::BacklogExpired];
const LOADS: [&str; 4] = ["disabled", "on-empty-db", "swapdb", "flush-before-load"];

#[derive(Clone, Copy, Debug)]
struct Case {
    event: Event,
    diskless: bool,
    load: &'static str,
    dual: bool,
}

/// All combinations, or, in a partial run, each event with each way of loading, where the way of sending and
/// the number of connections alternate.
fn cases() -> Vec<Case> {
    let all = EVENTS.into_iter().enumerate().flat_map(|(e, event)| {
        LOADS.into_iter().enumerate().flat_map(move |(l, load)| {
            [(0, false, false), (1, false, true), (2, true, false), (3, true, true)]
                .map(|(way, diskless, dual)| ((e + l) % 4 == way, Case { event, diskless, load, dual }))
        })
    });
    all.filter(|(is_part, _)| wants_all() || *is_part).map(|(_, case)| case).collect()
}

fn wants_all() -> bool {
    std::env::var("SLUICE_TEST_MATRIX").is_ok_and(|value| value == "all")
}

/// A command that writes a value of a random type, under one of few keys.
fn command(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(30);
    let value = "v".repeat(1 + rng.below(200) as usize);
    let line = match rng.below(16) {
        0 => format!("SET string:{n} {value}"),
        1 => format!("APPEND string:{n} {value}"),
        2 => format!("INCRBY number:{n} 7"),
        3 => format!("RPUSH list:{n} {value} a b"),
        4 => format!("LPOP list:{n} 2"),
        5 => format!("SADD set:{n} {} {value}", rng.below(1000)),
        6 => format!("SPOP set:{n}"),
        7 => format!("HSET hash:{n} {} {value}", rng.below(100)),
        8 => format!("HEXPIRE hash:{n} 1000 FIELDS 1 {}", rng.below(100)),
        9 => format!("ZADD zset:{n} {} {}", rng.below(1000), rng.below(300)),
        10 => format!("ZPOPMIN zset:{n}"),
        11 => format!("XADD stream:{n} * field {value}"),
        12 => format!("SETBIT bits:{n} {} 1", rng.below(10_000)),
        13 => format!("PFADD hll:{n} {}", rng.below(100_000)),
        14 => format!("PEXPIRE string:{n} {}", 1 + rng.below(100_000)),
        _ => format!("DEL string:{n} list:{n}"),
    };
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    request(&words)
}

/// A thread that writes until it is stopped, with replies turned off.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Writer {
    fn start(mut client: Client, seed: u64) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut rng = Rng::new(seed);
            client.send("CLIENT REPLY OFF\r\n");
            while !seen.load(Relaxed) {
                let database = rng.below(3).to_string();
                client.send(request(&[b"SELECT", database.as_bytes()]));
                for _ in 0..20 {
                    client.send(command(&mut rng));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            // All earlier commands have been executed before this reply.
            client.send("CLIENT REPLY ON\r\n").expect("+OK\r\n");
        });
        Writer { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap();
    }
}

fn up(client: &mut Client) {
    until("the link", || (client.info("master_link_status") == "up").then_some(()));
}

fn down(client: &mut Client) {
    until("the end of the link", || (client.info("master_link_status") == "down").then_some(()));
}

fn set(client: &mut Client, name: &str, value: &str) {
    client.check(&format!("CONFIG SET {name} {value}"), "+OK\r\n");
}

/// Causes `event`, and returns the numbers of full and of partial synchronizations that the
/// primary must count afterwards.
fn meet(event: Event, relay: &Relay, primary: &mut Client, replica: &mut Client) -> (i64, i64) {
    if event == Event::None {
        return (1, 0);
    }
    relay.cut();
    down(replica);
    let counts = match event {
        Event::None | Event::Cut => (1, 1),
        Event::Delay => {
            std::thread::sleep(Duration::from_millis(700));
            (1, 1)
        }
        Event::BacklogTooSmall => {
            let from = primary.info_number("master_repl_offset");
            let large = "x".repeat(200_000);
            primary.send(request(&[b"SET", b"large", large.as_bytes()])).expect("+OK\r\n");
            until("writes", || (primary.info_number("master_repl_offset") > from + 200_000).then_some(()));
            (2, 0)
        }
        Event::BacklogExpired => {
            until("the backlog's end", || (primary.info("repl_backlog_active") == "0").then_some(()));
            (2, 0)
        }
    };
    relay.mend();
    counts
}

/// Runs one case with the primary on `port`; `client` opens a new connection to this primary.
fn run(case: Case, seed: u64, port: u16, client: impl Fn() -> Client) {
    let mut primary = client();
    set(&mut primary, "repl-diskless-sync", if case.diskless { "yes" } else { "no" });
    set(&mut primary, "dual-channel-replication-enabled", if case.dual { "yes" } else { "no" });
    let size = if case.event == Event::BacklogTooSmall { "16kb" } else { "10mb" };
    set(&mut primary, "repl-backlog-size", size);
    set(&mut primary, "repl-backlog-ttl", if case.event == Event::BacklogExpired { "1" } else { "3600" });
    let dual = if case.dual { "yes" } else { "no" };
    let arguments = ["--repl-diskless-load", case.load, "--dual-channel-replication-enabled", dual];
    let server = Server::start(&arguments);
    let mut replica = server.client();
    if case.load != "on-empty-db" {
        replica.check("SET old data", "+OK\r\n");
    }
    primary.check("DEBUG POPULATE 20000 key 100", "+OK\r\n");
    let writer = Writer::start(client(), seed);
    let relay = Relay::to(port);
    replica.check(&format!("REPLICAOF 127.0.0.1 {}", relay.port), "+OK\r\n");
    up(&mut replica);
    let sent = primary.info_number("total_net_repl_output_bytes");
    assert!(sent > 50_000, "{case:?}: {sent} bytes with a snapshot of 20,000 keys");
    let (full, partial) = meet(case.event, &relay, &mut primary, &mut replica);
    until("the link", || {
        let is_up = replica.info("master_link_status") == "up";
        (is_up && primary.info_number("sync_full") >= full).then_some(())
    });
    writer.stop();
    let mut digests = [Vec::new(), Vec::new()];
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        for (client, digest) in [&mut primary, &mut replica].into_iter().zip(&mut digests) {
            *digest = client.send("DEBUG DIGEST\r\n").line().into_bytes();
        }
        if digests[0] == digests[1] {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{case:?}: the data differ\n{}", server.log.so_far());
        std::thread::sleep(Duration::from_millis(20));
    }
    // With a second connection, the primary counts the stream beside the snapshot as a partial
    // synchronization.
    let by_channels = if case.dual && case.diskless { full } else { 0 };
    let counted = (primary.info_number("sync_full"), primary.info_number("sync_partial_ok"));
    assert_eq!(counted, (full, partial + by_channels), "{case:?}\n{}", server.log.so_far());
    replica.check("EXISTS old", ":0\r\n");
}

/// Runs the cases of one event with a primary of ours.
fn primary_of_ours(event: Event) {
    // Only a run of all combinations tests every pair of an event and a load mode. Other runs test every
    // second load mode, and the choice alternates from event to event.
    let is_run = |at: usize| wants_all() || (at / LOADS.len() + at).is_multiple_of(2);
    let cases = cases().into_iter().enumerate().filter(|(at, case)| case.event == event && is_run(*at));
    for (at, case) in cases {
        let server = Server::start(&[]);
        run(case, 1 + at as u64, server.port, || server.client());
    }
}

/// Runs the cases of one event with a primary that is the reference.
fn primary_of_the_reference(event: Event) {
    let step = if wants_all() { 1 } else { LOADS.len() + 1 };
    let cases = (1000..).zip(cases().into_iter().step_by(step));
    for (seed, case) in cases.filter(|(_, case)| case.event == event) {
        let Some(reference) = Reference::start(&["--repl-diskless-sync-delay", "0"]) else { return };
        run(case, seed, reference.port, || reference.client());
    }
}

/// A replica must have the data of its primary after any event of the link. There is one test for each event,
/// because each test waits long.
macro_rules! events {
    ($($of_ours:ident, $of_the_reference:ident: $event:expr;)*) => {
        $(
            #[test]
            fn $of_ours() {
                primary_of_ours($event);
            }

            #[test]
            fn $of_the_reference() {
                primary_of_the_reference($event);
            }
        )*
    };
}

events! {
    a_link_that_holds, a_link_to_the_reference_that_holds: Event::None;
    a_link_that_is_cut, a_link_to_the_reference_that_is_cut: Event::Cut;
    a_link_that_is_cut_for_a_while, a_link_to_the_reference_that_is_cut_for_a_while: Event::Delay;
    a_backlog_that_is_too_small, a_backlog_of_the_reference_that_is_too_small: Event::BacklogTooSmall;
    a_backlog_that_expires, a_backlog_of_the_reference_that_expires: Event::BacklogExpired;
}
