//! Slow reads: replies that separate threads produce, so that other clients need not wait.
//!
//! ```text
//!  handler ──a thread is free──► Produce ──► pieces, ahead of the client by 512 KiB at most ──► end ──► resumed
//!     └──────none is free──────► parked, first come first served ──a thread is free──► run again from the beginning
//! ```
//!
//! The *moment* of a slow read is the time at which its handler runs and a thread is free. The handler looks
//! keys up, as any read does, and takes roots of the values (second owners, which keep the values as they
//! are). The thread then reads nothing but these roots.
//!
//! A thread belongs to one read until the reply is whole. Two rules keep slow readers from stopping the
//! others. (a) If a thread has waited a second for its client while other reads wait for a thread, the rest
//! of the reply goes into the client's output. Once another read has waited a second while slow readers
//! hold all threads, this applies to all slow readers at once, so that the seconds do not add up. (b) While
//! slow readers hold all threads, a read runs on the main thread if it has at most four times as many
//! elements as make a read slow.
//!
//! Invariants: (1) no more reads have roots than there are threads; (2) until the server has taken the
//! reply's last byte, it takes no output of the session that follows the reply: that output waits in the
//! outbox (`session/front.rs`); (3) a session that waits for its reply is parked with its request, and no
//! later request of it is executed.

use sluice_base::Now;
use sluice_resp::Outbox;

/// A reply on its way from the thread that produces it to its client.
#[derive(Debug)]
pub struct Producing {
    /// Output that the server may take: replies before this one, and pieces of this one.
    pub unsent: Outbox,
    /// Bytes of the pieces produced so far.
    pub reply_bytes: usize,
    /// The read's moment (see the module), ns of the monotonic clock.
    pub moment_ns: u64,
    /// Time that the handler took on the main thread, ns.
    pub executing_ns: u64,
    /// Time from which on the client has had no room for a piece, ns of the monotonic clock; `None` while it
    /// has room.
    pub full_since_ns: Option<u64>,
    /// Total time in which the client had no room, before `full_since_ns`, ns.
    pub full_ns: u64,
    /// Total time in which the client had no room, as last measured, ns.
    pub waited_ns: u64,
    /// The client took nothing for too long, so the whole rest of the reply goes into its output, and the
    /// roots can be dropped.
    pub is_unbounded: bool,
    /// Bytes of the roots at the read's moment; 0 for values that were taken out of the data.
    pub root_bytes: usize,
    /// Value of [`sluice_keyspace::Effects::left_to_others`] at the read's moment.
    pub left_before: u64,
}

impl Producing {
    /// Notes that the client has room for a piece.
    pub fn note_room(&mut self, now: Now) {
        if let Some(since_ns) = self.full_since_ns.take() {
            self.full_ns += now.mono_ns.saturating_sub(since_ns);
        }
    }

    /// Notes that the client has no room for a piece. Returns how long it has had none since it last had
    /// room, and how long in total, ns.
    pub fn note_full(&mut self, now: Now) -> (u64, u64) {
        let since_ns = *self.full_since_ns.get_or_insert(now.mono_ns);
        let full_ns = now.mono_ns.saturating_sub(since_ns);
        self.waited_ns = self.full_ns + full_ns;
        (full_ns, self.waited_ns)
    }

    /// Time from the read's moment until now, without the time in which the client had no room, ns.
    pub fn produced_ns(&mut self, now: Now) -> u64 {
        self.note_room(now);
        now.mono_ns.saturating_sub(self.moment_ns).saturating_sub(self.full_ns)
    }
}

/// Whether a client can be given the next piece of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceRoom {
    /// The client has room for a piece.
    Room,
    /// The client must take some of the earlier pieces first.
    Full,
    /// The client is gone.
    Gone,
}
