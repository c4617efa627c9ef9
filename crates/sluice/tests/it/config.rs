//! Configuration, end to end: its sources, its errors, and changes while the server runs.

use crate::common::{self, Client, Dir, Server, free_port, run};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// The standard error of a start, which must fail.
fn failure(arguments: &[&str], input: &str) -> String {
    let (out, err, success) = run(arguments, input);
    assert!(!success, "{out}{err}");
    err
}

#[test]
fn words_that_ask_for_information_get_it() {
    let (out, _, success) = run(&["--version"], "");
    assert!(
        success && out.starts_with("Sluice server v=") && out.contains("compatible=valkey-9.1.2"),
        "{out}"
    );
    assert_eq!(run(&["-v"], "").0, out);
    let (help, _, success) = run(&["--help"], "");
    assert!(success && help.contains("--check-config"));
    let (example, _, success) = run(&["--example-conf"], "");
    assert!(success);
    let dir = Dir::new();
    let file = dir.file("example.conf", &example);
    let (out, err, success) = run(&["--check-config", &file], "");
    assert!(success && out.contains(&format!("configuration is valid: {file}")), "{out}{err}");
}

#[test]
fn a_wrong_line_stops_the_start_and_is_named() {
    let dir = Dir::new();
    let file = dir.file("a.conf", "# fine\nport 7000\nportt 7001\n");
    let hint = "sluice-server --check-config lists everything that is wrong with a configuration.\n";
    let text = format!(
        "\n*** FATAL CONFIG FILE ERROR (Version 9.1.2) ***\nReading the configuration file, at line 3\n\
         >>> 'portt 7001'\nBad directive or wrong number of arguments\n{hint}"
    );
    assert_eq!(failure(&[&file], ""), text);
    assert!(failure(&["--port", "70000"], "").contains(
        ">>> 'port \"70000\"'\nargument must be between 0 and 65535 inclusive\n\
         This line is from the command line: option --port.\n"
    ));
    assert!(failure(&["--cluster-enabled", "maybe"], "").contains("FATAL CONFIG FILE ERROR"));
    assert!(failure(&["--rename-command", "nope", "x"], "").contains("No such command in rename-command"));
    assert!(failure(&["--rename-command", "get", "set"], "").contains("Target command name already exists"));
    let missing = dir.join("missing.conf");
    assert_eq!(
        failure(&[&missing], ""),
        format!("Fatal error, can't open config file '{missing}': No such file or directory\n")
    );
    let nowhere = dir.join("missing");
    let file = dir.file("dir.conf", &format!("port 7000\ndir {nowhere}\nhz 10\n"));
    assert_eq!(
        failure(&[&file], ""),
        format!(
            "\n*** FATAL CONFIG FILE ERROR (Version 9.1.2) ***\nReading the configuration file, at line 2\n\
             >>> 'dir {nowhere}'\nNo such file or directory\n{hint}"
        )
    );
    let outer = dir.file("outer.conf", &format!("include {file}\n"));
    assert!(
        failure(&[&outer], "").contains(&format!("Reading the included file '{file}', at line 2\n>>> 'dir "))
    );
    assert!(
        failure(&["--logfile", &dir.join("missing/log")], "")
            .contains("Can't open the log file: No such file or directory\nThis line is from the command line: option --logfile.\n")
    );
}

#[test]
fn what_would_be_dangerous_to_ignore_stops_the_start_and_says_what_is_missing() {
    let err = failure(&["--loadmodule", "x.so"], "");
    let reason = "Modules are not supported by this version";
    assert!(err.contains("FATAL CONFIG FILE ERROR") && err.contains(reason), "{err}");
}

#[test]
fn every_start_without_an_aof_says_what_is_kept() {
    for (points, when) in [
        ("", "only when SAVE or BGSAVE is sent, and not at a shutdown, because there are no save points"),
        ("100 1", "at save points, by SAVE and BGSAVE"),
    ] {
        let server = Server::start(&["--save", points]);
        let line = server.log.wait("The AOF is off: data are saved").unwrap();
        assert!(line.contains(" # ") && line.contains(when), "{line}");
    }
}

#[test]
fn the_clock_that_is_logged_is_the_one_that_info_shows() {
    let server = Server::start(&[]);
    let line = server.log.wait("monotonic clock: ").unwrap();
    let name = line.split("monotonic clock: ").nth(1).unwrap().split(" @").next().unwrap().to_owned();
    assert!(server.client().info("monotonic_clock").starts_with(&name));
}

#[test]
fn idle_io_threads_are_explained() {
    let server = Server::start(&["--io-threads", "3", "--io-threads-always-active", "no"]);
    assert!(server.log.wait("io-threads 3: I/O threads ready: 2; up to ").is_some());
    let mut client = server.client();
    assert!(client.info("io_threads_reason").starts_with("no I/O thread "));
    client.check("CONFIG SET io-threads 1", "+OK\r\n");
    assert_eq!(client.info("io_threads_reason"), "io-threads is 1: the main thread serves all connections");
}

#[test]
fn a_supervisor_that_is_not_there_is_missed_once() {
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--supervised", "systemd"]).env_remove("NOTIFY_SOCKET");
    });
    server.signal("TERM");
    assert_eq!(server.log.all().matches("NOTIFY_SOCKET not found!").count(), 1);
}

#[test]
fn a_check_tries_what_a_node_of_a_cluster_needs() {
    let dir = Dir::new();
    let (port, bus) = (free_port().to_string(), free_port().to_string());
    let data = dir.join("");
    let node = ["--dir", &data, "--cluster-enabled", "yes", "--port"];
    let tried = |more: &[&str]| check(&[&node[..], more].concat());
    assert!(tried(&[&port, "--cluster-port", &bus]).2);
    assert!(!dir.path().join("nodes.conf").exists(), "a check makes no file");
    for (more, told) in [
        (&["60000"][..], "Your Sluice port number must be 55535 or less."),
        (&[&port, "--cluster-port", &port], "cluster-port"),
        (&[&port, "--cluster-port", &bus, "--bind", ""], "No bind address is configured"),
        (
            &[&port, "--cluster-port", &bus, "--cluster-config-file", "gone/nodes.conf"],
            "the cluster configuration file cannot be written: No such file or directory",
        ),
    ] {
        let (_, err, success) = tried(more);
        assert!(!success && err.contains(told), "{more:?}: {err}");
    }
}

#[test]
fn files_include_others_and_later_lines_win() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("parts")).unwrap();
    dir.file("parts/20.conf", "timeout 20\nmaxclients 222\n");
    dir.file("parts/10.conf", "timeout 10\nhz 33\n");
    dir.file("parts/other.txt", "hz 99\n");
    let one = dir.file("one.conf", "tcp-keepalive 11\n");
    let main = dir
        .file("main.conf", &format!("include {}\ninclude {one}\nmaxclients 111\n", dir.join("parts/*.conf")));
    let mut command = std::process::Command::new(common::BINARY);
    let port = free_port();
    command.args([&main, "--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""]);
    let server = Server::spawn(command, port, dir);
    server.log.wait("Ready to accept").unwrap();
    let mut client = server.client();
    let values = ["timeout", "hz", "tcp-keepalive", "maxclients"].map(|name| client.config(name));
    assert_eq!(values, ["20", "33", "11", "111"]);
    assert_eq!(client.info("config_file"), main);
}

/// Standard output and error of `--check-config`, and whether it succeeded. Lines about directives without
/// effect are left out.
fn check(arguments: &[&str]) -> (String, String, bool) {
    let (out, err, success) = run(&[&["--check-config"], arguments].concat(), "");
    let kept = out.lines().filter(|line| !line.contains("no effect"));
    (kept.map(|line| format!("{line}\n")).collect(), err, success)
}

#[test]
fn a_check_names_all_errors_with_their_lines() {
    let dir = Dir::new();
    let gone = dir.join("gone");
    let port = free_port();
    let text = format!(
        "port {port}\nportt 1\nhz x\nlogfile {gone}/log\nunixsocket {gone}/socket\ndir {gone}\n\
         rename-command nope x\n"
    );
    let file = dir.file("a.conf", &text);
    let (_, err, success) = check(&[&file, "--timeout", "x"]);
    let missing = "No such file or directory";
    assert!(!success);
    assert_eq!(
        err,
        format!(
            "error: {file}:2: Bad directive or wrong number of arguments: 'portt 1'\n\
             error: {file}:3: argument couldn't be parsed into an integer: 'hz x'\n\
             error: {file}:6: {missing}: 'dir {gone}'\n\
             error: command line:1: argument couldn't be parsed into an integer: 'timeout \"x\"'\n\
             error: {file}:7: No such command in rename-command: 'rename-command nope x'\n\
             error: {file}:4: Can't open the log file: {missing}: 'logfile {gone}/log'\n\
             error: {file}:5: {gone}/socket: {missing}: 'unixsocket {gone}/socket'\n\
             configuration has 7 errors: {file} and command-line options\n"
        )
    );
}

#[test]
fn a_check_warns_of_what_has_no_effect_by_the_name_in_the_file_and_its_line() {
    let dir = Dir::new();
    let file = dir.file("a.conf", &format!("port {}\nslave-lazy-flush no\n", free_port()));
    let (out, err, success) = run(&["--check-config", &file, "--rdma-port", "7"], "");
    assert!(success, "{err}");
    assert_eq!(
        out,
        format!(
            "warning: command line:1: 'rdma-port' is set but has no effect: RDMA is not built in: 'rdma-port \"7\"'\n\
             warning: {file}:2: 'slave-lazy-flush' is set but has no effect: the old data are always freed in the background: 'slave-lazy-flush no'\n\
             configuration is valid: {file} and command-line options\n"
        )
    );
}

#[test]
fn a_check_tries_addresses_without_taking_them() {
    let dir = Dir::new();
    let port = free_port();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let file = dir.file("a.conf", &format!("bind 127.0.0.1 -192.0.2.1\nport {port}\n"));
    let (out, err, success) = check(&[&file]);
    assert!(success, "a port in use is no error: {err}");
    assert_eq!(
        out,
        format!(
            "warning: {file}:1: 127.0.0.1 port {port}: Address already in use: 'bind 127.0.0.1 -192.0.2.1'\n\
             warning: {file}:1: 192.0.2.1 port {port}: Cannot assign requested address: 'bind 127.0.0.1 -192.0.2.1'\n\
             configuration is valid: {file}\n"
        )
    );
    // Another port is used, because a child process that another test has just started may hold the listener
    // for a moment longer.
    let port = free_port();
    let file = dir.file("a.conf", &format!("port {port}\nbind 127.0.0.1 192.0.2.1 0.0.0.0\n"));
    let (_, err, success) = check(&[&file]);
    assert!(!success);
    assert!(
        err.contains(":2: 192.0.2.1 port") && err.contains("Cannot assign requested address: 'bind"),
        "{err}"
    );
    assert!(err.contains("0.0.0.0 port") && err.contains("'127.0.0.1' has this address already"), "{err}");
    let (_, err, success) = check(&["--port", "0"]);
    assert!(!success);
    assert!(err.contains("command line:1: Configured to not listen anywhere: 'port \"0\"'"), "{err}");
}

#[test]
fn a_check_tries_folders_and_makes_nothing() {
    let dir = Dir::new();
    let port = free_port();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    dir.file("plain", "");
    let (sub, plain) = (dir.join("sub"), dir.join("plain"));
    let text = format!("port {port}\ndir {sub}\nlogfile log\npidfile pid\nunixsocket socket\n");
    let file = dir.file("a.conf", &text);
    let (out, err, success) = check(&[&file]);
    assert!(success, "{out}{err}");
    assert_eq!(out, format!("configuration is valid: {file}\n"));
    assert_eq!(std::fs::read_dir(&sub).unwrap().count(), 0);
    let (_, err, _) = check(&[&file, "--dir", &plain]);
    assert!(err.contains("error: command line:1: Not a directory: 'dir "), "{err}");
    let (out, err, success) = check(&[&file, "--pidfile", &format!("{plain}/pid")]);
    assert!(success, "{err}");
    assert!(out.contains("Failed to write PID file: Not a directory"), "{out}");
    let (_, err, success) = check(&[&file, "--unixsocketgroup", "no-such-group"]);
    assert!(!success && err.contains("group 'no-such-group'"), "{err}");
    let long = format!("{sub}/{}", "x".repeat(120));
    let (_, err, success) = check(&[&file, "--unixsocket", &long]);
    assert!(!success && err.contains(&format!("{long}: ")), "{err}");
}

#[test]
fn a_check_beside_a_running_server_leaves_it_alone() {
    let dir = Dir::new();
    let socket = dir.join("socket");
    let server = Server::start(&["--unixsocket", &socket]);
    let port = server.port.to_string();
    let (out, err, success) = check(&["--port", &port, "--unixsocket", &socket]);
    assert!(success, "{err}");
    assert!(out.contains("Address already in use") && out.contains("another server listens here"), "{out}");
    UnixStream::connect(&socket).unwrap();
    server.client().check("PING", "+PONG\r\n");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_a_warning() {
    let dir = Dir::new();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let may_write = std::fs::write(dir.path().join("try"), "").is_ok();
    let (out, err, success) = check(&["--port", &free_port().to_string(), "--dir", &dir.join("")]);
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(success, "{err}");
    // A user who may write everywhere, such as root, gets no warning.
    assert_eq!(out.contains("nothing can be saved in this folder: Permission denied"), !may_write, "{out}");
}

#[test]
fn standard_input_is_read_when_asked_for() {
    let dir = Dir::new();
    let file = dir.file("a.conf", "timeout 1\n");
    let (out, err, success) = run(&["--check-config", &file, "-"], "timeout 2\nhz 12\n");
    assert!(success, "{out}{err}");
    let err = failure(&["--check-config", &file, "-"], "timeout 2\nnonsense\n");
    assert!(err.contains("error: standard input:2: ") && err.contains(": 'nonsense'\n"), "{err}");
    assert!(failure(&[&file, "-"], "timeout 2\nnonsense\n").contains("at line 4\n>>> 'nonsense'"));
}

#[test]
fn a_renamed_command_has_its_new_name_only() {
    let server = Server::start(&["--rename-command", "get", "fetch", "--rename-command", "DEL", ""]);
    let mut client = server.client();
    client.check("SET x 1", "+OK\r\n").check("FETCH x", "$1\r\n1\r\n");
    client.check("GET x", "-ERR unknown command 'GET', with args beginning with: 'x' \r\n");
    client.check("DEL x", "-ERR unknown command 'DEL', with args beginning with: 'x' \r\n");
}

#[test]
fn the_working_directory_has_an_absolute_name() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let home = server.dir.path().to_str().unwrap();
    assert_eq!(client.config("dir"), home);
    std::fs::create_dir(server.dir.path().join("sub")).unwrap();
    client.check("CONFIG SET dir sub", "+OK\r\n");
    assert_eq!(client.config("dir"), format!("{home}/sub"));
    client.check(
        "CONFIG SET dir nowhere",
        "-ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory\r\n",
    );
    // A later failure in the same call restores the directory.
    client.check(
        "CONFIG SET dir .. maxclients 1000000000",
        format!(
            "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - {}\r\n",
            unable(&server)
        ),
    );
    assert_eq!(client.config("dir"), format!("{home}/sub"));
}

/// A relative path of an `include` is resolved in the folder of the preceding `dir` line, not of a later one.
#[test]
fn a_folder_is_entered_where_its_line_stands() {
    let dir = Dir::new();
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    for (name, hz) in [("part.conf", 11), ("a/part.conf", 22), ("a/b/part.conf", 33)] {
        dir.file(name, &format!("hz {hz}\n"));
    }
    for (text, options, hz) in [
        ("include part.conf\ndir a\n", &[][..], "11"),
        ("dir a\ninclude part.conf\n", &[], "22"),
        ("dir a\ndir b\ninclude par*.conf\n", &[], "33"),
        ("dir a\n", &["--dir", "b", "--include", "part.conf"], "33"),
    ] {
        let file = dir.file("main.conf", text);
        let port = free_port();
        let mut command = std::process::Command::new(common::BINARY);
        command.current_dir(dir.path()).args(["main.conf", "--port", &port.to_string(), "--save", ""]);
        command.args(options);
        let server = Server::spawn(command, port, Dir::new());
        server.log.wait("Ready to accept").unwrap();
        let mut client = server.client();
        assert_eq!(client.config("hz"), hz, "{text:?}");
        assert_eq!(client.info("config_file"), file);
    }
}

/// Neither a start nor a check shows a secret, whatever is wrong with the line that contains the secret.
#[test]
fn no_error_of_a_configuration_shows_a_secret() {
    let dir = Dir::new();
    for line in [
        "sentinel auth-pass m hid3",
        "sentinel sentinel-pass hid3",
        "requirepas hid3",
        "my-api-token hid3",
        "requirepass=hid3",
        "port 1 requirepass hid3",
        "requirepass hid3 hid3",
        "user a on >hid3 nonsense",
        "usr a on >hid3",
    ] {
        let file = dir.file("a.conf", &format!("{line}\n"));
        for arguments in [&["--check-config", file.as_str()][..], &[file.as_str()]] {
            let (out, err, success) = run(arguments, "");
            assert!(!success && err.contains("(redacted)"), "{line}: {out}{err}");
            assert!(!out.contains("hid3") && !err.contains("hid3"), "{line}: {out}{err}");
        }
    }
}

/// A pid file that holds anything but a number is left alone, at the start and at the end.
#[test]
fn a_file_of_somebody_else_is_no_pid_file() {
    let dir = Dir::new();
    let file = dir.file("notes", "data\n");
    let mut server = Server::start(&["--pidfile", &file]);
    assert!(server.log.wait("Failed to write PID file: the file holds something other").is_some());
    server.client().send("SHUTDOWN NOSAVE\r\n").expect_end();
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "data\n");
}

/// The error of CONFIG SET for a number of clients above the system's limit.
fn unable(server: &Server) -> String {
    let mut client = server.client();
    client.send("CONFIG SET maxclients 1000000000\r\n");
    let line = client.line();
    line.split(" - ").nth(1).unwrap().to_owned()
}

#[test]
fn the_port_can_change_while_connections_stay() {
    let server = Server::start(&["--bind", "127.0.0.1"]);
    let mut client = server.client();
    let (first, second) = (server.port, free_port());
    client.check(&format!("CONFIG SET port {second}"), "+OK\r\n");
    Client::to("127.0.0.1", second).check("PING", "+PONG\r\n");
    common::until("the old port to close", || {
        std::net::TcpStream::connect(("127.0.0.1", first)).is_err().then_some(())
    });
    assert_eq!(client.info("listener0"), format!("name=tcp,bind=127.0.0.1,port={second}"));
    // Each change opens a listener and closes the previous one; the server must never confuse two listeners.
    for _ in 0..1200 {
        client.check(&format!("CONFIG SET port {first}"), "+OK\r\n");
        client.check(&format!("CONFIG SET port {second}"), "+OK\r\n");
    }
    Client::to("127.0.0.1", second).check("PING", "+PONG\r\n");
    // The port is set to its present value, and then to 0, so that nothing listens.
    client.check(&format!("CONFIG SET port {second}"), "+OK\r\n");
    client.check("CONFIG SET port 0", "+OK\r\n");
    common::until("the port to close", || {
        std::net::TcpStream::connect(("127.0.0.1", second)).is_err().then_some(())
    });
    client.check("PING", "+PONG\r\n");
}

#[test]
fn a_port_in_use_is_refused_and_the_old_one_stays() {
    let server = Server::start(&["--bind", "127.0.0.1"]);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().port();
    let mut client = server.client();
    client.check(
        &format!("CONFIG SET timeout 77 port {taken}"),
        "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs.\r\n",
    );
    assert_eq!(client.config("port"), server.port.to_string());
    assert_eq!(client.config("timeout"), "0");
    server.client().check("PING", "+PONG\r\n");
    let line = format!(
        "Could not create server TCP listening socket 127.0.0.1:{taken}: bind: Address already in use"
    );
    assert!(server.log.wait(&line).is_some());
}

#[test]
fn addresses_can_change_while_connections_stay() {
    let server = Server::start(&["--bind", "127.0.0.1"]);
    let mut client = server.client();
    client.check("CONFIG SET bind \"127.0.0.2 127.0.0.1\"", "+OK\r\n");
    Client::to("127.0.0.2", server.port).check("PING", "+PONG\r\n");
    client.check("CONFIG SET bind *", "+OK\r\n");
    Client::to("127.0.0.3", server.port).check("PING", "+PONG\r\n");
    client.check(
        "CONFIG SET bind 192.0.2.1",
        "-ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses.\r\n",
    );
    Client::to("127.0.0.3", server.port).check("PING", "+PONG\r\n");
    client.check("CONFIG SET bind \"-192.0.2.1 127.0.0.1\"", "+OK\r\n");
    server.client().check("PING", "+PONG\r\n");
}

#[test]
fn several_addresses_of_both_families_are_served() {
    let server = Server::start(&["--bind", "127.0.0.1", "-::1", "-192.0.2.1"]);
    server.client().check("PING", "+PONG\r\n");
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        let mut client = Client::to("::1", server.port);
        client.check("PING", "+PONG\r\n");
        let list = String::from_utf8(client.bulk("CLIENT LIST")).unwrap();
        assert!(list.contains(&format!(" laddr=[::1]:{} ", server.port)), "{list}");
    }
}

#[test]
fn a_unix_socket_can_stand_alone() {
    let dir = Dir::new();
    let path = dir.join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("left by an earlier run"));
    let mut command = std::process::Command::new(common::BINARY);
    command.args([
        "--port",
        "0",
        "--unixsocket",
        &path,
        "--unixsocketperm",
        "700",
        "--save",
        "",
        "--dir",
        &dir.join(""),
    ]);
    let mut server = Server::spawn(command, 0, dir);
    server.log.wait(&format!("Ready to accept connections unix ({path})")).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
    std::io::Write::write_all(&mut stream, b"CLIENT INFO\r\n").unwrap();
    let mut got = [0; 200];
    let len = std::io::Read::read(&mut stream, &mut got).unwrap();
    let text = String::from_utf8_lossy(&got[..len]).into_owned();
    assert!(text.contains(&format!(" addr={path}:0 laddr={path}:0 ")), "{text}");
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn nowhere_to_listen_is_no_server() {
    let (out, _, success) = run(&["--port", "0"], "");
    assert!(!success && out.contains("Configured to not listen anywhere, exiting."), "{out}");
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let (out, _, success) = run(&["--bind", "127.0.0.1", "--port", &port.to_string()], "");
    assert!(!success && out.contains(&format!("Failed listening on port {port} (tcp), aborting.")), "{out}");
}

#[test]
fn a_rewrite_keeps_comments_and_permissions_and_loads_again() {
    let dir = Dir::new();
    let port = free_port();
    let file = dir.file(
        "a.conf",
        &format!("# ours\nport {port}\ntimeout 5 \nsave ''\n\n# theirs\ndir {}\n", dir.join("")),
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = std::process::Command::new(common::BINARY);
    command.arg(&file);
    let server = Server::spawn(command, port, dir);
    server.log.wait("Ready to accept").unwrap();
    let mut client = server.client();
    client
        .check("CONFIG SET timeout 6 maxclients 99 requirepass \"a b\"", "+OK\r\n")
        .check("CONFIG REWRITE", "+OK\r\n");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with(&format!("# ours\nport {port}\ntimeout 6\nsave \"\"\n\n# theirs\ndir ")),
        "{text}"
    );
    assert!(text.contains("maxclients 99\n") && text.contains("requirepass \"a b\"\n"), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let left: Vec<_> =
        std::fs::read_dir(server.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["a.conf"], "no temporary file stays");
    let (out, err, success) = run(&["--check-config", &file], "");
    assert!(success, "{out}{err}");
    client.check("CONFIG REWRITE", "+OK\r\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "a second rewrite changes nothing");
}

#[test]
fn a_finding_names_the_line_that_asks_for_what_fails() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dir = Dir::new();
    // Without a line for the address or the certificate, the error names the line of the port or of
    // `metrics-tls`.
    for (name, text, finding) in [
        ("a.conf", format!("port 0\nunixsocket s\nmetrics-port {port}\n"), "a.conf:3: 127.0.0.1 port"),
        ("b.conf", format!("hz 10\nport {port}\n"), "b.conf:2: * port"),
        (
            "c.conf",
            format!("port 0\nunixsocket s\nmetrics-tls yes\nmetrics-port {}\n", free_port()),
            "c.conf:3: No tls-cert-file configured!",
        ),
        (
            "d.conf",
            format!("tls-port 0\nport 0\nunixsocket s\nmetrics-tls yes\nmetrics-port {}\n", free_port()),
            "d.conf:4: No tls-cert-file configured!",
        ),
        ("e.conf", format!("port 0\ntls-port {port}\n"), "e.conf:2: * port"),
        ("f.conf", format!("tls-port {}\nport {port}\n", free_port()), "f.conf:2: * port"),
        ("g.conf", format!("bind 127.0.0.1\nport {port}\n"), "g.conf:1: 127.0.0.1 port"),
    ] {
        let file = dir.file(name, &text);
        let (out, err, _) = run(&["--check-config", &file], "");
        assert!(format!("{out}{err}").contains(finding), "{out}{err}");
    }
    drop(taken);
}

#[test]
fn a_rewrite_that_fails_says_so() {
    let server = Server::start(&[]);
    server.client().check("CONFIG REWRITE", "-ERR The server is running without a config file\r\n");
    let dir = Dir::new();
    let port = free_port();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    let file = dir.file("sub/a.conf", &format!("port {port}\nsave ''\n"));
    let mut command = std::process::Command::new(common::BINARY);
    command.arg(&file);
    let server = Server::spawn(command, port, dir);
    server.log.wait("Ready to accept").unwrap();
    std::fs::remove_dir_all(server.dir.path().join("sub")).unwrap();
    server.client().check("CONFIG REWRITE", "-ERR Rewriting config file: No such file or directory\r\n");
}

#[test]
fn the_level_of_the_log_changes_at_once() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.check("CONFIG SET loglevel nothing", "+OK\r\n").check("DEBUG LOG unheard", "+OK\r\n");
    client.check("CONFIG SET loglevel debug log-format json log-timestamp-format milliseconds", "+OK\r\n");
    client.check("DEBUG LOG heard", "+OK\r\n");
    let line = server.log.wait("DEBUG LOG: heard").unwrap();
    let pid = server.child.id();
    assert!(line.starts_with(&format!("{{\"pid\":{pid},\"role\":\"primary\",\"timestamp\":\"1")), "{line}");
    assert!(line.ends_with("\"level\":\"warning\",\"message\":\"DEBUG LOG: heard\"}"), "{line}");
    drop(server.client());
    assert!(server.log.wait("Client closed connection").is_some());
    client.check("CONFIG SET loglevel warning", "+OK\r\n").send("SHUTDOWN NOSAVE\r\n");
    assert!(!server.log.all().contains("unheard"));
}

#[test]
fn keepalive_reaches_the_socket() {
    let server = Server::start(&["--tcp-keepalive", "60"]);
    let mut client = server.client();
    client.check("PING", "+PONG\r\n");
    let own = client.stream.local_addr().unwrap().port();
    // In the timer field of /proc/net/tcp, 02 means keepalive. In the line for the server's end, our port is
    // the remote one.
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let (local, remote) = (format!(":{:04X}", server.port), format!(":{own:04X}"));
    let line = table.lines().find(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 5 && fields[1].ends_with(&local) && fields[2].ends_with(&remote)
    });
    let fields: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert!(fields[5].starts_with("02:"), "{fields:?}");
}
