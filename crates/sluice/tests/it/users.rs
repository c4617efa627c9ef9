//! Users of a whole server: their sources, their files, and the secrets that must not be shown.

use crate::common::{self, Client, DEADLINE, Dir, Server, free_port, run, until};
use std::io::Read;
use std::process::Command;
use std::time::Instant;

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
/// The canonical rule of the password `secret`.
const SECRET: &str = "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
const OPEN_DEFAULT: &str = "user default on nopass ~* &* +@all";

/// Starts a server with this configuration file, which also sets `port`, `dir` and `save`; the server is
/// ready to accept.
fn configured(dir: Dir, text: &str, arguments: &[&str]) -> Server {
    let port = free_port();
    let file = dir.file("server.conf", &format!("port {port}\ndir {}\nsave ''\n{text}", dir.join("")));
    let mut command = Command::new(common::BINARY);
    command.arg(&file).args(common::arm()).args(arguments);
    let server = Server::spawn(command, port, dir);
    let ready = server.log.wait("Ready to accept");
    assert!(ready.is_some(), "{}\n{}", server.log.all(), server.stderr.all());
    server
}

/// Ends a server and starts it again with the file that it has written.
fn restarted(server: Server) -> Server {
    let text = std::fs::read_to_string(server.dir.path().join("server.conf")).unwrap();
    let (mut server, dir) = (server, Dir::new());
    for entry in std::fs::read_dir(server.dir.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let old = server.dir.path().display().to_string();
    let new = dir.path().display().to_string();
    let own = ["port ", "dir ", "save "];
    let kept: Vec<&str> =
        text.lines().filter(|line| !own.iter().any(|name| line.starts_with(name))).collect();
    configured(dir, &kept.join("\n").replace(&old, &new), &[])
}

/// The lines of ACL LIST.
fn users(client: &mut Client) -> Vec<String> {
    client.send("ACL LIST\r\n");
    let count: usize = client.line().strip_prefix('*').unwrap().parse().unwrap();
    let mut next = || {
        client.line();
        client.line()
    };
    (0..count).map(|_| next()).collect()
}

/// The lines of the configuration file that define users.
fn user_lines(server: &Server) -> Vec<String> {
    let text = std::fs::read_to_string(server.dir.path().join("server.conf")).unwrap();
    text.lines().filter(|line| line.starts_with("user ")).map(str::to_owned).collect()
}

/// The log and standard error of a start, which must fail.
fn failure(arguments: &[&str]) -> String {
    let port = free_port().to_string();
    let (out, err, success) = run(&[arguments, &["--port", &port]].concat(), "");
    assert!(!success, "{out}{err}");
    out + &err
}

#[test]
fn users_of_lines_and_of_the_command_line_may_do_what_these_say() {
    let server = configured(
        Dir::new(),
        "user alice on >secret ~a* +get +set\nuser lazy >x +@all\n",
        &["--user", "bob", "on", "nopass", "-@all", "+ping", "--requirepass", "other"],
    );
    let mut client = server.client();
    client.check("PING", NOAUTH).check("AUTH secret", WRONGPASS).check("AUTH alice wrong", WRONGPASS);
    client.check("AUTH alice secret", "+OK\r\n").check("SET a1 v", "+OK\r\n");
    client.check("SET b1 v", "-NOPERM No permissions to access a key\r\n");
    client.check("PING", "-NOPERM User alice has no permissions to run the 'ping' command\r\n");
    client.check("AUTH lazy x", WRONGPASS).check("AUTH bob anything", "+OK\r\n").check("PING", "+PONG\r\n");
    client.check("AUTH other", "+OK\r\n");
    let line = server.log.wait("The user 'lazy' is disabled").unwrap();
    assert!(line.contains(" * "), "{line}");
    assert_eq!(users(&mut client).len(), 4);
}

#[test]
fn a_faulty_user_ends_the_start() {
    let dir = Dir::new();
    let file = dir.file("a.conf", "hz 10\nuser alice on\nuser alice off\n");
    assert!(failure(&[&file]).contains(
        "\n*** FATAL CONFIG FILE ERROR (Version 9.1.2) ***\nReading the configuration file, at line 3\n>>> 'user alice off'\n\
         Error in user declaration 'alice': Duplicate user found. A user can only be defined once in config files\n"
    ));
    let told = failure(&["--user", "alice", "on", "zzz"]);
    assert!(
        told.contains(
            ">>> 'user \"alice\" \"on\" \"zzz\"'\nError in user declaration 'alice': Syntax error\n"
        ),
        "{told}"
    );
    let told = failure(&["--user", "alice", "on", "+nope"]);
    assert!(
        told.contains(
            "Error loading ACL rule '+nope' for the user named 'alice': Unknown command or category"
        ) && told.contains("Critical error while loading ACLs. Exiting."),
        "{told}"
    );
    let told = failure(&["--user", "alice", "on", ">hid den", "zzz"]);
    assert!(
        told.contains(r#">>> 'user "alice" "on" ">(redacted) "zzz"'"#) && !told.contains("hid"),
        "{told}"
    );
    // One argument is one word, so `alice on` is a name with a blank in it.
    assert!(failure(&["--user", "alice on"]).contains("Spaces not allowed in ACL usernames"));
    let acl = dir.file("users.acl", "user a on\n");
    let told = failure(&["--aclfile", &acl, "--user", "b", "on"]);
    assert!(told.contains("please define either an ACL file or declare users directly"), "{told}");
    let aborting = "Aborting Valkey startup because of ACL errors: ";
    let missing = dir.join("missing.acl");
    let told = failure(&["--aclfile", &missing]);
    let text = format!("{aborting}Error loading ACLs, opening file '{missing}': No such file or directory");
    assert!(told.contains(&text), "{told}");
    let bad = dir.file("bad.acl", "user a on\nuser b +nope\n");
    let told = failure(&["--aclfile", &bad]);
    assert!(told.contains(&format!("{aborting}{bad}:2: Error in applying operation '+nope'")), "{told}");
}

#[test]
fn a_check_judges_users_and_their_file() {
    let dir = Dir::new();
    let port = free_port();
    let text = format!("port {port}\nuser a on +nope\nuser b on\nuser b on\nuser c off\n");
    let file = dir.file("a.conf", &text);
    let (out, err, success) = run(&["--check-config", &file], "");
    assert!(!success);
    let rule =
        "Error loading ACL rule '+nope' for the user named 'a': Unknown command or category name in ACL";
    assert!(err.contains(&format!("error: {file}:2: {rule}: 'user a on +nope'\n")), "{err}");
    assert!(err.contains(&format!("error: {file}:4: Error in user declaration 'b': Duplicate")), "{err}");
    assert!(err.contains("configuration has 2 errors"), "{err}");
    assert!(out.contains(&format!("warning: {file}:5: The user 'c' is disabled")), "{out}");
    let file = dir.file("secret.conf", "user d on >hidden +get (+set\nrole q >hidden\n");
    let (out, err, _) = run(&["--check-config", &file], "");
    assert!(err.contains("Error in role declaration 'q': Syntax error: 'role q >(redacted)'\n"), "{err}");
    assert!(!format!("{out}{err}").contains("hidden"), "{out}{err}");
    // The path of the ACL file is relative to `dir`.
    dir.file("users.acl", "user a on\nnonsense\n");
    let text = format!("port {port}\ndir {}\naclfile users.acl\nrequirepass x\n", dir.join(""));
    let file = dir.file("b.conf", &text);
    let (_, err, success) = run(&["--check-config", &file], "");
    assert!(!success);
    assert!(err.contains(&format!("error: {file}:3: users.acl:2 should start with user keyword")), "{err}");
    dir.file("users.acl", "user a on\n");
    let (out, err, success) = run(&["--check-config", &file], "");
    assert!(success, "{err}");
    assert!(out.contains("WARNING: requirepass has no effect"), "{out}");
}

#[test]
fn a_file_of_users_is_loaded_and_saved_while_clients_go_on() {
    let dir = Dir::new();
    let acl = dir.file("users.acl", "user alice on nopass ~* +@all\nuser bob on nopass ~* +@all\n");
    let server = configured(dir, &format!("aclfile {acl}\n"), &[]);
    let (mut admin, mut alice, mut bob) = (server.client(), server.client(), server.client());
    alice.check("AUTH alice x", "+OK\r\n").check("SET k v", "+OK\r\n");
    bob.check("AUTH bob x", "+OK\r\n").check("PING", "+PONG\r\n");
    // An invalid file changes nothing.
    let whole = std::fs::read_to_string(&acl).unwrap();
    std::fs::write(&acl, "user alice on nopass ~* +get\nuser carol zzz\n").unwrap();
    admin.check(
        "ACL LOAD",
        format!(
            "-ERR {acl}:2: Syntax error. WARNING: ACL errors detected, no change to the previously active ACL rules was \
             performed\r\n"
        ),
    );
    alice.check("SET k v", "+OK\r\n");
    bob.check("PING", "+PONG\r\n");
    // A valid file takes rights away from remaining users, and closes the connections of deleted users.
    std::fs::write(&acl, "user alice on nopass ~* +get\n").unwrap();
    admin.check("ACL LOAD", "+OK\r\n");
    alice.check("SET k v", "-NOPERM User alice has no permissions to run the 'set' command\r\n");
    alice.check("GET k", "$1\r\nv\r\n");
    bob.expect_end();
    assert_eq!(users(&mut admin), ["user alice on nopass ~* resetchannels -@all +get", OPEN_DEFAULT]);
    // ACL SAVE writes the present users, and a start loads them.
    admin.check("ACL SETUSER dora on >secret (%R~x* +get)", "+OK\r\n").check("ACL SAVE", "+OK\r\n");
    let saved = std::fs::read_to_string(&acl).unwrap();
    assert_ne!(saved, whole);
    assert_eq!(saved, users(&mut admin).join("\n") + "\n");
    let before = users(&mut admin);
    let server = restarted(server);
    let mut admin = server.client();
    assert_eq!(users(&mut admin), before);
    admin.check("AUTH dora secret", "+OK\r\n");
    // A missing file is an error, and changes nothing.
    let mut admin = server.client();
    let acl = server.dir.join("users.acl");
    std::fs::remove_file(&acl).unwrap();
    admin.check(
        "ACL LOAD",
        format!("-ERR Error loading ACLs, opening file '{acl}': No such file or directory\r\n"),
    );
    assert_eq!(users(&mut admin), before);
    // A file that cannot be written is an error, too.
    std::fs::create_dir(&acl).unwrap();
    let text = "-ERR There was an error trying to save the ACLs. Please check the server logs for more information\r\n";
    admin.check("ACL SAVE", text);
    assert!(server.log.wait("Is a directory").is_some());
    let left: Vec<_> =
        std::fs::read_dir(server.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[test]
fn with_a_file_of_users_requirepass_is_what_was_said_last() {
    let dir = Dir::new();
    let acl = dir.file("users.acl", "user alice on\n");
    let server = configured(dir, &format!("aclfile {acl}\nrequirepass first\n"), &[]);
    let warned =
        server.log.wait("WARNING: requirepass has no effect: the default user of the ACL file").unwrap();
    assert!(warned.contains("has no password") && !warned.contains("first"), "{warned}");
    let mut client = server.client();
    client.check("PING", "+PONG\r\n").check("CONFIG SET requirepass secret", "+OK\r\n");
    let mut other = server.client();
    other.check("PING", NOAUTH).check("AUTH first", WRONGPASS).check("AUTH secret", "+OK\r\n");
    other.check("ACL LOAD", "+OK\r\n");
    server.client().check("PING", "+PONG\r\n");
    // A password that ACL SAVE has written is kept by ACL LOAD.
    other.check("CONFIG SET requirepass \"\"", "+OK\r\n").check("CONFIG SET requirepass secret", "+OK\r\n");
    other.check("ACL SAVE", "+OK\r\n").check("ACL LOAD", "+OK\r\n");
    server.client().check("PING", NOAUTH);
    // Users of the ACL file are not written to the configuration.
    other.check("CONFIG REWRITE", "+OK\r\n");
    assert_eq!(user_lines(&server), Vec::<String>::new());
    let server = restarted(server);
    server.client().check("PING", NOAUTH).check("AUTH secret", "+OK\r\n");
    assert!(!server.log.so_far().contains("has no effect: the default user"));
}

#[test]
fn a_rewrite_writes_users_that_the_next_start_has() {
    let server = configured(Dir::new(), "user alice on >secret ~* +@all\n# ours\nuser bob off\n", &[]);
    let mut client = server.client();
    client.check("ACL DELUSER bob", ":1\r\n");
    client.check("ACL SETUSER \"it's\" on >secret '~a\"b' \"(~'c\\\"d' +get)\" &x db=1,2", "+OK\r\n");
    client.check("ACL SETUSER zoe on >secret +@all -config|set ~k", "+OK\r\n");
    client.check("CONFIG SET requirepass secret", "+OK\r\n").check("CONFIG REWRITE", "+OK\r\n");
    let before = users(&mut client);
    let text = std::fs::read_to_string(server.dir.path().join("server.conf")).unwrap();
    assert!(
        text.contains(&format!(
            "\nuser alice on {SECRET} ~* resetchannels +@all\n# ours\nuser default on {SECRET} "
        )),
        "{text}"
    );
    client.check("CONFIG REWRITE", "+OK\r\n");
    assert_eq!(std::fs::read_to_string(server.dir.path().join("server.conf")).unwrap(), text);
    let server = restarted(server);
    let mut client = server.client();
    client.check("PING", NOAUTH).check("AUTH secret", "+OK\r\n");
    assert_eq!(users(&mut client), before);
    assert_eq!(before.len(), 4);
}

#[test]
fn roles_of_lines_and_files_are_saved_loaded_and_rewritten() {
    let server = configured(Dir::new(), "user alice on nopass role=reader\nrole reader +@all ~k*\n", &[]);
    let mut client = server.client();
    client.check("ACL SETROLE zone ~z (+get ~a)", "+OK\r\n").check("ACL SETUSER bob role=zone", "+OK\r\n");
    client.check("CONFIG REWRITE", "+OK\r\n");
    let before = users(&mut client);
    let server = restarted(server);
    let mut client = server.client();
    assert_eq!(users(&mut client), before);
    assert_eq!(before.len(), 5);
    client.check("AUTH alice x", "+OK\r\n").check("SET k v", "+OK\r\n");
    client.check("SET z v", "-NOPERM No permissions to access a key\r\n");
    let dir = Dir::new();
    let acl = dir.file("users.acl", &format!("{}\n", before.join("\n")));
    let server = configured(dir, "", &["--aclfile", &acl]);
    let mut client = server.client();
    assert_eq!(users(&mut client), before);
    client.check("ACL SETROLE reader -@all", "+OK\r\n").check("ACL SAVE", "+OK\r\n");
    client.check("ACL SETUSER alice resetroles", "+OK\r\n").check("ACL DELROLE reader", ":1\r\n");
    client.check("ACL LOAD", "+OK\r\n");
    assert_eq!(users(&mut client).len(), 5);
    client
        .check("ACL DRYRUN alice GET k", "$54\r\nUser alice has no permissions to run the 'get' command\r\n");
    let file = server.dir.file("bad.conf", "role on +get\nrole on +get\n");
    let told = failure(&[&file]);
    assert!(told.contains("Error in role declaration 'on': Duplicate role found."), "{told}");
}

#[test]
fn a_rewrite_leaves_users_of_other_files_where_they_are() {
    let dir = Dir::new();
    let inner = dir.file("inner.conf", "user inner on nopass +ping\n");
    let server = configured(dir, &format!("user own on\ninclude {inner}\n"), &["--user", "word", "on"]);
    let mut client = server.client();
    client.check("ACL SETUSER own +get", "+OK\r\n").check("CONFIG REWRITE", "+OK\r\n");
    assert_eq!(user_lines(&server), [OPEN_DEFAULT, "user own on resetchannels -@all +get"]);
    for change in ["ACL SETUSER inner off", "ACL DELUSER inner"] {
        client.send(format!("{change}\r\n")).line();
        client.check(
            "CONFIG REWRITE",
            format!(
                "-ERR Rewriting config file: user 'inner' of the included file '{inner}' has changed since the start\r\n"
            ),
        );
    }
    client.check("ACL SETUSER inner on nopass +ping", "+OK\r\n").check("CONFIG REWRITE", "+OK\r\n");
    client.check("ACL SETUSER word off", "+OK\r\n");
    client.check(
        "CONFIG REWRITE",
        "-ERR Rewriting config file: user 'word' of the command line has changed since the start\r\n",
    );
    let server = restarted(server);
    let mut client = server.client();
    client.check("AUTH inner x", "+OK\r\n").check("PING", "+PONG\r\n");
}

/// An address of this machine other than the loopback address; `None` if it has no other.
fn outer_address() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // No packet is sent; the kernel only chooses the source address.
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

#[test]
fn protected_mode_looks_at_the_default_user() {
    let Some(address) = outer_address() else {
        println!("skipped: this machine has no other address than the loopback's");
        return;
    };
    let dir = Dir::new();
    let acl = dir.file("users.acl", "user alice on\n");
    let server = configured(dir, &format!("aclfile {acl}\nrequirepass first\n"), &[]);
    let mut client = server.client();
    let denied = || {
        let mut stranger = Client::to(&address, server.port);
        let mut first = [0; 7];
        let read = stranger.stream.read_exact(&mut first);
        read.is_ok() && first == *b"-DENIED"
    };
    assert!(denied(), "the file's default user has no password, whatever requirepass says");
    client.check("ACL SETUSER default >secret", "+OK\r\n");
    Client::to(&address, server.port).check("PING", NOAUTH);
    client.check("ACL SETUSER default nopass off", "+OK\r\n");
    assert!(denied(), "as in the reference, a disabled user without a password guards nothing");
}

#[test]
fn a_replica_names_the_user_that_it_acts_as() {
    let primary = Server::start(&["--requirepass", "other", "--repl-diskless-sync", "yes"]);
    let mut there = primary.client();
    there.check("AUTH other", "+OK\r\n");
    there
        .check("ACL SETUSER copier on >secret +psync +replconf +ping", "+OK\r\n")
        .check("SET k v", "+OK\r\n");
    let port = primary.port.to_string();
    let follow = ["--replicaof", "127.0.0.1", &port, "--primaryuser", "copier"];
    let replica = Server::start(&[&follow[..], &["--primaryauth", "secret"]].concat());
    let mut here = replica.client();
    until("the data", || {
        here.send("GET k\r\n");
        match here.line().as_str() {
            "$1" => Some(here.line()),
            _ => None,
        }
    });
    assert_eq!(here.info("master_link_status"), "up");
    assert!(String::from_utf8(there.bulk("CLIENT LIST TYPE replica")).unwrap().contains(" user=copier "));
    // Deleting a user closes the connection of the replica that acts as this user.
    there.check("ACL DELUSER copier", ":1\r\n");
    until("the link's end", || (here.info("master_link_status") == "down").then_some(()));
    assert!(replica.log.wait("WRONGPASS").is_some());
    // A user without the rights is refused, and the log has the reason.
    there.check("ACL SETUSER copier on >secret +ping", "+OK\r\n");
    assert!(replica.log.wait("NOPERM").is_some(), "{}", replica.log.so_far());
    there.check("ACL SETUSER copier +psync +replconf", "+OK\r\n");
    until("the link", || (here.info("master_link_status") == "up").then_some(()));
    assert!(!replica.log.so_far().contains("secret") && !primary.log.so_far().contains("secret"));
}

/// Collects everything that an observer of a server can see of its clients' commands.
struct Watched {
    server: Server,
    monitor: Client,
    /// Replies of commands that show other clients' commands.
    shown: Vec<u8>,
}

impl Watched {
    fn look(&mut self) {
        let mut client = self.server.client();
        client.check("AUTH admin hush-admin", "+OK\r\n");
        let asked = ["CLIENT LIST", "INFO everything", "ACL LIST"];
        let logs = [
            "SLOWLOG GET -1",
            "COMMANDLOG GET -1 large-request",
            "COMMANDLOG GET -1 large-reply",
            "ACL LOG 1000",
        ];
        for line in asked.iter().chain(&logs) {
            client.send(format!("{line}\r\n"));
        }
        client.send("ECHO end-of-look\r\n");
        read_to(&mut client, b"$11\r\nend-of-look\r\n", &mut self.shown);
    }
}

/// Reads up to this text, which is included.
fn read_to(client: &mut Client, end: &[u8], into: &mut Vec<u8>) {
    let began = Instant::now();
    let mut piece = [0; 65536];
    while !into.ends_with(end) {
        assert!(began.elapsed() < DEADLINE);
        let read = client.stream.read(&mut piece).unwrap();
        assert!(read > 0, "the connection ended");
        into.extend_from_slice(&piece[..read]);
    }
}

/// The beginning of each password that the test uses.
const HUSH: &[u8] = b"hush-";

fn has_password(text: &[u8]) -> Option<String> {
    let at = text.windows(HUSH.len()).position(|part| part == HUSH)?;
    Some(String::from_utf8_lossy(&text[at.saturating_sub(200)..(at + 60).min(text.len())]).into_owned())
}

#[test]
fn no_password_is_seen_by_whoever_looks() {
    let server = Server::start(&[
        "--loglevel",
        "debug",
        "--hide-user-data-from-log",
        "no",
        "--commandlog-execution-slower-than",
        "0",
        "--commandlog-request-larger-than",
        "0",
        "--commandlog-reply-larger-than",
        "0",
        "--latency-monitor-threshold",
        "1",
        "--requirepass",
        "hush-require",
        "--primaryauth",
        "hush-primary",
        "--user",
        "admin",
        "on",
        ">hush-admin",
        "+@all",
        "~*",
        "&*",
    ]);
    let mut monitor = server.client();
    monitor.check("AUTH admin hush-admin", "+OK\r\n").check("MONITOR", "+OK\r\n");
    let mut watched = Watched { server, monitor, shown: Vec::new() };
    let mut client = watched.server.client();
    let nobody = free_port();
    // Each entry is a line to send, and the beginning of its reply.
    let lines = [
        ("AUTH hush-wrong", "-WRONGPASS"),
        ("AUTH default hush-wrong", "-WRONGPASS"),
        ("AUTH a hush-wrong c", "-ERR"),
        ("AUTH hush-require", "+OK"),
        ("AUTH nobody hush-nobody", "-WRONGPASS"),
        ("auth admin hush-admin", "+OK"),
        ("HELLO 2 AUTH admin hush-hello", "-WRONGPASS"),
        ("HELLO 9 AUTH admin hush-admin", "-NOPROTO"),
        ("HELLO 2 SETNAME x AUTH admin hush-admin", "*14"),
        ("HELLO 2 AUTH admin hush-admin SETNAME", "-ERR"),
        ("ACL SETUSER bob on >hush-bob +@all ~*", "+OK"),
        ("acl setuser bob <hush-bob >hush-other", "+OK"),
        ("ACL SETUSER bob <hush-unknown", "-ERR"),
        ("ACL SETUSER bob >hush-bob nonsense", "-ERR"),
        ("ACL SETUSER bob (>hush-selector)", "-ERR"),
        ("ACL SETUSER bob (>hush-selector", "-ERR"),
        ("ACL SETUSER", "-ERR"),
        ("CONFIG SET requirepass hush-later", "+OK"),
        ("CONFIG SET maxclients 1000 requirepass hush-require", "+OK"),
        ("CONFIG SET nonsense 1 requirepass hush-refused", "-ERR"),
        ("CONFIG SET requirepass hush-odd hz", "-ERR"),
        ("CONFIG SET primaryauth hush-primary primaryuser hush-user", "+OK"),
        ("CONFIG SET masterauth hush-primary", "+OK"),
        ("SET k v", "+OK"),
        ("MIGRATE 127.0.0.1 {nobody} k 0 100 AUTH hush-migrate", "-IOERR"),
        ("MIGRATE 127.0.0.1 {nobody} k 0 100 AUTH2 bob hush-migrate", "-IOERR"),
        ("MIGRATE 127.0.0.1 {nobody} \"\" 0 100 REPLACE AUTH2 bob hush-migrate KEYS k", "-IOERR"),
        ("MIGRATE 127.0.0.1 {nobody} k 0 100 AUTH2 bob hush-migrate nonsense", "-ERR"),
        ("MULTI", "+OK"),
        ("AUTH admin hush-admin", "+QUEUED"),
        ("ACL SETUSER bob >hush-queued", "+QUEUED"),
        ("CONFIG SET primaryauth hush-queued", "+QUEUED"),
        ("EXEC", "*3"),
        ("ACL DRYRUN bob AUTH hush-dry", "+OK"),
    ];
    for (line, reply) in lines {
        let line = line.replace("{nobody}", &nobody.to_string());
        client.send(format!("{line}\r\n"));
        let first = client.line();
        assert!(first.starts_with(reply), "{line}: {first}");
        watched.look();
        if first.starts_with('*') {
            client.send("ECHO end-of-line\r\n");
            read_to(&mut client, b"$11\r\nend-of-line\r\n", &mut Vec::new());
        }
        let seen = has_password(&watched.shown);
        assert!(seen.is_none(), "behind {line}: {seen:?}");
        watched.shown.clear();
    }
    client.send("ECHO end-of-all\r\n");
    let mut seen = Vec::new();
    read_to(&mut watched.monitor, b"\"ECHO\" \"end-of-all\"\r\n", &mut seen);
    assert!(seen.windows(10).any(|part| part == b"(redacted)"), "the monitor has seen nothing");
    assert_eq!(has_password(&seen), None, "in MONITOR");
    // After a crash neither the log nor standard error has a password.
    client.send("DEBUG PANIC\r\n");
    let written = watched.server.log.all() + &watched.server.stderr.all();
    assert!(written.contains("ended by a panic"), "{written}");
    assert_eq!(has_password(written.as_bytes()), None, "in the log");
}

#[test]
fn ten_thousand_users_are_loaded_saved_and_rewritten() {
    const USERS: usize = 10_000;
    let dir = Dir::new();
    let text: String = (0..USERS)
        .map(|n| {
            format!(
                "user u{n} on {SECRET} ~k{n}:* %R~shared:* &c{n} +@read +@write -@dangerous (~x{n} +get)\n"
            )
        })
        .collect();
    let acl = dir.file("users.acl", &text);
    let server = configured(dir, &format!("aclfile {acl}\n"), &[]);
    let mut admin = server.client();
    admin.check("AUTH u9999 secret", "+OK\r\n").check("SET k9999:1 v", "+OK\r\n");
    admin.check("SET k9998:1 v", "-NOPERM No permissions to access a key\r\n");
    let mut admin = server.client();
    admin.check("ACL LOAD", "+OK\r\n").check("ACL SAVE", "+OK\r\n").check("ACL LOAD", "+OK\r\n");
    let saved = std::fs::read_to_string(&acl).unwrap();
    assert_eq!(saved.lines().count(), USERS + 1);
    // A server whose configuration has these users as lines writes them back unchanged.
    let server = configured(Dir::new(), &saved, &[]);
    let mut admin = server.client();
    admin.check("CONFIG REWRITE", "+OK\r\n");
    assert_eq!(user_lines(&server).join("\n") + "\n", saved);
}
