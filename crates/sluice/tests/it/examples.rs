//! The files of `examples/`, tested as far as this is possible on any machine: the commands, files and health
//! checks of the containers are used with ordinary processes.

mod parts;
mod yaml;

use crate::common::guide::{Bash, reference_tool};
use crate::common::{Client, Server, until};
use parts::{Example, file};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// Whether the programs of Valkey's image are installed; prints a note if not.
fn has_their_image() -> bool {
    let has = ["valkey-cli", "valkey-sentinel"].iter().all(|name| reference_tool(name).is_some());
    if !has {
        println!(
            "skipped: SLUICE_PEER_SERVER names no reference with valkey-cli and valkey-sentinel beside it"
        );
    }
    has
}

#[test]
fn one_server_starts_and_appends() {
    for (kind, name) in [("compose", "sluice"), ("kubernetes", "sluice-0.sluice")] {
        let example = Example::start(kind, "one.yaml");
        let mut client = example.client(name);
        client.check("SET key value", "+OK\r\n");
        assert_eq!(
            (client.config("appendonly"), client.config("maxmemory")),
            ("yes".into(), (1 << 30).to_string())
        );
        assert_eq!(client.config("protected-mode"), "no", "others reach it through a published port");
    }
}

#[test]
fn sentinels_know_a_primary_and_its_replica() {
    if !has_their_image() {
        return;
    }
    for (kind, primary, replica) in
        [("compose", "primary", "replica"), ("kubernetes", "sluice-0.sluice", "sluice-1.sluice")]
    {
        let example = Example::start(kind, "sentinel.yaml");
        let mut client = example.client(replica);
        until("the link", || (client.info("master_link_status") == "up").then_some(()));
        let sentinels: Vec<u16> = example
            .parts
            .iter()
            .filter(|part| part.name.starts_with("sentinel"))
            .map(|part| part.port)
            .collect();
        assert_eq!(sentinels.len(), 3);
        for port in sentinels {
            let mut sentinel = Client::to("127.0.0.1", port);
            until("a Sentinel that knows all", || {
                let text = String::from_utf8(sentinel.bulk("INFO sentinel")).unwrap();
                text.contains("status=ok").then_some(()).filter(|()| text.contains("slaves=1,sentinels=3"))
            });
            let told = format!("*2\r\n$9\r\nlocalhost\r\n$5\r\n{}\r\n", example.part(primary).port);
            sentinel.check("SENTINEL GET-MASTER-ADDR-BY-NAME main", told);
        }
    }
}

#[test]
fn six_nodes_become_a_cluster_that_prometheus_sees() {
    if !has_their_image() {
        return;
    }
    for kind in ["compose", "kubernetes"] {
        let example = Example::start(kind, "cluster.yaml");
        assert_eq!(example.parts.len(), 6);
        for part in &example.parts {
            let mut client = Client::to("127.0.0.1", part.port);
            until("a cluster that serves", || {
                let text = String::from_utf8(client.bulk("CLUSTER INFO")).unwrap();
                let wanted = ["cluster_state:ok", "cluster_known_nodes:6", "cluster_size:3"];
                wanted.iter().all(|line| text.contains(line)).then_some(())
            });
        }
        if kind == "compose" {
            scraped(&example);
        }
    }
}

/// Scrapes each target of `prometheus.yml`, as Prometheus does.
fn scraped(example: &Example) {
    let config = &yaml::documents(&file("compose", "prometheus.yml"))[0];
    let job = &config.at("scrape_configs").items()[0];
    assert_eq!(job.at("job_name").text(), "sluice", "the alerts want this name");
    let token = job.at("authorization.credentials").text();
    let targets = job.at("static_configs").items()[0].at("targets").texts();
    assert_eq!(targets.len(), example.parts.len());
    for target in targets {
        let name = target.strip_suffix(":9121").unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", example.part(name).metrics)).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.contains("\nredis_up 1\n") && text.contains("\nredis_cluster_enabled 1\n"), "{text}");
    }
}

/// The output of the image's health check for a server, with these arguments and environment variables;
/// `None` if the server is healthy.
fn unwell(server: &Server, words: &[&str], variables: &[(&str, &str)]) -> Option<String> {
    let bash = Bash::new();
    bash.program("healthcheck", include_str!("../../../../packaging/container/healthcheck"));
    let mut check = Command::new(bash.dir.join("healthcheck"));
    check.args(words).env("SLUICE_PORT", server.port.to_string()).envs(variables.iter().copied());
    let output = check.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    (!output.status.success()).then(|| said.trim_end().to_owned())
}

#[test]
fn a_server_that_answers_is_well_and_is_ready_when_it_serves() {
    let node = Server::start(&["--cluster-enabled", "yes"]);
    assert_eq!(unwell(&node, &[], &[]), None);
    assert_eq!(unwell(&node, &["ready"], &[]).as_deref(), Some("cluster_state:fail"));
    node.client().check("CLUSTER ADDSLOTSRANGE 0 16383", "+OK\r\n");
    until("a cluster that serves", || unwell(&node, &["ready"], &[]).is_none().then_some(()));

    let replica = Server::start(&["--replicaof", "127.0.0.1 1"]);
    assert_eq!(unwell(&replica, &[], &[]), None);
    assert_eq!(unwell(&replica, &["ready"], &[]).as_deref(), Some("master_link_status:down"));
    replica.client().check("REPLICAOF NO ONE", "+OK\r\n");
    assert_eq!(unwell(&replica, &["ready"], &[]), None);

    let locked = Server::start(&["--requirepass", "gr\u{e4}\"ber 1"]);
    assert_eq!(unwell(&locked, &[], &[]), None);
    let refused = unwell(&locked, &["ready"], &[]).unwrap();
    assert_eq!(refused, "-NOAUTH Authentication required.");
    let password = ("SLUICE_PASSWORD", "gr\u{e4}\"ber 1");
    assert_eq!(unwell(&locked, &["ready"], &[password]), None);
    let refused = unwell(&locked, &["ready"], &[password, ("SLUICE_USER", "nobody")]).unwrap();
    assert!(refused.starts_with("-WRONGPASS"), "{refused}");
}

#[test]
fn a_server_that_loads_is_well_and_is_not_ready() {
    let mut server = Server::start(&["--key-load-delay", "1000000"]);
    let mut client = server.client();
    for key in 0..200 {
        client.check(&format!("SET {key} v"), "+OK\r\n");
    }
    client.check("SAVE", "+OK\r\n");
    client.send("DEBUG RELOAD NOSAVE\r\n");
    until("a load", || (unwell(&server, &["ready"], &[])? == "loading:1").then_some(()));
    assert_eq!(unwell(&server, &[], &[]), None);
    server.child.kill().unwrap();
    server.wait();
}
