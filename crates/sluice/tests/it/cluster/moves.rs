//! Helpers for the tests of atomic moves of slots, with clusters in which slots 100 to 300 move from node 0
//! to node 2.

use super::member::Member;
use super::operators::{Group, strangers_with};
use crate::common::{Client, request, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Starts a cluster with a node for each letter of `kinds`, with two databases each. Nodes 0, 1 and 2 are
/// primaries, node 3 is a replica of node 2, and node 4, if there is one, is a replica of node 0.
pub(super) fn cluster(kinds: &str, more: &[&str]) -> Option<Group> {
    let databases = ["--cluster-databases", "2"];
    let group = strangers_with(kinds, &[&databases, more].concat())?;
    group.create(3, "0");
    group.follow(3, 2);
    if kinds.len() == 5 {
        group.follow(4, 0);
    }
    group.is_well(kinds.len());
    Some(group)
}

pub(super) fn begin(group: &Group) {
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 100 200 201 300 NODE {}", group.members[2].id());
    group.members[0].client().check(&line, "+OK\r\n");
}

/// The latest move of slots that a node lists, as text.
pub(super) fn job(member: &Member) -> String {
    let mut client = member.client();
    client.send("CLUSTER GETSLOTMIGRATIONS\r\nPING\r\n");
    let lines = std::iter::from_fn(|| Some(client.line()).filter(|line| line != "+PONG"));
    let words: Vec<String> = lines.filter(|line| !line.starts_with(['*', '$'])).collect();
    let end = words.iter().skip(1).position(|word| word == "name").map_or(words.len(), |at| at + 1);
    words[..end].join(" ")
}

#[track_caller]
pub(super) fn is_over(member: &Member, end: &str) {
    until("the end of the job", || job(member).contains(end).then_some(()));
}

pub(super) fn owns(member: &Member, slots: &str) -> bool {
    let lines = super::nodes(&mut member.client());
    lines.iter().any(|line| line.contains("myself,master") && line.contains(slots))
}

/// Puts keys of every type into the moved slots of the source, in two databases.
pub(super) fn fill(source: &mut Client, moved: &[String]) {
    for (number, key) in moved.iter().enumerate() {
        source.check(&format!("SELECT {}", number % 2), "+OK\r\n");
        let n = number;
        let lines = match number % 8 {
            0 => vec![format!("SET {key} value{n}")],
            1 => vec![format!("RPUSH {key} a b {n}"), format!("LPUSH {key} first")],
            2 => vec![format!("SADD {key} a b {n}"), format!("EXPIREAT {key} 9999999999")],
            3 => vec![format!("ZADD {key} 1.5 a -inf b {n} c")],
            4 => {
                let fields = format!("HPEXPIREAT {key} 99999999999999 FIELDS 1 g");
                vec![format!("HSET {key} f {n} g 2"), fields]
            }
            5 => vec![
                format!("XADD {key} 1-1 f v"),
                format!("XADD {key} 2-{n} f v"),
                format!("XGROUP CREATE {key} group 0"),
                format!("XREADGROUP GROUP group me COUNT 1 STREAMS {key} >"),
                format!("XDEL {key} 1-1"),
            ],
            6 => vec![format!("PFADD {key} a b c {n}"), format!("PEXPIREAT {key} 99999999999999")],
            _ => vec![format!("SETRANGE {key} 70000 x{n}")],
        };
        for line in lines {
            source.send(format!("{line}\r\nPING\r\n"));
            loop {
                let line = source.line();
                assert!(!line.starts_with('-'), "{line}");
                if line == "+PONG" {
                    break;
                }
            }
        }
    }
    source.check("SELECT 0", "+OK\r\n");
}

/// Digests of the values that a node has under these keys, in both databases.
pub(super) fn digests(member: &Member, keys: &[String]) -> Vec<String> {
    let mut client = member.client();
    let words: Vec<&[u8]> =
        [&b"DEBUG"[..], b"DIGEST-VALUE"].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    let mut all = Vec::new();
    for db in 0..2 {
        client.check(&format!("SELECT {db}"), "+OK\r\n").send(request(&words));
        let count: usize = client.line().trim_start_matches('*').parse().unwrap();
        // Our server and the reference answer with simple strings.
        all.extend((0..count).map(|_| client.line()));
    }
    all
}

/// A thread that increments counters at their owner until `stop` is set, and returns the acknowledged counts.
pub(super) fn count(
    ports: [u16; 2],
    keys: Vec<String>,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<Vec<u64>> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut clients = ports.map(|port| Client::to("127.0.0.1", port));
        let mut counts = vec![0; keys.len()];
        let mut at = 0;
        while !stop.load(Ordering::Relaxed) {
            for (key, count) in keys.iter().zip(&mut counts) {
                loop {
                    let answer = clients[at].send(format!("INCR {key}\r\n")).line();
                    if let Some(now) = answer.strip_prefix(':') {
                        *count += 1;
                        assert_eq!(now.parse::<u64>().unwrap(), *count, "{key}: a write was lost");
                        break;
                    }
                    assert!(answer.starts_with("-MOVED"), "{answer}");
                    at = 1 - at;
                }
            }
        }
        counts
    })
}
