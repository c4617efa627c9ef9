//! Slow reads: replies that threads of their own produce from shared roots, so that nobody waits for them.
//!
//! ```text
//!  handler ──a thread is free──► Produce ──► pieces, ahead of the client by 512 KiB at most ──► end ──► resumed
//!     └──────none is free──────► parked, first come first served ──a thread is free──► run again from the beginning
//! ```
//!
//! The *moment* of a slow read is when its handler runs and a thread is free: the handler looks keys up and
//! takes roots, as any read does, and what follows reads nothing but these roots.
//!
//! A thread is its read's until the reply is whole. So that slow readers do not stop the others: (a) whose
//! thread has waited a second for its client, while others wait for a thread, gets the rest into its output,
//! and so does every slow reader while one of the others has waited a second, so that the seconds do not add
//! up; (b) while slow readers have all threads, reads of up to four times the bound run in place.
//!
//! Invariants: (1) no more reads have roots than there are threads; (2) until the reply's last byte the
//! server takes nothing else of the session: what comes behind the reply waits in its outbox
//! (`session/front.rs`); (3) a session that waits for its reply is parked with its request, and nothing
//! behind that is executed.

use sluice_base::Now;
use sluice_resp::Outbox;

/// A reply on its way from the thread that produces it to its client.
#[derive(Debug)]
pub struct Producing {
    /// What the server may take: replies before this one, and pieces of this one.
    pub unsent: Outbox,
    /// Bytes of the pieces so far.
    pub reply_bytes: usize,
    /// Its moment, ns of the monotonic clock.
    pub moment_ns: u64,
    /// How long the command took where it ran.
    pub executing_ns: u64,
    /// Since when the client has had no room for a piece, ns of the monotonic clock; `None`: it has.
    pub full_since_ns: Option<u64>,
    /// How long it had none before that, ns.
    pub full_ns: u64,
    /// How long it had none in all, at the last look.
    pub waited_ns: u64,
    /// The client took nothing for too long: all of the rest goes into its output, so that the roots go.
    pub is_unbounded: bool,
    /// Bytes of the roots at the moment; 0 of what was taken out of the data.
    pub root_bytes: usize,
    /// See [`sluice_keyspace::Effects::left_to_others`], at the moment.
    pub left_before: u64,
}

impl Producing {
    /// The client has room for a piece.
    pub fn note_room(&mut self, now: Now) {
        if let Some(since_ns) = self.full_since_ns.take() {
            self.full_ns += now.mono_ns.saturating_sub(since_ns);
        }
    }

    /// It has none: for how long now, and in all, ns.
    pub fn note_full(&mut self, now: Now) -> (u64, u64) {
        let since_ns = *self.full_since_ns.get_or_insert(now.mono_ns);
        let full_ns = now.mono_ns.saturating_sub(since_ns);
        self.waited_ns = self.full_ns + full_ns;
        (full_ns, self.waited_ns)
    }

    /// How long the reply has taken from its moment until now, without the time in which the client had no
    /// room for it, ns.
    pub fn produced_ns(&mut self, now: Now) -> u64 {
        self.note_room(now);
        now.mono_ns.saturating_sub(self.moment_ns).saturating_sub(self.full_ns)
    }
}

/// Whether a client is to be given the next piece of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceRoom {
    /// There is room.
    Room,
    /// Not before it has taken some of the others.
    Full,
    /// Never: it is gone.
    Gone,
}
