//! Tests accepting connections, and waiting for a process, without free descriptors. The test is a program of
//! its own, because the limit applies to the process.
#![allow(clippy::zombie_processes, reason = "the loop waits for them")]

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_evloop::{AnyLoop, Deadline, Event, Exit, Token};

#[path = "it/common/mod.rs"]
mod common;
use common::{next, now_ns, on_each};

/// Lowers the limit while `run` runs, and opens files until only `spare` descriptors below the limit are
/// free.
fn without_descriptors(spare: usize, run: impl FnOnce(&mut Vec<File>)) {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..before }).expect("lower");
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.truncate(taken.len() - spare);
    run(&mut taken);
    drop(taken);
    setrlimit(Resource::Nofile, before).expect("back");
}

/// The events of a few checks at the time `now_ns`; a ring needs several for its queued operations.
fn looks(lp: &mut AnyLoop, now_ns: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..24 {
        let _ = lp.wait(now_ns, Deadline::PAST).expect("wait");
        events.extend(std::iter::from_fn(|| lp.next_event(now_ns)));
    }
    events
}

fn is_failure(events: &[Event]) -> bool {
    match events {
        [Event::AcceptFailed { token: Token(1), error }] => error.raw_os_error() == Some(libc::EMFILE),
        _ => false,
    }
}

#[test]
fn ev_emfile_without_descriptors_a_listener_pauses_and_a_process_is_waited_for() {
    on_each(a_listener_pauses_10_to_500_ms_and_recovers);
    on_each(a_process_is_waited_for_by_the_thread_that_looks);
}

/// Time is an argument, so the test does not wait for the pauses.
fn a_listener_pauses_10_to_500_ms_and_recovers(mut lp: AnyLoop) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listener.set_nonblocking(true).expect("nonblocking");
    let address = listener.local_addr().expect("address");
    let source = lp.attach(OwnedFd::from(listener), Token(1));
    let _peers =
        [TcpStream::connect(address), TcpStream::connect(address)].map(|peer| peer.expect("connect"));
    let mut now_ns = now_ns();
    without_descriptors(0, |taken| {
        lp.accept_start(source);
        for (count, pause_ms) in [10, 20, 40, 80, 160, 320, 500, 500].into_iter().enumerate() {
            let events = looks(&mut lp, now_ns);
            assert!(is_failure(&events), "{} after {count} pauses: {events:?}", lp.name());
            assert_eq!(lp.metrics().accept_failures, count as u64 + 1);
            let almost_ns = now_ns + pause_ms * 1_000_000 - 1;
            assert!(looks(&mut lp, almost_ns).is_empty(), "it pauses {pause_ms} ms");
            now_ns = almost_ns + 1;
        }
        // One descriptor is free, so one connection is accepted, and then the pauses begin again.
        taken.pop();
        let mut events = looks(&mut lp, now_ns);
        let Event::Accepted { token: Token(1), socket } = events.remove(0) else { panic!("accepted") };
        if events.is_empty() {
            events = looks(&mut lp, now_ns);
        }
        assert!(is_failure(&events), "{}: {events:?}", lp.name());
        assert!(looks(&mut lp, now_ns + 9_999_999).is_empty());
        drop(socket);
        let events = looks(&mut lp, now_ns + 10_000_000);
        // Linux allocates the descriptor before it looks for a connection, so another failure may follow.
        assert!(matches!(events.first(), Some(Event::Accepted { token: Token(1), .. })), "{events:?}");
    });
    lp.close(source);
}

fn a_process_is_waited_for_by_the_thread_that_looks(mut lp: AnyLoop) {
    let mut child =
        Command::new("sh").args(["-c", "read line; exit 9"]).stdin(Stdio::piped()).spawn().expect("sh");
    without_descriptors(0, |_| {
        lp.process_wait(child.id() as i32, Token(2));
        drop(child.stdin.take());
        let Event::ProcessEnded { token: Token(2), exit, .. } = next(&mut lp) else { panic!("its end") };
        assert!(matches!(exit, Exit::Exited { code: 9, .. }), "{exit:?}");
    });
}
