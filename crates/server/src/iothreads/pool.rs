//! The executing thread's end of the workers: their threads, the rings, and who has which connection.

use super::job::{Settings, ToMain, ToWorker};
use super::worker::{Published, Seat, Worker};
use sluice_evloop::{AnyLoop, Backend, Waker};
use sluice_queue::lanes::{Collector, collector};
use sluice_queue::{Capacity, Collect, spsc};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

/// The workers.
pub struct Pool {
    workers: Vec<Member>,
    collector: Option<Collector<ToMain>>,
    main: Waker,
    backend: Backend,
    /// How many of the workers take new connections.
    active: usize,
    ring: usize,
    settings: Option<Arc<Settings>>,
    /// Active time of workers that have ended, by number from 1, nanoseconds: it survives them.
    ended_active_ns: Vec<u64>,
}

/// A worker as the executing thread knows it.
struct Member {
    inbox: spsc::Producer<ToWorker>,
    /// Messages that the ring had no room for, oldest first.
    overflow: VecDeque<ToWorker>,
    waker: Waker,
    published: Arc<Published>,
    thread: Option<JoinHandle<()>>,
    /// Connections it has, those on their way there included.
    connections: usize,
    stopping: bool,
    touched: bool,
}

/// Messages a ring holds: a batch from every connection of a large server, once around. What does not fit waits at its
/// sender, so the size bounds memory of the ring only: 64 KiB a worker and direction.
const RING: usize = 4096;
/// Workers there can be: `io-threads` counts the executing thread.
const WORKERS_MAX: usize = 255;
/// Messages of one worker taken in a turn.
const COLLECT_MAX: usize = 256;

impl Pool {
    /// No workers yet; nothing is allocated for them. `main` wakes the executing thread. `ring` overrides the size of
    /// the rings, for tests; 0 is the usual size.
    pub fn new(main: Waker, backend: Backend, ring: usize) -> Pool {
        Pool {
            workers: Vec::new(),
            collector: None,
            main,
            backend,
            active: 0,
            ring: if ring == 0 { RING } else { ring },
            settings: None,
            ended_active_ns: Vec::new(),
        }
    }

    /// Threads that exist, those that are ending included.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Workers that take connections.
    #[inline]
    pub fn active(&self) -> usize {
        self.active
    }

    /// Whether there is anybody to talk to.
    #[inline]
    pub fn is_running(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Makes `count` threads exist, sleeping until they are given connections.
    /// Errors: a thread or its event loop could not be made; those before it run.
    pub fn spawn_up_to(&mut self, count: usize, settings: &Arc<Settings>) -> std::io::Result<()> {
        self.settings = Some(settings.clone());
        while self.workers.len() < count.min(WORKERS_MAX) {
            let member = self.spawn(self.workers.len(), settings.clone())?;
            self.workers.push(member);
        }
        Ok(())
    }

    fn spawn(&mut self, number: usize, settings: Arc<Settings>) -> std::io::Result<Member> {
        let capacity = Capacity::at_least(self.ring);
        let (inbox, consumer) = spsc::channel(capacity);
        let lanes = self.collector.get_or_insert_with(|| collector(WORKERS_MAX + 1));
        let lane = lanes.open(capacity).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let published = Arc::new(Published::default());
        let seat = Seat {
            number,
            inbox: consumer,
            lane,
            main: self.main.clone(),
            published: published.clone(),
            settings,
        };
        let backend = self.backend;
        let (ready, opened) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("io_thd_{}", number + 1)).spawn(move || {
            // The loop is opened by the thread that uses it: io_uring wants that.
            match AnyLoop::choose(backend, &sluice_evloop::Config::default()) {
                Ok(opened) => {
                    let _ = ready.send(Ok(opened.event_loop.waker()));
                    Worker::new(seat, opened.event_loop).run();
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        let waker = opened.recv().map_err(|_| std::io::ErrorKind::BrokenPipe)??;
        Ok(Member {
            inbox,
            overflow: VecDeque::new(),
            waker,
            published,
            thread: Some(thread),
            connections: 0,
            stopping: false,
            touched: false,
        })
    }

    /// Says how many workers take new connections from now on; those beyond give theirs back. One that has none more to give
    /// goes on sleeping.
    pub fn set_active(&mut self, active: usize) {
        let active = active.min(self.workers.len());
        for worker in active..self.active {
            self.tell(worker, ToWorker::Release(usize::MAX));
        }
        self.active = active;
    }

    /// Ends the threads from number `count` on: they give their connections back first, and say when they have.
    pub fn stop_above(&mut self, count: usize) {
        self.active = self.active.min(count);
        for worker in count..self.workers.len() {
            if !std::mem::replace(&mut self.workers[worker].stopping, true) {
                self.tell(worker, ToWorker::Stop);
            }
        }
    }

    /// A worker said that it has ended.
    pub fn stopped(&mut self, worker: usize) {
        let Some(member) = self.workers.get_mut(worker) else { return };
        if self.ended_active_ns.len() <= worker {
            self.ended_active_ns.resize(worker + 1, 0);
        }
        self.ended_active_ns[worker] += member.published.active_ns.swap(0, Relaxed);
        if let Some(thread) = member.thread.take() {
            // Its last message was its last act.
            let _ = thread.join();
        }
        while self.workers.last().is_some_and(|member| member.thread.is_none()) {
            self.workers.pop();
        }
        if self.workers.is_empty() {
            self.collector = None;
        }
    }

    /// The active worker with the fewest connections.
    pub fn least_loaded(&self) -> Option<usize> {
        (0..self.active).min_by_key(|worker| self.workers[*worker].connections)
    }

    /// Sends a message, at the end of the turn at the latest. Messages to one worker stay in order.
    pub fn tell(&mut self, worker: usize, message: ToWorker) {
        let Some(member) = self.workers.get_mut(worker) else { return };
        if matches!(message, ToWorker::Adopt(_)) {
            member.connections += 1;
        }
        member.touched = true;
        if !member.overflow.is_empty() {
            member.overflow.push_back(message);
        } else if let Err(full) = member.inbox.stage(message) {
            member.overflow.push_back(full.0);
        }
    }

    /// Counts a connection that a worker no longer has.
    pub fn left(&mut self, worker: usize) {
        if let Some(member) = self.workers.get_mut(worker) {
            member.connections = member.connections.saturating_sub(1);
        }
    }

    /// Takes what the workers have shown: `(worker, message)`.
    pub fn collect(&mut self, into: &mut Vec<ToMain>) {
        if let Some(collector) = &mut self.collector {
            collector.collect(COLLECT_MAX, &mut |message| into.push(message));
        }
    }

    /// Whether there is something to take.
    pub fn has_messages(&self) -> bool {
        self.collector.as_ref().is_some_and(|collector| !collector.is_quiet())
    }

    /// Whether a worker's ring was full: the executing thread must come back soon.
    pub fn is_behind(&self) -> bool {
        self.workers.iter().any(|member| !member.overflow.is_empty())
    }

    /// Shows every worker what was gathered for it in this turn, and wakes those that sleep.
    pub fn show(&mut self) {
        for member in &mut self.workers {
            if !member.touched && member.overflow.is_empty() {
                continue;
            }
            while let Some(message) = member.overflow.pop_front() {
                if let Err(full) = member.inbox.stage(message) {
                    member.overflow.push_front(full.0);
                    break;
                }
            }
            member.inbox.commit();
            member.touched = false;
            member.waker.wake();
        }
    }

    /// Tells everybody about other limits.
    pub fn publish(&mut self, settings: &Arc<Settings>) {
        self.settings = Some(settings.clone());
        for worker in 0..self.workers.len() {
            self.tell(worker, ToWorker::Settings(settings.clone()));
        }
    }

    /// Times that workers slept until they were woken, since they started.
    pub fn parks(&self) -> u64 {
        self.workers.iter().map(|member| member.published.parks.load(Relaxed)).sum()
    }

    /// Active time of each worker that is configured or has ended, nanoseconds.
    pub fn active_ns(&self) -> Vec<u64> {
        let count = self.workers.len().max(self.ended_active_ns.len());
        (0..count)
            .map(|i| {
                let live = self.workers.get(i).map_or(0, |m| m.published.active_ns.load(Relaxed));
                live + self.ended_active_ns.get(i).copied().unwrap_or(0)
            })
            .collect()
    }
}
