//! Tests with a crash of the machine, or a fault of its disk, at each step of the thread's work.

use super::*;

/// An operation on a [`Scene`].
#[derive(Clone, Copy, Debug)]
enum Op {
    Write(u64),
    PassMs(u64),
    Policy(AppendFsync),
    /// Begins a rewrite, with the cut after the newest number.
    Cut,
    /// Writes the base of the last rewrite, and puts it in force.
    Base,
    /// `Off` does `appendonly no`, `On` does `appendonly yes`.
    Off,
    On,
    /// Kills the process and starts another one.
    Kill,
}

use AppendFsync::{Always, EverySecond};
use Op::{Base, Cut, Kill, Off, On, PassMs, Policy, Write};

/// Only writes, with pauses of up to a second in between.
const WRITES: &[Op] = &[
    Write(1),
    PassMs(400),
    Write(30),
    PassMs(700),
    Write(2),
    PassMs(1000),
    Write(40),
    PassMs(100),
    Write(1),
];

/// Rewrites, one of which is given up, with writes before, during and after them.
const REWRITES: &[Op] = &[
    Write(20),
    PassMs(300),
    Cut,
    Write(3),
    PassMs(900),
    Base,
    Write(2),
    PassMs(200),
    Cut,
    Write(25),
    Cut,
    Write(1),
    PassMs(1100),
    Base,
    Write(1),
];

/// The file is turned off and on twice. After the first time, no base is written for the first cut, but only
/// for a later one.
const SWITCHES: &[Op] = &[
    Write(20),
    PassMs(100),
    Off,
    Write(5),
    On,
    Write(5),
    PassMs(1000),
    Cut,
    Write(4),
    Base,
    Write(3),
    PassMs(1200),
    Off,
    Write(2),
    On,
    Base,
    Write(2),
];

/// The process is killed after plain writes, during a rewrite, and before the first base of a file that was
/// turned on.
const KILLS: &[Op] =
    &[Write(25), Kill, Write(30), Cut, Write(2), Kill, Write(1), Off, On, Write(3), Kill, Write(3), Kill];

/// `appendfsync` changes, also during a rewrite.
const POLICIES: &[Op] = &[
    Write(5),
    PassMs(1000),
    Policy(Always),
    Write(5),
    Policy(AppendFsync::No),
    Write(25),
    Policy(Always),
    Write(1),
    Policy(EverySecond),
    Write(4),
    PassMs(1000),
    Cut,
    Write(1),
    Policy(Always),
    Write(1),
    Base,
    Write(1),
];

const SCRIPTS: [(&str, &[Op]); 5] = [
    ("writes", WRITES),
    ("rewrites", REWRITES),
    ("switches", SWITCHES),
    ("kills", KILLS),
    ("policies", POLICIES),
];

/// Plays a script until the machine crashes or the thread gives up; returns whether the script was completed.
fn play(scene: &mut Scene, script: &[Op]) -> bool {
    let mut runs = scene.start().is_ok();
    for op in script {
        let has_ended = scene.worker.as_ref().is_some_and(|worker| worker.ending.is_some());
        if !runs || has_ended || scene.storage.has_crashed() {
            return false;
        }
        match *op {
            Write(count) => scene.write(count),
            PassMs(ms) => scene.pass_ms(ms),
            Policy(policy) => scene.set_policy(policy),
            // A file that is off, or could not be turned on, is not rewritten.
            Cut if scene.worker.is_some() => scene.begin_rewrite(),
            Base if scene.worker.is_some() => scene.finish_rewrite(),
            Cut | Base => {}
            Off => scene.turn_off(),
            On => scene.turn_on(),
            Kill => runs = scene.kill().is_ok(),
        }
    }
    runs && !scene.storage.has_crashed()
}

/// Under `everysec`, numbers older than a second must be on disk if the files are in force.
fn keep_what_is_older_than_a_second(scene: &mut Scene) {
    // The crash may happen during the sync that is due after that second.
    let limit_ns = scene.now_ns().saturating_sub(SECOND_NS + TICK_MS * 1_000_000);
    let old = scene.given_ns.iter().take_while(|at_ns| **at_ns < limit_ns).count() as u64;
    if scene.is_in_force {
        scene.kept = scene.kept.max(old);
    }
}

/// Checks that the files that were left can be loaded and appended to.
fn go_on(scene: &mut Scene, what: &str) {
    let plan = Plan { fault: FileFault::Crash, first: u64::MAX, count: 1, seed: 0 };
    scene.storage = Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail));
    scene.policy = Always;
    scene.kill().unwrap_or_else(|line| panic!("{what}: it does not start: {line}"));
    let before = scene.last;
    scene.write(3);
    scene.begin_rewrite();
    scene.write(1);
    scene.finish_rewrite();
    scene.write(1);
    assert_eq!(scene.promised(), before + 5, "{what}");
    scene.storage.crash_now(0).expect("crashed");
    assert_eq!(scene.check(what), FoundEnd::Whole, "{what}");
}

/// Crashes the machine at one step of a script. Returns how the files end after the crash; `None` if the
/// script is over before that step.
fn crash(name: &str, script: &[Op], policy: AppendFsync, step: u64, seed: u64) -> Option<FoundEnd> {
    let what = format!("{name}, {policy:?}, step {step}, seed {seed}");
    let mut scene = Scene::new(policy, FileFault::Crash, step, 1, seed);
    if play(&mut scene, script) {
        assert!(step > FIRST_STEPS + 5, "{what}");
        return None;
    }
    assert!(scene.storage.has_crashed(), "{what}: nothing else fails");
    if policy == EverySecond && name != "policies" {
        keep_what_is_older_than_a_second(&mut scene);
    }
    let end = scene.check(&what);
    if end != FoundEnd::Broken {
        go_on(&mut scene, &what);
    }
    Some(end)
}

#[test]
fn a_crash_at_any_step_leaves_what_was_promised_and_no_gap() {
    let (mut whole, mut torn, mut broken) = (0, 0, 0);
    for (name, script) in SCRIPTS {
        for policy in [Always, EverySecond, AppendFsync::No] {
            for seed in 0..2 {
                for end in (1..).map_while(|step| crash(name, script, policy, step, seed)) {
                    match end {
                        FoundEnd::Whole => whole += 1,
                        FoundEnd::Torn(..) => torn += 1,
                        // There is a gap within the bytes that were not synced, so the administrator has to
                        // repair the file.
                        FoundEnd::Broken => broken += 1,
                    }
                }
            }
        }
    }
    // Most crashes leave whole files, some a torn one, and few a broken one.
    assert!(whole > 500 && torn > 10 && broken < whole / 20, "{whole} {torn} {broken}");
}

/// Plays each script once for each of its steps: the disk has a temporary fault at that step, and the machine
/// crashes at the end. Returns how often the fault was noticed.
fn with_a_fault(fault: FileFault, count: u64) -> u64 {
    let mut noticed = 0;
    for (name, script) in SCRIPTS {
        // No process can know that a sync has failed in an earlier process, because Linux shows it data that
        // never reached the disk.
        if fault == FileFault::SyncError && name == "kills" {
            continue;
        }
        for policy in [Always, EverySecond] {
            let mut plain = Scene::new(policy, fault, u64::MAX, 1, 0);
            assert!(play(&mut plain, script));
            for step in 1..=plain.storage.steps() {
                for seed in 0..2 {
                    let what = format!("{fault:?} {count}, {name}, {policy:?}, step {step}, seed {seed}");
                    let mut scene = Scene::new(policy, fault, step, count, seed);
                    let came_to_its_end = play(&mut scene, script);
                    scene.storage.crash_now(seed).expect("crashed");
                    noticed += u64::from(!came_to_its_end || scene.news.iter().any(tells_of_failure));
                    // After a failed sync, the end of the files may hold anything, but the promised numbers
                    // come before it.
                    scene.check(&what);
                }
            }
        }
    }
    noticed
}

fn tells_of_failure(news: &AofNews) -> bool {
    match news {
        AofNews::Fatal
        | AofNews::Fault(_)
        | AofNews::IncrBegun(_, false)
        | AofNews::BaseFinished(_, false) => true,
        AofNews::Log(level, _) => *level == LogLevel::Warning,
        AofNews::Latency(..) | AofNews::IncrBegun(..) | AofNews::BaseFinished(..) => false,
    }
}

#[test]
fn a_sync_that_fails_breaks_no_promise() {
    assert!(with_a_fault(FileFault::SyncError, 1) > 50);
}

#[test]
fn a_disk_that_fills_up_within_a_record_breaks_no_promise() {
    assert!(with_a_fault(FileFault::FillsUp, 3) > 50);
}

#[test]
fn short_writes_go_on_with_the_rest() {
    assert_eq!(with_a_fault(FileFault::ShortWrite, 2), 0);
}

#[test]
fn writes_that_fail_and_a_full_disk_break_no_promise() {
    assert!(with_a_fault(FileFault::WriteError, 1) > 50);
    assert!(with_a_fault(FileFault::WriteError, 3) > 50);
    assert!(with_a_fault(FileFault::NoSpace, 2) > 50);
}

#[test]
fn a_rename_that_is_half_done_breaks_no_promise() {
    assert!(with_a_fault(FileFault::TornRename, 1) > 20);
}
