//! Moving in: `--check-move` against real servers and against hostile ones, and the commands of
//! `docs/moving-in.md`, which are extracted from the document and run.
//!
//! The old servers are the reference that `SLUICE_PEER_SERVER` names and each server in
//! `SLUICE_REDIS_SERVERS`, or a server of ours if there are none. If the reference's client is missing, a few
//! lines of bash replace the client.

use crate::common::certificates::{Certificate, arguments};
use crate::common::guide::{Bash, block, reference, reference_tool};
use crate::common::{BINARY, Client, Dir, Server, free_port, request, until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server to move from, killed on drop.
pub struct Old {
    child: Child,
    pub port: u16,
    dir: Dir,
}

impl Old {
    pub fn start(binary: &Path, more: &[&str]) -> Old {
        let (dir, port) = (Dir::new(), free_port());
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""])
            .args(["--repl-diskless-sync-delay", "0", "--logfile", "old.log"])
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until("the old server", || TcpStream::connect(("127.0.0.1", port)).ok());
        Old { child, port, dir }
    }

    pub fn client(&self) -> Client {
        Client::to("127.0.0.1", self.port)
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("{}", std::fs::read_to_string(self.dir.join("old.log")).unwrap_or_default());
        }
    }
}

/// The servers to move from.
pub fn binaries() -> Vec<PathBuf> {
    let named = std::env::var("SLUICE_REDIS_SERVERS").unwrap_or_default();
    let named = named.split(':').filter(|name| !name.is_empty()).map(PathBuf::from);
    let all: Vec<PathBuf> = reference().into_iter().chain(named).collect();
    if all.is_empty() {
        println!("skipped: SLUICE_PEER_SERVER names no reference, a server of ours stands for it");
        return vec![PathBuf::from(BINARY)];
    }
    all
}

/// The text of the guide.
const GUIDE: &str = include_str!("../../../../docs/moving-in.md");

/// A bash that runs blocks of the guide, and the port of the new server.
pub struct Shell {
    pub bash: Bash,
    new_port: u16,
}

impl Shell {
    pub fn new() -> Shell {
        let bash = Bash::new();
        std::fs::create_dir(bash.dir.join("new")).unwrap();
        Shell { bash, new_port: free_port() }
    }

    /// Runs the blocks with this name, to move from `old`. Fails if a command fails.
    fn run(&mut self, name: &str, old: &Old, more: &[(&str, &str)]) {
        let (port, dir) = (old.port.to_string(), old.dir.join(""));
        let old = [("OLD_PORT", port.as_str()), ("OLD_DIR", dir.trim_end_matches('/'))];
        self.run_with(name, &[&old, more].concat());
    }

    /// Runs the blocks with this name, with these variables and those of the hosts and the new server. Fails
    /// if a command fails.
    pub fn run_with(&mut self, name: &str, more: &[(&str, &str)]) {
        let (new_port, new_dir) = (self.new_port.to_string(), self.bash.dir.join("new"));
        let names = [
            ("OLD_HOST", "127.0.0.1"),
            ("NEW_HOST", "127.0.0.1"),
            ("NEW_PORT", &new_port),
            ("NEW_DIR", &new_dir),
        ];
        let commands = block(GUIDE, "wait") + &block(GUIDE, name);
        self.bash.run(name, &commands, &[&names, more].concat());
    }

    fn client(&self) -> Client {
        Client::to("127.0.0.1", self.new_port)
    }
}

/// For values of every type: the write, and a read with the expected reply.
pub const DATA: &[(&str, &str, &str)] = &[
    ("SET text hello", "GET text", "$5\r\nhello\r\n"),
    ("SET number 17 EX 100000", "INCR number", ":18\r\n"),
    ("RPUSH list a b c", "LRANGE list 1 2", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
    ("SADD numbers 1 2 3", "SCARD numbers", ":3\r\n"),
    ("SADD words one two", "SISMEMBER words two", ":1\r\n"),
    ("HSET hash field value", "HGET hash field", "$5\r\nvalue\r\n"),
    ("ZADD scores 1.5 a 2 b", "ZRANGEBYSCORE scores 1.7 3", "*1\r\n$1\r\nb\r\n"),
    ("XADD stream 1-1 name value", "XLEN stream", ":1\r\n"),
    ("XGROUP CREATE stream group 0", "XPENDING stream group", "*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"),
    ("PFADD visitors a b c", "PFCOUNT visitors", ":3\r\n"),
    ("SETBIT bits 100000 1", "BITCOUNT bits", ":1\r\n"),
    ("GEOADD places 13.5 38.1 Palermo", "ZCARD places", ":1\r\n"),
];

/// Writes [`DATA`], larger values, and a library of functions.
fn fill(client: &mut Client) {
    for (write, _, _) in DATA {
        client.send(format!("{write}\r\n"));
        assert!(!client.line().starts_with('-'), "{write}");
        // The reply to XADD is a bulk string, which has a second line.
        if write.starts_with("XADD") {
            client.line();
        }
    }
    for number in 0..400 {
        client.check(&format!("HSET large:hash field{number} {number}"), ":1\r\n");
        client.check(&format!("ZADD large:scores {number} m{number}"), ":1\r\n");
    }
    let code = "#!lua name=lib\nredis.register_function('seven', function() return 7 end)";
    client.send(request(&[b"FUNCTION", b"LOAD", code.as_bytes()])).expect("$3\r\nlib\r\n");
}

fn check_data(client: &mut Client) {
    for (_, read, reply) in DATA.iter().filter(|(_, read, _)| *read != "INCR number") {
        client.check(read, reply);
    }
    client.check("HLEN large:hash", ":400\r\n").check("ZRANK large:scores m300", ":300\r\n");
    client.check("FCALL seven 0", ":7\r\n");
    client.send("TTL number\r\n");
    let ttl: i64 = client.line()[1..].parse().unwrap();
    assert!((99_000..=100_000).contains(&ttl), "{ttl}");
}

/// Whether a server reads RDB 11, the format that replicas older than Valkey 9 receive.
fn reads_rdb_11(client: &mut Client) -> bool {
    !client.info_text().contains("redis_version:7.0")
}

#[test]
fn a_server_moves_in_live_and_back() {
    for binary in binaries() {
        let old = Old::start(&binary, &[]);
        let mut theirs = old.client();
        println!("from {}", binary.display());
        fill(&mut theirs);
        let mut shell = Shell::new();
        shell.run("live", &old, &[]);
        let mut ours = shell.client();
        check_data(&mut ours);
        ours.check("SET written here", "+OK\r\n").check("RPUSH list d", ":4\r\n");
        shell.run("back", &old, &[]);
        check_data(&mut theirs);
        theirs.check("GET written", "$4\r\nhere\r\n").check("SET again there", "+OK\r\n");
        // Our replication history continues that of the old server, so no full sync was needed.
        assert_eq!(ours.info("sync_full"), "0");
        if !reads_rdb_11(&mut theirs) {
            println!("skipped: Redis 7.0 reads no RDB 11, no copy goes back to it");
            continue;
        }
        ours.check("CLIENT UNPAUSE", "+OK\r\n").check("CONFIG SET repl-diskless-sync-delay 0", "+OK\r\n");
        let fresh = Old::start(&binary, &[]);
        shell.run("back", &fresh, &[]);
        check_data(&mut fresh.client());
        assert_eq!(ours.info("sync_full"), "1");
    }
}

/// No wait in the guide is endless if a server has ended.
#[test]
fn each_wait_of_the_guide_ends_and_says_where_to_look() {
    assert!(!GUIDE.lines().any(|line| line.trim_start().starts_with("until ")), "a wait without an end");
    let waits = GUIDE.lines().map(str::trim_start).filter(|line| line.starts_with("wait_for \""));
    let waits: Vec<&str> = waits.filter_map(|line| line.strip_suffix(" \\")).collect();
    assert!(waits.len() > 10, "{waits:?}");
    let commands: String = waits.iter().map(|wait| format!("! {wait} false\n")).collect();
    let hosts = ["OLD_HOST", "OLD_PORT", "NEW_HOST", "NEW_PORT"].map(|name| (name, "h"));
    let names = [&hosts[..], &[("WAIT_TRIES", "2")]].concat();
    let said = Bash::new().says("waits", &(block(GUIDE, "wait") + &commands), &names);
    assert_eq!(said.matches("Gave up waiting. ").count(), waits.len(), "{said}");
    assert!(said.contains("h:h does not answer: what does its log say"), "{said}");
}

#[test]
fn a_server_moves_in_by_its_files() {
    for binary in binaries() {
        for (name, more) in [("rdb", ["--appendonly", "no"]), ("aof", ["--appendonly", "yes"])] {
            let old = Old::start(&binary, &more);
            println!("{name} from {}", binary.display());
            fill(&mut old.client());
            let mut shell = Shell::new();
            shell.run(name, &old, &[]);
            check_data(&mut shell.client());
        }
    }
}

#[test]
fn a_server_under_sentinel_is_replaced() {
    let (Some(server), Some(sentinel)) = (reference(), reference_tool("valkey-sentinel")) else {
        println!("skipped: SLUICE_PEER_SERVER names no reference with valkey-sentinel beside it");
        return;
    };
    let old = Old::start(&server, &[]);
    fill(&mut old.client());
    let mut shell = Shell::new();
    shell.run("sentinel", &old, &[]);
    // Sentinel asks the primary when it starts, and every ten seconds afterwards.
    let port = free_port();
    let conf = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nlogfile sentinel.log\nsentinel monitor moving 127.0.0.1 {} 1\n",
        old.dir.join(""),
        old.port
    );
    let file = old.dir.file("sentinel.conf", &conf);
    let _watching = Watching(Command::new(sentinel).arg(file).stdout(Stdio::null()).spawn().unwrap());
    until("a Sentinel", || TcpStream::connect(("127.0.0.1", port)).ok());
    let port = port.to_string();
    let more =
        [("SENTINEL_HOST", "127.0.0.1"), ("SENTINEL_PORT", port.as_str()), ("SENTINEL_NAME", "moving")];
    shell.run("sentinel-failover", &old, &more);
    let mut ours = shell.client();
    until("the promotion", || (ours.info("role") == "master").then_some(()));
    check_data(&mut ours);
}

/// A running Sentinel, killed on drop.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_guide_asks_first() {
    for binary in binaries() {
        let old = Old::start(&binary, &[]);
        let mut theirs = old.client();
        if theirs.info_text().contains("redis_version:7.0") {
            println!("skipped: Redis 7.0 has no CLIENT NO-TOUCH, as the guide says");
            continue;
        }
        Shell::new().run("check", &old, &[("MOVE_PASSWORD", SECRET)]);
    }
    let old = Old::start(Path::new(BINARY), &[]);
    let conf = old.dir.file("old.conf", "maxmemory 100mb\nmptcp yes\n");
    Shell::new().run("config", &old, &[("OLD_CONF", &conf)]);
}

/// A text that no output may contain.
pub const SECRET: &str = "plantedsecret";

/// Runs `--check-move` for the server on a port; returns standard output and error as one text, and the exit
/// status.
pub fn check_move(port: u16, more: &[&str]) -> (String, i32) {
    let target = format!("127.0.0.1:{port}");
    let output = Command::new(BINARY)
        .args(["--check-move", &target, "--timeout", "1"])
        .args(more)
        .env("MOVE_PASSWORD", SECRET)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains(SECRET) && text.is_ascii(), "{text}");
    (text, output.status.code().unwrap())
}

#[test]
fn a_server_with_something_of_everything_is_judged_without_its_secrets() {
    for binary in binaries().into_iter().chain([PathBuf::from(BINARY)]) {
        let old = Old::start(&binary, &["--requirepass", SECRET, "--masterauth", SECRET]);
        let mut theirs = old.client();
        theirs.check(&format!("AUTH {SECRET}"), "+OK\r\n");
        fill(&mut theirs);
        theirs.check(&format!("SET {SECRET} {SECRET}"), "+OK\r\n");
        theirs.check("SELECT 9", "+OK\r\n").check("SET elsewhere 1", "+OK\r\n");
        theirs.check(&format!("ACL SETUSER {SECRET}-free on >{SECRET} ~{SECRET}* &{SECRET} +get"), "+OK\r\n");
        theirs.check(&format!("ACL DELUSER {SECRET}-free"), ":1\r\n");
        theirs.check(&format!("ACL SETUSER app on >{SECRET} ~{SECRET}* &{SECRET} +get"), "+OK\r\n");
        theirs.check("CONFIG SET notify-keyspace-events KEA", "+OK\r\n");
        let pass = ["--pass-from-env", "MOVE_PASSWORD"];
        let (text, status) = check_move(old.port, &pass);
        println!("{}\n{text}", binary.display());
        assert_eq!(status, 0, "{text}");
        for part in [
            "2 of 2 users",
            "requirepass is set (not shown)",
            "notify-keyspace-events",
            "values were dumped and load here",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let (json, status) = check_move(old.port, &["--json", pass[0], pass[1]]);
        assert!(
            status == 0 && json.starts_with("{\"target\":\"127.0.0.1:") && json.contains("\"status\":0"),
            "{json}"
        );
        // The check is run as a user with few rights.
        theirs.check(
            &format!("ACL SETUSER little on >{SECRET} ~a* -@all +info +scan +select +type"),
            "+OK\r\n",
        );
        let (text, status) = check_move(old.port, &["--user", "little", pass[0], pass[1]]);
        assert_eq!(status, 1, "{text}");
        assert!(text.contains("not judged: CONFIG GET: this user has no right"), "{text}");
        assert!(text.contains("keys, to which this user has no right"), "{text}");
        let (text, status) = check_move(old.port, &[]);
        assert!(status == 3 && text.contains("requires a password"), "{text}");
        let (text, status) = check_move(old.port, &["--user", "nobody", pass[0], pass[1]]);
        assert!(
            status == 3 && text.contains("refuses the user nobody with this password: WRONGPASS"),
            "{text}"
        );
    }
}

#[test]
fn a_server_that_speaks_tls_is_judged() {
    let (dir, port) = (Dir::new(), free_port());
    let words = arguments(&dir, port, &Certificate::named("server"));
    let server = Server::start_in(dir, |command| {
        command.args(&words);
    });
    let files: Vec<&str> =
        words.iter().map(String::as_str).skip_while(|word| *word != "--tls-cert-file").collect();
    let (text, status) = check_move(port, &[&["--tls"], files.as_slice()].concat());
    assert_eq!(status, 0, "{text}");
    let (text, status) = check_move(port, &[]);
    assert_eq!(status, 3, "{text}");
    drop(server);
}

/// Starts a server that accepts one connection and runs `serve` on it; returns its port and its thread.
fn hostile(serve: impl Fn(TcpStream) + Send + 'static) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, std::thread::spawn(move || serve(listener.accept().unwrap().0)))
}

/// Waits for some input, sends `head`, and then sends `again` repeatedly as long as the peer reads.
fn flood(mut stream: TcpStream, head: &[u8], again: &[u8]) {
    let _ = stream.read(&mut [0; 64]);
    let piece = again.repeat(64 * 1024 / again.len());
    let mut sent = stream.write_all(head);
    while sent.is_ok() {
        sent = stream.write_all(&piece);
    }
}

/// Sends a bulk string slowly, one byte every 20 ms or after each input, as long as the peer reads.
fn drip(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut sent = stream.write_all(b"$1000\r\n");
    while sent.is_ok() {
        let _ = stream.read(&mut [0; 64]);
        sent = stream.write_all(b"x");
    }
}

#[test]
fn hostile_servers_end_the_check() {
    type Serve = fn(TcpStream);
    let cases: [(&str, Serve, &str); 9] = [
        ("closes at once", drop, "has closed the connection"),
        ("never answers", |mut stream| drop(stream.read_to_end(&mut Vec::new())), "does not answer in time"),
        ("drips", drip, "does not answer in time"),
        ("speaks another protocol", |stream| flood(stream, b"", b"HTTP/1.1 400 Bad\r\n"), "does not speak"),
        ("a text without end", |stream| flood(stream, b"$16000000\r\n", b"x"), "does not speak"),
        (
            "a text of all memory",
            |stream| flood(stream, b"$9223372036854775807\r\n", b"x"),
            "sends more than",
        ),
        ("a line without end", |stream| flood(stream, b"+", b"x"), "sends more than"),
        ("a list without end", |stream| flood(stream, b"*200000\r\n", b"*1\r\n"), "sends more than"),
        ("depth", |stream| flood(stream, b"", b"*1\r\n"), "sends more than"),
    ];
    let running: Vec<_> = cases.iter().map(|(_, serve, _)| hostile(*serve)).collect();
    for ((name, _, wanted), (port, _)) in cases.iter().zip(&running) {
        let (text, status) = check_move(*port, &[]);
        assert!(status == 3 && text.contains(wanted), "{name}: {text}");
    }
    running.into_iter().for_each(|(_, thread)| thread.join().unwrap());
}

#[test]
fn answers_of_wrong_types_are_not_judged() {
    for answer in [
        "*2\r\n*0\r\n:5\r\n",
        ":-7\r\n",
        "$-1\r\n",
        "%1\r\n+a\r\n*3\r\n_\r\n#t\r\n,nan\r\n",
        "-NOPERM no\x1b[2J\r\n",
    ] {
        let (port, thread) = hostile(move |mut stream| {
            let mut room = [0; 65536];
            while let Ok(len @ 1..) = stream.read(&mut room) {
                // The server sends one reply for each request.
                let requests = room[..len].iter().filter(|byte| **byte == b'*').count();
                if stream.write_all(answer.repeat(requests.max(1)).as_bytes()).is_err() {
                    break;
                }
            }
        });
        let (text, status) = check_move(port, &[]);
        assert!(matches!(status, 1..=3), "{answer:?}: {text}");
        assert!(!text.contains('\x1b'), "{text}");
        thread.join().unwrap();
    }
    let (text, status) = check_move(free_port(), &[]);
    assert!(status == 3 && text.contains("no connection to 127.0.0.1:"), "{text}");
}
