use super::commands::COMMANDS_SHOWN;
use super::*;
use crate::facts::{
    ClusterFacts, ClusterNodeFact, CommandCalls, NodeCondition, NodeView, OpenSlotFact, PayloadFact,
    SettingFact, SettingValue, UnknownFact, WhyUnknown,
};

/// The facts of a server that uses only features that are available here.
fn plain() -> MoveFacts {
    let info = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nuptime_in_seconds:200000\r\nrole:master\r\n\
                used_memory:1000000\r\nmaxmemory:0\r\ncluster_enabled:0\r\ndb0:keys=3,expires=0,avg_ttl=0\r\n";
    MoveFacts {
        info: Ok(InfoFacts::read(info.as_bytes())),
        calls: Ok(vec![calls("get", 7, 0), calls("config|get", 1, 0)]),
        settings: Ok(vec![setting("maxmemory", "0"), setting("dynamic-hz", "yes")]),
        modules: Ok(vec![(b"lua".to_vec(), 1)]),
        users: Ok(vec![b"user default on nopass sanitize-payload ~* &* +@all".to_vec()]),
        libraries: Ok(Vec::new()),
        clients: Ok(BTreeMap::new()),
        cluster: None,
        keys: Ok(KeySample::default()),
    }
}

fn calls(name: &str, calls: u64, failed: u64) -> CommandCalls {
    CommandCalls { name: name.as_bytes().to_vec(), calls, failed }
}

fn setting(name: &str, value: &str) -> SettingFact {
    let (name, value) = (name.as_bytes().to_vec(), SettingValue::Plain(value.as_bytes().to_vec()));
    SettingFact { name, value }
}

/// The findings whose weight is not `works`, each as the text `weight about: what`.
fn heavy(facts: &MoveFacts) -> Vec<String> {
    let heavy = judge(facts).into_iter().filter(|finding| finding.weight != FindingWeight::Works);
    heavy
        .map(|finding| {
            assert!(!finding.advice.is_empty(), "{finding:?}");
            format!("{} {}: {}", finding.weight.word(), finding.about, finding.what)
        })
        .collect()
}

fn check(change: impl FnOnce(&mut MoveFacts), wanted: &[&str]) {
    let mut facts = plain();
    change(&mut facts);
    let got = heavy(&facts);
    assert_eq!(got.len(), wanted.len(), "{got:#?}");
    got.iter().zip(wanted).for_each(|(got, wanted)| assert!(got.contains(wanted), "{wanted:?} in {got:?}"));
}

#[test]
fn a_server_like_ours_has_nothing_in_the_way() {
    check(|_| {}, &[]);
}

/// Numbers from the other server are untrusted, so each number is replaced by values at the edges of its
/// type, first alone and then together with all others.
#[test]
fn numbers_of_the_other_server_may_be_any() {
    let names: Vec<Vec<u8>> = plain().info.unwrap().0.into_keys().collect();
    for edge in ["18446744073709551615", "18446744073709551616", "9223372036854775807", "-1", "0", ""] {
        let of = |name: &[u8]| match name.starts_with(b"db") {
            true => format!("keys={edge},expires={edge},avg_ttl={edge}").into_bytes(),
            false => edge.as_bytes().to_vec(),
        };
        for changed in names.iter().map(|name| vec![name.clone()]).chain([names.clone()]) {
            let mut facts = plain();
            let info = facts.info.as_mut().unwrap();
            changed.iter().for_each(|name| drop(info.0.insert(name.clone(), of(name))));
            info.0.extend([b"db1", b"db2"].map(|name| (name.to_vec(), of(name))));
            let count = edge.parse().unwrap_or(0);
            facts.calls =
                Ok(vec![calls("m.a", count, 0), calls("m.b", 0, count), calls("m.c", count, count)]);
            facts.modules = Ok(vec![(b"m".to_vec(), i64::MIN), (b"n".to_vec(), i64::MAX)]);
            let _ = judge(&facts);
        }
    }
}

#[test]
fn more_keys_than_a_number_holds_are_the_largest_number() {
    let mut facts = plain();
    facts.info = Ok(InfoFacts::read(b"db0:keys=18446744073709551615\r\ndb1:keys=5\r\n"));
    facts.keys = Ok(KeySample {
        looked_at: 1,
        kinds: [((b"string".to_vec(), b"int".to_vec()), 1)].into(),
        ..KeySample::default()
    });
    let findings = judge(&facts);
    let text = "of 1 keys that were looked at, of 18446744073709551615 in all: 1 string";
    assert!(findings.iter().any(|finding| finding.what == text), "{findings:#?}");
}

#[test]
fn commands_that_are_not_here_are_named_by_their_calls() {
    check(
        |facts| {
            facts.calls = Ok(vec![
                calls("json.get", 5, 0),
                calls("cluster|migration", 2, 0),
                calls("cluster|migrateslots", 1, 0),
                calls("get", 9, 0),
                calls("vsim", 3, 3),
                calls("vadd", 80, 1),
                calls("never.called", 0, 0),
            ]);
        },
        &[
            "missing commands: VADD is not here (calls: 80",
            "missing commands: JSON.GET is not here (calls: 5",
            "look commands: VSIM is not here; all calls have failed",
            "missing commands: CLUSTER|MIGRATION is not here (calls: 2",
        ],
    );
    let mut facts = plain();
    facts.calls = Ok(vec![calls("backup|start", 4, 0), calls("phset", 3, 0), calls("vsim", 2, 0)]);
    let findings = judge(&facts);
    let missing = findings.iter().filter(|finding| finding.weight == FindingWeight::Missing);
    let advice: Vec<&str> = missing.map(|finding| &*finding.advice).collect();
    for (advice, wanted) in advice.iter().zip(["sluice-backup", "HSET with the path", "vector sets"]) {
        assert!(advice.contains(wanted), "{wanted} in {advice}");
    }
    assert_eq!(advice.len(), 3);
    let many = (0..50).map(|number| calls(&format!("m.{number}"), 1, 0)).collect();
    let mut facts = plain();
    facts.calls = Ok(many);
    assert_eq!(heavy(&facts).len(), COMMANDS_SHOWN + 1);
}

#[test]
fn directives_are_refused_without_effect_or_unknown() {
    check(
        |facts| {
            facts.settings = Ok(vec![
                setting("maxmemory-policy", "allkeys-lrm"),
                setting("mptcp", "yes"),
                setting("cluster-node-timeout", "5000"),
                setting("save", "3600 1 300 100"),
                setting(
                    "client-output-buffer-limit",
                    "normal 0 0 0 slave 268435456 67108864 60 pubsub 1 1 1",
                ),
                setting("lazyfree-lazy-user-del", "no"),
                setting("replicaof", "10.0.0.1 6379"),
                setting("bf-error-rate", "0.01"),
                setting("dynamic-hz", "no"),
                setting("brand-new", "plantedsecret"),
            ]);
        },
        &[
            "missing directives: maxmemory-policy allkeys-lrm is refused",
            "look directives: 'mptcp' is set but has no effect yet",
            "look directives: not known here: dynamic-hz, brand-new",
        ],
    );
}

#[test]
fn rules_of_users_that_are_refused_are_named_and_nothing_else_of_them() {
    let digest = "0".repeat(64);
    check(
        |facts| {
            facts.users = Ok(vec![
                format!("user a on #{digest} ~plantedkey* &plantedchannel +@all -@json +ft.search +get")
                    .into_bytes(),
                b"user b on (~x* +get) +config|get".to_vec(),
                b"user c on %Q~plantedkey +get".to_vec(),
            ]);
        },
        &[
            "missing users: rules of a are refused here: -@json +ft.search",
            "missing users: the rules of c are refused",
        ],
    );
}

/// ACL LIST of Valkey 9.2 lists the roles first. A faulty role is reported once, not again for each user.
#[test]
fn users_are_judged_with_their_roles() {
    let lines = |lines: &[&str]| Ok(lines.iter().map(|line| line.as_bytes().to_vec()).collect());
    let reader = "role reader resetchannels -@all ~app:* +@read";
    let users = ["user default on nopass ~* &* +@all", "user a on nopass role=reader,probe +ping"];
    let mut facts = plain();
    facts.users = lines(&[reader, "role probe resetchannels -@all +get", users[0], users[1]]);
    assert_eq!(heavy(&facts), [""; 0]);
    let users_of = |facts: &MoveFacts| {
        let mut works = judge(facts).into_iter().filter(|finding| finding.about == "users");
        works.next_back().map(|finding| format!("{}: {}", finding.what, finding.advice))
    };
    let wanted = "2 of 2 users have rules that are taken, 2 of 2 roles: replication does \
                  not copy users and roles: copy the aclfile or the user and role lines";
    assert_eq!(users_of(&facts).as_deref(), Some(wanted));
    check(
        |facts| {
            facts.users = lines(&[
                "role probe resetchannels -@all +get +ft.search",
                reader,
                users[0],
                users[1],
                "user b on role=reader,nobody",
            ]);
        },
        &[
            "missing users: rules of the role probe are refused here: +ft.search",
            "missing users: the rules of b are refused here: a command, category or role is not known",
        ],
    );
}

#[test]
fn modules_types_engines_and_clusters_are_found() {
    check(
        |facts| {
            facts.modules = Ok(vec![(b"vectorset".to_vec(), 1), (b"search".to_vec(), 20_800)]);
            facts.libraries = Ok(vec![(b"lib".to_vec(), b"LUA".to_vec()), (b"js".to_vec(), b"JS".to_vec())]);
            let kinds = [
                ((b"ReJSON-RL".to_vec(), b"raw".to_vec()), 3),
                ((b"hash".to_vec(), b"listpack".to_vec()), 4),
            ];
            let kinds = kinds.into_iter().collect();
            facts.keys = Ok(KeySample { looked_at: 8, refused: 1, kinds, payloads: Vec::new() });
            let text = "redis_version:8.0.6\nredis_mode:cluster\nrole:slave\nloading:1\n";
            facts.info = Ok(InfoFacts::read(text.as_bytes()));
            facts.cluster = Some(Err(UnknownFact { command: "CLUSTER NODES", why: WhyUnknown::Rights }));
        },
        &[
            "look server: the server is loading",
            "look replication: the server is a replica",
            "look cluster: not judged: CLUSTER NODES: this user has no right",
            "look modules: search 20800",
            "missing functions: library js",
            "missing keys: 3 of 8 keys are of the type ReJSON-RL",
            "look keys: not judged: 1 keys",
        ],
    );
}

#[test]
fn versions_say_what_was_tried() {
    for (text, wanted) in [
        ("redis_version:6.2.1", None),
        ("redis_version:8.0.6", None),
        ("redis_version:8.10.3", Some("look server: Redis 8.10.3 is newer")),
        ("redis_version:7.2.4\nvalkey_version:7.2.9", None),
        ("redis_version:5.0.1", Some("look server: Redis 5.0.1 is older")),
        ("redis_version:7.2.4\nvalkey_version:9.2.0", Some("look server: Valkey 9.2.0 is newer")),
        ("redis_version:9.0.0", Some("look server: Redis 9.0.0 is newer")),
        ("", Some("look server: INFO names no version")),
    ] {
        let info = Ok(InfoFacts::read(text.as_bytes()));
        check(|facts| facts.info = info, wanted.as_slice());
    }
}

#[test]
fn values_are_loaded_as_a_full_copy_would() {
    let payload = rdb::dump(rdb::Dumped::Str(rdb::Text::Bytes(b"x")), false);
    let fact = |payload: Vec<u8>| PayloadFact {
        kind: b"string".to_vec(),
        encoding: b"embstr".to_vec(),
        payload: Ok(payload),
    };
    let mut damaged = payload.clone();
    damaged[1] ^= 1;
    let sample = |payloads| Ok(KeySample { looked_at: 2, payloads, ..KeySample::default() });
    check(|facts| facts.keys = sample(vec![fact(payload)]), &[]);
    check(
        |facts| facts.keys = sample(vec![fact(damaged.clone()), fact(damaged), fact(Vec::new())]),
        &["missing keys: a value of the type string, encoding embstr, of RDB version 80 does not load"],
    );
}

#[test]
fn what_is_not_known_needs_a_look() {
    let unknown = |why| UnknownFact { command: "CONFIG GET", why };
    for (why, wanted) in [
        (WhyUnknown::Rights, "look directives: not judged: CONFIG GET: this user has no right"),
        (WhyUnknown::NoCommand, "look directives: not judged: CONFIG GET: the server has no such command"),
        (WhyUnknown::Error("BUSY".to_owned()), "look directives: not judged: CONFIG GET: its reply is BUSY"),
        (WhyUnknown::Strange, "look directives: not judged"),
        (WhyUnknown::TooMuch, "look directives: not judged"),
    ] {
        check(|facts| facts.settings = Err(unknown(why)), &[wanted]);
    }
}

#[test]
fn clients_are_told_by_their_libraries() {
    let kind = |library: &str, role| ClientGroup {
        library: library.as_bytes().to_vec(),
        version: b"5.0".to_vec(),
        protocol: 3,
        role,
    };
    let kinds = [
        (kind("redis-py", ClientRole::Tracking), 3),
        (kind("jedis", ClientRole::Usual), 7),
        (kind("", ClientRole::Sentinel), 1),
    ];
    let mut facts = plain();
    facts.clients = Ok(kinds.into_iter().collect());
    assert_eq!(heavy(&facts), ["look clients: redis-py with its client-side cache"]);
    let all: Vec<String> = judge(&facts).into_iter().map(|finding| finding.what).collect();
    assert!(all.iter().any(|what| what == "7 of jedis 5.0, RESP3"), "{all:?}");
    assert!(all.iter().any(|what| what.starts_with("Sentinel watches")), "{all:?}");
}

#[test]
fn commands_of_redis_with_another_meaning_are_named() {
    let called = || Ok(vec![calls("increx", 3, 0), calls("sunioncard", 2, 0), calls("get", 2, 0)]);
    check(
        |facts| {
            facts.info = Ok(InfoFacts::read(b"redis_version:8.0.6"));
            facts.calls = called();
        },
        &["missing commands: SUNIONCARD is not here", "look commands: INCREX is another command here"],
    );
    check(|facts| facts.calls = called(), &["missing commands: SUNIONCARD is not here"]);
}

#[test]
fn an_rdb_version_that_is_not_read_is_named() {
    let mut payload = rdb::dump(rdb::Dumped::Str(rdb::Text::Bytes(b"x")), false);
    let at = payload.len() - 10;
    payload[at] = 14;
    let fact = PayloadFact { kind: b"string".to_vec(), encoding: b"embstr".to_vec(), payload: Ok(payload) };
    let sample = Ok(KeySample { looked_at: 2, payloads: vec![fact], ..KeySample::default() });
    check(
        |facts| facts.keys = sample,
        &["missing keys: the server writes RDB version 14", "missing keys: a value of the type string"],
    );
}

/// A healthy node with this port, which has answered all questions.
fn node(port: u16, info: &str) -> ClusterNodeFact {
    let view = NodeView {
        info: Ok(InfoFacts::read(info.as_bytes())),
        modules: Ok(vec![(b"lua".to_vec(), 1)]),
        open: Ok(Vec::new()),
    };
    ClusterNodeFact {
        host: "10.0.0.1".to_owned(),
        port,
        is_asked_one: false,
        is_primary: true,
        has_slots: true,
        health: NodeCondition::Well,
        open: Vec::new(),
        view: Some(Ok(view)),
    }
}

const A_NODE: &str = "valkey_version:9.1.2\ndb0:keys=3\n";

fn check_cluster(change: impl FnOnce(&mut ClusterFacts), wanted: &[&str]) {
    let nodes = vec![
        ClusterNodeFact { is_asked_one: true, view: None, ..node(1, "") },
        node(2, A_NODE),
        ClusterNodeFact { is_primary: false, has_slots: false, ..node(3, A_NODE) },
    ];
    let mut cluster = ClusterFacts { nodes, ..ClusterFacts::default() };
    change(&mut cluster);
    check(|facts| facts.cluster = Some(Ok(cluster)), wanted);
}

#[test]
fn a_cluster_that_is_well_has_nothing_in_the_way() {
    check_cluster(|_| {}, &[]);
}

#[test]
fn what_a_cluster_needs_ahead_of_a_move_is_named() {
    check_cluster(
        |cluster| {
            cluster.uncovered = vec![(5, 7), (100, 100)];
            cluster.nodes[0].open = vec![OpenSlotFact { slot: 9, leaves: true }];
            let Some(Ok(view)) = &mut cluster.nodes[1].view else { panic!() };
            view.open = Ok(vec![OpenSlotFact { slot: 9, leaves: false }]);
            view.modules = Ok(vec![(b"search".to_vec(), 2), (b"lua".to_vec(), 1)]);
            view.info = Ok(InfoFacts::read(b"valkey_version:9.2.0\ndb0:keys=1\ndb3:keys=1\n"));
            cluster.nodes[2].view = Some(Err("no connection to 10.0.0.1:3: refused".to_owned()));
            cluster.nodes.push(ClusterNodeFact { health: NodeCondition::Failed, view: None, ..node(4, "") });
            let mut unasked = node(6, A_NODE);
            let Some(Ok(view)) = &mut unasked.view else { panic!() };
            view.modules = Err(UnknownFact { command: "MODULE LIST", why: WhyUnknown::Rights });
            cluster.nodes.push(unasked);
            cluster.nodes.push(ClusterNodeFact { health: NodeCondition::Suspected, ..node(5, A_NODE) });
        },
        &[
            "look cluster: slots without an owner: 5-7, 100",
            "look cluster: open slots at 10.0.0.1:1: 9 migrating",
            "look cluster: open slots at 10.0.0.1:2: 9 importing",
            "look cluster: not judged: 10.0.0.1:3: no connection",
            "look cluster: 10.0.0.1:4 is marked as failed",
            "look cluster: 10.0.0.1:5 does not answer",
            "look cluster: not judged: 10.0.0.1:6: MODULE LIST: this user has no right to it",
            "look server: Valkey 9.2.0 is newer",
            "look modules: loaded at 10.0.0.1:2: search;",
            "look cluster: databases with keys: 0, 3",
        ],
    );
}
