//! Reads and writes of a Rust program while its cluster changes, through redis-rs: loop MODE PORT...; the
//! head of xtask/src/loops.rs says what a loop does and prints. Each worker has a connection of its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{Commands, RedisError};

const TAGS: [[u32; 4]; 3] = [[3, 7, 10, 11], [1, 2, 5, 6], [0, 4, 8, 13]];
const KEYS: usize = 64;

struct Counts {
    writes: u64,
    reads: u64,
    gap: Duration,
    gap_at_ms: u128,
    last: Instant,
}

impl Counts {
    fn look(&mut self) {
        let since = self.last.elapsed();
        if since > self.gap {
            (self.gap, self.gap_at_ms) = (since, unix_ms().saturating_sub(since.as_millis()));
        }
    }
}

struct Worker {
    client: ClusterConnection,
    group: usize,
    keys: Vec<String>,
    acknowledged: HashMap<String, usize>,
    unknown: HashMap<String, HashSet<usize>>,
    counts: Arc<Mutex<Counts>>,
}

impl Worker {
    fn succeeded(&self, writes: u64, reads: u64) {
        let mut counts = self.counts.lock().expect("no panic");
        counts.writes += writes;
        counts.reads += reads;
        counts.look();
        counts.last = Instant::now();
    }

    fn failed(&self, what: &str, error: &RedisError) {
        let text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let text: String = text.chars().take(200).collect();
        println!("error {} {} {what} {text}", unix_ms(), self.group);
    }

    fn run(mut self) {
        for count in 1.. {
            let key = self.keys[count % KEYS].clone();
            match self.client.set::<_, _, ()>(&key, format!("{key}#{count}")) {
                Ok(()) => {
                    self.acknowledged.insert(key, count);
                    self.succeeded(1, 0);
                }
                Err(error) => {
                    self.unknown.entry(key).or_default().insert(count);
                    self.failed("SET", &error);
                }
            }
            let other = self.keys[(count + KEYS / 2) % KEYS].clone();
            match self.client.get::<_, Option<String>>(&other) {
                Ok(found) => {
                    self.succeeded(0, 1);
                    self.judge(&other, found);
                }
                Err(error) => self.failed("GET", &error),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn judge(&mut self, key: &str, found: Option<String>) {
        let number = match &found {
            None => Some(0),
            Some(text) => text.strip_prefix(&format!("{key}#")).and_then(|number| number.parse().ok()),
        };
        let Some(number) = number else {
            println!("wrong {} {} {key} {found:?}", unix_ms(), self.group);
            return;
        };
        let expected = self.acknowledged.get(key).copied().unwrap_or(0);
        if number != expected && !self.unknown.get(key).is_some_and(|all| all.contains(&number)) {
            println!("lost {} {} {key} {number} in place of {expected}", unix_ms(), self.group);
            self.acknowledged.insert(key.to_owned(), number);
        }
    }
}

fn unix_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis())
}

fn main() {
    let nodes: Vec<String> = std::env::args().skip(2).map(|port| format!("redis://127.0.0.1:{port}")).collect();
    let client = ClusterClient::new(nodes).expect("a client");
    let mut all = Vec::new();
    for (group, tags) in TAGS.iter().enumerate() {
        let mut client = client.get_connection().expect("a connection");
        let keys: Vec<String> = (0..KEYS).map(|at| format!("{{{}}}:redis-rs:{at}", tags[at % 4])).collect();
        keys.iter().for_each(|key| client.del::<_, ()>(key).expect("DEL"));
        let counts =
            Counts { writes: 0, reads: 0, gap: Duration::ZERO, gap_at_ms: unix_ms(), last: Instant::now() };
        let counts = Arc::new(Mutex::new(counts));
        all.push(Arc::clone(&counts));
        let (acknowledged, unknown) = (HashMap::new(), HashMap::new());
        let worker = Worker { client, group, keys, acknowledged, unknown, counts };
        std::thread::spawn(move || worker.run());
    }
    println!("ready of Cargo.toml");
    for _ in std::io::stdin().lines() {
        let (mut writes, mut reads, mut gap) = (0, 0, (Duration::ZERO, 0));
        for counts in &all {
            let mut counts = counts.lock().expect("no panic");
            counts.look();
            writes += counts.writes;
            reads += counts.reads;
            gap = gap.max((counts.gap, counts.gap_at_ms));
            (counts.writes, counts.reads, counts.gap) = (0, 0, Duration::ZERO);
        }
        println!("report {writes} {reads} {} {}", gap.0.as_millis(), gap.1);
    }
}
