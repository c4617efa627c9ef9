//! Slow reads: their replies, the moment whose data they show, the order of later output, and their costs for
//! other clients.

use sluice_base::SessionKey;
use sluice_commands::Progress;
use sluice_control::process::ProcessClock;
use sluice_session::slow_reads::PieceRoom;
use sluice_testkit::{Rig, render};

/// A rig with a list `l` of `elements` elements, and another client; slow reads are suspended until the test
/// runs them.
fn with_list(elements: usize) -> (Rig, SessionKey) {
    let mut rig = Rig::new();
    fill(&mut rig, "l", elements);
    let other = rig.connect();
    rig.holds_reads = true;
    (rig, other)
}

fn fill(rig: &mut Rig, key: &str, elements: usize) {
    let numbers: Vec<String> = (0..elements).map(|number| format!("element:{number}")).collect();
    for some in numbers.chunks(1000) {
        let mut argv: Vec<&[u8]> = vec![b"RPUSH", key.as_bytes()];
        argv.extend(some.iter().map(|text| text.as_bytes()));
        rig.argv(rig.client, &argv);
    }
}

/// The number in a line of INFO.
fn info(rig: &mut Rig, client: SessionKey, section: &str, name: &str) -> u64 {
    let text = rig.run_as(client, &format!("INFO {section}"));
    let at = text.find(&format!("{name}:")).unwrap_or_else(|| panic!("{name}: {text}"));
    let digits = text[at + name.len() + 1..].split(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap()
}

fn got(rig: &mut Rig, client: SessionKey) -> String {
    render(&rig.output(client))
}

/// Output of the first client.
fn own(rig: &mut Rig) -> String {
    let client = rig.client;
    got(rig, client)
}

#[test]
fn what_is_changed_after_its_moment_does_not_change_the_reply() {
    let (mut rig, other) = with_list(10_000);
    let client = rig.client;
    rig.run("LRANGE l 0 -1");
    for line in ["LPUSH l new", "LSET l 5000 changed", "LTRIM l 0 10", "DEL l", "FLUSHALL", "SWAPDB 0 1"] {
        assert!(!rig.run_as(other, line).starts_with('-'), "{line}");
    }
    rig.finish_read();
    let reply = got(&mut rig, client);
    assert!(reply.starts_with("[\"element:0\", \"element:1\""));
    assert!(reply.ends_with("\"element:9999\"]") && !reply.contains("changed"));
}

#[test]
fn its_moment_is_when_a_thread_is_free_first_come_first_served() {
    let (mut rig, other) = with_list(10_000);
    let (second, third, watcher) = (rig.connect(), rig.connect(), rig.connect());
    rig.run_as(watcher, "MONITOR");
    rig.run("LRANGE l 0 -1");
    for client in [second, third] {
        assert_eq!(rig.run_as(client, "LRANGE l 0 -1"), "");
    }
    assert_eq!(rig.reads.len(), 1);
    for (name, value) in [("running", 1), ("waiting", 2), ("total", 1)] {
        assert_eq!(info(&mut rig, other, "stats", &format!("slow_reads_{name}")), value, "{name}");
    }
    assert_eq!(info(&mut rig, other, "stats", "keyspace_hits"), 1, "two have not happened");
    assert_eq!(info(&mut rig, other, "clients", "blocked_clients"), 2);
    let seen = rig.output(watcher);
    assert_eq!(String::from_utf8(seen).unwrap().matches("LRANGE").count(), 1, "the same for MONITOR");
    rig.run_as(other, "LSET l 0 changed");
    rig.finish_read();
    assert_eq!(rig.reads[0].0, second, "the first that came");
    assert!(own(&mut rig).starts_with("[\"element:0\""));
    rig.run_as(other, "DEL l");
    rig.finish_read();
    assert!(got(&mut rig, second).starts_with("[\"changed\""), "its moment was behind LSET");
    assert!(rig.reads.is_empty());
    assert_eq!(got(&mut rig, third), "[]", "its moment was behind DEL");
    assert_eq!(info(&mut rig, other, "stats", "keyspace_hits"), 2);
    assert_eq!(info(&mut rig, other, "stats", "keyspace_misses"), 1);
    assert_eq!(info(&mut rig, other, "clients", "blocked_clients"), 0);
    let seen = rig.output(watcher);
    assert_eq!(String::from_utf8(seen).unwrap().matches("LRANGE").count(), 2);
}

#[test]
fn the_gate_is_passed_when_it_begins() {
    let (mut rig, other) = with_list(10_000);
    let second = rig.connect();
    rig.run("LRANGE l 0 -1");
    rig.run_as(second, "LRANGE l 0 -1");
    rig.run_as(other, "DEL l");
    rig.run_as(other, "SET l x");
    rig.finish_read();
    assert_eq!(got(&mut rig, second), "-WRONGTYPE Operation against a key holding the wrong kind of value");
}

#[test]
fn a_pause_keeps_back_what_has_not_begun_and_nothing_else() {
    let (mut rig, other) = with_list(10_000);
    let second = rig.connect();
    rig.run("LRANGE l 0 -1");
    rig.run_as(second, "LRANGE l 0 -1");
    rig.check_as(other, "CLIENT PAUSE 100 ALL", "+OK");
    rig.finish_read();
    assert!(own(&mut rig).ends_with("\"element:9999\"]"), "one that has begun goes on");
    assert!(rig.reads.is_empty());
    rig.pass_ms(101);
    rig.cron();
    rig.finish_read();
    assert!(got(&mut rig, second).ends_with("\"element:9999\"]"));
}

#[test]
fn what_comes_behind_a_reply_waits_for_its_last_byte() {
    let (mut rig, other) = with_list(100_000);
    let client = rig.client;
    rig.run("HELLO 3");
    rig.run("SUBSCRIBE news");
    let before =
        rig.bytes(client, b"*1\r\n$4\r\nPING\r\n*4\r\n$6\r\nLRANGE\r\n$1\r\nl\r\n$1\r\n0\r\n$2\r\n-1\r\n");
    assert_eq!(before, b"+PONG\r\n", "what was executed before is sent");
    rig.check_as(other, "PUBLISH news now", ":1");
    let mut reply = Vec::new();
    for _ in 0..3 {
        assert_eq!(rig.produce(), Progress::More);
        reply.extend(rig.output(client));
        rig.check_as(other, "PUBLISH news now", ":1");
    }
    let owed = rig.engine.session(client).unwrap().output_bytes();
    assert!(owed > 100, "the messages count against its limits: {owed}");
    rig.finish_read();
    reply.extend(rig.output(client));
    let shown = render(&reply);
    let (list, pushes) = shown.split_once('\n').unwrap();
    assert!(list.ends_with("\"element:99999\"]"), "{}", &list[list.len() - 50..]);
    assert_eq!(pushes.matches("message").count(), 4, "{pushes}");
}

#[test]
fn a_client_goes_on_behind_its_reply() {
    let (mut rig, _) = with_list(10_000);
    let client = rig.client;
    rig.run("LRANGE l 0 -1");
    rig.actions.clear();
    assert!(rig.engine.session(client).unwrap().waiting.is_some(), "requests behind it stay where they are");
    rig.finish_read();
    let resumed = |action: &sluice_control::action::Action| match action {
        sluice_control::action::Action::Resume(keys) => keys.contains(&client),
        _ => false,
    };
    assert!(rig.actions.iter().any(resumed));
    got(&mut rig, client);
    rig.check("PING", "+PONG");
}

#[test]
fn a_reply_that_nobody_is_sent_is_not_produced() {
    let (mut rig, other) = with_list(10_000);
    rig.run("CLIENT REPLY OFF");
    assert_eq!(rig.run("LRANGE l 0 -1"), "");
    rig.run("CLIENT REPLY ON");
    rig.run("CLIENT REPLY SKIP");
    assert_eq!(rig.run("LRANGE l 0 -1"), "");
    rig.check("PING", "+PONG");
    assert!(rig.reads.is_empty());
    assert_eq!(info(&mut rig, other, "stats", "slow_reads_total"), 0);
    assert_eq!(info(&mut rig, other, "stats", "keyspace_hits"), 2, "it happened all the same");
}

#[test]
fn transactions_read_in_place() {
    let (mut rig, other) = with_list(10_000);
    for line in ["MULTI", "LRANGE l 0 -1", "DEL l"] {
        rig.run(line);
    }
    assert!(rig.run("EXEC").ends_with("\"element:9999\"], :1]"));
    assert_eq!(info(&mut rig, other, "stats", "slow_reads_in_place"), 1);
    assert_eq!(info(&mut rig, other, "stats", "slow_reads_total"), 0);
}

#[test]
fn the_threshold_can_be_set_and_turned_off() {
    let (mut rig, _) = with_list(4096);
    assert!(rig.run("LRANGE l 0 -1").ends_with("\"element:4095\"]"), "4,096 elements are not more than that");
    rig.run("CONFIG SET slow-read-elements 4095");
    assert_eq!(rig.run("LRANGE l 0 -2"), rig.run("LRANGE l 0 4094"));
    assert_eq!(rig.run("LRANGE l 0 -1"), "");
    rig.finish_read();
    own(&mut rig);
    rig.run("CONFIG SET slow-read-elements 0");
    assert!(rig.run("LRANGE l 0 -1").ends_with("\"element:4095\"]"));
}

#[test]
fn beyond_a_limit_of_memory_reads_are_produced_in_place() {
    let (mut rig, other) = with_list(10_000);
    rig.engine.set_slow_read_retained((64 << 20) - 1, [].into_iter());
    assert_eq!(rig.run("LRANGE l 0 -1"), "");
    rig.finish_read();
    own(&mut rig);
    rig.engine.set_slow_read_retained(64 << 20, [].into_iter());
    assert!(rig.run("LRANGE l 0 -1").ends_with("\"element:9999\"]"));
    assert_eq!(info(&mut rig, other, "stats", "slow_reads_in_place"), 1);
    assert_eq!(info(&mut rig, other, "stats", "slow_reads_retained_bytes"), 64 << 20);
}

#[test]
fn what_a_read_alone_holds_is_known_and_not_counted_by_maxmemory() {
    let (mut rig, other) = with_list(100_000);
    rig.run("LRANGE l 0 -1");
    assert!(rig.reads[0].1.retained_bytes() < 1000, "all is shared");
    rig.run_as(other, "DEL l");
    rig.actions.clear();
    let retained = rig.reads[0].1.retained_bytes();
    assert!(retained > 1_000_000, "{retained}");
    rig.run_as(other, "CONFIG SET maxmemory 100mb");
    rig.process.facts.used_memory = (100 << 20) + 500_000;
    // Used memory is not read again for each command.
    rig.pass_ms(1000);
    assert!(rig.run_as(other, "SET k v").starts_with("-OOM"));
    rig.engine.set_slow_read_retained(retained, [].into_iter());
    rig.pass_ms(1000);
    assert_eq!(rig.run_as(other, "SET k v"), "+OK");
}

#[test]
fn what_two_reads_hold_together_is_known() {
    let (mut rig, other) = with_list(100_000);
    rig.engine.set_slow_read_threads(2);
    let (first, second) = (rig.client, rig.connect());
    let retained = |rig: &mut Rig, holding: &[SessionKey]| {
        let each_alone = rig.reads.iter().map(|(_, read)| read.retained_bytes()).sum();
        rig.engine.set_slow_read_retained(each_alone, holding.iter().copied());
        info(rig, other, "stats", "slow_reads_retained_bytes")
    };
    rig.run_as(first, "LRANGE l 0 -1");
    rig.run_as(other, "LSET l 50000 another");
    rig.actions.clear();
    rig.run_as(second, "LRANGE l 0 -1");
    assert_eq!(rig.reads.len(), 2);
    let written = retained(&mut rig, &[first, second]);
    assert!(written < 50_000, "all but what was written is the list's: {written}");
    rig.run_as(other, "DEL l");
    rig.actions.clear();
    let each_alone: usize = rig.reads.iter().map(|(_, read)| read.retained_bytes()).sum();
    let together = retained(&mut rig, &[first, second]);
    assert!(each_alone < 50_000 && together > 1_000_000, "{each_alone}, {together}");
    // The first read ends, so only the other read holds the remaining memory.
    rig.reads.remove(0);
    let alone = rig.reads[0].1.retained_bytes() as u64;
    assert_eq!(retained(&mut rig, &[second]), alone);
    assert!(alone > 1_000_000);
}

#[test]
fn a_client_is_given_pieces_ahead_of_what_it_took_up_to_a_bound() {
    let (mut rig, _) = with_list(100_000);
    let client = rig.client;
    rig.run("LRANGE l 0 -1");
    let now = rig.process.now();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Room);
    rig.produce();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Room);
    rig.produce();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Full);
    assert!(rig.engine.session(client).unwrap().output_bytes() <= 512 << 10);
    rig.output(client);
    let now = rig.process.now();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Room, "it has taken them");
    rig.produce();
    rig.produce();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Full);
    rig.pass_ms(999);
    let now = rig.process.now();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Full);
    rig.pass_ms(1);
    let now = rig.process.now();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Room, "it took nothing for a second");
    rig.produce();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Room, "so it gets all");
}

/// A client that takes a little again and again is never without room for a whole second, so it could keep
/// the thread for as long as it likes.
#[test]
fn a_slow_reader_has_a_thread_that_others_wait_for_for_a_second_in_all() {
    for others_wait in [false, true] {
        let (mut rig, other) = with_list(100_000);
        let client = rig.client;
        rig.run("LRANGE l 0 -1");
        if others_wait {
            assert_eq!(rig.run_as(other, "LRANGE l 0 -1"), "");
        }
        for waited_ms in [600, 399] {
            while rig.engine.piece_room(client, rig.process.now()) == PieceRoom::Room {
                rig.produce();
            }
            rig.pass_ms(waited_ms);
            assert_eq!(rig.engine.piece_room(client, rig.process.now()), PieceRoom::Full);
            if waited_ms == 600 {
                rig.output(client);
            }
        }
        rig.pass_ms(1);
        let is_unbounded = rig.engine.piece_room(client, rig.process.now()) == PieceRoom::Room;
        assert_eq!(is_unbounded, others_wait);
    }
}

/// Formerly each of many slow readers had a second of its own, so a waiting read waited for the sum.
#[test]
fn patience_with_slow_readers_does_not_add_up_for_a_read_that_waits() {
    let (mut rig, other) = with_list(100_000);
    let readers = [rig.client, rig.connect(), rig.connect(), rig.connect()];
    for client in readers.into_iter().chain([other]) {
        assert_eq!(rig.run_as(client, "LRANGE l 0 -1"), "");
    }
    let fill_up = |rig: &mut Rig, reader: SessionKey| {
        while rig.engine.piece_room(reader, rig.process.now()) == PieceRoom::Room {
            rig.produce();
        }
    };
    let room = |rig: &mut Rig, reader: SessionKey| rig.engine.piece_room(reader, rig.process.now());
    fill_up(&mut rig, readers[0]);
    rig.pass_ms(999);
    assert_eq!(room(&mut rig, readers[0]), PieceRoom::Full);
    rig.pass_ms(1);
    rig.engine.set_slow_reads_held(1);
    for (before, next) in readers.into_iter().zip(readers.into_iter().skip(1)) {
        assert_eq!(room(&mut rig, before), PieceRoom::Room, "it gets all");
        rig.finish_read();
        fill_up(&mut rig, next);
        rig.pass_ms(19);
        assert_eq!(room(&mut rig, next), PieceRoom::Full, "its client may yet be quick");
        rig.pass_ms(1);
    }
    rig.finish_read();
    assert_eq!(rig.reads[0].0, other, "1.06 s behind its coming");
}

#[test]
fn quick_reads_run_in_place_while_slow_readers_have_all_threads() {
    let (mut rig, other) = with_list(100_000);
    let client = rig.client;
    rig.run("LRANGE l 0 -1");
    while rig.engine.piece_room(client, rig.process.now()) == PieceRoom::Room {
        rig.produce();
    }
    assert!(!rig.engine.is_slow_reader(client));
    rig.pass_ms(20);
    assert_eq!(rig.engine.piece_room(client, rig.process.now()), PieceRoom::Full);
    assert!(rig.engine.is_slow_reader(client));
    let waiting = rig.connect();
    assert_eq!(rig.run_as(waiting, "LRANGE l 0 9999"), "", "the thread works, as far as anybody has said");
    rig.engine.set_slow_reads_held(1);
    assert!(rig.run_as(other, "LRANGE l 0 9999").ends_with("\"element:9999\"]"));
    assert_eq!(info(&mut rig, other, "stats", "slow_reads_in_place"), 1);
    // A read for which every client would wait too long does not run in place.
    assert_eq!(rig.run_as(other, "LRANGE l 0 -1"), "");
}

#[test]
fn the_time_of_both_threads_is_counted_at_the_end() {
    let (mut rig, other) = with_list(10_000);
    for line in ["CONFIG SET slowlog-log-slower-than 900", "CONFIG SET latency-monitor-threshold 1"] {
        rig.run(line);
    }
    rig.run("LRANGE l 0 -1");
    assert!(!rig.run_as(other, "INFO commandstats").contains("cmdstat_lrange"));
    rig.check_as(other, "SLOWLOG LEN", ":0");
    rig.finish_read();
    let text = rig.run_as(other, "INFO all");
    let at = text.find("cmdstat_lrange:calls=1,usec=100").unwrap_or_else(|| panic!("{text}"));
    assert!(text[at..].contains("latency_percentiles_usec_lrange"), "{text}");
    let log = rig.run_as(other, "SLOWLOG GET");
    assert!(log.contains("[\"LRANGE\", \"l\", \"0\", \"-1\"]"), "{log}");
    rig.check_as(other, "LATENCY LATEST", "[]");
    let large = rig.run_as(other, "COMMANDLOG GET -1 large-reply");
    assert_eq!(large, "[]", "the default is a megabyte");
}

/// A client that takes its reply slowly does not count as a delay of the server, but a read that waits for
/// the thread during this time is delayed.
#[test]
fn latency_tells_how_long_replies_took_and_how_long_reads_waited_for_a_thread() {
    let (mut rig, other) = with_list(100_000);
    let (client, second, third) = (rig.client, rig.connect(), rig.connect());
    rig.run("CONFIG SET latency-monitor-threshold 5");
    rig.run("LRANGE l 0 -1");
    rig.pass_ms(30);
    for waits in [second, third] {
        assert_eq!(rig.run_as(waits, "LRANGE l 0 -1"), "");
    }
    while rig.engine.piece_room(client, rig.process.now()) == PieceRoom::Room {
        rig.produce();
    }
    rig.pass_ms(400);
    assert_eq!(rig.engine.piece_room(client, rig.process.now()), PieceRoom::Full);
    rig.output(client);
    assert_eq!(rig.engine.piece_room(client, rig.process.now()), PieceRoom::Room);
    rig.pass_ms(20);
    rig.check_as(other, "LATENCY LATEST", "[]");
    rig.finish_read();
    let waited = "[\"slow-read-wait\", :1700000000, :420, :420, :420, :1]";
    let first = "[\"slow-read\", :1700000000, :50, :50, :50, :1]";
    rig.check_as(other, "LATENCY LATEST", &format!("[{first}, {waited}]"));
    // The third read continues to wait while the second is produced; a reply that takes no time is
    // below the threshold.
    rig.pass_ms(2);
    rig.finish_read();
    rig.check_as(other, "LATENCY HISTORY slow-read", "[[:1700000000, :50]]");
    rig.check_as(other, "LATENCY HISTORY slow-read-wait", "[[:1700000000, :422]]");
    let advice = rig.run_as(other, "LATENCY DOCTOR");
    assert!(advice.contains("- Reads of many elements wait for a thread"), "{advice}");
    rig.check_as(other, "LATENCY RESET slow-read-wait", ":1");
    rig.check_as(other, "LATENCY HISTORY slow-read-wait", "[]");
    rig.finish_read();
    rig.check_as(other, "LATENCY HISTORY slow-read", "[[:1700000000, :50]]");
}

/// A read that waited, and then runs in place because its key is gone, nevertheless counts as having waited.
#[test]
fn latency_counts_the_wait_of_a_read_that_needs_no_thread_any_more() {
    let (mut rig, other) = with_list(10_000);
    let waits = rig.connect();
    rig.run("CONFIG SET latency-monitor-threshold 5");
    rig.run("LRANGE l 0 -1");
    assert_eq!(rig.run_as(waits, "LRANGE l 0 -1"), "");
    rig.run_as(other, "DEL l");
    rig.pass_ms(7);
    rig.finish_read();
    assert_eq!(got(&mut rig, waits), "[]");
    rig.check_as(other, "LATENCY HISTORY slow-read-wait", "[[:1700000000, :7]]");
}

#[test]
fn a_large_reply_is_logged_as_such() {
    let (mut rig, other) = with_list(100_000);
    rig.run("LRANGE l 0 -1");
    rig.finish_read();
    assert!(rig.run_as(other, "COMMANDLOG GET -1 large-reply").contains("\"LRANGE\""));
}

#[test]
fn others_see_it_and_can_end_it_by_kill_alone() {
    let (mut rig, other) = with_list(100_000);
    let client = rig.client;
    let id = rig.run("CLIENT ID").trim_start_matches(':').to_owned();
    let (second, second_id) = (rig.connect(), 3);
    rig.run("LRANGE l 0 -1");
    rig.run_as(second, "LRANGE l 0 -1");
    let line = rig.run_as(other, &format!("CLIENT LIST ID {id}"));
    assert!(line.contains(" flags=p ") && line.contains(" cmd=lrange "), "{line}");
    for id in [id.clone(), second_id.to_string()] {
        rig.check_as(other, &format!("CLIENT UNBLOCK {id}"), ":0");
    }
    rig.produce();
    rig.check_as(other, &format!("CLIENT KILL ID {id}"), ":1");
    let now = rig.process.now();
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Gone);
    rig.engine.client_lost(client, &mut rig.process);
    rig.engine.disconnect(client, &mut rig.process);
    assert_eq!(rig.engine.piece_room(client, now), PieceRoom::Gone);
    assert_eq!(rig.reads.len(), 1, "the thread has not ended yet");
    rig.finish_read();
    assert_eq!(rig.reads[0].0, second);
}

#[test]
fn an_idle_client_is_not_one_that_is_sent_a_reply() {
    let (mut rig, _) = with_list(100_000);
    rig.run("CONFIG SET timeout 10");
    rig.run("LRANGE l 0 -1");
    for _ in 0..30 {
        rig.pass_ms(1000);
        rig.cron();
    }
    assert!(!rig.is_closing(rig.client));
    rig.finish_read();
    rig.cron();
    assert!(!rig.is_closing(rig.client), "it was not idle");
}

#[test]
fn an_output_limit_ends_it() {
    let (mut rig, _) = with_list(100_000);
    rig.run("CONFIG SET client-output-buffer-limit \"normal 400000 0 0\"");
    rig.run("LRANGE l 0 -1");
    rig.produce();
    assert!(!rig.is_closing(rig.client));
    rig.produce();
    assert!(rig.is_closing(rig.client));
    let now = rig.process.now();
    assert_eq!(rig.engine.piece_room(rig.client, now), PieceRoom::Gone);
}

#[test]
fn a_client_that_goes_while_it_waits_leaves_its_place() {
    let (mut rig, other) = with_list(10_000);
    let (second, third) = (rig.connect(), rig.connect());
    rig.run("LRANGE l 0 -1");
    rig.run_as(second, "LRANGE l 0 -1");
    rig.run_as(third, "LRANGE l 0 -1");
    rig.engine.disconnect(second, &mut rig.process);
    assert_eq!(info(&mut rig, other, "stats", "slow_reads_waiting"), 1);
    rig.finish_read();
    assert_eq!(rig.reads[0].0, third);
}

#[test]
fn more_threads_produce_at_the_same_time() {
    let (mut rig, other) = with_list(10_000);
    rig.engine.set_slow_read_threads(2);
    rig.run("LRANGE l 0 -1");
    rig.run_as(other, "LRANGE l 0 -1");
    assert_eq!(rig.reads.len(), 2);
    rig.engine.set_slow_read_threads(0);
    let third = rig.connect();
    assert!(rig.run_as(third, "LRANGE l 0 -1").ends_with("\"element:9999\"]"), "without threads in place");
}

#[test]
fn a_reply_waits_for_the_last_write_before_its_moment() {
    let mut rig = Rig::with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    rig.engine.begin_aof();
    fill(&mut rig, "l", 10_000);
    let (first, second, writer) = (rig.client, rig.connect(), rig.connect());
    rig.holds_reads = true;
    let before = rig.engine.aof_position();
    rig.run("LRANGE l 0 -1");
    rig.run_as(second, "LRANGE l 0 -1");
    rig.run_as(writer, "LSET l 0 changed");
    let behind = rig.engine.output_position(writer);
    assert!(behind > before);
    rig.finish_read();
    assert_eq!(rig.engine.output_position(first), before, "it knows nothing of the write");
    assert_eq!(rig.engine.output_position(second), behind, "its moment was behind the write");
}

/// A rig with a set `s` of `members` members, and another client; slow reads are suspended.
fn with_set(members: usize) -> (Rig, SessionKey) {
    let mut rig = Rig::new();
    let numbers: Vec<String> = (0..members).map(|number| format!("member:{number}")).collect();
    for some in numbers.chunks(1000) {
        rig.run(&format!("SADD s {}", some.join(" ")));
    }
    let other = rig.connect();
    rig.holds_reads = true;
    (rig, other)
}

/// The members of a reply, each once.
fn members_of(reply: &str) -> std::collections::BTreeSet<String> {
    let members = reply.trim_matches(['[', ']', '(', ')']).split(", ").filter(|member| !member.is_empty());
    let list: Vec<String> = members.map(|member| member.trim_matches('"').to_owned()).collect();
    let set: std::collections::BTreeSet<String> = list.iter().cloned().collect();
    assert_eq!(set.len(), list.len(), "a member came twice");
    set
}

#[test]
fn members_that_are_popped_are_gone_at_once_and_their_reply_comes_in_pieces() {
    for popped in [5000, 19_990, 20_000, 30_000] {
        let (mut rig, other) = with_set(20_000);
        assert_eq!(rig.run(&format!("SPOP s {popped}")), "");
        assert_eq!(rig.reads.len(), 1);
        let left = 20_000 - popped.min(20_000);
        assert_eq!(rig.run_as(other, "SCARD s"), format!(":{left}"));
        rig.run_as(other, "SADD s member:1 new");
        rig.finish_read();
        let taken = members_of(&own(&mut rig));
        assert_eq!(taken.len(), popped.min(20_000));
        assert!(!taken.contains("new"));
        rig.run_as(other, "SREM s new member:1");
        rig.holds_reads = false;
        let rest = members_of(&rig.run_as(other, "SMEMBERS s"));
        assert!(rest.is_disjoint(&taken));
        let all = rest.len() + taken.len() + usize::from(!taken.contains("member:1"));
        assert_eq!(all, 20_000, "{popped}");
    }
}

#[test]
fn replicas_are_told_which_members_were_popped() {
    let (mut rig, other) = with_set(20_000);
    let replica = rig.connect();
    rig.engine.feed(replica);
    rig.run_as(other, "SPOP s 5000");
    let told = rig.fed(replica);
    rig.finish_read();
    let taken = members_of(&got(&mut rig, other));
    let removed: Vec<String> =
        told.split("; ").filter_map(|line| line.strip_prefix("SREM s ")).map(str::to_owned).collect();
    assert_eq!(removed.len(), 5, "some at a time");
    let removed: std::collections::BTreeSet<String> =
        removed.iter().flat_map(|line| line.split(' ')).map(str::to_owned).collect();
    assert_eq!(removed, taken);
}

#[test]
fn a_read_counts_whose_client_goes_while_its_reply_is_produced() {
    let (mut rig, other) = with_set(20_000);
    for (lines, name) in [(1, "spop"), (2, "smembers")] {
        let client = rig.connect();
        for line in ["SPOP s 5000", "SMEMBERS s"].into_iter().take(lines).skip(lines - 1) {
            assert_eq!(rig.run_as(client, line), "");
        }
        let stats = rig.run_as(other, "INFO commandstats");
        assert!(!stats.contains(&format!("cmdstat_{name}:")), "{stats}");
        // The connection is lost, and then closed, but the command counts once.
        rig.engine.client_lost(client, &mut rig.process);
        rig.engine.disconnect(client, &mut rig.process);
        let stats = rig.run_as(other, "INFO commandstats");
        let counts = stats.split(&format!("cmdstat_{name}:")).nth(1).unwrap();
        assert!(counts.starts_with("calls=1,"), "{counts}");
        rig.finish_read();
    }
    assert_eq!(rig.run_as(other, "SCARD s"), ":15000");
}

#[test]
fn a_pop_that_waits_for_a_thread_has_not_happened() {
    let (mut rig, other) = with_set(20_000);
    let (second, watcher) = (rig.connect(), rig.connect());
    rig.run("SMEMBERS s");
    assert_eq!(rig.run_as(second, "SPOP s 6000"), "");
    assert_eq!(rig.run_as(watcher, "SCARD s"), ":20000");
    assert_eq!(info(&mut rig, other, "stats", "slow_reads_waiting"), 1);
    rig.finish_read();
    assert_eq!(rig.run_as(watcher, "SCARD s"), ":14000");
    rig.finish_read();
    assert_eq!(members_of(&got(&mut rig, second)).len(), 6000);
    // A waiting pop that is no longer wanted changes nothing, nor does a pop whose key has another type when
    // its turn comes.
    rig.output(rig.client);
    rig.run("SMEMBERS s");
    rig.run_as(second, "SPOP s 6000");
    rig.run_as(other, "DEL s");
    rig.run_as(other, "SET s x");
    rig.finish_read();
    assert_eq!(got(&mut rig, second), "-WRONGTYPE Operation against a key holding the wrong kind of value");
}

#[test]
fn a_pop_happens_where_nobody_is_sent_its_reply() {
    let (mut rig, other) = with_set(20_000);
    rig.run("CLIENT REPLY OFF");
    rig.run("SPOP s 5000");
    rig.run("SPOP s 2000");
    assert!(rig.reads.is_empty());
    assert_eq!(rig.run_as(other, "SCARD s"), ":13000");
    // In a transaction the pop is answered in place.
    for line in ["MULTI", "SPOP s 5000", "SCARD s"] {
        rig.run_as(other, line);
    }
    let reply = rig.run_as(other, "EXEC");
    assert!(rig.reads.is_empty());
    assert!(reply.ends_with("], :8000]"), "{}", &reply[reply.len() - 40..]);
}

/// A pop takes neighbours in the order of hashes, at a random position. Over many pops, each member is popped
/// equally often.
#[test]
fn every_member_is_popped_as_often() {
    let (mut rig, other) = with_set(2400);
    rig.holds_reads = false;
    let mut times = std::collections::BTreeMap::new();
    for _ in 0..300 {
        rig.run_as(other, "COPY s t REPLACE");
        for member in members_of(&rig.run_as(other, "SPOP t 1200")) {
            *times.entry(member).or_insert(0) += 1;
        }
    }
    assert_eq!(times.len(), 2400);
    // The mean is 150, half of 300, with a standard deviation of 8.7; the bounds are six deviations away.
    let (least, most) = (times.values().min().unwrap(), times.values().max().unwrap());
    assert!(*least > 98 && *most < 202, "{least} {most}");
}
