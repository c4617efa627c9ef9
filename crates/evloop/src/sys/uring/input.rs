//! Receiving and accepting on the ring: the wanted mode, the armed operation, and bytes that arrived early. A
//! *fill* is a receive into the caller's own buffer (`recv_into`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::Uring;
use super::kernel::{Cqe, Kernel, Op};
use super::slot::{Armed, EarlyBytes, InputMode, Life, NONE, OpKind, user_data};
use crate::chunk::Chunk;
use crate::event::{Event, Received};
use crate::handle::Source;
use crate::sys::portable;

impl<K: Kernel> Uring<K> {
    /// Arms or cancels input so that the armed operation matches the wanted mode. Must be called after
    /// each change of either.
    pub(super) fn settle(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.life != Life::Open {
            return;
        }
        match (slot.input, slot.armed) {
            (InputMode::Recv, Armed::Nothing | Armed::Recv) if slot.held != NONE => self.make_runnable(index),
            (InputMode::Recv, Armed::Nothing) if !slot.starved => {
                slot.armed = Armed::Recv;
                let op = Op::RecvMulti { fd: slot.raw_fd() };
                self.push_for(index, op, OpKind::Recv);
            }
            (InputMode::Accept, Armed::Nothing) => {
                slot.armed = Armed::Accept;
                let op = Op::AcceptMulti { fd: slot.raw_fd() };
                self.push_for(index, op, OpKind::Accept);
            }
            (InputMode::Fill(fill), Armed::Nothing) => self.fill_on(index, fill),
            (InputMode::Fill(_), Armed::Recv)
            | (InputMode::Idle | InputMode::AcceptPaused, Armed::Accept) => {
                self.cancel_input(index);
            }
            // A stopped receive stays armed, because usually no bytes arrive before it is started again.
            (InputMode::Idle | InputMode::Recv | InputMode::AcceptPaused | InputMode::Accept, _) => {}
            (InputMode::Fill(_) | InputMode::Ended, _) => {}
        }
    }

    /// Asks the armed operation to end, once.
    fn cancel_input(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let kind = match slot.armed {
            Armed::Nothing => return,
            Armed::Recv => OpKind::Recv,
            Armed::Accept => OpKind::Accept,
            Armed::Fill => OpKind::Fill,
        };
        if !slot.cancelling {
            slot.cancelling = true;
            self.cancel(index, kind);
        }
    }

    /// Ends the input of a slot that is being closed or detached.
    pub(super) fn close_input(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let input = std::mem::replace(&mut slot.input, InputMode::Ended);
        if let InputMode::Fill(fill) = input {
            match slot.armed {
                // The kernel still has the fill's buffer, so the buffer is freed when the receive completes.
                Armed::Fill => slot.input = input,
                Armed::Nothing | Armed::Recv | Armed::Accept => drop(self.fills.remove(fill)),
            }
        }
        self.cancel_input(index);
    }

    /// Handles a completion of a multishot receive.
    #[inline]
    pub(super) fn received(&mut self, index: u32, cqe: Cqe) -> Option<Event> {
        let storage = cqe.buffer().and_then(|id| self.kernel.buffer_take(id));
        let slot = &mut self.slots[index as usize];
        if !cqe.more() {
            slot.armed = Armed::Nothing;
            slot.cancelling = false;
        }
        let chunk = match storage {
            Some(storage) if cqe.result > 0 => Chunk::owned(storage, cqe.result as usize),
            storage => {
                if let Some(storage) = storage {
                    self.kernel.buffer_put(storage);
                }
                return self.receive_ended(index, cqe);
            }
        };
        self.metrics.receives += 1;
        slot.empty_receives = 0;
        let direct = slot.input == InputMode::Recv && slot.held == NONE && slot.iteration != self.iteration;
        let event = if direct {
            slot.iteration = self.iteration;
            Some(Event::Received { token: slot.token, received: Received::Data(chunk) })
        } else {
            self.take_in(index, chunk)
        };
        if !cqe.more() {
            self.settle(index);
        }
        event
    }

    /// Handles a completion of a multishot receive that has no bytes.
    #[cold]
    fn receive_ended(&mut self, index: u32, cqe: Cqe) -> Option<Event> {
        let slot = &mut self.slots[index as usize];
        if slot.life != Life::Open {
            return None;
        }
        let end = match cqe.result {
            // Some kernels report 0 although bytes remain. The flag for remaining bytes does not show this,
            // because TCP also sets the flag at the end of the stream. The driver therefore receives once
            // more.
            0 if (cqe.more() || cqe.nonempty()) && slot.empty_receives < EMPTY_RECEIVES_MAX => {
                slot.empty_receives += 1;
                None
            }
            0 => Some(Received::Eof),
            result if result == -libc::ENOBUFS => {
                self.metrics.starvations += 1;
                if !slot.starved {
                    slot.starved = true;
                    let source = Source { index, generation: slot.generation };
                    self.starved.push(source);
                }
                None
            }
            result if [libc::ECANCELED, libc::EAGAIN, libc::EINTR].contains(&-result) => None,
            result => Some(Received::Failed(io::Error::from_raw_os_error(-result))),
        };
        let event = match end {
            Some(end) => self.end_input(index, end),
            None => None,
        };
        self.settle(index);
        event
    }

    /// Handles received bytes that cannot be delivered at once.
    #[cold]
    fn take_in(&mut self, index: u32, mut chunk: Chunk) -> Option<Event> {
        let slot = &mut self.slots[index as usize];
        match (slot.life, slot.input) {
            (Life::Closing, _) => {
                self.chunks.put(chunk.into_storage());
                return None;
            }
            (Life::Detaching, _) => {
                return Some(Event::Received { token: slot.token, received: Received::Data(chunk) });
            }
            (Life::Open, InputMode::Fill(fill)) if slot.held == NONE => {
                let satisfied = self.append(fill, &mut chunk);
                if chunk.is_empty() {
                    self.chunks.put(chunk.into_storage());
                } else {
                    self.hold(index, chunk);
                }
                return if satisfied { self.finish_fill(index, fill, None) } else { None };
            }
            (Life::Open, _) => self.hold(index, chunk),
        }
        None
    }

    /// Appends received bytes to the slot's held bytes, to be delivered later.
    fn hold(&mut self, index: u32, chunk: Chunk) {
        let held = self.held_of(index);
        held.chunks.push_back(chunk);
        let many = held.chunks.len() >= HELD_MAX;
        let wanted = self.slots[index as usize].input == InputMode::Recv;
        if many || !wanted {
            self.cancel_input(index);
        }
        if wanted {
            self.make_runnable(index);
        }
    }

    fn held_of(&mut self, index: u32) -> &mut EarlyBytes {
        let slot = &mut self.slots[index as usize];
        if slot.held == NONE {
            slot.held = self.held.insert(EarlyBytes::default());
        }
        self.held.at_mut(slot.held).expect("the slot's own entry")
    }

    fn make_runnable(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if !slot.runnable {
            slot.runnable = true;
            self.runnable.push_back(Source { index, generation: slot.generation });
        }
    }

    /// The event for the next held bytes, or for the end of the stream after them. Each source gets one
    /// portion per iteration.
    pub(super) fn run_held(&mut self) -> Option<Event> {
        while self.runnable_left > 0 {
            self.runnable_left -= 1;
            let source = self.runnable.pop_front()?;
            let iteration = self.iteration;
            let Some(slot) = self.slot(source) else { continue };
            slot.runnable = false;
            if slot.input != InputMode::Recv || slot.held == NONE {
                continue;
            }
            slot.iteration = iteration;
            let (token, index) = (slot.token, slot.held);
            let Some(held) = self.held.at_mut(index) else { continue };
            let received = match held.chunks.pop_front() {
                Some(chunk) => Some(Received::Data(chunk)),
                None => held.end.take(),
            };
            if held.chunks.is_empty() && held.end.is_none() {
                self.held.remove(index);
                self.slots[source.index as usize].held = NONE;
            }
            if !matches!(received, Some(Received::Data(_)) | None) {
                self.slots[source.index as usize].input = InputMode::Ended;
            }
            self.settle(source.index);
            if let Some(received) = received {
                return Some(Event::Received { token, received });
            }
        }
        None
    }

    /// Drops the held bytes of a slot.
    pub(super) fn drop_held(&mut self, index: u32) {
        let held = std::mem::replace(&mut self.slots[index as usize].held, NONE);
        self.held.remove(held);
    }

    /// Delivers all held bytes, before the descriptor is detached. The end of the stream after them is not
    /// reported.
    pub(super) fn deliver_held(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let token = slot.token;
        let held = std::mem::replace(&mut slot.held, NONE);
        let Some(held) = self.held.remove(held) else { return };
        for chunk in held.chunks {
            self.deferred.push_back((None, Event::Received { token, received: Received::Data(chunk) }));
        }
    }

    /// Handles the end of the stream, which is reported now, after the held bytes, or when the caller next
    /// asks to receive.
    fn end_input(&mut self, index: u32, end: Received) -> Option<Event> {
        let slot = &mut self.slots[index as usize];
        match slot.input {
            InputMode::Recv if slot.held == NONE => {
                slot.input = InputMode::Ended;
                Some(Event::Received { token: slot.token, received: end })
            }
            InputMode::Fill(fill) if slot.held == NONE => self.finish_fill(index, fill, Some(error_of(end))),
            _ => {
                self.held_of(index).end = Some(end);
                None
            }
        }
    }

    /// Arms again the sources that found no buffer.
    #[cold]
    pub(super) fn feed_starved(&mut self) {
        for source in std::mem::take(&mut self.starved) {
            if let Some(slot) = self.slot(source) {
                slot.starved = false;
                self.settle(source.index);
            }
        }
    }

    /// Copies bytes from `chunk` to the fill, as far as there is room. Returns whether the fill is satisfied.
    fn append(&mut self, fill: u32, chunk: &mut Chunk) -> bool {
        let Some(fill) = self.fills.at_mut(fill) else { return false };
        let room = (fill.buf.capacity() - fill.buf.len()).max(fill.wanted);
        let taken = chunk.len().min(room);
        fill.buf.extend_from_slice(&chunk[..taken]);
        chunk.skip(taken);
        fill.wanted = fill.wanted.saturating_sub(taken);
        fill.wanted == 0
    }

    /// Continues a fill when nothing is armed: first from the held bytes, then from the kernel.
    fn fill_on(&mut self, index: u32, fill: u32) {
        let source = Source { index, generation: self.slots[index as usize].generation };
        let held_index = self.slots[index as usize].held;
        if let Some(mut held) = self.held.remove(held_index) {
            self.slots[index as usize].held = NONE;
            let mut satisfied = false;
            while !satisfied && let Some(mut chunk) = held.chunks.pop_front() {
                satisfied = self.append(fill, &mut chunk);
                if !chunk.is_empty() {
                    held.chunks.push_front(chunk);
                }
            }
            let error = if satisfied { None } else { held.end.take().map(error_of) };
            let over = satisfied || error.is_some();
            if !held.chunks.is_empty() || held.end.is_some() {
                self.slots[index as usize].held = self.held.insert(held);
            }
            if over {
                let event = self.finish_fill(index, fill, error);
                self.deferred.extend(event.map(|event| (Some(source), event)));
                return;
            }
        }
        let slot = &mut self.slots[index as usize];
        let Some(fill) = self.fills.at_mut(fill) else { return };
        fill.buf.reserve(fill.wanted);
        let to = fill.buf.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        slot.armed = Armed::Fill;
        slot.in_flight += 1;
        self.in_flight += 1;
        // SAFETY: at least `wanted` bytes of spare capacity follow `to`; the vector stays in `fills`, and is
        // neither touched nor dropped, until the completion was reaped.
        // JUSTIFICATION: receiving a large value at its final place saves copying it.
        unsafe { self.kernel.push_recv(slot.raw_fd(), to, fill.wanted, user_data(OpKind::Fill, index)) };
    }

    /// Handles a completion of a receive into the caller's buffer.
    pub(super) fn filled(&mut self, index: u32, cqe: Cqe) -> Option<Event> {
        let slot = &mut self.slots[index as usize];
        slot.armed = Armed::Nothing;
        slot.cancelling = false;
        let InputMode::Fill(fill) = slot.input else { return None };
        if slot.life != Life::Open {
            slot.input = InputMode::Ended;
            self.fills.remove(fill);
            return None;
        }
        let entry = self.fills.at_mut(fill)?;
        let error = match usize::try_from(cqe.result) {
            Ok(0) => Some(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                self.metrics.receives += 1;
                let len = entry.buf.len() + bytes;
                assert!(len <= entry.buf.capacity());
                // SAFETY: the kernel wrote `bytes` bytes behind the old length, within the capacity.
                // JUSTIFICATION: as in `fill_on`.
                unsafe { entry.buf.set_len(len) };
                entry.wanted = entry.wanted.saturating_sub(bytes);
                if entry.wanted > 0 && !entry.is_ending {
                    self.settle(index);
                    return None;
                }
                None
            }
            Err(_) if [libc::ECANCELED, libc::EAGAIN, libc::EINTR].contains(&-cqe.result) => {
                if !entry.is_ending {
                    self.settle(index);
                    return None;
                }
                None
            }
            Err(_) => Some(io::Error::from_raw_os_error(-cqe.result)),
        };
        self.finish_fill(index, fill, error)
    }

    /// Ends a fill with the bytes so far; if the kernel still has the buffer, the fill ends when the receive
    /// completes.
    pub(super) fn end_fill(&mut self, source: Source) {
        let Some(slot) = self.slot(source) else { return };
        let (armed, InputMode::Fill(fill)) = (slot.armed, slot.input) else { return };
        if armed == Armed::Fill {
            if let Some(fill) = self.fills.at_mut(fill) {
                fill.is_ending = true;
            }
            self.cancel_input(source.index);
        } else {
            let event = self.finish_fill(source.index, fill, None);
            self.deferred.extend(event.map(|event| (Some(source), event)));
        }
    }

    fn finish_fill(&mut self, index: u32, fill: u32, error: Option<io::Error>) -> Option<Event> {
        let slot = &mut self.slots[index as usize];
        slot.input = if error.is_none() { InputMode::Idle } else { InputMode::Ended };
        let fill = self.fills.remove(fill)?;
        Some(Event::Filled { token: slot.token, buf: fill.buf, error })
    }

    /// Handles a completion of a multishot accept.
    pub(super) fn accepted(&mut self, index: u32, cqe: Cqe, now_ns: u64) -> Option<Event> {
        let slot = &mut self.slots[index as usize];
        if !cqe.more() {
            slot.armed = Armed::Nothing;
            slot.cancelling = false;
        }
        let source = Source { index, generation: slot.generation };
        if cqe.result < 0 {
            return self.accept_ended(source, -cqe.result, now_ns);
        }
        // SAFETY: a successful accept made this descriptor, and no other owner of it exists.
        // JUSTIFICATION: the kernel hands descriptors over as numbers.
        let socket = unsafe { OwnedFd::from_raw_fd(cqe.result) };
        if slot.life != Life::Open {
            return None;
        }
        self.accept_pause.reset();
        self.metrics.accepts += 1;
        let direct = slot.input == InputMode::Accept && self.accepts_left > 0 && self.arrived.is_empty();
        let event = if direct {
            self.accepts_left -= 1;
            Some(Event::Accepted { token: slot.token, socket })
        } else {
            self.arrived.push_back((source, socket));
            if self.arrived.len() >= ARRIVED_MAX && slot.input == InputMode::Accept {
                slot.input = InputMode::AcceptPaused;
                self.accept_pause.add(source, now_ns);
            }
            None
        };
        self.settle(index);
        event
    }

    fn accept_ended(&mut self, source: Source, errno: i32, now_ns: u64) -> Option<Event> {
        let slot = &mut self.slots[source.index as usize];
        if slot.life != Life::Open {
            return None;
        }
        let errno = Errno::from_raw_os_error(errno);
        let passing = [Errno::CANCELED, Errno::AGAIN].contains(&errno) || portable::is_passing(errno);
        if passing || slot.input != InputMode::Accept {
            self.settle(source.index);
            return None;
        }
        slot.input = InputMode::AcceptPaused;
        let token = slot.token;
        self.metrics.accept_failures += 1;
        self.accept_pause.add(source, now_ns);
        Some(Event::AcceptFailed { token, error: errno.into() })
    }

    #[cold]
    pub(super) fn resume_accepting(&mut self) {
        for source in self.accept_pause.end() {
            if let Some(slot) = self.slot(source)
                && slot.input == InputMode::AcceptPaused
            {
                slot.input = InputMode::Accept;
                self.settle(source.index);
            }
        }
    }

    /// The event for the next connection that was accepted earlier and not yet delivered, within this
    /// iteration's budget.
    #[cold]
    pub(super) fn next_arrived(&mut self) -> Option<Event> {
        for _ in 0..self.arrived.len() {
            if self.accepts_left == 0 {
                return None;
            }
            let (source, socket) = self.arrived.pop_front()?;
            // The connections of a listener that was closed after it had accepted them are dropped.
            let Some(slot) = self.slot(source) else { continue };
            if matches!(slot.input, InputMode::Accept | InputMode::AcceptPaused) {
                let token = slot.token;
                self.accepts_left -= 1;
                if self.arrived.is_empty() {
                    // All surplus connections are delivered, so the kernel may accept more.
                    self.resume_accepting();
                }
                return Some(Event::Accepted { token, socket });
            }
            self.arrived.push_back((source, socket));
        }
        None
    }

    /// Whether another iteration would deliver connections that were accepted already, or drop accepted
    /// connections of a closed listener.
    pub(super) fn arrived_deliverable(&self) -> bool {
        self.arrived.iter().any(|(source, _)| {
            let slot = &self.slots[source.index as usize];
            !slot.is(*source) || matches!(slot.input, InputMode::Accept | InputMode::AcceptPaused)
        })
    }
}

fn error_of(end: Received) -> io::Error {
    match end {
        Received::Failed(error) => error,
        Received::Data(_) | Received::Eof => io::ErrorKind::UnexpectedEof.into(),
    }
}

/// Number of receives in a row that may report the end of a stream although the kernel's flags say that the
/// stream continues. Each of them is followed by another receive; after this many, the next such report
/// counts as the end.
const EMPTY_RECEIVES_MAX: u8 = 1;
/// If a source has this many held portions, its receive is ended until they are delivered.
const HELD_MAX: usize = 4;
/// Accepting pauses when this many accepted connections wait for delivery beyond the budget.
const ARRIVED_MAX: usize = 64;
