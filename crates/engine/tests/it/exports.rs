//! Tests exports of slots (specification of the slots, 6.3, 6.8 and 14.4): the stream of an export, its
//! order, and the times at which writers are held back. The other server is a replica that executes the
//! stream as the target of a migration does.

use crate::cluster::{ME, node, slots, two_shards};
use crate::elsewhere::{drawn, templates};
use sluice_base::{Rng, SessionKey, key_slot};
use sluice_cluster::{SavedCluster, SavedRole, SlotSet};
use sluice_control::cluster::exports::{ExportId, ExportNews};
use sluice_engine::exports::{
    begin_export, end_export, next_export_news, note_link_backlog, request_pause, say, slot_exports,
    take_export_output,
};
use sluice_replication::HistoryPoint;
use sluice_resp::{Value, decode};
use sluice_testkit::{Rig, RigLink, content};

/// The slots of `{a}`, `{b}` and `{c}`.
const TAGS: [&str; 3] = ["{a}", "{b}", "{c}"];

/// A node that owns all slots and serves, with three databases.
fn source(directives: &[(&str, &str)]) -> Rig {
    let mut saved = two_shards();
    saved.me = node(ME, 7000, SavedRole::Primary, slots(&[(0, 16_383)]));
    saved.others.clear();
    up(&saved, directives)
}

fn up(saved: &SavedCluster, directives: &[(&str, &str)]) -> Rig {
    let fixed = [("cluster-databases", "3"), ("port", "7000")];
    let mut rig = Rig::node(Some(saved), &[&fixed[..], directives].concat());
    rig.pass_ms(2_100);
    rig.end_iteration();
    rig
}

fn slots_of(tags: &[&str]) -> SlotSet {
    let ranges: Vec<(u16, u16)> = tags.iter().map(|tag| key_slot(tag.as_bytes())).map(|s| (s, s)).collect();
    slots(&ranges)
}

/// A server that executes a stream, and the session of the stream.
struct Target {
    rig: Rig,
    link: SessionKey,
    /// Received commands, each as its words with spaces between them.
    commands: Vec<String>,
    /// Received bytes that are no whole command yet.
    rest: Vec<u8>,
}

impl Target {
    fn new() -> Target {
        let mut rig = Rig::with(&[("hash-max-listpack-entries", "3"), ("list-max-listpack-size", "2")]);
        rig.check("REPLICAOF 10.0.0.1 6379", "+OK");
        let point = HistoryPoint { replid: "0123456789".repeat(4), offset: 0 };
        rig.engine.adopt_history(point, &mut rig.process);
        let link = RigLink::streaming(&mut rig);
        Target { rig, link, commands: Vec::new(), rest: Vec::new() }
    }

    /// Executes received bytes of a stream. The bytes of a command that is not complete yet are kept.
    fn receive(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Ok(Some((Value::Array(words), len))) = decode(&self.rest[at..]) {
            let text = words.iter().map(|word| match word {
                Value::Bulk(text) => text.escape_ascii().to_string(),
                other => panic!("{other:?} in a command"),
            });
            let text = text.collect::<Vec<_>>().join(" ");
            if !text.starts_with("CLUSTER SYNCSLOTS") {
                let command = self.rest[at..at + len].to_vec();
                assert!(self.rig.bytes(self.link, &command).is_empty(), "a link is not answered");
            } else if text.ends_with("SNAPSHOT-EOF") {
                // Targets differ in the database that they select after this message, so the source must
                // select the database of its next command. This target selects another one.
                let elsewhere = b"*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n";
                assert!(self.rig.bytes(self.link, elsewhere).is_empty());
            }
            self.commands.push(text);
            at += len;
        }
        self.rest.drain(..at);
        let error = self.rig.process.log.iter().find(|line| line.1.starts_with("== CRITICAL =="));
        assert!(error.is_none(), "{error:?}");
    }

    fn content(&self) -> Vec<String> {
        content(self.rig.engine.keyspace())
    }
}

/// An export, and the server at the other end.
struct Export {
    id: ExportId,
    target: Target,
    news: Vec<ExportNews>,
}

impl Export {
    fn begin(rig: &mut Rig, slots: &SlotSet) -> Export {
        let id = begin_export(&mut rig.engine, slots).expect("no other export has the slots");
        Export { id, target: Target::new(), news: Vec::new() }
    }

    /// Sends the target all bytes that the export has ready.
    fn send(&mut self, rig: &mut Rig) {
        while let Some(bytes) = take_export_output(&mut rig.engine, self.id) {
            self.target.receive(&bytes);
        }
        while let Some((id, news)) = next_export_news(&mut rig.engine) {
            assert_eq!(id, self.id);
            self.news.push(news);
        }
    }

    /// Runs iterations until all keys are sent, also captured images, which are formatted in slices of their
    /// own.
    fn send_all(&mut self, rig: &mut Rig) {
        for _ in 0..100_000 {
            rig.end_iteration();
            self.send(rig);
            if self.news.contains(&ExportNews::SnapshotWhole) && rig.engine.cluster_deadline_ns() != 0 {
                return;
            }
        }
        panic!("the walk has no end");
    }

    /// Requests the pause of writers, and runs iterations until the pause begins.
    fn pause(&mut self, rig: &mut Rig) {
        request_pause(&mut rig.engine, self.id, Some(0));
        for _ in 0..1_000 {
            rig.pass_ms(1);
            rig.end_iteration();
            self.send(rig);
            if self.news.iter().any(|news| matches!(news, ExportNews::Paused { .. })) {
                return self.send(rig);
            }
        }
        panic!("no pause");
    }

    /// Checks that the target has the keys of these tags, and no others.
    fn check(&self, rig: &Rig, tags: &[&str], of: &str) {
        let here: Vec<String> = content(rig.engine.keyspace())
            .into_iter()
            .filter(|line| tags.iter().any(|tag| line.contains(&format!(" {tag}"))))
            .collect();
        let there = self.target.content();
        if here != there {
            let missing: Vec<&String> = here.iter().filter(|line| !there.contains(line)).collect();
            let other: Vec<&String> = there.iter().filter(|line| !here.contains(line)).collect();
            let commands = self.target.commands.join("\n    ").replace(&"x".repeat(300), "<long>");
            panic!("{of}\n  here alone:  {missing:#?}\n  there alone: {other:#?}\n  stream:\n    {commands}");
        }
    }

    fn failure(&self) -> Option<&str> {
        self.news.iter().find_map(|news| match news {
            ExportNews::Failed(why) => Some(why.as_str()),
            ExportNews::SnapshotBegan | ExportNews::SnapshotWhole | ExportNews::Paused { .. } => None,
        })
    }
}

/// A line of a template whose keys have this tag; the programs of `elsewhere.rs` have no tags.
fn line(rng: &mut Rng, template: &str, tag: &str, now_ms: i64) -> String {
    let (mut line, mut rest) = (String::new(), template);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}').expect("a brace is closed");
        let is_key = ["s", "n", "h", "t", "z", "geo", "l", "q", "p", "k"].contains(&name);
        line.push_str(before);
        line.push_str(if is_key { tag } else { "" });
        line.push_str(&drawn(rng, name, now_ms));
        rest = behind;
    }
    line.push_str(rest);
    line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Commands that end exports or that a cluster refuses, and commands that remove a message from a stream
/// while a group still has it as pending: the commands of A-31 cannot express that a pending entry's
/// message is gone.
const LEFT_OUT: [&str; 9] = [
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB",
    "XDEL",
    "XDELEX",
    "XTRIM",
    "XACKDEL",
    "XADD {q} MAXLEN",
    "XADD {q} MINID",
];

/// A random program; `run` has the lines that were executed.
struct Program<'t> {
    rng: Rng,
    templates: Vec<&'t str>,
    run: Vec<String>,
}

impl Program<'_> {
    fn new(seed: u64) -> Program<'static> {
        let mut rng = Rng::new(seed);
        let of = |line: &&str| !LEFT_OUT.iter().any(|left| line.starts_with(left));
        let all: Vec<&str> = templates().filter(of).collect();
        let first = rng.below(all.len() as u64) as usize;
        let mut some: Vec<&str> = all.iter().cycle().skip(first).take(24).copied().collect();
        some.extend((0..12).map(|_| all[rng.below(all.len() as u64) as usize]));
        Program { rng, templates: some, run: Vec::new() }
    }

    fn draw(&mut self, tag: &str, now_ms: i64) -> String {
        let at = self.rng.below(self.templates.len() as u64) as usize;
        line(&mut self.rng, self.templates[at], tag, now_ms)
    }

    fn step(&mut self, rig: &mut Rig) {
        let tag = TAGS[self.rng.below(3) as usize];
        let now_ms = rig.process.now.unix_ms();
        let one = self.draw(tag, now_ms);
        let lines = match self.rng.below(24) {
            0 => vec![format!("EVAL \"return redis.pcall(unpack(ARGV))\" 0 {one}")],
            1 => {
                let script = "redis.set_repl(redis.REPL_NONE) return redis.pcall(unpack(ARGV))";
                vec![format!("EVAL \"{script}\" 0 {one}")]
            }
            2 | 3 => {
                let other = self.draw(tag, now_ms);
                vec!["MULTI".to_owned(), one, other, "EXEC".to_owned()]
            }
            4 => {
                rig.pass_ms(1 + self.rng.below(15));
                vec![one]
            }
            5 => {
                rig.cron();
                vec![one]
            }
            6 if self.rng.below(6) == 0 => {
                vec![format!("CLUSTER FLUSHSLOT {}", key_slot(tag.as_bytes())), one]
            }
            7 => {
                // This key is too long for any block.
                let long = "x".repeat(300);
                vec![format!("SADD {tag}{long} {one}").split(' ').take(4).collect::<Vec<_>>().join(" ")]
            }
            _ => vec![one],
        };
        for line in lines {
            if line.starts_with('B') || line.contains("BLOCK") {
                let client = rig.connect();
                rig.run_as(client, &line);
            } else {
                rig.run(&line);
            }
            self.run.push(line);
        }
    }
}

/// Runs a random program before, during and after the walk of an export that has two of the three slots.
fn exports_under_a_program(seed: u64, directives: &[(&str, &str)]) {
    let mut program = Program::new(seed);
    let mut rig = source(directives);
    (0..150).for_each(|_| program.step(&mut rig));
    // One slot gets many keys, so that the walk is inside this slot for a long time.
    for n in 0..program.rng.below(120) {
        rig.run(&format!("RPUSH {{a}}fill{n} {n} x y"));
    }
    let tags = &TAGS[..2];
    let mut export = Export::begin(&mut rig, &slots_of(tags));
    // Each reading of the clock takes so long that few keys are walked in an iteration.
    rig.process.us_each_look = 400;
    let mut steps = 0;
    while !export.news.contains(&ExportNews::SnapshotWhole) {
        rig.end_iteration();
        for _ in 0..program.rng.below(6) {
            program.step(&mut rig);
            steps += 1;
        }
        for n in 0..program.rng.below(4) {
            let keys = [program.rng.below(120), program.rng.below(120)];
            let fill = keys.map(|key| format!("{{a}}fill{key}"));
            rig.run(&match n {
                0 => format!("LMOVE {} {} LEFT RIGHT", fill[0], fill[1]),
                1 => format!("RENAME {} {}", fill[0], fill[1]),
                2 => format!("RPUSH {} z", fill[0]),
                _ => format!("COPY {} {} DB 1", fill[0], fill[1]),
            });
        }
        if program.rng.below(3) > 0 {
            export.send(&mut rig);
        }
        assert_eq!(export.failure(), None, "seed {seed}");
        assert!(steps < 100_000, "seed {seed}: the walk has no end");
    }
    rig.process.us_each_look = 0;
    (0..60).for_each(|_| program.step(&mut rig));
    export.pause(&mut rig);
    let run = &program.run[program.run.len().saturating_sub(60)..];
    export.check(&rig, tags, &format!("seed {seed} {directives:?}\n  {}", run.join("\n  ")));
    assert!(export.target.rest.is_empty(), "PAUSED is the end of the stream");
    assert_eq!(export.target.commands.last().map(String::as_str), Some("CLUSTER SYNCSLOTS PAUSED"));
    end_export(&mut rig.engine, export.id);
    rig.run("SET {a}s0 goes-on");
    assert_eq!(rig.run("GET {a}s0"), "\"goes-on\"", "A-66: seed {seed}");
}

fn seeds() -> u64 {
    std::env::var("SLUICE_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

#[test]
fn cb_a83_the_target_has_the_data_whatever_is_written_during_the_walk() {
    (0..seeds()).for_each(|seed| exports_under_a_program(seed, &[]));
}

#[test]
fn cb_a83_the_same_of_values_in_large_forms_beside_a_log() {
    let large = [
        ("hash-max-listpack-entries", "1"),
        ("set-max-listpack-entries", "1"),
        ("set-max-intset-entries", "1"),
        ("zset-max-listpack-entries", "0"),
        ("list-max-listpack-size", "1"),
        ("stream-node-max-entries", "1"),
        ("appendonly", "yes"),
    ];
    (1_000..1_000 + seeds() / 3).for_each(|seed| exports_under_a_program(seed, &large));
}

/// A source on which the lines `keys` have run, and an export of the first slot that has sent all of its
/// keys.
fn streaming(keys: &[&str]) -> (Rig, Export) {
    let mut rig = source(&[]);
    keys.iter().for_each(|line| drop(rig.run(line)));
    let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    export.send_all(&mut rig);
    export.target.commands.clear();
    (rig, export)
}

impl Export {
    /// Commands received since the last call.
    fn fed(&mut self, rig: &mut Rig) -> String {
        rig.end_iteration();
        self.send(rig);
        std::mem::take(&mut self.target.commands).join("; ")
    }
}

#[test]
fn cb_a31_a_slot_is_sent_by_the_commands_of_each_type_in_the_database_of_each_key() {
    let mut rig = source(&[]);
    for line in [
        "SET {a}s 1",
        "SET {b}s foreign",
        "SELECT 2",
        "RPUSH {a}l x y",
        "PEXPIREAT {a}l 33177117420000",
        "HSET {a}h f v",
        "HSETEX {a}h PXAT 33177117420000 FIELDS 1 g w",
    ] {
        rig.run(line);
    }
    let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    export.send_all(&mut rig);
    let commands = std::mem::take(&mut export.target.commands);
    assert_eq!(commands.first().map(String::as_str), Some("SELECT 0"));
    assert_eq!(commands.last().map(String::as_str), Some("CLUSTER SYNCSLOTS SNAPSHOT-EOF"));
    let mut sorted = commands.clone();
    sorted.sort();
    assert_eq!(
        sorted.join("; "),
        "CLUSTER SYNCSLOTS SNAPSHOT-EOF; HMSET {a}h f v; HSETEX {a}h PXAT 33177117420000 FIELDS 1 g w; \
         PEXPIREAT {a}l 33177117420000; RPUSH {a}l x y; SELECT 0; SELECT 2; SET {a}s 1"
    );
    export.check(&rig, &TAGS[..1], "an idle slot");
}

#[test]
fn cb_a32_changes_of_the_slots_alone_come_as_the_replication_stream_has_them() {
    let (mut rig, mut export) = streaming(&["SET {a}s 1", "RPUSH {a}l x y"]);
    for (line, fed) in [
        // After the snapshot, the source selects the database again, because Valkey targets and Sluice
        // targets then have different databases selected.
        ("INCR {a}s", "SELECT 0; INCR {a}s"),
        ("SET {b}s 1", ""),
        ("SET {a}t v PX 1000", "SET {a}t v PXAT 1700000003100"),
        ("PUBLISH c m", ""),
        ("SPUBLISH {a} m", ""),
        ("GET {a}s", ""),
        ("LPOP {a}none", ""),
        ("SELECT 1", ""),
        ("SET {a}u 1", "SELECT 1; SET {a}u 1"),
        ("SELECT 0", ""),
        ("COPY {a}s {a}s DB 2", "SELECT 0; COPY {a}s {a}s DB 2"),
        (
            "EVAL \"redis.call('set', KEYS[1], 2) return redis.call('del', KEYS[1])\" 1 {a}x",
            "set {a}x 2; del {a}x",
        ),
        // A script can keep its writes from replicas, but not from an export.
        (
            "EVAL \"redis.set_repl(redis.REPL_NONE) return redis.call('set', KEYS[1], 3)\" 1 {a}x",
            "set {a}x 3",
        ),
    ] {
        rig.run(line);
        assert_eq!(export.fed(&mut rig), fed, "{line}");
    }
    rig.run("MULTI");
    rig.run("SET {a}s 5");
    rig.run("RPOP {a}l");
    rig.run("EXEC");
    assert_eq!(export.fed(&mut rig), "SET {a}s 5; RPOP {a}l");
    let client = rig.connect();
    rig.run_as(client, "BLPOP {a}q 0");
    rig.run("RPUSH {a}q 1");
    assert_eq!(export.fed(&mut rig), "RPUSH {a}q 1; LPOP {a}q");
    export.check(&rig, &TAGS[..1], "behind the walk");
}

/// No part of an export's stream is encoded later: as soon as a command has run, its commands for the stream
/// are there.
#[test]
fn cb_a32_a_large_pop_comes_whole_and_ahead_of_what_follows() {
    let members: Vec<String> = (0..20_000).map(|number| format!("member:{number}")).collect();
    let adds: Vec<String> =
        members.chunks(1000).map(|some| format!("SADD {{a}}s {}", some.join(" "))).collect();
    let (mut rig, mut export) = streaming(&adds.iter().map(String::as_str).collect::<Vec<&str>>());
    rig.engine.feed(rig.client);
    let other = rig.connect();
    rig.argv_unread(other, &[b"SPOP", b"{a}s", b"17000"]);
    rig.argv_unread(other, &[b"SADD", b"{a}s", b"behind"]);
    export.send(&mut rig);
    let fed = std::mem::take(&mut export.target.commands);
    assert_eq!(fed.iter().filter(|command| command.starts_with("SREM {a}s ")).count(), 17);
    assert_eq!(fed.last().map(String::as_str), Some("SADD {a}s behind"));
    export.check(&rig, &TAGS[..1], "a pop");
}

#[test]
fn cb_a32_what_expires_or_has_to_make_room_comes_as_deletions() {
    let lines = ["SET {a}s 1 PX 10", "SET {a}t 1 PX 10", "HSETEX {a}h PX 10 FIELDS 1 f v", "HSET {a}h g w"];
    let (mut rig, mut export) = streaming(&lines);
    rig.pass_ms(20);
    rig.run("GET {a}s");
    assert_eq!(export.fed(&mut rig), "SELECT 0; UNLINK {a}s");
    rig.run("SET {a}t 2 KEEPTTL");
    assert_eq!(export.fed(&mut rig), "UNLINK {a}t; SET {a}t 2 KEEPTTL");
    (0..20).for_each(|_| rig.cron());
    assert_eq!(export.fed(&mut rig), "HDEL {a}h f");
    rig.run("CONFIG SET maxmemory-policy allkeys-random maxmemory 1");
    rig.run("GET {a}t");
    rig.run("SET {a}more 1");
    let fed = export.fed(&mut rig);
    assert!(fed.contains("UNLINK {a}t") || fed.contains("DEL {a}t"), "{fed}");
    export.check(&rig, &TAGS[..1], "eviction");
}

#[test]
fn cb_a82_what_waits_for_the_target_is_not_counted_for_maxmemory() {
    let (mut rig, _export) = streaming(&["SET {a}s 1", "SET {a}t 2"]);
    rig.run("CONFIG SET maxmemory-policy allkeys-random maxmemory 1mb");
    rig.process.facts.used_memory = (1 << 20) - 5_000;
    for _ in 0..100 {
        rig.run(&format!("SET {{a}}s {}", "x".repeat(100)));
        // Memory grows by the part of the stream that the target does not take.
        rig.process.facts.used_memory += 100;
        rig.pass_ms(20);
    }
    rig.check("DBSIZE", ":2");
}

#[test]
fn cb_a89_the_keys_of_a_flushed_slot_are_unlinked_one_by_one() {
    let (mut rig, mut export) = streaming(&["SET {a}s 1", "SELECT 1", "SET {a}t 1", "SELECT 0"]);
    rig.check(&format!("CLUSTER FLUSHSLOT {}", key_slot(b"{a}")), "+OK");
    assert_eq!(export.fed(&mut rig), "SELECT 0; UNLINK {a}s; SELECT 1; UNLINK {a}t");
    assert_eq!(export.target.content(), Vec::<String>::new());
}

#[test]
fn cb_a60_flushing_any_database_ends_the_export_and_lets_writers_go() {
    for flush in ["FLUSHALL", "FLUSHDB"] {
        let (mut rig, mut export) = streaming(&["SET {a}s 1"]);
        export.pause(&mut rig);
        let writer = rig.connect();
        rig.check_as(writer, "SET {a}s 2", "");
        rig.run("SELECT 2");
        rig.check(flush, "+OK");
        export.send(&mut rig);
        assert_eq!(export.failure(), Some("Data was flushed"), "{flush}");
        assert_eq!(rig.output(writer), b"+OK\r\n", "{flush}");
        assert_eq!(take_export_output(&mut rig.engine, export.id), None);
        assert!(slot_exports(&mut rig.engine).unwrap().jobs().next().is_none());
    }
    // Once the other node may own the slots, a flush waits as writers do. Otherwise, keys that the flush
    // deletes here would come back from that node.
    let (mut rig, mut export) = streaming(&["SET {a}s 1"]);
    export.pause(&mut rig);
    slot_exports(&mut rig.engine).unwrap().job(export.id).unwrap().grant();
    let writer = rig.connect();
    rig.check_as(writer, "SET {a}s 2", "");
    let flush = rig.connect();
    rig.check_as(flush, "FLUSHALL", "");
    export.send(&mut rig);
    assert_eq!((export.failure(), rig.output(writer)), (None, vec![]));
    end_export(&mut rig.engine, export.id);
    rig.end_iteration();
    assert_eq!((rig.output(writer), rig.output(flush)), (b"+OK\r\n".to_vec(), b"+OK\r\n".to_vec()));
    // A flush during the walk makes the export fail, too.
    let mut rig = source(&[]);
    (0..50).for_each(|n| drop(rig.run(&format!("SET {{a}}{n} 1"))));
    let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    rig.process.us_each_look = 900;
    rig.end_iteration();
    rig.check("FLUSHALL", "+OK");
    rig.check("SET {a}1 1", "+OK");
    export.send(&mut rig);
    assert_eq!(export.failure(), Some("Data was flushed"));
}

#[test]
fn cb_a84_writes_to_the_slots_wait_for_the_end_and_nothing_else_does() {
    let (mut rig, mut export) = streaming(&["SET {a}s 1", "SET {b}s 1", "PFADD {a}p x"]);
    export.pause(&mut rig);
    export.target.commands.clear();
    for line in [
        "GET {a}s",
        "SET {b}s 2",
        "PING",
        "EXISTS {a}s",
        "PUBLISH c m",
        "FUNCTION FLUSH",
        "SCRIPT FLUSH",
        "EVAL_RO \"return redis.call('get', KEYS[1])\" 1 {a}s",
        "MULTI",
        "SET {b}s 3",
        "EXEC",
        "MULTI",
        "GET {a}s",
        "EXEC",
    ] {
        let reply = rig.run(line);
        assert!(!reply.is_empty() && !reply.starts_with('-'), "{line}: {reply}");
    }
    let held = [
        "SET {a}s 2",
        "DEL {a}s {a}t",
        "PFCOUNT {a}p",
        "EVAL \"return 1\" 1 {a}s",
        "EVAL \"return 1\" 0",
        "EVAL \"#!lua\nreturn 1\" 1 {b}s",
    ];
    let waiting = held.map(|line| {
        let client = rig.connect();
        rig.check_as(client, line, "");
        (line, client)
    });
    let queue = rig.connect();
    rig.check_as(queue, "MULTI", "+OK");
    rig.check_as(queue, "SET {a}s 9", "+QUEUED");
    rig.check_as(queue, "EXEC", "");
    assert_eq!(export.fed(&mut rig), "");
    end_export(&mut rig.engine, export.id);
    for (line, client) in waiting {
        assert!(!rig.output(client).is_empty(), "{line} goes on");
    }
    assert!(!rig.output(queue).is_empty());
    assert_eq!(rig.run("GET {a}s"), "\"9\"", "in their order");
}

#[test]
fn cb_a82_nothing_but_words_comes_behind_paused() {
    let (mut rig, mut export) = streaming(&["SET {a}s 1 PX 50", "SET {a}t 1"]);
    export.pause(&mut rig);
    export.target.commands.clear();
    // The expired key is not deleted in the stream, because the other node knows the expiry time itself.
    rig.pass_ms(60);
    (0..20).for_each(|_| rig.cron());
    assert_eq!(rig.run("EXISTS {a}s"), ":0");
    say(&mut rig.engine, export.id, b"FAILOVER-GRANTED");
    assert_eq!(export.fed(&mut rig), "CLUSTER SYNCSLOTS FAILOVER-GRANTED");
}

#[test]
fn cb_a86_the_pause_waits_for_what_the_link_has_not_sent() {
    let (mut rig, mut export) = streaming(&["SET {a}s 1"]);
    note_link_backlog(&mut rig.engine, export.id, 10_000);
    request_pause(&mut rig.engine, export.id, Some(0));
    for _ in 0..200 {
        rig.pass_ms(1);
        rig.end_iteration();
        export.send(&mut rig);
    }
    assert_eq!(export.news, [ExportNews::SnapshotBegan, ExportNews::SnapshotWhole]);
    rig.check("SET {a}s 2", "+OK");
    export.send(&mut rig);
    note_link_backlog(&mut rig.engine, export.id, 0);
    export.pause(&mut rig);
    let commands = export.target.commands.join("; ");
    assert_eq!(commands, "SELECT 0; SET {a}s 2; CLUSTER SYNCSLOTS PAUSED");
}

#[test]
fn cb_a88_a_large_value_is_sent_over_many_iterations_and_what_changes_it_comes_behind() {
    let mut rig = source(&[]);
    let items: Vec<String> = (0..20_000).map(|n| format!("item{n:010}")).collect();
    let request = |verb: &str, key: &str| -> Vec<Vec<u8>> {
        [verb, key]
            .into_iter()
            .map(str::to_owned)
            .chain(items.iter().cloned())
            .map(String::into_bytes)
            .collect()
    };
    for (verb, key) in [("RPUSH", "{a}l"), ("SADD", "{a}t")] {
        let client = rig.connect();
        let argv = request(verb, key);
        rig.argv(client, &argv.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    let client = rig.connect();
    rig.argv(client, &[b"SET", b"{a}s", &vec![b'v'; 3 << 20]]);
    rig.argv(client, &[b"SETRANGE", b"{a}s", b"5000000", b"end"]);
    let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    rig.process.us_each_look = 50;
    let mut iterations = 0;
    while !export.target.commands.iter().any(|text| text == "CLUSTER SYNCSLOTS SNAPSHOT-EOF") {
        let before_us = rig.process.now.unix_us;
        rig.engine.end_iteration(&mut rig.process);
        let took_us = rig.process.now.unix_us - before_us;
        assert!(took_us < 1_500, "a slice is a millisecond: {took_us} us");
        iterations += 1;
        match iterations % 5 {
            0 => drop(rig.run("LMOVE {a}l {a}l LEFT RIGHT")),
            1 => drop(rig.run("SPOP {a}t")),
            2 => drop(rig.run(&format!("SETRANGE {{a}}s {} x", iterations * 1000))),
            _ => {}
        }
        export.send(&mut rig);
        assert!(iterations < 100_000, "the walk has an end");
    }
    assert!(iterations > 10, "{iterations}");
    export.pause(&mut rig);
    export.check(&rig, &TAGS[..1], "large values");
    let longest = export.target.commands.iter().filter(|text| text.starts_with("RPUSH"));
    assert!(longest.map(|text| text.split(' ').count()).max() <= Some(66));
}

#[test]
fn cb_a83_no_key_is_left_out_where_a_block_of_the_stream_is_full() {
    let mut rig = source(&[]);
    let client = rig.connect();
    for n in 0..1_200 {
        let key = format!("{{a}}{n}");
        match n % 2 {
            0 => rig.argv(client, &[b"SET", key.as_bytes(), &[b'v'; 200]]),
            _ => rig.argv(client, &[b"RPUSH", key.as_bytes(), &[b'v'; 200], b"a", b"b", b"c"]),
        };
    }
    let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    export.send_all(&mut rig);
    export.pause(&mut rig);
    export.check(&rig, &TAGS[..1], "blocks of small values");
}

#[test]
fn cb_a87_what_the_link_does_not_take_goes_to_a_spool_in_order() {
    let mut rig = source(&[]);
    rig.run("SET {a}first 1");
    let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    let value = vec![b'v'; 40_000];
    let client = rig.connect();
    for n in 0..400 {
        rig.argv(client, &[b"SET", format!("{{a}}{n}").as_bytes(), &value]);
        rig.run(&format!("RPUSH {{a}}l {n}"));
        rig.end_iteration();
    }
    let exports = slot_exports(&mut rig.engine).unwrap();
    let job = exports.job(export.id).unwrap();
    assert!(job.unsent_bytes() > 16_000_000, "{}", job.unsent_bytes());
    assert!(rig.process.spooled.get() > 0, "behind 4 MiB");
    // Writes continue while the spool is read.
    for n in 0..200 {
        if let Some(bytes) = take_export_output(&mut rig.engine, export.id) {
            export.target.receive(&bytes);
        }
        rig.run(&format!("RPUSH {{a}}l late{n}"));
        rig.end_iteration();
    }
    export.send_all(&mut rig);
    export.pause(&mut rig);
    export.check(&rig, &TAGS[..1], "a spool");
}

#[test]
fn cb_h23_two_exports_are_walked_one_behind_the_other_and_each_has_its_own_changes() {
    let mut rig = source(&[]);
    for tag in TAGS {
        (0..40).for_each(|n| drop(rig.run(&format!("RPUSH {tag}{n} 1"))));
    }
    let mut first = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    let mut second = Export::begin(&mut rig, &slots_of(&TAGS[1..]));
    assert_eq!(begin_export(&mut rig.engine, &slots_of(&TAGS[..2])), None, "a slot is in one export");
    rig.process.us_each_look = 300;
    for n in 0..2_000 {
        rig.end_iteration();
        let tag = TAGS[n % 3];
        rig.run(&format!("RPUSH {tag}{} {n}", n % 50));
        for export in [&mut first, &mut second] {
            while let Some(bytes) = take_export_output(&mut rig.engine, export.id) {
                export.target.receive(&bytes);
            }
        }
    }
    let whole = std::iter::from_fn(|| next_export_news(&mut rig.engine)).collect::<Vec<_>>();
    let both = [ExportNews::SnapshotBegan, ExportNews::SnapshotWhole];
    let news = [first.id, second.id].into_iter().flat_map(|id| both.clone().map(|news| (id, news)));
    assert_eq!(whole, news.collect::<Vec<_>>());
    first.check(&rig, &TAGS[..1], "the first");
    second.check(&rig, &TAGS[1..], "the second");
}

#[test]
fn cb_t20_sort_by_keys_that_only_the_data_name_is_right_amid_the_walk() {
    for seed in 0..20 {
        let mut rig = source(&[]);
        for n in 0..60 {
            rig.run(&format!("HSET {{a}}h{n} w {}", 60 - n));
            rig.run(&format!("SADD {{a}}t {n}"));
        }
        let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
        rig.process.us_each_look = 300;
        let mut rng = Rng::new(seed);
        while !export.news.contains(&ExportNews::SnapshotWhole) {
            rig.end_iteration();
            export.send(&mut rig);
            rig.run(&format!("HSET {{a}}h{} w {}", rng.below(60), rng.below(100)));
            rig.run(&format!("SORT {{a}}t BY {{a}}h*->w STORE {{a}}l{}", rng.below(4)));
        }
        rig.process.us_each_look = 0;
        export.pause(&mut rig);
        export.check(&rig, &TAGS[..1], &format!("seed {seed}"));
    }
}

/// The reference's test suite slows snapshots down by this setting to make moves last (E-4). Other
/// clients do not wait.
#[test]
fn cb_e4_rdb_key_save_delay_slows_the_walk() {
    let mut rig = source(&[("rdb-key-save-delay", "1000000")]);
    (0..20).for_each(|n| rig.check(&format!("SET {{a}}{n} 1"), "+OK"));
    let mut export = Export::begin(&mut rig, &slots_of(&["{a}"]));
    let began_ms = rig.process.now.mono_ns / 1_000_000;
    for _ in 0..5 {
        rig.end_iteration();
        export.send(&mut rig);
    }
    assert_eq!(export.news, [ExportNews::SnapshotBegan]);
    let waits_ns = rig.engine.cluster_deadline_ns();
    assert!(waits_ns > rig.process.now.mono_ns, "no iteration is wanted for the walk");
    while !export.news.contains(&ExportNews::SnapshotWhole) {
        rig.check("GET {a}0", "\"1\"");
        rig.pass_ms(100);
        rig.end_iteration();
        export.send(&mut rig);
    }
    let took_s = (rig.process.now.mono_ns / 1_000_000 - began_ms) / 1000;
    assert!((8..=20).contains(&took_s), "{took_s} s for 20 keys, of which the last bucket's do not wait");
    export.check(&rig, &["{a}"], "after the walk");
}

#[test]
fn cb_a86_no_pause_comes_ahead_of_the_images() {
    let mut rig = source(&[]);
    (0..300).for_each(|n| _ = rig.run(&format!("RPUSH {{a}}{n} x y z")));
    let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    rig.process.us_each_look = 1_000;
    request_pause(&mut rig.engine, export.id, None);
    while !export.news.iter().any(|news| matches!(news, ExportNews::Paused { .. })) {
        rig.pass_ms(1);
        rig.end_iteration();
        export.send(&mut rig);
    }
    assert_eq!(export.news[..2], [ExportNews::SnapshotBegan, ExportNews::SnapshotWhole]);
    export.check(&rig, &TAGS[..1], "paused at once");
}

#[test]
fn cb_a84_a_flush_of_a_held_slot_waits_as_writers_do() {
    let (mut rig, mut export) = streaming(&["SET {a}s 1"]);
    export.pause(&mut rig);
    let client = rig.connect();
    let flush = format!("CLUSTER FLUSHSLOT {}", key_slot(b"{a}"));
    assert_eq!(rig.run_as(client, &flush), "");
    rig.end_iteration();
    assert_eq!(export.failure(), None);
    end_export(&mut rig.engine, export.id);
    rig.end_iteration();
    rig.check("EXISTS {a}s", ":0");
}

#[test]
fn cb_h26_whatever_reaches_a_granted_slot_waits_for_what_the_map_says_of_it() {
    const LIBRARY: &str = "#!lua name=l\nserver.register_function{function_name='f', flags={'no-writes'}, \
                           callback=function() return server.call('del', '{a}s') end}";
    let flush = format!("CLUSTER FLUSHSLOT {}", key_slot(b"{a}"));
    let in_script = format!("EVAL \"return server.call('cluster', 'flushslot', {})\" 0", key_slot(b"{a}"));
    let ways: [&[&str]; 16] = [
        &[&flush],
        &["FLUSHALL"],
        &["FLUSHDB ASYNC"],
        &[&in_script],
        &["EVAL \"return server.call('flushall')\" 0"],
        &["EVAL \"#!lua\nreturn server.call('del', '{a}s')\" 0"],
        &["FCALL g 0"],
        &["MULTI", &flush, "EXEC"],
        &["MULTI", "GET {b}s", &flush, "EXEC"],
        &["MULTI", "FLUSHALL", "EXEC"],
        &["MULTI", "SET {b}s 2", "FLUSHDB", "EXEC"],
        &["MULTI", "DEL {a}s", "EXEC"],
        &["MULTI", &in_script, "EXEC"],
        &["MULTI", "EVAL \"#!lua\nreturn server.call('del', '{a}s')\" 0", "EXEC"],
        &["MULTI", "FCALL g 0", "EXEC"],
        &["MULTI", "FCALL f 0", "EXEC"],
    ];
    for way in ways {
        let (mut rig, mut export) = streaming(&["SET {a}s 1", "SET {b}s 1"]);
        let writes = LIBRARY.replace("name=l", "name=m").replace("'f', flags={'no-writes'}", "'g'");
        rig.check(&format!("FUNCTION LOAD \"{LIBRARY}\""), "\"l\"");
        rig.check(&format!("FUNCTION LOAD \"{writes}\""), "\"m\"");
        export.pause(&mut rig);
        export.fed(&mut rig);
        slot_exports(&mut rig.engine).unwrap().job(export.id).unwrap().grant();
        let client = rig.connect();
        for (at, line) in way.iter().enumerate() {
            let expected = match at {
                _ if at + 1 == way.len() => "",
                0 => "+OK",
                _ => "+QUEUED",
            };
            // A library that was replaced may write although the queued call's library did not.
            if at > 0 && at + 1 == way.len() {
                let writes = LIBRARY.replace("flags={'no-writes'}, ", "");
                rig.check(&format!("FUNCTION LOAD REPLACE \"{writes}\""), "\"l\"");
            }
            assert_eq!(rig.run_as(client, line), expected, "{way:?}: {line}");
        }
        rig.end_iteration();
        assert_eq!(rig.run("GET {a}s"), "\"1\"", "{way:?}");
        assert_eq!(export.fed(&mut rig), "", "{way:?}");
        end_export(&mut rig.engine, export.id);
        rig.end_iteration();
        assert!(!rig.output(client).is_empty(), "{way:?} goes on");
        rig.check("EXISTS {a}s", ":0");
    }
    // Transactions that do not access the slot go on.
    let (mut rig, mut export) = streaming(&["SET {a}s 1"]);
    export.pause(&mut rig);
    slot_exports(&mut rig.engine).unwrap().job(export.id).unwrap().grant();
    let elsewhere = format!("CLUSTER FLUSHSLOT {}", key_slot(b"{b}"));
    for queue in [&elsewhere[..], "FUNCTION FLUSH", "PUBLISH c m", "SET {b}s 1", "GET {a}s"] {
        rig.check("MULTI", "+OK");
        rig.check(queue, "+QUEUED");
        assert_ne!(rig.run("EXEC"), "", "{queue}");
    }
}

/// H-25: the walk comes after the replies of an iteration.
#[test]
fn nothing_is_walked_ahead_of_the_replies_of_an_iteration() {
    let mut rig = source(&[]);
    rig.run("SET {a}key value");
    let id = begin_export(&mut rig.engine, &slots_of(&["{a}"])).expect("no other export has the slot");
    rig.engine.end_iteration(&mut rig.process);
    assert!(take_export_output(&mut rig.engine, id).is_none());
    assert_eq!(rig.engine.cluster_deadline_ns(), 0, "the walk waits for nothing else");
    while rig.engine.walk_exports(&mut rig.process) {
        rig.engine.end_iteration(&mut rig.process);
    }
    assert!(take_export_output(&mut rig.engine, id).is_some());
    assert_ne!(rig.engine.cluster_deadline_ns(), 0, "the walk is over, and nothing more is to be done");
}

/// Writes keys whose values together are many times the bytes that are prepared ahead for a link.
fn filled(rig: &mut Rig, tag: &str) {
    let client = rig.connect();
    for n in 0..1_000 {
        rig.argv(client, &[b"SET", format!("{tag}{n}").as_bytes(), &[b'v'; 16_384]]);
    }
}

/// H-25: a link that takes nothing costs a few MiB of memory, no disk, and no processor time.
#[test]
fn a_walk_waits_for_its_link_and_goes_on_when_that_has_taken_something() {
    let mut rig = source(&[]);
    filled(&mut rig, "{a}");
    let mut export = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    (0..1_000).for_each(|_| rig.end_iteration());
    let exports = slot_exports(&mut rig.engine).unwrap();
    let job = exports.job(export.id).unwrap();
    assert!((2 << 20..4 << 20).contains(&job.unsent_bytes()), "{}", job.unsent_bytes());
    assert_eq!(rig.process.spooled.get(), 0);
    assert_ne!(rig.engine.cluster_deadline_ns(), 0, "the machine is not to turn while nothing is taken");
    let mut taken = 0;
    while taken < 2 << 20 {
        let bytes = take_export_output(&mut rig.engine, export.id).expect("there are two MiB and more");
        taken += bytes.len();
        export.target.receive(&bytes);
    }
    assert_eq!(rig.engine.cluster_deadline_ns(), 0, "the walk goes on");
    export.send_all(&mut rig);
    assert_eq!(rig.process.spooled.get(), 0);
    export.pause(&mut rig);
    export.check(&rig, &TAGS[..1], "a link that stood still");
}

/// Invariant (2): an export whose target takes nothing does not keep another export from its walk.
#[test]
fn a_slow_link_does_not_keep_another_export_from_its_walk() {
    let mut rig = source(&[]);
    filled(&mut rig, "{a}");
    rig.run("SET {b}key value");
    let mut slow = Export::begin(&mut rig, &slots_of(&TAGS[..1]));
    let mut other = Export::begin(&mut rig, &slots_of(&TAGS[1..2]));
    for _ in 0..1_000 {
        rig.end_iteration();
        while let Some(bytes) = take_export_output(&mut rig.engine, other.id) {
            other.target.receive(&bytes);
        }
    }
    other.check(&rig, &TAGS[1..2], "the other export");
    // The part of its slot that the slow link could not take is on disk.
    while let Some((id, news)) = next_export_news(&mut rig.engine) {
        if id == slow.id { slow.news.push(news) } else { other.news.push(news) }
    }
    assert!(other.news.contains(&ExportNews::SnapshotWhole));
    end_export(&mut rig.engine, other.id);
    slow.send_all(&mut rig);
    slow.pause(&mut rig);
    slow.check(&rig, &TAGS[..1], "the slow export");
}
