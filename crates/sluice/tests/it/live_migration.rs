//! A live migration from Redis while clients write. Our server becomes a replica of Redis by REPLICAOF,
//! receives values of every type, and must lose no write.
//!
//! `SLUICE_REDIS_SERVERS` names the Redis binaries, separated by colons; `redis-server-8` beside the binary
//! of `SLUICE_PEER_SERVER` and `redis-server` on the path are used too. If none exists, the test prints a
//! note.

use crate::common::{Client, Dir, Server, free_port, request, until};
use sluice_base::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The available servers to migrate from.
fn binaries() -> Vec<PathBuf> {
    let named = std::env::var("SLUICE_REDIS_SERVERS").unwrap_or_default();
    let beside = std::env::var_os("SLUICE_PEER_SERVER")
        .map(|server| Path::new(&server).with_file_name("redis-server-8"));
    let path = std::env::var("PATH").unwrap_or_default();
    let on_path = path.split(':').map(|folder| Path::new(folder).join("redis-server"));
    let named = named.split(':').filter(|name| !name.is_empty()).map(PathBuf::from);
    let all: Vec<PathBuf> = named.chain(beside).chain(on_path).filter(|path| path.exists()).collect();
    if all.is_empty() {
        println!("skipped: neither SLUICE_REDIS_SERVERS nor the path names a Redis");
    }
    all
}

/// A running Redis server, killed on drop.
struct Redis {
    child: Child,
    port: u16,
    _dir: Dir,
}

impl Redis {
    fn start(binary: &Path) -> Redis {
        let (dir, port) = (Dir::new(), free_port());
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""])
            .args(["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"])
            // The backlog is large because a replica with debug assertions is slow.
            .args(["--repl-backlog-size", "512mb"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until("Redis", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Redis { child, port, _dir: dir }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a write to a value of a random type. There are few keys, so that values outgrow their small
/// encodings.
fn write(client: &mut Client, rng: &mut Rng) {
    let (key, number) = (rng.below(12), rng.below(1_000_000));
    let text = "v".repeat(rng.below(80) as usize);
    let words = match rng.below(14) {
        0 => format!("SET str:{key} {text}{number}"),
        1 => format!("RPUSH list:{key} {number} {text}x"),
        2 => format!("HSET hash:{key} {number} {text}x"),
        3 => format!("SADD set:{key} {number}"),
        4 => format!("SADD mixed:{key} {text}{number}"),
        5 => format!("ZADD zset:{key} {number}.5 {text}{number}"),
        6 => format!("XADD stream:{key} * field {number} other {text}x"),
        7 => format!("PFADD hll:{key} {number}"),
        8 => format!("SETBIT bits:{key} {} 1", number % 20_000),
        9 => format!("GEOADD geo:{key} {}.25 {}.5 {number}", number % 180, number % 80),
        10 => format!("SET mortal:{key} {number} EX 10000"),
        11 => format!("LPOP list:{key}"),
        12 => format!("XGROUP CREATE stream:{key} group 0 MKSTREAM"),
        _ => format!("XREADGROUP GROUP group me COUNT 2 STREAMS stream:{key} >"),
    };
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    client.send(request(&words));
    skip_reply(client);
}

fn skip_reply(client: &mut Client) {
    let header = client.line();
    match header.split_at(1) {
        ("*", count) => {
            let count: i64 = count.parse().unwrap();
            (0..count).for_each(|_| skip_reply(client));
        }
        ("$", "-1") => {}
        ("$", _) => drop(client.line()),
        _ => {}
    }
}

/// The words in the reply to a request.
fn words(client: &mut Client, line: &str) -> Vec<String> {
    client.send(format!("{line}\r\n"));
    let count: usize = client.line()[1..].parse().unwrap();
    (0..count)
        .map(|_| {
            let header = client.line();
            if header.starts_with('$') { client.line() } else { header }
        })
        .collect()
}

/// Every key with its type, its expiry and a digest of its value. A sorted set has its members and scores in
/// place of the digest, because Redis 7.0 digests the longest text of a score.
fn contents(client: &mut Client) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for key in words(client, "KEYS *") {
        let kind = client.send(format!("TYPE {key}\r\n")).line();
        let value = match kind.as_str() {
            "+zset" => {
                let pairs = words(client, &format!("ZRANGE {key} 0 -1 WITHSCORES"));
                let shown = pairs.chunks(2).map(|pair| format!("{} {:?}", pair[0], pair[1].parse::<f64>()));
                shown.collect::<Vec<_>>().join(",")
            }
            _ => words(client, &format!("DEBUG DIGEST-VALUE {key}")).join(""),
        };
        let expiry = client.send(format!("PEXPIRETIME {key}\r\n")).line();
        all.insert(key, format!("{kind} {expiry} {value}"));
    }
    all
}

fn until_same(theirs: &mut Client, ours: &mut Client) {
    until("all that was written", || {
        (theirs.info("master_repl_offset") == ours.info("master_repl_offset")).then_some(())
    });
    let (wanted, got) = (contents(theirs), contents(ours));
    assert!(wanted.len() > 50, "{}", wanted.len());
    assert_eq!(wanted.keys().collect::<Vec<_>>(), got.keys().collect::<Vec<_>>());
    for (key, value) in &wanted {
        assert_eq!(Some(value), got.get(key), "{key}");
    }
}

#[test]
fn a_redis_moves_here_under_load() {
    for binary in binaries() {
        let redis = Redis::start(&binary);
        let mut theirs = Client::to("127.0.0.1", redis.port);
        println!("from {}, version {}", binary.display(), theirs.info("redis_version"));
        let mut rng = Rng::new(11);
        (0..6000).for_each(|_| write(&mut theirs, &mut rng));
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, count, port) = (stop.clone(), written.clone(), redis.port);
        let load = std::thread::spawn(move || {
            let (mut client, mut rng) = (Client::to("127.0.0.1", port), Rng::new(12));
            while !is_over.load(Relaxed) {
                write(&mut client, &mut rng);
                count.fetch_add(1, Relaxed);
            }
        });
        let server = Server::start(&[]);
        let mut ours = server.client();
        ours.check(&format!("REPLICAOF 127.0.0.1 {}", redis.port), "+OK\r\n");
        until("the link", || (ours.info("master_link_status") == "up").then_some(()));
        let before = written.load(Relaxed);
        until("more writes", || (written.load(Relaxed) > before + 500).then_some(()));
        // A link that was closed continues by a partial synchronization.
        ours.check("CLIENT KILL TYPE master", ":1\r\n");
        until("the link again", || (theirs.info("sync_partial_ok") == "1").then_some(()));
        let before = written.load(Relaxed);
        until("more writes", || (written.load(Relaxed) > before + 500).then_some(()));
        stop.store(true, Relaxed);
        load.join().unwrap();
        until_same(&mut theirs, &mut ours);
        assert_eq!(theirs.info("sync_full"), "1");
        ours.check("REPLICAOF NO ONE", "+OK\r\n").check("SET here 1", "+OK\r\n");
    }
}

#[test]
fn fields_that_expire_in_redis_8_arrive_with_their_expiries() {
    let Some(binary) = binaries().into_iter().find(|path| path.ends_with("redis-server-8")) else {
        println!("skipped: no redis-server-8 beside the reference");
        return;
    };
    let redis = Redis::start(&binary);
    let mut theirs = Client::to("127.0.0.1", redis.port);
    // The small hash is a listpack, and the large one a hash table.
    for (key, fields) in [("small", 3), ("large", 700)] {
        for i in 0..fields {
            theirs.check(&format!("HSET {key} f{i} {i}"), ":1\r\n");
        }
        for i in (0..fields).step_by(2) {
            theirs.check(
                &format!("HPEXPIREAT {key} {} FIELDS 1 f{i}", 4_000_000_000_000_u64 + i),
                "*1\r\n:1\r\n",
            );
        }
    }
    let server = Server::start(&[]);
    let mut ours = server.client();
    ours.check(&format!("REPLICAOF 127.0.0.1 {}", redis.port), "+OK\r\n");
    until("the link", || (ours.info("master_link_status") == "up").then_some(()));
    for (key, fields) in [("small", 3), ("large", 700)] {
        ours.check(&format!("HLEN {key}"), format!(":{fields}\r\n"));
        for i in 0..fields {
            let at = if i % 2 == 0 { (4_000_000_000_000_u64 + i).to_string() } else { "-1".to_owned() };
            ours.check(&format!("HPEXPIRETIME {key} FIELDS 1 f{i}"), format!("*1\r\n:{at}\r\n"));
            ours.check(&format!("HGET {key} f{i}"), format!("${}\r\n{i}\r\n", i.to_string().len()));
        }
    }
    // A changed expiry arrives in the replication stream.
    theirs.check("HPEXPIREAT small 4100000000000 FIELDS 1 f1", "*1\r\n:1\r\n");
    until("the change", || {
        (ours.send("HPEXPIRETIME small FIELDS 1 f1\r\n").line() == "*1" && ours.line() == ":4100000000000")
            .then_some(())
    });
}
