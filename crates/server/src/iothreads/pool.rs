//! The executing thread's end of the workers: their threads, the rings, and who has which connection.

use super::balance::Share;
use super::job::{Settings, ToMain, ToWorker};
use super::worker::{Published, Seat, Worker};
use sluice_evloop::{AnyLoop, Backend, Waker};
use sluice_queue::lanes::{Collector, collector};
use sluice_queue::{Capacity, spsc};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The workers. A worker sits on a seat, which names it from its start to its last message; the roster says which seats
/// are in use, in what order. A worker that was told to stop leaves the roster at once and its seat when it has ended, so
/// it is never given a connection again, however long its last one keeps it.
pub struct Pool {
    /// By seat.
    members: Vec<Option<Member>>,
    /// Seats of the workers that are to stay.
    roster: Vec<usize>,
    /// How many of the roster take connections, from its beginning.
    active: usize,
    collector: Option<Collector<ToMain>>,
    main: Waker,
    backend: Backend,
    ring: usize,
    settings: Option<Arc<Settings>>,
    /// Active time of workers that have ended, by number, nanoseconds: it survives them.
    ended_active_ns: Vec<u64>,
    /// What workers that have ended had published.
    ended: Counts,
    /// Messages to workers that found a full ring.
    full: u64,
    /// Mean busy share for each connection of active workers at the last sample.
    mean_busy: f64,
}

/// What all workers did together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Times they slept until they were woken.
    pub parks: u64,
    /// Waits of their loops that found something.
    pub polls: u64,
    /// Messages of theirs that found a full ring.
    pub full: u64,
}

impl Counts {
    fn add(&mut self, published: &Published) {
        self.parks += published.parks.load(Relaxed);
        self.polls += published.polls.load(Relaxed);
        self.full += published.full.load(Relaxed);
    }
}

/// A worker as the executing thread knows it.
struct Member {
    /// Its number in names and in INFO, from 0: the lowest that was free.
    number: usize,
    inbox: spsc::Producer<ToWorker>,
    /// Messages that the ring had no room for, oldest first. Bounded by what there is to say: a reply for each connection,
    /// and pushes, whose bytes count against the output limits.
    overflow: VecDeque<ToWorker>,
    waker: Waker,
    published: Arc<Published>,
    /// Connections it has, those on their way there included.
    connections: usize,
    /// Its active time at the last sample, nanoseconds.
    sampled_ns: u64,
    /// Share of the time between the last two samples in which it had work.
    busy: f64,
    touched: bool,
}

/// Messages a ring holds: a batch from every connection of a large server, once around. What does not fit waits at its
/// sender, so the size bounds memory of the rings only: 64 KiB to a worker and 128 KiB from it.
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
            members: Vec::new(),
            roster: Vec::new(),
            active: 0,
            collector: None,
            main,
            backend,
            ring: if ring == 0 { RING } else { ring },
            settings: None,
            ended_active_ns: Vec::new(),
            ended: Counts::default(),
            full: 0,
            mean_busy: 0.0,
        }
    }

    /// Workers that are to stay.
    pub fn threads(&self) -> usize {
        self.roster.len()
    }

    /// Workers that take connections.
    #[inline]
    pub fn active(&self) -> usize {
        self.active
    }

    /// Whether the worker on this seat takes connections.
    pub fn is_active(&self, seat: usize) -> bool {
        self.roster[..self.active].contains(&seat)
    }

    /// Whether there is anybody to talk to, workers that are ending included.
    #[inline]
    pub fn is_running(&self) -> bool {
        !self.members.is_empty()
    }

    /// Makes `count` threads exist, sleeping until they are given connections.
    /// Errors: a thread or its event loop could not be made; those before it run.
    pub fn spawn_up_to(&mut self, count: usize, settings: &Arc<Settings>) -> std::io::Result<()> {
        self.settings = Some(settings.clone());
        while self.roster.len() < count.min(WORKERS_MAX) {
            let seat = self.members.iter().position(Option::is_none).unwrap_or(self.members.len());
            let member = match self.spawn(seat, settings.clone()) {
                Ok(member) => member,
                Err(error) => {
                    if self.members.is_empty() {
                        // The lane that was opened for it rang when it was dropped, and nobody listens.
                        self.collector = None;
                    }
                    return Err(error);
                }
            };
            if seat == self.members.len() {
                self.members.push(None);
            }
            self.members[seat] = Some(member);
            self.roster.push(seat);
        }
        Ok(())
    }

    fn spawn(&mut self, seat: usize, settings: Arc<Settings>) -> std::io::Result<Member> {
        let taken =
            |n: usize| self.roster.iter().any(|s| self.members[*s].as_ref().is_some_and(|m| m.number == n));
        let number = (0..).find(|n| !taken(*n)).unwrap_or(0);
        let capacity = Capacity::at_least(self.ring);
        let (inbox, consumer) = spsc::channel(capacity);
        let lanes = self.collector.get_or_insert_with(|| collector(WORKERS_MAX + 1));
        let lane = lanes.open(capacity).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let published = Arc::new(Published::default());
        let seat = Seat {
            seat,
            inbox: consumer,
            lane,
            main: self.main.clone(),
            published: published.clone(),
            settings,
        };
        let backend = self.backend;
        let (ready, opened) = std::sync::mpsc::channel();
        // Nobody joins it: its last message says that it holds nothing any more.
        std::thread::Builder::new().name(format!("io_thd_{}", number + 1)).spawn(move || {
            let _stack = crate::crash::SignalStack::install();
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
        let overflow = VecDeque::new();
        Ok(Member {
            number,
            inbox,
            overflow,
            waker,
            published,
            connections: 0,
            sampled_ns: 0,
            busy: 0.0,
            touched: false,
        })
    }

    /// Says how many workers take connections from now on. Those of the others are for the caller to release.
    pub fn set_active(&mut self, active: usize) {
        self.active = active.min(self.roster.len());
    }

    /// Lets the threads end that are beyond `count`, as soon as they have no connection. Returns whether there are any.
    pub fn stop_above(&mut self, count: usize) -> bool {
        self.active = self.active.min(count);
        let leaving = self.roster.split_off(count.min(self.roster.len()));
        for seat in &leaving {
            self.tell(*seat, ToWorker::Stop);
        }
        !leaving.is_empty()
    }

    /// Lets all threads end: they send what waits and close their connections.
    pub fn finish(&mut self) {
        self.roster.clear();
        self.active = 0;
        for seat in 0..self.members.len() {
            self.tell(seat, ToWorker::Finish);
        }
    }

    /// A worker said that it has ended. Returns whether it had not been told to.
    pub fn stopped(&mut self, seat: usize) -> bool {
        let Some(member) = self.members.get_mut(seat).and_then(Option::take) else { return false };
        if self.ended_active_ns.len() <= member.number {
            self.ended_active_ns.resize(member.number + 1, 0);
        }
        self.ended_active_ns[member.number] += member.published.active_ns.load(Relaxed);
        self.ended.add(&member.published);
        let place = self.roster.iter().position(|s| *s == seat);
        if let Some(place) = place {
            self.roster.remove(place);
            self.active -= usize::from(place < self.active);
        }
        if self.members.iter().all(Option::is_none) {
            self.members.clear();
            self.collector = None;
        }
        place.is_some()
    }

    /// The active worker with the least to do, by eighths of its time; among equals, the one with the fewest connections.
    pub fn least_loaded(&self) -> Option<usize> {
        let load = |seat: &usize| match self.members.get(*seat).and_then(Option::as_ref) {
            Some(member) => ((member.busy * 8.0) as u32, member.connections),
            None => (u32::MAX, usize::MAX),
        };
        self.roster[..self.active].iter().copied().min_by_key(load)
    }

    /// Learns how busy each active worker was in the last `wall_ns` nanoseconds.
    pub fn sample(&mut self, wall_ns: u64) -> Vec<Share> {
        let mut shares = Vec::with_capacity(self.active);
        for seat in &self.roster[..self.active] {
            let Some(member) = self.members[*seat].as_mut() else { continue };
            let active_ns = member.published.active_ns.load(Relaxed);
            let worked = active_ns.saturating_sub(std::mem::replace(&mut member.sampled_ns, active_ns));
            member.busy = (worked as f64 / wall_ns.max(1) as f64).min(1.0);
            shares.push(Share { seat: *seat, busy: member.busy, connections: member.connections });
        }
        let connections = shares.iter().map(|share| share.connections).sum::<usize>().max(1);
        self.mean_busy = shares.iter().map(|share| share.busy).sum::<f64>() / connections as f64;
        shares
    }

    /// Connections of the worker on this seat beyond its share, when the active ones shared them evenly.
    pub fn surplus(&self, seat: usize) -> usize {
        let all = self.all_connections();
        self.connections(seat).saturating_sub(all.div_ceil(self.active.max(1)))
    }

    /// Connections of all workers, those on their way there included.
    pub fn all_connections(&self) -> usize {
        self.members.iter().flatten().map(|member| member.connections).sum()
    }

    fn connections(&self, seat: usize) -> usize {
        self.members.get(seat).and_then(Option::as_ref).map_or(0, |member| member.connections)
    }

    /// Sends a message, at the end of the turn at the latest. Messages to one worker stay in order.
    pub fn tell(&mut self, seat: usize, message: ToWorker) {
        let mean = self.mean_busy;
        let Some(member) = self.members.get_mut(seat).and_then(Option::as_mut) else { return };
        if matches!(message, ToWorker::Adopt(_)) {
            member.connections += 1;
            // On the guess that it is like the others, there or anywhere: many that come together are spread.
            member.busy += (member.busy / member.connections as f64).max(mean);
        }
        member.touched = true;
        if !member.overflow.is_empty() {
            member.overflow.push_back(message);
        } else if let Err(full) = member.inbox.stage(message) {
            self.full += 1;
            member.overflow.push_back(full.0);
        }
    }

    /// Counts a connection that a worker no longer has.
    pub fn left(&mut self, seat: usize) {
        if let Some(member) = self.members.get_mut(seat).and_then(Option::as_mut) {
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
        self.members.iter().flatten().any(|member| !member.overflow.is_empty())
    }

    /// Shows every worker what was gathered for it in this turn, and wakes those that sleep.
    pub fn show(&mut self) {
        for member in self.members.iter_mut().flatten() {
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
        for seat in 0..self.members.len() {
            self.tell(seat, ToWorker::Settings(settings.clone()));
        }
    }

    /// What workers did so far, those that have ended included.
    pub fn counts(&self) -> Counts {
        let mut all = self.ended;
        self.members.iter().flatten().for_each(|member| all.add(&member.published));
        all
    }

    /// Messages to workers that found a full ring.
    pub fn full(&self) -> u64 {
        self.full
    }

    /// Active time by the workers' numbers, nanoseconds; workers that have ended included.
    pub fn active_ns(&self) -> Vec<u64> {
        let mut all = self.ended_active_ns.clone();
        for member in self.members.iter().flatten() {
            if all.len() <= member.number {
                all.resize(member.number + 1, 0);
            }
            all[member.number] += member.published.active_ns.load(Relaxed);
        }
        all
    }
}
