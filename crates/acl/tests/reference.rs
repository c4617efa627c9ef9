//! Random rules, user files and categories are given to Sluice and to the reference, a Valkey server, and
//! errors, texts and decisions are compared. The tests only run if `SLUICE_PEER_SERVER` names the program of
//! the reference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use sluice_acl::Users;
use sluice_base::Rng;
use sluice_command::{Named, resolve};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of reference servers that this process has started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A server that is killed on drop, and whose socket file is then removed.
struct Killed {
    child: Child,
    socket: PathBuf,
}

struct Reference {
    _child: Killed,
    stream: BufReader<UnixStream>,
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Reference {
    fn start() -> Option<Reference> {
        Reference::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Option<Reference> {
        let Ok(binary) = std::env::var("SLUICE_PEER_SERVER") else {
            println!("skipped: SLUICE_PEER_SERVER names no reference");
            return None;
        };
        // Another test could take a free port before the reference binds it; the name of a socket is unique
        // to this server.
        let number = STARTED.fetch_add(1, Relaxed);
        let name = format!("sluice-acl-{}-{number}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&socket);
        let child = Killed {
            child: Command::new(binary)
                .args(["--port", "0", "--unixsocket", &socket.to_string_lossy(), "--save", ""])
                .args(["--logfile", "/dev/null", "--loglevel", "nothing"])
                .args(arguments)
                .current_dir(std::env::temp_dir())
                .spawn()
                .unwrap(),
            socket: socket.clone(),
        };
        for _ in 0..500 {
            if let Ok(stream) = UnixStream::connect(&socket) {
                return Some(Reference { _child: child, stream: BufReader::new(stream) });
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the reference does not answer");
    }

    /// Sends a command and returns its reply. An array becomes its elements, each followed by a line end.
    fn call(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend(format!("${}\r\n", arg.len()).into_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).unwrap();
        line.truncate(line.len().saturating_sub(2));
        let count = || std::str::from_utf8(&line[1..]).unwrap().parse::<i64>().unwrap();
        match line.first() {
            Some(b'$') => {
                let mut text = vec![0; count() as usize + 2];
                self.stream.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                text
            }
            Some(b'*') => (0..count()).flat_map(|_| [self.reply(), b"\n".to_vec()].concat()).collect(),
            _ => line,
        }
    }
}

const RULES: &[&str] = &[
    "on",
    "OFF",
    "nopass",
    "resetpass",
    "reset",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "allkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "alldbs",
    "resetdbs",
    "allcommands",
    "nocommands",
    "~*",
    "~a*",
    "~key:1",
    "~a*",
    "%R~a*",
    "%W~a*",
    "%RW~b*",
    "%wr~c",
    "%R~*",
    "%R",
    "%~x",
    "%RR~x",
    "%X~x",
    "%W~",
    "~a b",
    "~",
    "&*",
    "&ch*",
    "&news",
    "&news",
    "&a b",
    "&",
    "+@all",
    "-@all",
    "+@read",
    "-@write",
    "+@STRING",
    "-@string",
    "+@nosuch",
    "-@nosuch",
    "+@",
    "-@slow",
    "+@fast",
    "+@dangerous",
    "-@dangerous",
    "+@connection",
    "-@keyspace",
    "+@pubsub",
    "-@admin",
    "+@scripting",
    "-@blocking",
    "+get",
    "-get",
    "+GET",
    "+set",
    "-set",
    "+config",
    "-config",
    "+config|get",
    "-config|get",
    "+CONFIG|GET",
    "+config|set",
    "-config|set",
    "+config|nosuch",
    "+config|",
    "+config|get|x",
    "+nosuch",
    "-nosuch",
    "+nosuch|x",
    "+select|0",
    "+select|1",
    "-select|0",
    "-select",
    "+select",
    "+select|",
    "+get|a",
    "+get|A",
    "+get|a|b",
    "+eval",
    "+publish",
    "+subscribe",
    "+psubscribe",
    "-publish",
    "+client",
    "-client|kill",
    "+client|id",
    "+acl|whoami",
    "+copy",
    "+move",
    "+swapdb",
    "+flushall",
    "-flushall",
    "+mget",
    "+",
    "-",
    "",
    "+ get",
    "-acl",
    "-acl|list",
    "db=0",
    "db=1,0",
    "db=1,1,3",
    "db=",
    "db=,1",
    "db=1,",
    "db=1,,2",
    "db=x",
    "db=-1",
    "db=99999999999999999999",
    "db=2147483647",
    "db=2147483648",
    "DB=2",
    "db= 3",
    "db=+4",
    "db=-0",
    "db=1 ",
    "db=15",
    ">pw",
    ">other",
    "<pw",
    "<other",
    "<none",
    "#nothash",
    "!nothash",
    "#",
    ">",
    "#c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2",
    "!c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2",
    "#C3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2",
    "(",
    ")",
    "()",
    "(+get",
    "~x)",
    "(~a* +get)",
    "(+set %W~b* db=1)",
    "(%R~a* +@read)",
    "(on)",
    "(+nosuch)",
    "(&x +publish)",
    "(+get|a)",
    "(db=x)",
    "(~* ~a)",
    "(allchannels +@all -config|set)",
    "(\"~q\" +get)",
    "(\"~q +get)",
    "nonsense",
    "+config|get +get",
    "*",
];

/// Calls for which decisions are compared. PFMERGE with only a target is left out, because the reference
/// checks no rights for that key, whereas Sluice does.
const CALLS: &[&[&str]] = &[
    &["get", "a1"],
    &["get", "b1"],
    &["get", "A"],
    &["set", "a1", "v"],
    &["set", "b1", "v"],
    &["set", "a1", "v", "get"],
    &["mget", "a1", "b1", "z"],
    &["config", "get", "x"],
    &["config", "set", "x", "y"],
    &["select", "0"],
    &["select", "1"],
    &["select", "99"],
    &["select", "x"],
    &["publish", "news", "x"],
    &["publish", "ch1", "x"],
    &["subscribe", "news", "no"],
    &["psubscribe", "ch*"],
    &["psubscribe", "news*"],
    &["spublish", "x", "y"],
    &["ssubscribe", "ch1"],
    &["unsubscribe", "zz"],
    &["copy", "a1", "b1"],
    &["copy", "a1", "a2", "db", "1"],
    &["copy", "a1", "a2", "DB", "3"],
    &["move", "a1", "1"],
    &["move", "a1", "x"],
    &["swapdb", "0", "1"],
    &["swapdb", "1", "3"],
    &["flushall"],
    &["flushdb"],
    &["dbsize"],
    &["keys", "*"],
    &["ping"],
    &["auth", "x"],
    &["hello"],
    &["client", "id"],
    &["client", "kill", "x"],
    &["acl", "list"],
    &["eval", "return 1", "1", "a1"],
    &["eval", "return 1", "0"],
    &["fcall", "f", "1", "zz"],
    &["sort", "a1", "store", "b1"],
    &["bitfield", "a1", "get", "u8", "0"],
    &["bitfield", "b1", "set", "u8", "0", "1"],
    &["xread", "streams", "a1", "b1", "0", "0"],
    &["zunionstore", "b1", "2", "a1", "a2"],
    &["del", "a1", "c"],
    &["rename", "a1", "b1"],
    &["lmpop", "1", "a1", "left"],
    &["pfmerge", "a1", "b1"],
    &["pfcount", "a1"],
    &["time"],
    &["migrate", "h", "1", "a1", "0", "9"],
    &["object", "encoding", "a1"],
    &["memory", "usage", "b1"],
    &["georadius", "a1", "0", "0", "1", "m", "store", "b1"],
    &["multi"],
    &["scan", "0"],
    &["debug", "sleep", "0"],
    &["flushall", "async"],
    &["info"],
    &["swapdb", "1", "1"],
    &["swapdb", "1", "x"],
    &["copy", "a1", "1", "db", "1", "more"],
    &["copy", "a1", "1", "replace", "db", "1"],
    &["copy", "a1", "a2", "db", "-1", "db", "1"],
    &["copy", "a1", "a2", "db", "99"],
    &["copy", "a1", "a2", "db", "1", "db", "2"],
];

fn differ(reference: &mut Reference, seed: u64, rounds: usize) {
    let mut rng = Rng::new(seed);
    let mut users = Users::new(false);
    let has_acl = sluice_command::lookup(b"acl").is_some();
    reference.call(&[b"ACL", b"DELUSER", b"u"]);
    for round in 0..rounds {
        let count = 1 + rng.below(4);
        let mut rules: Vec<&[u8]> =
            (0..count).map(|_| RULES[rng.below(RULES.len() as u64) as usize].as_bytes()).collect();
        rules.retain(|rule| has_acl || !rule[1.min(rule.len())..].starts_with(b"acl"));
        let shown: Vec<_> = rules.iter().map(|rule| String::from_utf8_lossy(rule)).collect();
        let there = reference.call(&[&[&b"ACL"[..], b"SETUSER", b"u"], rules.as_slice()].concat());
        let here = match users.set_user(b"u", rules.iter().copied()) {
            Ok(_) => b"+OK".to_vec(),
            Err(error) => [b"-ERR ", error.text().as_slice()].concat(),
        };
        let context = || format!("seed {seed}, round {round}, {shown:?}");
        assert_eq!(String::from_utf8_lossy(&here), String::from_utf8_lossy(&there), "{}", context());
        let Some(user) = users.get(b"u").cloned() else { continue };
        let list: Vec<u8> = users.iter().flat_map(|user| [user.line(), b"\n".to_vec()].concat()).collect();
        let there = reference.call(&[b"ACL", b"LIST"]);
        assert_eq!(String::from_utf8_lossy(&list), String::from_utf8_lossy(&there), "{}", context());

        for _ in 0..4 {
            let call: Vec<_> =
                CALLS[rng.below(CALLS.len() as u64) as usize].iter().map(|arg| arg.as_bytes()).collect();
            // Calls of ACL commands are skipped if the command table does not have these commands.
            let Named::Command(spec) = resolve(&call) else {
                assert_eq!(call[0], b"acl", "{call:?}");
                continue;
            };
            let there = reference.call(&[&[&b"ACL"[..], b"DRYRUN", b"u"], call.as_slice()].concat());
            let here = match user.check_args(spec, &call, 0, 16) {
                Ok(()) => b"+OK".to_vec(),
                Err(denial) => denial.dryrun_text(b"u", spec, &call),
            };
            let line = String::from_utf8(user.line()).unwrap();
            let name = String::from_utf8_lossy(&call.join(&b' ')).into_owned();
            assert_eq!(
                String::from_utf8_lossy(&here),
                String::from_utf8_lossy(&there),
                "{}\n{line}\n{name}",
                context()
            );
        }
    }
}

#[test]
fn random_rules_do_as_in_the_reference() {
    let Some(mut reference) = Reference::start() else { return };
    for seed in 0..40 {
        differ(&mut reference, seed, 100);
    }
}

/// Texts of user files, with and without faults.
const FILES: &[&str] = &[
    "",
    "\n\n  \n",
    "user default on nopass ~* &* +@all\nuser a on >p ~x +get\n",
    "user a on\n\nuser b  off   +get \r\n",
    "# comment\nuser a\n",
    "users a\n",
    "USER a\n",
    "user\n",
    "user \t on\n",
    "user a\nuser a on\n",
    "user a +nosuch -nope ~*  ~a\nuser b db=x\nuser c on\n",
    "user a (+get\n",
    "user a (+get ~a*) (~b +set)\n",
    "user a #bad ~* ~a\n\nuser b <x\n",
    "user a +config|get|x\n",
    "  user a on  ",
    "user a (+nosuch ~*)\nuser b &* &x\n",
    "user \"a\" on\n",
    "user default off +@all\n",
    "user a db=99999999999\nuser b +get\tx\n",
    "user a \ton\t +get\n",
];

#[test]
fn files_are_read_as_in_the_reference() {
    let path = std::env::temp_dir().join(format!("sluice-acl-{}.acl", std::process::id()));
    std::fs::write(&path, "").unwrap();
    let name = path.to_str().unwrap();
    let Some(mut reference) = Reference::start_with(&["--aclfile", name]) else { return };
    for file in FILES {
        std::fs::write(&path, file).unwrap();
        let there = [reference.call(&[b"ACL", b"LOAD"]), reference.call(&[b"ACL", b"LIST"])];
        let here = match Users::parse_file(file.as_bytes(), name.as_bytes(), false) {
            Ok(users) => [
                b"+OK".to_vec(),
                users.iter().flat_map(|user| [user.line(), b"\n".to_vec()].concat()).collect(),
            ],
            Err(text) => [[b"-ERR ", text.as_slice()].concat(), there[1].clone()],
        };
        assert_eq!(
            String::from_utf8_lossy(&here.concat()),
            String::from_utf8_lossy(&there.concat()),
            "{file:?}"
        );
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn every_category_has_the_commands_of_the_reference() {
    let Some(mut reference) = Reference::start() else { return };
    let categories = reference.call(&[b"ACL", b"CAT"]);
    for category in categories.split(|&byte| byte == b'\n').filter(|name| !name.is_empty()) {
        let mut users = Users::new(false);
        let rule = [b"+@", category].concat();
        users.set_user(b"u", [&b"allkeys"[..], &rule].into_iter()).unwrap();
        reference.call(&[b"ACL", b"SETUSER", b"u", b"reset", b"allkeys", &rule]);
        for spec in sluice_command::table::ALL {
            let arity = spec.arity.wire().unsigned_abs() as usize;
            let mut call: Vec<_> = spec.full_name.as_bytes().split(|&byte| byte == b'|').collect();
            call.resize(arity.max(call.len()), b"1");
            let Named::Command(found) = resolve(&call) else { continue };
            let there = reference.call(&[&[&b"ACL"[..], b"DRYRUN", b"u"], call.as_slice()].concat());
            let here = match users.get(b"u").unwrap().check_args(found, &call, 0, 16) {
                Ok(()) => b"+OK".to_vec(),
                Err(denial) => denial.dryrun_text(b"u", found, &call),
            };
            let (here, there) = (String::from_utf8_lossy(&here), String::from_utf8_lossy(&there));
            // Skips commands that only Sluice has, or that the reference has only in its sentinel mode.
            if there.starts_with("-ERR Command") {
                continue;
            }
            assert_eq!(here, there, "{} by {}", spec.full_name, String::from_utf8_lossy(&rule));
        }
    }
}
