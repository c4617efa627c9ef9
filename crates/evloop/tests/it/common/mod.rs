//! Helpers of the conformance tests, which run on every driver in turn and wait for events.
#![allow(dead_code, missing_docs, reason = "each test program uses its part")]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use sluice_clock::{Machine, System};
use sluice_evloop::{
    AnyLoop, Backend, Config, Deadline, Event, Loop, Received, SendBuf, Sending, Sent, Source, Token,
};

/// The drivers under test.
pub const BACKENDS: &[Backend] = &[Backend::Epoll, Backend::IoUring, Backend::Poll];

pub fn on_each(check: impl Fn(AnyLoop)) {
    on_each_with(&Config::default(), check);
}

pub fn on_each_with(config: &Config, check: impl Fn(AnyLoop)) {
    // `EV_ONLY` selects one driver by name, for debugging a failure.
    let only = std::env::var("EV_ONLY").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only == name;
    for &backend in BACKENDS.iter().filter(|backend| wanted(backend.name())) {
        check(Loop::choose(backend, config).expect("the driver opens").event_loop);
    }
    for sim_seed in (1..=SIM_SEEDS).filter(|_| wanted("sim")) {
        check(AnyLoop::simulated(&Config { sim_seed, ..config.clone() }).expect("it needs nothing"));
    }
}

/// Number of seeds for the simulated ring: each test runs with every seed, under which the ring behaves
/// differently.
pub const SIM_SEEDS: u64 = 12;

pub fn now_ns() -> u64 {
    System::without_counter().monotonic_ns()
}

/// A deadline so late that only a lost wake-up reaches it.
pub fn soon() -> Deadline {
    Deadline::at_ns(now_ns() + 5_000_000_000)
}

/// Runs `check` on a thread of its own, and fails if it hangs.
pub fn in_time(check: impl FnOnce() + Send + 'static) {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        check();
        let _ = tell.send(());
    });
    match told.recv_timeout(std::time::Duration::from_secs(60)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Ok(()) | Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => thread.join().expect("the check"),
    }
}

/// The next event, over as many iterations as it takes; fails the test when none comes.
pub fn next(lp: &mut AnyLoop) -> Event {
    let until = soon();
    loop {
        if let Some(event) = lp.next_event(now_ns()) {
            return event;
        }
        assert!(now_ns() < u64::from(until), "an event comes");
        let _ = lp.wait(now_ns(), until).expect("wait");
    }
}

/// All events of one check of the kernel.
pub fn look(lp: &mut AnyLoop) -> Vec<Event> {
    let mut events: Vec<Event> = std::iter::from_fn(|| lp.next_event(now_ns())).collect();
    let _ = lp.wait(now_ns(), Deadline::PAST).expect("wait");
    events.extend(std::iter::from_fn(|| lp.next_event(now_ns())));
    events
}

/// Fails unless the loop has no more events and comes to rest within a few iterations (a cancellation takes a
/// ring an iteration or two, and a simulated ring more).
pub fn assert_quiet(lp: &mut AnyLoop) {
    for _ in 0..10 {
        let iteration = lp.wait(now_ns(), Deadline::PAST).expect("wait");
        assert!(lp.next_event(now_ns()).is_none());
        if iteration.ready == 0 {
            return;
        }
    }
    panic!("a busy loop");
}

pub fn pair(lp: &mut AnyLoop, token: u64) -> (Source, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("pair");
    ours.set_nonblocking(true).expect("nonblocking");
    (lp.attach(OwnedFd::from(ours), Token(token)), theirs)
}

pub fn head(bytes: &[u8]) -> SendBuf {
    SendBuf { head: bytes.to_vec(), shared: Vec::new() }
}

pub fn sent(lp: &mut AnyLoop, sending: Sending) -> Sent {
    match sending {
        Sending::Done(sent) => sent,
        Sending::InFlight => match next(lp) {
            Event::Sent { sent, .. } => sent,
            other => panic!("{other:?}"),
        },
    }
}

/// The next `len` received bytes, in any number of chunks.
pub fn data(lp: &mut AnyLoop, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        match next(lp) {
            Event::Received { received: Received::Data(chunk), .. } => {
                bytes.extend_from_slice(&chunk);
                lp.give_back(chunk);
            }
            other => panic!("{other:?}"),
        }
    }
    bytes
}
