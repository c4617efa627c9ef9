//! Tests of waiting for any child, named by the ids of their requirements in `CONFORMANCE.md`. They run one
//! after another in a program of their own, because such a wait takes any child that ends.
#![allow(clippy::zombie_processes, reason = "the loop waits for them")]

use std::process::{Child, Command, Stdio};

use sluice_evloop::{AnyLoop, Deadline, Event, Exit, Token};

#[path = "it/common/mod.rs"]
mod common;
use common::{assert_quiet, next, now_ns, on_each};

fn sh(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("a child")
}

/// The pid and the code of the next child that ended.
fn exited(lp: &mut AnyLoop) -> (i32, i32) {
    match next(lp) {
        Event::ProcessEnded { exit: Exit::Exited { pid, code }, .. } => (pid, code),
        other => panic!("{other:?}"),
    }
}

fn no_child(lp: &mut AnyLoop) -> bool {
    matches!(next(lp), Event::ProcessEnded { exit: Exit::NoChild, .. })
}

#[test]
fn ev_p7_p8_p11_p12_p13_any_child() {
    on_each(any_child_is_told_twice);
    on_each(the_own_group_is_waited_for);
    on_each(a_wait_for_any_child_does_not_block_the_loop);
    on_each(all_are_waited_for_until_none_is_left);
    on_each(a_cancelled_wait_for_any_child_takes_nobody);
}

/// P7: any child can be waited for.
fn any_child_is_told_twice(mut lp: AnyLoop) {
    let children = [sh("exit 1"), sh("exit 2")];
    lp.process_wait(-1, Token(1));
    lp.process_wait(-1, Token(2));
    let mut seen = [exited(&mut lp), exited(&mut lp)];
    seen.sort_by_key(|(_, code)| *code);
    assert_eq!(seen, [(children[0].id() as i32, 1), (children[1].id() as i32, 2)]);
    assert_quiet(&mut lp);
}

/// P8: a child of the own process group can be waited for.
fn the_own_group_is_waited_for(mut lp: AnyLoop) {
    let mut child = sh("read line; exit 3");
    lp.process_wait(0, Token(1));
    assert!(lp.next_event(now_ns()).is_none());
    drop(child.stdin.take());
    assert_eq!(exited(&mut lp), (child.id() as i32, 3));
}

/// P11: a wait for any child does not block the loop.
fn a_wait_for_any_child_does_not_block_the_loop(mut lp: AnyLoop) {
    let mut child = sh("read line; exit 4");
    lp.process_wait(-1, Token(1));
    lp.timer_at(Deadline::at_ns(now_ns() + 10_000_000), Token(2));
    assert!(matches!(next(&mut lp), Event::Timer { token: Token(2), .. }));
    drop(child.stdin.take());
    assert_eq!(exited(&mut lp), (child.id() as i32, 4));
}

/// P12 and P13: waits succeed until no child is left; further waits report that there is none.
fn all_are_waited_for_until_none_is_left(mut lp: AnyLoop) {
    let children = [sh("exit 0"), sh("exit 0"), sh("exit 0")];
    let mut seen = Vec::new();
    for _ in &children {
        lp.process_wait(-1, Token(1));
        seen.push(exited(&mut lp).0);
    }
    assert!(children.iter().all(|child| seen.contains(&(child.id() as i32))));
    lp.process_wait(-1, Token(1));
    assert!(no_child(&mut lp));
    lp.process_wait(0, Token(1));
    assert!(no_child(&mut lp));
}

/// P14 for any child: a cancelled wait reaps no child.
fn a_cancelled_wait_for_any_child_takes_nobody(mut lp: AnyLoop) {
    let mut child = sh("read line; exit 6");
    let first = lp.process_wait(-1, Token(1));
    let second = lp.process_wait(0, Token(2));
    lp.process_cancel(first);
    lp.process_cancel(second);
    for _ in 0..2 {
        assert!(matches!(next(&mut lp), Event::ProcessEnded { exit: Exit::Cancelled, .. }));
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("still ours").code(), Some(6));
    assert_quiet(&mut lp);
}
