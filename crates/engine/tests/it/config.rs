//! Behaviour of CONFIG.

use sluice_testkit::{Rig, check};

#[test]
fn get_finds_names_and_patterns() {
    check(&[
        ("CONFIG GET maxmemory", "[\"maxmemory\", \"0\"]"),
        ("CONFIG GET nosuch", "[]"),
        (
            "CONFIG GET maxmemory-pol* maxmemory",
            "[\"maxmemory\", \"0\", \"maxmemory-policy\", \"noeviction\"]",
        ),
        ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command"),
    ]);
}

#[test]
fn set_changes_several_at_once_or_none() {
    check(&[
        ("CONFIG SET maxmemory 1mb maxmemory-policy allkeys-lru", "+OK"),
        ("CONFIG GET maxmemory", "[\"maxmemory\", \"1048576\"]"),
        (
            "CONFIG SET maxmemory 2mb maxmemory-policy nosuch",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the \
             following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, \
             allkeys-random, noeviction",
        ),
        ("CONFIG GET maxmemory", "[\"maxmemory\", \"1048576\"]"),
    ]);
}

#[test]
fn set_refuses() {
    check(&[
        ("CONFIG SET a", "-ERR wrong number of arguments for 'config|set' command"),
        ("CONFIG SET a b c", "-ERR syntax error"),
        ("CONFIG SET nosuch 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
        (
            "CONFIG SET maxclients 100 maxclients 101",
            "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - duplicate parameter",
        ),
        (
            "CONFIG SET databases 1",
            "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
        ),
        (
            "CONFIG SET maxmemory 50%",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value",
        ),
    ]);
}

#[test]
fn setting_what_has_no_effect_is_logged_each_time() {
    let mut rig = Rig::new();
    let text =
        "'rdb-del-sync-files' is set but has no effect yet: it waits for the removal of files of a full sync";
    for times in 1..=3 {
        rig.check("CONFIG SET rdb-del-sync-files yes maxmemory 1mb", "+OK");
        assert_eq!(rig.process.log.iter().filter(|(_, line)| line == text).count(), times);
    }
    rig.check("CONFIG SET rdb-del-sync-files no", "+OK");
    rig.check("CONFIG SET save \"\"", "+OK");
    assert_eq!(rig.process.log.len(), 3, "nothing is asked for: {:?}", rig.process.log);
    rig.check("CONFIG SET save \"3600 1 300 100 60 10000\" rdma-port 7", "+OK");
    let said: Vec<&str> = rig.process.log[3..].iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(said, ["'rdma-port' is set but has no effect: RDMA is not built in"]);
}

#[test]
fn what_the_start_refuses_config_set_refuses() {
    check(&[
        ("CONFIG SET activedefrag yes", "+OK"),
        (
            "CONFIG SET aclfile users.acl",
            "-ERR CONFIG SET failed (possibly related to argument 'aclfile') - can't set immutable config",
        ),
        (
            "CONFIG SET replicaof \"localhost 6379\"",
            "-ERR CONFIG SET failed (possibly related to argument 'replicaof') - can't set immutable config",
        ),
    ]);
}

#[test]
fn set_is_rolled_back_when_the_process_cannot() {
    let mut rig = Rig::new();
    rig.process.refuse = Some("Unable to listen on this port.".into());
    rig.check(
        "CONFIG SET port 1234",
        "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port.",
    );
    rig.check("CONFIG GET port", "[\"port\", \"6379\"]");
}

#[test]
fn set_tells_the_process_what_changed() {
    let mut rig = Rig::new();
    rig.check("CONFIG SET port 1234 timeout 0", "+OK");
    assert_eq!(rig.process.applied, ["port"]);
}

#[test]
fn set_takes_effect_at_once() {
    let mut rig = Rig::new();
    rig.check("CONFIG SET proto-max-bulk-len 2mb maxclients 7", "+OK");
    assert_eq!(rig.engine.limits().proto_max_bulk_len, 2 << 20);
    assert_eq!(rig.engine.limits().maxclients, 7);
}

#[test]
fn requirepass_concerns_new_clients() {
    let mut rig = Rig::new();
    rig.check("CONFIG SET requirepass secret", "+OK");
    rig.check("DBSIZE", ":0");
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "DBSIZE"), "-NOAUTH Authentication required.");
    rig.check("CONFIG SET requirepass \"\"", "+OK");
    assert_eq!(rig.run_as(other, "DBSIZE"), ":0");
}

#[test]
fn maxmemory_refuses_writes_that_need_more() {
    let mut rig = Rig::new();
    rig.check("CONFIG SET maxmemory 1", "+OK");
    rig.check("SET a b", "-OOM command not allowed when used memory > 'maxmemory'.");
    rig.check("CONFIG SET maxmemory 0", "+OK");
    rig.check("SET a b", "+OK");
}

#[test]
fn rewrite_needs_a_file() {
    let mut rig = Rig::new();
    rig.check("CONFIG REWRITE", "-ERR The server is running without a config file");
    rig.process.file = Some("# mine\nport 6379\n".into());
    rig.check("CONFIG SET maxclients 77", "+OK");
    rig.check("CONFIG REWRITE", "+OK");
    let text = rig.process.file.clone().unwrap_or_default();
    assert!(text.starts_with("# mine\nport 6379\n"), "{text}");
    assert!(text.contains("maxclients 77"), "{text}");
}

#[test]
fn resetstat_begins_the_counts_again() {
    let mut rig = Rig::new();
    rig.process.facts.net_input_bytes = 100;
    rig.run("GET a");
    rig.run("NOSUCH");
    assert!(rig.run("INFO stats").contains("keyspace_misses:1"));
    rig.check("CONFIG RESETSTAT", "+OK");
    rig.process.facts.net_input_bytes = 130;
    let text = rig.run("INFO stats");
    for line in [
        "keyspace_misses:0",
        "total_error_replies:0",
        "total_connections_received:0",
        "total_net_input_bytes:30",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!rig.run("INFO errorstats").contains("count="));
    assert!(!rig.run("INFO commandstats").contains("cmdstat_get:"));
}

#[test]
fn info_tells_types_and_what_is_accepted() {
    check(&[
        (
            "CONFIG INFO repl-diskless-load",
            "[[\"name\", \"repl-diskless-load\", \"type\", \"enum\", \"flags\", [\"debug\", \"deny-loading\"], \
             \"values\", [\"disabled\", \"on-empty-db\", \"swapdb\", \"flush-before-load\"]]]",
        ),
        (
            "CONFIG INFO timeout",
            "[[\"name\", \"timeout\", \"type\", \"numeric\", \"flags\", [], \"range\", [\"0\", \"2147483647\"]]]",
        ),
        (
            "CONFIG INFO activedefrag",
            "[[\"name\", \"activedefrag\", \"type\", \"bool\", \"flags\", [\"debug\"]]]",
        ),
        (
            "CONFIG INFO replicaof",
            "[[\"name\", \"replicaof\", \"type\", \"special\", \"flags\", [\"immutable\", \"multi-arg\"], \
             \"alias\", \"slaveof\"]]",
        ),
        (
            "CONFIG INFO SLAVEOF",
            "[[\"name\", \"slaveof\", \"type\", \"special\", \"flags\", [\"immutable\", \"multi-arg\", \"alias\"], \
             \"alias\", \"replicaof\"]]",
        ),
        (
            "CONFIG INFO requirepass requirep* nosuch",
            "[[\"name\", \"requirepass\", \"type\", \"string\", \"flags\", [\"sensitive\"]]]",
        ),
        ("CONFIG INFO nosuch", "[]"),
        (r#"EVAL "return #redis.call('CONFIG','INFO','timeout','port')" 0"#, ":2"),
        (
            "COMMAND INFO config|info",
            "[[\"config|info\", :-3, [+admin, +loading, +stale], :0, :0, :0, [+@admin, +@slow, +@dangerous], [], [], []]]",
        ),
        ("CONFIG INFO", "-ERR wrong number of arguments for 'config|info' command"),
    ]);
}

#[test]
fn info_finds_what_get_finds() {
    let mut rig = Rig::new();
    rig.run("HELLO 3");
    let reply = rig.run("CONFIG INFO timeout maxmemory-s*");
    assert!(reply.starts_with("[{\"name\": \"maxmemory-samples\", \"type\": \"numeric\""), "{reply}");
    let names = |reply: &str, mark: &str| reply.matches(mark).count();
    for pattern in ["*", "repl*", "watchdog-period", "slave-priority *"] {
        let (info, get) = (format!("CONFIG INFO {pattern}"), format!("CONFIG GET {pattern}"));
        let (info, get) = (rig.run(&info), rig.run(&get));
        assert_eq!(names(&info, "{\"name\": "), names(&get, "\": \""), "{pattern}");
    }
}

#[test]
fn help_lists_the_subcommands() {
    let text = Rig::new().run("CONFIG HELP");
    assert!(
        text.starts_with("[+CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, "),
        "{text}"
    );
}

#[test]
fn rename_command_gives_other_names_or_none() {
    let mut rig = Rig::with(&[("rename-command", "flushdb wipe"), ("rename-command", "FLUSHALL \"\"")]);
    rig.check("WIPE", "+OK");
    rig.check("FLUSHDB", "-ERR unknown command 'FLUSHDB', with args beginning with: ");
    rig.check("FLUSHALL", "-ERR unknown command 'FLUSHALL', with args beginning with: ");
}

#[test]
fn rename_command_is_checked_at_the_start() {
    let error = |line: &str| {
        let mut none = |_: &[u8]| Err(String::new());
        let config =
            sluice_config::parse_file(line.as_bytes(), "test", b"", &mut none).map_err(|e| e.report("0"));
        sluice_commands::renames(&config.unwrap_or_default()).err().map(|error| error.report("0"))
    };
    assert!(error("rename-command nosuch other").is_some_and(|text| text.contains("No such command")));
    assert!(error("rename-command get set").is_some_and(|text| text.contains("already exists")));
    assert_eq!(error("rename-command get a\nrename-command a get"), None);
    assert!(error("rename-command get a\nrename-command get b").is_some());
}

#[test]
fn names_and_sizes_end_at_a_zero_byte() {
    check(&[
        (r#"CONFIG SET hash-max-listpack-value "10\x00xx""#, "+OK"),
        ("CONFIG GET hash-max-listpack-value", "[\"hash-max-listpack-value\", \"10\"]"),
        (r#"CONFIG SET maxmemory-policy "allkeys-lru\x00x""#, "+OK"),
        (r#"CONFIG SET lazyfree-lazy-expire "no\x00""#, "+OK"),
        (r#"CONFIG SET notify-keyspace-events "KEA\x00q""#, "+OK"),
        (r#"CONFIG SET client-output-buffer-limit "normal 0 0 0\x00""#, "+OK"),
        (r#"CONFIG "RESETSTAT\x00x""#, "+OK"),
        (r#"CONFIG GET "lfu-d*\x00x""#, "[\"lfu-decay-time\", \"1\"]"),
    ]);
    let text = Rig::new().run(r#"CONFIG SET hash-max-listpack-entries "10\x00""#);
    assert!(text.ends_with("argument couldn't be parsed into an integer"), "{text}");
}

#[test]
fn percentiles_must_fit_a_double() {
    for word in ["1e400", "-1e400", "1e-400"] {
        let text = Rig::new().run(&format!("CONFIG SET latency-tracking-info-percentiles {word}"));
        assert!(text.ends_with("Invalid latency-tracking-info-percentiles parameters"), "{text}");
    }
}
