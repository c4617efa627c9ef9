//! Tests the metrics endpoint with Prometheus's own tools. `promtool check metrics` reads the endpoint's
//! text, `promtool test rules` tests the alerts, and the endpoint must have every name that redis_exporter
//! derives from INFO of our server.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::binaries;
use crate::error::Result;
use crate::server::Server;
use crate::shell::{self, Ran};

/// Names of the redis_exporter program in distributions and in its releases.
const EXPORTERS: [&str; 2] = ["redis_exporter", "prometheus-redis-exporter"];

/// Metrics about the exporter itself, its connection to the server, or other servers.
const OF_THE_EXPORTER: [&str; 8] = [
    "redis_db_keys_cached",
    "redis_exporter_build_info",
    "redis_exporter_last_scrape_connect_time_seconds",
    "redis_exporter_scrape_duration_seconds_count",
    "redis_exporter_scrape_duration_seconds_sum",
    "redis_exporter_scrape_duration_seconds",
    "redis_last_key_groups_scrape_duration_milliseconds",
    "redis_target_scrape_request_errors_total",
];

/// Runs the tools that are installed. `SLUICE_PROMTOOL` and `SLUICE_REDIS_EXPORTER` may name them.
pub(super) fn run() -> Result<Ran> {
    let promtool = found("SLUICE_PROMTOOL", &["promtool"]);
    let exporter = found("SLUICE_REDIS_EXPORTER", &EXPORTERS);
    if promtool.is_none() && exporter.is_none() {
        println!("metrics: skipped: there is neither promtool nor redis_exporter");
        return Ok(Ran::Skipped);
    }
    let binary = binaries::build_server()?.ok_or("there is no server to run")?;
    let port = free_port()?;
    let server = Server::start(&binary, &["--metrics-port".into(), port.to_string()])?;
    let ours = get(port)?;
    match promtool {
        Some(promtool) => {
            check(&promtool, &ours)?;
            try_alerts(&promtool)?;
        }
        None => println!("metrics: promtool is not there, and did not read the text"),
    }
    match exporter {
        Some(exporter) => compare(&exporter, server.port, &ours)?,
        None => println!("metrics: redis_exporter is not there, and was not compared"),
    }
    Ok(Ran::Passed)
}

/// The first program that exists: the one that the variable names, or else one of these names.
pub(super) fn found(variable: &str, names: &[&str]) -> Option<String> {
    let named = std::env::var(variable).ok();
    let all = named.into_iter().chain(names.iter().map(|name| (*name).to_owned()));
    let is_there = |name: &String| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    all.into_iter().find(is_there)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The body of `/metrics` at a port.
fn get(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.split_once("\r\n\r\n").ok_or("no reply")?.1.to_owned())
}

/// Makes promtool read the text; an error if it cannot. Status 3 is accepted, because promtool then only
/// criticises names, which are those of redis_exporter.
fn check(promtool: &str, text: &str) -> Result<()> {
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("no input")?.write_all(text.as_bytes())?;
    let output = child.wait_with_output()?;
    match output.status.code() {
        Some(0 | 3) => Ok(()),
        _ => Err(format!("promtool: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// Makes promtool check the shipped alerts and run their tests.
fn try_alerts(promtool: &str) -> Result<()> {
    let folder = shell::root().join("packaging/prometheus");
    for words in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        shell::run(Command::new(promtool).current_dir(&folder).args(words))?;
    }
    Ok(())
}

/// Runs the exporter; an error if the endpoint lacks one of its names that is not in [`OF_THE_EXPORTER`].
fn compare(exporter: &str, server: u16, ours: &str) -> Result<()> {
    let port = free_port()?;
    let mut child = Command::new(exporter)
        .args(["-redis.addr", &format!("redis://127.0.0.1:{server}")])
        .args(["-web.listen-address", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let began = shell::now();
    let theirs = loop {
        match get(port) {
            Err(_) if began.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            theirs => break theirs,
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    let theirs = theirs?;
    let (ours, theirs) = (names(ours), names(&theirs));
    let lacks: Vec<_> = theirs.difference(&ours).filter(|name| !OF_THE_EXPORTER.contains(name)).collect();
    println!(
        "metrics: redis_exporter has {} names, of which the endpoint lacks {}",
        theirs.len(),
        lacks.len()
    );
    match lacks.is_empty() {
        true => Ok(()),
        false => Err(format!("names of redis_exporter that the endpoint lacks: {lacks:?}").into()),
    }
}

/// Names of the samples that begin with `redis_`.
fn names(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| line.starts_with("redis_"));
    lines.filter_map(|line| line.split(['{', ' ']).next()).collect()
}
