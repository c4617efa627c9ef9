//! The folder of a single server is used by a cluster node.

use super::{Node, nodes, of_node};
use crate::common::guide::reference_tool;
use crate::common::reference::Reference;
use crate::common::{BINARY, Client, Dir, Server, free_port, until};
use crate::moving::Shell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder as left by a server with keys in these databases, with an append-only file or without. The
/// server is the reference's if there is one.
fn left_behind(aof: &str, databases: &[usize]) -> Dir {
    let arguments = ["--appendonly", aof, "--appendfsync", "always"];
    let stock = Reference::start(&arguments);
    let ours = stock.is_none().then(|| Server::start(&arguments));
    let (mut client, dir) = match (&stock, &ours) {
        (Some(stock), _) => (stock.client(), &stock.dir),
        (None, Some(ours)) => (ours.client(), &ours.dir),
        (None, None) => unreachable!("one of both was started"),
    };
    for database in databases {
        client.check(&format!("SELECT {database}"), "+OK\r\n");
        for number in 0..40 {
            client.check(&format!("SET key:{number} {number}"), "+OK\r\n");
        }
    }
    if aof == "no" {
        client.check("SAVE", "+OK\r\n");
    }
    let copy = Dir::new();
    for name in contents(dir.path()).into_keys().filter(|name| name.contains(".aof") || name == "dump.rdb") {
        let to = copy.path().join(&name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(dir.path().join(&name), to).unwrap();
    }
    copy
}

/// The files of a folder, and of the folders in it.
fn contents(dir: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(
                contents(&entry.path()).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
            );
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// The slots that a node reports as its own.
fn own_slots(client: &mut Client) -> BTreeSet<u16> {
    let lines = nodes(client);
    let ranges = lines[0].split(' ').skip(8);
    ranges
        .flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u16>().unwrap()..=last.parse().unwrap()
        })
        .collect()
}

/// The slots of a node of the reference that is started on a copy of a folder.
fn stock_slots(dir: &Dir, more: &[&str]) -> Option<BTreeSet<u16>> {
    let (copy, port) = (Dir::new(), free_port());
    for (name, bytes) in contents(dir.path()) {
        let to = copy.path().join(&name);
        fs::create_dir_all(to.parent()?).unwrap();
        fs::write(to, bytes).unwrap();
    }
    let mut child = Command::new(std::env::var("SLUICE_PEER_SERVER").ok()?)
        .args(["--port", &port.to_string(), "--dir", &copy.join(""), "--save", ""])
        .args(of_node(free_port()))
        .args(more)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut client = until("the reference", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(|_| Client::to("127.0.0.1", port))
    });
    let slots = until("the load", || {
        client.send("PING\r\n").line().starts_with("+PONG").then(|| own_slots(&mut client))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    Some(slots)
}

#[test]
fn cb_o42_a_node_on_a_single_servers_folder_takes_the_slots_of_its_keys() {
    let wanted: BTreeSet<u16> =
        (0..40).map(|number| sluice_base::key_slot(format!("key:{number}").as_bytes())).collect();
    for aof in ["no", "yes"] {
        let dir = left_behind(aof, &[0]);
        if let Some(stock) = stock_slots(&dir, &["--appendonly", aof]) {
            assert_eq!(stock, wanted, "of the reference");
        }
        let node = Node::start_in(dir, ["--appendonly", aof].map(str::to_owned).to_vec());
        let mut client = node.client();
        assert_eq!(own_slots(&mut client), wanted, "appendonly {aof}");
        client.check("DBSIZE", ":40\r\n");
        if reference_tool("valkey-cli").is_some() {
            let port = node.server.port.to_string();
            Shell::new().run_with("single", &[("NEW_PORT", &port)]);
            until("a cluster that serves", || {
                (client.send("GET key:7\r\n").line() == "$1").then(|| client.line())
            });
            assert_eq!(own_slots(&mut client).len(), 16_384);
        }
        // The claimed slots are durable.
        let node = node.kill_and_restart();
        assert!(own_slots(&mut node.client()).is_superset(&wanted));
    }
}

#[test]
fn a_node_has_no_folder_with_keys_in_more_databases_than_it_has() {
    for aof in ["no", "yes"] {
        let dir = left_behind(aof, &[0, 3]);
        let before = contents(dir.path());
        let output = Command::new(BINARY)
            .args(["--port", &free_port().to_string(), "--dir", &dir.join(""), "--appendonly", aof])
            .args(of_node(free_port()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            !output.status.success() && text.contains("for a node of a cluster cluster-databases"),
            "{text}"
        );
        let after = contents(dir.path());
        let is_of_data = |name: &&String| !name.ends_with(".lock") && *name != "nodes.conf";
        let names: Vec<&String> = after.keys().filter(is_of_data).collect();
        assert_eq!(names, before.keys().collect::<Vec<_>>(), "appendonly {aof}");
        assert!(before.iter().all(|(name, bytes)| after[name] == *bytes), "appendonly {aof}");
        let more = ["--appendonly", aof, "--cluster-databases", "4"].map(str::to_owned).to_vec();
        let node = Node::start_in(dir, more);
        let mut client = node.client();
        client.check("DBSIZE", ":40\r\n").check("SELECT 3", "+OK\r\n").check("DBSIZE", ":40\r\n");
    }
}
