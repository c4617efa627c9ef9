//! Drivers over readiness: the kernel reports which calls would not block, and the driver makes those calls.
//!
//! Registrations are level-triggered. A source is registered when an operation first waits on it. Stopping to
//! receive does not narrow the registration until an event arrives that no operation waits for, so stopping
//! and starting again costs no system call; the end of a delayed send and a pause in accepting narrow the
//! registration at once. A send is tried at once, and writability is requested only after the kernel refused.
//!
//! Invariants: (1) the kernel's key of a registration consists of the slot's index and generation, so an
//! event of a closed source is recognised and counted as stale; (2) `slot.registered` is the last
//! registration with the kernel; (3) every wanted condition of a slot is contained in `slot.registered`, or
//! the slot's failure is pending in `deferred`.

mod blocking;
mod slot;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer};

use self::slot::{InputMode, NONE, SourceSlot, TODO_FILL_NEXT, TODO_RECV_NEXT, TODO_SEND, TODO_WATCH};
use super::blocking::BlockingDriver;
use super::conditions::{WATCHABLE, readiness, trouble};
use super::pause::AcceptPause;
use super::portable;
use super::wake::{WAKE_KEY, WakeFd};
use crate::blocking::BlockingOps;
use crate::chunk::{Chunk, ChunkPool};
use crate::config::Config;
use crate::driver::{Driver, GatherPlan, Sleep};
use crate::event::{Event, Interest, Received, Sending, Sent, Shutdown};
use crate::file::FileOp;
use crate::handle::{Fd, FileId, FileOpId, ProcessId, Source, Token};
use crate::metrics::Metrics;
use crate::send_buf::{Cursor, Left, SendBuf};
use crate::slab::Slab;
use crate::waker::Waker;
use sluice_base::heap;

/// A kernel interface for readiness: a set of descriptors, each with a key and conditions of interest.
pub trait Poller: Sized {
    /// The interface's name in configuration and INFO.
    const NAME: &'static str;

    /// Opens the set; `wake` is reported under [`WAKE_KEY`], once per burst of wake-ups. A wait returns
    /// at most `max` events.
    fn open(wake: &Arc<WakeFd>, max: usize) -> io::Result<Self>;

    /// Registers a descriptor; `EPERM` means that the descriptor is always ready.
    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, flags: PollFlags) -> Result<(), Errno>;

    /// Bytes that the allocator holds for the poller's own tables and event buffers.
    fn footprint(&self) -> usize {
        0
    }

    /// Changes the conditions of a registered descriptor.
    fn modify(&mut self, fd: BorrowedFd<'_>, key: u64, flags: PollFlags) -> Result<(), Errno>;

    /// Removes a registered descriptor from the set.
    fn delete(&mut self, fd: BorrowedFd<'_>, key: u64) -> Result<(), Errno>;

    /// Removes from the poller's own tables a descriptor that is about to be closed. If the kernel holds a
    /// registration, closing the descriptor ends it.
    fn forget(&mut self, key: u64);

    /// Waits for at most `timeout_ns` nanoseconds, or without limit for `None`; returns the number of events,
    /// to be read with [`Poller::ready`]. After an error there are no events.
    fn wait(&mut self, timeout_ns: Option<u64>) -> Result<usize, Errno>;

    /// The key and conditions of an event of the last wait; `None` after the last event.
    fn ready(&self, index: usize) -> Option<(u64, PollFlags)>;
}

/// The driver over a [`Poller`]; see the module.
pub struct Readiness<P: Poller> {
    poller: P,
    slots: Vec<SourceSlot>,
    free: Vec<u32>,
    sends: Slab<Pending>,
    fills: Slab<Fill>,
    chunks: ChunkPool,
    /// Number of the poller's events that were handled.
    next: usize,
    current: Current,
    /// Completions without a kernel event. A completion with a source is dropped if that source is no longer
    /// open.
    deferred: VecDeque<(Option<Source>, Event)>,
    accepts_per_iteration: u32,
    accepts_left: u32,
    accept_pause: AcceptPause,
    /// Bytes that may still be written in this iteration by sends that had to wait for a full socket.
    sent_on_left: usize,
    /// The value of `sent_on_left` at the start of each iteration.
    sent_on_per_iteration: usize,
    batch: GatherPlan,
    /// The field is boxed because it is seldom used and would otherwise separate the hot fields.
    blocking: Box<BlockingOps>,
    metrics: Metrics,
}

/// The kernel event that is being handled.
#[derive(Debug)]
struct Current {
    source: Source,
    bits: PollFlags,
    todo: u8,
    /// Number of receives that may still follow.
    follow_ups: u8,
}

/// Number of receives of one source that may follow its first receive in an iteration: one into the
/// receiver's own buffer, and one of the bytes after that buffer. Thus a large value that has arrived is
/// received in one iteration together with the two bytes (CRLF) after it, and a source that never stops
/// sending does not keep others waiting.
const FOLLOW_UPS: u8 = 2;

/// A send that the kernel did not take whole.
#[derive(Debug)]
struct Pending {
    buf: SendBuf,
    cursor: Cursor,
}

/// A receive into the caller's own buffer.
#[derive(Debug)]
struct Fill {
    buf: Vec<u8>,
    /// Number of bytes that the fill still needs.
    wanted: usize,
}

/// The result of one attempt to send.
enum SendProgress {
    Done,
    Blocked,
    Failed(Errno),
}

impl Current {
    /// Schedules another receive after this one.
    fn follow(&mut self, next: u8) {
        if let Some(left) = self.follow_ups.checked_sub(1) {
            (self.follow_ups, self.todo) = (left, next);
        }
    }
}

impl<P: Poller> Readiness<P> {
    #[inline]
    fn slot(&mut self, source: Source) -> Option<&mut SourceSlot> {
        self.slots.get_mut(source.index as usize).filter(|slot| slot.is(source))
    }

    /// Makes the registration with the kernel cover all that the slot waits for; failures become events.
    fn register_or_fail(&mut self, source: Source) {
        if let Err(errno) = self.register(source) {
            self.fail(source, errno);
        }
    }

    /// Updates the registration with the kernel; the caller reports a failure.
    fn register(&mut self, source: Source) -> Result<(), Errno> {
        let slot = self.slot(source).ok_or(Errno::BADF)?;
        let wanted = slot.wanted();
        if slot.registered.contains(wanted) {
            return Ok(());
        }
        let first = slot.registered.is_empty();
        let flags = slot.registered | wanted;
        let fd = self.slots[source.index as usize].fd.as_ref().ok_or(Errno::BADF)?;
        self.metrics.system_calls += 1;
        match first {
            true => self.poller.add(fd.as_fd(), source.key(), flags)?,
            false => self.poller.modify(fd.as_fd(), source.key(), flags)?,
        }
        self.slots[source.index as usize].registered = flags;
        Ok(())
    }

    /// Narrows the registration to the conditions that some operation waits for.
    #[cold]
    fn narrow_registration(&mut self, source: Source) {
        let Some(slot) = self.slot(source) else { return };
        let wanted = slot.wanted();
        slot.registered = wanted;
        let Some(fd) = &self.slots[source.index as usize].fd else { return };
        // Error and hang-up cannot be masked, so a source without a wanted condition has to leave the set.
        let _ = match wanted.is_empty() {
            true => self.poller.delete(fd.as_fd(), source.key()),
            false => self.poller.modify(fd.as_fd(), source.key(), wanted),
        };
        self.metrics.system_calls += 1;
    }

    /// Fails every operation that waits on a source that cannot be polled. A descriptor that is always ready
    /// gives `EPERM`, and its watch is reported as ready.
    #[cold]
    fn fail(&mut self, source: Source, errno: Errno) {
        let Some(slot) = self.slot(source) else { return };
        let (token, watch, input, send) = (slot.token, slot.watch, slot.input, slot.send);
        slot.watch = Interest::NONE;
        slot.input = InputMode::Ended;
        slot.send = NONE;
        let mut defer = |event| self.deferred.push_back((Some(source), event));
        if !watch.is_empty() {
            let ready = if errno == Errno::PERM { watch } else { watch.or(Interest::ERROR) };
            defer(Event::Ready { token, ready });
        }
        match input {
            InputMode::Accept | InputMode::AcceptPaused => {
                defer(Event::AcceptFailed { token, error: errno.into() })
            }
            InputMode::Recv => defer(Event::Received { token, received: Received::Failed(errno.into()) }),
            InputMode::Fill(index) => {
                if let Some(fill) = self.fills.remove(index) {
                    defer(Event::Filled { token, buf: fill.buf, error: Some(errno.into()) });
                }
            }
            // Files and processes need no event here: their code calls `register` itself, which returns the
            // error.
            InputMode::FileRead(_) | InputMode::FileWrite(_) | InputMode::Process(_) => {}
            InputMode::Idle | InputMode::Ended => {}
        }
        if let Some(pending) = self.sends.remove(send) {
            let bytes = pending.cursor.sent(&pending.buf);
            let sent = Sent { buf: pending.buf, bytes, error: Some(errno.into()) };
            self.deferred.push_back((Some(source), Event::Sent { token, sent }));
        }
    }

    /// Loads a kernel event: the actions that it requires are set in `current`.
    fn load(&mut self, key: u64, bits: PollFlags) {
        if key == WAKE_KEY {
            return;
        }
        let source = Source::from_key(key);
        let Some(slot) = self.slot(source) else {
            self.metrics.stale += 1;
            return;
        };
        let todo = slot.todo(bits);
        self.current = Current { source, bits, todo, follow_ups: FOLLOW_UPS };
        if todo == 0 {
            self.narrow_registration(source);
        }
    }

    /// Performs one action of the current event, whose source may have been closed since the last action.
    fn step(&mut self, now_ns: u64) -> Option<Event> {
        let Current { source, bits, todo, .. } = self.current;
        let Some(slot) = self.slots.get(source.index as usize).filter(|slot| slot.is(source)) else {
            self.current.todo = 0;
            return None;
        };
        let input = slot.input;
        let follows = match input {
            InputMode::Fill(_) => todo & TODO_RECV_NEXT == 0,
            InputMode::Recv => todo & TODO_FILL_NEXT == 0,
            _ => todo & (TODO_FILL_NEXT | TODO_RECV_NEXT) == 0,
        };
        if !follows {
            self.current.todo = 0;
            return None;
        }
        if todo & TODO_SEND != 0 {
            self.current.todo &= !TODO_SEND;
            return self.send_on(source);
        }
        if todo & TODO_WATCH != 0 {
            self.current.todo &= !TODO_WATCH;
            let slot = &mut self.slots[source.index as usize];
            let ready = slot.watch.and(readiness(bits));
            if ready.is_empty() {
                return None;
            }
            slot.watch = Interest::NONE;
            return Some(Event::Ready { token: slot.token, ready: ready.or(trouble(bits)) });
        }
        if input == InputMode::Accept {
            // The action stays set, so this event is handled again until no connection is left to accept, or
            // the iteration's budget is spent.
            return self.accept(source, now_ns);
        }
        self.current.todo = 0;
        match input {
            InputMode::Recv => self.receive(source),
            InputMode::Fill(index) => self.fill(source, index),
            InputMode::FileRead(_) | InputMode::FileWrite(_) | InputMode::Process(_) => {
                self.blocking_ready(source, input)
            }
            InputMode::Accept | InputMode::AcceptPaused | InputMode::Idle | InputMode::Ended => None,
        }
    }

    /// Receives once into a chunk.
    #[inline]
    fn receive(&mut self, source: Source) -> Option<Event> {
        let slot = &mut self.slots[source.index as usize];
        let token = slot.token;
        let fd = slot.fd.as_ref()?;
        let mut storage = self.chunks.take();
        let received = loop {
            self.metrics.system_calls += 1;
            match rustix::net::recv(fd.as_fd(), &mut storage[..], RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        let received = match received {
            Ok((len, _)) if len > 0 => {
                self.metrics.receives += 1;
                if len == storage.len() {
                    self.current.follow(TODO_FILL_NEXT);
                }
                return Some(Event::Received { token, received: Received::Data(Chunk::owned(storage, len)) });
            }
            Err(Errno::AGAIN) => None,
            Ok(_) => Some(Received::Eof),
            Err(errno) => Some(Received::Failed(errno.into())),
        };
        self.chunks.put(storage);
        let received = received?;
        slot.input = InputMode::Ended;
        Some(Event::Received { token, received })
    }

    /// Receives once into the caller's own buffer.
    fn fill(&mut self, source: Source, index: u32) -> Option<Event> {
        let slot = &mut self.slots[source.index as usize];
        let token = slot.token;
        let fd = slot.fd.as_ref()?;
        let fill = self.fills.at_mut(index)?;
        fill.buf.reserve(fill.wanted);
        self.metrics.system_calls += 1;
        let error = match rustix::net::recv(fd.as_fd(), spare_capacity(&mut fill.buf), RecvFlags::DONTWAIT) {
            Ok((_, len)) if len > 0 => {
                self.metrics.receives += 1;
                fill.wanted = fill.wanted.saturating_sub(len);
                if fill.wanted > 0 {
                    return None;
                }
                self.current.follow(TODO_RECV_NEXT);
                None
            }
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Ok(_) => Some(io::ErrorKind::UnexpectedEof.into()),
            Err(errno) => Some(errno.into()),
        };
        slot.input = if error.is_none() { InputMode::Idle } else { InputMode::Ended };
        let fill = self.fills.remove(index)?;
        Some(Event::Filled { token, buf: fill.buf, error })
    }

    /// Accepts one connection, or pauses the listener.
    fn accept(&mut self, source: Source, now_ns: u64) -> Option<Event> {
        if self.accepts_left == 0 {
            self.current.todo = 0;
            return None;
        }
        let slot = &mut self.slots[source.index as usize];
        let token = slot.token;
        let fd = slot.fd.as_ref()?;
        self.metrics.system_calls += 1;
        self.accepts_left -= 1;
        match portable::accept(fd.as_fd()) {
            Ok(socket) => {
                self.metrics.accepts += 1;
                self.accept_pause.reset();
                Some(Event::Accepted { token, socket })
            }
            Err(Errno::AGAIN) => {
                self.current.todo = 0;
                None
            }
            Err(errno) if portable::is_passing(errno) => None,
            Err(errno) => {
                slot.input = InputMode::AcceptPaused;
                self.current.todo = 0;
                self.metrics.accept_failures += 1;
                self.pause_accepting(source, now_ns);
                Some(Event::AcceptFailed { token, error: errno.into() })
            }
        }
    }

    #[cold]
    fn pause_accepting(&mut self, source: Source, now_ns: u64) {
        self.accept_pause.add(source, now_ns);
        self.narrow_registration(source);
    }

    #[cold]
    fn resume_accepting(&mut self) {
        for source in self.accept_pause.end() {
            if let Some(slot) = self.slot(source)
                && slot.input == InputMode::AcceptPaused
            {
                slot.input = InputMode::Accept;
                self.register_or_fail(source);
            }
        }
    }

    /// Continues a send after the socket became writable. When `sent_on_left` is used up, the event stays
    /// pending and is reported again.
    #[cold]
    fn send_on(&mut self, source: Source) -> Option<Event> {
        if self.sent_on_left == 0 {
            return None;
        }
        let slot = &mut self.slots[source.index as usize];
        let (token, index) = (slot.token, slot.send);
        let fd = slot.fd.as_ref()?;
        let pending = self.sends.at_mut(index)?;
        let before = pending.cursor.sent(&pending.buf);
        let progress = push(fd.as_fd(), &pending.buf, &mut pending.cursor, &mut self.metrics);
        let bytes = pending.cursor.sent(&pending.buf).saturating_sub(before);
        self.sent_on_left = self.sent_on_left.saturating_sub(bytes);
        let error = match progress {
            SendProgress::Blocked => return None,
            SendProgress::Done => None,
            SendProgress::Failed(errno) => Some(errno.into()),
        };
        slot.send = NONE;
        let pending = self.sends.remove(index)?;
        // Writability is removed from the registration, because a socket is writable nearly always, and the
        // next wait would end needlessly.
        self.narrow_registration(source);
        let bytes = pending.cursor.sent(&pending.buf);
        Some(Event::Sent { token, sent: Sent { buf: pending.buf, bytes, error } })
    }

    /// Forgets the slot and returns its descriptor.
    fn release(&mut self, source: Source) -> Option<Fd> {
        let slot = self.slot(source)?;
        let fd = slot.fd.take();
        let (input, send) = (slot.input, slot.send);
        slot.generation = slot.generation.wrapping_add(1);
        slot.input = InputMode::Idle;
        slot.watch = Interest::NONE;
        slot.send = NONE;
        slot.registered = PollFlags::empty();
        self.sends.remove(send);
        if let InputMode::Fill(index) = input {
            self.fills.remove(index);
        }
        self.free.push(source.index);
        fd
    }
}

/// Hands bytes to the kernel until it takes no more, with up to [`PUSHES_MAX`] calls.
#[inline]
fn push(fd: BorrowedFd<'_>, buf: &SendBuf, cursor: &mut Cursor, metrics: &mut Metrics) -> SendProgress {
    for _ in 0..PUSHES_MAX {
        metrics.system_calls += 1;
        let flags = portable::SEND;
        let (asked, result) = if buf.shared.is_empty() {
            let rest = cursor.rest_of_head(buf);
            (rest.len(), rustix::net::send(fd, rest, flags))
        } else {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = cursor.gather(buf, &mut slices);
            let slices = &slices[..count];
            let asked = slices.iter().map(|slice| slice.len()).sum();
            (asked, rustix::net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), flags))
        };
        match result {
            Ok(sent) => {
                if cursor.advance(buf, sent) == Left::Nothing {
                    return SendProgress::Done;
                }
                if sent < asked {
                    metrics.sends_blocked += 1;
                    return SendProgress::Blocked;
                }
            }
            Err(Errno::AGAIN) => {
                metrics.sends_blocked += 1;
                return SendProgress::Blocked;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return SendProgress::Failed(errno),
        }
    }
    SendProgress::Blocked
}

impl<P: Poller> Driver for Readiness<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn open(config: &Config, wake: &Arc<WakeFd>) -> io::Result<Readiness<P>> {
        Ok(Readiness {
            poller: P::open(wake, config.events_per_iteration)?,
            slots: Vec::new(),
            free: Vec::new(),
            sends: Slab::new(),
            fills: Slab::new(),
            chunks: ChunkPool::new(config.chunk_bytes),
            batch: GatherPlan::default(),
            next: 0,
            current: Current {
                source: Source::from_key(WAKE_KEY),
                bits: PollFlags::empty(),
                todo: 0,
                follow_ups: 0,
            },
            deferred: VecDeque::new(),
            accepts_per_iteration: config.accepts_per_iteration,
            accepts_left: 0,
            accept_pause: AcceptPause::new(),
            sent_on_left: 0,
            sent_on_per_iteration: config.sent_on_per_iteration,
            blocking: Box::new(BlockingOps::new((config.file_workers, config.file_queue))),
            metrics: Metrics::default(),
        })
    }

    fn wait(&mut self, now_ns: u64, sleep: Sleep) -> io::Result<usize> {
        if now_ns >= self.accept_pause.until_ns() {
            self.resume_accepting();
        }
        self.accepts_left = self.accepts_per_iteration;
        self.sent_on_left = self.sent_on_per_iteration;
        self.current.todo = 0;
        self.next = 0;
        let timeout_ns = match sleep {
            Sleep::No => Some(0),
            Sleep::Until(at_ns) => Some(at_ns.saturating_sub(now_ns).min(SLEEP_MAX_NS)),
            Sleep::Forever => None,
        };
        let batch = std::mem::take(&mut self.batch);
        if batch.wait_us != 0 && sleep != Sleep::No {
            self.metrics.system_calls += 1;
            nap(batch.wait_us);
        }
        self.metrics.system_calls += 1;
        match self.poller.wait(timeout_ns) {
            Ok(ready) => Ok(ready),
            Err(Errno::INTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }

    #[inline]
    fn next_event(&mut self, now_ns: u64) -> Option<Event> {
        while let Some((source, event)) = self.deferred.pop_front() {
            if source.is_none_or(|source| self.slot(source).is_some()) {
                return Some(event);
            }
            self.metrics.stale += 1;
        }
        loop {
            if self.current.todo == 0 {
                let (key, bits) = self.poller.ready(self.next)?;
                self.next += 1;
                // Nearly every event is for a source that only receives, and is handled here without `load`
                // and `step`.
                let source = Source::from_key(key);
                if let Some(slot) = self.slots.get(source.index as usize)
                    && slot.only_receives(source, bits)
                {
                    self.current = Current { source, bits, todo: 0, follow_ups: FOLLOW_UPS };
                    let event = self.receive(source);
                    if event.is_some() {
                        return event;
                    }
                    continue;
                }
                self.load(key, bits);
                continue;
            }
            let event = self.step(now_ns);
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
            + self.sends.footprint(|send| send.buf.footprint())
            + self.fills.footprint(|fill| heap::vec(&fill.buf))
            + self.chunks.footprint()
            + heap::deque(&self.deferred)
            + self.poller.footprint()
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        if self.deferred.is_empty() { self.accept_pause.until_ns() } else { 0 }
    }

    fn batch(&mut self, batch: GatherPlan) {
        self.batch = batch;
    }

    fn set_accepts_per_iteration(&mut self, accepts: u32) {
        self.accepts_per_iteration = accepts;
    }

    fn attach(&mut self, fd: Fd, token: Token) -> Source {
        portable::attached(fd.as_fd());
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
        if let Some(slot) = self.slot(source)
            && slot.input == InputMode::Idle
        {
            slot.input = InputMode::Accept;
            self.register_or_fail(source);
        }
    }

    fn recv_start(&mut self, source: Source) {
        if let Some(slot) = self.slot(source)
            && slot.input == InputMode::Idle
        {
            slot.input = InputMode::Recv;
            self.register_or_fail(source);
        }
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
        let index = self.fills.insert(Fill { buf, wanted });
        self.slots[source.index as usize].input = InputMode::Fill(index);
        self.register_or_fail(source);
    }

    fn recv_into_end(&mut self, source: Source) {
        let Some(slot) = self.slot(source) else { return };
        let (token, InputMode::Fill(index)) = (slot.token, slot.input) else { return };
        slot.input = InputMode::Idle;
        if let Some(fill) = self.fills.remove(index) {
            self.deferred.push_back((Some(source), Event::Filled { token, buf: fill.buf, error: None }));
        }
    }

    #[inline]
    fn give_back(&mut self, chunk: Chunk) {
        self.chunks.put(chunk.into_storage());
    }

    #[inline]
    fn send(&mut self, source: Source, buf: SendBuf) -> Sending {
        let refused = |buf, errno: Errno| Sending::Done(Sent { buf, bytes: 0, error: Some(errno.into()) });
        let Some(slot) = self.slots.get_mut(source.index as usize) else { return refused(buf, Errno::BADF) };
        let Some(fd) = slot.fd.as_ref().filter(|_| slot.generation == source.generation) else {
            return refused(buf, Errno::BADF);
        };
        if slot.send != NONE {
            return refused(buf, Errno::ALREADY);
        }
        if buf.is_empty() {
            return Sending::Done(Sent { buf, bytes: 0, error: None });
        }
        let mut cursor = Cursor::default();
        let error = match push(fd.as_fd(), &buf, &mut cursor, &mut self.metrics) {
            SendProgress::Done => None,
            SendProgress::Failed(errno) => Some(errno.into()),
            SendProgress::Blocked => {
                slot.send = self.sends.insert(Pending { buf, cursor });
                self.register_or_fail(source);
                return Sending::InFlight;
            }
        };
        let bytes = cursor.sent(&buf);
        Sending::Done(Sent { buf, bytes, error })
    }

    fn has_sent(&mut self, source: Source) -> bool {
        // A send is in the slot while the socket is full. If the socket could not be waited for, the failed
        // send is in `deferred`.
        let has_failed = |(of, event): &(Option<Source>, Event)| {
            *of == Some(source) && matches!(event, Event::Sent { .. })
        };
        self.slot(source).is_some_and(|slot| slot.send == NONE) && !self.deferred.iter().any(has_failed)
    }

    fn watch(&mut self, source: Source, interest: Interest) {
        if let Some(slot) = self.slot(source) {
            slot.watch = interest.and(WATCHABLE);
            self.register_or_fail(source);
        }
    }

    fn shutdown(&mut self, source: Source, how: Shutdown) {
        if let Some(fd) = self.fd(source) {
            portable::shutdown(fd, how);
            self.metrics.system_calls += 1;
        }
    }

    fn close(&mut self, source: Source) {
        let Some(slot) = self.slot(source) else { return };
        let registered = !slot.registered.is_empty();
        match self.release(source) {
            // Other holders keep the open file, so closing this descriptor would leave the file registered.
            Some(Fd::Shared(fd)) if registered => {
                let _ = self.poller.delete(fd.as_fd(), source.key());
                self.metrics.system_calls += 1;
            }
            Some(Fd::Owned(fd)) => {
                if registered {
                    self.poller.forget(source.key());
                }
                drop(fd);
                self.metrics.system_calls += 1;
            }
            Some(Fd::Shared(_)) | None => {}
        }
    }

    fn detach(&mut self, source: Source) {
        let Some(slot) = self.slot(source) else { return };
        let (token, registered) = (slot.token, !slot.registered.is_empty());
        let Some(fd) = self.release(source) else { return };
        if registered {
            let _ = self.poller.delete(fd.as_fd(), source.key());
            self.metrics.system_calls += 1;
        }
        self.deferred.push_back((None, Event::Detached { token, fd }));
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

impl<P: Poller> fmt::Debug for Readiness<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness")
            .field("poller", &P::NAME)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

/// Sleeps, so that requests gather. A signal may end the sleep early.
#[cold]
fn nap(wait_us: u32) {
    let time = rustix::thread::Timespec { tv_sec: 0, tv_nsec: i64::from(wait_us.min(999_999)) * 1000 };
    let _ = rustix::thread::nanosleep(&time);
}

/// Maximum number of segments of one gathered send.
const SLICES_MAX: usize = 64;
/// Number of system calls that one send may make before other sources continue.
const PUSHES_MAX: u32 = 16;
/// The longest wait, which is a day. A longer wait is shortened to a day; callers permit that, because any
/// wait may return early with nothing.
const SLEEP_MAX_NS: u64 = 86_400 * 1_000_000_000;

#[cfg(test)]
mod tests;
