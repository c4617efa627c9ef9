//! Replies of a primary that has been demoted. The comment of the test says which nodes are the reference's.

use super::handover::cluster;
use super::member::Member;
use crate::common::{Client, until};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Maximum redirects for one request during a handover: one by a node that is not the owner, and one by the
/// old primary.
const REDIRECTS_MAX: usize = 2;

/// A client that repeatedly writes a key, and follows MOVED. A reply other than MOVED and OK, or more
/// than `REDIRECTS_MAX` redirects for a request, makes its thread panic.
struct Follower {
    thread: JoinHandle<()>,
    stops: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
}

impl Follower {
    fn start(port: u16, key: &str) -> Follower {
        let (stops, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, count) = (Arc::clone(&stops), Arc::clone(&rounds));
        let text = format!("SET {key} 1\r\n");
        let thread = std::thread::spawn(move || {
            let mut conns: BTreeMap<u16, Client> = BTreeMap::new();
            // Relaxed: only the flag matters.
            while !stop.load(Ordering::Relaxed) {
                let mut way = vec![port];
                loop {
                    let at = *way.last().unwrap();
                    let conn = conns.entry(at).or_insert_with(|| Client::to("127.0.0.1", at));
                    let reply = conn.send(&text).line();
                    if reply == "+OK" {
                        break;
                    }
                    let Some(rest) = reply.strip_prefix("-MOVED ") else { panic!("{reply} by {way:?}") };
                    way.push(rest.rsplit_once(':').unwrap().1.parse().unwrap());
                    assert!(way.len() <= REDIRECTS_MAX + 1, "{way:?}");
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Follower { thread, stops, rounds }
    }

    fn goes_on(&self) {
        let enough = self.rounds.load(Ordering::Relaxed) + 20;
        until("more rounds", || {
            (self.rounds.load(Ordering::Relaxed) >= enough || self.thread.is_finished()).then_some(())
        });
    }

    fn stop(self) {
        self.stops.store(true, Ordering::Relaxed);
        self.thread.join().expect("a way without a circle");
    }
}

/// Makes `heir` take over from `old` by hand, while clients of all nodes write keys with this hash tag, and
/// clients of `old` are blocked.
fn demote(members: &[Member], old: &Member, heir: &Member, tag: &str) {
    let mut plain = old.client();
    plain.check(&format!("SET {tag}s 1"), "+OK\r\n");
    let begin = |lines: &[&str]| {
        let mut client = old.client();
        let (last, first) = lines.split_last().unwrap();
        for line in first {
            client.send(format!("{}\r\n", line.replace('%', tag))).line();
        }
        client.send(format!("{}\r\n", last.replace('%', tag)));
        client
    };
    let waits = [
        begin(&["BLPOP %list 0"]),
        begin(&["BLMOVE %list %other LEFT LEFT 0"]),
        begin(&["BZPOPMIN %zset 0"]),
        begin(&["XREAD BLOCK 0 STREAMS %stream $"]),
    ];
    let mut counts = begin(&["SET %c 1", "WAIT 5 0"]);
    let mut queues = begin(&["MULTI", "SET %m 1"]);
    assert_eq!(queues.line(), "+QUEUED");
    until("clients that wait", || (plain.info_number("blocked_clients") == 5).then_some(()));

    let followers: Vec<Follower> =
        members.iter().map(|member| Follower::start(member.port(), &format!("{tag}f"))).collect();
    followers.iter().for_each(Follower::goes_on);
    let order = until("a replica that can take over", || {
        let reply = heir.client().send("CLUSTER FAILOVER\r\n").line();
        (reply == "+OK").then_some(reply)
    });
    assert_eq!(order, "+OK");
    let port = heir.port();
    let moved = |reply: &str| reply.starts_with("-MOVED ") && reply.ends_with(&format!(":{port}"));
    for mut client in waits {
        let reply = client.line();
        assert!(moved(&reply), "{reply}");
    }
    // If the old primary is the reference's, the client in WAIT stays blocked.
    if matches!(old, Member::Ours(_)) {
        let reply = counts.line();
        assert!(reply.starts_with("-UNBLOCKED "), "{reply}");
    }
    // Other requests for the tag's slot get the same reply.
    for line in ["SET %s 2", "GET %s", "EVAL \"return redis.call('set',KEYS[1],1)\" 1 %s", "BLPOP %list 0"] {
        let reply = plain.send(format!("{}\r\n", line.replace('%', tag))).line();
        assert!(moved(&reply), "{line}: {reply}");
    }
    let reply = queues.send("EXEC\r\n").line();
    assert!(moved(&reply), "{reply}");
    until("the old primary as a replica", || (heir.is_primary() && old.follows()).then_some(()));
    for follower in followers {
        follower.goes_on();
        follower.stop();
    }
}

/// The second primary and the replica of the first are the reference's. Each pair thus has a node of either
/// kind, and both nodes of a pair are demoted in turn.
#[test]
fn cb_s70_clients_of_a_demoted_primary_are_sent_to_its_heir_and_in_no_circle() {
    let Some(members) = cluster("ososo") else { return };
    for (one, other, tag) in [(0, 3, "{3}"), (1, 4, "{1}")] {
        demote(&members, &members[one], &members[other], tag);
        demote(&members, &members[other], &members[one], tag);
    }
}
