//! Compares our event loop with mio and polling, its timers with a heap with tombstones and an ordered map,
//! and our clock with the kernel's. Rounds are interleaved (A B C A B C …); the bench prints the median and
//! the middle 90 % of the rounds. Run it with `cargo bench -p sluice-micro --bench evloop`; the name of a
//! part as an argument runs only this part.
#![allow(missing_docs)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sluice_base::Rng;
use sluice_clock::{Clock, Machine, System};
use sluice_evloop::{AnyLoop, Backend, Config, Deadline, Timers, Token, Waker};

const ROUNDS: usize = 21;

fn now_ns() -> u64 {
    System::without_counter().monotonic_ns()
}

/// One arm: a name, and a function that runs one round and returns nanoseconds per operation.
type Arm<'a> = (&'a str, Box<dyn FnMut() -> f64 + 'a>);

fn compare(title: &str, mut arms: Vec<Arm<'_>>) {
    let mut samples = vec![Vec::with_capacity(ROUNDS); arms.len()];
    for _ in 0..ROUNDS {
        for (arm, samples) in arms.iter_mut().zip(&mut samples) {
            samples.push((arm.1)());
        }
    }
    println!("{title}");
    for ((name, _), samples) in arms.iter().zip(&mut samples) {
        samples.sort_by(f64::total_cmp);
        let (low, mid, high) = (samples[1], samples[ROUNDS / 2], samples[ROUNDS - 2]);
        println!("  {name:<34} {mid:>12.1} ns   ({low:.1} .. {high:.1})");
    }
}

fn per_op(count: u64, work: impl FnOnce()) -> f64 {
    let began = now_ns();
    work();
    (now_ns() - began) as f64 / count as f64
}

fn open(backend: Backend) -> AnyLoop {
    AnyLoop::choose(backend, &Config::default()).expect("the driver opens").event_loop
}

struct Ours(AnyLoop);

/// A loop belongs to the thread that opens it, so each arm is created on a thread of its own.
fn on_its_thread(make: fn() -> Box<dyn Sleeper>) -> (Arc<Shared>, thread::JoinHandle<()>) {
    let shared = Arc::new(Shared::default());
    let other = shared.clone();
    let thread = thread::spawn(move || {
        let mut sleeper = make();
        *other.waker.lock().expect("lock") = Some(sleeper.waker());
        other.ready.store(true, Ordering::Release);
        loop {
            sleeper.sleep();
            let asked = other.asked_ns.swap(0, Ordering::AcqRel);
            if asked != 0 {
                other.took_ns.store(now_ns().saturating_sub(asked).max(1), Ordering::Release);
            }
            if other.stop.load(Ordering::Acquire) {
                return;
            }
        }
    });
    (shared, thread)
}

#[derive(Default)]
struct Shared {
    waker: std::sync::Mutex<Option<Box<dyn Fn() + Send>>>,
    ready: AtomicBool,
    stop: AtomicBool,
    asked_ns: AtomicU64,
    took_ns: AtomicU64,
}

/// The operations of a poller in this bench.
trait Sleeper {
    fn waker(&self) -> Box<dyn Fn() + Send>;
    fn sleep(&mut self);
}

impl Sleeper for Ours {
    fn waker(&self) -> Box<dyn Fn() + Send> {
        let waker: Waker = self.0.waker();
        Box::new(move || {
            waker.wake();
        })
    }
    fn sleep(&mut self) {
        let _ = self.0.wait(0, Deadline::NEVER).expect("wait");
        while self.0.next_event(0).is_some() {}
    }
}

struct Mio(mio::Poll, Arc<mio::Waker>, mio::Events);

impl Sleeper for Mio {
    fn waker(&self) -> Box<dyn Fn() + Send> {
        let waker = self.1.clone();
        Box::new(move || waker.wake().expect("wake"))
    }
    fn sleep(&mut self) {
        self.0.poll(&mut self.2, None).expect("poll");
    }
}

fn mio_poll() -> Mio {
    let poll = mio::Poll::new().expect("poll");
    let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("waker");
    Mio(poll, Arc::new(waker), mio::Events::with_capacity(256))
}

struct Polling(Arc<polling::Poller>, polling::Events);

impl Sleeper for Polling {
    fn waker(&self) -> Box<dyn Fn() + Send> {
        let poller = self.0.clone();
        Box::new(move || poller.notify().expect("notify"))
    }
    fn sleep(&mut self) {
        self.1.clear();
        self.0.wait(&mut self.1, None).expect("wait");
    }
}

fn polling_poll() -> Polling {
    Polling(Arc::new(polling::Poller::new().expect("poller")), polling::Events::new())
}

const MAKERS: [(&str, fn() -> Box<dyn Sleeper>); 4] = [
    ("ours, epoll", || Box::new(Ours(open(Backend::Epoll)))),
    ("ours, io_uring", || Box::new(Ours(open(Backend::IoUring)))),
    ("mio", || Box::new(mio_poll())),
    ("polling", || Box::new(polling_poll())),
];

/// E1: the time from the call that wakes a sleeping poller to the poller's return.
fn wake_parked() {
    let mut threads = Vec::new();
    let mut arms: Vec<Arm<'_>> = Vec::new();
    for (name, make) in MAKERS {
        let (shared, thread) = on_its_thread(make);
        while !shared.ready.load(Ordering::Acquire) {
            thread::yield_now();
        }
        threads.push((shared.clone(), thread));
        let round = move || {
            let waker = shared.waker.lock().expect("lock");
            let wake = waker.as_ref().expect("set before ready");
            let mut total = 0;
            for _ in 0..200 {
                thread::sleep(Duration::from_micros(100));
                shared.took_ns.store(0, Ordering::Release);
                shared.asked_ns.store(now_ns(), Ordering::Release);
                wake();
                while shared.took_ns.load(Ordering::Acquire) == 0 {
                    std::hint::spin_loop();
                }
                total += shared.took_ns.load(Ordering::Acquire);
            }
            total as f64 / 200.0
        };
        arms.push((name, Box::new(round)));
    }
    compare("E1 wake of a parked loop, call to return", arms);
    for (shared, thread) in threads {
        shared.stop.store(true, Ordering::Release);
        shared.waker.lock().expect("lock").as_ref().expect("set")();
        thread.join().expect("thread");
    }
}

/// E1: a producer continuously wakes a busy loop; prints the system calls per wake.
fn wake_busy() {
    for backend in [Backend::Epoll, Backend::IoUring] {
        let mut lp = open(backend);
        let stop = Arc::new(AtomicBool::new(false));
        let wakes = Arc::new(AtomicU64::new(0));
        let producer = {
            let (waker, stop, wakes) = (lp.waker(), stop.clone(), wakes.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    waker.wake();
                    wakes.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let mut clock = Clock::system();
        let until = now_ns() + 200_000_000;
        while now_ns() < until {
            let now = clock.now().mono_ns;
            let _ = lp.wait(now, Deadline::at_ns(now + 1_000_000)).expect("wait");
            while lp.next_event(now).is_some() {}
            // These steps stand for the work of one iteration.
            (0..2000).for_each(|step| {
                black_box(step);
            });
        }
        stop.store(true, Ordering::Relaxed);
        producer.join().expect("thread");
        let (sent, all) = (lp.metrics().wakes_sent, wakes.load(Ordering::Relaxed));
        println!(
            "E1 busy loop, {}: {sent} eventfd writes in {all} wakes: {:.5} per wake",
            backend.name(),
            sent as f64 / all as f64
        );
    }
}

/// E2: the cost of waking a loop that is not parked.
fn wake_running() {
    const COUNT: u64 = 20_000;
    let ours = open(Backend::Epoll);
    let waker = ours.waker();
    let mut mio = mio_poll();
    let mio_waker = mio.1.clone();
    let polling = polling_poll();
    let poller = polling.0.clone();
    compare(
        "E2 wake of a loop that is not parked",
        vec![
            (
                "ours",
                Box::new(move || {
                    per_op(COUNT, || {
                        (0..COUNT).for_each(|_| {
                            black_box(waker.wake());
                        })
                    })
                }),
            ),
            (
                "mio",
                Box::new(move || {
                    let cost = per_op(COUNT, || (0..COUNT).for_each(|_| mio_waker.wake().expect("wake")));
                    mio.0.poll(&mut mio.2, Some(Duration::ZERO)).expect("poll");
                    cost
                }),
            ),
            (
                "polling (one notification pending)",
                Box::new(move || per_op(COUNT, || (0..COUNT).for_each(|_| poller.notify().expect("notify")))),
            ),
        ],
    );
}

/// E3: the cost of an iteration without events.
fn empty_turn() {
    const COUNT: u64 = 2_000;
    let mut arms: Vec<Arm<'_>> = Vec::new();
    for backend in [Backend::Epoll, Backend::IoUring] {
        let mut lp = open(backend);
        // A few iterations run before the measurement, because a ring arms its waker in the first one.
        (0..3).for_each(|_| drop(lp.wait(1, Deadline::PAST)));
        let calls = lp.metrics().system_calls;
        (0..100).for_each(|_| drop(lp.wait(1, Deadline::PAST)));
        println!(
            "E3 system calls in 100 empty turns, {}: {}",
            backend.name(),
            lp.metrics().system_calls - calls
        );
        arms.push((
            backend.name(),
            Box::new(move || {
                per_op(COUNT, || {
                    for _ in 0..COUNT {
                        let _ = lp.wait(1, Deadline::PAST).expect("wait");
                        while lp.next_event(1).is_some() {}
                    }
                })
            }),
        ));
    }
    let mut mio = mio_poll();
    arms.push((
        "mio",
        Box::new(move || {
            per_op(COUNT, || {
                (0..COUNT).for_each(|_| mio.0.poll(&mut mio.2, Some(Duration::ZERO)).expect("poll"));
            })
        }),
    ));
    compare("E3 empty turn", arms);
}

/// E9: the time per timer to set timers, cancel half of them, and fire the others.
fn timers(count: u64) {
    let ours = move || {
        let mut rng = Rng::new(5);
        per_op(count, || {
            let mut timers = Timers::default();
            let ids: Vec<_> =
                (0..count).map(|index| timers.insert(rng.below(1 << 40), Token(index))).collect();
            ids.iter().step_by(2).for_each(|id| {
                black_box(timers.cancel(*id));
            });
            while black_box(timers.pop_due(u64::MAX)).is_some() {}
        })
    };
    let tombstones = move || {
        let mut rng = Rng::new(5);
        per_op(count, || {
            let mut heap = BinaryHeap::new();
            let mut dead = HashSet::new();
            (0..count).for_each(|index| heap.push(Reverse((rng.below(1 << 40), index))));
            (0..count).step_by(2).for_each(|index| {
                black_box(dead.insert(index));
            });
            while let Some(Reverse((at, index))) = heap.pop() {
                if !dead.remove(&index) {
                    black_box((at, index));
                }
            }
        })
    };
    let ordered = move || {
        let mut rng = Rng::new(5);
        per_op(count, || {
            let mut map = BTreeMap::new();
            let keys: Vec<_> = (0..count).map(|index| (rng.below(1 << 40), index)).collect();
            keys.iter().for_each(|key| {
                black_box(map.insert(*key, key.1));
            });
            keys.iter().step_by(2).for_each(|key| {
                black_box(map.remove(key));
            });
            while let Some(entry) = map.pop_first() {
                black_box(entry);
            }
        })
    };
    compare(
        &format!("E9 {count} timers: set all, cancel half, fire the rest"),
        vec![
            ("ours", Box::new(ours)),
            ("binary heap with tombstones", Box::new(tombstones)),
            ("BTreeMap", Box::new(ordered)),
        ],
    );
}

/// The time to read our clock, compared with that of the system's clocks.
#[allow(clippy::disallowed_methods, reason = "the arms to compare with")]
fn clocks() {
    const COUNT: u64 = 100_000;
    let mut clock = Clock::system();
    let until = now_ns() + 30_000_000;
    while now_ns() < until {
        clock.now();
    }
    println!("clock: {}", clock.describe());
    compare(
        "reading the clock",
        vec![
            (
                "ours, both times",
                Box::new(move || {
                    per_op(COUNT, || {
                        (0..COUNT).for_each(|_| {
                            black_box(clock.now());
                        })
                    })
                }),
            ),
            (
                "clock_gettime(CLOCK_REALTIME)",
                Box::new(|| {
                    let mut machine = System::without_counter();
                    per_op(COUNT, || {
                        (0..COUNT).for_each(|_| {
                            black_box(machine.real_ns());
                        })
                    })
                }),
            ),
            (
                "std::time::SystemTime",
                Box::new(|| {
                    per_op(COUNT, || {
                        (0..COUNT).for_each(|_| {
                            black_box(std::time::SystemTime::now());
                        })
                    })
                }),
            ),
            (
                "std::time::Instant",
                Box::new(|| {
                    per_op(COUNT, || {
                        (0..COUNT).for_each(|_| {
                            black_box(std::time::Instant::now());
                        })
                    })
                }),
            ),
        ],
    );
}

fn main() {
    let only = std::env::args().nth(1).filter(|name| !name.starts_with('-')).unwrap_or_default();
    let parts: [(&str, fn()); 7] = [
        ("wake_parked", wake_parked),
        ("wake_busy", wake_busy),
        ("wake_running", wake_running),
        ("empty_turn", empty_turn),
        ("timers_10k", || timers(10_000)),
        ("timers_1m", || timers(1_000_000)),
        ("clocks", clocks),
    ];
    for (name, part) in parts {
        if only.is_empty() || only == name {
            part();
        }
    }
}
