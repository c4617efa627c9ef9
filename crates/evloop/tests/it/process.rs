//! Tests of waiting for given children, named by the ids of their requirements in `CONFORMANCE.md`. Tests
//! that wait for any child are in `tests/process_any.rs`, a program of its own, because they would take the
//! children of these tests.
#![allow(clippy::zombie_processes, reason = "the loop waits for them")]

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use sluice_evloop::{AnyLoop, Event, Exit, Interest, ProcessId, Token};

use crate::common::{assert_quiet, look, next, on_each};

/// Waits until a wait for a child has ended; returns its token, its id and its result.
fn ended(lp: &mut AnyLoop) -> (u64, ProcessId, Exit) {
    match next(lp) {
        Event::ProcessEnded { token, id, exit } => (token.0, id, exit),
        other => panic!("{other:?}"),
    }
}

fn sh(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("a child")
}

fn pid(child: &Child) -> i32 {
    i32::try_from(child.id()).expect("a pid")
}

/// Waits, without reaping, until the child has ended.
fn until_ended(child: &Child) {
    let pid = rustix::process::Pid::from_raw(pid(child)).expect("a pid");
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).expect("our child");
}

#[test]
fn ev_p1_a_child_that_ended_before_is_told_at_once() {
    on_each(|mut lp| {
        let child = sh("exit 0");
        until_ended(&child);
        let id = lp.process_wait(pid(&child), Token(1));
        let (token, told, exit) = ended(&mut lp);
        assert_eq!((token, told), (1, id));
        assert!(matches!(exit, Exit::Exited { pid: p, code: 0 } if p == pid(&child)), "{exit:?}");
        assert_quiet(&mut lp);
    });
}

#[test]
fn ev_p2_p4_a_child_that_ends_later_is_told_with_its_code() {
    on_each(|mut lp| {
        let mut child = sh("read line; exit 42");
        lp.process_wait(pid(&child), Token(1));
        (0..3).for_each(|_| assert!(look(&mut lp).is_empty()));
        drop(child.stdin.take());
        let (_, _, exit) = ended(&mut lp);
        assert!(matches!(exit, Exit::Exited { pid: p, code: 42 } if p == pid(&child)), "{exit:?}");
        assert_quiet(&mut lp);
    });
}

#[test]
fn ev_p3_one_child_after_the_other() {
    on_each(|mut lp| {
        for code in [3, 4] {
            let child = sh(&format!("exit {code}"));
            lp.process_wait(pid(&child), Token(code));
            let (token, _, exit) = ended(&mut lp);
            assert_eq!(token, code);
            assert!(matches!(exit, Exit::Exited { code: c, .. } if c == code as i32), "{exit:?}");
        }
    });
}

#[test]
fn children_that_end_while_the_wait_begins_are_never_missed() {
    on_each(|mut lp| {
        let children: Vec<Child> = (0..8).map(|_| Command::new("true").spawn().expect("a child")).collect();
        for (index, child) in children.iter().enumerate() {
            lp.process_wait(pid(child), Token(index as u64));
        }
        let mut seen: Vec<u64> = (0..8).map(|_| ended(&mut lp).0).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..8).collect::<Vec<_>>());
    });
}

#[test]
fn ev_p5_a_signal_is_told() {
    on_each(|mut lp| {
        let mut child = sh("read line");
        lp.process_wait(pid(&child), Token(1));
        assert!(look(&mut lp).is_empty());
        child.kill().expect("our child");
        let (_, _, exit) = ended(&mut lp);
        let Exit::Killed { pid: p, signal: libc::SIGKILL, core_dumped: false } = exit else {
            panic!("{exit:?}")
        };
        assert_eq!(p, pid(&child));
    });
}

/// Whether a core dump is written depends on the machine (on its limit, and on a pattern that may pipe dumps
/// to a program). The flag that the loop reports must match the flag that `waitid` reports.
#[test]
fn ev_p6_the_core_dump_flag_is_the_systems() {
    on_each(|mut lp| {
        // The dump, if there is one, is written to the working directory of the child.
        let folder = std::env::temp_dir().join(format!("evloop-core-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let script = "ulimit -c unlimited 2>/dev/null; kill -ABRT $$";
        let abort = || Command::new("sh").args(["-c", script]).current_dir(&folder).spawn().expect("a child");
        let twin = abort();
        until_ended(&twin);
        let status = rustix::process::waitid(
            rustix::process::WaitId::Pid(rustix::process::Pid::from_raw(pid(&twin)).expect("a pid")),
            rustix::process::WaitIdOptions::EXITED,
        );
        let dumped = status.expect("our child").expect("it ended").dumped();
        let child = abort();
        lp.process_wait(pid(&child), Token(1));
        let (_, _, exit) = ended(&mut lp);
        let Exit::Killed { signal: libc::SIGABRT, core_dumped, .. } = exit else { panic!("{exit:?}") };
        assert_eq!(core_dumped, dumped);
        std::fs::remove_dir_all(&folder).expect("ours");
    });
}

#[test]
fn ev_p10_the_end_of_a_childs_output_is_readable() {
    on_each(|mut lp| {
        for _ in 0..2 {
            let mut child = Command::new("true").stdout(Stdio::piped()).spawn().expect("a child");
            let stdout = OwnedFd::from(child.stdout.take().expect("piped"));
            let source = lp.attach(stdout, Token(9));
            lp.watch(source, Interest::READABLE);
            let Event::Ready { token: Token(9), ready } = next(&mut lp) else { panic!("ready") };
            assert!(ready.intersects(Interest::READABLE));
            lp.close(source);
            lp.process_wait(pid(&child), Token(1));
            assert!(matches!(ended(&mut lp).2, Exit::Exited { code: 0, .. }));
        }
    });
}

#[test]
fn ev_p13_a_pid_that_is_no_child_of_ours_is_a_result() {
    on_each(|mut lp| {
        let mut child = sh("exit 0");
        let gone = pid(&child);
        child.wait().expect("reaped");
        for pid in [gone, 1, i32::MAX] {
            let id = lp.process_wait(pid, Token(6));
            let (token, told, exit) = ended(&mut lp);
            assert_eq!((token, told), (6, id));
            assert!(matches!(exit, Exit::NoChild), "{exit:?}");
        }
        lp.process_wait(i32::MIN, Token(7));
        assert!(matches!(ended(&mut lp).2, Exit::NoChild | Exit::Failed(_)));
    });
}

#[test]
fn a_child_that_somebody_else_reaps_is_gone() {
    on_each(|mut lp| {
        let mut child = sh("read line; exit 7");
        lp.process_wait(pid(&child), Token(1));
        assert!(look(&mut lp).is_empty());
        drop(child.stdin.take());
        assert_eq!(child.wait().expect("ours").code(), Some(7));
        assert!(matches!(ended(&mut lp), (1, _, Exit::NoChild)));
        assert_quiet(&mut lp);
    });
}

#[test]
fn ev_p14_a_cancelled_wait_ends_once_and_reaps_nobody() {
    on_each(|mut lp| {
        let mut child = sh("read line; exit 7");
        let id = lp.process_wait(pid(&child), Token(1));
        assert!(look(&mut lp).is_empty());
        lp.process_cancel(id);
        lp.process_cancel(id);
        let (token, told, exit) = ended(&mut lp);
        assert_eq!((token, told), (1, id));
        assert!(matches!(exit, Exit::Cancelled), "{exit:?}");
        lp.process_cancel(id);
        assert_quiet(&mut lp);
        // The child still exists, so another wait for it succeeds.
        lp.process_wait(pid(&child), Token(2));
        drop(child.stdin.take());
        let (token, _, exit) = ended(&mut lp);
        assert!(matches!(exit, Exit::Exited { code: 7, .. }), "{exit:?}");
        assert_eq!(token, 2);
    });
}

#[test]
fn ev_p9_a_group_is_waited_for_by_its_number() {
    use std::os::unix::process::CommandExt;
    on_each(|mut lp| {
        let group = || {
            let mut command = Command::new("sh");
            command.args(["-c", "read line; exit 5"]).stdin(Stdio::piped()).process_group(0);
            command.spawn().expect("a child")
        };
        let (mut child, mut other) = (group(), group());
        lp.process_wait(-pid(&child), Token(1));
        lp.process_wait(-pid(&other), Token(2));
        // The check that finds the end of the second child also checks the first, which must stay unreported.
        drop(other.stdin.take());
        assert_eq!(ended(&mut lp).0, 2);
        assert_quiet(&mut lp);
        drop(child.stdin.take());
        let (_, _, exit) = ended(&mut lp);
        assert!(matches!(exit, Exit::Exited { pid: p, code: 5 } if p == pid(&child)), "{exit:?}");
        lp.process_wait(-pid(&child), Token(2));
        assert!(matches!(ended(&mut lp).2, Exit::NoChild));
    });
}

#[test]
fn a_cancelled_wait_for_a_group_reaps_nobody() {
    use std::os::unix::process::CommandExt;
    on_each(|mut lp| {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exit 5"])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a child");
        let id = lp.process_wait(-pid(&child), Token(1));
        lp.process_cancel(id);
        assert!(matches!(ended(&mut lp), (1, told, Exit::Cancelled) if told == id));
        drop(child.stdin.take());
        assert_eq!(child.wait().expect("still ours").code(), Some(5));
        assert_quiet(&mut lp);
    });
}

#[test]
fn a_loop_may_go_while_it_waits() {
    use std::os::unix::process::CommandExt;
    on_each(|mut lp| {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exit 5"])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a child");
        lp.process_wait(pid(&child), Token(1));
        lp.process_wait(-pid(&child), Token(2));
        assert!(look(&mut lp).is_empty());
        drop(lp);
        drop(child.stdin.take());
        assert_eq!(child.wait().expect("still ours").code(), Some(5));
    });
}
