//! Producers that spin between their messages wake the loop, on every driver. The loop must not sleep through
//! a wake.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use sluice_clock::{Machine, System};
use sluice_evloop::{AnyLoop, Backend, Config, Deadline, Mailbox};

fn now_ns() -> u64 {
    System::without_counter().monotonic_ns()
}

/// Sends `messages` from `producers` threads, each of which pauses briefly after each message.
/// The loop sleeps for at most [`WATCHDOG_NS`]; a loop that sleeps so long with a message in
/// the mailbox was not woken.
fn stress(backend: Backend, producers: u64, messages: u64) {
    let mut lp = AnyLoop::choose(backend, &Config::default()).expect("the driver opens").event_loop;
    let (sender, mut mailbox) = Mailbox::new(lp.waker());
    let kicks = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..producers)
        .map(|producer| {
            let (sender, kicks) = (sender.clone(), kicks.clone());
            thread::spawn(move || {
                for message in 0..messages / producers {
                    kicks.fetch_add(u64::from(sender.send((producer, message))), Ordering::Relaxed);
                    for _ in 0..(message * 7 + producer) % 64 {
                        std::hint::spin_loop();
                    }
                }
            })
        })
        .collect();
    let mut next = vec![0; producers as usize];
    let (mut got, mut watchdog) = (0, 0);
    let total = messages / producers * producers;
    while got < total {
        let before = now_ns();
        let iteration = lp.wait(before, Deadline::at_ns(before + WATCHDOG_NS)).expect("wait");
        while lp.next_event(before).is_some() {}
        let waited_ns = now_ns() - before;
        let mut drained = 0;
        for (producer, message) in mailbox.drain() {
            assert_eq!(message, next[producer as usize], "in order, none twice");
            next[producer as usize] += 1;
            drained += 1;
        }
        watchdog += u64::from(drained > 0 && !iteration.woken && waited_ns >= WATCHDOG_NS);
        got += drained;
    }
    threads.into_iter().for_each(|thread| thread.join().expect("thread"));
    assert_eq!(watchdog, 0);
    assert_eq!(lp.metrics().wakes_sent, kicks.load(Ordering::Relaxed));
    assert!(lp.metrics().wakes_sent <= lp.metrics().parks, "one kick per sleep at most");
}

const WATCHDOG_NS: u64 = 100_000_000;

#[test]
fn no_wake_of_spinning_producers_is_slept_through() {
    for backend in [Backend::Epoll, Backend::IoUring, Backend::Poll] {
        stress(backend, 2, 40_000);
    }
}

#[test]
#[ignore = "a million wakes per driver: some seconds"]
fn no_wake_of_a_million_is_slept_through() {
    for backend in [Backend::Epoll, Backend::IoUring, Backend::Poll] {
        stress(backend, 3, 1_000_000);
    }
}
