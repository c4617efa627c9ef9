//! Tests of reaping children by descriptor and by number.
#![allow(clippy::zombie_processes, reason = "reaped by what is tested")]

use std::process::{Child, Command, Stdio};

use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::*;

fn ended(code: i32) -> Child {
    let child = Command::new("sh").args(["-c", &format!("exit {code}")]).spawn().expect("a child");
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid_of(&child)), options).expect("our child");
    child
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32).expect("a pid")
}

/// The descriptor of the child, with the number of another process.
fn whom(child: &Child, number: i32) -> WaitTarget {
    WaitTarget::Child(Arc::new(open(pid_of(child)).expect("a descriptor")), number)
}

#[test]
fn a_number_that_belongs_to_another_child_meanwhile_is_not_reaped() {
    let mut first = ended(1);
    let mut second = ended(2);
    // The target is as if the system had reused the process id of the first child for the second child.
    let first_then = whom(&first, second.id() as i32);
    assert_eq!(first.wait().expect("somebody else is faster").code(), Some(1));
    assert!(matches!(first_then.reap(), Some(Exit::NoChild)));
    assert_eq!(second.wait().expect("still there").code(), Some(2));
}

#[test]
fn a_child_is_reaped_by_its_descriptor_once_and_told_as_by_its_number() {
    let mut living = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a child");
    assert!(whom(&living, living.id() as i32).reap().is_none());
    living.kill().expect("ours");
    waitid(WaitId::Pid(pid_of(&living)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("our child");
    let exit = whom(&living, living.id() as i32).reap();
    let Some(Exit::Killed { pid, signal: 9, core_dumped: false }) = exit else { panic!("{exit:?}") };
    assert_eq!(pid, living.id() as i32);
    let child = ended(7);
    let this = whom(&child, child.id() as i32);
    assert!(matches!(this.reap(), Some(Exit::Exited { code: 7, pid }) if pid == child.id() as i32));
    assert!(matches!(this.reap(), Some(Exit::NoChild)));
    assert!(matches!(WaitTarget::Number(child.id() as i32).reap(), Some(Exit::NoChild)));
}
