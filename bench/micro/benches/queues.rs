//! Nanoseconds per job of our queues, compared with crossbeam's `ArrayQueue` and a `Mutex<VecDeque>`, in each
//! role: `cargo bench -p sluice-micro --bench queues`.
//!
//! Contenders take turns, round by round, so that other work of the machine affects all of them. A round
//! moves a fixed number of jobs of one word from producers to consumers; a thread that finds the queue full
//! or empty yields. The bench prints the median over the rounds, the interval that contains nine tenths of
//! the rounds, and the share of rounds in which our queue was faster than the other contender. The number of
//! threads in a line is the number on the side that has several threads; lines with 1 in brackets run
//! everything in one thread.
//!
//! Words after `--` choose roles (`spsc`, `spmc`, `mpsc`); `rounds=N` and `jobs=N` change the defaults.

// A bench measures time.
#![allow(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crossbeam_queue::ArrayQueue;
use sluice_micro::{Arguments, quantile};
use sluice_queue::{Capacity, lanes, spmc, spsc};

/// The capacity of the server's queues.
const CAPACITY: usize = 4096;

/// Number of jobs passed together, where a contender supports this: as many as one iteration passes.
const BATCH: usize = 16;

/// One step of a contender's producer or consumer: its argument is the maximum number of jobs, its result
/// the number of jobs moved.
type Step<'a> = Box<dyn FnMut(usize) -> usize + Send + 'a>;

/// The two sides of a contender's queue, created for each round.
type Sides<'a> = (Vec<Step<'a>>, Vec<Step<'a>>);

/// One implementation for one role.
struct Contender {
    name: &'static str,
    /// Runs one round; returns nanoseconds per job.
    round: fn(&Load) -> f64,
}

/// The parameters of a round.
struct Load {
    producers: usize,
    consumers: usize,
    jobs: usize,
    /// Whether producer and consumer alternate in one thread.
    alone: bool,
}

fn main() {
    let Some(arguments) = Arguments::of_bench() else { return };
    let (rounds, jobs) = (arguments.number("rounds=", 41), arguments.number("jobs=", 200_000));
    let roles = ["spsc", "spmc", "mpsc"];
    let chosen = |role: &str| arguments.has(role) || !roles.iter().any(|role| arguments.has(role));
    println!(
        "{:24} {:22} {:>8} {:>18} {:>14}",
        "role", "contender", "ns/job", "90 % of rounds", "ours faster in"
    );
    for role in roles.into_iter().filter(|role| chosen(role)) {
        let many: &[usize] = if role == "spsc" { &[1] } else { &[1, 2, 4] };
        measure(role, &format!("{role} (1)"), rounds, &load(role, 1, jobs, true));
        for &threads in many {
            measure(role, &format!("{role} {threads}"), rounds, &load(role, threads, jobs, false));
        }
    }
}

fn load(role: &str, threads: usize, jobs: usize, alone: bool) -> Load {
    let (producers, consumers) = if role == "mpsc" { (threads, 1) } else { (1, threads) };
    Load { producers, consumers, jobs: jobs / producers * producers, alone }
}

/// The contenders for a role, ours first.
fn contenders(role: &str) -> &'static [Contender] {
    match role {
        "spsc" => &[
            Contender { name: "spsc", round: |load| run(load, ours_spsc()) },
            Contender { name: "spsc, one by one", round: |load| run(load, ours_spsc_single()) },
            Contender { name: "ArrayQueue", round: array_round },
            Contender { name: "Mutex<VecDeque>", round: mutex_round },
            Contender { name: "Mutex<VecDeque> batch", round: mutex_batch_round },
        ],
        "spmc" => &[
            Contender { name: "spmc", round: |load| run(load, ours_spmc(load, BATCH)) },
            Contender { name: "spmc, claims of 4", round: |load| run(load, ours_spmc(load, 4)) },
            Contender { name: "spmc, one by one", round: |load| run(load, ours_spmc(load, 1)) },
            Contender { name: "ArrayQueue", round: array_round },
            Contender { name: "Mutex<VecDeque>", round: mutex_round },
            Contender { name: "Mutex<VecDeque> batch", round: mutex_batch_round },
        ],
        _ => &[
            Contender { name: "lanes", round: |load| run(load, ours_lanes(load)) },
            Contender { name: "ArrayQueue", round: array_round },
            Contender { name: "Mutex<VecDeque>", round: mutex_round },
            Contender { name: "Mutex<VecDeque> batch", round: mutex_batch_round },
        ],
    }
}

/// Runs interleaved rounds of all contenders, and prints the lines of the table.
fn measure(role: &str, title: &str, rounds: usize, load: &Load) {
    let contenders = contenders(role);
    let mut times = vec![Vec::with_capacity(rounds); contenders.len()];
    for round in 0..rounds + 2 {
        for turn in 0..contenders.len() {
            let which = (turn + round) % contenders.len();
            let time = (contenders[which].round)(load);
            // The first two rounds only warm up and do not count.
            if round >= 2 {
                times[which].push(time);
            }
        }
    }
    for (contender, own) in contenders.iter().zip(&times) {
        let wins = times[0].iter().zip(own).filter(|(ours, other)| ours < other).count();
        let at = |share| quantile(own, share);
        let interval = format!("{:.1} .. {:.1}", at(0.05), at(0.95));
        let wins = if std::ptr::eq(own, &times[0]) { String::new() } else { format!("{wins}/{rounds}") };
        println!("{title:24} {:22} {:8.2} {interval:>18} {wins:>14}", contender.name, at(0.5));
    }
}

/// Moves the jobs from the producers to the consumers; returns nanoseconds per job.
fn run(load: &Load, (producers, consumers): Sides<'_>) -> f64 {
    if load.alone {
        return run_alone(load, producers, consumers);
    }
    let each = load.jobs / load.producers;
    let left = AtomicUsize::new(load.jobs);
    let ready = AtomicUsize::new(0);
    let threads = producers.len() + consumers.len();
    let produce = |mut step: Step<'_>| {
        let begun = start(&ready, threads);
        let mut sent = 0;
        while sent < each {
            match step(BATCH.min(each - sent)) {
                0 => thread::yield_now(),
                count => sent += count,
            }
        }
        (begun, Instant::now())
    };
    let consume = |mut step: Step<'_>| {
        let begun = start(&ready, threads);
        // The number of taken jobs is subtracted only when the queue is empty, so that counting is not
        // measured.
        let mut taken = 0;
        loop {
            match step(BATCH) {
                0 => {
                    left.fetch_sub(std::mem::take(&mut taken), Ordering::Relaxed);
                    if left.load(Ordering::Relaxed) == 0 {
                        return (begun, Instant::now());
                    }
                    thread::yield_now();
                }
                count => taken += count,
            }
        }
    };
    let times: Vec<_> = thread::scope(|scope| {
        let (produce, consume) = (&produce, &consume);
        let spawned: Vec<_> = (producers.into_iter().map(|step| scope.spawn(move || produce(step))))
            .chain(consumers.into_iter().map(|step| scope.spawn(move || consume(step))))
            .collect();
        spawned.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let begun = times.iter().map(|time| time.0).min().expect("a thread");
    let ended = times.iter().map(|time| time.1).max().expect("a thread");
    (ended - begun).as_nanos() as f64 / load.jobs as f64
}

/// Waits until all threads have started; returns the time.
fn start(ready: &AtomicUsize, threads: usize) -> Instant {
    ready.fetch_add(1, Ordering::AcqRel);
    while ready.load(Ordering::Acquire) < threads {
        thread::yield_now();
    }
    Instant::now()
}

fn run_alone(load: &Load, mut producers: Vec<Step<'_>>, mut consumers: Vec<Step<'_>>) -> f64 {
    let begun = Instant::now();
    let mut taken = 0;
    while taken < load.jobs {
        producers.iter_mut().for_each(|step| assert_ne!(step(BATCH), 0));
        taken += consumers.iter_mut().map(|step| step(BATCH)).sum::<usize>();
    }
    begun.elapsed().as_nanos() as f64 / load.jobs as f64
}

fn capacity() -> Capacity {
    Capacity::new(CAPACITY).expect("a power of two")
}

fn ours_spsc() -> Sides<'static> {
    let (mut producer, mut consumer) = spsc::channel::<usize>(capacity());
    let push = move |count| producer.push_batch(&mut (0..count));
    let pop = move |count| consumer.drain(count).map(black_box).count();
    (vec![Box::new(push)], vec![Box::new(pop)])
}

fn ours_spsc_single() -> Sides<'static> {
    let (mut producer, mut consumer) = spsc::channel::<usize>(capacity());
    let push = move |count| (0..count).take_while(|&job| producer.push(job).is_ok()).count();
    let pop = move |count: usize| (0..count).take_while(|_| consumer.pop().map(black_box).is_some()).count();
    (vec![Box::new(push)], vec![Box::new(pop)])
}

/// Claims `claim` jobs at once; if `claim` is 1, uses `pop`.
fn ours_spmc(load: &Load, claim: usize) -> Sides<'static> {
    let (mut producer, consumer) = spmc::channel::<usize>(capacity());
    let push = move |count| producer.push_batch(&mut (0..count));
    let several = |mut consumer: spmc::Consumer<usize>| {
        let mut batch = Vec::with_capacity(BATCH);
        let pop = move |_| {
            consumer.pop_batch(&mut batch, claim);
            batch.drain(..).map(black_box).count()
        };
        Box::new(pop) as Step<'_>
    };
    let one = |mut consumer: spmc::Consumer<usize>| {
        let pop =
            move |count: usize| (0..count).take_while(|_| consumer.pop().map(black_box).is_some()).count();
        Box::new(pop) as Step<'_>
    };
    let step = |_| if claim == 1 { one(consumer.clone()) } else { several(consumer.clone()) };
    (vec![Box::new(push)], (0..load.consumers).map(step).collect())
}

fn ours_lanes(load: &Load) -> Sides<'static> {
    let mut collector = lanes::collector::<usize>(load.producers);
    let step = |_| {
        let mut lane = collector.open(capacity()).expect("a lane");
        let push = move |count| {
            let sent = (0..count).take_while(|&job| lane.send(job).is_ok()).count();
            let _ = lane.publish();
            sent
        };
        Box::new(push) as Step<'_>
    };
    let producers = (0..load.producers).map(step).collect();
    let pop = move |count| collector.collect(count, &mut |job| _ = black_box(job));
    (producers, vec![Box::new(pop)])
}

fn array_round(load: &Load) -> f64 {
    let queue = ArrayQueue::new(CAPACITY);
    let push = |count| (0..count).take_while(|&job| queue.push(job).is_ok()).count();
    let pop = |count| (0..count).take_while(|_| queue.pop().map(black_box).is_some()).count();
    run(load, sides(load, push, pop))
}

/// Locks the mutex for each job.
fn mutex_round(load: &Load) -> f64 {
    let queue = Mutex::new(VecDeque::with_capacity(CAPACITY));
    let push = |count| (0..count).take_while(|&job| mutex_push(&queue, 1, job) == 1).count();
    let pop = |count| (0..count).take_while(|_| mutex_pop(&queue, 1) == 1).count();
    run(load, sides(load, push, pop))
}

/// Locks the mutex for each batch, as a careful user of a mutex would do.
fn mutex_batch_round(load: &Load) -> f64 {
    let queue = Mutex::new(VecDeque::with_capacity(CAPACITY));
    run(load, sides(load, |count| mutex_push(&queue, count, 0), |count| mutex_pop(&queue, count)))
}

fn mutex_push(queue: &Mutex<VecDeque<usize>>, count: usize, job: usize) -> usize {
    let mut queue = queue.lock().expect("nobody panics");
    let count = count.min(CAPACITY - queue.len());
    queue.extend((0..count).map(|nth| job + nth));
    count
}

fn mutex_pop(queue: &Mutex<VecDeque<usize>>, count: usize) -> usize {
    let mut queue = queue.lock().expect("nobody panics");
    let count = count.min(queue.len());
    queue.drain(..count).map(black_box).count()
}

/// Sides whose threads all perform the given steps.
fn sides<'a>(
    load: &Load,
    push: impl FnMut(usize) -> usize + Send + Copy + 'a,
    pop: impl FnMut(usize) -> usize + Send + Copy + 'a,
) -> Sides<'a> {
    let producers = (0..load.producers).map(|_| Box::new(push) as Step<'a>).collect();
    (producers, (0..load.consumers).map(|_| Box::new(pop) as Step<'a>).collect())
}
