//! Test of a child that another process traces (the last part of P14 in `CONFORMANCE.md`). This program has
//! no test harness, because the tracer is a forked copy and a fork loses the harness's threads.
#![allow(unsafe_code, reason = "fork and ptrace")]
#![allow(clippy::zombie_processes, reason = "the loop waits for them")]

use std::process::{Command, Stdio};

use sluice_evloop::{AnyLoop, Event, Exit, Token};

#[path = "it/common/mod.rs"]
mod common;
use common::{assert_quiet, look, next, on_each};

fn main() {
    on_each(a_traced_child_that_ended_neither_keeps_the_loop_busy_nor_is_lost);
    println!("traced: 1 claim holds on each driver");
}

/// A traced child that has ended is a zombie: its descriptor is readable, but its parent cannot reap it yet.
fn a_traced_child_that_ended_neither_keeps_the_loop_busy_nor_is_lost(mut lp: AnyLoop) {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a child");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a pid");
    let Some(tracer) = Tracer::of(pid.as_raw_nonzero().get()) else {
        println!("skipped: no process may trace another here");
        child.kill().and_then(|()| child.wait()).expect("ours");
        return;
    };
    lp.process_wait(pid.as_raw_nonzero().get(), Token(1));
    assert!(look(&mut lp).is_empty());
    // The tracer has a copy of the child's input pipe, so closing ours would not end the child: it is killed.
    child.kill().expect("ours");
    let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("a descriptor");
    let mut ended = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut ended, Some(&limit)), Ok(1), "it ends");
    assert_quiet(&mut lp);
    drop(tracer);
    let Event::ProcessEnded { token: Token(1), exit, .. } = next(&mut lp) else { panic!("its end") };
    assert!(matches!(exit, Exit::Killed { signal: libc::SIGKILL, .. }), "{exit:?}");
    assert_quiet(&mut lp);
}

/// A process that traces another one until this value is dropped.
struct Tracer(i32);

impl Tracer {
    fn of(pid: i32) -> Option<Tracer> {
        let (reader, writer) = rustix::pipe::pipe().expect("pipe");
        // SAFETY: this thread is the only one that matters to the child, which makes system calls and nothing
        // else.
        // JUSTIFICATION: a tracer must be a process of its own, since all threads of the parent's reap.
        let tracer = unsafe { libc::fork() };
        assert!(tracer >= 0, "fork");
        if tracer == 0 {
            // SAFETY: plain system calls; the process ends when it is killed.
            // JUSTIFICATION: as above.
            unsafe {
                let done = libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) == 0;
                let _ = rustix::io::write(&writer, &[u8::from(done)]);
                loop {
                    libc::pause();
                }
            }
        }
        let mut answer = [0];
        rustix::io::read(&reader, &mut answer).expect("an answer");
        let tracer = Tracer(tracer);
        (answer == [1]).then_some(tracer)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: a child of ours, and a status to be written.
        // JUSTIFICATION: as above.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, &raw mut status, 0);
        }
    }
}
