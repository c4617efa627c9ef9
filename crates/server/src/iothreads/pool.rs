//! The main thread's side of the I/O threads: their threads, their rings, and how many connections each has.

use super::IoThreadId;
use super::balance::Share;
use super::message::{Settings, ToIoThread, ToMain};
use super::thread::{Channels, IoThread, Published};
use crate::threads::Thread;
use sluice_base::heap;
use sluice_daemon::usage::ThreadClock;
use sluice_evloop::{AnyLoop, Backend, Waker};
use sluice_queue::lanes::{Collector, collector};
use sluice_queue::{Capacity, spsc};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The I/O threads. An id names an I/O thread from its start to its last message. A thread that was
/// ordered to stop is removed from `staying` at once, and keeps its id until it has ended. It never gets
/// a connection again, however long its last connection stays.
pub struct Pool {
    /// The running threads, indexed by id.
    threads: Vec<Option<ThreadHandle>>,
    /// I/O threads that were not ordered to stop.
    staying: Vec<IoThreadId>,
    /// The number of threads at the front of `staying` that take connections.
    active: usize,
    collector: Option<Collector<ToMain>>,
    main: Waker,
    backend: Backend,
    ring: usize,
    settings: Option<Arc<Settings>>,
    /// Active time of I/O threads that have ended, by thread number, ns.
    ended_active_ns: Vec<u64>,
    /// The sums of the published counters of I/O threads that have ended.
    ended: IoThreadCounts,
    /// How often a message found the ring to its I/O thread full. Messages that are then queued after
    /// this message are not counted.
    full: u64,
    /// Mean busy share per connection of the active I/O threads at the last sample.
    mean_busy: f64,
    /// Time for which I/O threads spun between the last two samples, as a multiple of the time between these
    /// samples.
    spun: f64,
}

/// Counters summed over all I/O threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct IoThreadCounts {
    /// How often I/O threads slept in their event loops.
    pub parks: u64,
    /// Number of waits of their event loops that found an event.
    pub polls: u64,
    /// How often an I/O thread found its ring to the main thread full. Messages that are then queued
    /// after the first message are not counted.
    pub full: u64,
}

impl IoThreadCounts {
    fn add(&mut self, published: &Published) {
        self.parks += published.parks.load(Relaxed);
        self.polls += published.polls.load(Relaxed);
        self.full += published.full.load(Relaxed);
    }
}

/// How long a thread has worked so far, by two measures.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkTime {
    /// Nanoseconds in iterations of the event loop that had work, including waits for a processor.
    pub active_ns: u64,
    /// Processor time, ns, without spinning. Includes the kernel's work within a wait, which on io_uring
    /// is all receiving and sending.
    pub spent_ns: u64,
}

impl WorkTime {
    /// The busy share of the thread, 0 to 1, in the `wall_ns` nanoseconds since `before`: the larger of
    /// the two measures.
    pub fn busy_since(self, before: WorkTime, wall_ns: u64) -> f64 {
        let active_ns = self.active_ns.saturating_sub(before.active_ns);
        let spent_ns = self.spent_ns.saturating_sub(before.spent_ns);
        (active_ns.max(spent_ns) as f64 / wall_ns.max(1) as f64).min(1.0)
    }
}

/// An I/O thread as the main thread knows it.
struct ThreadHandle {
    /// The thread's number, counted from 0 (but from 1 in its name). It is the lowest number that no thread
    /// in `staying` had.
    number: usize,
    inbox: spsc::Producer<ToIoThread>,
    /// Messages for which the ring had no room, oldest first. Their number is bounded by the number of
    /// connections, each of which has at most one batch, and by the output limits, against which the bytes of
    /// pushes count.
    overflow: VecDeque<ToIoThread>,
    waker: Waker,
    published: Arc<Published>,
    /// Number of connections of the thread, including connections that are being sent to it.
    connections: usize,
    /// The clock of the thread's processor time.
    clock: ThreadClock,
    /// The thread's work time at the last sample.
    sampled: WorkTime,
    /// Nanoseconds that the thread had spun at the last sample.
    sampled_spun_ns: u64,
    /// Busy share between the last two samples, as [`WorkTime::busy_since`] computes it.
    busy: f64,
    unflushed: bool,
}

/// Number of messages in a ring. This is enough for one batch from every connection of a large server.
/// Further messages wait at their sender, so the size only bounds the memory of the rings: 64 KiB for the
/// ring to an I/O thread and 128 KiB for the ring from it.
const RING: usize = 4096;
/// Maximum number of I/O threads. The directive `io-threads` also counts the main thread.
const WORKERS_MAX: usize = 255;
/// Maximum number of messages that an iteration takes from one I/O thread.
const COLLECT_MAX: usize = 256;

impl Pool {
    /// A pool without I/O threads, for which nothing is allocated. `main` wakes the main thread.
    /// `ring` overrides the size of the rings, for tests; 0 means the usual size.
    pub fn new(main: Waker, backend: Backend, ring: usize) -> Pool {
        Pool {
            threads: Vec::new(),
            staying: Vec::new(),
            active: 0,
            collector: None,
            main,
            backend,
            ring: if ring == 0 { RING } else { ring },
            settings: None,
            ended_active_ns: Vec::new(),
            ended: IoThreadCounts::default(),
            full: 0,
            mean_busy: 0.0,
            spun: 0.0,
        }
    }

    /// Number of I/O threads that were not ordered to stop.
    pub fn threads(&self) -> usize {
        self.staying.len()
    }

    /// Number of I/O threads that take connections.
    #[inline]
    pub fn active(&self) -> usize {
        self.active
    }

    /// Whether this I/O thread takes connections.
    pub fn is_active(&self, id: IoThreadId) -> bool {
        self.staying[..self.active].contains(&id)
    }

    /// The ids of the I/O threads that take connections.
    pub fn active_ids(&self) -> Vec<IoThreadId> {
        self.staying[..self.active].to_vec()
    }

    /// Whether any I/O thread runs, including threads that were ordered to stop.
    #[inline]
    pub fn is_running(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Starts threads until there are `count`, but at most [`WORKERS_MAX`]. The threads sleep until they get
    /// connections. Errors: a thread or its event loop could not be created; threads that were started
    /// before continue to run.
    pub fn spawn_up_to(&mut self, count: usize, settings: &Arc<Settings>) -> std::io::Result<()> {
        self.settings = Some(settings.clone());
        while self.staying.len() < count.min(WORKERS_MAX) {
            let free = self.threads.iter().position(Option::is_none).unwrap_or(self.threads.len());
            let id = IoThreadId(free);
            let thread = match self.spawn(id, settings.clone()) {
                Ok(thread) => thread,
                Err(error) => {
                    if self.threads.is_empty() {
                        // The collector is dropped, because the lane of the failed thread has notified
                        // it, although there is no thread whose messages could be collected.
                        self.collector = None;
                    }
                    return Err(error);
                }
            };
            if free == self.threads.len() {
                self.threads.push(None);
            }
            self.threads[free] = Some(thread);
            self.staying.push(id);
        }
        Ok(())
    }

    fn spawn(&mut self, id: IoThreadId, settings: Arc<Settings>) -> std::io::Result<ThreadHandle> {
        let taken =
            |n: usize| self.staying.iter().any(|s| self.threads[s.0].as_ref().is_some_and(|m| m.number == n));
        let number = (0..).find(|n| !taken(*n)).unwrap_or(0);
        let capacity = Capacity::at_least(self.ring);
        let (inbox, consumer) = spsc::channel(capacity);
        let lanes = self.collector.get_or_insert_with(|| collector(WORKERS_MAX + 1));
        let lane = lanes.open(capacity).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let published = Arc::new(Published::default());
        let channels = Channels {
            id,
            inbox: consumer,
            lane,
            main: self.main.clone(),
            published: published.clone(),
            settings,
        };
        let backend = self.backend;
        let (ready, opened) = std::sync::mpsc::channel();
        // The thread is not joined, because its last message reports that it has released its connections.
        Thread::Io(number + 1).start(move || {
            // The thread opens its own event loop, because io_uring requires that.
            match AnyLoop::choose(backend, &sluice_evloop::Config::default()) {
                Ok(opened) => {
                    let _ = ready.send(Ok((opened.event_loop.waker(), ThreadClock::of_this_thread())));
                    IoThread::new(channels, opened.event_loop).run();
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        let (waker, clock) = opened.recv().map_err(|_| std::io::ErrorKind::BrokenPipe)??;
        let overflow = VecDeque::new();
        Ok(ThreadHandle {
            number,
            inbox,
            overflow,
            waker,
            published,
            connections: 0,
            clock,
            sampled: WorkTime::default(),
            sampled_spun_ns: 0,
            busy: 0.0,
            unflushed: false,
        })
    }

    /// Sets how many I/O threads take connections. The caller moves the connections of the other threads.
    pub fn set_active(&mut self, active: usize) {
        self.active = active.min(self.staying.len());
    }

    /// Orders the threads beyond `count` to end as soon as they have no connection. Returns whether there
    /// are such threads.
    pub fn stop_above(&mut self, count: usize) -> bool {
        self.active = self.active.min(count);
        let leaving = self.staying.split_off(count.min(self.staying.len()));
        for id in &leaving {
            self.send(*id, ToIoThread::Stop);
        }
        !leaving.is_empty()
    }

    /// Orders all threads to send pending output, close their connections, and end.
    pub fn finish(&mut self) {
        self.staying.clear();
        self.active = 0;
        for id in 0..self.threads.len() {
            self.send(IoThreadId(id), ToIoThread::Finish);
        }
    }

    /// Removes an I/O thread that has ended. Returns whether the thread has ended without having been ordered
    /// to.
    pub fn stopped(&mut self, id: IoThreadId) -> bool {
        let Some(thread) = self.threads.get_mut(id.0).and_then(Option::take) else { return false };
        if self.ended_active_ns.len() <= thread.number {
            self.ended_active_ns.resize(thread.number + 1, 0);
        }
        self.ended_active_ns[thread.number] += thread.published.active_ns.load(Relaxed);
        self.ended.add(&thread.published);
        let index = self.staying.iter().position(|s| *s == id);
        if let Some(index) = index {
            self.staying.remove(index);
            self.active -= usize::from(index < self.active);
        }
        if self.threads.iter().all(Option::is_none) {
            self.threads.clear();
            self.collector = None;
        }
        index.is_some()
    }

    /// The least busy active I/O thread. Busy shares are compared in eighths; among threads with equal
    /// shares, the thread with the fewest connections is taken.
    pub fn least_loaded(&self) -> Option<IoThreadId> {
        let load = |id: &IoThreadId| match self.threads.get(id.0).and_then(Option::as_ref) {
            Some(thread) => ((thread.busy * 8.0) as u32, thread.connections),
            None => (u32::MAX, usize::MAX),
        };
        self.staying[..self.active].iter().copied().min_by_key(load)
    }

    /// Measures how busy each I/O thread was in the last `wall_ns` nanoseconds. Returns the shares of the
    /// active threads. Cost: a system call for each I/O thread.
    pub fn sample(&mut self, wall_ns: u64) -> Vec<Share> {
        let mut shares = Vec::with_capacity(self.active);
        let mut spun = 0;
        for (index, id) in self.staying.iter().enumerate() {
            let Some(thread) = self.threads[id.0].as_mut() else { continue };
            let before = thread.sampled;
            let spun_ns = thread.published.spun_ns.load(Relaxed);
            thread.sampled = WorkTime {
                active_ns: thread.published.active_ns.load(Relaxed),
                spent_ns: match thread.clock.spent_ns() {
                    Some(spent_ns) => spent_ns.saturating_sub(spun_ns),
                    None => before.spent_ns,
                },
            };
            spun += spun_ns.saturating_sub(std::mem::replace(&mut thread.sampled_spun_ns, spun_ns));
            thread.busy = thread.sampled.busy_since(before, wall_ns);
            if index < self.active {
                shares.push(Share { id: *id, busy: thread.busy, connections: thread.connections });
            }
        }
        let connections = shares.iter().map(|share| share.connections).sum::<usize>().max(1);
        self.mean_busy = shares.iter().map(|share| share.busy).sum::<f64>() / connections as f64;
        self.spun = spun as f64 / wall_ns.max(1) as f64;
        shares
    }

    /// Number of processors that I/O threads kept busy by spinning between the last two samples.
    pub fn spun(&self) -> f64 {
        self.spun
    }

    /// The number of connections that this I/O thread has beyond an even share among the active threads.
    pub fn surplus(&self, id: IoThreadId) -> usize {
        let all = self.all_connections();
        self.connections(id).saturating_sub(all.div_ceil(self.active.max(1)))
    }

    /// Number of connections of all I/O threads, including connections that are being sent to them.
    pub fn all_connections(&self) -> usize {
        self.threads.iter().flatten().map(|thread| thread.connections).sum()
    }

    fn connections(&self, id: IoThreadId) -> usize {
        self.threads.get(id.0).and_then(Option::as_ref).map_or(0, |thread| thread.connections)
    }

    /// Sends a message, which is flushed at the end of the iteration at the latest. Messages to one I/O
    /// thread stay in order. If the thread has ended, the message is dropped.
    pub fn send(&mut self, id: IoThreadId, message: ToIoThread) {
        let mean = self.mean_busy;
        let Some(thread) = self.threads.get_mut(id.0).and_then(Option::as_mut) else { return };
        if matches!(message, ToIoThread::Adopt(_)) {
            thread.connections += 1;
            // The connection is assumed to be as busy as the thread's other connections, or as the mean if
            // the mean is higher, so that many new connections are spread over the threads.
            thread.busy += (thread.busy / thread.connections as f64).max(mean);
        }
        thread.unflushed = true;
        if !thread.overflow.is_empty() {
            thread.overflow.push_back(message);
        } else if let Err(full) = thread.inbox.stage(message) {
            self.full += 1;
            thread.overflow.push_back(full.0);
        }
    }

    /// Counts a connection that an I/O thread no longer has.
    pub fn left(&mut self, id: IoThreadId) {
        if let Some(thread) = self.threads.get_mut(id.0).and_then(Option::as_mut) {
            thread.connections = thread.connections.saturating_sub(1);
        }
    }

    /// Takes messages that the I/O threads have flushed, at most [`COLLECT_MAX`] from each thread. The
    /// messages of a thread stay in order.
    pub fn collect(&mut self, into: &mut Vec<ToMain>) {
        if let Some(collector) = &mut self.collector {
            collector.collect(COLLECT_MAX, &mut |message| into.push(message));
        }
    }

    /// Whether a message waits to be taken.
    pub fn has_messages(&self) -> bool {
        self.collector.as_ref().is_some_and(|collector| !collector.is_quiet())
    }

    /// Whether messages wait because the ring to an I/O thread is full. The main thread must then flush again
    /// soon.
    pub fn has_overflow(&self) -> bool {
        self.threads.iter().flatten().any(|thread| !thread.overflow.is_empty())
    }

    /// Makes the messages gathered in this iteration visible to the I/O threads, and wakes those that sleep.
    pub fn flush(&mut self) {
        for thread in self.threads.iter_mut().flatten() {
            if !thread.unflushed && thread.overflow.is_empty() {
                continue;
            }
            while let Some(message) = thread.overflow.pop_front() {
                if let Err(full) = thread.inbox.stage(message) {
                    thread.overflow.push_front(full.0);
                    break;
                }
            }
            thread.inbox.commit();
            thread.unflushed = false;
            thread.waker.wake();
        }
    }

    /// Sends the new settings to all I/O threads.
    pub fn publish(&mut self, settings: &Arc<Settings>) {
        self.settings = Some(settings.clone());
        for id in 0..self.threads.len() {
            self.send(IoThreadId(id), ToIoThread::Settings(settings.clone()));
        }
    }

    /// Counters of all I/O threads since the start, including threads that have ended.
    pub fn counts(&self) -> IoThreadCounts {
        let mut all = self.ended;
        self.threads.iter().flatten().for_each(|thread| all.add(&thread.published));
        all
    }

    /// Heap bytes of the I/O threads and their rings; `None` until each thread has published its part.
    pub fn footprint(&self) -> Option<usize> {
        let rings =
            heap::block(self.ring * size_of::<ToIoThread>()) + heap::block(self.ring * size_of::<ToMain>());
        let of_thread = |thread: &ThreadHandle| match thread.published.footprint.load(Relaxed) as usize {
            0 => None,
            own => Some(rings + heap::deque(&thread.overflow) + own),
        };
        self.threads.iter().flatten().map(of_thread).sum()
    }

    /// How often a message found the ring to its I/O thread full, as the field `full` counts it.
    pub fn full(&self) -> u64 {
        self.full
    }

    /// Active time of I/O threads by thread number, ns, including threads that have ended.
    pub fn active_ns(&self) -> Vec<u64> {
        let mut all = self.ended_active_ns.clone();
        for thread in self.threads.iter().flatten() {
            if all.len() <= thread.number {
                all.resize(thread.number + 1, 0);
            }
            all[thread.number] += thread.published.active_ns.load(Relaxed);
        }
        all
    }
}
