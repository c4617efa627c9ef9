//! Progress of long work: the reports of INFO, the log and the process while it is under way, and
//! their absence otherwise.

use sluice_base::SessionKey;
use sluice_numbers::facts::SyncFacts;
use sluice_numbers::progress::WorkKind;
use sluice_testkit::{Rig, RigLink};

/// Lines of INFO's section `progress`, without its heading.
fn section(rig: &mut Rig) -> Vec<String> {
    let text = rig.run("INFO progress");
    let lines = text.trim_matches('"').split("\\r\\n").filter(|line| !line.is_empty());
    lines.skip(1).map(str::to_owned).collect()
}

/// Fields of a line of the section.
#[track_caller]
fn line(rig: &mut Rig, name: &str) -> String {
    let lines = section(rig);
    let found = lines.iter().find_map(|line| line.strip_prefix(&format!("progress_{name}:")));
    found.unwrap_or_else(|| panic!("no {name} in {lines:?}")).to_owned()
}

fn log(rig: &mut Rig) -> Vec<String> {
    rig.process.log.drain(..).map(|(_, text)| text).collect()
}

/// Kinds of work that were last reported to the process.
fn shown(rig: &Rig) -> Vec<WorkKind> {
    let last = rig.process.shown.last().expect("the process was shown something");
    last.iter().map(|work| work.kind.clone()).collect()
}

fn tick(rig: &mut Rig, ms: u64) {
    rig.pass_ms(ms);
    rig.cron();
}

#[test]
fn nothing_is_told_while_nothing_is_under_way() {
    let mut rig = Rig::new();
    for _ in 0..20 {
        tick(&mut rig, 1000);
    }
    assert_eq!(section(&mut rig), ["work_under_way:0"]);
    assert!(rig.process.shown.is_empty());
    assert!(!rig.run("INFO").contains("work_under_way"), "it is asked for by name, or with all");
    assert!(rig.run("INFO everything").contains("work_under_way:0"));
}

#[test]
fn a_load_is_shown_until_it_ends() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 20");
    rig.process.us_each_look = 0;
    rig.holds_loads = true;
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "DEBUG RELOAD"), "");
    rig.process.log.clear();
    tick(&mut rig, 100);
    tick(&mut rig, 1900);
    assert_eq!(shown(&rig), [WorkKind::Loading]);
    let progress = rig.loads[0].progress();
    progress.bytes_total.store(4_000_000, std::sync::atomic::Ordering::Relaxed);
    progress.bytes_read.store(1_000_000, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(
        line(&mut rig, "loading"),
        "unit=bytes,percent=25.00,done=1000000,total=4000000,rate=500000.00,seconds_left=6,seconds=2.00"
    );
    assert_eq!(section(&mut rig)[0], "work_under_way:1");
    assert!(log(&mut rig).is_empty(), "not before five seconds");
    tick(&mut rig, 2_000);
    tick(&mut rig, 2_000);
    assert_eq!(log(&mut rig), ["Loading: 25.0% of 4 MB, 0.2 MB/s, 18 seconds left"]);
    tick(&mut rig, 2_000);
    assert!(log(&mut rig).is_empty(), "a line every five seconds");
    rig.finish_loads();
    tick(&mut rig, 1_000);
    assert!(shown(&rig).is_empty(), "the process learns the end");
    let count = rig.process.shown.len();
    tick(&mut rig, 1_000);
    assert_eq!(rig.process.shown.len(), count, "and that once");
}

/// A server with 2000 keys whose disk accepts no bytes.
fn stalled() -> Rig {
    let mut rig = Rig::with(&[("save", "1 1000000")]);
    rig.run("DEBUG POPULATE 2000");
    rig.process.log.clear();
    rig.process.background_room.set(0);
    rig
}

#[test]
fn a_save_is_counted_in_keys_and_finishes_when_it_is_on_disk() {
    let mut rig = stalled();
    rig.check("BGSAVE", "+Background saving started");
    rig.process.us_each_look = 1000;
    rig.engine.save_slice(1_000_000, &mut rig.process);
    rig.process.us_each_look = 1;
    let captured = line(&mut rig, "saving");
    assert!(captured.starts_with("unit=keys,percent="), "{captured}");
    assert!(captured.contains(",total=2000,rate="), "{captured}");
    while rig.engine.save_slice(1_000_000, &mut rig.process)
        == sluice_control::persistence::background::Slice::More
    {}
    tick(&mut rig, 100);
    tick(&mut rig, 3_000);
    assert_eq!(shown(&rig), [WorkKind::Saving]);
    tick(&mut rig, 2_000);
    tick(&mut rig, 2_000);
    tick(&mut rig, 2_000);
    let lines = log(&mut rig);
    let last = lines.last().expect("a line about the save");
    assert!(last.starts_with("Saving: 100.0% of 2000 keys, ") && last.ends_with(", finishing"), "{lines:?}");
    rig.process.background_room.set(usize::MAX);
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    assert_eq!(section(&mut rig), ["work_under_way:0"]);
}

#[test]
fn a_save_that_everybody_waits_for_tells_its_progress_itself() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 30000 key 100");
    rig.process.log.clear();
    // Each piece of the file takes six seconds.
    rig.process.us_each_look = 6_000_000;
    rig.check("SAVE", "+OK");
    let lines = log(&mut rig);
    assert!(lines[0].starts_with("Saving: ") && lines[0].contains("% of 30000 keys, "), "{lines:?}");
    assert!(lines.iter().filter(|line| line.starts_with("Saving: ")).count() > 3, "{lines:?}");
    assert!(rig.process.shown.iter().any(|works| works.iter().any(|work| work.kind == WorkKind::Saving)));
    assert!(shown(&rig).is_empty(), "it is over");
}

#[test]
fn a_rewrite_is_shown_until_its_base_is_in_force() {
    let mut rig = Rig::with(&[("appendonly", "yes")]);
    rig.engine.begin_aof_file();
    rig.run("SET a 1");
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    let parts = line(&mut rig, "rewriting");
    assert!(parts.starts_with("unit=keys,percent=0.00,done=0,total=1,"), "{parts}");
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    rig.pass_ms(3_000);
    let parts = line(&mut rig, "rewriting");
    assert_eq!(parts, "unit=keys,percent=-1,done=0,total=-1,rate=0.00,seconds_left=-1,seconds=3.00");
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    assert_eq!(section(&mut rig), ["work_under_way:0"]);
}

/// A replica that asks for a full copy, and takes nothing of it.
fn asking(rig: &mut Rig) -> SessionKey {
    let replica = rig.connect();
    assert_eq!(rig.run_as(replica, "REPLCONF capa eof listening-port 7001 ip-address 10.0.0.5"), "+OK");
    rig.argv_unread(replica, &[b"PSYNC", b"?", b"-1"]);
    replica
}

#[test]
fn a_full_sync_is_a_snapshot_that_is_made_and_one_that_each_replica_takes() {
    let mut rig = Rig::with(&[("repl-diskless-sync-delay", "0"), ("rdbcompression", "no")]);
    rig.run("DEBUG POPULATE 100000 key 100");
    rig.process.background_room.set(60);
    let replica = asking(&mut rig);
    rig.end_iteration();
    assert!(line(&mut rig, "snapshot").contains(",total=100000,"));
    let parts = line(&mut rig, "sending0");
    assert!(parts.starts_with("unit=bytes,percent=-1,done=0,total=-1,"), "{parts}");
    assert!(parts.ends_with(",ip=10.0.0.5,port=7001"), "{parts}");
    rig.process.background_room.set(usize::MAX);
    rig.end_iteration();
    rig.end_iteration();
    assert!(!rig.engine.has_job(), "the snapshot is made");
    rig.output(replica);
    rig.pass_ms(1_000);
    let lines = section(&mut rig);
    assert_eq!(lines[0], "work_under_way:1", "{lines:?}");
    let parts = line(&mut rig, "sending0");
    let number = |name: &str| -> f64 {
        let value = parts.split(',').find_map(|part| part.strip_prefix(&format!("{name}=")));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {parts}"))
    };
    assert!(number("done") > 1e6 && number("total") > number("done"), "{parts}");
    assert!((1.0..100.0).contains(&number("percent")) && number("rate") > 0.0, "{parts}");
    tick(&mut rig, 100);
    tick(&mut rig, 100);
    assert_eq!(shown(&rig), [WorkKind::Sending { ip: "10.0.0.5".to_owned(), port: 7001 }]);
    while !rig.output(replica).is_empty() {}
    rig.end_iteration();
    assert_eq!(section(&mut rig), ["work_under_way:0"]);
}

#[test]
fn a_replica_shows_what_it_receives_and_then_what_it_loads() {
    let mut rig = Rig::new();
    rig.check("REPLICAOF 10.0.0.1 6379", "+OK");
    let mut link = RigLink::asking(&mut rig);
    assert_eq!(section(&mut rig), ["work_under_way:0"], "nothing comes yet");
    link.receive(&mut rig, format!("+FULLRESYNC {} 700\r\n", "a".repeat(40)).as_bytes());
    rig.pass_ms(2_000);
    let parts = line(&mut rig, "receiving");
    assert_eq!(parts, "unit=bytes,percent=-1,done=0,total=-1,rate=0.00,seconds_left=-1,seconds=2.00");
    rig.process.facts.sync = Some(SyncFacts { total_bytes: 8000, read_bytes: 2000, last_io_s: 0 });
    let parts = line(&mut rig, "receiving");
    assert_eq!(
        parts,
        "unit=bytes,percent=25.00,done=2000,total=8000,rate=1000.00,seconds_left=6,seconds=2.00"
    );
    for total_bytes in [0, -1] {
        // The primary does not know the size, or has not sent it.
        rig.process.facts.sync = Some(SyncFacts { total_bytes, read_bytes: 2000, last_io_s: 0 });
        assert!(line(&mut rig, "receiving").contains("percent=-1,done=2000,total=-1,rate=1000.00"));
    }
    rig.process.log.clear();
    (0..3).for_each(|_| tick(&mut rig, 3_000));
    let lines = log(&mut rig);
    let wanted = "Receiving a full synchronization from primary 10.0.0.1:6379: 0 MB, ";
    assert!(lines.iter().any(|line| line.starts_with(wanted)), "{lines:?}");
    assert!(shown(&rig).contains(&WorkKind::Receiving { primary: "10.0.0.1:6379".to_owned() }));
}

#[test]
fn an_end_that_waits_says_for_whom_and_how_long_at_most() {
    let mut rig = Rig::with(&[("shutdown-timeout", "40"), ("save", "")]);
    let replica = rig.replica();
    rig.run("SET a 1");
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", b"0"]);
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "SHUTDOWN NOSAVE"), "");
    rig.pass_ms(10_000);
    let parts = line(&mut rig, "ending");
    assert!(parts.starts_with("unit=milliseconds,percent=25.0"), "{parts}");
    assert!(parts.contains(",seconds_left=30,seconds=10.0"), "{parts}");
    rig.process.log.clear();
    rig.cron();
    tick(&mut rig, 6_000);
    let lines = log(&mut rig);
    let wanted = "Waiting for 1 replica before shutting down: 16 seconds of 40 seconds at most";
    assert!(lines.iter().any(|line| line == wanted), "{lines:?}");
}

#[test]
fn the_endpoint_has_the_same_numbers_and_none_where_nobody_knows() {
    let mut rig = stalled();
    let text = |rig: &mut Rig| {
        rig.engine
            .metrics_sample(&mut rig.process)
            .text(sluice_numbers::info::text::MetricsFormat::Prometheus)
    };
    let idle = text(&mut rig);
    assert!(idle.contains("sluice_work_under_way 0\n") && !idle.contains("sluice_work_done"), "{idle}");
    rig.check("BGSAVE", "+Background saving started");
    let busy = text(&mut rig);
    let labels = "{work=\"saving\",unit=\"keys\"}";
    assert!(busy.contains(&format!("sluice_work_size{labels} 2000\n")), "{busy}");
    assert!(busy.contains(&format!("sluice_work_done{labels} 0\n")), "{busy}");
    assert!(!busy.contains("sluice_work_left_seconds{"), "nothing was done yet");
}
