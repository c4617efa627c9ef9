//! The metrics endpoint with real sockets.

use crate::common::certificates::{Certificate, Offer, TlsClient, arguments};
use crate::common::{self, Client, DEADLINE, Dir, Server, free_port, run, until};
use sluice_testkit::{MetricSamples, check_open_metrics};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

const OPEN_METRICS: &str = "Accept: application/openmetrics-text;version=1.0.0\r\n";

/// Sends a request; returns the head and the body of the reply.
fn ask(port: u16, request: &str) -> (String, String) {
    let mut stream = connect(port);
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    (head.to_owned(), body.to_owned())
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn get(port: u16, path: &str, headers: &str) -> (String, String) {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n"))
}

/// Scrapes the endpoint, which must succeed; returns the samples.
fn scrape(port: u16) -> MetricSamples {
    let (head, body) = get(port, "/metrics", OPEN_METRICS);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}\n{body}");
    check_open_metrics(&body).unwrap_or_else(|reason| panic!("{reason}\n{body}"))
}

fn number(samples: &MetricSamples, name: &str) -> f64 {
    samples.get(name).unwrap_or_else(|| panic!("no {name}"))[0].1
}

/// Starts a server with a metrics endpoint; returns the server and the endpoint's port.
fn start(more: &[&str]) -> (Server, u16) {
    let port = free_port();
    let text = port.to_string();
    let server = Server::start(&[&["--metrics-port", &text], more].concat());
    (server, port)
}

#[test]
fn numbers_are_served_in_the_format_that_is_asked_for() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    client.check("SET k v", "+OK\r\n").check("GET k", "$1\r\nv\r\n");
    let samples = scrape(port);
    assert_eq!(number(&samples, "redis_up"), 1.0);
    assert_eq!(number(&samples, "redis_connected_clients"), 1.0);
    assert_eq!(number(&samples, "redis_keyspace_hits_total"), 1.0);
    assert!(number(&samples, "redis_memory_used_bytes") > 100_000.0);
    assert!(number(&samples, "sluice_iterations_total") > 0.0);
    let (head, body) = get(port, "/metrics", "");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    assert!(
        body.contains("\n# TYPE redis_keyspace_hits_total counter\nredis_keyspace_hits_total 1\n"),
        "{body}"
    );
    let (head, body) = ask(port, "HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty());
    assert_eq!(get(port, "/healthz", "").1, "ok\n");
    assert!(get(port, "/nosuch", "").0.starts_with("HTTP/1.1 404 "));
    let (head, body) = get(port, "/", "");
    assert!(
        head.contains("\r\nContent-Security-Policy: default-src 'none';") && body.ends_with("</html>\n"),
        "{head}"
    );
}

#[test]
fn the_endpoint_is_switched_on_and_off_while_the_server_runs() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let ports = [free_port(), free_port()];
    let listens = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(!listens(ports[0]));
    for _ in 0..3 {
        client.check(&format!("CONFIG SET metrics-port {}", ports[0]), "+OK\r\n");
        scrape(ports[0]);
        client.check(&format!("CONFIG SET metrics-port {}", ports[1]), "+OK\r\n");
        scrape(ports[1]);
        until("the port before to close", || (!listens(ports[0])).then_some(()));
        client.check("CONFIG SET metrics-port 0", "+OK\r\n");
        until("the port to close", || (!listens(ports[1])).then_some(()));
    }
    // A port that is in use leads to an error, and nothing changes.
    client.check(&format!("CONFIG SET metrics-port {}", ports[0]), "+OK\r\n");
    client.send(format!("CONFIG SET metrics-port {}\r\n", server.port));
    let error = client.line();
    assert!(error.contains("Could not create server TCP listening socket"), "{error}");
    assert_eq!(client.config("metrics-port"), ports[0].to_string());
    scrape(ports[0]);
}

#[test]
fn an_address_beside_loopback_wants_a_token_or_certificates() {
    let refusal = "metrics-bind has an address other than loopback, 0.0.0.0: this needs metrics-token, or metrics-tls yes with \
                   tls-auth-clients yes";
    let words = ["--metrics-port", "1", "--metrics-bind", "0.0.0.0"];
    let (_, error, success) = run(&[&["--check-config"], &words[..]].concat(), "");
    assert!(!success && error.contains(refusal), "{error}");
    let port = free_port().to_string();
    let (_, error, success) = run(&["--port", &port, "--metrics-port", "1", "--metrics-bind", "0.0.0.0"], "");
    assert!(!success && error.contains(refusal), "{error}");
    let (server, port) = start(&[]);
    let mut client = server.client();
    for set in ["metrics-bind 0.0.0.0", "metrics-bind \"127.0.0.1 *\"", "metrics-bind 0.0.0.0 metrics-tls no"]
    {
        client.send(format!("CONFIG SET {set}\r\n"));
        let error = client.line();
        assert!(
            error.starts_with("-ERR CONFIG SET failed") && error.contains("other than loopback"),
            "{error}"
        );
    }
    scrape(port);
    client.check("CONFIG SET metrics-token a-secret metrics-bind 0.0.0.0", "+OK\r\n");
    let (head, _) = get(port, "/metrics", "");
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    assert!(get(port, "/metrics", "Authorization: Bearer a-secret\r\n").0.starts_with("HTTP/1.1 200 "));
    assert!(get(port, "/healthz", "").0.starts_with("HTTP/1.1 200 "));
    client.send("CONFIG SET metrics-token \"\"\r\n");
    assert!(client.line().contains("other than loopback"));
    assert!(get(port, "/metrics", "Authorization: Bearer a-secret\r\n").0.starts_with("HTTP/1.1 200 "));
}

#[test]
fn nobody_is_shown_the_token_but_the_file() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let mut client = server.client();
    assert_eq!(client.config("metrics-token"), "");
    client.check("CONFIG SET metrics-token very-secret", "+OK\r\n");
    assert_eq!(client.config("metrics-token"), "(redacted)");
    client.send("SLOWLOG GET\r\nPING\r\n");
    let mut said = String::new();
    while !said.ends_with("+PONG\n") {
        said += &(client.line() + "\n");
    }
    assert!(said.contains("metrics-token") && said.contains("(redacted)"), "{said}");
    assert!(!said.contains("very-secret") && !server.log.so_far().contains("very-secret"));
    client.send("CONFIG SET metrics-token \"two words\"\r\n");
    assert!(client.line().contains("visible ASCII"));
}

#[test]
fn the_file_has_the_token_again_behind_a_rewrite() {
    let dir = Dir::new();
    let file = dir.file("sluice.conf", "metrics-token from-the-file\n");
    let port = free_port();
    let mut command = Command::new(common::BINARY);
    command.args([&file, "--port", &port.to_string(), "--save", "", "--dir", &dir.join("")]);
    let server = Server::spawn(command, port, Dir::new());
    assert!(server.log.wait("Ready to accept").is_some(), "{}", server.stderr.all());
    let mut client = server.client();
    assert_eq!(client.config("metrics-token"), "(redacted)");
    client.check("CONFIG REWRITE", "+OK\r\n");
    assert!(std::fs::read_to_string(&file).unwrap().contains("from-the-file"));
    client.check("CONFIG SET metrics-token another", "+OK\r\n").check("CONFIG REWRITE", "+OK\r\n");
    assert!(std::fs::read_to_string(&file).unwrap().contains("another"));
}

#[test]
fn a_load_and_a_script_do_not_keep_the_numbers_back() {
    let dir = Dir::new();
    let saver = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    saver.client().check("DEBUG POPULATE 500", "+OK\r\n").check("SAVE", "+OK\r\n");
    let (port, metrics_port) = (free_port(), free_port());
    let mut command = Command::new(common::BINARY);
    command.args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""]);
    command.args(["--key-load-delay", "1000000", "--metrics-port", &metrics_port.to_string()]);
    command.args(common::arm());
    let server = Server::spawn(command, port, Dir::new());
    assert!(server.log.wait("Loading RDB produced by").is_some(), "{}", server.log.all());
    let samples = until("a sample during the load", || {
        let samples = scrape(metrics_port);
        (number(&samples, "redis_loading_dump_file") == 1.0).then_some(samples)
    });
    assert!(number(&samples, "sluice_loading_total_bytes") > 1000.0);
    let (head, body) = get(metrics_port, "/healthz", "");
    assert!(head.starts_with("HTTP/1.1 503 ") && body == "loading\n", "{head} {body}");
    let mut client = server.client();
    client.check("CONFIG SET key-load-delay 0", "+OK\r\n");
    until("the end of the load", || (client.info("loading") == "0").then_some(()));
    // A script that does not end is executed in slices, and the metrics are sampled between the slices.
    client.send("EVAL \"while true do end\" 0\r\n");
    let slices = until("a sample during the script", || {
        let samples = scrape(metrics_port);
        let slices = number(&samples, "sluice_scripts_slices_total");
        (slices > 0.0 && number(&samples, "sluice_sample_age_seconds") < 1.0).then_some(slices)
    });
    until("another one", || {
        (number(&scrape(metrics_port), "sluice_scripts_slices_total") > slices).then_some(())
    });
    let mut killer = server.client();
    until("the script's end", || {
        killer.send("SCRIPT KILL\r\n");
        (killer.line() == "+OK").then_some(())
    });
}

#[test]
fn a_main_thread_that_stands_still_leaves_the_last_numbers() {
    let (server, port) = start(&[]);
    let first = scrape(port);
    let mut sleeper = server.client();
    sleeper.send("DEBUG SLEEP 2.5\r\n");
    let samples = until("an answer without the main thread", || {
        let samples = scrape(port);
        (number(&samples, "sluice_sample_age_seconds") > 1.0).then_some(samples)
    });
    assert!(number(&samples, "sluice_samples_total") >= number(&first, "sluice_samples_total"));
    assert_eq!(get(port, "/healthz", "").1, "the main thread does not answer\n");
    sleeper.expect("+OK\r\n");
    until("a fresh sample", || (number(&scrape(port), "sluice_sample_age_seconds") < 1.0).then_some(()));
}

/// The reply to an invalid request; empty if the server only closes the connection.
fn answer_to(port: u16, bytes: &[u8]) -> String {
    let mut stream = connect(port);
    // The server may have closed the connection before all is sent.
    let _ = stream.write_all(bytes);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn hostile_requests_are_refused_and_others_are_served_beside_them() {
    let (server, port) = start(&[]);
    let head = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    for (bytes, status) in [
        (format!("{head}Content-Length: 1\r\nContent-Length: 0\r\n\r\n"), "400"),
        (format!("{head}Content-Length: 40\r\n\r\nGET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), "400"),
        (format!("{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "400"),
        ("POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned(), "405"),
        ("PING\r\n".to_owned(), "400"),
        ("\0\0\0\0".to_owned(), "400"),
    ] {
        let answer = answer_to(port, bytes.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    let megabyte = format!("{head}X: {}\r\n\r\n", "y".repeat(1 << 20));
    let answer = answer_to(port, megabyte.as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // These connections send nothing, or nearly nothing, and stay open.
    let strangers: Vec<TcpStream> = (0..common_limit()).map(|_| connect(port)).collect();
    for stranger in strangers.iter().step_by(2) {
        let _ = (&*stranger).write_all(b"GET ");
    }
    let samples = scrape(port);
    assert!(number(&samples, "sluice_metrics_connections") <= 64.0);
    assert!(number(&samples, "sluice_metrics_refused_total") >= 6.0);
    server.client().check("PING", "+PONG\r\n");
    drop(strangers);
    scrape(port);
}

/// Number of connections to open: a quarter of the descriptors that this process may have, but at most 5,000.
fn common_limit() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let open = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = open.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(1024);
    (soft / 4).min(5000)
}

#[test]
fn a_connection_that_stays_is_asked_again() {
    let (_server, port) = start(&[]);
    let mut client = Client::to("127.0.0.1", port);
    for _ in 0..20 {
        client.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let mut lines = vec![client.line()];
        while lines.last().is_some_and(|line| !line.is_empty()) {
            lines.push(client.line());
        }
        assert_eq!(lines[0], "HTTP/1.1 200 OK");
        client.expect("ok\n");
    }
}

#[test]
fn the_endpoint_speaks_tls_with_the_certificates_of_the_server() {
    let (dir, tls_port, port) = (Dir::new(), free_port(), free_port());
    let certificate = Certificate::named("server");
    let words = arguments(&dir, tls_port, &certificate);
    let server = Server::start_in(dir, |command| {
        command.args(&words).args(["--metrics-port", &port.to_string(), "--metrics-tls", "yes"]);
    });
    let request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let prometheus = Certificate::named("prometheus");
    let offer = Offer { certificate: Some(&prometheus), ..Offer::default() };
    let mut tls = TlsClient::open(port, &offer);
    let mut reply = tls.send(request).receive(100).unwrap();
    // The end of the connection marks the end of the reply.
    reply.extend(tls.receive(10_000_000).unwrap());
    let reply = String::from_utf8(reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.contains("\nredis_up 1\n"), "{reply}");
    // Requests in plain text are not answered.
    assert!(!answer_to(port, request.as_bytes()).contains("HTTP/1.1"));
    let mut client = server.client();
    // Addresses other than loopback are allowed as long as clients must show certificates.
    client.check("CONFIG SET metrics-bind 0.0.0.0", "+OK\r\n");
    client.send("CONFIG SET tls-auth-clients no\r\n");
    assert!(client.line().contains("other than loopback"));
    client.check("CONFIG SET metrics-tls no metrics-bind 127.0.0.1", "+OK\r\n");
    scrape(port);
}

/// The names of the metrics that a text mentions.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("redis_") || word.starts_with("sluice_")).collect()
}

#[test]
fn every_metric_of_the_alerts_and_of_the_board_is_in_a_scrape() {
    let (primary, primary_port) = start(&["--appendonly", "yes"]);
    let (_replica, replica_port) = start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let (_node, node_port) = start(&["--cluster-enabled", "yes"]);
    let mut client = primary.client();
    client.check("SET key value", "+OK\r\n");
    client.send("NOSUCH\r\n").line();
    until("a replica", || client.info("slave0").contains("state=online").then_some(()));
    // All requests within a second get the same sample, so the replica may appear only in the next sample.
    let shown = until("a sample with the replica in it", || {
        let shown = [primary_port, replica_port, node_port].map(|port| get(port, "/metrics", "").1).concat();
        shown.contains("slave_state=\"online\"").then_some(shown)
    });
    let has = metric_names(&shown);
    for (file, text) in [
        ("rules.yml", include_str!("../../../../packaging/prometheus/rules.yml")),
        ("rules_test.yml", include_str!("../../../../packaging/prometheus/rules_test.yml")),
        ("board.json", include_str!("../../../../packaging/prometheus/board.json")),
    ] {
        let lacks: Vec<_> = metric_names(text).difference(&has).copied().collect();
        assert!(lacks.is_empty(), "{file} has names that no server shows: {lacks:?}");
    }
}
