//! Atomic moves of slots between two engines, from MIGRATESLOTS to the end (specification of the slots,
//! section 6): the keys, the state shown, and the notifications at each side. The nodes' buses are
//! connected, and bytes on the connection of the move are passed on in steps.

use crate::cluster::{Buses, ME, OTHER, joined};
use sluice_base::SessionKey;
use sluice_cluster::NodeId;
use sluice_control::action::Action;
use sluice_control::replication::maintenance::Maintenance;
use sluice_engine::exports::links;
use sluice_numbers::info::text::{EndpointNumbers, MetricsFormat};
use sluice_numbers::page::details::PageAsk;
use sluice_numbers::page::json::PageJson;
use sluice_resp::decode;
use sluice_session::{ClientAddress, Medium};
use sluice_testkit::{Rig, check_open_metrics};

/// A move from the first node to the second.
struct Moving {
    buses: Buses,
    /// Session of the target at the source, and of the source at the target.
    ends: [SessionKey; 2],
    /// Bytes to the target that are no whole command yet.
    rest: Vec<u8>,
}

/// Slots 100 and 200 to 201 of the first node.
const RANGES: &str = "100 100 200 201";
/// A key in each of these slots.
const MOVED: [&str; 3] = ["aotc", "adjb", "vuk"];

fn source(buses: &mut Buses) -> &mut Rig {
    &mut buses.nodes[0].1
}

fn target(buses: &mut Buses) -> &mut Rig {
    &mut buses.nodes[1].1
}

impl Moving {
    /// Begins the move; the target agrees.
    fn begin(mut buses: Buses) -> Moving {
        // The third node has no link to the target here; with this setting, the target does not wait for that
        // node.
        buses.nodes[2].1.check("CONFIG SET cluster-replica-no-failover yes", "+OK");
        buses.pass_ms(3_000);
        let rig = source(&mut buses);
        rig.check(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {RANGES} NODE {OTHER}"), "+OK");
        rig.end_iteration();
        let at = rig.actions.iter().position(|action| matches!(action, Action::ConnectExport(_)));
        let Action::ConnectExport(wanted) = rig.actions.remove(at.expect("a connection is wanted")) else {
            unreachable!()
        };
        let at_target = target(&mut buses).connect();
        assert_eq!(target(&mut buses).bytes(at_target, &wanted.establish), b"+OK\r\n");
        let rig = source(&mut buses);
        let address = ClientAddress {
            addr: "10.0.0.1:7001".into(),
            laddr: "10.0.0.1:9".into(),
            fd: 9,
            medium: Medium::Tcp,
            has_priority: false,
        };
        let at_source = links::connect(&mut rig.engine, address, &mut rig.process);
        links::begin(&mut rig.engine, wanted.job, at_source, &mut rig.process);
        Moving { buses, ends: [at_source, at_target], rest: Vec::new() }
    }

    /// Lets time pass, and delivers the bytes and bus messages that are sent during this time.
    fn pass_ms(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(100) {
            (0..20).for_each(|_| self.exchange());
            self.buses.pass_ms(100);
        }
    }

    /// Delivers the bytes that each side has sent.
    fn exchange(&mut self) {
        let [at_source, at_target] = self.ends;
        let sent = source(&mut self.buses).output(at_source);
        self.rest.extend_from_slice(&sent);
        let mut whole = 0;
        while let Ok(Some((_, len))) = decode(&self.rest[whole..]) {
            whole += len;
        }
        let arrives: Vec<u8> = self.rest.drain(..whole).collect();
        let rig = target(&mut self.buses);
        let said = match arrives.is_empty() || rig.is_closing(at_target) {
            true => rig.output(at_target),
            false => rig.bytes(at_target, &arrives),
        };
        let rig = source(&mut self.buses);
        if !said.is_empty() && !rig.is_closing(at_source) {
            let sent = rig.bytes(at_source, &said);
            self.rest.extend_from_slice(&sent);
        }
        for at in 0..2 {
            self.end_closed(at);
        }
    }

    /// Ends the connection at both sides if one side has closed it.
    fn end_closed(&mut self, at: usize) {
        let rig = &mut self.buses.nodes[at].1;
        if rig.engine.session(self.ends[at]).is_some() && rig.is_closing(self.ends[at]) {
            self.lose();
        }
    }

    /// Breaks the connection of the move.
    fn lose(&mut self) {
        for (end, (_, rig)) in self.ends.iter().zip(&mut self.buses.nodes) {
            rig.engine.disconnect(*end, &mut rig.process);
            rig.end_iteration();
        }
    }
}

/// Two nodes that serve; the first one has a key in each slot of the move.
fn filled() -> Buses {
    let mut buses = joined();
    for (_, rig) in &mut buses.nodes {
        // If one of the nodes is forgotten, the other must continue to serve.
        rig.check("CONFIG SET cluster-require-full-coverage no", "+OK");
    }
    for key in MOVED {
        source(&mut buses).check(&format!("SET {key} 1"), "+OK");
    }
    buses
}

fn row(rig: &mut Rig) -> String {
    rig.run("CLUSTER GETSLOTMIGRATIONS")
}

/// A client of the source that has asked for notifications, in RESP3.
fn asking(buses: &mut Buses) -> SessionKey {
    let rig = source(buses);
    let client = rig.connect();
    rig.run_as(client, "HELLO 3");
    let words = ["CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip"];
    rig.argv_unread(client, &words.map(str::as_bytes));
    client
}

/// The push that a client of the source has got since the last call, with spaces for line ends and `#` for
/// the id; and the id.
fn told(buses: &mut Buses, client: SessionKey) -> (String, i64) {
    let text = String::from_utf8(source(buses).output(client)).unwrap().replace("\r\n", " ");
    let id = text.split(' ').find_map(|word| word.strip_prefix(':')).and_then(|id| id.parse().ok());
    let id = id.unwrap_or(0);
    (text.replace(&format!(":{id} "), ":# ").trim_start_matches("+OK ").to_owned(), id)
}

const LEAVE: &str = ">3 $10 SMIGRATING :# $11 100,200-201 ";
const STAY: &str = ">3 $8 MIGRATED :# $2 [] ";

#[test]
fn clients_that_asked_are_told_that_slots_leave_and_to_which_node_they_have_gone() {
    let mut buses = filled();
    let client = asking(&mut buses);
    let silent = source(&mut buses).connect();
    source(&mut buses).run_as(silent, "HELLO 3");
    let mut moving = Moving::begin(buses);
    let (text, first) = told(&mut moving.buses, client);
    assert_eq!(text, LEAVE);
    let late = asking(&mut moving.buses);
    assert_eq!(told(&mut moving.buses, late), (LEAVE.to_owned(), first), "who comes later is told the same");
    moving.pass_ms(1_000);
    assert!(row(source(&mut moving.buses)).contains("\"success\""), "{}", row(source(&mut moving.buses)));
    let left = ">3 $9 SMIGRATED :# *1 *3 $13 10.0.0.1:7000 $13 10.0.0.1:7001 $11 100,200-201 ";
    let (text, last) = told(&mut moving.buses, client);
    assert_eq!(text, left);
    assert!(last > first && last < 1 << 53, "{first} {last}");
    assert_eq!(told(&mut moving.buses, late), (left.to_owned(), last));
    let source = source(&mut moving.buses);
    assert_eq!(source.output(silent), b"");
    source.check_as(client, &format!("GET {}", MOVED[0]), "-MOVED 100 10.0.0.1:7001");
    let new = asking(&mut moving.buses);
    assert_eq!(told(&mut moving.buses, new).0, "", "nothing is under way any more");
}

#[test]
fn clients_are_told_where_a_move_has_failed_and_the_slots_stay() {
    let mut buses = filled();
    let client = asking(&mut buses);
    let mut moving = Moving::begin(buses);
    assert_eq!(told(&mut moving.buses, client).0, LEAVE);
    source(&mut moving.buses).check("CLUSTER CANCELSLOTMIGRATIONS", "+OK");
    moving.pass_ms(200);
    assert_eq!(told(&mut moving.buses, client).0, STAY);
    source(&mut moving.buses).check_as(client, &format!("GET {}", MOVED[0]), "\"1\"");
}

/// Only writers of the slots wait, but INFO shows the reason and the time as the reference does.
#[test]
fn cb_v3_info_says_that_a_move_holds_writers() {
    let mut moving = Moving::begin(filled());
    target(&mut moving.buses).check("DEBUG SLOTMIGRATION PREVENT-FAILOVER 1", "+OK");
    let shown = |buses: &mut Buses| {
        let info = source(buses).run("INFO clients");
        let field = |name: &str| {
            let (_, rest) = info.split_once(&format!("{name}:")).unwrap();
            rest.split("\\r").next().unwrap().to_owned()
        };
        ["paused_reason", "paused_actions", "paused_timeout_milliseconds"].map(field)
    };
    assert_eq!(shown(&mut moving.buses), ["none", "none", "0"]);
    moving.pass_ms(1_000);
    let [reason, actions, left] = shown(&mut moving.buses);
    assert_eq!([reason.as_str(), &actions], ["slot_migration_in_progress", "write"]);
    let left: u64 = left.parse().unwrap();
    assert!((1..=10_000).contains(&left), "{left}");
    moving.pass_ms(left + 200);
    assert_eq!(shown(&mut moving.buses), ["none", "none", "0"]);
}

/// Clients get no notification of a move that has found no target, because they need not wait.
#[test]
fn a_move_that_does_not_begin_is_not_told() {
    let mut buses = filled();
    let client = asking(&mut buses);
    let rig = source(&mut buses);
    rig.check(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {RANGES} NODE {OTHER}"), "+OK");
    rig.check("CLUSTER CANCELSLOTMIGRATIONS", "+OK");
    rig.end_iteration();
    assert_eq!(told(&mut buses, client).0, "");
}

/// If clients would receive no host, or one with colons, they find the new owner by MOVED instead.
#[test]
fn clients_are_named_no_node_that_they_could_not_reach_by_it() {
    for directive in
        [["cluster-preferred-endpoint-type", "unknown-endpoint"], ["cluster-announce-ip", "fe80::1"]]
    {
        let mut buses = filled();
        let client = asking(&mut buses);
        source(&mut buses).check(&format!("CONFIG SET {}", directive.join(" ")), "+OK");
        let mut moving = Moving::begin(buses);
        assert_eq!(told(&mut moving.buses, client).0, LEAVE);
        moving.pass_ms(1_000);
        let state = row(source(&mut moving.buses));
        assert!(state.contains("\"success\""), "{state}");
        assert_eq!(told(&mut moving.buses, client).0, STAY, "{directive:?}");
    }
}

/// node-redis keeps one list of the ids of all nodes, so the ids of two nodes must differ.
#[test]
fn two_nodes_do_not_use_the_same_id_at_the_same_moment() {
    let mut maintenance = Maintenance::default();
    let [one, other] = [ME, OTHER].map(|id| NodeId::parse(id.as_bytes()).unwrap());
    let now_ms = 1_800_000_000_000;
    let mut ids: Vec<i64> = (0..100).map(|_| maintenance.next_id_of_node(now_ms, one)).collect();
    assert!(ids.is_sorted());
    let mut second = Maintenance::default();
    ids.extend((0..100).map(|_| second.next_id_of_node(now_ms, other)));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
}

/// INFO's lines about moves.
fn info(rig: &mut Rig) -> String {
    rig.run("INFO slot_migration").replace("\\r\\n", " ")
}

/// Runs both nodes in steps of a millisecond until the source's job is in this state.
#[track_caller]
fn until_state(moving: &mut Moving, state: &str) {
    for _ in 0..2_000 {
        if row(source(&mut moving.buses)).contains(&format!("\"{state}\"")) {
            return;
        }
        for (_, rig) in &mut moving.buses.nodes {
            rig.pass_ms(1);
        }
        moving.exchange();
    }
    panic!("{}", row(source(&mut moving.buses)));
}

/// Value of a series of the metrics endpoint; `None` if there is no such series.
fn metric(rig: &mut Rig, name: &str, labels: &str) -> Option<f64> {
    let sample = rig.engine.metrics_sample(&mut rig.process);
    let text = sample.text(MetricsFormat::OpenMetrics)
        + &EndpointNumbers::default().text(MetricsFormat::OpenMetrics);
    let samples = check_open_metrics(&text).unwrap_or_else(|reason| panic!("{reason}\n{text}"));
    let found = samples.get(name)?.iter().find(|(of, _)| of.contains(labels));
    found.map(|(_, number)| *number)
}

fn page(rig: &mut Rig) -> String {
    let ask = PageAsk { looks_at_page: true, ..PageAsk::default() };
    let details = rig.engine.page_details(&ask, &mut rig.process);
    let sample = rig.engine.metrics_sample(&mut rig.process);
    PageJson { sample: &sample, details: &details, judged: None, unix_ms: 1 }.text()
}

/// A move is long work like a save, so it has a section in INFO, and a line in the log every five seconds.
#[test]
fn a_move_says_how_far_it_is_at_either_end() {
    let mut moving = Moving::begin(filled());
    until_state(&mut moving, "failover-paused");
    source(&mut moving.buses).process.log.clear();
    // No bytes pass on the connection of the move during this time.
    moving.buses.pass_ms(6_000);
    let rig = source(&mut moving.buses);
    let shown = rig.run("INFO progress");
    let job = rig.run("CLUSTER GETSLOTMIGRATIONS").split('"').nth(3).expect("a name").to_owned();
    let line = "unit=keys,percent=100.00,done=3,total=3,";
    assert!(shown.contains("work_under_way:1\\r\\n"), "{shown}");
    assert!(shown.contains(&format!("progress_exporting0:{line}")), "{shown}");
    assert!(shown.contains(&format!(",job={job},node={OTHER}\\r\\n")), "{shown}");
    let said: Vec<&String> =
        rig.process.log.iter().map(|(_, text)| text).filter(|text| text.starts_with("Moving")).collect();
    let begins = format!("Moving slots 100-100 200-201 to node {OTHER}: 100.0% of 3 keys");
    assert!(matches!(said[..], [line] if line.starts_with(&begins)), "{said:?}");
    let shown = target(&mut moving.buses).run("INFO progress");
    assert!(shown.contains("progress_importing0:unit=keys,percent=-1,done=3,total=-1,"), "{shown}");
    moving.pass_ms(1_000);
    for (_, rig) in &mut moving.buses.nodes {
        assert!(rig.run("INFO progress").contains("work_under_way:0\\r\\n"));
    }
}

#[test]
fn cb_v6_v10_a_move_is_shown_with_its_keys_and_bytes_and_with_the_writers_that_wait() {
    let mut moving = Moving::begin(filled());
    let export = "operation=\"export\"";
    assert_eq!(metric(source(&mut moving.buses), "sluice_slot_migrations", export), Some(1.0));
    until_state(&mut moving, "failover-paused");
    let rig = source(&mut moving.buses);
    let writer = rig.connect();
    rig.argv_unread(writer, &[b"SET", MOVED[0].as_bytes(), b"2"]);
    let bystander = rig.connect();
    rig.check_as(bystander, "SET akof 2", "+OK");
    rig.pass_ms(7);
    rig.end_iteration();
    let text = info(rig);
    assert!(
        text.contains("slot_migrations_active:1 ") && text.contains("slot_migration_held_writes:1 "),
        "{text}"
    );
    assert!(text.contains("slot_migration_braked_slots:0 "), "{text}");
    assert_eq!(metric(rig, "sluice_slot_migration_keys", export), Some(3.0));
    assert_eq!(metric(rig, "sluice_slot_migration_keys_left", export), Some(0.0));
    assert!(metric(rig, "sluice_slot_migration_bytes", export).unwrap() > 100.0);
    let shown = page(rig);
    assert!(
        shown.contains("\"state\":\"failover-paused\"") && shown.contains("\"holds_writers\":true"),
        "{shown}"
    );
    let import = "operation=\"import\"";
    assert_eq!(metric(target(&mut moving.buses), "sluice_slot_migration_keys", import), Some(3.0));
    assert!(metric(target(&mut moving.buses), "sluice_slot_migration_bytes", import).unwrap() > 100.0);
    until_state(&mut moving, "failover-granted");
    moving.pass_ms(500);
    let rig = source(&mut moving.buses);
    assert_eq!(rig.output(writer), b"-MOVED 100 10.0.0.1:7001\r\n");
    let text = info(rig);
    let number = |name: &str| -> u64 {
        let (_, rest) = text.split_once(name).unwrap_or_else(|| panic!("{text}"));
        rest[1..].split(' ').next().unwrap().parse().unwrap()
    };
    assert!(text.contains("slot_migrations_active:0 ") && text.contains("slots_being_freed:0 "), "{text}");
    let last = number("slot_migration_last_pause_us");
    assert!((7_000..1_000_000).contains(&last), "{text}");
    assert_eq!(number("slot_migration_max_pause_us"), last);
    assert_eq!(metric(rig, "sluice_slot_migrations", "operation=\"export\",state=\"success\""), Some(1.0));
    assert_eq!(metric(rig, "sluice_slot_migration_keys", export), None, "it has ended");
    assert!(page(rig).contains("\"progress\":null,"));
    rig.check("CONFIG RESETSTAT", "+OK");
    assert!(info(rig).contains("slot_migration_max_pause_us:0 "));
}

/// Existing keys are invalidated because they are deleted. A name that was missing is not deleted, but must
/// be invalidated, too.
#[test]
fn cb_g21_caches_are_told_of_what_leaves_with_its_slot_and_of_what_was_not_there() {
    let mut buses = filled();
    let missing = format!("{{{}}}missing", MOVED[0]);
    let long = format!("{{{}}}{}", MOVED[1], "x".repeat(2_000));
    let rig = source(&mut buses);
    let [reader, short, prefixes] = [(); 3].map(|()| rig.connect());
    for client in [reader, short, prefixes] {
        rig.run_as(client, "HELLO 3");
    }
    rig.check_as(prefixes, "CLIENT TRACKING ON BCAST PREFIX other:", "+OK");
    for client in [reader, short] {
        rig.check_as(client, "CLIENT TRACKING ON", "+OK");
    }
    rig.check_as(reader, &format!("GET {}", MOVED[0]), "\"1\"");
    rig.check_as(reader, &format!("GET {missing}"), "null");
    rig.check_as(reader, "GET akof", "null");
    // A long name of an absent key is not kept.
    rig.check_as(short, &format!("GET {long}"), "null");
    let mut moving = Moving::begin(buses);
    moving.pass_ms(1_000);
    let rig = source(&mut moving.buses);
    assert!(row(rig).contains("\"success\""), "{}", row(rig));
    let told = |rig: &mut Rig, client| String::from_utf8(rig.output(client)).unwrap().replace("\r\n", " ");
    let text = told(rig, reader);
    let one = |name: &str| format!(">2 $10 invalidate *1 ${} {name} ", name.len());
    assert!(text.contains(&one(MOVED[0])) && text.contains(&one(&missing)), "{text}");
    assert_eq!(text.matches("invalidate").count(), 2, "the slot of the other key has stayed: {text}");
    assert_eq!(told(rig, short), ">2 $10 invalidate _ ");
    assert_eq!(told(rig, prefixes), ">2 $10 invalidate _ ");
    rig.check("SET akof 3", "+OK");
    assert_eq!(told(rig, reader), one("akof"), "what has stayed is tracked on");
}

/// Checks that a side's migration has failed for this reason, and that none is active there.
#[track_caller]
fn has_failed(rig: &mut Rig, why: &str) {
    let row = row(rig);
    assert!(row.contains(&format!("\"failed\", \"message\", \"{why}")), "{row}");
    assert!(info(rig).contains("slot_migrations_active:0 "), "{}", info(rig));
}

const LOST_TO_TARGET: &str = "Connection lost to target.";
const LOST_TO_SOURCE: &str = "Connection lost to source.";

/// A move of which all keys have arrived and that does not end.
fn held() -> Moving {
    let mut buses = filled();
    source(&mut buses).check("DEBUG SLOTMIGRATION PREVENT-PAUSE 1", "+OK");
    let mut moving = Moving::begin(buses);
    until_state(&mut moving, "waiting-to-pause");
    moving
}

/// Asserts that the source has the slots and their keys, and that the target has none of them.
#[track_caller]
fn stays_at_the_source(moving: &mut Moving) {
    let rig = source(&mut moving.buses);
    rig.check("CLUSTER COUNTKEYSINSLOT 100", ":1");
    assert!(rig.run("CLUSTER NODES").contains("0-8191"), "{}", rig.run("CLUSTER NODES"));
    let rig = target(&mut moving.buses);
    rig.check("CLUSTER COUNTKEYSINSLOT 100", ":0");
    assert!(!rig.run(&format!("GET {}", MOVED[0])).starts_with('"'));
}

#[test]
fn cb_a60_a_target_that_is_forgotten_in_the_middle_ends_the_move_within_a_second() {
    let mut moving = held();
    source(&mut moving.buses).check(&format!("CLUSTER FORGET {OTHER}"), "+OK");
    moving.pass_ms(1_000);
    has_failed(source(&mut moving.buses), "Unable to connect to target node: target node not found");
    has_failed(target(&mut moving.buses), LOST_TO_SOURCE);
    stays_at_the_source(&mut moving);
    source(&mut moving.buses).check(&format!("INCR {}", MOVED[0]), ":2");
}

#[test]
fn cb_a60_a_source_that_is_forgotten_in_the_middle_ends_the_move_within_a_second() {
    let mut moving = held();
    target(&mut moving.buses).check(&format!("CLUSTER FORGET {ME}"), "+OK");
    moving.pass_ms(1_000);
    has_failed(target(&mut moving.buses), "Slots are no longer owned by source node");
    has_failed(source(&mut moving.buses), LOST_TO_TARGET);
    stays_at_the_source(&mut moving);
    source(&mut moving.buses).check(&format!("INCR {}", MOVED[0]), ":2");
}

#[test]
fn cb_k18_a_target_that_is_reset_in_the_middle_ends_the_move_within_a_second() {
    for how in ["SOFT", "HARD"] {
        let mut moving = held();
        // Imported keys have no owner yet, and do not prevent the command.
        target(&mut moving.buses).check(&format!("CLUSTER RESET {how}"), "+OK");
        moving.pass_ms(1_000);
        has_failed(source(&mut moving.buses), LOST_TO_TARGET);
        let rig = target(&mut moving.buses);
        assert!(info(rig).contains("slot_migrations_active:0 slot"), "{}", info(rig));
        stays_at_the_source(&mut moving);
    }
}

/// A source with keys refuses a reset, and the move goes on; a source whose slots are empty does not.
#[test]
fn cb_k18_a_source_that_is_reset_in_the_middle_ends_the_move_within_a_second() {
    let mut moving = held();
    let refused = "-ERR CLUSTER RESET can't be called with master nodes containing keys";
    source(&mut moving.buses).check("CLUSTER RESET", refused);
    assert!(row(source(&mut moving.buses)).contains("\"waiting-to-pause\""));
    for key in MOVED {
        source(&mut moving.buses).run(&format!("DEL {key}"));
    }
    source(&mut moving.buses).check("CLUSTER RESET HARD", "+OK");
    moving.pass_ms(1_000);
    let rig = source(&mut moving.buses);
    assert!(!rig.run("CLUSTER NODES").contains("0-8191"), "{}", rig.run("CLUSTER NODES"));
    assert!(info(rig).contains("slot_migrations_active:0 "), "{}", info(rig));
    let rig = target(&mut moving.buses);
    assert!(row(rig).contains("\"failed\""), "{}", row(rig));
    assert!(info(rig).contains("slot_migrations_active:0 "), "{}", info(rig));
}

/// If the source is reset after it may have granted the slots, it keeps none of them, because the target has
/// them.
#[test]
fn cb_a47_a_source_that_is_reset_after_the_grant_leaves_one_owner() {
    let mut moving = Moving::begin(joined());
    until_state(&mut moving, "failover-granted");
    source(&mut moving.buses).check("CLUSTER RESET", "+OK");
    moving.pass_ms(1_000);
    let nodes = target(&mut moving.buses).run("CLUSTER NODES");
    let own = nodes.split("\\n").find(|line| line.contains("myself")).unwrap().to_owned();
    assert!(own.contains(" 100 200-201 "), "{nodes}");
    let nodes = source(&mut moving.buses).run("CLUSTER NODES");
    assert!(!nodes.contains(" 0-"), "{nodes}");
    assert!(info(source(&mut moving.buses)).contains("slot_migrations_active:0 "));
}

#[test]
fn cb_a33_a_target_without_memory_refuses_the_move_and_the_slots_stay() {
    let mut buses = filled();
    source(&mut buses).check(&format!("SETRANGE {} 400000 x", MOVED[2]), ":400001");
    let mut moving = Moving::begin(buses);
    target(&mut moving.buses).check("CONFIG SET maxmemory 1", "+OK");
    moving.pass_ms(1_000);
    has_failed(target(&mut moving.buses), "Ran out of memory (OOM) during slot import");
    has_failed(source(&mut moving.buses), LOST_TO_TARGET);
    stays_at_the_source(&mut moving);
    source(&mut moving.buses).check(&format!("INCR {}", MOVED[0]), ":2");
    target(&mut moving.buses).check("DBSIZE", ":0");
}
