//! Tests of connections and their deadlines. The time is an argument.

use super::super::samples::{POINT_NS, SAMPLE_NS_MAX};
use super::*;
use sluice_evloop::Backend;
use sluice_numbers::page::details::PageAsk;
use sluice_testkit::Rig;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// An endpoint whose thread does not run, because the test makes each step itself.
struct Steps {
    thread: EndpointThread,
    wanted: Arc<AtomicBool>,
    asks: mpsc::Receiver<PageAsk>,
    now_ns: u64,
    rig: Rig,
}

impl Steps {
    fn new() -> Steps {
        let backends = [Backend::Epoll, Backend::Poll];
        let opened = AnyLoop::first_of(&backends, &Default::default()).unwrap();
        let event_loop = opened.event_loop;
        let (_sender, inbox) = Mailbox::new(event_loop.waker());
        let (waker, wanted) = (event_loop.waker(), Arc::new(AtomicBool::new(false)));
        let (ask, asks) = mpsc::channel();
        let main = MainThread { wanted: wanted.clone(), ask, waker };
        let thread = EndpointThread::new(event_loop, inbox, main);
        Steps { thread, wanted, asks, now_ns: SECOND_NS, rig: Rig::new() }
    }

    /// Makes a connection; returns its key, and the client's end.
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
        self.thread.ask_if_due(self.now_ns);
    }

    fn is_open(&self, key: SessionKey) -> bool {
        self.thread.connections().any(|(own, _)| own == key)
    }

    fn sample(&mut self) {
        let sample = self.rig.engine.metrics_sample(&mut self.rig.process);
        let ask = self.asks.try_iter().last();
        let details = ask.map(|ask| Box::new(self.rig.engine.page_details(&ask, &mut self.rig.process)));
        let now = Now { mono_ns: self.now_ns, unix_us: (self.now_ns / 1000) as i64 };
        self.thread.take_sample(Box::new(sample), details, now);
    }

    /// Sends a request as the page's script sends it, on a new connection; returns the reply's status and
    /// body.
    fn ask_page(&mut self, path: &str, headers: &str) -> (u16, String) {
        let (key, mut client) = self.connect();
        self.receive(
            key,
            &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nSluice-Page: 1\r\n{headers}\r\n"),
        );
        // If there is no reply, the request waits for a sample. The sample is delivered if the thread has
        // requested one; otherwise time passes until the thread requests one.
        for _ in 0..4 {
            let reply = read(&mut client);
            if let Some((head, body)) = reply.split_once("\r\n\r\n") {
                return (head[9..12].parse().unwrap(), body.to_owned());
            }
            if self.is_asked() {
                self.sample();
            } else {
                self.pass(SAMPLE_NS_MAX);
            }
        }
        panic!("no answer to {path}");
    }

    /// Whether a sample was requested since the last call.
    fn is_asked(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }
}

fn read(client: &mut UnixStream) -> String {
    let mut text = Vec::new();
    // The read fails when all bytes that have arrived were read.
    let _ = client.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n";

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
    // After a request, the deadline of the next request starts with that request's first byte.
    let (key, mut client) = steps.connect();
    steps.receive(key, GET);
    steps.sample();
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
    // The oldest connection has sent a request.
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
    steps.receive(key, &format!("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nHEAD {}", &GET[4..]));
    let replies = read(&mut client);
    assert!(
        replies.contains("\r\n\r\nok\nHTTP/1.1 200 OK\r\n") && replies.ends_with("\r\n\r\n"),
        "{replies}"
    );
    // While one request waits for the main thread, a bounded number of others may wait after it.
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
        "POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 44\r\n\r\nGET /metrics HTTP/1.1\r\n",
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
        steps.receive(key, &format!("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n{shown}\r\n"));
        let reply = read(&mut client);
        assert_eq!(reply.split(' ').nth(1), Some(status), "{reply}");
        assert_eq!(reply.contains("WWW-Authenticate: Bearer"), status == "401");
    }
    steps.receive(key, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(read(&mut client).starts_with("HTTP/1.1 200 "));
}

#[test]
fn the_page_is_served_without_the_token_and_shows_nothing_without_it() {
    let mut steps = Steps::new();
    steps.thread.token = Some(b"secret"[..].into());
    let (status, page) = steps.ask_page("/", "");
    assert!(status == 200 && page.starts_with("<!doctype html>"));
    for path in ["/page/data", "/page/history"] {
        assert_eq!(steps.ask_page(path, "").0, 401, "{path}");
        assert_eq!(steps.ask_page(path, "Authorization: Bearer secret\r\n").0, 200, "{path}");
    }
}

#[test]
fn a_page_of_somebody_elses_name_is_answered_only_with_a_token() {
    let mut steps = Steps::new();
    let (key, mut client) = steps.connect();
    let foreign = "GET /page/data HTTP/1.1\r\nHost: evil.example\r\nSluice-Page: 1\r\n\r\n";
    steps.receive(key, foreign);
    let reply = read(&mut client);
    assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
    steps.receive(key, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(read(&mut client).starts_with("HTTP/1.1 403 "));
    // Any site can make a browser send this request.
    steps.receive(key, "GET /page/data?keys=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(read(&mut client).starts_with("HTTP/1.1 403 "));
    assert!(!steps.is_asked());
    steps.thread.is_guarded = true;
    steps.receive(key, foreign);
    steps.sample();
    assert!(read(&mut client).starts_with("HTTP/1.1 200 "));
}

#[test]
fn sizes_of_slots_are_for_machines_that_ask_for_them_and_for_no_page() {
    let mut steps = Steps::new();
    steps.rig = Rig::with(&[("cluster-enabled", "yes")]);
    steps.rig.run("DEBUG POPULATE 300 {a}k 100");
    let (key, mut client) = steps.connect();
    let get = |more: &str| format!("GET /metrics/slots HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n");
    for site in ["cross-site", "same-site", "same-origin"] {
        let (key, mut client) = steps.connect();
        steps.receive(key, &get(&format!("Sec-Fetch-Site: {site}\r\n")));
        assert!(read(&mut client).starts_with("HTTP/1.1 403 "), "{site}");
    }
    assert!(!steps.is_asked());
    steps.receive(key, &get(""));
    steps.pass(0);
    steps.sample();
    let first = read(&mut client);
    assert!(first.contains("# TYPE sluice_slot_memory_bytes gauge\n"), "{first}");
    assert!(!first.contains("slot=\""), "no key was looked at yet: {first}");
    assert!(first.contains("\nsluice_slot_look_end_timestamp_seconds 0\n"), "{first}");
    for _ in 0..10 {
        steps.rig.pass_ms(100);
        steps.rig.cron();
    }
    steps.pass(SECOND_NS);
    steps.receive(key, &get("Accept: application/openmetrics-text\r\n"));
    steps.pass(0);
    steps.sample();
    let reply = read(&mut client);
    let (slot, of) = (sluice_base::key_slot(b"{a}"), steps.rig.engine.keyspace().db(0));
    let bytes: usize = of.slot_iter(slot).map(|handle| of.entry(handle).size_bytes()).sum();
    assert!(reply.contains(&format!("\nsluice_slot_keys{{slot=\"{slot}\"}} 300\n")), "{reply}");
    let memory = format!("\nsluice_slot_memory_bytes{{slot=\"{slot}\"}} {bytes}\n# EOF\n");
    assert!(reply.ends_with(&memory), "{reply}");
    assert!(!reply.contains("\nsluice_slot_look_end_timestamp_seconds 0\n"), "{reply}");
    // `/metrics` does not include the sizes of slots, which are costly.
    steps.receive(key, GET);
    assert!(!read(&mut client).contains("sluice_slot_memory_bytes"));
}

#[test]
fn names_of_keys_are_shown_to_a_user_who_may_read_them_all_and_to_nobody_else() {
    let mut steps = Steps::new();
    steps.rig.run("SET the-key value");
    for line in [
        "ACL SETUSER all on >right ~* +@all",
        "ACL SETUSER some on >right ~a* +@all",
        "ACL SETUSER no-log on >right ~* +get",
        "CONFIG SET slowlog-log-slower-than 0",
        "SET the-key value",
    ] {
        steps.rig.run(line);
    }
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut shown = |user: &str, password: &str| {
        let header = match user {
            "" => String::new(),
            user => format!("Sluice-User: {}:{}\r\n", hex(user), hex(password)),
        };
        // The first request begins the walk over the keys; the cron continues it.
        for _ in 0..2 {
            assert_eq!(steps.ask_page("/page/data?keys=1", &header).0, 200);
            steps.rig.pass_ms(100);
            steps.rig.cron();
            steps.pass(SAMPLE_NS_MAX);
        }
        let (_, body) = steps.ask_page("/page/data?keys=1", &header);
        let has = |text: &str| body.contains(text);
        assert!(has("\"type\":\"string\"") && has("\"words\":[\"SET\""), "{body}");
        let state = ["hidden", "refused", "not allowed", "shown"];
        let names = state.into_iter().find(|state| has(&format!("\"names\":\"{state}\"")));
        (names, has("\"name\":\"the-key\""), has("\"words\":[\"SET\",\"the-key\",\"value\"]"))
    };
    assert_eq!(shown("", ""), (Some("hidden"), false, false));
    assert_eq!(shown("all", "wrong"), (Some("refused"), false, false));
    assert_eq!(shown("nobody", "right"), (Some("refused"), false, false));
    assert_eq!(shown("some", "right"), (Some("not allowed"), false, false));
    assert_eq!(shown("no-log", "right"), (Some("shown"), true, false));
    assert_eq!(shown("all", "right"), (Some("shown"), true, true));
    let log = steps.rig.run("ACL LOG");
    assert!(log.contains("metrics page"), "{log}");
}

#[test]
fn each_look_at_the_page_costs_the_main_thread_a_sample_a_second_at_most() {
    let mut steps = Steps::new();
    steps.sample();
    let mut all: Vec<_> = (0..20).map(|_| steps.connect()).collect();
    for (at, (key, _)) in all.iter().enumerate() {
        let user = format!("Sluice-User: {:04x}:00\r\n", at);
        steps.receive(
            *key,
            &format!("GET /page/data HTTP/1.1\r\nHost: [::1]\r\nSluice-Page: 1\r\n{user}\r\n"),
        );
    }
    assert!(!steps.is_asked(), "the sample is young, though it has not what the page needs");
    steps.pass(SAMPLE_NS_MAX);
    assert!(steps.is_asked());
    steps.sample();
    // At most four passwords are checked with one sample.
    let ok = |client: &mut UnixStream| read(client).starts_with("HTTP/1.1 200 ");
    let answered = all.iter_mut().map(|(_, client)| ok(client)).filter(|is_ok| *is_ok).count();
    assert_eq!(answered, 4);
    assert!(!steps.is_asked());
    steps.pass(PAGE_ANSWER_NS_MAX);
    let answered = all.iter_mut().map(|(_, client)| read(client)).filter(|reply| !reply.is_empty()).count();
    assert_eq!(answered, 16, "and nobody waits longer than that");
}

#[test]
fn a_point_of_the_history_is_made_every_five_seconds_whether_or_not_anybody_asks() {
    let mut steps = Steps::new();
    steps.sample();
    for _ in 0..POINT_NS / SECOND_NS {
        assert!(!steps.is_asked());
        steps.pass(SECOND_NS);
    }
    assert!(steps.is_asked());
    steps.sample();
    let (key, mut client) = steps.connect();
    steps.receive(key, GET);
    assert!(steps.is_asked(), "what was made for the history answers nobody");
    steps.sample();
    assert!(read(&mut client).starts_with("HTTP/1.1 200 "));
    let (_, all) = steps.ask_page("/page/history", "");
    let (_, behind) = steps.ask_page("/page/history?since=1&of=0", "");
    let (_, other) = steps.ask_page("/page/history?since=1&of=7", "");
    assert!(other.contains("\"points\":[[1,"), "what another server has counted says nothing");
    assert!(all.contains("\"points\":[[1,") && all.contains(",[2,"), "{all}");
    assert!(behind.contains("\"points\":[[2,"), "{behind}");
}
