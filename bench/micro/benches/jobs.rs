//! Compares two ways to pass the job of a slow read to a thread: the pool's own queue (with a lock), and the
//! ring `queue::spmc` with threads that park. Run it with `cargo bench -p sluice-micro --bench jobs`.
//!
//! Pool and ring have the same jobs, threads, mailbox and event loop for the results; only the queue and the
//! way in which threads sleep and wake differ. A burst of jobs is submitted, then the loop waits until all
//! are done. The bench prints, for each burst, number of threads and length of a job, the processor time of
//! the main thread for each job (submitting, waiting, taking the result), and the time from the first
//! submission to the end of the last job. The times are medians over the rounds; the ratio ring / pool has
//! the interval that contains nine tenths of the rounds' ratios. Arguments after `--` are `rounds=N` and
//! `bursts=N`.

// A bench measures time and needs threads.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sluice_evloop::{
    AnyLoop, Backend, Config, Deadline, Finished, JobOutcome, Mailbox, Sender, Token, WorkerPool,
};
use sluice_micro::{Arguments, quantile};
use sluice_queue::{Capacity, spmc};

/// The capacity of both queues. In the server, no more jobs are in progress than there are threads; here
/// there may be more.
const QUEUE_MAX: usize = 64;

/// A set of threads that run jobs.
trait Threads {
    /// Submits a job of this length.
    fn submit(&mut self, home: &Sender<Finished<u64>>, token: Token, length: Duration);
}

/// The work of a job: keeps the processor busy for `length`, as a slow read does.
fn work(length: Duration) -> u64 {
    let began = Instant::now();
    let mut turns = 0;
    while began.elapsed() < length {
        turns = black_box(turns + 1);
    }
    turns
}

impl Threads for WorkerPool {
    fn submit(&mut self, home: &Sender<Finished<u64>>, token: Token, length: Duration) {
        let job = WorkerPool::submit(self, home, token, move |_| work(length));
        assert!(job.is_ok(), "the queue has room");
    }
}

/// Threads that consume a ring. A thread that finds it empty announces its sleep, checks again, and parks.
struct Ring {
    producer: Option<spmc::Producer<Job>>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

type Job = Box<dyn FnOnce() + Send>;

struct Shared {
    /// For each thread, whether it is about to sleep.
    sleeps: Vec<AtomicBool>,
    is_closed: AtomicBool,
}

impl Ring {
    fn open(threads: usize) -> Ring {
        let (producer, consumer) = spmc::channel(Capacity::at_least(QUEUE_MAX));
        let sleeps = (0..threads).map(|_| AtomicBool::new(false)).collect();
        let shared = Arc::new(Shared { sleeps, is_closed: AtomicBool::new(false) });
        let start = |number: usize| {
            let (shared, consumer) = (shared.clone(), consumer.clone());
            std::thread::spawn(move || serve(&shared, number, consumer))
        };
        let threads = (0..threads).map(start).collect();
        Ring { producer: Some(producer), shared, threads }
    }

    fn wake_one(&self) {
        // Orders the push before the check for sleepers, as a thread that is about to sleep orders its
        // announcement before its second check.
        fence(Ordering::SeqCst);
        for (sleeps, thread) in self.shared.sleeps.iter().zip(&self.threads) {
            if sleeps.load(Ordering::Relaxed) && sleeps.swap(false, Ordering::AcqRel) {
                Thread::unpark(thread.thread());
                return;
            }
        }
    }
}

fn serve(shared: &Shared, number: usize, mut consumer: spmc::Consumer<Job>) {
    let sleeps = &shared.sleeps[number];
    loop {
        if let Some(job) = consumer.pop() {
            job();
            continue;
        }
        sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if consumer.is_empty() && !shared.is_closed.load(Ordering::Relaxed) {
            std::thread::park();
        }
        sleeps.store(false, Ordering::Relaxed);
        if shared.is_closed.load(Ordering::Relaxed) && consumer.is_empty() {
            return;
        }
    }
}

impl Threads for Ring {
    fn submit(&mut self, home: &Sender<Finished<u64>>, token: Token, length: Duration) {
        let home = home.clone();
        let job: Job = Box::new(move || {
            let outcome = JobOutcome::Done(work(length));
            home.send(Finished { token, outcome });
        });
        let pushed = self.producer.as_mut().map(|producer| producer.push(job));
        assert!(matches!(pushed, Some(Ok(()))), "the ring has room");
        self.wake_one();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.producer = None;
        self.shared.is_closed.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            assert!(thread.join().is_ok(), "no job panics");
        }
    }
}

/// The state of the main thread.
struct Home {
    lp: AnyLoop,
    sender: Sender<Finished<u64>>,
    mailbox: Mailbox<Finished<u64>>,
}

impl Home {
    fn open() -> Home {
        let lp = AnyLoop::choose(Backend::Epoll, &Config::default()).expect("a loop opens").event_loop;
        let (sender, mailbox) = Mailbox::new(lp.waker());
        Home { lp, sender, mailbox }
    }

    /// Runs bursts one after the other; returns nanoseconds of the main thread's processor time per job,
    /// and nanoseconds per burst.
    fn round(&mut self, threads: &mut dyn Threads, load: &Load) -> [f64; 2] {
        let (cpu, began) = (thread_ns(), Instant::now());
        for _ in 0..load.bursts {
            for number in 0..load.burst {
                threads.submit(&self.sender, Token(number as u64), load.length);
            }
            let mut left = load.burst;
            while left > 0 {
                let _ = self.lp.wait(now_ns(), Deadline::NEVER).expect("wait");
                left -= self.mailbox.drain().count();
            }
        }
        let jobs = (load.bursts * load.burst) as f64;
        [(thread_ns() - cpu) as f64 / jobs, began.elapsed().as_nanos() as f64 / load.bursts as f64]
    }
}

/// The parameters of a round.
struct Load {
    threads: usize,
    burst: usize,
    length: Duration,
    bursts: usize,
}

fn main() {
    let Some(arguments) = Arguments::of_bench() else { return };
    let (rounds, bursts) = (arguments.number("rounds=", 21), arguments.number("bursts=", 200));
    println!(
        "{:>7} {:>6} {:>7} | {:>9} {:>9} {:>20} | {:>9} {:>9} {:>20}",
        "threads",
        "burst",
        "job us",
        "pool cpu",
        "ring cpu",
        "ring / pool",
        "pool us",
        "ring us",
        "ring / pool"
    );
    for threads in [1, 2] {
        for burst in [1, 2, 16] {
            for us in [0, 100, 500] {
                let length = Duration::from_micros(us);
                // Rounds of long jobs have fewer bursts, which suffice for the same precision.
                let bursts = if us > 0 { bursts / 4 } else { bursts };
                measure(rounds, &Load { threads, burst, length, bursts });
            }
        }
    }
}

fn measure(rounds: usize, load: &Load) {
    let mut home = Home::open();
    let mut pool = WorkerPool::open(load.threads, QUEUE_MAX).expect("threads");
    let mut ring = Ring::open(load.threads);
    let mut times: Vec<[[f64; 2]; 2]> = Vec::new();
    for round in 0..rounds + 2 {
        let mut pair = [[0.0; 2]; 2];
        for turn in 0..2 {
            let which = (turn + round) % 2;
            pair[which] = home.round(if which == 0 { &mut pool } else { &mut ring }, load);
        }
        // The first two rounds only warm up and do not count.
        if round >= 2 {
            times.push(pair);
        }
    }
    let of = |which: usize, what: usize| times.iter().map(|pair| pair[which][what]).collect::<Vec<_>>();
    let ratio = |what: usize| times.iter().map(|pair| pair[1][what] / pair[0][what]).collect::<Vec<_>>();
    let shown = |what: usize, unit: f64| {
        let ratio = |share| quantile(&ratio(what), share);
        format!(
            "{:9.2} {:9.2} {:5.2} ({:5.2} - {:5.2})",
            quantile(&of(0, what), 0.5) / unit,
            quantile(&of(1, what), 0.5) / unit,
            ratio(0.5),
            ratio(0.05),
            ratio(0.95)
        )
    };
    let Load { threads, burst, length, .. } = load;
    println!(
        "{threads:>7} {burst:>6} {:>7} | {} | {}",
        length.as_micros(),
        shown(0, 1000.0),
        shown(1, 1000.0)
    );
}

fn thread_ns() -> u64 {
    ns_of(ClockId::ThreadCPUTime)
}

fn now_ns() -> u64 {
    ns_of(ClockId::Monotonic)
}

fn ns_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
