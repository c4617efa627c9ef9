//! I/O threads, end to end: guarantees to clients while threads start and end. All tests run once more with
//! queues between the threads that hold only two messages, so that every overflow occurs.

use crate::common::feeds::Feeds;
use crate::common::{self, Client, Server, request, until};
use sluice_base::Rng;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const WORKERS: &[&str] = &["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Environment variable that only a test build reads. It makes the main thread keep up to this many
/// connections, instead of giving them to I/O threads.
const KEPT: &str = "SLUICE_TEST_KEPT";
/// Environment variable that only a test build reads. It makes the server's threads poll for work before they
/// sleep.
const SPIN: &str = "SLUICE_TEST_SPIN";

/// Starts a server whose threads poll for work before they sleep; returns `None` in a build without switches.
fn with_spinning_threads(more: &[&str]) -> Option<Server> {
    if !common::has_switches() {
        return None;
    }
    let server = Server::start_in(common::Dir::new(), |command| {
        command.args(WORKERS).args(more).env(SPIN, "1");
    });
    let mut client = server.client();
    until("threads that spin", || (client.info_number("io_threads_spinning") == 1).then_some(()));
    Some(server)
}

fn with_io_threads(more: &[&str]) -> Server {
    let server = Server::start(&[WORKERS, more].concat());
    server.log.wait("Ready to accept").unwrap();
    let mut client = server.client();
    until("I/O threads", || (client.info("io_threads_active") == "1").then_some(()));
    server
}

/// Number of open descriptors of the server's process.
fn descriptors_of(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count()
}

/// Names of the server's threads, without the allocator's threads, whose number varies.
fn threads_of(server: &Server) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| !name.starts_with("jemalloc")).collect()
}

/// A client that numbers its requests, and checks that every reply arrives once and in order.
struct Counting {
    client: Client,
    sent: u64,
    got: u64,
    rng: Rng,
}

impl Counting {
    fn new(server: &Server, seed: u64) -> Counting {
        Counting { client: server.client(), sent: 0, got: 0, rng: Rng::new(seed) }
    }

    /// Sends a pipeline of random depth in random pieces, and reads the replies. Returns `false` if the
    /// connection has ended.
    fn round(&mut self) -> bool {
        let depth = [1, 1, 2, 16, 200][self.rng.below(5) as usize];
        let mut bytes = Vec::new();
        for _ in 0..depth {
            let text = format!("{:08}{}", self.sent, "x".repeat(self.rng.below(64) as usize));
            bytes.extend_from_slice(&request(&[b"ECHO", text.as_bytes()]));
            self.sent += 1;
        }
        let cut = self.rng.below(bytes.len() as u64) as usize;
        let stream = &mut self.client.stream;
        if stream.write_all(&bytes[..cut]).is_err() || stream.write_all(&bytes[cut..]).is_err() {
            return false;
        }
        while self.got < self.sent {
            let Some(text) = self.answer() else { return false };
            assert_eq!(text[..8], *format!("{:08}", self.got).as_bytes(), "answers in order");
            self.got += 1;
        }
        true
    }

    /// Reads a bulk string; returns `None` at the end of the connection, even in the middle of a string.
    fn answer(&mut self) -> Option<Vec<u8>> {
        let mut header = Vec::new();
        while !header.ends_with(b"\r\n") {
            let mut byte = [0];
            match self.client.stream.read(&mut byte) {
                Ok(1) => header.push(byte[0]),
                Ok(_) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("{error} after {} of {}", self.got, self.sent),
            }
        }
        let len: usize = std::str::from_utf8(&header[1..header.len() - 2]).unwrap().parse().unwrap();
        let mut body = vec![0; len + 2];
        self.client.stream.read_exact(&mut body).ok()?;
        Some(body)
    }
}

/// Clients that send requests until they are stopped, several in each thread of the test.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<u64>>,
}

impl Load {
    fn start(server: &Server, threads: u64, clients: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..threads)
            .map(|thread| {
                let mut clients: Vec<Counting> =
                    (0..clients).map(|client| Counting::new(server, thread * 1000 + client + 1)).collect();
                let stop = stop.clone();
                std::thread::spawn(move || {
                    while !stop.load(Relaxed) {
                        clients
                            .iter_mut()
                            .for_each(|client| assert!(client.round(), "a connection was lost"));
                    }
                    clients.iter().map(|client| client.got).sum()
                })
            })
            .collect();
        Load { stop, threads }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    }
}

#[test]
fn answers_come_in_order_on_every_connection() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    let load = Load::start(&server, 3, 12);
    until("many commands", || (control.info_number("total_commands_processed") > 100_000).then_some(()));
    assert!(load.stop() > 90_000);
}

#[test]
fn io_t7_threads_come_and_go_under_load_and_nothing_is_lost() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    let load = Load::start(&server, 2, 8);
    let mut rng = Rng::new(7);
    for _ in 0..60 {
        let always = if rng.below(4) == 0 { "no" } else { "yes" };
        let threads = 1 + rng.below(5);
        control
            .check(&format!("CONFIG SET io-threads {threads} io-threads-always-active {always}"), "+OK\r\n");
        let before = control.info_number("total_commands_processed");
        until("some commands", || {
            (control.info_number("total_commands_processed") > before + 500).then_some(())
        });
    }
    assert!(load.stop() > 0);
    until("the clients' end", || (control.info_number("connected_clients") == 1).then_some(()));
    control.check("CONFIG SET io-threads 1", "+OK\r\n");
    let alone = Server::start(&[]);
    alone.client().check("PING", "+PONG\r\n");
    let wanted = threads_of(&alone).len();
    until("the threads' end", || (threads_of(&server).len() <= wanted).then_some(()));
    until("their descriptors' end", || (descriptors_of(&server) <= descriptors_of(&alone) + 1).then_some(()));
    // The remaining memory is kept for reuse.
    let used = control.info_number("used_memory") - alone.client().info_number("used_memory");
    assert!(used < 4 << 20, "{used} bytes more than a fresh server");
}

#[test]
fn a_slow_reader_does_not_keep_threads_from_changing() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    control.send(request(&[b"SET", b"big", &vec![b'x'; 16 << 20]])).expect("+OK\r\n");
    let mut lazy = server.client();
    lazy.check("CLIENT ID", format!(":{}\r\n", 3)).send("GET big\r\nECHO after\r\n");
    let slow = |control: &mut Client| {
        let list = String::from_utf8(control.bulk("CLIENT LIST ID 3")).unwrap();
        (!list.contains(" omem=0 ")).then_some(())
    };
    until("a send in flight", || slow(&mut control));
    control.check("CONFIG SET io-threads 1", "+OK\r\n").check("CONFIG SET io-threads 3", "+OK\r\n");
    let mut other = server.client();
    other.check("PING", "+PONG\r\n");
    until("new I/O threads", || (control.info("io_threads_active") == "1").then_some(()));
    other.check("PING", "+PONG\r\n");
    lazy.expect("$16777216\r\n").expect(vec![b'x'; 16 << 20]).expect("\r\n$5\r\nafter\r\n");
}

#[test]
fn a_stalled_upload_does_not_keep_a_thread() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    let mut stalled = server.client();
    let set = request(&[b"SET", b"big", &vec![b'y'; 4 << 20]]);
    stalled.send(&set[..1 << 20]);
    control.check("CONFIG SET io-threads 1", "+OK\r\n");
    until("no I/O thread's thread", || {
        (!threads_of(&server).iter().any(|name| name.starts_with("io_thd_"))).then_some(())
    });
    stalled.send(&set[1 << 20..]).expect("+OK\r\n");
    control.check("STRLEN big", format!(":{}\r\n", 4 << 20));
}

#[test]
fn regress_3458_a_client_killed_while_it_sends_leaves_nothing() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    let load = Load::start(&server, 1, 4);
    for round in 0..60 {
        let mut victim = Counting::new(&server, round);
        let id = {
            victim.client.send("CLIENT ID\r\n");
            victim.client.line()[1..].to_owned()
        };
        let thread = std::thread::spawn(move || while victim.round() {});
        control.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        thread.join().unwrap();
    }
    load.stop();
    until("the clients' end", || (control.info_number("connected_clients") == 1).then_some(()));
}

#[test]
fn regress_4534_a_batch_may_kill_those_whose_batches_wait_behind_it() {
    let server = with_io_threads(&[]);
    for _ in 0..50 {
        let mut all: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for client in &mut all {
            client.check("PING", "+PONG\r\n");
        }
        for client in &mut all {
            client.send("ECHO a\r\nCLIENT KILL TYPE normal SKIPME yes\r\nECHO b\r\n");
        }
        // At least one client is not killed; the others have received a prefix of their replies.
        let mut whole = 0;
        for client in &mut all {
            let mut got = Vec::new();
            let _ = client.stream.shutdown(std::net::Shutdown::Write);
            let _ = client.stream.read_to_end(&mut got);
            let text = String::from_utf8(got).unwrap();
            let killed = text.split("\r\n").nth(2).unwrap_or("").to_owned();
            let full = format!("$1\r\na\r\n{killed}\r\n$1\r\nb\r\n");
            assert!(full.starts_with(&text), "{text:?}");
            whole += usize::from(text == full);
        }
        assert!(whole >= 1);
    }
}

#[test]
fn regress_4376_a_request_that_waits_runs_once_wherever_its_connection_goes() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for round in 1..=20 {
        control.check("CLIENT PAUSE 100000000 WRITE", "+OK\r\n");
        for client in &mut clients {
            client.send("ECHO first\r\nINCR n\r\nECHO last\r\n").expect("$5\r\nfirst\r\n");
        }
        until("all wait", || (control.info_number("blocked_clients") == 6).then_some(()));
        // The connections move while their requests wait, and the pause ends during the move.
        let threads = 1 + round % 4;
        control
            .send(format!("CONFIG SET io-threads {threads}\r\nCLIENT UNPAUSE\r\n"))
            .expect("+OK\r\n+OK\r\n");
        for client in &mut clients {
            assert!(client.line().starts_with(':'));
            client.expect("$4\r\nlast\r\n");
        }
        control.check("GET n", format!("${}\r\n{}\r\n", (6 * round).to_string().len(), 6 * round));
    }
}

#[test]
fn a_waiting_client_is_served_in_its_turn_by_whatever_thread() {
    let server = with_io_threads(&[]);
    let (mut control, mut pusher) = (server.client(), server.client());
    let mut waiters: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for round in 1..=20 {
        for (n, waiter) in waiters.iter_mut().enumerate() {
            waiter.send("BLPOP other l 0\r\nECHO behind\r\n");
            let waiting = n as i64 + 1;
            until("it waits", || (control.info_number("blocked_clients") == waiting).then_some(()));
        }
        // The connections move while they wait; one is served before the move ends, the others after it.
        let threads = 1 + round % 4;
        pusher.send("RPUSH l 0\r\n");
        control.check(&format!("CONFIG SET io-threads {threads}"), "+OK\r\n");
        pusher.expect(":1\r\n");
        pusher.check("RPUSH l 1 2", ":2\r\n");
        pusher.send("MULTI\r\nRPUSH l 3 4 5 6\r\nRPOP l\r\nEXEC\r\n");
        pusher.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:4\r\n$1\r\n6\r\n");
        for (n, waiter) in waiters.iter_mut().enumerate() {
            waiter.expect(format!("*2\r\n$1\r\nl\r\n$1\r\n{n}\r\n$6\r\nbehind\r\n"));
        }
        control.check("EXISTS l", ":0\r\n");
    }
}

#[test]
fn a_waiting_client_that_is_killed_takes_nothing() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    for round in 1..=60 {
        let (mut killed, mut next, mut pusher) = (server.client(), server.client(), server.client());
        killed.send("CLIENT ID\r\n");
        let id = killed.line()[1..].to_owned();
        killed.send("BLPOP l 0\r\n");
        until("it waits", || (control.info_number("blocked_clients") == 1).then_some(()));
        next.send("BLPOP l 0\r\n");
        until("the other waits", || (control.info_number("blocked_clients") == 2).then_some(()));
        if round % 2 == 0 {
            control.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        } else {
            drop(killed);
            until("its end", || (control.info_number("blocked_clients") == 1).then_some(()));
        }
        pusher.check("RPUSH l v", ":1\r\n");
        next.expect("*2\r\n$1\r\nl\r\n$1\r\nv\r\n");
        control.check("EXISTS l", ":0\r\n");
    }
    until("the clients' end", || (control.info_number("connected_clients") == 1).then_some(()));
}

#[test]
fn a_pause_may_end_in_the_turn_in_which_it_is_met() {
    let server = with_io_threads(&[]);
    let (mut control, mut writer) = (server.client(), server.client());
    for round in 1..=500 {
        control.check("CLIENT PAUSE 100000000 WRITE", "+OK\r\n");
        writer.send("INCR n\r\n");
        control.check("CLIENT UNPAUSE", "+OK\r\n");
        writer.expect(format!(":{round}\r\n"));
    }
}

#[test]
fn regress_4531_a_waiting_request_may_be_followed_by_a_part() {
    let server = with_io_threads(&[]);
    let (mut control, mut waiting) = (server.client(), server.client());
    let tail = request(&[b"ECHO", b"tail"]);
    for cut in 0..=tail.len() {
        control.check("CLIENT PAUSE 100000000 WRITE", "+OK\r\n");
        waiting.send([request(&[b"SET", b"k", b"v"]), tail[..cut].to_vec()].concat());
        until("it waits", || (control.info_number("blocked_clients") == 1).then_some(()));
        control.check("CLIENT UNPAUSE", "+OK\r\n");
        waiting.expect("+OK\r\n").send(&tail[cut..]).expect("$4\r\ntail\r\n");
    }
}

#[test]
fn regress_4302_a_wrong_number_of_arguments_in_a_pipeline_is_answered_in_its_place() {
    let server = with_io_threads(&[]);
    let mut client = server.client();
    let wrong = |name: &str| format!("-ERR wrong number of arguments for '{name}' command\r\n");
    for _ in 0..50 {
        client
            .send("SET a 1\r\nGET\r\nGET a\r\nMSET x\r\nCONFIG\r\nDEL\r\nEVALL\r\nGET a\r\n")
            .expect("+OK\r\n")
            .expect(wrong("get"))
            .expect("$1\r\n1\r\n")
            .expect(wrong("mset"))
            .expect(wrong("config"))
            .expect(wrong("del"))
            .expect("-ERR unknown command 'EVALL', with args beginning with: \r\n$1\r\n1\r\n");
    }
}

#[test]
fn a_protocol_error_is_told_after_the_answers_before_it() {
    let server = with_io_threads(&[]);
    for depth in [1, 16, 127, 128, 129, 300] {
        let mut client = server.client();
        let valid = "PING\r\n".repeat(depth);
        client.send(format!("{valid}*1\r\n:4\r\nPING\r\nSET never 1\r\n"));
        client.expect("+PONG\r\n".repeat(depth));
        client.expect("-ERR Protocol error: expected '$', got ':'\r\n").expect_end();
    }
    server.client().check("EXISTS never", ":0\r\n");
}

#[test]
fn large_arguments_come_whole_while_others_are_served() {
    let server = with_io_threads(&[]);
    let load = Load::start(&server, 1, 4);
    let threads: Vec<_> = (0..4_u8)
        .map(|n| {
            let mut client = server.client();
            std::thread::spawn(move || {
                let value = vec![b'a' + n; 16 << 20];
                let key = [b'k', n];
                for _ in 0..3 {
                    client.send(request(&[b"SET", &key, &value])).expect("+OK\r\n");
                    client
                        .send(request(&[b"GET", &key]))
                        .expect("$16777216\r\n")
                        .expect(&value)
                        .expect("\r\n");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    load.stop();
}

#[test]
fn regress_4060_a_slow_reader_gets_every_byte_once() {
    let server = with_io_threads(&[]);
    let mut client = server.client();
    let value: Vec<u8> = (0..300_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    client.send(request(&[b"SET", b"k", &value])).expect("+OK\r\n");
    let mut out = client.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for i in 0..200 {
            out.write_all(format!("GET k\r\nECHO {i}\r\nPING\r\n").as_bytes()).unwrap();
        }
    });
    for i in 0..200_usize {
        client.expect("$300000\r\n").expect(&value).expect("\r\n");
        client.expect(format!("${}\r\n{i}\r\n+PONG\r\n", i.to_string().len()));
    }
    writer.join().unwrap();
}

#[test]
fn a_reader_behind_its_limit_is_closed_and_its_memory_comes_back() {
    if std::env::var_os(KEPT).is_some() {
        println!(
            "skipped: nothing is received from a connection that is to move, so it stays below its limit"
        );
        return;
    }
    let server = with_io_threads(&["--client-output-buffer-limit", "normal 2mb 0 0"]);
    let mut control = server.client();
    control.send(request(&[b"SET", b"k", &[b'x'; 100_000]])).expect("+OK\r\n");
    let before = control.info_number("used_memory");
    for round in 1..=5 {
        let mut lazy = server.client();
        lazy.check("PING", "+PONG\r\n");
        until("its end", || {
            let _ = lazy.stream.write_all("GET k\r\n".repeat(10).as_bytes());
            (control.info_number("client_output_buffer_limit_disconnections") == round).then_some(())
        });
    }
    until("its memory", || (control.info_number("used_memory") < before + (1 << 20)).then_some(()));
}

#[test]
fn a_monitor_sees_every_command_in_order_while_threads_change() {
    let server = with_io_threads(&[]);
    let (mut control, mut monitor, mut asker) = (server.client(), server.client(), server.client());
    monitor.check("MONITOR", "+OK\r\n");
    let reader = std::thread::spawn(move || {
        let mut next = 0;
        while next < 3000 {
            let line = monitor.line();
            if line.contains("\"ECHO\"") {
                assert!(line.ends_with(&format!("\"{next}\"")), "{line} instead of {next}");
                next += 1;
            }
        }
    });
    let mut rng = Rng::new(3);
    for i in 0..3000 {
        asker.send(format!("ECHO {i}\r\n")).expect(format!("${}\r\n{i}\r\n", i.to_string().len()));
        if i % 50 == 0 {
            control.check(&format!("CONFIG SET io-threads {}", 1 + rng.below(5)), "+OK\r\n");
        }
    }
    reader.join().unwrap();
}

/// Requests the data with SYNC, as an old replica does, and skips the snapshot. After it, the connection
/// receives the replication stream.
fn replica(server: &Server) -> Client {
    let mut replica = server.client();
    replica.send("SYNC\r\n");
    // The server may send line ends before the snapshot, to show that it is still working.
    let line = replica.line();
    let len: usize = line.trim_start().strip_prefix('$').unwrap().parse().unwrap();
    let mut snapshot = vec![0; len];
    replica.stream.read_exact(&mut snapshot).unwrap();
    replica
}

/// The next command of a replication stream.
fn next_command(replica: &mut Client) -> Vec<String> {
    let count: usize = replica.line().strip_prefix('*').unwrap().parse().unwrap();
    let word = |replica: &mut Client| {
        replica.line();
        replica.line()
    };
    (0..count).map(|_| word(replica)).collect()
}

#[test]
fn a_replica_gets_every_write_in_order_while_threads_change() {
    let server = with_io_threads(&[]);
    let (mut control, mut writer) = (server.client(), server.client());
    let mut replica = replica(&server);
    let reader = std::thread::spawn(move || {
        let mut next = 0;
        while next < 3000 {
            let words = next_command(&mut replica);
            if words[0] == "SET" {
                assert_eq!(words[2], next.to_string());
                next += 1;
            }
        }
    });
    let mut rng = Rng::new(5);
    for i in 0..3000 {
        writer.send(format!("SET k {i}\r\n")).expect("+OK\r\n");
        if i % 50 == 0 {
            control.check(&format!("CONFIG SET io-threads {}", 1 + rng.below(5)), "+OK\r\n");
        }
    }
    reader.join().unwrap();
    assert!(control.info_number("io_threaded_writes_processed") > 0);
}

#[test]
fn the_counters_tell_what_io_threads_did_and_survive_them() {
    if std::env::var_os(KEPT).is_some() {
        println!("skipped: connections that the main thread keeps are not counted");
        return;
    }
    let server = with_io_threads(&[]);
    let mut client = server.client();
    for _ in 0..100 {
        client.check("PING", "+PONG\r\n");
    }
    assert!(client.info_number("io_threaded_reads_processed") >= 100);
    assert!(client.info_number("io_threaded_writes_processed") >= 100);
    let active = |client: &mut Client, n: u32| -> f64 {
        client.info(&format!("used_active_time_io_thread_{n}")).parse().unwrap()
    };
    until("active time", || {
        client.check("PING", "+PONG\r\n");
        (active(&mut client, 1) + active(&mut client, 2) + active(&mut client, 3) > 0.0).then_some(())
    });
    client.check("CONFIG SET io-threads 1", "+OK\r\n");
    until("no I/O threads", || (client.info("io_threads_active") == "0").then_some(()));
    assert!(!String::from_utf8(client.bulk("INFO cpu")).unwrap().contains("io_thread_"));
    client.check("CONFIG SET io-threads 4", "+OK\r\n");
    assert!(active(&mut client, 1) + active(&mut client, 2) + active(&mut client, 3) > 0.0);
    client.check("CONFIG SET io-threads 1", "+OK\r\n");
    client.check("CONFIG RESETSTAT", "+OK\r\n");
    assert!(client.info_number("io_threaded_reads_processed") < 100);
}

#[test]
fn replaced_values_are_freed_by_io_threads_and_their_memory_comes_back() {
    if std::env::var_os(KEPT).is_some() {
        println!("skipped: what the main thread reads itself comes in no batch that could take values away");
        return;
    }
    let server = with_io_threads(&[]);
    let mut client = server.client();
    let value = vec![b'x'; 20_000];
    client.send(request(&[b"SET", b"k", &value])).expect("+OK\r\n");
    let before = client.info_number("used_memory");
    for _ in 0..500 {
        client.send(request(&[b"SET", b"k", &value])).expect("+OK\r\n");
    }
    assert!(client.info_number("io_threaded_freed_objects") >= 500);
    until("their memory", || (client.info_number("used_memory") < before + (1 << 20)).then_some(()));
}

#[test]
fn m3_waiting_and_polling_are_counted() {
    let server = with_io_threads(&[]);
    let mut client = server.client();
    let load = Load::start(&server, 2, 4);
    until("counts", || {
        let info = String::from_utf8(client.bulk("INFO everything debug")).unwrap();
        let number = |name: &str| -> u64 {
            let field = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            field.unwrap().trim().parse().unwrap()
        };
        let all = ["io_threaded_poll_processed", "io_threads_queue_wait_usec", "io_threads_service_usec"];
        all.iter().all(|name| number(name) > 0).then_some(())
    });
    load.stop();
}

#[test]
fn busy_connections_are_shared_out_again() {
    if std::env::var_os("SLUICE_TEST_RING").is_some() {
        println!(
            "skipped: between rings of two messages an I/O thread waits for the main thread, and is not what is busy"
        );
        return;
    }
    let server = with_io_threads(&[]);
    let mut control = server.client();
    let mut clients: Vec<Client> = (0..12).map(|_| server.client()).collect();
    // These requests are slow to parse and leave nothing to execute, so that only the I/O thread is busy, on
    // any machine.
    let request = request(&[&b"ECHO"[..]; 2000]);
    let error = "-ERR wrong number of arguments for 'echo' command\r\n";
    let work = request.repeat(10);
    let times = |control: &mut Client| -> [f64; 3] {
        [1, 2, 3].map(|n| control.info(&format!("used_active_time_io_thread_{n}")).parse().unwrap())
    };
    // The distribution of idle connections depends on the time of their arrival, so the test finds the I/O
    // thread of each connection by the times that requests take. One of three I/O threads has at least four
    // of the twelve connections, and these are kept busy from now on.
    let mut of_thread = [const { Vec::new() }; 3];
    for mut client in clients.drain(..) {
        // An I/O thread publishes its time only after the reply, and reading the times costs some time
        // itself.
        let busiest = until("the time of a request", || {
            let before = times(&mut control);
            for _ in 0..4 {
                client.send(&work).expect(error.repeat(10));
            }
            let now = times(&mut control);
            let worked: [f64; 3] = std::array::from_fn(|i| now[i] - before[i]);
            (0..3).find(|&i| worked[i] > 0.8 * worked.iter().sum::<f64>())
        });
        of_thread[busiest].push(client);
    }
    let busy = of_thread.iter_mut().max_by_key(|clients| clients.len()).map(std::mem::take).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = busy
        .into_iter()
        .map(|mut client| {
            let (stop, work) = (stop.clone(), work.clone());
            std::thread::spawn(move || {
                // Several requests are outstanding, because on a busy machine a client that waits for its
                // reply sends the next request late, and until then its I/O thread would be idle.
                for _ in 0..8 {
                    client.send(&work);
                }
                while !stop.load(Relaxed) {
                    client.expect(error.repeat(10)).send(&work);
                }
            })
        })
        .collect();
    until("a move", || {
        let info = String::from_utf8(control.bulk("INFO debug")).unwrap();
        let field = info.lines().find_map(|line| line.strip_prefix("io_threads_balanced:"));
        (field.unwrap().trim() != "0").then_some(())
    });
    // From now on several I/O threads work for these clients.
    let before = times(&mut control);
    until("work for several", || {
        let now = times(&mut control);
        let busy = now.iter().zip(&before).filter(|(now, before)| *now - *before > 0.1).count();
        (busy > 1).then_some(())
    });
    stop.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn more_threads_under_load_leave_those_that_work_at_work() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    let load = Load::start(&server, 2, 8);
    until("some commands", || (control.info_number("total_commands_processed") > 5000).then_some(()));
    for threads in [6, 3, 5] {
        control.check(&format!("CONFIG SET io-threads {threads}"), "+OK\r\n");
        assert_eq!(control.info("io_threads_active"), "1", "at {threads}");
    }
    load.stop();
}

#[test]
fn bytes_of_connections_that_end_are_counted() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    control.check("CONFIG RESETSTAT", "+OK\r\n");
    let value = "x".repeat(1000);
    for _ in 0..50 {
        let mut client = server.client();
        client.send(format!("ECHO {value}\r\n")).expect(format!("$1000\r\n{value}\r\n"));
    }
    until("their bytes", || {
        let both = ["total_net_output_bytes", "total_net_input_bytes"];
        both.iter().all(|name| control.info_number(name) > 50 * 1000).then_some(())
    });
}

#[test]
fn an_idle_upload_gives_its_room_back() {
    let server = with_io_threads(&["--hz", "100"]);
    let (mut control, mut client) = (server.client(), server.client());
    client.check("CLIENT SETNAME idle", "+OK\r\n");
    client.stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nx").unwrap();
    let sent = std::time::Instant::now();
    let field = |control: &mut Client, name: &str| -> usize {
        let list = String::from_utf8(control.bulk("CLIENT LIST")).unwrap();
        let line = list.lines().find(|line| line.contains(" name=idle ")).unwrap();
        let field = line.split(&format!(" {name}=")).nth(1).and_then(|rest| rest.split(' ').next());
        field.unwrap().parse().unwrap()
    };
    let room = |control: &mut Client| field(control, "qbuf-free");
    until("its room", || (room(&mut control) > 30_000).then_some(()));
    until("the room's end", || (room(&mut control) < 1000).then_some(()));
    assert!(sent.elapsed().as_secs() >= 2, "not before it is idle");
    assert!(field(&mut control, "idle") >= 2, "room that is given back is no word of the client");
    client.stream.write_all("x".repeat(999_999).as_bytes()).unwrap();
    client.send("\r\n").expect("+OK\r\n").check("STRLEN k", ":1000000\r\n");
}

/// Many things happen at once, for several seeds: threads start and end, clients are killed and paused,
/// readers do not read, and limits are exceeded. On every open connection, replies and messages must stay in
/// order, and none may be missing or repeated. Nothing may leak.
#[test]
fn chaos_leaves_order_and_nothing_else() {
    chaos_on(with_io_threads(CHAOS_LIMIT));
}

#[test]
fn chaos_leaves_order_when_the_main_thread_keeps_connections() {
    if !common::has_switches() {
        return;
    }
    let server = Server::start_in(common::Dir::new(), |command| {
        command.args(WORKERS).args(CHAOS_LIMIT).env(KEPT, "6");
    });
    let mut clients = [(); 8].map(|()| server.client());
    until("kept connections", || (clients[0].info_number("io_threads_kept") > 3).then_some(()));
    for client in &mut clients {
        client.check("PING", "+PONG\r\n");
    }
    drop(clients);
    chaos_on(server);
}

#[test]
fn chaos_leaves_order_while_threads_spin() {
    if let Some(server) = with_spinning_threads(CHAOS_LIMIT) {
        chaos_on(server);
    }
}

const CHAOS_LIMIT: &[&str] = &["--client-output-buffer-limit", "normal 4mb 0 0"];

fn chaos_on(server: Server) {
    let mut control = server.client();
    control.send(request(&[b"SET", b"big", &vec![b'x'; 200_000]])).expect("+OK\r\n");
    let (memory, descriptors) = (control.info_number("used_memory"), descriptors_of(&server));
    for seed in 1..=3 {
        chaos(&server, &mut control, seed);
    }
    control.check("CONFIG SET io-threads 4 io-threads-always-active yes", "+OK\r\n");
    until("all clients' end", || (control.info_number("connected_clients") == 1).then_some(()));
    until("their descriptors' end", || (descriptors_of(&server) <= descriptors).then_some(()));
    until("their memory", || (control.info_number("used_memory") < memory + (4 << 20)).then_some(()));
}

/// Clients that move numbers from one list to another, waiting for each reply; a client that adds
/// numbers; and a client that increments two keys in transactions.
struct Movers {
    stop: Arc<AtomicBool>,
    movers: Vec<std::thread::JoinHandle<()>>,
    pusher: std::thread::JoinHandle<u64>,
    counter: std::thread::JoinHandle<()>,
}

impl Movers {
    fn start(server: &Server) -> Movers {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut client, stopped) = (server.client(), stop.clone());
        let pusher = std::thread::spawn(move || {
            let mut pushed = 0;
            while !stopped.load(Relaxed) {
                client.send(format!("RPUSH from {pushed} {}\r\n", pushed + 1));
                assert!(client.line().starts_with(':'));
                pushed += 2;
            }
            pushed
        });
        let (mut client, stopped) = (server.client(), stop.clone());
        let counter = std::thread::spawn(move || {
            while !stopped.load(Relaxed) {
                client.send("WATCH watched\r\nMULTI\r\nINCR one\r\nINCR two\r\nEXEC\r\n");
                client.expect("+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n");
                assert_eq!(client.line(), client.line(), "a transaction is a whole");
            }
        });
        let movers = (0..3).map(|_| Movers::mover(server)).collect();
        Movers { stop, movers, pusher, counter }
    }

    /// A client that moves numbers until it is killed.
    fn mover(server: &Server) -> std::thread::JoinHandle<()> {
        let mut mover = Counting::new(server, 0);
        mover.client.check("CLIENT SETNAME mover", "+OK\r\n");
        std::thread::spawn(move || {
            while mover.client.stream.write_all(b"BLMOVE from to LEFT RIGHT 0\r\n").is_ok() {
                if mover.answer().is_none() {
                    return;
                }
            }
        })
    }

    /// Kills the movers, and starts `wanted` others.
    fn replace(&mut self, server: &Server, control: &mut Client, wanted: usize) {
        let list = String::from_utf8(control.bulk("CLIENT LIST")).unwrap();
        for line in list.lines().filter(|line| line.contains(" name=mover ")) {
            let id = line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).unwrap();
            control.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        }
        self.movers.drain(..).for_each(|mover| mover.join().unwrap());
        self.movers.extend((0..wanted).map(|_| Movers::mover(server)));
    }

    /// Stops all clients; every number must be in exactly one of the lists.
    fn stop(mut self, server: &Server, control: &mut Client) {
        self.stop.store(true, Relaxed);
        self.replace(server, control, 0);
        self.counter.join().unwrap();
        let pushed = self.pusher.join().unwrap();
        let mut found = Vec::new();
        for list in ["from", "to"] {
            control.send(format!("LRANGE {list} 0 -1\r\n"));
            let count: usize = control.line()[1..].parse().unwrap();
            for _ in 0..count {
                control.line();
                found.push(control.line().parse::<u64>().unwrap());
            }
        }
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..pushed), "{} of {pushed}", found.len());
        control.send("DEL from to one two\r\n").line();
    }
}

fn chaos(server: &Server, control: &mut Client, seed: u64) {
    let mut rng = Rng::new(seed);
    let load = Load::start(server, 2, 4);
    let mut movers = Movers::start(server);
    let feeds = Feeds::start(server, seed);
    // These clients may be killed. Until then their replies are in order, too.
    let victims: Vec<_> = (0..8)
        .map(|n| {
            let mut victim = Counting::new(server, seed * 100 + n);
            victim.client.check(&format!("CLIENT SETNAME victim{n}"), "+OK\r\n");
            std::thread::spawn(move || while victim.round() {})
        })
        .collect();
    let mut lazy: Vec<Client> = Vec::new();
    for _ in 0..40 {
        match rng.below(7) {
            6 => movers.replace(server, control, 3),
            0 => {
                control.check("CLIENT PAUSE 20 WRITE", "+OK\r\n");
            }
            1 => {
                control.check("CLIENT PAUSE 5 ALL", "+OK\r\n");
            }
            2 => {
                let mut reader = server.client();
                // The client requests more bytes than its output limit allows, and reads none of them.
                let _ = reader.stream.write_all("GET big\r\n".repeat(60).as_bytes());
                lazy.push(reader);
            }
            3 => lazy.truncate(lazy.len() / 2),
            _ => {
                let threads = 1 + rng.below(5);
                let always = if rng.below(3) == 0 { "no" } else { "yes" };
                control.check(
                    &format!("CONFIG SET io-threads {threads} io-threads-always-active {always}"),
                    "+OK\r\n",
                );
            }
        }
        let before = control.info_number("total_commands_processed");
        until("some commands", || {
            (control.info_number("total_commands_processed") > before + 200).then_some(())
        });
    }
    drop(lazy);
    for n in 0..victims.len() {
        let list = String::from_utf8(control.bulk("CLIENT LIST")).unwrap();
        let line = list.lines().find(|line| line.contains(&format!(" name=victim{n} "))).unwrap();
        let id = line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).unwrap();
        control.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
    }
    victims.into_iter().for_each(|victim| victim.join().unwrap());
    movers.stop(server, control);
    load.stop();
    let (published, visited) = feeds.stop();
    assert!(published > 0);
    assert!(visited > 0);
}

#[test]
fn bytes_are_counted_wherever_they_go() {
    let server = with_io_threads(&[]);
    let (mut control, mut client) = (server.client(), server.client());
    client.check("CLIENT ID", ":3\r\n");
    for _ in 0..10 {
        client.check("PING", "+PONG\r\n");
    }
    let sent = ":3\r\n".len() + 10 * "+PONG\r\n".len();
    until("the bytes of another connection", || {
        let list = String::from_utf8(control.bulk("CLIENT LIST ID 3")).unwrap();
        let field = list.split(" tot-net-out=").nth(1)?.split(' ').next()?.parse::<usize>().ok()?;
        (field == sent && list.contains(" omem=0 ")).then_some(())
    });
}

#[test]
fn io_t9_replies_reach_their_clients_before_the_end() {
    for _ in 0..20 {
        let mut server = with_io_threads(&[]);
        let mut other = server.client();
        other.check("PING", "+PONG\r\n");
        let mut last = server.client();
        last.send(format!("{}SHUTDOWN NOSAVE\r\n", "ECHO x\r\n".repeat(100)));
        last.expect("$1\r\nx\r\n".repeat(100)).expect_end();
        other.expect_end();
        assert!(server.wait().success());
    }
}

#[test]
fn regress_4114_io_threads_without_work_sleep() {
    io_threads_without_work_sleep(&with_io_threads(&["--repl-ping-replica-period", "1"]));
}

#[test]
fn io_threads_that_spin_sleep_without_work() {
    if let Some(server) = with_spinning_threads(&["--repl-ping-replica-period", "1"]) {
        io_threads_without_work_sleep(&server);
    }
}

/// When a load ends, no thread stays awake.
fn io_threads_without_work_sleep(server: &Server) {
    let mut control = server.client();
    let load = Load::start(server, 1, 4);
    until("some commands", || (control.info_number("total_commands_processed") > 5000).then_some(()));
    load.stop();
    let ticks = |server: &Server| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    // A replica receives a PING each second, so it serves as a clock that needs no requests.
    let mut replica = replica(server);
    let ping = |replica: &mut Client| while next_command(replica)[0] != "ping" {};
    ping(&mut replica);
    let before = ticks(server);
    ping(&mut replica);
    ping(&mut replica);
    let used = ticks(server) - before;
    assert!(used <= 10, "{used} hundredths of a second in two seconds of idling");
}

/// Starts a server whose append-only file is durable only `delay_us` microseconds after each write.
fn with_slow_log(arguments: &[&str], delay_us: u64) -> Server {
    Server::start_in(common::Dir::new(), |command| {
        command.args(arguments).args(["--appendonly", "yes", "--appendfsync", "always"]);
        command.env("SLUICE_TEST_FSYNC_US", delay_us.to_string());
    })
}

#[test]
fn io_c5_nothing_is_told_before_it_is_durable() {
    if !common::has_switches() {
        return;
    }
    let delay = Duration::from_millis(40);
    for arguments in [WORKERS, &[]] {
        let server = with_slow_log(arguments, delay.as_micros() as u64);
        let (mut writer, mut reader) = (server.client(), server.client());
        writer.check("CLIENT SETNAME writer", "+OK\r\n");
        for round in 0..10 {
            let began = Instant::now();
            writer.stream.write_all(format!("SET k {round}\r\n").as_bytes()).unwrap();
            // Other clients see the value no sooner than its writer gets the reply.
            let value = format!("$1\r\n{round}\r\n");
            until("the value", || {
                let mut answer = [0; 7];
                reader.send("GET k\r\n").stream.read_exact(&mut answer[..5]).unwrap();
                if answer.starts_with(b"$-1") {
                    return Some(());
                }
                reader.stream.read_exact(&mut answer[5..]).unwrap();
                (answer == value.as_bytes()).then_some(())
            });
            let seen = began.elapsed();
            writer.expect("+OK\r\n");
            if round > 0 {
                assert!(seen >= delay, "read after {seen:?}");
            }
            assert!(began.elapsed() >= delay, "written after {:?}", began.elapsed());
        }
        // Output for a client that has requested nothing waits for the disk as well.
        let mut monitor = server.client();
        monitor.check("MONITOR", "+OK\r\n");
        let began = Instant::now();
        writer.check("SET k x", "+OK\r\n");
        assert!(monitor.line().ends_with("\"SET\" \"k\" \"x\""));
        assert!(began.elapsed() >= delay);
    }
}

/// Nothing after the request that ends the connection is executed, and no reply is sent twice.
#[test]
fn a_connection_that_ends_while_its_replies_are_not_durable_ends_behind_them() {
    if !common::has_switches() {
        return;
    }
    for arguments in [WORKERS, &[]] {
        let server = with_slow_log(arguments, 40_000);
        for (last, answer) in [
            ("*1\r\n$x\r\n*1\r\n$4\r\nPING\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
            ("QUIT\r\nSET a 2\r\nPING\r\n", "+OK\r\n"),
        ] {
            let mut client = server.client();
            client.check("SET a 0\r\n", "+OK\r\n");
            client.send(format!("SET a 1\r\n{last}"));
            let mut told = String::new();
            client.stream.read_to_string(&mut told).unwrap();
            assert_eq!(told, format!("+OK\r\n{answer}"), "{arguments:?}");
        }
        assert_eq!(server.client().send("GET a\r\n").line(), "$1");
        assert_eq!(server.client().info("errorstat_ERR"), "count=1");
    }
}

/// A server with I/O threads whose replies to writes wait `delay_us` microseconds for the disk; a client that
/// has sent `sent`, of which the first command has been executed; and another client.
fn executed_and_not_told(sent: &str, delay_us: u64) -> (Server, Client, Client) {
    let server = with_slow_log(WORKERS, delay_us);
    let (mut client, mut control) = (server.client(), server.client());
    client.check("CLIENT SETNAME client", "+OK\r\n");
    client.send(sent);
    until("it is executed", || control.info_text().contains("cmdstat_set:calls=1").then_some(()));
    (server, client, control)
}

fn rest(client: &mut Client) -> String {
    let mut told = String::new();
    client.stream.read_to_string(&mut told).unwrap();
    told
}

#[test]
fn a_client_that_ends_its_side_is_told_what_was_not_durable_when_it_did() {
    if common::has_switches() {
        let (_server, mut client, _) = executed_and_not_told("SET a 1\r\n", 100_000);
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(rest(&mut client), "+OK\r\n");
    }
}

#[test]
fn a_protocol_error_is_told_once_although_its_connection_is_to_move_before_it_is_durable() {
    if common::has_switches() {
        let (_server, mut client, mut control) =
            executed_and_not_told("SET a 1\r\n*1\r\n$x\r\nfoo\r\n", 200_000);
        control.check("CONFIG SET io-threads-always-active no io-threads 1", "+OK\r\n");
        assert_eq!(rest(&mut client), "+OK\r\n-ERR Protocol error: invalid bulk length\r\n");
        assert_eq!(control.info("errorstat_ERR"), "count=1");
    }
}

#[test]
fn what_was_executed_before_the_end_of_the_server_is_told_when_it_is_durable() {
    if common::has_switches() {
        let (_server, mut client, mut control) = executed_and_not_told("SET a 1\r\n", 200_000);
        // The request waits in the socket, because the batch of its connection is being executed.
        client.send("SET a 2\r\n");
        control.send("SHUTDOWN NOSAVE\r\n");
        client.expect("+OK\r\n");
    }
}

#[test]
fn a_client_of_an_io_thread_executes_a_batch_ahead_of_the_disk_and_not_more() {
    if std::env::var_os(KEPT).is_some() {
        println!("skipped: the client may be one of the main thread's");
        return;
    }
    if common::has_switches() {
        let delay = Duration::from_secs(1);
        let began = Instant::now();
        let (server, mut client, mut control) =
            executed_and_not_told("SET a 1\r\n", delay.as_micros() as u64);
        let mut reader = server.client();
        reader.send("GET a\r\n".repeat(5_000));
        let of_get = |text: &str| {
            let calls = text.split("cmdstat_get:calls=").nth(1)?.split(',').next()?;
            calls.parse::<u64>().ok()
        };
        let calls = until("it is executed", || of_get(&control.info_text()));
        // After the delay all requests may have been executed.
        assert!(calls <= 1_000 || began.elapsed() > delay, "{calls}");
        client.expect("+OK\r\n");
        for _ in 0..5_000 {
            reader.expect("$1\r\n1\r\n");
        }
    }
}

/// Many clients get a push in the iteration in which their connections begin to move and the server is
/// told to shut down. All must receive the push, whatever the direction of the move.
#[test]
fn a_push_to_a_connection_on_its_way_is_sent_even_at_shutdown() {
    for (before, after) in [("no", "io-threads 4 io-threads-always-active yes"), ("yes", "io-threads 1")] {
        let mut server = Server::start(&["--io-threads", "4", "--io-threads-always-active", before]);
        let mut control = server.client();
        let active = if before == "yes" { "1" } else { "0" };
        until("as it was asked for", || (control.info("io_threads_active") == active).then_some(()));
        let mut monitors: Vec<Client> = (0..300).map(|_| server.client()).collect();
        for monitor in &mut monitors {
            monitor.check("MONITOR", "+OK\r\n");
        }
        control.send(format!("CONFIG SET {after}\r\nECHO last\r\nSHUTDOWN NOSAVE\r\n"));
        for monitor in &mut monitors {
            let mut seen = String::new();
            monitor.stream.read_to_string(&mut seen).unwrap();
            let lines = seen.matches("\"ECHO\" \"last\"").count();
            assert_eq!(lines, 1, "{before}: {seen}");
        }
        assert!(server.wait().success());
    }
}

/// The server reads from a client that writes all its requests before it reads a reply, even while the
/// connection is about to leave its I/O thread.
#[test]
fn a_connection_that_leaves_and_cannot_send_is_received_from() {
    let server = with_io_threads(&[]);
    let mut control = server.client();
    let value = "x".repeat(100_000);
    control.send(request(&[b"SET", b"big", value.as_bytes()])).expect("+OK\r\n");
    let mut client = server.client();
    client.send(request(&[b"GET", b"big"]).repeat(300));
    until("output that is not read", || {
        let list = String::from_utf8(control.bulk("CLIENT LIST")).unwrap();
        list.lines().any(|line| line.contains(" cmd=get ") && !line.contains(" omem=0 ")).then_some(())
    });
    control.check("CONFIG SET io-threads 1", "+OK\r\n");
    client.stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    let more = request(&[b"SET", b"k", "y".repeat(500_000).as_bytes()]);
    for number in 0..60 {
        let written = client.stream.write_all(&more);
        assert!(written.is_ok(), "request {number} is never received: {written:?}");
    }
    for _ in 0..300 {
        client.expect(format!("${}\r\n{value}\r\n", value.len()));
    }
    for _ in 0..60 {
        client.expect("+OK\r\n");
    }
}

/// With io_uring, bytes may still arrive after the event loop was told to detach a connection. If they exceed
/// the limit of a blocked client, the client is closed during the move of its connection.
#[test]
fn a_connection_that_is_shut_on_its_way_ends() {
    let options = ["--event-loop", "io_uring", "--client-query-buffer-limit", "1mb"];
    if sluice_evloop::AnyLoop::choose(sluice_evloop::Backend::IoUring, &Default::default()).is_err() {
        println!("skipped: this machine has no io_uring");
        return;
    }
    let mut server = with_io_threads(&options);
    let (port, stop) = (server.port, Arc::new(AtomicBool::new(false)));
    let flood = |stop: Arc<AtomicBool>| {
        move || {
            while !stop.load(Relaxed) {
                let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { continue };
                let _ = stream.write_all(&request(&[b"BLPOP", b"nokey", b"0"]));
                while stream.write_all(&[b'z'; 16_000]).is_ok() && !stop.load(Relaxed) {
                    std::thread::yield_now();
                }
            }
        }
    };
    let floods: Vec<_> = (0..12).map(|_| std::thread::spawn(flood(stop.clone()))).collect();
    for round in 0..60 {
        let line = if round % 2 == 0 { "1" } else { "3" };
        if let Ok(mut control) = std::net::TcpStream::connect(("127.0.0.1", port)) {
            let _ = control.write_all(&request(&[b"CONFIG", b"SET", b"io-threads", line.as_bytes()]));
            let _ = control.read(&mut [0; 64]);
        }
        assert!(server.child.try_wait().unwrap().is_none(), "the server has ended in round {round}");
    }
    stop.store(true, Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
    server.client().check("PING", "+PONG\r\n");
}
