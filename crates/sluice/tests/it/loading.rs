//! Loading, end to end: what clients see during a load, and what ends a load. The parameter `key-load-delay`
//! slows a load until a test sets it to 0.

use crate::common::{self, BINARY, Client, Dir, Server, free_port, has_switches, until};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

const LOADING: &str = "-LOADING Valkey is loading the dataset in memory\r\n";

/// A folder with a snapshot of `keys` keys.
fn saved(keys: u32) -> Dir {
    let dir = Dir::new();
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    let mut client = server.client();
    client.check(&format!("DEBUG POPULATE {keys}"), "+OK\r\n").check("SAVE", "+OK\r\n");
    dir
}

/// Starts a server that loads the file in `dir`, so slowly that the load does not end by itself.
fn loading(dir: &Dir, arguments: &[&str], environment: &[(&str, &str)]) -> Server {
    let port = free_port();
    let mut command = Command::new(BINARY);
    command.args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""]);
    command.args(["--enable-debug-command", "yes", "--key-load-delay", "1000000"]);
    command.args(common::arm());
    command.args(arguments).envs(environment.iter().copied());
    let server = Server::spawn(command, port, Dir::new());
    assert!(server.log.wait("Loading RDB produced by Valkey").is_some(), "{}", server.log.all());
    server
}

/// Removes the delay of a load, and waits for the end of the load.
fn let_go(client: &mut Client) {
    client.check("CONFIG SET key-load-delay 0", "+OK\r\n");
    until("the end of the load", || (client.info("loading") == "0").then_some(()));
}

#[test]
fn systemd_is_told_how_far_a_load_and_a_save_are() {
    let dir = saved(500);
    let notified = Dir::new();
    let path = notified.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(common::DEADLINE)).unwrap();
    let receive = || {
        let mut buffer = [0; 400];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    let server = loading(&dir, &["--supervised", "systemd"], &[("NOTIFY_SOCKET", &path)]);
    let told = receive();
    assert!(told.starts_with("STATUS=Loading: "), "{told}");
    assert!(told.ends_with("\nEXTEND_TIMEOUT_USEC=60000000\n"), "{told}");
    let mut client = server.client();
    assert!(client.info("progress_loading").starts_with("unit=bytes,percent="));
    let_go(&mut client);
    assert_eq!(receive(), "STATUS=Ready to accept connections\nREADY=1\n");
    client.check("CONFIG SET rdb-key-save-delay 1000000", "+OK\r\n");
    client.check("BGSAVE", "+Background saving started\r\n");
    let told = receive();
    assert!(told.starts_with("STATUS=Saving: ") && told.contains("% of 500 keys, "), "{told}");
    assert!(!told.contains("EXTEND_TIMEOUT_USEC"), "nothing limits how long that takes: {told}");
    client.check("BGSAVE CANCEL", "+Background saving cancelled\r\n");
    assert_eq!(receive(), "STATUS=Ready to accept connections\n");
}

#[test]
fn clients_are_told_that_data_are_loading_and_served_when_they_are_there() {
    let dir = saved(500);
    let server = loading(&dir, &[], &[]);
    let mut client = server.client();
    client.check("PING", LOADING).check("GET key:1", LOADING).check("SET a 1", LOADING);
    client.check("ECHO x", "$1\r\nx\r\n").check("MULTI", "+OK\r\n").check("GET a", LOADING);
    client.check("DISCARD", "+OK\r\n");
    assert_eq!(client.info("loading"), "1");
    assert_eq!(client.info("async_loading"), "0");
    let size = std::fs::metadata(dir.join("dump.rdb")).unwrap().len();
    assert_eq!(client.info("loading_total_bytes"), size.to_string());
    assert!(client.info("loading_rdb_used_mem").parse::<u64>().unwrap() > 0);
    // Other clients send pipelines of many requests, too.
    let mut others: Vec<Client> = (0..20).map(|_| server.client()).collect();
    for other in &mut others {
        other.send("PING\r\n".repeat(100));
    }
    for other in &mut others {
        other.expect(LOADING.repeat(100));
    }
    let_go(&mut client);
    client.check("PING", "+PONG\r\n").check("DBSIZE", ":500\r\n");
    client.check("GET key:499", "$9\r\nvalue:499\r\n");
    assert_eq!(client.info("rdb_last_load_keys_loaded"), "500");
    assert!(server.log.wait("Ready to accept connections tcp").is_some());
    let said = server.log.wait("DB loaded from disk: ");
    assert!(said.is_some());
}

#[test]
fn reload_lets_the_main_thread_answer_meanwhile_and_replies_at_its_end() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    client.check("DEBUG POPULATE 500", "+OK\r\n");
    let digest = client.send("DEBUG DIGEST\r\n").line();
    client.check("CONFIG SET key-load-delay 1000000", "+OK\r\n");
    client.send("DEBUG RELOAD\r\nPING\r\n");
    until("the load", || (other.info("loading") == "1").then_some(()));
    other.check("PING", LOADING).check("DEBUG RELOAD", LOADING).check("DEBUG POPULATE 3", LOADING);
    let_go(&mut other);
    client.expect("+OK\r\n+PONG\r\n");
    assert_eq!(client.send("DEBUG DIGEST\r\n").line(), digest);
    // This load adds to the existing keys, whose memory stays in place.
    client.check("CONFIG SET key-load-delay 1000000", "+OK\r\n");
    client.send("DEBUG RELOAD NOSAVE NOFLUSH MERGE\r\nDBSIZE\r\n");
    until("the load", || (other.info("loading") == "1").then_some(()));
    let_go(&mut other);
    client.expect("+OK\r\n:500\r\n");
    // A client that disconnects does not end the load.
    client.check("CONFIG SET key-load-delay 1000000", "+OK\r\n").send("DEBUG RELOAD\r\n");
    until("the load", || (other.info("loading") == "1").then_some(()));
    drop(client);
    let_go(&mut other);
    other.check("DBSIZE", ":500\r\n");
}

#[test]
fn shutdown_and_signals_end_a_load_at_once_and_save_nothing() {
    let dir = saved(500);
    let before = std::fs::read(dir.join("dump.rdb")).unwrap();
    for ending in ["SHUTDOWN", "SHUTDOWN SAVE", "TERM", "INT"] {
        let mut server = loading(&dir, &["--save", "1 1"], &[]);
        match ending {
            "TERM" | "INT" => server.signal(ending),
            command => server.client().send(format!("{command}\r\n")).expect_end(),
        }
        assert_eq!(server.wait().code(), Some(0), "{ending}");
        let said = server.log.all();
        assert!(said.contains("ready to exit, bye bye..."), "{said}");
        let by_signal = said.contains("Received shutdown signal during loading, exiting now.");
        assert_eq!(by_signal, !ending.starts_with("SHUTDOWN"), "{said}");
        assert_eq!(std::fs::read(dir.join("dump.rdb")).unwrap(), before);
    }
}

#[test]
fn a_file_that_breaks_off_ends_a_server_that_has_clients_already() {
    let dir = saved(500);
    let whole = std::fs::read(dir.join("dump.rdb")).unwrap();
    std::fs::write(dir.join("dump.rdb"), &whole[..whole.len() / 2]).unwrap();
    let mut server = loading(&dir, &[], &[]);
    let mut client = server.client();
    client.check("PING", LOADING).send("CONFIG SET key-load-delay 0\r\n");
    assert_eq!(server.wait().code(), Some(1));
    let said = server.log.all();
    assert!(said.contains("Internal error in RDB reading offset "), "{said}");
    assert!(said.ends_with("Fatal error loading the DB, check server logs. Exiting."), "{said}");
}

#[test]
fn a_load_may_be_killed_and_begun_again() {
    let dir = saved(500);
    for _ in 0..3 {
        let mut server = loading(&dir, &[], &[]);
        server.client().check("PING", LOADING);
        server.signal("KILL");
        assert_eq!(server.wait().code(), None);
    }
    let server = loading(&dir, &[], &[]);
    let mut client = server.client();
    let_go(&mut client);
    client.check("DBSIZE", ":500\r\n");
}

#[test]
fn reload_of_a_file_that_is_not_there_or_no_good_leaves_a_server_that_serves() {
    let dir = Dir::new();
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    let mut client = server.client();
    let failed = "-ERR Error trying to load the RDB dump, check server logs.\r\n";
    client.check("SET a 1", "+OK\r\n").check("DEBUG RELOAD NOSAVE", failed);
    client.check("GET a", "$1\r\n1\r\n");
    std::fs::write(dir.join("dump.rdb"), b"garbagegarbage").unwrap();
    client.check("DEBUG RELOAD NOSAVE", failed).check("GET a", "$1\r\n1\r\n");
    // An incomplete file is noticed only at its end, when the old data are gone. The server is then empty,
    // and refuses to overwrite the file.
    client.check("SAVE", "+OK\r\n");
    let whole = std::fs::read(dir.join("dump.rdb")).unwrap();
    std::fs::write(dir.join("dump.rdb"), &whole[..whole.len() - 1]).unwrap();
    client.check("DEBUG RELOAD NOSAVE", failed).check("GET a", "$-1\r\n").check("SAVE", "-ERR\r\n");
    assert_eq!(std::fs::read(dir.join("dump.rdb")).unwrap().len(), whole.len() - 1);
    client.check("CONFIG SET dbfilename other.rdb", "+OK\r\n").check("SAVE", "+OK\r\n");
}

#[test]
fn memory_is_counted_while_it_is_loaded() {
    let dir = Dir::new();
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    server.client().check("DEBUG POPULATE 40 key 100000", "+OK\r\n").check("SAVE", "+OK\r\n");
    let server = loading(&dir, &[], &[]);
    let mut client = server.client();
    let used = |client: &mut Client| client.info("used_memory").parse::<i64>().unwrap();
    // The load takes some milliseconds; one INFO reads the memory at its beginning, others until its end.
    client.send("CONFIG SET key-load-delay 0\r\nINFO memory\r\n").expect("+OK\r\n").bulk_reply();
    until("the end of the load", || (client.info("loading") == "0").then_some(()));
    let after = used(&mut client);
    assert!(after > 40 * 100_000, "{after}");
    if !has_switches() {
        return;
    }
    let dir = saved(20_000);
    let server = loading(&dir, &[], &[("SLUICE_TEST_PARTS", "1")]);
    let mut client = server.client();
    let_go(&mut client);
    // The memory of the parts of the server is summed only from some time after the start.
    let unexplained = until("the parts", || {
        let text = String::from_utf8(client.bulk("INFO debug")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("memory_unexplained_bytes:"));
        line.map(|bytes| bytes.parse::<i64>().unwrap())
    });
    assert!(unexplained.abs() < 1 << 20, "{unexplained}");
}
