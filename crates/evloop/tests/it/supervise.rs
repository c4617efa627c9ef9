//! Runs the example `supervise` on every driver: files, FIFOs, children and timers together, as in a real
//! program.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{assert_quiet, in_time, on_each};

#[path = "../../examples/supervise.rs"]
mod example;

use example::{Outcome, Plan, supervise};

fn plan(script: &str) -> Plan {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let log = std::env::temp_dir().join(format!("evloop-supervise-{}-{number}.log", std::process::id()));
    Plan { log, script: script.into(), runs_max: 3, pause_ms: 1, patience_ms: 60_000 }
}

/// Runs a plan on each driver; `check` gets the outcome and the log.
fn run(script: &'static str, prepare: fn(&mut Plan), check: fn(&Outcome, &str)) {
    in_time(move || {
        on_each(|mut lp| {
            let mut plan = plan(script);
            prepare(&mut plan);
            let outcome = supervise(&mut lp, &plan).expect("it is supervised");
            let log = std::fs::read_to_string(&plan.log).expect("the log is there");
            std::fs::remove_file(&plan.log).expect("the log goes");
            assert!(!plan.log.with_extension("fifo").exists());
            let digest = log.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            assert_eq!((outcome.bytes, outcome.digest, outcome.jobs), (log.len() as u64, digest, 2));
            check(&outcome, &log);
            assert_quiet(&mut lp);
        });
    });
}

#[test]
fn a_command_that_fails_is_run_again_and_told_which_run_it_is() {
    run(
        "read run; echo this is run $run; printf 'no end'; [ $run = 2 ] || exit 7",
        |_| {},
        |outcome, log| {
            assert_eq!(outcome.ended, [7, 0]);
            assert_eq!(log, "1: this is run 1\n1: no end\n2: this is run 2\n2: no end\n");
        },
    );
}

#[test]
fn all_that_a_command_says_is_in_the_log_in_its_order() {
    run(
        "read run; i=0; while [ $i -lt 2000 ]; do echo line $i of two thousand; i=$((i + 1)); done; \
         read synced; echo last",
        |_| {},
        |outcome, log| {
            assert_eq!(outcome.ended, [0]);
            let lines = (0..2000).map(|n| format!("1: line {n} of two thousand\n")).collect::<String>();
            assert_eq!(log, lines + "1: last\n");
            // The command printed its last line only after the supervisor had reported a sync.
            assert!(outcome.syncs >= 1, "{outcome:?}");
        },
    );
}

#[test]
fn a_command_that_takes_too_long_is_ended_each_time() {
    run(
        "echo begun; exec sleep 1000",
        |plan| (plan.runs_max, plan.patience_ms) = (2, 60),
        |outcome, log| {
            assert_eq!(outcome.ended, [-9, -9]);
            // A loaded machine may end a shell before its first output.
            assert!(["", "1: begun\n", "2: begun\n", "1: begun\n2: begun\n"].contains(&log), "{log}");
        },
    );
}
