//! Models of the waker's word and of a mailbox that uses it. loom tries every interleaving (with two
//! producers, those with at most three preemptions). Built with `RUSTFLAGS="--cfg loom" cargo test -p
//! sluice-evloop --release --test loom_waker`; empty otherwise.
#![allow(unexpected_cfgs, dead_code, missing_docs)]
#![cfg(loom)]

#[path = "../src/waker/word.rs"]
mod word;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use word::{ParkState, Word};

/// Stands for the eventfd: a flag that the sleeping thread waits for.
#[derive(Default)]
struct Event {
    written: Mutex<bool>,
    wake: Condvar,
}

impl Event {
    fn kick(&self) {
        *self.written.lock().unwrap() = true;
        self.wake.notify_one();
    }

    fn sleep(&self) {
        let mut written = self.written.lock().unwrap();
        while !*written {
            written = self.wake.wait(written).unwrap();
        }
        *written = false;
    }
}

struct Model {
    word: Word,
    event: Event,
    mailbox: Mutex<Vec<usize>>,
    kicks: AtomicUsize,
}

/// Runs producers that send one value each, and a loop that sleeps until it has all values. A lost wake-up is
/// a deadlock, which loom reports.
fn run(producers: usize, notify: fn(&Word) -> ParkState) {
    let model = Arc::new(Model {
        word: Word::new(),
        event: Event { written: Mutex::new(false), wake: Condvar::new() },
        mailbox: Mutex::new(Vec::new()),
        kicks: AtomicUsize::new(0),
    });
    let threads: Vec<_> = (0..producers)
        .map(|value| {
            let model = model.clone();
            thread::spawn(move || {
                model.mailbox.lock().unwrap().push(value);
                if notify(&model.word) == ParkState::Parked {
                    model.kicks.fetch_add(1, Ordering::Relaxed);
                    model.event.kick();
                }
            })
        })
        .collect();
    let mut got = 0;
    let mut parks = 0;
    while got < producers {
        if model.word.try_park() {
            parks += 1;
            model.event.sleep();
        }
        if model.word.resume() {
            got += std::mem::take(&mut *model.mailbox.lock().unwrap()).len();
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(got, producers);
    assert!(model.kicks.load(Ordering::Relaxed) <= parks, "one kick per sleep at most");
}

/// Runs a mailbox that is a relaxed atomic number without a lock, so that only the word orders the accesses
/// to it.
fn run_relaxed(notify: fn(&Word) -> ParkState) {
    let word = Arc::new(Word::new());
    let event = Arc::new(Event { written: Mutex::new(false), wake: Condvar::new() });
    let sent = Arc::new(AtomicUsize::new(0));
    let producer = {
        let (word, event, sent) = (word.clone(), event.clone(), sent.clone());
        thread::spawn(move || {
            for value in 1..=2 {
                sent.store(value, Ordering::Relaxed);
                if notify(&word) == ParkState::Parked {
                    event.kick();
                }
            }
        })
    };
    let mut seen = 0;
    while seen < 2 {
        if word.try_park() {
            event.sleep();
        }
        if word.resume() {
            seen = seen.max(sent.load(Ordering::Relaxed));
        }
    }
    producer.join().unwrap();
}

#[test]
fn no_wake_is_lost_by_two_producers() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| run(2, Word::notify));
}

#[test]
fn what_was_published_before_a_wake_is_seen_after_it() {
    loom::model(|| run_relaxed(Word::notify));
}

/// The faulty variant `notify_unless_seen` ends in a deadlock, which loom cannot always unwind, so it runs in
/// a process of its own.
#[test]
fn the_mutant_that_looks_before_it_swaps_loses_a_wake() {
    if std::env::var_os(CHILD).is_some() {
        loom::model(|| run_relaxed(Word::notify_unless_seen));
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_mutant_that_looks_before_it_swaps_loses_a_wake", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(!output.status.success(), "the models find what they are for");
    assert!(String::from_utf8_lossy(&output.stderr).contains("deadlock"), "and that it is a lost wake-up");
}

const CHILD: &str = "SLUICE_EVLOOP_MUTANT_CHILD";
