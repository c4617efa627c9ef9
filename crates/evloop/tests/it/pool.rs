//! Tests of the worker pool, named by the ids of their requirements in `CONFORMANCE.md`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use sluice_evloop::{
    AnyLoop, Cancel, Finished, JobOutcome, JobState, Mailbox, PoolRefusal, PoolStatistics, Sender, Token,
    WorkerPool,
};

use crate::common::{now_ns, on_each, soon};

/// Waits for the results of `count` jobs, and returns them in the order of their arrival.
fn ends<T>(lp: &mut AnyLoop, mailbox: &mut Mailbox<Finished<T>>, count: usize) -> Vec<Finished<T>> {
    let mut ends = Vec::new();
    let until = soon();
    while ends.len() < count {
        assert!(now_ns() < u64::from(until), "an end comes");
        let iteration = lp.wait(now_ns(), until).expect("wait");
        if iteration.woken {
            ends.extend(mailbox.drain());
        }
    }
    ends
}

fn home<T>(lp: &AnyLoop) -> (Sender<Finished<T>>, Mailbox<Finished<T>>) {
    Mailbox::new(lp.waker())
}

/// Submits a job that occupies a worker until the returned sender is dropped; returns once the job has begun.
fn occupy(pool: &WorkerPool, home: &Sender<Finished<u32>>) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    let (began, beginning) = mpsc::channel();
    pool.submit(home, Token(0), move |_| {
        began.send(()).expect("the test waits");
        let _ = held.recv();
        0
    })
    .expect("room");
    beginning.recv().expect("it begins");
    release
}

#[test]
fn ev_wp1_a_pool_counts_and_closes_twice() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(2, 8).expect("opens");
        let expected = PoolStatistics { workers: 2, ..PoolStatistics::default() };
        assert_eq!(pool.statistics(), expected);
        let (sender, mut mailbox) = home::<u32>(&lp);
        pool.submit(&sender, Token(7), |_| 42).expect("room");
        let end = ends(&mut lp, &mut mailbox, 1).remove(0);
        assert_eq!(end.token, Token(7));
        assert!(matches!(end.outcome, JobOutcome::Done(42)));
        pool.close();
        pool.close();
        let expected = PoolStatistics { calls: 1, completed: 1, closed: true, ..expected };
        assert_eq!(pool.statistics(), expected);
        let refused = pool.submit(&sender, Token(8), |_| 1).expect_err("closed");
        assert_eq!(refused.why, PoolRefusal::Closed);
    });
}

#[test]
fn no_threads_or_no_queue_are_refused() {
    for (workers, queue) in [(0, 8), (2, 0), (100_000, 8)] {
        assert_eq!(WorkerPool::open(workers, queue).expect_err("EINVAL").raw_os_error(), Some(libc::EINVAL));
    }
}

#[test]
fn ev_wp2_a_large_copy_is_made_elsewhere_and_counted() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(1, 8).expect("opens");
        let (sender, mut mailbox) = home(&lp);
        let from: Arc<[u8]> = (0..2 << 20).map(|i| i as u8).collect::<Vec<_>>().into();
        let source = from.clone();
        let here = std::thread::current().id();
        pool.submit(&sender, Token(0), move |_| (std::thread::current().id(), source.to_vec()))
            .expect("room");
        let JobOutcome::Done((thread, copy)) = ends(&mut lp, &mut mailbox, 1).remove(0).outcome else {
            panic!("done")
        };
        assert_ne!(thread, here);
        assert_eq!(copy[..], from[..]);
        assert_eq!(pool.statistics().calls, 1);
    });
}

#[test]
fn ev_wp3_jobs_of_two_lengths_both_end() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(2, 8).expect("opens");
        let (sender, mut mailbox) = home(&lp);
        let release = occupy(&pool, &sender);
        pool.submit(&sender, Token(1), |_| 1).expect("room");
        let short = ends(&mut lp, &mut mailbox, 1).remove(0);
        assert_eq!(short.token, Token(1), "the long one holds nobody up");
        drop(release);
        assert_eq!(ends(&mut lp, &mut mailbox, 1)[0].token, Token(0));
    });
}

/// A value that a job captures. The counter has the number of such values that were dropped.
struct Owned(Arc<AtomicU64>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn ev_wp4_what_jobs_own_lives_until_their_end_and_no_longer() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(1, 64).expect("opens");
        let (sender, mut mailbox) = home(&lp);
        let drops = Arc::new(AtomicU64::new(0));
        let release = occupy(&pool, &sender);
        for number in 1..=20 {
            let owned = Owned(drops.clone());
            let job = move |_: &Cancel| {
                drop(owned);
                0
            };
            pool.submit(&sender, Token(number), job).expect("room");
        }
        assert_eq!(drops.load(Ordering::SeqCst), 0, "they wait");
        drop(release);
        ends(&mut lp, &mut mailbox, 21);
        assert_eq!(drops.load(Ordering::SeqCst), 20);
    });
}

#[test]
fn ev_wp5_a_full_queue_gives_the_job_back() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(1, 2).expect("opens");
        let (sender, mut mailbox) = home(&lp);
        let release = occupy(&pool, &sender);
        for number in 1..=2 {
            pool.submit(&sender, Token(number), move |_| number as u32).expect("room");
        }
        assert_eq!(pool.statistics().queued, 2);
        let payload = Box::new([1_u8, 2, 3]);
        let refused = pool.submit(&sender, Token(3), move |_| payload.len() as u32).expect_err("full");
        assert_eq!(refused.why, PoolRefusal::Full);
        drop(release);
        ends(&mut lp, &mut mailbox, 3);
        pool.submit(&sender, Token(3), refused.job).expect("room now");
        assert!(matches!(ends(&mut lp, &mut mailbox, 1)[0].outcome, JobOutcome::Done(3)));
    });
}

#[test]
fn ev_wp6_a_running_job_may_heed_its_cancellation_and_ends_once() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(1, 8).expect("opens");
        let (sender, mut mailbox) = home(&lp);
        let (began, beginning) = mpsc::channel();
        let handle = pool
            .submit(&sender, Token(5), move |cancel| {
                began.send(()).expect("the test waits");
                while !cancel.is_requested() {
                    std::thread::yield_now();
                }
                9
            })
            .expect("room");
        beginning.recv().expect("it begins");
        assert_eq!(handle.state(), JobState::Running);
        assert!(handle.cancel());
        assert!(!handle.cancel(), "asked already");
        let end = ends(&mut lp, &mut mailbox, 1).remove(0);
        assert!(matches!(end.outcome, JobOutcome::Done(9)), "{end:?}");
        assert_eq!(handle.state(), JobState::Done);
        assert!(!handle.cancel());
        pool.close();
        assert_eq!(mailbox.drain().count(), 0);
        let PoolStatistics { calls, completed, cancelled, .. } = pool.statistics();
        assert_eq!((calls, completed, cancelled), (1, 1, 1));
    });
}

#[test]
fn ev_wp7_a_job_cancelled_before_its_start_never_runs() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(1, 1).expect("opens");
        let (sender, mut mailbox) = home(&lp);
        let release = occupy(&pool, &sender);
        let ran = Arc::new(AtomicBool::new(false));
        let flag = ran.clone();
        let handle = pool
            .submit(&sender, Token(1), move |_| {
                flag.store(true, Ordering::SeqCst);
                1
            })
            .expect("room");
        assert_eq!(handle.state(), JobState::Queued);
        assert!(handle.cancel());
        let end = ends(&mut lp, &mut mailbox, 1).remove(0);
        assert!(matches!(end, Finished { token: Token(1), outcome: JobOutcome::Cancelled }), "{end:?}");
        pool.submit(&sender, Token(2), |_| 2).expect("its slot is free at once");
        drop(release);
        ends(&mut lp, &mut mailbox, 2);
        pool.close();
        assert!(!ran.load(Ordering::SeqCst));
        assert_eq!(pool.statistics().cancelled, 1);
    });
}

#[test]
fn a_job_that_panics_ends_with_its_message_and_leaves_the_worker_alive() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(1, 8).expect("opens");
        let (sender, mut mailbox) = home::<u32>(&lp);
        pool.submit(&sender, Token(1), |_| std::panic::resume_unwind(Box::new("as planned"))).expect("room");
        pool.submit(&sender, Token(2), |_| 2).expect("room");
        let ends = ends(&mut lp, &mut mailbox, 2);
        assert!(matches!(&ends[0].outcome, JobOutcome::Panicked(text) if text == "as planned"), "{ends:?}");
        assert!(matches!(ends[1].outcome, JobOutcome::Done(2)));
    });
}

#[test]
fn closing_lets_the_queue_run_empty() {
    on_each(|lp| {
        let pool = WorkerPool::open(2, 64).expect("opens");
        let (sender, mut mailbox) = home(&lp);
        for number in 0..50 {
            pool.submit(&sender, Token(number), move |_| number).expect("room");
        }
        drop(pool);
        assert_eq!(mailbox.drain().count(), 50);
    });
}

/// Cancellations race with workers: each job must end once, and its memory must be freed once.
#[test]
fn races_of_cancelling_and_working_end_each_job_once() {
    on_each(|mut lp| {
        let pool = WorkerPool::open(2, 4096).expect("opens");
        let (sender, mut mailbox) = home(&lp);
        let drops = Arc::new(AtomicU64::new(0));
        let handles: Vec<_> = (0..300)
            .map(|number| {
                let owned = Owned(drops.clone());
                pool.submit(&sender, Token(number), move |_| {
                    let _owned = owned;
                    number
                })
                .expect("room")
            })
            .collect();
        handles.iter().rev().step_by(2).for_each(|handle| {
            handle.cancel();
        });
        let mut tokens: Vec<u64> = ends(&mut lp, &mut mailbox, 300).iter().map(|end| end.token.0).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..300).collect::<Vec<_>>());
        pool.close();
        assert_eq!(mailbox.drain().count(), 0);
        assert_eq!(drops.load(Ordering::SeqCst), 300);
        let PoolStatistics { calls, completed, cancelled, .. } = pool.statistics();
        assert_eq!(calls, 300);
        assert!(completed + cancelled >= 300);
    });
}
