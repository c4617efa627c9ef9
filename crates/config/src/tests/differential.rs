//! Requests about directives, sent to this crate and to a running reference server, whose replies must agree.
//!
//! The tests run when the environment variable `SLUICE_PEER_SERVER` names the reference's binary, and
//! print a note when it does not.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::files::BAD_LINES;
use super::is_mutable;
use crate::{Config, Force, ParamId, ParamKind, Traits, UnitOfMeasure, command_line, parse_file, rewrite};

/// Parameters that are not compared, and why.
const NOT_ASKED: [(&str, &str); 16] = [
    ("port", "the reference listens, which depends on the machine"),
    ("bind", "the reference listens, which depends on the machine"),
    ("tls-port", "the reference listens, which depends on how it was built"),
    ("tls-replication", "the reference looks for certificates"),
    ("tls-cluster", "the reference looks for certificates"),
    ("rdma-port", "the reference listens, which depends on how it was built"),
    ("rdma-bind", "the reference listens, which depends on how it was built"),
    ("dir", "the reference changes its directory"),
    ("maxclients", "the reference asks the kernel for descriptors"),
    ("oom-score-adj", "the reference writes to /proc"),
    ("oom-score-adj-values", "the reference writes to /proc"),
    ("watchdog-period", "the reference raises small values to two turns of its timer"),
    ("activedefrag", "the reference accepts it only with its own allocator"),
    ("maxmemory-clients", "small values end the test's own connection"),
    ("client-output-buffer-limit", "small values end the test's own connection"),
    ("rdbcompression", "ours takes what 9.2 takes, and says so; yes and no stand among the pairs below"),
];

/// Values for which the replies must differ: the parameter, the value, and the reason for our reply.
const KNOWN_DIFFERENCES: [(&str, &str, &str); 5] = [
    ("cluster-blacklist-ttl", "-1", "the reference takes it for 2^64 - 1 and shows -1"),
    ("cluster-blacklist-ttl", "-9223372036854775808", "the same"),
    ("slot-migration-max-failover-repl-bytes", "18446744073709551615", "the reference takes it for -1"),
    ("maxmemory", "17179869185gb", "the reference lets it wrap around to 1gb"),
    ("cluster-link-sendbuf-limit", "17179869185gb", "the same"),
];

/// Values that every parameter is set to, valid or not.
const ANY: [&str; 47] = [
    "",
    "yes",
    "no",
    "YES",
    "maybe",
    "0",
    "1",
    "2",
    "100",
    "-1",
    "-0",
    "007",
    "+1",
    " 1",
    "1 ",
    "x",
    "1.5",
    "0x10",
    "1b",
    "1k",
    "1KB",
    "1mb",
    "2gB",
    "1z",
    "mb",
    "5%",
    "101%",
    "-5%",
    "%",
    "99999999999999999999",
    "18446744073709551615",
    "9223372036854775807",
    "-9223372036854775808",
    "a b",
    "a  b",
    "1 2",
    "1 2 3",
    "60 1000 1 0",
    "/a/b",
    "{port}",
    "{",
    "{{",
    "nan",
    "KEA",
    "gxm",
    "10.0.0.1",
    "fe80::1",
];

/// A running reference server, ended when dropped.
struct Peer {
    child: Child,
    stream: BufReader<UnixStream>,
    dir: PathBuf,
}

impl Peer {
    /// Starts `binary` with this config file, on a Unix socket in a directory of its own.
    fn start(binary: &str, name: &str, text: &str) -> Peer {
        let dir = std::env::temp_dir().join(format!("sluice-config-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let file = dir.join("peer.conf");
        let socket = dir.join("socket");
        let own = format!("port 0\nsave ''\ndir {0}\nunixsocket {0}/socket\n", dir.display());
        std::fs::write(&file, own + text).expect("a config file");
        let mut child =
            Command::new(binary).arg(&file).stdout(Stdio::piped()).spawn().expect("the reference starts");
        let mut log = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while !line.contains("eady to accept") {
            line.clear();
            assert!(log.read_line(&mut line).expect("a log line") > 0, "the reference ended");
        }
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let stream = UnixStream::connect(socket).expect("a connection");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("a time limit");
        Peer { child, stream: BufReader::new(stream), dir }
    }

    /// The words of a reply; an error is one word that begins with `-`.
    fn ask(&mut self, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).as_bytes());
            request.extend(*word);
            request.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).expect("a request");
        let first = self.line();
        match first[0] {
            b'*' => {
                let count: usize = number(&first[1..]);
                (0..count).map(|_| self.bulk()).collect()
            }
            _ => vec![first],
        }
    }

    fn bulk(&mut self) -> Vec<u8> {
        let header = self.line();
        let mut bytes = vec![0; number(&header[1..]) + 2];
        self.stream.read_exact(&mut bytes).expect("a string");
        bytes.truncate(bytes.len() - 2);
        bytes
    }

    fn line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("a reply");
        assert!(line.ends_with(b"\r\n"), "the reference closed the connection");
        line.truncate(line.len() - 2);
        line
    }

    fn set(&mut self, pairs: &[&str]) -> String {
        let words: Vec<&[u8]> = ["CONFIG", "SET"].iter().chain(pairs).map(|word| word.as_bytes()).collect();
        String::from_utf8_lossy(&self.ask(&words)[0]).into_owned()
    }

    fn get(&mut self, patterns: &[&str]) -> Vec<(String, String)> {
        let words: Vec<&[u8]> =
            ["CONFIG", "GET"].iter().chain(patterns).map(|word| word.as_bytes()).collect();
        let reply = self.ask(&words);
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        reply.as_chunks::<2>().0.iter().map(|[name, value]| (text(name), text(value))).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A failed test must not leave a server running; the kill fails if the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn number(digits: &[u8]) -> usize {
    std::str::from_utf8(digits).expect("digits").parse().expect("a number")
}

fn reference() -> Option<String> {
    let binary = std::env::var("SLUICE_PEER_SERVER").ok();
    if binary.is_none() {
        println!("skipped: SLUICE_PEER_SERVER does not name the reference's binary");
    }
    binary
}

/// This crate's reply to CONFIG SET, as sent to a client.
fn our_set(config: &mut Config, pairs: &[&str]) -> String {
    match super::set(config, pairs) {
        Ok(_) => "+OK".into(),
        Err(error) => format!("-{error}"),
    }
}

fn our_get(config: &Config, patterns: &[&str]) -> Vec<(String, String)> {
    let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    config.get(&patterns).iter().map(|(name, value)| (text(name), text(value))).collect()
}

/// Values for parameters of this kind, in addition to `ANY`.
fn own_values(kind: &ParamKind) -> Vec<String> {
    match kind {
        ParamKind::Int { min, max, unit, .. } => {
            let mut all = [*min - 1, *min, *max, *max + 1].map(|value| value.to_string()).to_vec();
            let wraps = *unit == UnitOfMeasure::Memory && *max > i128::from(i64::MAX);
            all.extend(wraps.then(|| "17179869185gb".to_string()));
            all
        }
        ParamKind::Choice { names, .. } => names.iter().map(|(name, _)| name.to_ascii_uppercase()).collect(),
        ParamKind::Flags { names } => {
            let mut all: Vec<String> = names.iter().map(|(name, _)| (*name).into()).collect();
            all.extend([
                "save nosave".into(),
                "failover now save".into(),
                "default force".into(),
                " save".into(),
            ]);
            all
        }
        ParamKind::Save => {
            ["1 0 2 0", "1 -1", "0 1", "1 1 1", "1  1", "5 ", "", "1 1 "].map(String::from).to_vec()
        }
        ParamKind::NotifyEvents => ["A", "AKEmn", "g$lshzxetdn", "Kq", "KK"].map(String::from).to_vec(),
        ParamKind::Percentiles => ["50", "1e1 .5 5. +3", "-0", "100.01", "inf", "0.0000001", "50 x", " 5"]
            .map(String::from)
            .to_vec(),
        ParamKind::Text { .. } => {
            ["a".repeat(45), "a".repeat(46), "a".repeat(256), "{port} {foo}".into(), "a,b".into()].to_vec()
        }
        // `ANY` suffices for these kinds. The only parameter of kind `EndpointRules` is not in the reference.
        ParamKind::EndpointRules
        | ParamKind::Bool { .. }
        | ParamKind::BufferLimits
        | ParamKind::OomValues
        | ParamKind::List { .. }
        | ParamKind::ReplicaOf => Vec::new(),
    }
}

fn is_known_difference(name: &str, value: &str) -> bool {
    KNOWN_DIFFERENCES.iter().any(|(known, text, _)| *known == name && *text == value)
}

#[test]
fn config_set_answers_and_keeps_what_the_reference_does() {
    let Some(binary) = reference() else { return };
    let mut peer = Peer::start(&binary, "set", "enable-protected-configs yes\n");
    let mut config = super::loaded("port 0\nsave ''\nenable-protected-configs yes\n");
    let mut asked = 0;
    let mut differences = Vec::new();
    for id in ParamId::all().filter(|id| is_mutable(id.param().traits)) {
        let name = id.param().name;
        let is_ours = peer.get(&[name]).is_empty();
        if is_ours || NOT_ASKED.iter().any(|(exempt, _)| *exempt == name) {
            continue;
        }
        let before = super::shown(&config, name);
        for value in ANY.map(String::from).into_iter().chain(own_values(&id.param().kind)) {
            let theirs = (peer.set(&[name, &value]), peer.get(&[name]));
            let ours = (our_set(&mut config, &[name, &value]), our_get(&config, &[name]));
            if (theirs != ours) != is_known_difference(name, &value) {
                differences.push(format!("{name} {value:?}\n  theirs {theirs:?}\n  ours   {ours:?}"));
            }
            peer.set(&[name, &before]);
            our_set(&mut config, &[name, &before]);
            asked += 1;
        }
    }
    println!("{asked} values asked");
    assert!(asked > 5000, "most parameters are asked: {asked}");
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn config_set_refuses_pairs_as_the_reference_does() {
    let Some(binary) = reference() else { return };
    let mut peer = Peer::start(&binary, "pairs", "");
    let mut config = super::loaded("port 0\nsave ''\n");
    let cases: [&[&str]; 35] = [
        &["foo", "1"],
        &["", "1"],
        &["hz", "20", "foo", "1"],
        &["foo", "1", "daemonize", "yes"],
        &["daemonize", "yes", "foo", "1"],
        &["Daemonize", "yes"],
        &["slaveof", "no one"],
        &["dir", "/"],
        &["DBFILENAME", "x"],
        &["hz", "20", "HZ", "30"],
        &["hz", "20", "hz", "x"],
        &["slowlog-max-len", "3", "commandlog-slow-execution-max-len", "4"],
        &["slowlog-max-len", "5", "SLOWLOG-max-len", "4"],
        &["slowlog-MAX-len", "x"],
        &["hz", "20", "maxmemory", "x", "timeout", "y"],
        &["io-threads-do-reads", "no"],
        &["maxmemory-clients", "5%"],
        &["maxmemory-clients", "1gb"],
        &["maxmemory-clients", "-1"],
        &["maxmemory-clients", "101%"],
        &["client-output-buffer-limit", ""],
        &["client-output-buffer-limit", "normal 100mb 0 0"],
        &["client-output-buffer-limit", "PUBSUB 1k 2kb 3 replica 4mb 5m 6"],
        &["client-output-buffer-limit", "normal 1gb 0 -1"],
        &["client-output-buffer-limit", "normal 1gb 0 "],
        &["client-output-buffer-limit", "normal 1gb 0"],
        &["client-output-buffer-limit", "primary 1gb 0 0"],
        &["client-output-buffer-limit", "normal 1gx 0 0"],
        &["client-output-buffer-limit", "normal 1gb  0 0"],
        &["oom-score-adj-values", "1 2"],
        &["oom-score-adj-values", "1 2 2001"],
        &["oom-score-adj-values", "-2000 0 2000"],
        &["rdbcompression", "NO"],
        &["rdbcompression", "yes"],
        &["rdbcompression", "no"],
    ];
    let shown =
        ["rdbcompression", "slowlog*", "hz", "maxmemory-clients", "client-output*", "oom-score-adj-values"];
    for pairs in cases {
        assert_eq!(our_set(&mut config, pairs), peer.set(pairs), "{pairs:?}");
        assert_eq!(our_get(&config, &shown), peer.get(&shown), "{pairs:?}");
    }
    for id in ParamId::all().filter(|id| id.param().traits.has(Traits::IMMUTABLE)) {
        let name = id.param().name;
        if !peer.get(&[name]).is_empty() {
            assert_eq!(our_set(&mut config, &[name, "x"]), peer.set(&[name, "x"]));
        }
    }
}

#[test]
fn config_get_finds_what_the_reference_does() {
    let Some(binary) = reference() else { return };
    let mut peer = Peer::start(&binary, "get", "");
    let socket = peer.dir.join("socket").display().to_string();
    let mut config = super::loaded("port 0\nsave ''\n");
    config.assign(crate::param::DIR, &[peer.dir.display().to_string().as_bytes()]).expect("a directory");
    config.assign(crate::param::UNIXSOCKET, &[socket.as_bytes()]).expect("a socket");
    let cases: [&[&str]; 14] = [
        &["*"],
        &["slave*", "replica*"],
        &["[a-c]*"],
        &["[^a-z]*"],
        &["*_*"],
        &["???"],
        &["MAXMEMORY", "maxmemory*"],
        &["maxmemory*", "MAXMEMORY"],
        &["slowlog-max-len", "commandlog-slow-execution-max-len"],
        &["use-exit-on-panic", "use-exit*"],
        &["nothing", ""],
        &["\\hz"],
        &["[h]z", "h?", "HZ"],
        &["hash-max-*-entries"],
    ];
    for patterns in cases {
        let mut ours = our_get(&config, patterns);
        ours.retain(|(name, _)| !is_ours(name));
        assert_eq!(ours, peer.get(patterns), "{patterns:?}");
    }
}

/// Whether the directive at the beginning of this line exists only in this server, so that version 9.1 of the
/// reference lacks it.
fn is_ours(line: &str) -> bool {
    let name = line.split(' ').next().unwrap_or(line);
    ParamId::find(name.as_bytes()).is_some_and(|id| id.param().traits.has(Traits::NOT_IN_STAR))
}

/// The reference's output on standard error; the reference must not start.
fn complaint(binary: &str, arguments: &[&str]) -> String {
    let output = Command::new(binary).args(arguments).output().expect("the reference runs");
    assert!(!output.status.success(), "it must not start: {arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn bad_files_are_reported_as_the_reference_does() {
    let Some(binary) = reference() else { return };
    let dir = std::env::temp_dir().join(format!("sluice-config-{}-files", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let file = dir.join("bad.conf");
    let path = file.to_str().expect("a path");
    for (line, _) in BAD_LINES {
        let text = format!("port 0\n# comment\n\n  {line}\t\nhz 10\n");
        std::fs::write(&file, &text).expect("a file");
        let ours =
            parse_file(text.as_bytes(), path, b"", &mut |_: &[u8]| Ok(Vec::new())).expect_err("it is bad");
        assert_reported_alike(&ours, &complaint(&binary, &[path]), line);
    }
    std::fs::write(&file, "port 0\n").expect("a file");
    options_are_reported_alike(&binary, path);
    std::fs::remove_dir_all(&dir).expect("the directory is ours");
}

/// Asserts that our report begins with all lines of the reference's report, and that only hints of this
/// server follow.
fn assert_reported_alike(ours: &crate::LoadError, peer: &str, what: &str) {
    let report = ours.report("9.1.2");
    let hints = report.strip_prefix(peer);
    assert!(
        hints.is_some_and(|hints| hints.ends_with("a configuration.\n")),
        "{what:?}: {report}, not {peer}"
    );
}

fn options_are_reported_alike(binary: &str, path: &str) {
    let cases: [&[&str]; 12] = [
        &["--foo", "1"],
        &["--hz", "1", "2"],
        &["--hz", "20", "--foo"],
        &["--hz", "--port", "0"],
        &["--hz"],
        &["--save", "--foo", "1"],
        &["--save", "1"],
        &["--foo", "a\"b\\c\n\u{e9}"],
        &["--port 0", "--foo bar"],
        &["foo"],
        &["--bind", "a b \"c"],
        &["--", "a"],
    ];
    for options in cases {
        let arguments: Vec<&str> = [path].iter().chain(options).copied().collect();
        let bytes: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        let line = command_line(&bytes);
        let ours = parse_file(b"port 0\n", path, &line.options, &mut |_: &[u8]| Ok(Vec::new()));
        match ours {
            Ok(_) => assert!(options.contains(&"--bind"), "we accept {options:?}"),
            Err(error) => assert_reported_alike(&error, &complaint(binary, &arguments), &options.join(" ")),
        }
    }
}

/// The lines of a file without the empty ones, sorted.
fn comparable(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_string).collect();
    lines.sort();
    lines
}

#[test]
fn rewritten_files_have_the_lines_of_the_reference() {
    let Some(binary) = reference() else { return };
    let text = "# comment\nHZ 20\nslave-priority 7\nclient-output-buffer-limit slave 1mb 2kb 3\nio-threads-do-reads yes\n\
                repl-ping-slave-period 3\nhz 30\nshutdown-on-sigterm \"nosave force\"\n";
    let mut peer = Peer::start(&binary, "rewrite", text);
    let file = peer.dir.join("peer.conf");
    let old = std::fs::read(&file).expect("the config file");
    let mut config = parse_file(&old, "peer.conf", b"", &mut |_: &[u8]| Ok(Vec::new())).expect("it loads");
    for pairs in [
        ["maxmemory", "3mb"],
        ["maxmemory-clients", "5%"],
        ["requirepass", "a \"b\" c"],
        ["notify-keyspace-events", "KEA"],
        ["latency-tracking-info-percentiles", ""],
        ["slowlog-max-len", "9"],
        ["save", "5 6 7 8"],
        ["oom-score-adj-values", "1 2 3"],
        ["availability-zone", "zoné"],
        ["slot-migration-max-failover-repl-bytes", "-1"],
        ["use-exit-on-panic", "yes"],
    ] {
        assert_eq!(our_set(&mut config, &pairs), peer.set(&pairs), "{pairs:?}");
    }
    assert_eq!(peer.ask(&[b"CONFIG", b"REWRITE"]), [b"+OK"]);
    let ours = rewrite(Some(&old), &config, &peer.ask(&[b"ACL", b"LIST"]), Force::Changed);
    assert_eq!(comparable(&ours), comparable(&std::fs::read(&file).expect("the config file")));
}

#[test]
fn forced_rewrites_have_the_lines_of_the_reference() {
    let Some(binary) = reference() else { return };
    let mut peer = Peer::start(&binary, "force", "enable-debug-command yes\n");
    let file = peer.dir.join("peer.conf");
    let old = std::fs::read(&file).expect("the config file");
    let config = parse_file(&old, "peer.conf", b"", &mut |_: &[u8]| Ok(Vec::new())).expect("it loads");
    assert_eq!(peer.ask(&[b"DEBUG", b"CONFIG-REWRITE-FORCE-ALL"]), [b"+OK"]);
    let users = peer.ask(&[b"ACL", b"LIST"]);
    let mut ours = comparable(&rewrite(Some(&old), &config, &users, Force::All));
    ours.retain(|line| !is_ours(line));
    assert_eq!(ours, comparable(&std::fs::read(&file).expect("the config file")));
}

#[test]
fn users_stand_where_the_reference_writes_them() {
    let Some(binary) = reference() else { return };
    let text = "user zoe on >a ~k* +get\n# comment\nUSER alice on nopass ~a +@all -get\nhz 30\n\nuser carol off\n\
                user 'd' on +get\n";
    for (name, setup) in [
        ("same", &[][..]),
        ("fewer", &["ACL DELUSER alice carol", "ACL SETUSER zoe (~x* +set) db=1,2"]),
        (
            "more",
            &["ACL SETUSER \u{e9}v\u{e9} on #zz", "ACL SETUSER m on >p resetkeys %R~a*", "ACL SETUSER b on"],
        ),
    ] {
        let mut peer = Peer::start(&binary, &format!("users-{name}"), text);
        let file = peer.dir.join("peer.conf");
        let old = std::fs::read(&file).expect("the config file");
        let config = parse_file(&old, "peer.conf", b"", &mut |_: &[u8]| Ok(Vec::new())).expect("it loads");
        for request in setup {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            peer.ask(&words);
        }
        let users = peer.ask(&[b"ACL", b"LIST"]);
        assert_eq!(peer.ask(&[b"CONFIG", b"REWRITE"]), [b"+OK"]);
        let ours = rewrite(Some(&old), &config, &users, Force::Changed);
        let theirs = std::fs::read(&file).expect("the config file");
        let of = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            let kept = text.lines().take_while(|line| !line.starts_with("# Generated"));
            let added = text.lines().skip_while(|line| !line.starts_with("# Generated"));
            let added = added.filter(|line| line.starts_with("user "));
            let mut kept: Vec<_> = kept.map(str::to_string).collect();
            // The reference counts an empty line after the last line break.
            kept.pop_if(|line| line.is_empty());
            kept.into_iter().chain(added.map(str::to_string)).collect::<Vec<_>>()
        };
        assert_eq!(of(&ours), of(&theirs), "{name}");
        assert_eq!(comparable(&ours), comparable(&theirs), "{name}");
    }
}
