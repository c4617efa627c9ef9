//! The ring driver's state of one descriptor: the purpose of its input, the operations with the kernel, and
//! how their completions are distinguished. The numbers of invariants are those of `uring.rs`.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use sluice_base::heap;

use crate::chunk::Chunk;
use crate::event::{Interest, Received};
use crate::handle::{Fd, Source, Token};

/// The state of one attached descriptor.
#[derive(Debug)]
pub(super) struct SourceSlot {
    pub(super) fd: Option<Fd>,
    pub(super) token: Token,
    pub(super) generation: u32,
    pub(super) life: Life,
    pub(super) input: InputMode,
    pub(super) armed: Armed,
    /// Whether the armed operation was asked to end.
    pub(super) cancelling: bool,
    pub(super) starved: bool,
    pub(super) runnable: bool,
    pub(super) poll: PollState,
    pub(super) in_flight: u8,
    /// Number of consecutive receives that returned 0 although the kernel's flags said that the stream
    /// continues.
    pub(super) empty_receives: u8,
    /// The iteration in which the source last delivered bytes.
    pub(super) iteration: u32,
    /// Index into `held`, or [`NONE`].
    pub(super) held: u32,
    /// Index of the send in flight, or [`NONE`].
    pub(super) send: u32,
}

/// The conditions for which a descriptor is watched, and the conditions of the poll that the kernel holds for
/// the descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PollState {
    /// The conditions that the caller watches.
    pub(super) wanted: Interest,
    /// The conditions of the poll with the kernel; empty if there is none.
    pub(super) armed: Interest,
    /// Whether the armed poll was asked to end.
    pub(super) is_ending: bool,
}

/// Whether the caller has closed or detached the source of this slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// The source was closed, and the slot is kept until none of its operations is with the kernel.
    Closing,
    /// Operations are being ended, and then the descriptor is returned to the caller.
    Detaching,
}

/// The purpose of incoming bytes or connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputMode {
    Idle,
    Accept,
    /// Accepting has paused, after a failure or because too many accepted connections wait for delivery; the
    /// slot is on the pause list.
    AcceptPaused,
    Recv,
    /// A receive into the caller's buffer; the field is its index in the driver's `fills`.
    Fill(u32),
    Ended,
}

/// The input operation that is with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Armed {
    Nothing,
    Recv,
    Accept,
    Fill,
}

/// A receive into the caller's own buffer.
#[derive(Debug)]
pub(super) struct Fill {
    pub buf: Vec<u8>,
    /// Number of bytes that the fill still needs.
    pub wanted: usize,
    /// Whether the fill was ended early: the next completion then ends it.
    pub is_ending: bool,
}

/// Bytes that have arrived and cannot be delivered yet, and the end or error of the stream after them.
#[derive(Debug, Default)]
pub(super) struct EarlyBytes {
    pub(super) chunks: VecDeque<Chunk>,
    pub(super) end: Option<Received>,
}

impl EarlyBytes {
    /// Bytes that the allocator holds, if each chunk has `chunk_bytes` bytes.
    pub(super) fn footprint(&self, chunk_bytes: usize) -> usize {
        heap::deque(&self.chunks) + self.chunks.len() * heap::block(chunk_bytes)
    }
}

impl SourceSlot {
    pub(super) fn vacant() -> SourceSlot {
        SourceSlot {
            fd: None,
            token: Token(0),
            generation: 0,
            life: Life::Open,
            input: InputMode::Idle,
            armed: Armed::Nothing,
            cancelling: false,
            starved: false,
            runnable: false,
            poll: PollState::default(),
            in_flight: 0,
            empty_receives: 0,
            iteration: 0,
            held: NONE,
            send: NONE,
        }
    }

    /// Whether the slot still has the descriptor that `source` names.
    #[inline]
    pub(super) fn is(&self, source: Source) -> bool {
        self.generation == source.generation && self.fd.is_some()
    }

    #[inline]
    pub(super) fn raw_fd(&self) -> RawFd {
        self.fd.as_ref().map_or(-1, |fd| fd.as_fd().as_raw_fd())
    }
}

/// The kind of operation that a completion belongs to; the top byte of the user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum OpKind {
    Recv = 1,
    Send = 2,
    Accept = 3,
    Fill = 4,
    Poll = 5,
}

/// The purpose of an operation without a source; a type apart from `OpKind`, so that completions of sources
/// cost no additional check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Other {
    Wake = 6,
    File = 7,
    Process = 8,
}

impl Other {
    pub(super) fn user_data(self, index: u32) -> u64 {
        (self as u64) << 56 | u64::from(index)
    }

    pub(super) fn parse(user_data: u64) -> Option<(Other, u32)> {
        let other = match user_data >> 56 {
            6 => Other::Wake,
            7 => Other::File,
            8 => Other::Process,
            _ => return None,
        };
        Some((other, user_data as u32))
    }
}

#[inline]
pub(super) fn user_data(kind: OpKind, index: u32) -> u64 {
    (kind as u64) << 56 | u64::from(index)
}

#[inline]
pub(super) fn parse(user_data: u64) -> Option<(OpKind, u32)> {
    let kind = match user_data >> 56 {
        1 => OpKind::Recv,
        2 => OpKind::Send,
        3 => OpKind::Accept,
        4 => OpKind::Fill,
        5 => OpKind::Poll,
        _ => return None,
    };
    Some((kind, user_data as u32))
}

/// The index that means "no entry".
pub(super) const NONE: u32 = u32::MAX;
