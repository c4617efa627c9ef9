//! Tests of config files and command lines.

use super::{load, loaded, refusal, shown};
use crate::{
    BadLine, CommandLine, Force, LoadError, Location, ParamId, check_texts, command_line, parse_file, rewrite,
};

#[test]
fn values_come_from_lines() {
    let config =
        loaded("# a comment\n\n  PORT 7000\r\n\tmaxmemory 1gb\nlogfile ''\nrequirepass \"a b\\x00\"\n");
    assert_eq!(shown(&config, "port"), "7000");
    assert_eq!(shown(&config, "maxmemory"), "1073741824");
    assert_eq!(shown(&config, "requirepass"), "a b\0");
}

/// `dir` takes effect at its line, so later `include` paths are relative to the new directory.
#[test]
fn a_folder_is_entered_where_its_line_stands() {
    struct Folders {
        at: String,
        read: Vec<String>,
    }
    impl crate::Loader for Folders {
        fn include(&mut self, pattern: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
            let path = format!("{}/{}", self.at, String::from_utf8_lossy(pattern));
            self.read.push(path.clone());
            let text = if pattern == b"deeper" { "dir c\ninclude x" } else { "" };
            Ok(vec![(path, text.into())])
        }
        fn enter(&mut self, folder: &[u8]) -> Result<(), String> {
            match folder {
                b"none" => Err("No such file or directory".to_owned()),
                _ => {
                    self.at = format!("{}/{}", self.at, String::from_utf8_lossy(folder));
                    Ok(())
                }
            }
        }
    }
    let mut folders = Folders { at: String::new(), read: Vec::new() };
    let text = b"include x\ndir a\ninclude x\ndir b\ninclude x\ninclude deeper\ninclude x";
    let config = parse_file(text, "main", b"dir d\ninclude x", &mut folders).expect("it loads");
    assert_eq!(folders.read, ["/x", "/a/x", "/a/b/x", "/a/b/deeper", "/a/b/c/x", "/a/b/c/x", "/a/b/c/d/x"]);
    assert_eq!(shown(&config, "dir"), "d");
    let error =
        parse_file(b"port 1\ndir none\nport x", "main", b"", &mut folders).expect_err("there is none");
    assert_eq!(error.to_string(), "main:2: No such file or directory: 'dir none'");
    // A wrong line changes nothing.
    let (config, errors) = check_texts(&[("main", b"dir a\ndir none")], &mut folders);
    assert_eq!((shown(&config, "dir").as_str(), errors.len()), ("a", 1));
}

#[test]
fn later_lines_win() {
    assert_eq!(shown(&loaded("port 1\nport 2"), "port"), "2");
    assert_eq!(shown(&loaded("slave-priority 1\nreplica-priority 2"), "slave-priority"), "2");
}

#[test]
fn save_lines_add_up_and_an_empty_one_clears() {
    for (text, expected) in [
        ("", "3600 1 300 100 60 10000"),
        ("save 1 2", "1 2"),
        ("save 1 2\nsave 3 4", "1 2 3 4"),
        ("save 1 2 3 4", "1 2 3 4"),
        ("save \"1 2 3 4\"", "1 2 3 4"),
        ("save 1 2\nsave \"\"\nsave 3 4", "3 4"),
        ("save ''", ""),
        ("save", ""),
    ] {
        assert_eq!(shown(&loaded(text), "save"), expected, "{text:?}");
    }
}

#[test]
fn buffer_limits_add_up() {
    let config =
        loaded("client-output-buffer-limit normal 1kb 2kb 3\nclient-output-buffer-limit replica 4 5 6\n");
    assert_eq!(
        shown(&config, "client-output-buffer-limit"),
        "normal 1024 2048 3 slave 4 5 6 pubsub 33554432 8388608 60"
    );
}

#[test]
fn what_the_suite_writes_is_accepted() {
    for line in [
        "save ''",
        "save",
        "slave-serve-stale-data no",
        "enable-debug-assert yes",
        "propagation-error-behavior panic",
        "enable-debug-command local",
        "enable-protected-configs yes",
        "enable-module-command yes",
        "shutdown-on-sigterm force",
        "shutdown-on-sigterm \"nosave force\"",
        "shutdown-on-sigint save now",
        "notify-keyspace-events KEA",
        "repl-diskless-sync-delay 0",
        "no-appendfsync-on-rewrite yes",
        "io-threads 2",
        "io-threads-always-active yes",
        "min-io-threads-avoid-copy-reply 2",
        "io-threads-do-reads yes",
        "dynamic-hz yes",
        "lua-replicate-commands no",
        "bind 127.0.0.1 -::1",
        "latency-tracking-info-percentiles 50 99 99.9",
        "oom-score-adj-values 0 200 800",
    ] {
        loaded(line);
    }
}

/// Lines that both servers refuse, with the reason.
pub(super) const BAD_LINES: &[(&str, &str)] = &[
    ("nonsense 1", "Bad directive or wrong number of arguments"),
    ("nonsense", "Bad directive or wrong number of arguments"),
    ("user", "Bad directive or wrong number of arguments"),
    ("acllog-max-len -1", "argument must be between 0 and 9223372036854775807 inclusive"),
    ("acl-pubsub-default some", "argument(s) must be one of the following: allchannels, resetchannels"),
    ("include", "Bad directive or wrong number of arguments"),
    ("rename-command a", "Bad directive or wrong number of arguments"),
    ("dynamic-hz", "Bad directive or wrong number of arguments"),
    ("port", "wrong number of arguments"),
    ("port 1 2", "wrong number of arguments"),
    ("port \"", "Unbalanced quotes in configuration line"),
    ("port x", "argument couldn't be parsed into an integer"),
    ("port 65536", "argument must be between 0 and 65535 inclusive"),
    ("unixsocketperm 8", "argument couldn't be parsed as an octal number"),
    ("unixsocketperm 1000", "argument must be between 0 and 777 inclusive"),
    ("daemonize maybe", "argument must be 'yes' or 'no'"),
    ("maxmemory 1x", "argument must be a memory value"),
    ("maxmemory-clients x", "argument must be a memory or percent value"),
    ("maxmemory-clients 101%", "percentage argument must be less or equal to 100"),
    ("loglevel loud", "argument(s) must be one of the following: debug, verbose, notice, warning, nothing"),
    ("save 1", "Invalid save parameters"),
    ("save 0 1", "Invalid save parameters"),
    ("save 1 -1", "Invalid save parameters"),
    ("save 1 x", "Invalid save parameters"),
    ("client-output-buffer-limit normal 1 2", "Wrong number of arguments in buffer limit configuration."),
    (
        "client-output-buffer-limit master 1 2 3",
        "Invalid client class specified in buffer limit configuration.",
    ),
    (
        "client-output-buffer-limit normal x 2 3",
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    ),
    ("oom-score-adj-values 1 2", "wrong number of arguments"),
    (
        "oom-score-adj-values 1 2 3000",
        "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
    ),
    ("notify-keyspace-events Kq", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
    ("replicaof localhost", "wrong number of arguments"),
    ("replicaof localhost 70000", "Invalid primary port"),
    ("dir ''", "dir can't be empty"),
    ("dbfilename a/b", "dbfilename can't be a path, just a filename"),
    ("dbfilename ''", "dbfilename can't be empty"),
    ("appenddirname a/b", "appenddirname can't be a path, just a dirname"),
    ("shutdown-on-sigint save nosave", "shutdown options SAVE and NOSAVE can't be used simultaneously"),
    (
        "shutdown-on-sigint",
        "argument(s) must be one of the following: default, save, nosave, now, force, safe, failover",
    ),
    ("bind 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "Too many bind addresses specified."),
    ("module.param", "Module config specified without value"),
    ("sentinel monitor x", "sentinel directive while not in sentinel mode"),
    ("latency-tracking-info-percentiles x", "Invalid latency-tracking-info-percentiles parameters"),
    (
        "latency-tracking-info-percentiles 101",
        "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
    ),
];

#[test]
fn bad_lines_have_the_reasons_of_the_reference() {
    for (text, reason) in BAD_LINES {
        assert_eq!(refusal(text), *reason, "{text:?}");
    }
}

#[test]
fn what_is_missing_here_is_refused_by_name() {
    for (text, word) in
        [("loadmodule x.so", "Modules"), ("module.param 1", "Modules"), ("sentinel", "Sentinel")]
    {
        assert!(refusal(text).contains(word), "{text:?}: {}", refusal(text));
    }
    loaded("cluster-enabled yes\nactivedefrag yes\ntls-port 0\naclfile ''\nreplicaof no one\nappendonly yes");
}

#[test]
fn a_node_of_a_cluster_is_no_replica_by_its_configuration() {
    let reason = "replicaof directive not allowed in cluster mode";
    for text in ["cluster-enabled yes\nreplicaof h 1\n", "replicaof h 1\ncluster-enabled yes\n"] {
        assert!(refusal(text).contains(reason), "{text:?}: {}", refusal(text));
    }
    loaded("replicaof h 1\ncluster-enabled yes\nreplicaof no one\n");
    loaded("replicaof h 1\ncluster-enabled yes\ncluster-enabled no\n");
}

#[test]
fn an_error_is_reported_as_the_reference_does() {
    let error = load("port 1\n  foo bar \n").expect_err("foo is no directive");
    assert_eq!(
        error.report("9.1.2"),
        "\n*** FATAL CONFIG FILE ERROR (Version 9.1.2) ***\nReading the configuration file, at line 2\n\
         >>> 'foo bar'\nBad directive or wrong number of arguments\n\
         sluice-server --check-config lists everything that is wrong with a configuration.\n"
    );
}

#[test]
fn a_report_says_that_an_option_is_from_the_command_line() {
    for (file, line) in [("", 2), ("port 1", 2), ("port 1\n", 3)] {
        let options = b"hz 20\nport \"99999x\"";
        let error = parse_file(file.as_bytes(), "main", options, &mut |_: &[u8]| Ok(Vec::new()));
        let report = error.expect_err("the port is no number").report("1");
        let line = line + 1;
        assert!(
            report.contains(&format!(
                "Reading the configuration file, at line {line}\n>>> 'port \"99999x\"'\n\
                 argument couldn't be parsed into an integer\n\
                 This line is from the command line: option --port.\n"
            )),
            "{file:?}: {report}"
        );
    }
    let report = load("port x").expect_err("no number").report("1");
    assert!(!report.contains("command line"), "{report}");
}

#[test]
fn a_comment_behind_a_value_is_named() {
    let error = load("maxmemory 1gb # as the machine has two").expect_err("five words too many");
    let report = error.report("1");
    assert!(
        report
            .contains("wrong number of arguments\nThe line has a '#' behind its first word: a comment must"),
        "{report}"
    );
    assert!(error.to_string().ends_with("(a comment must stand on a line of its own)"), "{error}");
    for text in ["maxmemory 1gb 2gb", "#x\nmaxmemory x#", "requirepass #a #b"] {
        let error = load(text).expect_err("wrong without a comment");
        let told = format!("{}{error}", error.report("1"));
        assert!(!told.contains("comment"), "{told}");
    }
}

#[test]
fn errors_show_lines_without_their_secrets() {
    for (line, shown) in [
        ("user a on >hidden zzz", "user a on >(redacted) zzz"),
        ("USER a <hidden !hidden #hidden ~k +get", "USER a <(redacted) !(redacted) #(redacted) ~k +get"),
        ("role r (>hidden", "role r (>(redacted)"),
        ("user >hidden on", "user >(redacted) on"),
        (r#""user" "a" ">hid den" 'on'"#, r#""user" "a" ">(redacted) 'on'"#),
        (r#"user a '>hid\\' hidden' on"#, "user a '>(redacted) on"),
        (r#"user a '>hid\' hidden' on"#, "user a '>(redacted) on"),
        (r#"user a ">hid\" hidden" on"#, r#"user a ">(redacted) on"#),
        (r#"user a "\x3ehidden" on"#, r#"user a "(redacted) on"#),
        (r#"user a >"hid den" on"#, "user a >(redacted) on"),
        ("user a >hid\u{a0}den on", "user a >(redacted) on"),
        ("user a >hid\u{c}den on", "user a >(redacted) on"),
        ("user a > hidden on", "user a > (redacted) on"),
        (r#"user a on ">hidden"hidden +get"#, r#"user a on ">(redacted) +get"#),
        (r#"user a >hidden on hid"den"#, "user a >(redacted)"),
        ("user a on  ~k +get|x", "user a on  ~k +get|x"),
        ("requirepass hidden hidden", "requirepass (redacted)"),
        ("requirepass", "requirepass"),
        ("RequirePass hid", "RequirePass (redacted)"),
        ("maxmemory >1", "maxmemory >1"),
        // These lines are directives of Sentinel and of other programs, and misspelt directives.
        ("sentinel auth-pass m hidden", "sentinel auth-pass (redacted)"),
        ("sentinel sentinel-pass hidden", "sentinel sentinel-pass (redacted)"),
        ("SENTINEL  Auth-Pass m hidden", "SENTINEL  Auth-Pass (redacted)"),
        ("sentinel monitor m 127.0.0.1 6379 2", "sentinel monitor m 127.0.0.1 6379 2"),
        ("requirepas hidden", "requirepas (redacted)"),
        ("requrepass \"hid den\" x", "requrepass (redacted)"),
        ("mastreauth hidden", "mastreauth (redacted)"),
        ("api-token hidden", "api-token (redacted)"),
        ("vault.Secret hidden", "vault.Secret (redacted)"),
        ("aws_access_key_id hidden", "aws_access_key_id (redacted)"),
        ("requirepass=hidden", "requirepass (redacted)"),
        ("requirepass:hidden", "requirepass (redacted)"),
        ("requirepasshidden", "requirepass (redacted)"),
        ("\"requirepass hidden\"", "\"requirepass (redacted)"),
        ("requirepass\u{a0}hidden", "requirepass (redacted)"),
        ("loadmodule /m.so password hidden", "loadmodule /m.so password (redacted)"),
        ("loadmodule /m.so redis://u:hidden@h/", "loadmodule /m.so redis:(redacted)"),
        ("usr a on >hidden ~*", "usr a on >(redacted)"),
        ("usr a on #hidden ~*", "usr a on #(redacted)"),
        ("maxmemry 100mb 5", "maxmemry 100mb 5"),
        // Two directives were joined in one line by mistake.
        ("port 6379 requirepass hidden", "port 6379 requirepass (redacted)"),
        ("logfile /var/keys/auth.log x", "logfile /var/keys/auth.log x"),
        ("include /etc/secret/key.conf", "include /etc/secret/key.conf"),
        ("tls-key-file /etc/key.pem", "tls-key-file /etc/key.pem"),
    ] {
        let location = Location { source: "a.conf".into(), line: 3, text: line.into(), depth: 0 };
        let error = LoadError::Line(BadLine { location, reason: "wrong".into() });
        assert_eq!(error.to_string(), format!("a.conf:3: wrong: '{shown}'"));
        assert!(error.report("1").contains(&format!("\n>>> '{shown}'\nwrong\n")), "{}", error.report("1"));
        assert!(!format!("{error}{}", error.report("1")).contains("hid"), "{line}");
    }
    let options = b"requirepass=hidden";
    let error =
        parse_file(b"", "main", options, &mut |_: &[u8]| Ok(Vec::new())).expect_err("none").report("1");
    assert!(error.contains("option --requirepass.\n") && !error.contains("hid"), "{error}");
    let config = load("user a >hidden on zzz").expect("judged later");
    let error = config.user_lines()[0].error(2, "Syntax error");
    assert!(error.to_string().contains("Error in user declaration '>(redacted)': Syntax error"), "{error}");
}

#[test]
fn included_files_are_read_in_place() {
    let mut asked = Vec::new();
    let mut loader = |path: &[u8]| {
        asked.push(path.to_vec());
        Ok(vec![("one".into(), b"port 2\nhz 20".to_vec()), ("two".into(), b"hz 30".to_vec())])
    };
    let config =
        parse_file(b"port 1\ninclude \"conf.d/*\"\nhz 40", "main", b"", &mut loader).expect("it loads");
    assert_eq!(asked, [b"conf.d/*"]);
    assert_eq!(shown(&config, "port"), "2");
    assert_eq!(shown(&config, "hz"), "40");
}

#[test]
fn an_error_in_an_included_file_names_that_file() {
    let mut loader = |_: &[u8]| Ok(vec![("inner".to_string(), b"\nfoo 1".to_vec())]);
    let error = parse_file(b"include x", "outer", b"", &mut loader).expect_err("foo is no directive");
    let LoadError::Line(bad) = error else { panic!("the line is at fault") };
    assert_eq!((bad.location.source.as_str(), bad.location.line), ("inner", 2));
    let report = LoadError::Line(bad).report("1");
    assert!(
        report.contains("Reading the included file 'inner', at line 2\n>>> 'foo 1'\nBad directive"),
        "{report}"
    );
}

#[test]
fn a_check_names_every_wrong_line_and_keeps_the_good_ones() {
    let mut loader = |path: &[u8]| match path {
        b"inner" => Ok(vec![("inner".to_string(), b"hz 20\n\nfoo 1\nport x".to_vec())]),
        _ => Err("No such file or directory".to_string()),
    };
    let file = b"port 1\nbar\ninclude inner\ninclude gone\ntimeout 3\nport 70000\n\"x";
    let (config, errors) = check_texts(&[("main", file), ("command line", b"hz\ntimeout 4")], &mut loader);
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "main:2: Bad directive or wrong number of arguments: 'bar'",
            "inner:3: Bad directive or wrong number of arguments: 'foo 1'",
            "inner:4: argument couldn't be parsed into an integer: 'port x'",
            "main:4: can't open config file 'gone': No such file or directory: 'include gone'",
            "main:6: argument must be between 0 and 65535 inclusive: 'port 70000'",
            "main:7: Unbalanced quotes in configuration line: '\"x'",
            "command line:1: wrong number of arguments: 'hz'",
        ]
    );
    assert_eq!(["port", "hz", "timeout"].map(|name| shown(&config, name)), ["1", "20", "4"]);
    let same = parse_file(file, "main", b"", &mut loader).expect_err("the first error ends it");
    assert_eq!(same, errors[0]);
    let report = errors[3].report("1");
    assert!(report.contains("directory\nThe file is included by main, line 4.\n"), "{report}");
}

#[test]
fn a_check_of_files_without_end_has_an_end() {
    let text = b"nonsense\ninclude x\n".repeat(10);
    let mut loader = |_: &[u8]| Ok(vec![("x".to_string(), text.clone())]);
    let (_, errors) = check_texts(&[("x", &text)], &mut loader);
    assert_eq!(errors.len(), crate::load::ERRORS_MAX);
}

#[test]
fn a_directory_that_cannot_be_entered_is_reported_with_its_line() {
    let config = loaded("dir /one\nport 1\ndir /two\n");
    assert_eq!(
        config.cannot_apply(crate::param::DIR, "No such file or directory").report("9.1.2"),
        "\n*** FATAL CONFIG FILE ERROR (Version 9.1.2) ***\nReading the configuration file, at line 3\n\
         >>> 'dir /two'\nNo such file or directory\n\
         sluice-server --check-config lists everything that is wrong with a configuration.\n"
    );
}

#[test]
fn what_asks_for_something_missing_is_said_in_a_sentence() {
    let said = |text: &str| {
        let said: Vec<String> = loaded(text).without_effect().map(|(_, sentence)| sentence).collect();
        said.join("; ")
    };
    assert_eq!(said("port 1\nsave 1 1\nappendonly no"), "");
    assert_eq!(
        said("rdb-del-sync-files yes"),
        "'rdb-del-sync-files' is set but has no effect yet: it waits for the removal of files of a full \
         sync"
    );
    assert_eq!(said("rdma-port 7"), "'rdma-port' is set but has no effect: RDMA is not built in");
    // The sentence has the name that the file uses, which may be an alias.
    let sentence = "is set but has no effect: the old data are always freed in the background";
    assert_eq!(said("Slave-Lazy-Flush no\n"), format!("'slave-lazy-flush' {sentence}"));
    assert_eq!(
        said("slave-lazy-flush yes\nreplica-lazy-flush no\n"),
        format!("'replica-lazy-flush' {sentence}")
    );
    let config = loaded("port 1\nslave-lazy-flush no\n");
    let (id, _) = config.without_effect().next().expect("it has none");
    assert!(config.cannot_apply(id, "why").to_string().contains(":2"), "{}", config.cannot_apply(id, "why"));
}

#[test]
fn names_of_9_2_are_taken_and_those_without_effect_named() {
    let config = loaded(
        "priority-subnets 10.0.0.0/8,::1\nmaxclients-reserved 10\ntls-alt-cert-file a.crt\ntls-alt-key-file a.key\n\
         tls-alt-key-file-pass secret\nmaxmemory-scripts 10mb\nhotkeys-top-k 5\nforkless-infrastructure-enabled yes\n\
         bgsave-default-method forkless\nrepl-throttling-enabled yes\npriority-preemptive-poll-interval-us 2000\n",
    );
    let without: Vec<&str> = config.without_effect().map(|(id, _)| id.param().name).collect();
    let mut expected = [
        "bgsave-default-method",
        "forkless-infrastructure-enabled",
        "priority-preemptive-poll-interval-us",
        "repl-throttling-enabled",
    ];
    expected.sort_by_key(|name| ParamId::find(name.as_bytes()));
    assert_eq!(without, expected);
}

#[test]
fn endpoints_for_networks_add_up_line_by_line() {
    let config = loaded(
        "announce-endpoint-for 10.0.0.0/8 10.0.0.5:6379 a.example:7000\n\
         announce-endpoint-for ::/0 node-2 b.example 0.0.0.0/0 node-2 192.0.2.2\n",
    );
    let all = "10.0.0.0/8 10.0.0.5:6379 a.example:7000 ::/0 node-2 b.example 0.0.0.0/0 node-2 192.0.2.2";
    assert_eq!(shown(&config, "announce-endpoint-for"), all);
    // A rewrite joins the lines in one line, which means the same.
    let written = rewrite(None, &config, &[], Force::Changed);
    let written = String::from_utf8(written).expect("text");
    assert!(written.contains(&format!("announce-endpoint-for {all}\n")), "{written}");
    assert_eq!(loaded(&written).endpoint_rules(), config.endpoint_rules());
    assert!(
        loaded("announce-endpoint-for ::/0 a b\nannounce-endpoint-for \"\"\n").endpoint_rules().is_empty()
    );
}

#[test]
fn a_missing_include_is_fatal() {
    let error =
        parse_file(b"include x", "outer", b"", &mut |_: &[u8]| Err("No such file or directory".into()));
    assert_eq!(
        error.expect_err("it is missing").report("1"),
        "Fatal error, can't open config file 'x': No such file or directory\nThe file is included by outer, line 1.\n\
         sluice-server --check-config lists everything that is wrong with a configuration.\n"
    );
}

#[test]
fn files_that_include_themselves_end() {
    let text = b"include x\n".repeat(10);
    let mut loader = |_: &[u8]| Ok(vec![("x".to_string(), text.clone())]);
    assert!(parse_file(&text, "x", b"", &mut loader).is_err());
    let mut wide = |_: &[u8]| Ok(vec![("x".to_string(), b"port 1".to_vec()); 1000]);
    assert!(parse_file(&text, "x", b"", &mut wide).is_err());
}

#[test]
fn renames_are_kept_with_their_errors() {
    let config = loaded("rename-command CONFIG ''\nrename-command get fetch");
    let renames = config.renames();
    assert_eq!((renames[0].from.as_slice(), renames[0].to.as_slice()), (&b"CONFIG"[..], &b""[..]));
    assert!(
        renames[1]
            .unknown_command()
            .report("1")
            .contains("at line 2\n>>> 'rename-command get fetch'\nNo such command in rename-command")
    );
    assert!(renames[1].name_taken().report("1").contains("Target command name already exists"));
}

#[test]
fn options_become_lines() {
    let cases: [(&[&str], Option<&str>, &str); 14] = [
        (&[], None, ""),
        (&["a.conf"], Some("a.conf"), ""),
        (&["a.conf", "--port", "1"], Some("a.conf"), "port \"1\" "),
        (&["--port", "1", "--hz", "20"], None, "port \"1\" \nhz \"20\" "),
        (&["--port 1", "--hz 20"], None, "port 1 \nhz 20 "),
        (&["--port", "1", "2"], None, "port \"1\" \"2\" "),
        (&["--port", "--hz", "20"], None, "port \"--hz\" \"20\" "),
        (&["--save", ""], None, "save \"\" "),
        (&["--save"], None, "save \"\""),
        (&["--save", "--port", "1"], None, "save \"\"\nport \"1\" "),
        (&["--SAVE", "--port", "1"], None, "SAVE \"\"\nport \"1\" "),
        (&["--sentinel", "--port", "1"], None, "sentinel \nport \"1\" "),
        (&["--port"], None, "port "),
        (&["--requirepass", "a\"b"], None, "requirepass \"a\\\"b\" "),
    ];
    for (arguments, file, options) in cases {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        let line = command_line(&arguments);
        assert_eq!(line.config_file.as_deref(), file.map(str::as_bytes), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&line.options), options, "{arguments:?}");
        assert!(!line.stdin, "{arguments:?}");
    }
}

#[test]
fn a_dash_at_either_end_is_standard_input() {
    for arguments in
        [&[&b"-"[..]] as &[&[u8]], &[b"a.conf", b"-"], &[b"-", b"--port", b"1"], &[b"--port", b"1", b"-"]]
    {
        assert!(command_line(arguments).stdin, "{arguments:?}");
    }
    let CommandLine { stdin, options, .. } = command_line(&[b"--port", b"-", b"1"]);
    assert!(!stdin);
    assert_eq!(options, b"port \"-\" \"1\" ");
}

#[test]
fn options_come_after_the_file() {
    let line = command_line(&[b"x", b"--port", b"2", b"--bind", b"127.0.0.1 ::1", b"--save", b"1 2"]);
    let config = parse_file(b"port 1\nsave 9 9", "x", &line.options, &mut |_: &[u8]| Ok(Vec::new()))
        .expect("it loads");
    assert_eq!(shown(&config, "port"), "2");
    assert_eq!(shown(&config, "bind"), "127.0.0.1 ::1");
    assert_eq!(shown(&config, "save"), "9 9 1 2");
    let bad = command_line(&[b"x", b"--foo", b"2"]);
    let error =
        parse_file(b"port 1\n", "x", &bad.options, &mut |_: &[u8]| Ok(Vec::new())).expect_err("foo is none");
    assert!(error.report("1").contains("at line 3\n>>> 'foo \"2\"'"), "{}", error.report("1"));
}

#[test]
fn hz_is_pulled_into_its_range() {
    assert_eq!(shown(&loaded("hz 0"), "hz"), "1");
    assert_eq!(shown(&loaded("hz 100000"), "hz"), "500");
}

#[test]
fn user_lines_are_kept_with_their_words_and_what_held_where_they_stand() {
    let text = "User alice on \"~a b\" >secret\nacl-pubsub-default allchannels\nuser bob\n";
    let mut loader = |_: &[u8]| Ok(vec![("inner".to_string(), b"user carol off".to_vec())]);
    let all = format!("{text}include x\n");
    let mut config = parse_file(all.as_bytes(), "main", b"user dora on", &mut loader).expect("it loads");
    let lines = config.user_lines();
    let words: Vec<Vec<&[u8]>> = lines.iter().map(crate::UserLine::words).collect();
    let expected: [&[&[u8]]; 4] = [
        &[b"User", b"alice", b"on", b"~a b", b">secret"],
        &[b"user", b"bob"],
        &[b"user", b"carol", b"off"],
        &[b"user", b"dora", b"on"],
    ];
    assert_eq!(words, expected);
    let all_channels: Vec<bool> = lines.iter().map(crate::UserLine::all_channels).collect();
    assert_eq!(all_channels, [false, true, true, true]);
    let sources: Vec<Option<&str>> = lines.iter().map(crate::UserLine::outside_source).collect();
    assert_eq!(sources, [None, None, Some("inner"), Some("command line")]);
    assert!(!format!("{config:?}").contains("secret"), "a password is shown");
    assert_eq!(config.take_user_lines().len(), 4);
    assert!(config.user_lines().is_empty());
}

#[test]
fn a_faulty_user_is_reported_as_the_reference_does() {
    let config = loaded("port 1\n  user alice on zzz \n");
    let line = &config.user_lines()[0];
    assert_eq!(
        line.error(1, "Syntax error").report("9.1.2"),
        "\n*** FATAL CONFIG FILE ERROR (Version 9.1.2) ***\nReading the configuration file, at line 2\n\
         >>> 'user alice on zzz'\nError in user declaration 'alice': Syntax error\n\
         sluice-server --check-config lists everything that is wrong with a configuration.\n"
    );
    assert_eq!(
        line.error(9, "x").to_string(),
        "test.conf:2: Error in user declaration '': x: 'user alice on zzz'"
    );
}
