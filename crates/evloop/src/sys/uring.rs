//! The io_uring driver: the kernel performs the operations; one call per iteration submits and collects.
//!
//! Receiving and accepting are multishot: an operation is armed once and yields one completion after another
//! until it ends. The kernel tries a send during its submission; only if the send is short is the rest sent
//! with an operation that waits. Operations that complete during submission, such as sends, do not end the
//! call of an iteration at once: the call gathers further completions for a moment, so sending costs no
//! separate call.
//!
//! Invariants: (1) memory that the kernel may access for an operation belongs to the driver until the
//! operation's last completion was reaped; cancelling and closing free none of it; (2) a slot is used again,
//! and its descriptor closed, only when none of its operations is with the kernel (`slot.in_flight == 0`), so
//! no completion can reach the wrong source; (3) a slot has at most one operation per direction: `slot.armed`
//! for input, `slot.send` for output, `slot.poll.armed` for the watch; (4) only [`Uring::settle`] arms input,
//! by comparing the wanted mode (`slot.input`) with the armed operation (`slot.armed`), and every
//! cancellation of input goes through `cancel_input`; (5) received bytes that cannot be delivered yet are
//! kept in order in the entry `slot.held`, and receiving pauses when there are many; (6) a source whose
//! receive found no buffer is on the starved list once, and is armed again when the buffer group has buffers.

mod blocking;
mod input;
pub(crate) mod kernel;
mod output;
mod preflight;
mod quiesce;
pub(crate) mod ring;
mod slot;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::io::Errno;

use self::kernel::{Cqe, Kernel, Op, Wait};
use self::output::Pending;
use self::slot::{
    Armed, EarlyBytes, Fill, InputMode, Life, NONE, OpKind, Other, SourceSlot, parse, user_data,
};
use super::blocking::BlockingDriver;
use super::conditions::{WATCHABLE, flags_of, readiness, trouble};
use super::pause::AcceptPause;
use super::portable;
use super::wake::WakeFd;
use crate::blocking::BlockingOps;
use sluice_base::heap;

use crate::chunk::{Chunk, ChunkPool};
use crate::config::Config;
use crate::driver::{Driver, GatherPlan, Sleep};
use crate::event::{Event, Interest, Sending, Shutdown};
use crate::file::FileOp;
use crate::handle::{Fd, FileId, FileOpId, ProcessId, Source, Token};
use crate::metrics::Metrics;
use crate::send_buf::SendBuf;
use crate::slab::Slab;
use crate::waker::Waker;

/// The driver over io_uring; see the module. `K` is the kernel's ring, or a scripted one in tests.
pub struct Uring<K: Kernel = ring::KernelRing> {
    kernel: K,
    slots: Vec<SourceSlot>,
    free: Vec<u32>,
    sends: Slab<Pending>,
    fills: Slab<Fill>,
    held: Slab<EarlyBytes>,
    chunks: ChunkPool,
    /// The completions reaped last.
    ready: Vec<Cqe>,
    /// Number of entries of `ready` that were handled.
    next: usize,
    completions_per_iteration: usize,
    deferred: VecDeque<(Option<Source>, Event)>,
    /// Sources that wait for buffers, in the order in which they ran out.
    starved: Vec<Source>,
    /// Sources with held bytes; sources after the first `runnable_left` wait for the next iteration.
    runnable: VecDeque<Source>,
    runnable_left: usize,
    /// Connections that were accepted and are not delivered yet, mostly because the iteration's budget was
    /// spent.
    arrived: VecDeque<(Source, OwnedFd)>,
    accepts_per_iteration: u32,
    accepts_left: u32,
    accept_pause: AcceptPause,
    wake: Arc<WakeFd>,
    /// Number of queued operations that complete during their submission.
    inline: u32,
    /// Number of operations that the kernel has, including the poll of the waker but without cancellations
    /// and closes.
    in_flight: usize,
    /// Whether the waker's poll is with the kernel. Only the end of the driver cancels that poll.
    waker_armed: bool,
    iteration: u32,
    batch: GatherPlan,
    /// The field is boxed because it is seldom used and would otherwise separate the hot fields.
    blocking: Box<BlockingOps>,
    metrics: Metrics,
}

impl<K: Kernel> Uring<K> {
    #[inline]
    fn slot(&mut self, source: Source) -> Option<&mut SourceSlot> {
        self.slots.get_mut(source.index as usize).filter(|slot| slot.is(source))
    }

    /// Submits an operation of a slot, with user data that contain `kind` and the slot's index.
    #[inline]
    fn push_for(&mut self, index: u32, op: Op, kind: OpKind) {
        self.slots[index as usize].in_flight += 1;
        self.in_flight += 1;
        self.kernel.push(op, user_data(kind, index));
    }

    /// Asks the slot's operation of this kind to end; the operation's completion follows.
    fn cancel(&mut self, index: u32, kind: OpKind) {
        self.cancel_target(user_data(kind, index));
    }

    /// Asks the operation with this user data to end. The cancellation's own user data contains
    /// that of the operation.
    fn cancel_target(&mut self, target: u64) {
        let own = CANCEL << 56 | target >> 56 << 32 | u64::from(target as u32);
        self.kernel.push(Op::Cancel { target }, own);
        self.inline += 1;
    }

    /// Handles the completion of a cancellation. The cancellation may have missed an operation that was just
    /// being tried and that then went on to wait: such an operation is asked to end again. If the operation's
    /// completion has been handled already, there is no second request.
    #[cold]
    fn cancelled(&mut self, cqe: Cqe) {
        let error = -cqe.result;
        if ![libc::ENOENT, libc::EALREADY].contains(&error) {
            return;
        }
        let index = cqe.user_data as u32;
        let target = (cqe.user_data >> 32) << 56 | u64::from(index);
        let is_asked = match (parse(target), Other::parse(target)) {
            (Some((kind, _)), _) => self.is_asked(index, kind),
            // `EALREADY`: a thread of the kernel performs the operation and was notified, so no second
            // request is needed.
            (None, Some((Other::File, _))) if error == libc::EALREADY => false,
            (None, Some((other, _))) => self.is_other_asked(index, other),
            (None, None) => false,
        };
        if is_asked {
            self.cancel_target(target);
        }
    }

    /// Whether a source's operation was asked to end, and has not completed.
    fn is_asked(&self, index: u32, kind: OpKind) -> bool {
        let Some(slot) = self.slots.get(index as usize) else { return false };
        match kind {
            OpKind::Recv => slot.cancelling && slot.armed == Armed::Recv,
            OpKind::Accept => slot.cancelling && slot.armed == Armed::Accept,
            OpKind::Fill => slot.cancelling && slot.armed == Armed::Fill,
            OpKind::Poll => slot.poll.is_ending && !slot.poll.armed.is_empty(),
            OpKind::Send => slot.life != Life::Open && slot.send != NONE,
        }
    }

    fn arm_waker(&mut self) {
        let fd = self.wake.as_raw_fd();
        self.kernel.push(Op::PollMulti { fd, events: POLLIN }, Other::Wake.user_data(0));
        self.in_flight += 1;
        self.waker_armed = true;
    }

    /// Calls the kernel once, without waiting.
    fn look(&mut self) -> io::Result<()> {
        self.inline = 0;
        self.metrics.system_calls += 1;
        self.kernel.enter(Wait::No)
    }

    /// Refills the buffer group, and arms the sources that waited for buffers.
    fn refill(&mut self) {
        for _ in 0..self.kernel.buffers_missing() {
            let storage = self.chunks.take();
            self.kernel.buffer_put(storage);
        }
        self.kernel.buffers_publish();
        if !self.starved.is_empty() {
            self.feed_starved();
        }
    }

    /// Submits queued operations, waits as `sleep` says, and reaps. The kernel does deferred work in
    /// portions, so the call is repeated while some deferred work may be left.
    fn collect(&mut self, now_ns: u64, sleep: Sleep) -> io::Result<()> {
        if sleep == Sleep::No || self.kernel.pending() {
            if self.kernel.unsubmitted() || self.kernel.has_deferred_work() {
                self.look()?;
            }
        } else {
            let (completions, min_wait_us) = self.expected();
            let until_ns = match sleep {
                Sleep::Until(at_ns) => Some(at_ns),
                Sleep::No | Sleep::Forever => None,
            };
            self.metrics.system_calls += 1;
            self.kernel.enter(Wait::For { completions, now_ns, until_ns, min_wait_us })?;
        }
        let mut before = self.ready.len();
        self.kernel.reap(&mut self.ready, self.completions_per_iteration);
        // A call that yielded fewer completions than a portion has done all deferred work; completions after
        // it are for the next iteration.
        while self.ready.len() < self.completions_per_iteration
            && self.ready.len() - before >= PORTION
            && self.kernel.has_deferred_work()
        {
            before = self.ready.len();
            self.look()?;
            self.kernel.reap(&mut self.ready, self.completions_per_iteration);
        }
        Ok(())
    }

    /// The number of completions to wait for, and the time after which fewer suffice. Operations that
    /// complete during submission must be handled soon, because a short send must continue and a caller may
    /// wait for the end of a send. But if the next request is expected soon, they can be handled together
    /// with it, so the call gathers completions for a moment instead of returning at once.
    fn expected(&mut self) -> (u32, u32) {
        let inline = std::mem::take(&mut self.inline);
        let batch = std::mem::take(&mut self.batch);
        if !self.kernel.gathers() || (inline == 0 && batch.wait_us == 0) {
            return (1, 0);
        }
        if batch.wait_us == 0 { (inline + 1, GATHER_US) } else { (inline + batch.completions, batch.wait_us) }
    }

    /// Handles one completion. Most completions yield one event or none; the rare further events go to
    /// `deferred`.
    #[inline]
    fn complete(&mut self, cqe: Cqe, now_ns: u64) -> Option<Event> {
        let Some((kind, index)) = parse(cqe.user_data) else {
            self.complete_other(cqe);
            return self.next_deferred();
        };
        if !cqe.more() {
            self.in_flight -= 1;
            self.slots[index as usize].in_flight -= 1;
        }
        let open = self.slots[index as usize].life == Life::Open;
        let event = match kind {
            OpKind::Recv => self.received(index, cqe),
            OpKind::Send => self.sent(index, cqe),
            OpKind::Accept => self.accepted(index, cqe, now_ns),
            OpKind::Fill => self.filled(index, cqe),
            OpKind::Poll => self.polled(index, cqe),
        };
        if !open {
            self.metrics.stale += 1;
            self.finish(index);
        }
        event
    }

    fn woken_by(&mut self, cqe: Cqe) {
        if !cqe.more() {
            self.in_flight -= 1;
            self.arm_waker();
        }
    }

    /// Handles a completion of a poll: returns the event, or requests another poll if no watched condition
    /// holds.
    fn polled(&mut self, index: u32, cqe: Cqe) -> Option<Event> {
        let slot = &mut self.slots[index as usize];
        if !cqe.more() {
            slot.poll.armed = Interest::NONE;
            slot.poll.is_ending = false;
        } else if slot.poll.is_ending {
            // The completion belongs to a watch that has ended. For the present watch another poll follows.
            return None;
        }
        if slot.life != Life::Open || slot.poll.wanted.is_empty() {
            return None;
        }
        let bits = match cqe.result {
            result if result == -libc::ECANCELED => PollFlags::empty(),
            ..0 => PollFlags::ERR,
            result => PollFlags::from_bits_retain(result as u16),
        };
        let ready = slot.poll.wanted.and(readiness(bits));
        if ready.is_empty() {
            if !cqe.more() {
                self.poll_again(index, bits);
            }
            return None;
        }
        slot.poll.wanted = Interest::NONE;
        let event = Event::Ready { token: slot.token, ready: ready.or(trouble(bits)) };
        if cqe.more() {
            slot.poll.is_ending = true;
            self.cancel(index, OpKind::Poll);
        }
        Some(event)
    }

    /// Makes the poll that the kernel holds match the watched conditions.
    fn poll(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.poll.armed == slot.poll.wanted || slot.poll.is_ending {
            return;
        }
        if !slot.poll.armed.is_empty() {
            slot.poll.is_ending = true;
            self.cancel(index, OpKind::Poll);
            return;
        }
        self.poll_again(index, PollFlags::empty());
    }

    /// Polls again after a poll that reported only `seen`, which is not watched. The kernel reports that the
    /// peer has shut down its sending side even if the poll did not ask for that, and a new poll would report
    /// it again at once. So if `seen` is not empty, the new poll is multishot, which completes only on
    /// changes; otherwise it is a single-shot poll.
    fn poll_again(&mut self, index: u32, seen: PollFlags) {
        let slot = &mut self.slots[index as usize];
        slot.poll.armed = slot.poll.wanted;
        let (fd, events) = (slot.raw_fd(), u32::from(flags_of(slot.poll.wanted).bits()));
        let op = if seen.is_empty() { Op::Poll { fd, events } } else { Op::PollMulti { fd, events } };
        self.push_for(index, op, OpKind::Poll);
    }

    /// Ends all operations of a slot that the caller has closed or detached.
    fn end_slot(&mut self, source: Source, life: Life) {
        let index = source.index;
        let slot = &mut self.slots[index as usize];
        slot.life = life;
        slot.generation = slot.generation.wrapping_add(1);
        slot.poll.wanted = Interest::NONE;
        let cancel_poll = !slot.poll.armed.is_empty() && !slot.poll.is_ending;
        let cancel_send = slot.send != NONE;
        if cancel_poll {
            slot.poll.is_ending = true;
            self.cancel(index, OpKind::Poll);
        }
        if cancel_send {
            // The cancellation is submitted after the send, so bytes that the socket takes at once are sent.
            self.cancel(index, OpKind::Send);
        }
        self.close_input(index);
        self.finish(index);
    }

    /// Frees a closed or detached slot when none of its operations is with the kernel any more.
    fn finish(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.in_flight != 0 || slot.life == Life::Open {
            return;
        }
        let life = std::mem::replace(&mut slot.life, Life::Open);
        let token = slot.token;
        let fd = slot.fd.take();
        let generation = slot.generation;
        let held = slot.held;
        *slot = SourceSlot { generation, ..SourceSlot::vacant() };
        self.held.remove(held);
        self.free.push(index);
        match (life, fd) {
            (Life::Detaching, Some(fd)) => self.deferred.push_back((None, Event::Detached { token, fd })),
            (_, Some(Fd::Owned(fd))) => {
                self.kernel.push(Op::Close { fd: fd.into_raw_fd() }, IGNORED);
                self.inline += 1;
            }
            (_, Some(Fd::Shared(_)) | None) => {}
        }
    }
}

impl<K: Kernel> Driver for Uring<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn open(config: &Config, wake: &Arc<WakeFd>) -> io::Result<Uring<K>> {
        let mut driver = Uring {
            kernel: K::open(config)?,
            slots: Vec::new(),
            free: Vec::new(),
            sends: Slab::new(),
            fills: Slab::new(),
            held: Slab::new(),
            chunks: ChunkPool::new(config.chunk_bytes),
            ready: Vec::with_capacity(config.events_per_iteration),
            next: 0,
            completions_per_iteration: config.events_per_iteration,
            deferred: VecDeque::new(),
            starved: Vec::new(),
            runnable: VecDeque::new(),
            runnable_left: 0,
            arrived: VecDeque::new(),
            accepts_per_iteration: config.accepts_per_iteration,
            accepts_left: 0,
            accept_pause: AcceptPause::new(),
            wake: wake.clone(),
            inline: 0,
            in_flight: 0,
            waker_armed: false,
            iteration: 0,
            batch: GatherPlan::default(),
            blocking: Box::new(BlockingOps::new((config.file_workers, config.file_queue))),
            metrics: Metrics::default(),
        };
        driver.arm_waker();
        Ok(driver)
    }

    fn wait(&mut self, now_ns: u64, sleep: Sleep) -> io::Result<usize> {
        if now_ns >= self.accept_pause.until_ns() {
            self.resume_accepting();
        }
        self.refill();
        self.iteration = self.iteration.wrapping_add(1);
        self.accepts_left = self.accepts_per_iteration;
        self.runnable_left = self.runnable.len();
        // Drops the handled completions; unhandled ones become events of this iteration.
        self.ready.drain(..self.next);
        self.next = 0;
        self.collect(now_ns, sleep)?;
        Ok(self.ready.len())
    }

    #[inline]
    fn next_event(&mut self, now_ns: u64) -> Option<Event> {
        loop {
            if !self.deferred.is_empty()
                && let Some(event) = self.next_deferred()
            {
                return Some(event);
            }
            if self.runnable_left != 0
                && let Some(event) = self.run_held()
            {
                return Some(event);
            }
            if !self.arrived.is_empty()
                && let Some(event) = self.next_arrived()
            {
                return Some(event);
            }
            let cqe = *self.ready.get(self.next)?;
            self.next += 1;
            let event = self.complete(cqe, now_ns);
            if event.is_some() {
                return event;
            }
        }
    }

    #[inline]
    fn metrics(&mut self) -> &mut Metrics {
        &mut self.metrics
    }

    fn footprint(&self) -> usize {
        heap::vec(&self.slots)
            + heap::vec(&self.free)
            + self.sends.footprint(output::Pending::footprint)
            + self.fills.footprint(|fill| heap::vec(&fill.buf))
            + self.held.footprint(|held| held.footprint(self.chunks.chunk_bytes()))
            + self.chunks.footprint()
            + heap::vec(&self.ready)
            + heap::deque(&self.deferred)
            + heap::vec(&self.starved)
            + heap::deque(&self.runnable)
            + heap::deque(&self.arrived)
            + self.kernel.buffers() * heap::block(self.chunks.chunk_bytes())
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        let at_hand = !self.deferred.is_empty() || !self.runnable.is_empty() || self.next < self.ready.len();
        if at_hand || self.arrived_deliverable() { 0 } else { self.accept_pause.until_ns() }
    }

    fn batch(&mut self, batch: GatherPlan) {
        self.batch = batch;
    }

    fn set_accepts_per_iteration(&mut self, accepts: u32) {
        self.accepts_per_iteration = accepts;
    }

    fn attach(&mut self, fd: Fd, token: Token) -> Source {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(SourceSlot::vacant());
            u32::try_from(self.slots.len() - 1).expect("fewer sources than descriptors")
        });
        let slot = &mut self.slots[index as usize];
        slot.fd = Some(fd);
        slot.token = token;
        Source { index, generation: slot.generation }
    }

    fn set_token(&mut self, source: Source, token: Token) {
        if let Some(slot) = self.slot(source) {
            slot.token = token;
        }
    }

    fn fd(&self, source: Source) -> Option<BorrowedFd<'_>> {
        let slot = self.slots.get(source.index as usize)?;
        if slot.generation != source.generation {
            return None;
        }
        slot.fd.as_ref().map(AsFd::as_fd)
    }

    fn accept_start(&mut self, source: Source) {
        self.start(source, InputMode::Accept);
    }

    fn recv_start(&mut self, source: Source) {
        self.start(source, InputMode::Recv);
    }

    fn recv_stop(&mut self, source: Source) {
        if let Some(slot) = self.slot(source)
            && slot.input == InputMode::Recv
        {
            slot.input = InputMode::Idle;
        }
    }

    fn recv_into(&mut self, source: Source, buf: Vec<u8>, wanted: usize) {
        let Some(slot) = self.slot(source) else { return };
        let token = slot.token;
        if !matches!(slot.input, InputMode::Idle | InputMode::Recv) || wanted == 0 {
            let error = (wanted != 0).then(|| Errno::ALREADY.into());
            self.deferred.push_back((Some(source), Event::Filled { token, buf, error }));
            return;
        }
        let fill = self.fills.insert(Fill { buf, wanted, is_ending: false });
        self.slots[source.index as usize].input = InputMode::Fill(fill);
        self.settle(source.index);
    }

    fn recv_into_end(&mut self, source: Source) {
        self.end_fill(source);
    }

    #[inline]
    fn give_back(&mut self, chunk: Chunk) {
        let storage = chunk.into_storage();
        if self.kernel.buffers_missing() > 0 && storage.len() == self.chunks.chunk_bytes() {
            self.kernel.buffer_put(storage);
        } else {
            self.chunks.put(storage);
        }
    }

    #[inline]
    fn send(&mut self, source: Source, buf: SendBuf) -> Sending {
        self.start_send(source, buf)
    }

    fn has_sent(&mut self, source: Source) -> bool {
        self.kernel_has_sent(source)
    }

    fn watch(&mut self, source: Source, interest: Interest) {
        if let Some(slot) = self.slot(source) {
            slot.poll.wanted = interest.and(WATCHABLE);
            self.poll(source.index);
        }
    }

    fn shutdown(&mut self, source: Source, how: Shutdown) {
        if self.slot(source).is_none() {
            return;
        }
        // Submits queued sends first. The shutdown itself is a direct call, because the ring would run it
        // in a worker thread.
        if self.kernel.unsubmitted() && self.look().is_err() {
            return;
        }
        if let Some(fd) = self.fd(source) {
            portable::shutdown(fd, how);
            self.metrics.system_calls += 1;
        }
    }

    fn close(&mut self, source: Source) {
        if self.slot(source).is_some() {
            self.drop_held(source.index);
            self.end_slot(source, Life::Closing);
        }
    }

    fn detach(&mut self, source: Source) {
        if self.slot(source).is_some() {
            self.deliver_held(source.index);
            self.end_slot(source, Life::Detaching);
        }
    }

    fn file_open(&mut self, fd: Arc<OwnedFd>) -> FileId {
        self.open_file(fd)
    }

    fn file_start(&mut self, file: FileId, op: FileOp, token: Token) -> FileOpId {
        self.start_file(file, op, token)
    }

    fn file_cancel(&mut self, id: FileOpId) {
        self.cancel_file(id);
    }

    fn file_close(&mut self, file: FileId) {
        self.close_file(file);
    }

    fn process_wait(&mut self, pid: i32, token: Token) -> ProcessId {
        self.wait_process(pid, token)
    }

    fn process_cancel(&mut self, id: ProcessId) {
        self.cancel_process(id);
    }

    fn use_waker(&mut self, waker: Waker) {
        self.blocking.use_waker(waker);
    }

    fn woken(&mut self) {
        self.collect_finished();
    }
}

impl<K: Kernel> Uring<K> {
    fn next_deferred(&mut self) -> Option<Event> {
        while let Some((source, event)) = self.deferred.pop_front() {
            if source.is_none_or(|source| self.slot(source).is_some()) {
                return Some(event);
            }
            self.metrics.stale += 1;
        }
        None
    }

    fn start(&mut self, source: Source, input: InputMode) {
        if let Some(slot) = self.slot(source)
            && slot.input == InputMode::Idle
        {
            slot.input = input;
            self.settle(source.index);
        }
    }
}

impl<K: Kernel> fmt::Debug for Uring<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

/// User data of operations whose completions are ignored.
const IGNORED: u64 = 0;
/// Top byte of the user data of a cancellation; the lower bytes have the kind and the slot of the cancelled
/// operation.
const CANCEL: u64 = 9;
/// Number of items of deferred work that the kernel does in one call, since version 6.13.
const PORTION: usize = 20;
/// Maximum time in microseconds for which the completion of a send waits for further completions.
const GATHER_US: u32 = 100;
const POLLIN: u32 = PollFlags::IN.bits() as u32;
const POLLOUT: u32 = PollFlags::OUT.bits() as u32;
