//! The readiness driver's state of one descriptor, and the kernel events that concern it.

use rustix::event::PollFlags;

use crate::event::Interest;
use crate::handle::{Fd, Source, Token};
use crate::sys::conditions::flags_of;

/// The index that means "no entry".
pub(super) const NONE: u32 = u32::MAX;

/// The state of one attached descriptor.
#[derive(Debug)]
pub(super) struct SourceSlot {
    pub(super) fd: Option<Fd>,
    pub(super) token: Token,
    pub(super) generation: u32,
    pub(super) registered: PollFlags,
    pub(super) input: InputMode,
    pub(super) watch: Interest,
    /// Index of the send in flight, or [`NONE`].
    pub(super) send: u32,
}

/// The purpose of incoming events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputMode {
    Idle,
    Accept,
    /// Accepting has paused after a failure; the slot is on the pause list.
    AcceptPaused,
    Recv,
    /// A receive into the caller's buffer; the field is its index in the driver's `fills`.
    Fill(u32),
    /// A read or a sync of a file; the field is the file's index in the table of files.
    FileRead(u32),
    /// A write to a file; the field is the file's index in the table of files. The write waits until the
    /// file, such as a pipe, can take more bytes.
    FileWrite(u32),
    /// The descriptor of a process whose end is awaited; the field is the index of the wait.
    Process(u32),
    Ended,
}

impl SourceSlot {
    pub(super) fn vacant() -> SourceSlot {
        SourceSlot {
            fd: None,
            token: Token(0),
            generation: 0,
            registered: PollFlags::empty(),
            input: InputMode::Idle,
            watch: Interest::NONE,
            send: NONE,
        }
    }

    /// Whether the slot still has the descriptor that `source` names.
    #[inline]
    pub(super) fn is(&self, source: Source) -> bool {
        self.generation == source.generation && self.fd.is_some()
    }

    /// Whether an event is only for a plain receive into a chunk.
    #[inline]
    pub(super) fn only_receives(&self, source: Source, bits: PollFlags) -> bool {
        self.generation == source.generation
            && self.input == InputMode::Recv
            && self.send == NONE
            && self.watch.is_empty()
            && bits.intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP)
    }

    /// Kernel events that an operation of the slot waits for.
    #[inline]
    pub(super) fn wanted(&self) -> PollFlags {
        let mut flags = self.input.flags();
        if self.send != NONE {
            flags |= PollFlags::OUT;
        }
        if !self.watch.is_empty() {
            flags |= flags_of(self.watch);
        }
        flags
    }

    /// The operations that an event concerns, as bits. An error or a hang-up concerns all: their system
    /// calls return the details.
    #[inline]
    pub(super) fn todo(&self, bits: PollFlags) -> u8 {
        let trouble = PollFlags::ERR | PollFlags::HUP;
        let mut todo = 0;
        if self.send != NONE && bits.intersects(PollFlags::OUT | trouble) {
            todo |= TODO_SEND;
        }
        if !self.watch.is_empty() && bits.intersects(flags_of(self.watch) | trouble) {
            todo |= TODO_WATCH;
        }
        let input = self.input.flags();
        if !input.is_empty() && bits.intersects(input | trouble) {
            todo |= TODO_INPUT;
        }
        todo
    }
}

impl InputMode {
    /// Kernel events that this mode waits for.
    #[inline]
    pub(super) fn flags(self) -> PollFlags {
        match self {
            InputMode::Accept
            | InputMode::Recv
            | InputMode::Fill(_)
            | InputMode::FileRead(_)
            | InputMode::Process(_) => PollFlags::IN,
            InputMode::FileWrite(_) => PollFlags::OUT,
            InputMode::Idle | InputMode::AcceptPaused | InputMode::Ended => PollFlags::empty(),
        }
    }
}

pub(super) const TODO_SEND: u8 = 1;
pub(super) const TODO_WATCH: u8 = 2;
pub(super) const TODO_INPUT: u8 = 4;
/// The last receive filled its chunk. If the receiver now asks for the rest in a buffer of its own, a receive
/// into that buffer is tried at once.
pub(super) const TODO_FILL_NEXT: u8 = 8;
/// The receiver's own buffer is full, so a receive of the following bytes into a chunk is tried at once.
pub(super) const TODO_RECV_NEXT: u8 = 16;
