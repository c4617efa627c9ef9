//! The stream of a server must give its receiver the sender's data, whatever the receiver's hash seed,
//! encoding limits and clock are. Each row of `propagation.rs`, and random programs, are executed on one
//! server. The stream that its replica receives is executed on other servers, and one more server loads it as
//! its append-only file.

use crate::load_aof::load_log;
use crate::propagation::{ROWS, Row, run_step};
use sluice_base::{HashSeed, Rng, SessionKey};
use sluice_engine::Seeds;
use sluice_replication::HistoryPoint;
use sluice_testkit::{Rig, RigLink, content};

/// Limits with which nearly every value has the encoding of a large one, and every entry of a stream a
/// node of its own.
const LARGE_FORMS: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "1"),
    ("hash-max-listpack-value", "1"),
    ("set-max-intset-entries", "1"),
    ("set-max-listpack-entries", "1"),
    ("set-max-listpack-value", "1"),
    ("zset-max-listpack-entries", "0"),
    ("zset-max-listpack-value", "1"),
    ("list-max-listpack-size", "1"),
    ("stream-node-max-entries", "1"),
    ("maxmemory-policy", "allkeys-lfu"),
];

/// Settings of a sender or receiver, and how far its clock is ahead, ms.
struct Place {
    name: &'static str,
    directives: &'static [(&'static str, &'static str)],
    ahead_ms: i64,
}

const SENDERS: [Place; 3] = [
    // The sender checks versions of RDB files loosely, whereas the receivers check them strictly.
    Place { name: "the usual forms", directives: &[("rdb-version-check", "relaxed")], ahead_ms: 0 },
    Place { name: "large forms", directives: LARGE_FORMS, ahead_ms: 0 },
    // In import mode, expired keys are hidden but not deleted.
    Place { name: "import mode", directives: &[("import-mode", "yes")], ahead_ms: 0 },
];

/// The lowest limits on requests of clients; nevertheless, commands that a sender has accepted must not be
/// refused.
const LOW_LIMITS: &[(&str, &str)] = &[
    ("proto-max-bulk-len", "1mb"),
    ("min-replicas-to-write", "1"),
    ("script-memory-limit", "500kb"),
    ("maxmemory", "1"),
    ("maxmemory-policy", "noeviction"),
];

const RECEIVERS: [Place; 3] = [
    Place { name: "the usual forms, an hour behind", directives: &[], ahead_ms: -3_600_000 },
    Place { name: "large forms, an hour ahead", directives: LARGE_FORMS, ahead_ms: 3_600_000 },
    Place { name: "low limits", directives: LOW_LIMITS, ahead_ms: 0 },
];

impl Place {
    fn rig(&self, seed: u64) -> Rig {
        let seeds = Seeds { hash: HashSeed { k0: seed, k1: !seed }, rng: seed ^ 0x5eed };
        let mut rig = Rig::seeded(seeds, self.directives);
        rig.process.now.unix_us += self.ahead_ms * 1000;
        rig
    }
}

/// A server that follows a primary, and the session of the link.
struct Receiver {
    place: &'static Place,
    rig: Rig,
    link: SessionKey,
}

impl Receiver {
    fn new(place: &'static Place, seed: u64) -> Receiver {
        let mut rig = place.rig(seed);
        rig.check("REPLICAOF 10.0.0.1 6379", "+OK");
        let point = HistoryPoint { replid: "0123456789".repeat(4), offset: 0 };
        rig.engine.adopt_history(point, &mut rig.process);
        let link = RigLink::streaming(&mut rig);
        Receiver { place, rig, link }
    }

    /// Executes the received stream, and returns the data.
    fn execute(&mut self, stream: &[u8]) -> Vec<String> {
        let reply = self.rig.bytes(self.link, stream);
        assert!(reply.is_empty(), "a primary is not answered");
        let is_error = |line: &&(_, String)| line.1.starts_with("== CRITICAL ==");
        let error = self.rig.process.log.iter().find(is_error);
        assert!(error.is_none(), "{}: {error:?}", self.place.name);
        content(self.rig.engine.keyspace())
    }
}

/// The data of a server that loads the stream as its log.
fn loaded(directives: &[(&str, &str)], stream: &[u8]) -> Vec<String> {
    content(load_log(directives, stream.to_vec()).engine.keyspace())
}

#[test]
fn each_row_is_fed_so_that_others_have_the_same_data() {
    let mut wrong = Vec::new();
    for sender in &SENDERS {
        for Row(script, ..) in ROWS {
            let mut rig = sender.rig(1);
            let replica = rig.replica();
            script.split(" | ").for_each(|step| run_step(&mut rig, step));
            let (stream, here) = (rig.output(replica), content(rig.engine.keyspace()));
            for (number, place) in RECEIVERS.iter().enumerate() {
                let there = Receiver::new(place, 77 + number as u64).execute(&stream);
                if there != here {
                    let (from, to) = (sender.name, place.name);
                    wrong.push(format!("{script} ({from}; {to})\n    here:  {here:?}\n    there: {there:?}"));
                }
            }
            let there = loaded(LOW_LIMITS, &stream);
            if there != here {
                let from = sender.name;
                wrong.push(format!("{script} ({from}; a log)\n    here:  {here:?}\n    there: {there:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Lines of random programs, one for each form of a command. Words in braces are random: keys by the
/// type that they mostly hold (`{k}` any of them), names, numbers and times.
const TEMPLATES: &str = include_str!("elsewhere/templates.txt");

/// Write commands that occur in no program, and why.
const NOT_DRAWN: &[(&str, &str)] = &[
    ("migrate", "another server takes part: it/migrate.rs"),
    ("function|load", "libraries are no keys: it/functions.rs"),
    ("function|delete", "the same"),
    ("function|flush", "the same"),
    ("function|restore", "the same"),
    ("pfdebug", "for tests"),
    ("cluster|flushslot", "a cluster takes part: it/clusterscan.rs"),
];

pub(crate) fn templates() -> impl Iterator<Item = &'static str> {
    TEMPLATES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[test]
fn every_command_that_writes_is_drawn() {
    let named: Vec<String> = templates()
        .flat_map(|line| {
            let words: Vec<String> = line.split(' ').take(2).map(str::to_ascii_lowercase).collect();
            [words[0].clone(), words.join("|")]
        })
        .collect();
    let writes =
        sluice_command::table::ALL.iter().filter(|spec| spec.flags.has(sluice_command::Flags::WRITE));
    for spec in writes.filter(|spec| spec.name() == spec.full_name || spec.full_name.contains('|')) {
        let is_named = named.iter().any(|name| name == spec.full_name);
        let is_left = NOT_DRAWN.iter().any(|(name, _)| *name == spec.full_name);
        assert!(is_named != is_left, "a template for {}, or why there is none", spec.full_name);
    }
}

/// A random word in place of a name in braces.
pub(crate) fn drawn(rng: &mut Rng, name: &str, now_ms: i64) -> String {
    let mut of = |words: &[&str]| words[rng.below(words.len() as u64) as usize].to_owned();
    match name {
        "s" => of(&["s0", "s1", "n0"]),
        "n" => of(&["n0", "n1"]),
        "h" => of(&["h0", "h1"]),
        "t" => of(&["t0", "t1", "t2"]),
        "z" => of(&["z0", "z1", "g0"]),
        "geo" => of(&["g0", "g1"]),
        "l" => of(&["l0", "l1"]),
        "q" => of(&["q0", "q1"]),
        "p" => of(&["p0", "p1"]),
        "k" => of(&["s0", "n0", "h0", "h1", "t0", "t1", "z0", "l0", "l1", "q0", "p0", "g0", "none"]),
        "f" | "m" => of(&["a", "b", "c", "dd", "7", "12"]),
        "v" => of(&["x", "yy", "5", "-3", "a", "b", "2.5"]),
        "x" => of(&["0", "1", "1", "2", "-1.5", "1e3", "0.1"]),
        "i" => of(&["0", "1", "2", "3", "-1", "-2"]),
        "c" => of(&["1", "2", "3", "9"]),
        "lex" => of(&["-", "+", "[a", "(b", "[c", "[dd"]),
        "group" => of(&["ga", "gb"]),
        "who" => of(&["alice", "bob", "carol"]),
        "id" => of(&["0", "1-1", "1-2", "2-1", "3-3", "9-9", "0-1"]),
        "lonlat" => of(&["13.361389 38.115556", "15.087269 37.502669", "13.4 38.1", "13.361389 38.115557"]),
        "ms" => of(&["1", "3", "10", "10", "40", "100000"]),
        "sec" => of(&["100", "1", "100000"]),
        "db" => of(&["0", "1", "2"]),
        "at" => (now_ms + i64::try_from(rng.below(60)).unwrap_or(0) - 10).to_string(),
        "cond" => of(&["NX", "XX", "GT", "LT", "", ""]),
        "is" => of(&["NX", "XX", "", ""]),
        _ => panic!("no word {{{name}}}"),
    }
}

fn line(rng: &mut Rng, templates: &[&str], now_ms: i64) -> String {
    let template = templates[rng.below(templates.len() as u64) as usize];
    let mut line = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}').expect("a brace is closed");
        line.push_str(before);
        line.push_str(&drawn(rng, name, now_ms));
        rest = behind;
    }
    line.push_str(rest);
    line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The templates of a program: neighbours in the file, which work on the same keys, and some others.
fn some_templates(rng: &mut Rng) -> Vec<&'static str> {
    let all: Vec<&str> = templates().collect();
    let mut any = |len: usize| rng.below(len as u64) as usize;
    let first = any(all.len());
    let mut some: Vec<&str> = all.iter().cycle().skip(first).take(NEIGHBOURS).copied().collect();
    some.extend((0..OTHERS).map(|_| all[any(all.len())]));
    some
}

const NEIGHBOURS: usize = 24;
const OTHERS: usize = 8;

/// Runs a program of `steps` steps. Returns how a receiver's data differ, if they do.
fn differs(seed: u64, steps: usize) -> Option<String> {
    let mut rng = Rng::new(seed);
    let sender = &SENDERS[rng.below(SENDERS.len() as u64) as usize];
    let templates = some_templates(&mut rng);
    let mut rig = sender.rig(seed);
    let replica = rig.replica();
    let mut receivers: Vec<Receiver> =
        RECEIVERS.iter().map(|place| Receiver::new(place, seed ^ 0xabcd)).collect();
    let (mut program, mut log) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        let now_ms = rig.process.now.unix_ms();
        let drawn = line(&mut rng, &templates, now_ms);
        let lines = match rng.below(20) {
            // Calls of scripts and queued commands are propagated as a client's requests are.
            0 => vec![format!("EVAL \"return redis.pcall(unpack(ARGV))\" 0 {drawn}")],
            1 => {
                let other = line(&mut rng, &templates, now_ms);
                vec!["MULTI".to_owned(), drawn, other, "EXEC".to_owned()]
            }
            2 => vec![format!("!pass {}", 1 + rng.below(15)), drawn],
            3 if rng.below(8) == 0 => vec!["!cron".to_owned(), drawn],
            _ => vec![drawn],
        };
        for line in &lines {
            match line.strip_prefix("!pass ") {
                Some(ms) => rig.pass_ms(ms.parse().unwrap()),
                None if line == "!cron" => rig.cron(),
                // A command that may block gets a client of its own, so that the program goes on.
                None if line.starts_with('B') || line.contains("BLOCK") => {
                    let client = rig.connect();
                    rig.run_as(client, line);
                }
                None => drop(rig.run(line)),
            }
        }
        program.extend(lines);
        let (stream, here) = (rig.output(replica), content(rig.engine.keyspace()));
        log.extend_from_slice(&stream);
        for receiver in &mut receivers {
            let there = receiver.execute(&stream);
            if there == here {
                continue;
            }
            let fed = stream.escape_ascii().to_string();
            let name = receiver.place.name;
            return Some(format!(
                "seed {seed}: {name}\n  {}\n  fed:   {fed}\n  here:  {here:#?}\n  there: {there:#?}",
                program[program.len().saturating_sub(40)..].join("\n  ")
            ));
        }
    }
    let (here, there) = (content(rig.engine.keyspace()), loaded(LOW_LIMITS, &log));
    (there != here).then(|| {
        let program = program.join("\n  ");
        format!("seed {seed}: a log\n  {program}\n  here:  {here:#?}\n  there: {there:#?}")
    })
}

#[test]
fn drawn_programs_are_fed_so_that_others_have_the_same_data() {
    let programs = std::env::var("SLUICE_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let wrong = (0..programs).find_map(|seed| differs(seed, 150));
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
}
