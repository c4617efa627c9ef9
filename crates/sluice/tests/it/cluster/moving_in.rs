//! Moves of whole clusters in and out, by the commands of `docs/moving-in.md`. The comment of each test says
//! which nodes are the reference's.

use super::member::Member;
use super::operators::{Group, strangers};
use crate::common::{Client, free_port, until};
use crate::moving::{DATA, Old, SECRET, Shell, binaries, check_move};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A hash tag whose slot belongs to shard number `shard` of three.
fn tag(shard: usize) -> String {
    let first = [0, 5_461, 10_923, 16_384];
    let has =
        |tag: &String| (first[shard]..first[shard + 1]).contains(&sluice_base::key_slot(tag.as_bytes()));
    (0..).map(|number| format!("tag{number}")).find(has).unwrap()
}

/// A command of [`DATA`] with this hash tag in its key.
fn tagged(line: &str, tag: &str) -> String {
    let at = if line.starts_with("XGROUP") { 2 } else { 1 };
    let words = line.split(' ').enumerate();
    words
        .map(|(n, word)| if n == at { format!("{{{tag}}}{word}") } else { word.to_owned() })
        .collect::<Vec<_>>()
        .join(" ")
}

fn fill(client: &mut Client, tag: &str) {
    for (write, _, _) in DATA {
        client.send(tagged(write, tag) + "\r\n");
        assert!(!client.line().starts_with('-'), "{write}");
        // The reply to XADD is a bulk string, which has a second line.
        if write.starts_with("XADD") {
            client.line();
        }
    }
}

fn check_data(client: &mut Client, tag: &str) {
    for (_, read, reply) in DATA.iter().filter(|(_, read, _)| *read != "INCR number") {
        client.check(&tagged(read, tag), reply);
    }
}

/// A client that increments a key of each of three shards, and follows MOVED.
struct Counting {
    thread: JoinHandle<[u64; 3]>,
    stops: Arc<AtomicBool>,
}

impl Counting {
    fn start(ports: [u16; 3]) -> Counting {
        let stops = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stops);
        let thread = std::thread::spawn(move || {
            let mut clients = ports.map(|port| Client::to("127.0.0.1", port));
            let lines: [String; 3] = std::array::from_fn(|shard| format!("INCR {{{}}}count\r\n", tag(shard)));
            let mut acknowledged = [0; 3];
            // Relaxed: only the flag matters.
            while !stop.load(Ordering::Relaxed) {
                for shard in 0..3 {
                    let reply = clients[shard].send(&lines[shard]).line();
                    if reply.starts_with(':') {
                        acknowledged[shard] += 1;
                    } else if let Some(rest) = reply.strip_prefix("-MOVED ") {
                        let port = rest.rsplit_once(':').unwrap().1.parse().unwrap();
                        clients[shard] = Client::to("127.0.0.1", port);
                    } else {
                        // The thread waits before the next attempt, as a client library would.
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            }
            acknowledged
        });
        Counting { thread, stops }
    }

    fn stop(self) -> [u64; 3] {
        self.stops.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The environment variables that name a shard's old node and its new node.
fn sides<'a>(old: &'a [String; 2], new: &'a str) -> [(&'a str, &'a str); 3] {
    [("OLD_PORT", &old[0]), ("OLD_BUS", &old[1]), ("NEW_PORT", new)]
}

fn of(member: &Member) -> [String; 2] {
    [member.port().to_string(), member.bus().to_string()]
}

/// Checks the cluster as before a move ([`check_move`]). The check must name the node at which a slot is
/// open, whichever node is asked, and a node that refuses the user.
fn is_judged(group: &Group) {
    let (first, second) = (&group.members[0], &group.members[1]);
    let (text, status) = check_move(second.port(), &[]);
    assert_eq!(status, 0, "{text}");
    for part in ["3 primaries with slots, 0 replicas", "all keys are in database 0", " at 3 nodes"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    first.client().check(&format!("CLUSTER SETSLOT 7 MIGRATING {}", second.id()), "+OK\r\n");
    let (text, status) = check_move(second.port(), &[]);
    let wanted = format!("open slots at 127.0.0.1:{}: 7 migrating", first.port());
    assert!(status == 1 && text.contains(&wanted), "{wanted} in {text}");
    first.client().check("CLUSTER SETSLOT 7 STABLE", "+OK\r\n");

    // The check logs in at each node as the guide's user, and names a node that refuses a command.
    let port = second.port().to_string();
    Shell::new().run_with("check-cluster", &[("OLD_PORT", &port), ("MOVE_PASSWORD", SECRET)]);
    let user = ["--user", "mover", "--pass-from-env", "MOVE_PASSWORD"];
    let rights = "+ping +info +select +scan +type +dump +module|list +cluster|nodes";
    second.client().check(&format!("ACL SETUSER mover on >{SECRET} ~* -@all {rights}"), "+OK\r\n");
    first.client().check(&format!("ACL SETUSER mover on >{SECRET} ~* -@all +ping +info"), "+OK\r\n");
    let (text, status) = check_move(second.port(), &user);
    let (first, third) = (first.port(), group.members[2].port());
    for part in [
        format!("not judged: 127.0.0.1:{first}: MODULE LIST: this user has no right to it"),
        format!("not judged: 127.0.0.1:{first}: CLUSTER NODES: this user has no right to it"),
        format!("127.0.0.1:{third} refuses the user mover with this password: WRONGPASS"),
    ] {
        assert!(status == 1 && text.contains(&part), "{part} in {text}");
    }
    for member in &group.members[..2] {
        member.client().check("ACL DELUSER mover", ":1\r\n");
    }
}

/// The old nodes are the reference's: three primaries, and a node that joins at the end. The new nodes are
/// ours.
#[test]
fn a_stock_cluster_moves_in_shard_by_shard_and_back_while_a_client_writes() {
    let Some(group) = strangers("ssss") else { return };
    group.create(3, "0");
    let old = &group.members;
    for (shard, member) in old[..3].iter().enumerate() {
        let mut client = member.client();
        fill(&mut client, &tag(shard));
        let code = "#!lua name=lib\nredis.register_function('seven', function() return 7 end)";
        client.send(crate::common::request(&[b"FUNCTION", b"LOAD", code.as_bytes()])).expect("$3\r\nlib\r\n");
    }
    is_judged(&group);
    let counting = Counting::start([0, 1, 2].map(|shard| old[shard].port()));
    let mut shell = Shell::new();
    let ports: [u16; 3] = std::array::from_fn(|_| free_port());
    let news = ports.map(|port| [port, free_port()].map(|port| port.to_string()));
    for shard in 0..3 {
        let folder = shell.bash.dir.join(&format!("new{shard}"));
        std::fs::create_dir(&folder).unwrap();
        let file = format!("cluster-port {}\nrepl-diskless-sync-delay 0\n", news[shard][1]);
        std::fs::write(format!("{folder}/sluice.conf"), file).unwrap();
        shell.run_with("cluster-start", &[("NEW_PORT", &news[shard][0]), ("NEW_DIR", &folder)]);
        shell.run_with("cluster-join", &sides(&of(&old[shard]), &news[shard][0]));
    }
    let holds = |client: &mut Client, shard| {
        check_data(client, &tag(shard));
        client.check("FCALL seven 0", ":7\r\n");
    };
    let ours = ports.map(|port| move || Client::to("127.0.0.1", port));
    for shard in 0..3 {
        shell.run_with("cluster-take", &sides(&of(&old[shard]), &news[shard][0]));
        holds(&mut ours[shard](), shard);
    }
    // The first shard moves back to its old node, which still follows, and the second one to another node,
    // which joins.
    shell.run_with("cluster-take", &sides(&news[0], &of(&old[0])[0]));
    holds(&mut old[0].client(), 0);
    shell.run_with("cluster-take", &sides(&of(&old[0]), &news[0][0]));
    shell.run_with("cluster-join", &sides(&news[1], &of(&old[3])[0]));
    shell.run_with("cluster-take", &sides(&news[1], &of(&old[3])[0]));
    holds(&mut old[3].client(), 1);
    shell.run_with("cluster-take", &sides(&of(&old[3]), &news[1][0]));
    let acknowledged = counting.stop();
    for (shard, count) in acknowledged.into_iter().enumerate() {
        assert!(count > 0, "a client that goes on");
        let text = ours[shard]().bulk(&format!("GET {{{}}}count", tag(shard)));
        assert_eq!(String::from_utf8_lossy(&text).trim_end(), count.to_string(), "shard {shard}");
    }
    for member in old {
        shell.run_with("cluster-leave", &sides(&of(member), &news[0][0]));
    }
    until("three nodes of ours", || {
        let text = ours[2]().bulk("CLUSTER INFO");
        let text = String::from_utf8_lossy(&text);
        (text.contains("cluster_state:ok") && text.contains("cluster_known_nodes:3\r")).then_some(())
    });
}

/// The cluster has three primaries of ours. The sources, one after the other, are the reference and each
/// available Redis.
#[test]
fn a_single_server_is_imported_into_a_cluster() {
    let Some(group) = strangers("ooo") else { return };
    group.create(3, "0");
    for binary in binaries() {
        let old = Old::start(Path::new(&binary), &[]);
        let mut theirs = old.client();
        println!("from {}", binary.display());
        (0..3).for_each(|shard| fill(&mut theirs, &tag(shard)));
        let (from, to) = (old.port.to_string(), group.members[0].port().to_string());
        let sides = [("OLD_PORT", from.as_str()), ("NEW_PORT", to.as_str())];
        let mut shell = Shell::new();
        if !theirs.info_text().contains("valkey_version") {
            shell.run_with("import-redis", &sides);
        }
        shell.run_with("import", &sides);
        theirs.check("DBSIZE", ":0\r\n");
        (0..3).for_each(|shard| check_data(&mut group.members[shard].client(), &tag(shard)));
    }
}
