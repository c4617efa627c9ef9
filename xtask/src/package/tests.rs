use super::archive::{Data, Member, ar, gzip, tar_gz};
use super::build::{Build, PROGRAMS};
use super::contents::{Kind, Owner, Package, UNITS};
use super::{compat, configuration, deb, elf, rpm, server};
use crate::shell;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The input of a package: placeholder programs in a folder of one test.
fn build(name: &str) -> Build {
    let programs = std::env::temp_dir().join(format!("sluice-package-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&programs).expect("a folder");
    for program in PROGRAMS {
        std::fs::write(programs.join(program), format!("{program} GLIBC_2.34")).expect("written");
    }
    Build { version: "0.1.0".to_owned(), date: 1_700_000_000, programs, licences: "none".to_owned() }
}

/// Both packages as debs.
fn debs(build: &Build) -> [(Package, Vec<u8>); 2] {
    let needs = elf::needs(&build.programs).expect("names");
    [server(build).expect("files"), compat()].map(|package| {
        let bytes = deb::archive(&package, build, &needs).expect("an archive");
        (package, bytes)
    })
}

/// The members of an `ar` archive.
fn members_of_ar(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    bytes = bytes.strip_prefix(b"!<arch>\n").expect("an ar archive");
    let mut members = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = bytes.split_at(60);
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]).trim().to_owned();
        let size: usize = text(48..58).parse().expect("a size");
        members.push((text(0..16), rest[..size].to_vec()));
        bytes = &rest[size.next_multiple_of(2).min(rest.len())..];
    }
    members
}

/// The members of a compressed tar archive: path, permissions, bytes or target.
fn members_of_tar(bytes: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let mut members = BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("a member");
        let header = entry.header();
        assert_eq!((header.uid().expect("an owner"), header.gid().expect("a group")), (0, 0));
        assert_eq!(header.mtime().expect("a date"), 1_700_000_000);
        let (mode, path) = (header.mode().expect("permissions"), entry.path_bytes().into_owned());
        let mut held = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
        entry.read_to_end(&mut held).expect("its bytes");
        members.insert(String::from_utf8(path).expect("text"), (mode, held));
    }
    members
}

#[test]
fn a_deb_read_again_has_every_entry_of_the_list() {
    let build = build("again");
    for (package, bytes) in debs(&build) {
        let parts = members_of_ar(&bytes);
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
        let files = members_of_tar(&parts[2].1);
        for entry in &package.entries {
            let slash = if matches!(entry.kind, Kind::Folder) { "/" } else { "" };
            let (mode, held) = &files[&format!(".{}{slash}", entry.path)];
            assert_eq!(*mode, entry.mode, "{}", entry.path);
            match &entry.kind {
                Kind::Folder => assert!(held.is_empty()),
                Kind::File(bytes) | Kind::Config(bytes) => assert_eq!(held, bytes, "{}", entry.path),
                Kind::Link(target) => assert_eq!(held, target.as_bytes()),
            }
        }
        assert!(files.contains_key("./usr/bin/"), "folders above are there");
        let control = members_of_tar(&parts[1].1);
        let fields = String::from_utf8_lossy(&control["./control"].1).into_owned();
        assert!(fields.contains(&format!("Package: {}\n", package.name)), "{fields}");
        assert_eq!(control.contains_key("./conffiles"), package.is_native);
    }
    std::fs::remove_dir_all(build.programs).expect("removed");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let build = build("same");
    let needs = elf::needs(&build.programs).expect("names");
    for (again, (package, bytes)) in [server(&build).expect("files"), compat()].iter().zip(debs(&build)) {
        assert!(deb::archive(again, &build, &needs).expect("a deb") == bytes, "{}", package.name);
        let rpm = |package| rpm::archive(package, &build, &needs).expect("an rpm");
        assert!(rpm(&package) == rpm(again), "{}", package.name);
    }
    std::fs::remove_dir_all(build.programs).expect("removed");
}

#[test]
fn an_rpm_read_again_has_every_entry_with_its_owner() {
    let build = build("rpm");
    let needs = elf::needs(&build.programs).expect("names");
    for package in [server(&build).expect("files"), compat()] {
        let bytes = rpm::archive(&package, &build, &needs).expect("an rpm");
        let read = ::rpm::Package::parse(&mut bytes.as_slice()).expect("an rpm");
        let files = read.metadata.get_file_entries().expect("files");
        assert_eq!(files.len(), package.entries.len());
        for entry in &package.entries {
            let path = entry.path.replace("vendor-completions/_", "site-functions/_");
            let file = files.iter().find(|file| file.path() == Path::new(&path)).expect("the file");
            let owner = if entry.owner == Owner::Server { "sluice" } else { "root" };
            assert_eq!(file.user(), owner, "{}", entry.path);
            let is_config = file.flags().contains(::rpm::FileFlags::CONFIG | ::rpm::FileFlags::NOREPLACE);
            assert_eq!(is_config, matches!(entry.kind, Kind::Config(_)), "{}", entry.path);
        }
    }
    std::fs::remove_dir_all(build.programs).expect("removed");
}

/// Debian's own tool lists every file. The test is skipped on a machine without the tool.
#[test]
fn dpkg_lists_the_files() {
    if !shell::on_path("dpkg-deb") {
        return;
    }
    let build = build("dpkg");
    for (package, bytes) in debs(&build) {
        let path = build.programs.join("package.deb");
        std::fs::write(&path, bytes).expect("written");
        let said = |option: &str| {
            let output = Command::new("dpkg-deb").arg(option).arg(&path).output().expect("it starts");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let list = said("-c");
        for entry in &package.entries {
            assert!(list.contains(&format!(" .{}", entry.path)), "{}:\n{list}", entry.path);
        }
        assert!(said("-f").contains(&format!("Package: {}", package.name)));
    }
    std::fs::remove_dir_all(build.programs).expect("removed");
}

#[test]
fn the_configuration_of_the_package_is_one_that_the_server_takes() {
    let text = configuration().expect("a text");
    assert_eq!(text.lines().count(), sluice_config::example_conf().lines().count());
    let config =
        sluice_config::parse_file(text.as_bytes(), "sluice.conf", b"", &mut |_: &[u8]| Ok(Vec::new()));
    let config = config.expect("it loads");
    assert_eq!(config.str(sluice_config::param::DIR), "/var/lib/sluice");
    assert_eq!(config.str(sluice_config::param::LOGFILE), "/var/log/sluice/sluice-server.log");
    assert!(text.contains("\nbind 127.0.0.1 -::1\n"), "an installed server serves its own machine");
}

#[test]
fn archives_refuse_names_that_do_not_fit() {
    assert!(ar(&[("a-name-of-seventeen", b"")], 0).is_err());
    let long = Member { path: "x".repeat(100), mode: 0o644, data: Data::File(b"") };
    assert!(tar_gz(&[long], 0).is_err());
    assert_eq!(gzip(b"bytes").expect("bytes"), gzip(b"bytes").expect("bytes"));
}

#[test]
fn the_units_name_what_the_package_installs() {
    let build = build("unit");
    let entries = server(&build).expect("files").entries;
    let has = |path: &str| entries.iter().any(|entry| entry.path == path);
    for name in UNITS {
        assert!(has(&format!("/usr/lib/systemd/system/{name}")), "{name}");
        let unit = unit(name);
        let Some(start) = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")) else { continue };
        let of_the_package = |word: &&str| ["/usr/", "/etc/"].iter().any(|folder| word.starts_with(folder));
        for path in start.split(' ').filter(of_the_package) {
            assert!(has(path), "{name}: {path}");
        }
    }
    let calls = unit("sluice-server.service");
    let mut calls = calls.lines().filter(|line| line.starts_with("SystemCallFilter="));
    assert!(calls.any(|line| line.contains("io_uring_setup")), "io_uring is an event loop of the server");
    std::fs::remove_dir_all(PathBuf::from(&build.programs)).expect("removed");
}

fn unit(name: &str) -> String {
    std::fs::read_to_string(shell::root().join("packaging").join(name)).expect("a file")
}

/// Beginnings of the lines in which a shard's unit may differ from the server's unit: names, ports and
/// folders.
const OF_A_SHARD: [&str; 9] = [
    "Description=",
    "Environment=",
    "PartOf=",
    "EnvironmentFile=",
    "ExecStart=",
    "    --logfile",
    "RuntimeDirectory=",
    "StateDirectory=",
    "WantedBy=",
];

#[test]
fn a_shard_is_allowed_what_a_server_is_allowed() {
    let settings = |name| -> Vec<String> {
        let is_own = |line: &str| OF_A_SHARD.iter().any(|start| line.starts_with(start));
        let text: String = unit(name);
        let lines = text.lines().filter(|line| !line.starts_with('#') && !is_own(line));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(settings("sluice-server@.service"), settings("sluice-server.service"));
}

/// docs/operating.md asks the reader to test the alerts, so the package contains their test file.
#[test]
fn the_alerts_are_installed_with_their_tests() {
    let build = build("alerts");
    let package = server(&build).expect("files");
    let paths: Vec<&str> = package.entries.iter().map(|entry| &*entry.path).collect();
    for name in ["rules.yml", "rules_test.yml", "board.json"] {
        let path = format!("/usr/share/doc/sluice-server/prometheus/{name}");
        assert!(paths.contains(&&*path), "{path}");
    }
}

/// `sluice-backup` with a fake client that writes its arguments into the copy, and a fake checker that
/// refuses copies marked as damaged.
struct Backups {
    folder: std::path::PathBuf,
}

impl Backups {
    fn new(name: &str) -> Backups {
        let folder = std::env::temp_dir().join(format!("sluice-backup-{name}-{}", std::process::id()));
        let backups = Backups { folder };
        std::fs::create_dir_all(backups.folder.join("bin")).expect("a temporary folder");
        // valkey-cli -h HOST -p PORT --user backup --rdb FILE
        backups.program(
            "valkey-cli",
            "[ $4 != 1 ] || exit 1\n[ $4 != 3 ] || sleep 60\necho \"$@\" >\"$8\"\n[ $4 != 2 ] || echo damaged >>\"$8\"",
        );
        backups.program("sluice-check-rdb", "! grep -q damaged \"$1\"");
        backups.program("date", "cat \"$DATE\"");
        backups
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.folder.join("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    }

    /// Runs the script at a date; returns whether it succeeded, and its error output.
    fn run(&self, set: &str, date: &str, environment: &[(&str, &str)]) -> (bool, String) {
        std::fs::write(self.folder.join("date"), date).expect("writable");
        let bin = self.folder.join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut script = Command::new("sh");
        script.arg(shell::root().join("packaging/sluice-backup")).arg(set).env("PATH", &path);
        script.env("FOLDER", self.folder.join("sets")).env("DATE", self.folder.join("date"));
        script.env("CLI_OPTIONS", "--user backup").envs(environment.iter().copied());
        let output = script.output().expect("a shell");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The names of the files of a set.
    fn names(&self, set: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.join("sets").join(set)).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn backups_of_a_set_stay_until_newer_ones_are_whole() {
    let backups = Backups::new("rotated");
    let sent = ("SEND", "cp \"$FILE\" \"$FOLDER/sent-$NAME\"");
    for date in ["20260101T000000Z", "20260101T010000Z", "20260101T020000Z"] {
        // The files of a server whose name begins with another server's name do not count as files of that
        // other server.
        let servers = ("SERVERS", "h:6379 h-6379-x:7000");
        assert_eq!(backups.run("hourly", date, &[servers, sent, ("KEEP", "2")]), (true, String::new()));
    }
    let kept = ["h-6379-20260101T010000Z.rdb", "h-6379-20260101T020000Z.rdb"];
    assert_eq!(backups.names("hourly")[..2], kept);
    assert_eq!(backups.names("hourly").len(), 4, "two of each server");
    assert!(backups.folder.join("sets/sent-h-6379-20260101T000000Z.rdb").exists(), "each was sent");
    // If a server is down, or its copy is damaged, there is no new file of that server, and the other server
    // is saved.
    for down in ["h:1", "h:2"] {
        let servers = format!("{down} other:7000");
        let (is_well, said) = backups.run("daily", "20260102T000000Z", &[("SERVERS", &servers), sent]);
        assert!(!is_well && said.contains(&format!("no backup of {down}")), "{said}");
        assert_eq!(backups.names("daily"), ["other-7000-20260102T000000Z.rdb"]);
    }
    assert!(!backups.run("../elsewhere", "20260103T000000Z", &[]).0);
}

#[test]
fn backups_that_were_not_sent_are_sent_by_a_later_run() {
    let backups = Backups::new("sent");
    let send = "[ -e \"$FOLDER/store\" ] && echo \"$NAME\" >>\"$FOLDER/store\"";
    let environment = [("SERVERS", "h:6379"), ("SEND", send), ("KEEP", "2")];
    let mut said = String::new();
    for hour in 0..4 {
        let (is_well, now_said) = backups.run("hourly", &format!("20260101T0{hour}0000Z"), &environment);
        assert!(!is_well, "a backup that was not sent");
        said = now_said;
    }
    assert!(said.contains("20260101T030000Z.rdb was not sent: the next run tries again"), "{said}");
    assert!(said.contains("20260101T010000Z.rdb is deleted, and was never sent"), "{said}");
    let [third, fourth, fifth] =
        ["20260101T020000Z", "20260101T030000Z", "20260101T040000Z"].map(|date| format!("h-6379-{date}.rdb"));
    let marks = [&third, &fourth].map(|name| [name.clone(), format!("{name}.unsent")]);
    assert_eq!(backups.names("hourly"), marks.concat(), "no more than two");
    // The next backup fails, but the store works again, so the old files are sent.
    std::fs::write(backups.folder.join("sets/store"), "").expect("writable");
    backups.program("sluice-check-rdb", "exit 1");
    assert!(!backups.run("hourly", "20260101T040000Z", &environment).0);
    assert_eq!(backups.names("hourly"), [third.clone(), fourth.clone()]);
    backups.program("sluice-check-rdb", "exit 0");
    assert_eq!(backups.run("hourly", "20260101T040000Z", &environment), (true, String::new()));
    assert_eq!(backups.names("hourly"), [fourth.clone(), fifth.clone()]);
    let store = std::fs::read_to_string(backups.folder.join("sets/store")).expect("readable");
    assert_eq!(store, format!("{fourth}\n{third}\n{fifth}\n"), "newest first");
}

#[test]
fn a_backup_that_fails_at_any_step_takes_nothing_away() {
    let backups = Backups::new("failed");
    let environment = [("SERVERS", "h:6379"), ("KEEP", "1"), ("LIMIT", "0.2")];
    assert_eq!(backups.run("daily", "20260101T000000Z", &environment), (true, String::new()));
    let first = ["h-6379-20260101T000000Z.rdb"];
    for keep in ["0", "00", "-1", "x", "1.5", "99999999999999999999"] {
        let (is_well, said) = backups.run("daily", "20260102T000000Z", &[("KEEP", keep)]);
        assert!(!is_well && said.contains("no whole number from 1 on"), "{keep}: {said}");
    }
    for (program, fails) in [
        ("sync", "[ \"$1\" != --help ] || { echo FILE; exit; }\nexit 1"),
        ("mv", "exit 1"),
        ("sluice-check-rdb", "sleep 60"),
    ] {
        backups.program(program, fails);
        let (is_well, said) = backups.run("daily", "20260102T000000Z", &environment);
        assert!(!is_well && said.contains("no backup of h:6379"), "{program}: {said}");
        assert_eq!(backups.names("daily"), first, "{program}");
        std::fs::remove_file(backups.folder.join("bin").join(program)).expect("there");
    }
    backups.program("sluice-check-rdb", "exit 0");
    // A server that hangs delays the next one only until the time limit, and so does a store that hangs.
    let stalled = [("SERVERS", "h:3 h:6379"), ("LIMIT", "0.2"), ("KEEP", "1"), ("SEND", "sleep 60")];
    let (is_well, said) = backups.run("daily", "20260103T000000Z", &stalled);
    assert!(!is_well && said.contains("no backup of h:3"), "{said}");
    assert_eq!(said.matches("it has taken longer than 0.2").count(), 2, "{said}");
    let second = "h-6379-20260103T000000Z.rdb";
    assert_eq!(backups.names("daily"), [second.to_owned(), format!("{second}.unsent")]);
}

#[test]
fn servers_of_backups_may_have_no_port_and_addresses_with_colons() {
    let backups = Backups::new("servers");
    let servers = "h [::1]:7000 [::2] ::3 192.0.2.1:7001";
    let ran = backups.run("daily", "20260101T000000Z", &[("SERVERS", servers)]);
    assert_eq!(ran, (true, String::new()));
    let asked = |name: &str| {
        let path = backups.folder.join(format!("sets/daily/{name}-20260101T000000Z.rdb"));
        let text = std::fs::read_to_string(path).expect("a backup");
        text.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    };
    for (name, wanted) in [
        ("h-6379", "-h h -p 6379"),
        ("::1-7000", "-h ::1 -p 7000"),
        ("::2-6379", "-h ::2 -p 6379"),
        ("::3-6379", "-h ::3 -p 6379"),
        ("192.0.2.1-7001", "-h 192.0.2.1 -p 7001"),
    ] {
        assert_eq!(asked(name), wanted);
    }
    for wrong in [":6379", "h:", "h:port", "/run/sluice.sock", "[]:6379"] {
        let (is_well, said) = backups.run("daily", "20260102T000000Z", &[("SERVERS", wrong)]);
        assert!(!is_well && said.contains("is no server: HOST:PORT"), "{wrong}: {said}");
    }
    assert_eq!(backups.names("daily").len(), 5);
}

/// Checks the command line that the container's entrypoint makes of given arguments, without root. The
/// programs are fakes that print their command line.
#[test]
fn a_container_turns_protected_mode_off_where_no_configuration_speaks() {
    let folder = std::env::temp_dir().join(format!("sluice-entrypoint-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("bin")).expect("a temporary folder");
    for (name, text) in
        [("sluice-server", "echo server \"$@\""), ("id", "echo 5"), ("my-tool", "echo tool \"$@\"")]
    {
        let path = folder.join("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    }
    for name in ["my.conf", "my.cfg"] {
        std::fs::write(folder.join(name), "").expect("writable");
    }
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let run = |words: &str| {
        let mut entry = std::process::Command::new("sh");
        entry.arg(shell::root().join("packaging/container/entrypoint")).args(words.split_whitespace());
        let output = entry.current_dir(&folder).env("PATH", &path).output().expect("a shell");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let off = "--protected-mode no";
    for (words, wanted) in [
        ("", format!("server {off}")),
        ("sluice-server", format!("server {off}")),
        ("--port 1", format!("server --port 1 {off}")),
        ("sluice-server --port 1", format!("server --port 1 {off}")),
        ("--Protected-Mode yes", "server --Protected-Mode yes".to_owned()),
        ("my.conf --port 1", "server my.conf --port 1".to_owned()),
        ("my.cfg --port 1", "server my.cfg --port 1".to_owned()),
        ("sluice-server my.cfg", "server my.cfg".to_owned()),
        ("sluice-server none.cfg", "server none.cfg".to_owned()),
        ("-", "server -".to_owned()),
        ("--port 1 -", "server --port 1 -".to_owned()),
        ("--include my.cfg", "server --include my.cfg".to_owned()),
        ("--check-move h:1", "server --check-move h:1".to_owned()),
        ("sluice-server --check-config my.cfg", "server --check-config my.cfg".to_owned()),
        ("--version", "server --version".to_owned()),
        ("valkey-server", format!("server {off}")),
        ("redis-server my.cfg --port 1", "server my.cfg --port 1".to_owned()),
        ("valkey-server --cluster-enabled yes", format!("server --cluster-enabled yes {off}")),
        ("my-tool my.cfg", "tool my.cfg".to_owned()),
    ] {
        assert_eq!(run(words), wanted, "{words:?}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Runs the health check against servers that accept one connection each.
#[test]
fn a_container_is_well_when_anything_answers() {
    use std::io::Write;
    let is_well = |port: u16| {
        let mut check = std::process::Command::new("bash");
        check.arg(shell::root().join("packaging/container/healthcheck")).env("SLUICE_PORT", port.to_string());
        check.output().expect("a shell").status.success()
    };
    // With `None` the server closes the connection, as a TLS port does.
    for (answer, wanted) in [
        (Some("+PONG\r\n"), true),
        (Some("-NOAUTH Authentication required.\r\n"), true),
        (Some("HTTP/1.1 400\r\n"), false),
        (None, true),
    ] {
        let server = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = server.local_addr().expect("bound").port();
        let thread = std::thread::spawn(move || {
            let mut client = server.accept().expect("it asks").0;
            let mut request = [0; 6];
            client.read_exact(&mut request).expect("PING");
            client.write_all(answer.unwrap_or_default().as_bytes()).expect("it listens");
        });
        assert_eq!(is_well(port), wanted, "{answer:?}");
        thread.join().expect("it has asked");
    }
    // First a process listens and does not accept; then no process listens.
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = server.local_addr().expect("bound").port();
    assert!(!is_well(port));
    drop(server);
    assert!(!is_well(port));
}
