//! Connections and their deadlines, with the time as an argument.

use super::*;
use sluice_evloop::Backend;
use sluice_testkit::Rig;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// A thread that does not run: each step is made by the test.
struct Steps {
    thread: EndpointThread,
    wanted: Arc<AtomicBool>,
    now_ns: u64,
}

impl Steps {
    fn new() -> Steps {
        let backends = [Backend::Epoll, Backend::Poll];
        let opened = AnyLoop::first_of(&backends, &Default::default()).unwrap();
        let event_loop = opened.event_loop;
        let (_sender, inbox) = Mailbox::new(event_loop.waker());
        let (waker, wanted) = (event_loop.waker(), Arc::new(AtomicBool::new(false)));
        Steps {
            thread: EndpointThread::new(event_loop, inbox, waker, wanted.clone()),
            wanted,
            now_ns: SECOND_NS,
        }
    }

    /// A connection: its key, and the client's end.
    fn connect(&mut self) -> (SessionKey, UnixStream) {
        let (own, client) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        self.thread.accept(own.into(), self.now_ns);
        let newest = self.thread.connections().max_by_key(|(_, connection)| connection.since_ns);
        let found = newest.map(|(key, _)| key).unwrap();
        (found, client)
    }

    fn receive(&mut self, key: SessionKey, bytes: &str) {
        self.thread.receive(key, bytes.as_bytes(), self.now_ns);
    }

    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        self.thread.end_late(self.now_ns);
    }

    fn is_open(&self, key: SessionKey) -> bool {
        self.thread.connections().any(|(own, _)| own == key)
    }

    fn sample(&mut self) {
        let mut rig = Rig::new();
        let sample = rig.engine.metrics_sample(&mut rig.process);
        self.thread.take_sample(Box::new(sample), self.now_ns);
    }

    /// Whether the main thread was asked since the last call.
    fn is_asked(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }
}

fn read(client: &mut UnixStream) -> String {
    let mut text = Vec::new();
    // It ends where nothing more has come.
    let _ = client.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_byte_a_second_is_no_request_in_time() {
    let mut steps = Steps::new();
    let (key, _client) = steps.connect();
    for byte in ["G", "E", "T", " ", "/"] {
        assert!(steps.is_open(key));
        steps.receive(key, byte);
        steps.pass(SECOND_NS);
    }
    assert!(!steps.is_open(key));
    // Behind a request the same holds for the next: its time begins with its first byte.
    steps.sample();
    let (key, mut client) = steps.connect();
    steps.receive(key, GET);
    assert!(read(&mut client).starts_with("HTTP/1.1 200 OK\r\n"));
    steps.pass(IDLE_NS_MAX - SECOND_NS / 2);
    assert!(steps.is_open(key), "a connection without a request may stay");
    steps.receive(key, "G");
    steps.pass(SECOND_NS / 2);
    assert!(!steps.is_open(key), "but no longer for a byte");
}

#[test]
fn the_main_thread_is_asked_once_a_second_and_once_for_all_who_wait() {
    let mut steps = Steps::new();
    let mut all: Vec<_> = (0..5).map(|_| steps.connect()).collect();
    all.iter().for_each(|(key, _)| steps.receive(*key, GET));
    assert!(steps.is_asked());
    steps.pass(ANSWER_NS_MAX / 2);
    steps.sample();
    for (_, client) in &mut all {
        assert!(read(client).contains("\nredis_up 1\n"));
    }
    steps.pass(SAMPLE_NS_MAX - 1);
    all.iter().for_each(|(key, _)| steps.receive(*key, GET));
    assert!(!steps.is_asked(), "the sample is young");
    assert!(all.iter_mut().all(|(_, client)| read(client).contains("\nsluice_samples_total 1\n")));
    steps.pass(1);
    all.iter().for_each(|(key, _)| steps.receive(*key, GET));
    assert!(steps.is_asked(), "the sample is old");
    assert!(all.iter_mut().all(|(_, client)| read(client).is_empty()));
}

#[test]
fn without_an_answer_the_last_sample_is_shown_with_its_age() {
    let mut steps = Steps::new();
    let (key, mut client) = steps.connect();
    steps.receive(key, GET);
    steps.pass(ANSWER_NS_MAX - 1);
    assert_eq!(read(&mut client), "");
    steps.pass(1);
    let reply = read(&mut client);
    assert!(reply.starts_with("HTTP/1.1 503 ") && reply.ends_with(NO_ANSWER_LINE), "{reply}");
    steps.sample();
    steps.pass(7 * SECOND_NS);
    steps.receive(key, GET);
    assert_eq!(read(&mut client), "");
    steps.pass(ANSWER_NS_MAX);
    let reply = read(&mut client);
    assert!(reply.contains("\nsluice_sample_age_seconds 7.5\n"), "{reply}");
    assert!(reply.contains("\nredis_exporter_last_scrape_duration_seconds 0.5\n"), "{reply}");
    steps.receive(key, &GET.replace("metrics", "healthz"));
    steps.pass(ANSWER_NS_MAX);
    let reply = read(&mut client);
    assert!(reply.starts_with("HTTP/1.1 503 ") && reply.ends_with(NO_ANSWER_LINE), "{reply}");
}

const NO_ANSWER_LINE: &str = "the main thread does not answer\n";

#[test]
fn a_newcomer_takes_the_place_of_who_has_said_nothing_for_longest() {
    let mut steps = Steps::new();
    let mut all = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        all.push(steps.connect());
        steps.now_ns += 1;
    }
    // The first one has asked.
    steps.receive(all[0].0, GET);
    let (newcomer, mut client) = steps.connect();
    assert!(steps.is_open(all[0].0) && !steps.is_open(all[1].0) && steps.is_open(all[2].0));
    steps.receive(newcomer, GET);
    steps.sample();
    assert!(read(&mut client).contains("\nsluice_metrics_refused_total 1\n"));
    assert!(read(&mut all[0].1).starts_with("HTTP/1.1 200 "));
    assert_eq!(steps.thread.connections().count(), CONNECTIONS_MAX);
}

#[test]
fn requests_that_are_sent_ahead_are_answered_in_order_and_have_a_bound() {
    let mut steps = Steps::new();
    steps.sample();
    let (key, mut client) = steps.connect();
    steps.receive(key, &format!("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nHEAD {}", &GET[4..]));
    let replies = read(&mut client);
    assert!(
        replies.contains("\r\n\r\nok\nHTTP/1.1 200 OK\r\n") && replies.ends_with("\r\n\r\n"),
        "{replies}"
    );
    // While one waits for the main thread, others may lie behind it, but not without end.
    steps.pass(SAMPLE_NS_MAX);
    steps.receive(key, GET);
    for _ in 0..HEAD_BYTES_MAX / GET.len() {
        steps.receive(key, GET);
    }
    assert!(steps.is_open(key));
    steps.receive(key, GET);
    assert!(!steps.is_open(key));
}

#[test]
fn a_refusal_ends_the_connection_when_the_client_has_had_time_to_read_it() {
    let mut steps = Steps::new();
    let (key, mut client) = steps.connect();
    steps.receive(
        key,
        "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\n\r\nGET /metrics HTTP/1.1\r\n",
    );
    assert!(steps.is_open(key));
    let reply = read(&mut client);
    assert!(reply.starts_with("HTTP/1.1 400 ") && reply.matches("HTTP/1.1").count() == 1, "{reply}");
    steps.receive(key, GET);
    assert_eq!(read(&mut client), "", "nothing behind it is looked at");
    assert!(client.write(b"x").is_ok());
    steps.pass(LINGER_NS_MAX);
    assert!(!steps.is_open(key));
}

#[test]
fn a_token_is_asked_for_where_there_is_one_and_not_for_the_health() {
    let mut steps = Steps::new();
    steps.thread.token = Some(b"secret"[..].into());
    steps.sample();
    let (key, mut client) = steps.connect();
    for (shown, status) in [
        ("", "401"),
        ("Authorization: Bearer secrey\r\n", "401"),
        ("Authorization: Bearer secret\r\n", "200"),
    ] {
        steps.receive(key, &format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{shown}\r\n"));
        let reply = read(&mut client);
        assert_eq!(reply.split(' ').nth(1), Some(status), "{reply}");
        assert_eq!(reply.contains("WWW-Authenticate: Bearer"), status == "401");
    }
    steps.receive(key, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(read(&mut client).starts_with("HTTP/1.1 200 "));
}
