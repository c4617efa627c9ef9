//! Tests of CONFIG SET and CONFIG GET.

use super::{is_mutable, loaded, set, shown};
use crate::{Config, Origin, ParamId, ParamKind, Phase, UnitOfMeasure, param};

#[test]
fn all_pairs_or_none() {
    let mut config = Config::default();
    set(&mut config, &["hz", "20", "maxclients", "5"]).expect("both are valid");
    assert_eq!((shown(&config, "hz"), shown(&config, "maxclients")), ("20".into(), "5".into()));
    let before = config.clone();
    set(&mut config, &["hz", "30", "maxclients", "0"]).expect_err("one is not");
    assert_eq!(config, before);
}

#[test]
fn a_rollback_restores_what_was_there() {
    let mut config = loaded("slowlog-max-len 7\nsave 1 1");
    let before = config.clone();
    let pairs = ["slowlog-max-len", "8", "commandlog-slow-execution-max-len", "9", "save", "5 5"];
    let undo = set(&mut config, &pairs).expect("name and alias are two");
    assert_eq!(shown(&config, "slowlog-max-len"), "9");
    assert_eq!(shown(&config, "save"), "5 5");
    config.rollback(undo);
    assert_eq!(config, before);
}

#[test]
fn errors_are_those_of_the_reference() {
    let failed = |name: &str, reason: &str| {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    };
    let cases: [(&[&str], String); 14] = [
        // A zero byte ends the values of other parameters, but is part of these values.
        (
            &["cluster-announce-ip", "10.0.0.1\0"],
            failed("cluster-announce-ip", "cluster-announce-ip contains invalid character"),
        ),
        (
            &["cluster-announce-human-nodename", "a\0b"],
            failed(
                "cluster-announce-human-nodename",
                "Announced human node name contained invalid character",
            ),
        ),
        (&["foo", "1"], "ERR Unknown option or number of arguments for CONFIG SET - 'foo'".into()),
        (
            &["hz", "20", "Foo", "1"],
            "ERR Unknown option or number of arguments for CONFIG SET - 'Foo'".into(),
        ),
        (
            &["io-threads-do-reads", "no"],
            "ERR Unknown option or number of arguments for CONFIG SET - 'io-threads-do-reads'".into(),
        ),
        (&["Daemonize", "yes"], failed("Daemonize", "can't set immutable config")),
        (&["dir", "/"], failed("dir", "can't set protected config")),
        (&["hz", "20", "HZ", "30"], failed("HZ", "duplicate parameter")),
        (&["HZ", "x"], failed("hz", "argument couldn't be parsed into an integer")),
        (
            &["slowlog-max-len", "-1"],
            failed("slowlog-max-len", "argument must be between 0 and 9223372036854775807 inclusive"),
        ),
        (&["maxclients", "-1"], failed("maxclients", "argument must be between 1 and 4294967295 inclusive")),
        (&["latency-tracking", "maybe"], failed("latency-tracking", "argument must be 'yes' or 'no'")),
        (&["maxmemory", "1x"], failed("maxmemory", "argument must be a memory value")),
        (
            &["shutdown-on-sigint", ""],
            failed(
                "shutdown-on-sigint",
                "argument(s) must be one of the following: default, save, nosave, now, force, safe, failover",
            ),
        ),
    ];
    for (pairs, expected) in cases {
        let error = set(&mut Config::default(), pairs).expect_err("it must fail");
        assert_eq!(error, expected, "{pairs:?}");
    }
}

#[test]
fn protected_parameters_need_permission() {
    let pairs: [(&[u8], &[u8]); 1] = [(b"dbfilename", b"x.rdb")];
    for (guard, origin, allowed) in [
        ("no", Origin::Local, false),
        ("local", Origin::Local, true),
        ("local", Origin::Remote, false),
        ("yes", Origin::Remote, true),
    ] {
        let config = loaded(&format!("enable-protected-configs {guard}"));
        assert_eq!(config.prepare(&pairs, origin, Phase::Serving).is_ok(), allowed, "{guard} {origin:?}");
    }
}

#[test]
fn some_parameters_do_not_change_while_loading() {
    let config = Config::default();
    let pairs: [(&[u8], &[u8]); 1] = [(b"appendonly", b"no")];
    let error = config.prepare(&pairs, Origin::Local, Phase::Loading).expect_err("loading");
    assert!(error.to_string().starts_with("LOADING "));
    let pairs: [(&[u8], &[u8]); 1] = [(b"hz", b"20")];
    assert!(config.prepare(&pairs, Origin::Local, Phase::Loading).is_ok());
}

#[test]
fn a_change_lists_what_the_server_must_act_on() {
    let config = Config::default();
    let pairs: [(&[u8], &[u8]); 4] =
        [(b"port", b"6379"), (b"hz", b"20"), (b"tls-cert-file", b""), (b"maxclients", b"9")];
    let change = config.prepare(&pairs, Origin::Local, Phase::Serving).expect("all valid");
    let expected = [param::HZ.any(), param::TLS_CERT_FILE.any(), param::MAXCLIENTS.any()];
    assert_eq!(change.changed().collect::<Vec<_>>(), expected);
    let undo = config.clone().apply(change);
    assert_eq!(
        undo.failed(param::MAXCLIENTS, "no room").to_string(),
        "ERR CONFIG SET failed (possibly related to argument 'maxclients') - no room"
    );
}

#[test]
fn every_number_is_bounded() {
    for id in ParamId::all().filter(|id| is_mutable(id.param().traits)) {
        let ParamKind::Int { min, max, unit, clamp: None, .. } = id.param().kind else { continue };
        let name = id.param().name;
        let mut config = Config::default();
        for good in [max, min.max(0)] {
            set(&mut config, &[name, &good.to_string()])
                .unwrap_or_else(|error| panic!("{name} {good}: {error}"));
            assert_eq!(shown(&config, name), good.to_string());
        }
        let before = config.clone();
        for bad in [max + 1, min - 1] {
            let error = set(&mut config, &[name, &bad.to_string()]).expect_err(name);
            assert!(error.contains("argument "), "{name} {bad}: {error}");
        }
        for bad in ["x", "1.5", "0x10", " 1", "1 ", "--1", "1z"] {
            set(&mut config, &[name, bad]).expect_err(name);
        }
        assert_eq!(config, before);
        if unit == UnitOfMeasure::Plain && min < 0 {
            set(&mut config, &[name, &min.to_string()]).expect("the lower bound is included");
        }
    }
}

#[test]
fn every_choice_takes_its_names_in_any_case() {
    for id in ParamId::all().filter(|id| is_mutable(id.param().traits)) {
        let ParamKind::Choice { names, .. } = id.param().kind else { continue };
        for (name, number) in names {
            let mut config = Config::default();
            set(&mut config, &[id.param().name, &name.to_ascii_uppercase()]).expect("it is a name");
            let first = names.iter().find(|(_, other)| other == number).expect("it is there").0;
            assert_eq!(shown(&config, id.param().name), first);
        }
        set(&mut Config::default(), &[id.param().name, "none of them"]).expect_err("it is no name");
    }
}

#[test]
fn several_words_are_split_at_each_blank() {
    let mut config = Config::default();
    for (name, value, expected) in [
        ("save", "10 20 30 40", "10 20 30 40"),
        ("save", "", ""),
        ("bind", "127.0.0.1 ::1", "127.0.0.1 ::1"),
        ("bind", "", ""),
        (
            "client-output-buffer-limit",
            "pubsub 1mb 0 0",
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 0 0",
        ),
        ("oom-score-adj-values", "1 2 3", "1 2 3"),
        ("shutdown-on-sigterm", "force NOSAVE", "nosave force"),
        ("latency-tracking-info-percentiles", "1e1 .5 5.", "10 0.5 5"),
        ("latency-tracking-info-percentiles", "", ""),
        ("notify-keyspace-events", "KA", "AK"),
        ("notify-keyspace-events", "g$lshzxetdKEmn", "AKEm"),
        ("notify-keyspace-events", "nlEm", "lnEm"),
        ("notify-keyspace-events", "", ""),
        ("maxmemory-clients", "5%", "5%"),
        ("maxmemory-clients", "1kb", "1024"),
        ("slot-migration-max-failover-repl-bytes", "-1", "-1"),
        ("oom-score-adj", "relative", "yes"),
        ("requirepass", "", ""),
    ] {
        set(&mut config, &[name, value]).unwrap_or_else(|error| panic!("{name} {value}: {error}"));
        assert_eq!(shown(&config, name), expected, "{name} {value:?}");
    }
}

#[test]
fn get_shows_plain_names_as_asked_and_patterns_sorted() {
    let config = Config::default();
    let names = |patterns: &[&[u8]]| -> Vec<String> {
        config
            .get(patterns)
            .into_iter()
            .map(|(name, _)| String::from_utf8_lossy(&name).into_owned())
            .collect()
    };
    assert_eq!(names(&[b"MAXMEMORY", b"maxmemory", b"MaxMem*ry"]), ["MAXMEMORY"]);
    assert_eq!(names(&[b"slave-pri*"]), ["slave-priority"]);
    assert_eq!(names(&[b"*-priority"]), ["replica-priority", "slave-priority"]);
    assert_eq!(names(&[b"use-exit-on-panic"]), ["use-exit-on-panic"]);
    assert!(names(&[b"use-exit-on-pani?", b"nothing", b""]).is_empty());
}

#[test]
fn the_server_may_assign_what_clients_may_not() {
    let mut config = Config::default();
    config.assign(param::DIR, &[b"/data"]).expect("it is a directory");
    assert_eq!(config.str(param::DIR), "/data");
    config.assign(param::MAXCLIENTS, &[b"77"]).expect("within bounds");
    assert_eq!(config.int(param::MAXCLIENTS), 77);
    assert!(config.assign(param::MAXCLIENTS, &[b"0"]).is_err());
}
