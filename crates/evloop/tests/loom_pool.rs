//! Models of the end of a job: a worker starts and finishes the job while other threads cancel it, in every
//! interleaving. Built with `RUSTFLAGS="--cfg loom" cargo test -p sluice-evloop --release --test loom_pool`;
//! empty otherwise.
#![allow(unexpected_cfgs, dead_code, missing_docs)]
#![cfg(loom)]

#[path = "../src/pool/state.rs"]
mod state;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use state::{CancelEffect, JobProgress, JobState};

/// A pool with one job. As in the crate, the thread that takes the job out of the queue owns the job.
struct Model {
    progress: JobProgress,
    queue: Mutex<Option<()>>,
    runs: AtomicUsize,
    ends: AtomicUsize,
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model {
            progress: JobProgress::new(),
            queue: Mutex::new(Some(())),
            runs: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
        })
    }

    fn end(&self) {
        self.ends.fetch_add(1, Ordering::Relaxed);
    }

    fn worker(&self) {
        if self.queue.lock().unwrap().take().is_none() {
            return;
        }
        if self.progress.start() {
            self.runs.fetch_add(1, Ordering::Relaxed);
            self.progress.finish();
        }
        self.end();
    }

    fn canceller(&self, cancel: fn(&JobProgress) -> CancelEffect) -> CancelEffect {
        let met = cancel(&self.progress);
        if met == CancelEffect::Waiting && self.queue.lock().unwrap().take().is_some() {
            self.end();
        }
        met
    }
}

/// Runs a worker and `cancellers` threads that cancel the job, and checks that the job ends once.
fn run(cancellers: usize, cancel: fn(&JobProgress) -> CancelEffect) {
    let model = Model::new();
    let worker = {
        let model = model.clone();
        thread::spawn(move || model.worker())
    };
    let threads: Vec<_> = (1..cancellers)
        .map(|_| {
            let model = model.clone();
            thread::spawn(move || model.canceller(cancel))
        })
        .collect();
    let mut met = vec![model.canceller(cancel)];
    met.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    worker.join().unwrap();
    let runs = model.runs.load(Ordering::Relaxed);
    assert_eq!(model.ends.load(Ordering::Relaxed), 1, "one end");
    assert_eq!(model.progress.state(), JobState::Done);
    let waiting = met.iter().filter(|met| **met == CancelEffect::Waiting).count();
    assert_eq!(waiting + runs, 1, "it runs, or one cancellation came before");
    assert!(met.iter().filter(|met| **met != CancelEffect::Late).count() <= 1, "one request counts");
}

#[test]
fn a_job_ends_once_whoever_comes_first() {
    loom::model(|| run(1, JobProgress::cancel));
}

#[test]
fn two_cancellations_and_a_worker_agree() {
    loom::model(|| run(2, JobProgress::cancel));
}

#[test]
#[should_panic(expected = "it runs, or one cancellation came before")]
fn the_mutant_that_cancels_in_two_steps_runs_a_cancelled_job() {
    loom::model(|| run(1, JobProgress::cancel_in_two_steps));
}
