//! The loop: a driver, timers, the waker's receiving end, and the counters.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::config::Config;
use crate::driver::{Driver, Sleep};
use crate::event::{Event, Interest, Sending, Shutdown};
use crate::file::FileOp;
use crate::gather::Gather;
use crate::handle::{Fd, FileId, FileOpId, ProcessId, Source, Token};
use crate::metrics::Metrics;
use crate::send_buf::SendBuf;
use crate::sys::wake::WakeFd;
use crate::timers::{TimerId, Timers};
use crate::waker::{Park, Waker};

/// A point in time on the caller's monotonic clock, which must be `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// No deadline: waits until an event.
    pub const NEVER: Deadline = Deadline(u64::MAX);
    /// A deadline in the past: a wait until this deadline does not block.
    pub const PAST: Deadline = Deadline(0);

    /// The deadline at `mono_ns`, nanoseconds of `CLOCK_MONOTONIC`.
    pub const fn at_ns(mono_ns: u64) -> Deadline {
        Deadline(mono_ns)
    }
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "when `woken` is set, what other threads sent must be drained"]
pub struct Iteration {
    /// A [`Waker`] was used since the last wait returned: drain the mailboxes of other threads.
    pub woken: bool,
    /// Kernel events, the waker's included. Timers are not counted.
    pub ready: usize,
}

/// Whether waits may gather events before they return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherMode {
    /// Waits gather when many connections are active.
    Wanted,
    /// Waits never gather, whatever the load.
    Unwanted,
}

/// One thread's event loop. An iteration is one [`Loop::wait`], then [`Loop::next_event`] until it returns
/// `None`:
///
/// ```text
/// loop {
///     let iteration = lp.wait(now.mono_ns, until)?;
///     now = clock.now();
///     if iteration.woken { drain_mailboxes(); }
///     while let Some(event) = lp.next_event(now.mono_ns) { … lp.send(…) … }
/// }
/// ```
#[derive(Debug)]
pub struct Loop<D: Driver> {
    driver: D,
    timers: Timers,
    park: Arc<Park>,
    timers_per_iteration: u32,
    timers_left: u32,
    /// Time of the first `next_event` after the last wait; 0 if there was none.
    iteration_began_ns: u64,
    gather: Gather,
    gathering: GatherMode,
    /// The counters that the loop itself counts; the driver counts the others.
    own: Metrics,
}

impl<D: Driver> Loop<D> {
    /// Opens a loop on this thread, the only one that may use it.
    pub fn open(config: &Config) -> io::Result<Loop<D>> {
        Loop::with(config, D::open)
    }

    /// Opens a loop with the driver that `open` makes.
    pub(crate) fn with(
        config: &Config,
        open: impl FnOnce(&Config, &Arc<WakeFd>) -> io::Result<D>,
    ) -> io::Result<Loop<D>> {
        let config = config.clamped();
        let event = Arc::new(WakeFd::open()?);
        let mut driver = open(&config, &event)?;
        let park = Arc::new(Park::new(event));
        driver.use_waker(Waker::new(park.clone()));
        let mut this = Loop {
            driver,
            timers: Timers::default(),
            park,
            timers_per_iteration: config.timers_per_iteration,
            timers_left: 0,
            iteration_began_ns: 0,
            gather: Gather::new(0),
            gathering: GatherMode::Wanted,
            own: Metrics::default(),
        };
        this.set_batch_wait(config.batch_wait_us);
        Ok(this)
    }

    /// Sets whether waits may gather, if [`Config::batch_wait_us`] is set; initially they may. The caller
    /// decides this, because the loop does not know what kind of input the caller receives. Cost: a store.
    #[inline]
    pub fn gather(&mut self, gathering: GatherMode) {
        self.gathering = gathering;
    }

    /// Changes [`Config::batch_wait_us`], 0..=1000; 0 turns gathering off.
    pub fn set_batch_wait(&mut self, us: u32) {
        if us != 0 {
            // The slack of timers is reduced, because the default of 50 us can be longer than the wait
            // itself.
            #[cfg(target_os = "linux")]
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
        }
        self.gather = Gather::new(us.min(1000));
    }

    /// The driver's name, such as `io_uring`, `epoll` or `poll`.
    pub fn name(&self) -> &'static str {
        self.driver.name()
    }

    /// A waker for other threads.
    pub fn waker(&self) -> Waker {
        Waker::new(self.park.clone())
    }

    /// Submits queued operations and waits until an event arrives, the first timer or `until` is due, or
    /// a [`Waker`] is used; does not block when an event is pending already. `now_ns` is the caller's
    /// latest reading of the clock: an old reading makes the wait longer by its age. Returns early, with
    /// nothing, when a signal interrupts it. Errors mean that the driver is broken.
    pub fn wait(&mut self, now_ns: u64, until: Deadline) -> io::Result<Iteration> {
        self.timers_left = self.timers_per_iteration;
        let due_ns = self.due_ns().min(until.0);
        self.count_iteration(now_ns);
        let sleep = match due_ns {
            u64::MAX => Sleep::Forever,
            due_ns if due_ns <= now_ns => Sleep::No,
            due_ns => Sleep::Until(due_ns),
        };
        if sleep == Sleep::No {
            let ready = self.driver.wait(now_ns, Sleep::No)?;
            return Ok(self.turned(self.park.word.check(), ready));
        }
        if !self.park.word.try_park() {
            let ready = self.driver.wait(now_ns, Sleep::No)?;
            return Ok(self.turned(self.park.word.resume(), ready));
        }
        self.own.parks += 1;
        if self.gathering == GatherMode::Wanted && self.gather.is_on() {
            let batch = self.gather.plan(now_ns);
            self.own.gathered += u64::from(batch.wait_us != 0);
            self.driver.batch(batch);
        }
        let ready = self.driver.wait(now_ns, sleep);
        let woken = self.park.word.resume();
        Ok(self.turned(woken, ready?))
    }

    /// Whether a wait at `now_ns` would return at once, as far as is known without asking the kernel and the
    /// waker: a timer is due, or the driver has an event pending.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.due_ns() <= now_ns
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        self.timers.next_ns().unwrap_or(u64::MAX).min(self.driver.due_ns())
    }

    /// The iteration's next event, or `None` when the iteration is over: then wait again. `now_ns` decides
    /// which timers are due; take it after the wait. Events of sources come first, timers after them.
    /// Readiness drivers receive only when an event is asked for, so bytes arrive in the same warm buffer
    /// when each chunk is given back before the next call.
    #[inline]
    pub fn next_event(&mut self, now_ns: u64) -> Option<Event> {
        if self.iteration_began_ns == 0 {
            self.iteration_began_ns = now_ns;
        }
        if let Some(event) = self.driver.next_event(now_ns) {
            self.own.events += 1;
            if self.gathering == GatherMode::Wanted
                && self.gather.is_on()
                && let Event::Received { token, .. } = &event
            {
                self.gather.note(*token);
            }
            return Some(event);
        }
        if self.timers_left == 0 {
            return None;
        }
        let (id, token) = self.timers.pop_due(now_ns)?;
        self.timers_left -= 1;
        self.own.events += 1;
        self.own.timers_fired += 1;
        Some(Event::Timer { token, id })
    }

    /// Adds a nonblocking descriptor of any kind that can be polled. Nothing happens on it until an
    /// operation is started. Cost: no system call.
    pub fn attach(&mut self, fd: impl Into<Fd>, token: Token) -> Source {
        self.driver.attach(fd.into(), token)
    }

    /// Changes the token that the source's events carry from now on.
    pub fn set_token(&mut self, source: Source, token: Token) {
        self.driver.set_token(source, token);
    }

    /// The descriptor of a source, to set options on or to read addresses from; `None` when it was closed.
    pub fn fd(&self, source: Source) -> Option<BorrowedFd<'_>> {
        self.driver.fd(source)
    }

    /// Accepts connections on a listener until the listener is closed or detached. Each one is reported as an
    /// [`Event::Accepted`]; an iteration accepts at most [`Config::accepts_per_iteration`].
    pub fn accept_start(&mut self, source: Source) {
        self.driver.accept_start(source);
    }

    /// Accepts at most this many connections in one iteration from now on, 1..=1000.
    pub fn set_accepts_per_iteration(&mut self, accepts: u32) {
        self.driver.set_accepts_per_iteration(accepts.clamp(1, 1000));
    }

    /// Receives from a stream socket until stopped or ended. Each chunk is an [`Event::Received`]; an
    /// iteration receives at most one, and one more after a [`Loop::recv_into`]. Has no effect on a source
    /// that receives already or has ended. A waiting source holds no buffer.
    pub fn recv_start(&mut self, source: Source) {
        self.driver.recv_start(source);
    }

    /// Stops delivery from this call on until [`Loop::recv_start`]; no byte is lost, and the end of the
    /// stream is not reported before that call either. Stopping is cheap: on readiness drivers the kernel is
    /// called only if bytes arrive.
    pub fn recv_stop(&mut self, source: Source) {
        self.driver.recv_stop(source);
    }

    /// Receives directly into `buf`, after its present content, until at least `wanted` bytes have arrived.
    /// Then one [`Event::Filled`] returns `buf`, and receiving is stopped. Receives up to the capacity of
    /// `buf`, so reserve exactly as much as the caller wants. Meant for large values, because it saves the
    /// copy out of chunks. Replaces [`Loop::recv_start`] while it lasts; [`Loop::recv_into_end`] ends it
    /// early.
    pub fn recv_into(&mut self, source: Source, buf: Vec<u8>, wanted: usize) {
        self.driver.recv_into(source, buf, wanted);
    }

    /// Ends a [`Loop::recv_into`] before enough bytes have arrived: its [`Event::Filled`] follows, without an
    /// error and with the bytes so far. No effect when there is none, or when its event is pending already.
    pub fn recv_into_end(&mut self, source: Source) {
        self.driver.recv_into_end(source);
    }

    /// Takes back a chunk, to use its buffer for the next receive.
    #[inline]
    pub fn give_back(&mut self, chunk: Chunk) {
        self.driver.give_back(chunk);
    }

    /// Sends all of `buf` on a stream socket, however many steps it takes. At most one send may be in flight
    /// on a source: another one is done at once with error `EALREADY` and sends nothing; on a closed source
    /// the error is `EBADF`.
    #[inline]
    pub fn send(&mut self, source: Source, buf: SendBuf) -> Sending {
        self.driver.send(source, buf)
    }

    /// Whether the kernel has taken all bytes of the send on a source, so that bytes that the caller then
    /// writes to the socket itself come after them. [`Event::Sent`] may still follow; before it does, no
    /// other send may be started. False where the kernel has not reported yet. Meant for the last bytes of a
    /// connection, because a send that the loop has only queued costs a system call here.
    pub fn has_sent(&mut self, source: Source) -> bool {
        self.driver.has_sent(source)
    }

    /// Reports once, by an [`Event::Ready`], that the descriptor is readable, writable or has urgent data.
    /// A later call replaces the interest; [`Interest::NONE`] ends it. Meant for descriptors that the
    /// caller itself reads or writes; may be combined with the other operations. Renewing the same watch in
    /// each iteration costs no system call on epoll.
    pub fn watch(&mut self, source: Source, interest: Interest) {
        self.driver.watch(source, interest);
    }

    /// Shuts down one or both directions of a connected socket. Errors are ignored, because the peer may be
    /// gone already.
    pub fn shutdown(&mut self, source: Source, how: Shutdown) {
        self.driver.shutdown(source, how);
    }

    /// Ends all operations on the source and closes its descriptor (or releases a shared one); buffers in
    /// flight are freed. From this call on no event carries the source's token, and the caller may drop its
    /// state at once; the number of the descriptor is not reused before the kernel has finished with it.
    pub fn close(&mut self, source: Source) {
        self.driver.close(source);
    }

    /// Ends a source. One [`Event::Detached`] returns the descriptor, still open, to be attached to another
    /// loop. A [`Loop::send`] or [`Loop::recv_into`] in flight is abandoned, and its bytes so far are not
    /// reported, so detach when none is in flight. No effect on a source that was closed.
    pub fn detach(&mut self, source: Source) {
        self.driver.detach(source);
    }

    /// Adds a file or a FIFO. A FIFO, like any descriptor that can be waited for, must be nonblocking.
    /// The descriptor is closed after [`Loop::file_close`], when no operation runs on it and no other
    /// holder is left. Cost: a system call.
    pub fn file_open(&mut self, fd: impl Into<Arc<OwnedFd>>) -> FileId {
        self.driver.file_open(fd.into())
    }

    /// Queues an operation, to run after the earlier operations of the same file. One [`Event::FileDone`]
    /// reports its end and returns the buffer. To read and write a FIFO at the same time, open it here
    /// twice. Dropping the loop abandons operations that have not begun and waits for those on a disk; on
    /// io_uring for ten seconds at most, after which the kernel finishes alone. On io_uring the kernel
    /// performs the operation. On the other drivers a thread performs it if the file is a regular one or a
    /// disk; otherwise the loop itself performs it when the file is ready.
    pub fn file_start(&mut self, file: FileId, op: FileOp, token: Token) -> FileOpId {
        self.driver.file_start(file, op, token)
    }

    /// Requests the end of an operation. Its event follows as always: with `ECANCELED`, or with its
    /// result if it was too late. No effect when its event is pending already.
    pub fn file_cancel(&mut self, id: FileOpId) {
        self.driver.file_cancel(id);
    }

    /// Abandons all operations of the file, begun or not: they bring no event, and their
    /// buffers are freed when no operation uses them any more. To have everything written,
    /// close after the last [`Event::FileDone`].
    pub fn file_close(&mut self, file: FileId) {
        self.driver.file_close(file);
    }

    /// Waits for the end of a child process and reaps it. One [`Event::ProcessEnded`] reports the end. `pid`
    /// is as for `waitpid`: the id of a child, -1 for any child, 0 for any child in the process group of this
    /// process, `-g` for any child in the process group `g`. The absence of such a child is reported as a
    /// result. Cost: two or three system calls. Until the end of the wait, a single child occupies a
    /// descriptor; the other forms of `pid` need a thread that checks every 1 to 16 ms.
    pub fn process_wait(&mut self, pid: i32, token: Token) -> ProcessId {
        self.driver.process_wait(pid, token)
    }

    /// Ends a wait, which reaps no child from now on: the event has
    /// [`Exit::Cancelled`](crate::Exit::Cancelled), unless the end of a process is pending already.
    pub fn process_cancel(&mut self, id: ProcessId) {
        self.driver.process_cancel(id);
    }

    /// Sets a timer, which causes one [`Event::Timer`] in the first iteration whose time is at or after
    /// `at`. Timers of equal times fire in the order they were set. Cost: O(log n).
    pub fn timer_at(&mut self, at: Deadline, token: Token) -> TimerId {
        self.timers.insert(at.0, token)
    }

    /// Cancels a timer; returns its token, or `None` when it has fired or was cancelled. Cost: O(log n).
    pub fn timer_cancel(&mut self, id: TimerId) -> Option<Token> {
        self.timers.cancel(id)
    }

    /// Number of timers that are set.
    pub fn timers_len(&self) -> usize {
        self.timers.len()
    }

    /// Bytes that the allocator holds for the loop, as far as they can change while it runs.
    /// O(sends in flight).
    pub fn footprint(&self) -> usize {
        self.driver.footprint() + self.timers.footprint()
    }

    /// The counters so far.
    pub fn metrics(&mut self) -> Metrics {
        let (wakes_sent, wakes_coalesced) = (self.park.sent(), self.park.coalesced());
        let Metrics {
            iterations, parks, events, wakes_seen, timers_fired, gathered, iteration_max_ns, ..
        } = self.own;
        Metrics {
            iterations,
            parks,
            events,
            wakes_seen,
            wakes_sent,
            wakes_coalesced,
            timers_fired,
            gathered,
            iteration_max_ns,
            ..*self.driver.metrics()
        }
    }

    fn count_iteration(&mut self, now_ns: u64) {
        let began_ns = self.iteration_began_ns;
        let metrics = &mut self.own;
        metrics.iterations += 1;
        if began_ns != 0 {
            metrics.iteration_max_ns = metrics.iteration_max_ns.max(now_ns.saturating_sub(began_ns));
        }
        self.iteration_began_ns = 0;
    }

    fn turned(&mut self, woken: bool, ready: usize) -> Iteration {
        if woken {
            self.own.wakes_seen += 1;
            self.driver.woken();
        }
        Iteration { woken, ready }
    }
}

impl From<Deadline> for u64 {
    fn from(deadline: Deadline) -> u64 {
        deadline.0
    }
}
