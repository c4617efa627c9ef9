//! Tests of the commands that a large SPOP promises to replicas and to the append-only file. Their length
//! counts at once, but their bytes are made in slices; apart from the time at which they arrive, they do not
//! differ from the commands of a small SPOP.

use sluice_base::SessionKey;
use sluice_control::process::ProcessClock;
use sluice_resp::{Value, decode};
use sluice_testkit::{Rig, content, render};
use std::collections::BTreeSet;

/// Number of members that are popped; the bytes of their commands are made in eight slices.
const TAKEN: usize = 20_000;

/// A rig with a set `s` of 24,000 members of 200 bytes, and the client that will pop; slow
/// reads are suspended.
fn with_set(directives: &[(&str, &str)]) -> (Rig, SessionKey) {
    let mut rig = Rig::with(&[&[("appendonly", "yes")], directives].concat());
    fill(&mut rig, "s");
    let other = rig.connect();
    rig.holds_reads = true;
    (rig, other)
}

fn fill(rig: &mut Rig, key: &str) {
    fill_with(rig, key, (0..TAKEN + 4000).map(member));
}

fn fill_with(rig: &mut Rig, key: &str, names: impl Iterator<Item = String>) {
    let names: Vec<String> = names.collect();
    for some in names.chunks(1000) {
        let some = some.iter().map(String::as_bytes);
        let argv: Vec<&[u8]> = [&b"SADD"[..], key.as_bytes()].into_iter().chain(some).collect();
        rig.argv(rig.client, &argv);
    }
}

fn member(number: usize) -> String {
    format!("{number:0200}")
}

/// Makes the client pop, in an iteration that does not end yet.
fn pop(rig: &mut Rig, client: SessionKey) {
    rig.argv_unread(client, &[b"SPOP", b"s", TAKEN.to_string().as_bytes()]);
}

/// Members that the client received.
fn taken(rig: &mut Rig, client: SessionKey) -> BTreeSet<String> {
    rig.finish_read();
    let reply = render(&rig.output(client));
    let members =
        reply.trim_matches(['[', ']']).split(", ").map(|member| member.trim_matches('"').to_owned());
    members.collect()
}

/// Output of a client, without ending the iteration.
fn sent_to(rig: &mut Rig, client: SessionKey) -> Vec<u8> {
    rig.engine.take_ready(&mut Vec::new());
    let Some((outbox, _)) = rig.engine.take_output_up_to(client, u64::MAX) else { return Vec::new() };
    rig.engine.sent(client, outbox.len(), rig.process.now());
    outbox.flatten()
}

/// Ends iterations until nothing is promised any more. Returns the stream of the replica, and the blocks for
/// the append-only file.
fn make_all(rig: &mut Rig, replica: SessionKey) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut told, mut blocks) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        rig.engine.end_iteration(&mut rig.process);
        rig.engine.take_actions(&mut Vec::new());
        told.extend(sent_to(rig, replica));
        while let Some((block, _)) = rig.engine.take_made_aof(Vec::new) {
            blocks.push(block);
        }
        if !rig.engine.has_more_to_do() {
            break;
        }
    }
    loop {
        let more = sent_to(rig, replica);
        rig.engine.end_iteration(&mut rig.process);
        if more.is_empty() {
            return (told, blocks);
        }
        told.extend(more);
    }
}

/// The commands in `bytes`, without annotations, each as its words separated by spaces.
fn commands(bytes: &[u8]) -> Vec<String> {
    let (mut rest, mut commands) = (bytes, Vec::new());
    while !rest.is_empty() {
        if rest[0] == b'#' {
            let end = rest.iter().position(|byte| *byte == b'\n').expect("an annotation is whole");
            rest = &rest[end + 1..];
            continue;
        }
        let Ok(Some((Value::Array(words), len))) = decode(rest) else { panic!("no whole command") };
        rest = &rest[len..];
        let words = words.iter().map(|word| match word {
            Value::Bulk(text) => String::from_utf8(text.to_vec()).unwrap(),
            other => panic!("the stream is bulk strings: {other:?}"),
        });
        commands.push(words.collect::<Vec<_>>().join(" "));
    }
    commands
}

/// The data after these commands, on a server that has the set.
fn replayed(commands: &[String]) -> Vec<String> {
    let (mut rig, _) = with_set(&[]);
    for command in commands {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let reply = rig.argv(rig.client, &words);
        assert_ne!(reply.first(), Some(&b'-'), "{command}");
    }
    content(rig.engine.keyspace())
}

fn offset(rig: &mut Rig) -> u64 {
    let text = rig.run("INFO replication");
    let at = text.split("master_repl_offset:").nth(1).unwrap();
    at.split("\\r\\n").next().unwrap().parse().unwrap()
}

fn replid(rig: &mut Rig) -> String {
    rig.run("INFO replication").split("master_replid:").nth(1).unwrap()[..40].to_owned()
}

#[test]
fn its_length_counts_at_once_and_what_follows_stands_behind_it() {
    let (mut rig, other) = with_set(&[]);
    let replica = rig.replica();
    rig.engine.begin_aof();
    pop(&mut rig, other);
    rig.argv_unread(rig.client, &[b"SET", b"behind", b"1"]);
    let position = rig.engine.aof_position();
    let (mut told, mut file, mut iterations) = (Vec::new(), Vec::new(), 0);
    while rig.engine.has_more_to_do() {
        rig.engine.end_iteration(&mut rig.process);
        rig.engine.take_actions(&mut Vec::new());
        iterations += 1;
        told.extend(sent_to(&mut rig, replica));
        while let Some((bytes, range)) = rig.engine.take_made_aof(Vec::new) {
            assert_eq!(range.start, file.len() as u64);
            file.extend(bytes);
            assert_eq!(range.end, file.len() as u64);
        }
        let is_told = told.ends_with(b"behind\r\n$1\r\n1\r\n");
        assert!(!rig.engine.has_more_to_do() || (!is_told && file.is_empty()), "iteration {iterations}");
    }
    assert_eq!(iterations, 8);
    told.extend(make_all(&mut rig, replica).0);
    assert_eq!(offset(&mut rig), told.len() as u64);
    let (rest, range) = rig.engine.take_made_aof(Vec::new).unwrap_or_default();
    assert!(commands(&rest).is_empty(), "no more than an annotation");
    assert!(range.end.max(file.len() as u64) >= position);
    let taken = taken(&mut rig, other);
    assert_eq!(taken.len(), TAKEN);
    for bytes in [told, file] {
        let commands = commands(&bytes);
        assert_eq!(commands[..2], ["MULTI", "SELECT 0"]);
        assert_eq!(commands[commands.len() - 2..], ["EXEC", "SET behind 1"]);
        let removals: Vec<Vec<&str>> = commands[2..commands.len() - 2]
            .iter()
            .map(|command| command.strip_prefix("SREM s ").unwrap().split(' ').collect())
            .collect();
        assert!(removals.iter().rev().skip(1).all(|members| members.len() == 1024));
        let removed: BTreeSet<String> = removals.into_iter().flatten().map(str::to_owned).collect();
        assert_eq!(removed, taken);
    }
}

/// The promise owns the members, even if the key changes before the commands are made.
#[test]
fn what_becomes_of_the_key_meanwhile_changes_nothing_of_what_is_told() {
    let again: Vec<String> = (0..3000).map(member).collect();
    let again = format!("SADD s {}", again.join(" "));
    for lines in [
        &[again.as_str(), "SREM s new"][..],
        &["DEL s", &again],
        &["SET s string"],
        &["RENAME s t", &again],
        &["SPOP s 4000", &again],
        &["FLUSHALL", "SET a 1"],
        &["SELECT 1", "SET a 1", "SWAPDB 0 1", "FLUSHDB"],
        &["MULTI", "SET a 1", &again, "EXEC"],
        &["EVAL \"redis.call('del', 's') return redis.call('incr', 'a')\" 1 s"],
        &["CONFIG SET maxmemory-policy allkeys-random maxmemory 1", "SET a 1", "GET a"],
    ] {
        let (mut rig, other) = with_set(&[]);
        let replica = rig.replica();
        rig.engine.begin_aof();
        pop(&mut rig, other);
        for line in lines {
            let words = sluice_base::quote::split_args(line.as_bytes(), sluice_base::quote::Dialect::Config);
            let words = words.unwrap();
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            rig.argv_unread(rig.client, &words);
        }
        assert!(rig.engine.has_more_to_do());
        let (told, blocks) = make_all(&mut rig, replica);
        let expected = content(rig.engine.keyspace());
        let of = &lines[0][..lines[0].len().min(40)];
        assert_eq!(replayed(&commands(&told)), expected, "replica: {of}");
        assert_eq!(replayed(&commands(&blocks.concat())), expected, "file: {of}");
    }
}

/// A crash, or a full disk, between two blocks leaves no part of a transaction.
#[test]
fn the_file_is_given_whole_units() {
    let (mut rig, other) = with_set(&[]);
    rig.holds_reads = false;
    fill(&mut rig, "t");
    let replica = rig.replica();
    rig.engine.begin_aof();
    rig.argv_unread(rig.client, &[b"SET", b"ahead", b"1"]);
    pop(&mut rig, other);
    rig.argv_unread(rig.client, &[b"SET", b"between", b"1"]);
    rig.argv_unread(other, &[b"SPOP", b"t", b"17000"]);
    rig.argv_unread(rig.client, &[b"SET", b"behind", b"1"]);
    let (_, blocks) = make_all(&mut rig, replica);
    assert_eq!(blocks.len(), 5);
    for block in &blocks {
        let commands = commands(block);
        let words = |word: &str| commands.iter().filter(|command| *command == word).count();
        assert_eq!(words("MULTI"), words("EXEC"));
    }
}

/// More than 64 MiB of promises would delay later writes to replicas and the file for too long, so beyond
/// that a SPOP makes its commands at once.
#[test]
fn where_much_is_promised_already_a_pop_is_told_where_it_runs() {
    for (bytes, blocks) in [(3000, 3), (4000, 2)] {
        let (mut rig, other) = with_set(&[]);
        rig.holds_reads = false;
        let replica = rig.replica();
        fill_with(&mut rig, "large", (0..18_000).map(|number| format!("{number:0bytes$}")));
        rig.engine.begin_aof();
        rig.argv_unread(other, &[b"SPOP", b"large", b"17000"]);
        pop(&mut rig, other);
        rig.argv_unread(rig.client, &[b"SET", b"behind", b"1"]);
        let (told, given) = make_all(&mut rig, replica);
        assert_eq!(given.len(), blocks);
        assert!(told.ends_with(b"behind\r\n$1\r\n1\r\n"));
        let commands = commands(&given.concat());
        assert_eq!(commands.iter().filter(|command| command.starts_with("SREM s ")).count(), 20);
        assert_eq!(commands.last().map(String::as_str), Some("SET behind 1"));
    }
}

#[test]
fn under_always_no_reply_leaves_before_the_pop_is_durable() {
    let (mut rig, other) = with_set(&[("appendfsync", "always")]);
    rig.engine.begin_aof();
    let before = rig.engine.aof_position();
    pop(&mut rig, other);
    rig.argv_unread(rig.client, &[b"SCARD", b"s"]);
    let reader = rig.client;
    let position = rig.engine.aof_position();
    assert_eq!(position - before, told_bytes());
    let mut durable = before;
    loop {
        rig.engine.end_iteration(&mut rig.process);
        rig.engine.take_actions(&mut Vec::new());
        let (outbox, _) = rig.engine.take_output(reader).unwrap();
        assert!(outbox.flatten().is_empty(), "the pop is durable up to {durable} of {position}");
        if let Some((_, range)) = rig.engine.take_made_aof(Vec::new) {
            durable = range.end;
            rig.engine.report_aof_durable(durable, &mut rig.process);
        }
        if durable >= position {
            break;
        }
    }
    assert_eq!(rig.engine.take_output(reader).unwrap().0.flatten(), b":4000\r\n");
    rig.finish_read();
    assert!(rig.engine.take_output(other).unwrap().0.len() > 4_000_000);
}

/// Number of bytes of the SPOP's commands in the replication stream.
fn told_bytes() -> u64 {
    let member = format!("$200\r\n{}\r\n", member(0)).len() * TAKEN;
    let head = |members: usize| format!("*{}\r\n$4\r\nSREM\r\n$1\r\ns\r\n", members + 2).len();
    let heads = 19 * head(1024) + head(TAKEN - 19 * 1024);
    let around = "*1\r\n$5\r\nMULTI\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$4\r\nEXEC\r\n".len();
    (member + heads + around) as u64
}

#[test]
fn a_rewrite_or_an_end_of_the_file_has_all_of_it_in_the_file_before() {
    for line in ["BGREWRITEAOF", "CONFIG SET appendonly no"] {
        let (mut rig, other) = with_set(&[]);
        rig.engine.begin_aof();
        pop(&mut rig, other);
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        rig.argv_unread(rig.client, &words);
        let cut = rig.process.aof_cuts.pop().map(|(_, before, end)| (before, end));
        let (before, end) = cut.or_else(|| rig.process.aof_closed.pop()).expect("the file has ended");
        assert_eq!(end, before.len() as u64);
        assert_eq!(end, told_bytes(), "{line}");
        assert_eq!(commands(&before).last().map(String::as_str), Some("EXEC"));
        rig.run("SET b 1");
        let expected = if line == "BGREWRITEAOF" { "SELECT 0 SET b 1" } else { "" };
        assert_eq!(rig.appended(), expected);
    }
}

#[test]
fn in_transactions_and_scripts_all_is_told_where_it_runs() {
    for lines in [
        &["MULTI", "SPOP s 20000", "SET a 1", "EXEC"][..],
        &["EVAL \"redis.call('spop', 's', 20000) return redis.call('set', 'a', 1)\" 1 s"],
    ] {
        let (mut rig, _) = with_set(&[]);
        let replica = rig.replica();
        rig.engine.begin_aof();
        for line in lines {
            rig.run(line);
        }
        let mut bytes = Vec::new();
        while let Some((block, range)) = rig.engine.take_made_aof(Vec::new) {
            bytes.extend(block);
            assert_eq!(range.end, bytes.len() as u64);
        }
        assert_eq!(rig.engine.aof_position(), bytes.len() as u64, "{lines:?}");
        let expected = content(rig.engine.keyspace());
        assert_eq!(replayed(&commands(&bytes)), expected);
        assert_eq!(replayed(&commands(&make_all(&mut rig, replica).0)), expected);
    }
}

/// A new connection of a replica that asks for the byte of this number. Returns the reply line, and the
/// bytes after it.
fn psync(rig: &mut Rig, replid: &str, wanted: u64) -> (SessionKey, String, Vec<u8>) {
    let client = rig.connect();
    rig.argv_unread(client, &[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]);
    sent_to(rig, client);
    rig.argv_unread(client, &[b"PSYNC", replid.as_bytes(), wanted.to_string().as_bytes()]);
    let bytes = sent_to(rig, client);
    let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap_or_else(|| panic!("{bytes:?}"));
    (client, String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes[end + 2..].to_vec())
}

#[test]
fn a_replica_goes_on_from_any_byte_of_what_is_promised() {
    let (mut rig, other) = with_set(&[]);
    let steady = rig.replica();
    let replid = replid(&mut rig);
    for made in [0, 1, 3] {
        let (from, start) = (offset(&mut rig), rig.output(steady));
        assert!(start.is_empty() || made == 0);
        rig.argv_unread(rig.client, &[b"SET", b"ahead", b"1"]);
        pop(&mut rig, other);
        rig.argv_unread(rig.client, &[b"SET", b"behind", b"1"]);
        let mut all = Vec::new();
        for _ in 0..made {
            rig.engine.end_iteration(&mut rig.process);
            all.extend(sent_to(&mut rig, steady));
        }
        let end = from + told_bytes();
        let points = [from, from + 20, from + 300_000, from + 1_000_001, end - 500_000, end - 10, end + 20];
        let mut back: Vec<(u64, SessionKey, Vec<u8>)> = Vec::new();
        for point in points {
            let (client, line, bytes) = psync(&mut rig, &replid, point + 1);
            assert_eq!(line, format!("+CONTINUE {replid}"), "{point} of {end}");
            back.push((point, client, bytes));
        }
        for _ in 0..60 {
            rig.engine.end_iteration(&mut rig.process);
            rig.engine.take_actions(&mut Vec::new());
            all.extend(sent_to(&mut rig, steady));
            back.iter_mut().for_each(|(_, client, bytes)| bytes.extend(sent_to(&mut rig, *client)));
        }
        assert!(all.ends_with(b"behind\r\n$1\r\n1\r\n"));
        for (point, client, bytes) in back {
            assert!(bytes == all[(point - from) as usize..], "{made} slices, {point} of {end}");
            rig.engine.disconnect(client, &mut rig.process);
        }
        rig.finish_read();
        rig.output(other);
        rig.run("DEL s");
        fill(&mut rig, "s");
        while !rig.output(steady).is_empty() {}
    }
}

/// The snapshot lacks the popped members, so no bytes of the promise may follow it.
#[test]
fn a_full_copy_in_between_is_followed_by_what_comes_behind_the_promise() {
    let (mut rig, other) = with_set(&[("rdbcompression", "no")]);
    let steady = rig.replica();
    pop(&mut rig, other);
    let replica = rig.connect();
    rig.argv_unread(replica, &[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]);
    sent_to(&mut rig, replica);
    rig.argv_unread(replica, &[b"PSYNC", b"?", b"-1"]);
    rig.end_iteration();
    rig.argv_unread(rig.client, &[b"SET", b"behind", b"1"]);
    assert!(rig.engine.has_more_to_do());
    let mut snapshot = sent_to(&mut rig, replica);
    for _ in 0..10 {
        rig.end_iteration();
        sent_to(&mut rig, steady);
        snapshot.extend(sent_to(&mut rig, replica));
    }
    let line = format!("+FULLRESYNC {} {}\r\n", replid(&mut rig), told_bytes());
    let begin = String::from_utf8_lossy(&snapshot[..200.min(snapshot.len())]).into_owned();
    assert!(begin.contains(&line), "{begin:?} {line}");
    assert!((800_000..900_000).contains(&snapshot.len()), "{}", snapshot.len());
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", b"0"]);
    rig.end_iteration();
    let told = commands(&sent_to(&mut rig, replica));
    assert_eq!(told[told.len() - 2..], ["SELECT 0", "SET behind 1"]);
    assert!(told[..told.len() - 2].iter().all(|command| command.starts_with("REPLCONF GETACK")), "{told:?}");
}

#[test]
fn what_is_promised_is_not_counted_for_maxmemory() {
    let (mut rig, other) = with_set(&[]);
    let replica = rig.replica();
    rig.engine.begin_aof();
    rig.run("SET a 1");
    rig.run("CONFIG SET maxmemory-policy allkeys-random maxmemory 10mb");
    rig.process.facts.used_memory = (10 << 20) - 5_000;
    pop(&mut rig, other);
    rig.finish_read();
    sent_to(&mut rig, other);
    while rig.engine.has_more_to_do() {
        // This memory is that of popped members whose commands are not made yet.
        rig.process.facts.used_memory = (11 << 20) - 5_000;
        rig.pass_ms(20);
        rig.argv_unread(rig.client, &[b"GETSET", b"a", b"1"]);
        rig.engine.end_iteration(&mut rig.process);
        rig.engine.take_actions(&mut Vec::new());
        sent_to(&mut rig, replica);
        rig.process.facts.used_memory = (10 << 20) - 5_000;
    }
    rig.output(rig.client);
    rig.check("DBSIZE", ":2");
}

#[test]
fn a_server_that_stops_makes_all_of_it_at_once() {
    let (mut rig, other) = with_set(&[]);
    let replica = rig.replica();
    rig.engine.begin_aof();
    pop(&mut rig, other);
    rig.engine.stop();
    rig.engine.end_iteration(&mut rig.process);
    let mut file = Vec::new();
    while let Some((block, _)) = rig.engine.take_made_aof(Vec::new) {
        file.extend(block);
    }
    assert_eq!(commands(&file).last().map(String::as_str), Some("EXEC"));
    let mut told = sent_to(&mut rig, replica);
    while let more = sent_to(&mut rig, replica)
        && !more.is_empty()
    {
        told.extend(more);
    }
    assert_eq!(told.len() as u64, told_bytes());
}

#[test]
fn wait_and_waitaof_wait_for_the_whole_of_it() {
    let (mut rig, other) = with_set(&[]);
    let replica = rig.replica();
    rig.engine.begin_aof();
    pop(&mut rig, other);
    rig.argv_unread(rig.client, &[b"SET", b"behind", b"1"]);
    let writer = rig.client;
    rig.argv_unread(writer, &[b"WAIT", b"1", b"0"]);
    let ack = |rig: &mut Rig, bytes: u64| {
        rig.argv_unread(replica, &[b"REPLCONF", b"ACK", bytes.to_string().as_bytes()]);
        rig.engine.end_iteration(&mut rig.process);
        rig.engine.take_actions(&mut Vec::new());
    };
    ack(&mut rig, told_bytes());
    assert_eq!(sent_to(&mut rig, writer), b"+OK\r\n");
    ack(&mut rig, told_bytes() + 33);
    assert_eq!(sent_to(&mut rig, writer), b":1\r\n");
    rig.argv_unread(writer, &[b"WAITAOF", b"1", b"0", b"0"]);
    let (mut reply, mut blocks) = (Vec::new(), 0);
    while reply.is_empty() {
        rig.engine.end_iteration(&mut rig.process);
        rig.engine.take_actions(&mut Vec::new());
        reply = sent_to(&mut rig, writer);
        if let Some((_, range)) = rig.engine.take_made_aof(Vec::new) {
            assert!(reply.is_empty());
            rig.engine.report_aof_durable(range.end, &mut rig.process);
            blocks += 1;
        }
    }
    assert_eq!((reply, blocks), (b"*2\r\n:1\r\n:0\r\n".to_vec(), 2));
}

#[test]
fn monitors_caches_and_subscribers_hear_of_it_at_once() {
    let (mut rig, other) = with_set(&[("notify-keyspace-events", "KEA")]);
    rig.replica();
    let (monitor, cache, subscriber) = (rig.connect(), rig.connect(), rig.connect());
    rig.run_as(cache, "HELLO 3");
    rig.run_as(cache, "CLIENT TRACKING on");
    rig.run_as(cache, "SCARD s");
    rig.run_as(subscriber, "SUBSCRIBE __keyevent@0__:spop");
    rig.run_as(monitor, "MONITOR");
    pop(&mut rig, other);
    rig.engine.end_iteration(&mut rig.process);
    for (client, heard) in [(monitor, "SPOP"), (cache, "invalidate"), (subscriber, "__keyevent@0__:spop")] {
        let bytes = sent_to(&mut rig, client);
        assert!(bytes.escape_ascii().to_string().contains(heard), "{heard}");
    }
    assert!(rig.engine.has_more_to_do());
}

/// As a replica, the server continues the history that it has made.
#[test]
fn a_primary_that_gets_a_primary_keeps_what_it_has_promised() {
    let (mut rig, other) = with_set(&[]);
    rig.engine.begin_aof();
    let replica = rig.replica();
    pop(&mut rig, other);
    rig.argv_unread(rig.client, &[b"REPLICAOF", b"10.0.0.1", b"6379"]);
    assert_eq!(offset(&mut rig), told_bytes());
    let expected = content(rig.engine.keyspace());
    let (told, blocks) = make_all(&mut rig, replica);
    assert_eq!(replayed(&commands(&blocks.concat())), expected);
    // Its replicas get the bytes while they are connected.
    assert!(told.is_empty() || told.len() as u64 == told_bytes());
}
