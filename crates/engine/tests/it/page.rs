//! Tests of the data for the page of the metrics endpoint.

use sluice_numbers::page::details::{BasicCredentials, JudgedCredentials, MayShow, PageAsk, PageDetails};
use sluice_numbers::page::json::PageJson;
use sluice_testkit::Rig;

fn details(rig: &mut Rig, looks_at_keys: bool) -> PageDetails {
    let ask = PageAsk { looks_at_page: true, looks_at_keys, ..PageAsk::default() };
    rig.engine.page_details(&ask, &mut rig.process)
}

/// The page's data for a user who may read everything.
fn json(rig: &mut Rig, looks_at_keys: bool) -> String {
    let details = details(rig, looks_at_keys);
    let sample = rig.engine.metrics_sample(&mut rig.process);
    let all = JudgedCredentials::Accepted(MayShow { key_names: true, arguments: true });
    PageJson { sample: &sample, details: &details, judged: Some(all), unix_ms: 1 }.text()
}

fn second(rig: &mut Rig) {
    for _ in 0..10 {
        rig.pass_ms(100);
        rig.cron();
    }
}

#[test]
fn keys_are_looked_at_while_somebody_wants_to_see_them_and_not_beyond() {
    let mut rig = Rig::new();
    rig.run("RPUSH a-list 1 2 3 4 5 6 7 8 9");
    rig.run("SELECT 3");
    rig.run("SET small 1");
    second(&mut rig);
    assert!(json(&mut rig, false).contains("\"largest\":null"));
    assert!(json(&mut rig, true).contains("\"keys\":[]"), "nobody has looked before");
    second(&mut rig);
    let found = json(&mut rig, true);
    let list = found.find("\"name\":\"a-list\"").unwrap_or_else(|| panic!("{found}"));
    let small = found.find("\"name\":\"small\"").unwrap_or_else(|| panic!("{found}"));
    assert!(list < small, "the largest first");
    assert!(found.contains("\"elements\":9") && found.contains("\"whole\":true"), "{found}");
    // Requests for the page without the keys do not keep the sampling of keys going.
    for _ in 0..11 {
        second(&mut rig);
        json(&mut rig, false);
    }
    assert!(json(&mut rig, true).contains("\"keys\":[]"), "the look began anew");
}

#[test]
fn the_largest_keys_are_found_among_many_each_of_them_once() {
    let mut rig = Rig::new();
    for number in 0..3000 {
        rig.run(&format!("SET key:{number} x"));
    }
    for number in 0..30 {
        rig.run(&format!("SET large:{number} {}", "x".repeat(200 + 10 * number)));
    }
    json(&mut rig, true);
    // The server walks through all keys several times.
    (0..3).for_each(|_| second(&mut rig));
    let found = json(&mut rig, true);
    assert_eq!(found.matches("\"name\":\"large:").count(), 20, "{found}");
    for number in 10..30 {
        assert_eq!(found.matches(&format!("\"large:{number}\"")).count(), 1, "{number}: {found}");
    }
}

/// The memory of a slot is that of its keys, of any type (L-1 has no field for it).
#[test]
fn the_largest_slots_of_a_cluster_are_found_with_what_their_keys_take() {
    let mut rig = Rig::with(&[("cluster-enabled", "yes")]);
    rig.run("DEBUG POPULATE 3000 {a}k 100");
    rig.run("DEBUG POPULATE 30 {b}k 100");
    let slot = |name: &[u8]| sluice_base::key_slot(name);
    json(&mut rig, true);
    (0..3).for_each(|_| second(&mut rig));
    let found = json(&mut rig, true);
    let row = |name: &[u8], keys: u64| {
        let of = rig.engine.keyspace().db(0);
        let bytes: usize = of.slot_iter(slot(name)).map(|handle| of.entry(handle).size_bytes()).sum();
        format!("{{\"bytes\":{bytes},\"keys\":{keys},\"slot\":{}}}", slot(name))
    };
    assert!(found.contains(&format!("\"slots\":[{},{}]", row(b"a", 3000), row(b"b", 30))), "{found}");
    assert!(json(&mut Rig::new(), true).contains("\"slots\":[]"), "there are none without a cluster");
}

#[test]
fn nodes_of_a_cluster_are_shown_and_none_without_one() {
    let mut rig = Rig::node(None, &[("cluster-announce-human-nodename", "first")]);
    let shown = details(&mut rig, false);
    let [node] = &shown.nodes[..] else { panic!("{:?}", shown.nodes) };
    assert!(node.is_myself && node.is_linked && !node.is_replica && node.primary.is_empty());
    assert_eq!((&*node.name, node.health, node.pong_age_ms), (&b"first"[..], "ok", None));
    assert!(rig.run("CLUSTER MYID").contains(&node.id), "{}", node.id);
    assert!(json(&mut rig, false).contains("\"myself\":true"));
    assert!(details(&mut Rig::new(), false).nodes.is_empty());
}

/// V-6: a scraper gets the memory of slots without the costs of the page.
#[test]
fn sizes_of_slots_are_summed_for_two_scrapes_after_each_ask_and_no_accesses_are_counted() {
    let mut rig = Rig::with(&[("cluster-enabled", "yes")]);
    rig.run("DEBUG POPULATE 300 {a}k 100");
    rig.run("DEBUG POPULATE 3000 {b}k 100");
    let sizes = |rig: &mut Rig| {
        let ask = PageAsk { looks_at_slots: true, ..PageAsk::default() };
        let details = rig.engine.page_details(&ask, &mut rig.process);
        assert!(details.clients.is_empty() && details.largest.is_none() && details.hottest.is_none());
        let look = details.slot_look.filter(|look| look.ended_s > 0)?;
        assert!(look.ended_s <= rig.process.now.unix_s(), "no time to come");
        Some(look.slots.iter().map(|slot| (slot.slot, slot.keys, slot.bytes as usize)).collect::<Vec<_>>())
    };
    assert_eq!(sizes(&mut rig), None, "nobody has asked before");
    let expected = |rig: &Rig| {
        let of = rig.engine.keyspace().db(0);
        let row = |name: &[u8]| {
            let slot = sluice_base::key_slot(name);
            let bytes: Vec<usize> = of.slot_iter(slot).map(|key| of.entry(key).size_bytes()).collect();
            (slot, bytes.len() as u64, bytes.iter().sum())
        };
        let mut rows = vec![row(b"a"), row(b"b")];
        rows.sort_unstable();
        rows
    };
    (0..3).for_each(|_| second(&mut rig));
    assert_eq!(sizes(&mut rig), Some(expected(&rig)), "in the order of the slots");
    rig.run("DEL {a}k:7");
    (0..120).for_each(|_| second(&mut rig));
    assert_eq!(sizes(&mut rig), Some(expected(&rig)));
    (0..160).for_each(|_| second(&mut rig));
    assert_eq!(sizes(&mut rig), None, "nobody asks any more");
}

#[test]
fn accesses_are_counted_while_somebody_looks() {
    let mut rig = Rig::new();
    let look = |rig: &mut Rig| {
        for _ in 0..3 {
            (0..2000).for_each(|_| drop(rig.run("GET hot")));
            (0..20).for_each(|number| drop(rig.run(&format!("GET cold:{number}"))));
            second(rig);
        }
        json(rig, true)
    };
    assert!(json(&mut rig, false).contains("\"hottest\":null"));
    json(&mut rig, true);
    let found = look(&mut rig);
    let rate: u64 = found
        .split_once("\"name\":\"hot\",\"per_second\":")
        .and_then(|(_, rest)| rest.split_once('}')?.0.parse().ok())
        .unwrap_or_else(|| panic!("{found}"));
    assert!((1600..2400).contains(&rate), "{rate}");
    // HOTKEYS has a count of its own, which is off here.
    assert_eq!(rig.run("HOTKEYS GET"), "[]");
    // Counting ends when the requests for the page end.
    for _ in 0..11 {
        second(&mut rig);
    }
    rig.run("GET hot");
    assert!(json(&mut rig, true).contains("\"hottest\":[]"));
}

#[test]
fn of_thousands_of_clients_those_are_shown_that_hold_most() {
    let mut rig = Rig::new();
    let clients: Vec<_> = (0..2000).map(|_| rig.connect()).collect();
    for (number, client) in clients.iter().enumerate().step_by(100) {
        rig.run_as(*client, &format!("CLIENT SETNAME named-{number}"));
        rig.run_as(*client, "MULTI");
        rig.engine.publish_input(*client, 10_000 + number, 0);
    }
    json(&mut rig, false);
    second(&mut rig);
    second(&mut rig);
    let found = json(&mut rig, false);
    assert_eq!(found.matches("\"name\":\"named-").count(), 20, "{found}");
    let (first, last) = (found.find("named-1900"), found.find("named-0\""));
    assert!(first.is_some() && first < last, "{found}");
}

#[test]
fn a_password_is_judged_as_auth_judges_it() {
    let mut rig = Rig::new();
    rig.run("ACL SETUSER reader on >secret %R~* +@read");
    let shown = |user: &str, password: &str| BasicCredentials {
        user: user.as_bytes().into(),
        password: password.as_bytes().into(),
        peer: "10.0.0.7:4000".into(),
    };
    let ask = PageAsk {
        looks_at_page: true,
        credentials: vec![shown("reader", "secret"), shown("reader", "wrong"), shown("", "")],
        ..PageAsk::default()
    };
    let judged = rig.engine.page_details(&ask, &mut rig.process).judged;
    let may = MayShow { key_names: true, arguments: false };
    let refused = JudgedCredentials::Refused;
    assert_eq!(judged, [JudgedCredentials::Accepted(may), refused, refused]);
    assert!(rig.run("INFO stats").contains("acl_access_denied_auth:2"));
    assert!(rig.run("ACL LOG").contains("addr=10.0.0.7:4000"));
}

/// Names of hot keys stay for a while after the keys are deleted, and their database may be empty by then.
#[test]
fn names_of_a_database_that_is_empty_are_for_those_who_may_select_it() {
    let mut rig = Rig::new();
    rig.run("ACL SETUSER reader on >secret ~* +@read db=0");
    rig.run("SELECT 3");
    let ask = PageAsk {
        looks_at_page: true,
        looks_at_keys: true,
        credentials: vec![BasicCredentials {
            user: b"reader"[..].into(),
            password: b"secret"[..].into(),
            peer: "10.0.0.7:4000".into(),
        }],
        ..PageAsk::default()
    };
    rig.engine.page_details(&ask, &mut rig.process);
    rig.run("SET hidden 1");
    for _ in 0..5000 {
        rig.run("GET hidden");
    }
    (0..3).for_each(|_| second(&mut rig));
    rig.run("DEL hidden");
    let details = rig.engine.page_details(&ask, &mut rig.process);
    let hottest = details.hottest.unwrap_or_default();
    assert_eq!(hottest.iter().map(|key| (key.db, &*key.name)).collect::<Vec<_>>(), [(3, &b"hidden"[..])]);
    let may = MayShow { key_names: false, arguments: false };
    assert_eq!(details.judged, [JudgedCredentials::Accepted(may)]);
}
