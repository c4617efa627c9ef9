//! Slow reads: replies that threads of their own produce from shared roots, so that nobody waits for them.
//!
//! ```text
//!  handler ──a thread is free──► Produce ──► pieces, ahead of the client by 512 KiB at most ──► end ──► resumed
//!     └──────none is free──────► parked, first come first served ──a thread is free──► run again from the beginning
//! ```
//!
//! The *moment* of a slow read is when its handler runs and a thread is free: the handler looks keys up and takes roots, as any
//! read does, and what follows reads nothing but these roots.
//!
//! A thread is its read's until the reply is whole. So that slow readers do not stop the others: (a) whose thread has waited a second
//! for its client, while others wait for a thread, gets the rest into its output, and so does every slow reader while one of the others
//! has waited a second, so that the seconds do not add up; (b) while slow readers have all threads, reads of up to
//! four times the bound run in place.
//!
//! Invariants: (1) no more reads have roots than there are threads; (2) until the reply's last byte the server takes nothing
//! else of the session: what comes behind the reply waits in `Session::outbox`; (3) a session that waits for its reply is parked
//! with its request, and nothing behind that is executed.

use crate::action::Action;
use crate::args::Args;
use crate::blocking::WaitFor;
use crate::ctx::{Outcome, Run};
use crate::engine::Engine;
use crate::exec::Next;
use crate::prepare::Hashing;
use crate::process::Process;
use crate::session::{Closing, ReplyMode, Session};
use crate::session_key::SessionKey;
use sluice_base::{Bytes, Now, heap};
use sluice_command::{Named, Spec};
use sluice_keyspace::{Str, ValueRef};
use sluice_resp::{Outbox, Protocol, Reply, Request};
use sluice_value::{Hash, HashRef, List, ListRef, Set, SetRef, Value, Zset, ZsetRef};

/// Whether more of a reply is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is.
    More,
    /// The reply is whole.
    End,
}

/// Makes a reply out of shared roots, piece by piece. It knows no keys and no clients.
pub(crate) trait Production: Send + std::fmt::Debug {
    /// Goes on until [`is_piece`] says that the reply is long enough, or a millisecond or so of work is done.
    /// Roots that are not needed any more can be taken out.
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress;
}

/// A reply that is made whole, and handed over in pieces.
struct OneStep<F> {
    make: Option<F>,
    made: Vec<u8>,
    /// Bytes of `made` that were handed over.
    handed_over: usize,
}

impl<F> std::fmt::Debug for OneStep<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneStep").field("made", &self.made.len()).finish_non_exhaustive()
    }
}

impl<F: FnOnce(&[Value], &mut Reply<'_>) + Send> Production for OneStep<F> {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        if let Some(make) = self.make.take() {
            let mut made = Outbox::new();
            make(roots, &mut Reply::new(&mut made, reply.protocol()));
            roots.clear();
            self.made = if made.is_plain() { made.into_parts().0 } else { made.flatten() };
            return Progress::More;
        }
        let end = self.made.len().min(self.handed_over + PIECE_BYTES);
        reply.raw(&self.made[self.handed_over..end]);
        self.handed_over = end;
        if end < self.made.len() { Progress::More } else { Progress::End }
    }
}

/// A read that another thread produces: its roots, and what is to be made of them.
#[derive(Debug)]
pub struct SlowRead {
    roots: Vec<Value>,
    production: Box<dyn Production>,
    proto: Protocol,
    /// The roots were taken out of the data: the read holds no earlier version of anything.
    is_of_taken: bool,
    /// Bytes of the last piece: the next one may have as many.
    last_len: usize,
}

impl SlowRead {
    /// A read of these roots, which `production` gets in the same order.
    pub(crate) fn new(roots: Vec<Value>, production: impl Production + 'static) -> SlowRead {
        let production = Box::new(production);
        SlowRead { roots, production, proto: Protocol::Resp2, is_of_taken: false, last_len: 0 }
    }

    /// The reply of a command that has taken these roots out of the data.
    pub(crate) fn of_taken(roots: Vec<Value>, production: impl Production + 'static) -> SlowRead {
        SlowRead { is_of_taken: true, ..SlowRead::new(roots, production) }
    }

    /// A read whose reply `make` writes in one step: until it has, nobody can end it.
    pub(crate) fn in_one_step(
        roots: Vec<Value>,
        make: impl FnOnce(&[Value], &mut Reply<'_>) + Send + 'static,
    ) -> SlowRead {
        SlowRead::new(roots, OneStep { make: Some(make), made: Vec::new(), handed_over: 0 })
    }

    /// The next piece of the reply: of about 256 KiB, large values not counted, which it shares. It may be empty before the end.
    pub fn next_piece(&mut self) -> (Outbox, Progress) {
        let mut piece = Outbox::from_buffer(Vec::with_capacity(self.last_len.min(PIECE_BYTES)));
        let progress = self.production.go_on(&mut self.roots, &mut Reply::new(&mut piece, self.proto));
        self.last_len = piece.len();
        // The main thread only passes it on.
        piece.share_runs(SHARED_RUN_BYTES_MIN);
        (piece, progress)
    }

    /// Bytes of the roots, whoever else has them; 0 of what was taken out of the data.
    fn root_bytes(&self) -> usize {
        if self.is_of_taken { 0 } else { self.roots.iter().map(Value::heap_bytes).sum() }
    }

    /// Bytes of the roots that nobody else has any more, because the data have changed since. Cost: one step for each of their parts that is not
    /// shared.
    pub fn retained_bytes(&self) -> usize {
        if self.is_of_taken {
            return 0;
        }
        self.roots.iter().map(Value::own_bytes).sum()
    }
}

/// Whether a reply has as many bytes as a piece shall have.
#[inline]
pub(crate) fn is_piece(reply: &mut Reply<'_>) -> bool {
    reply.outbox().len() >= PIECE_BYTES - ELEMENT_BYTES_MAX
}

/// A root of a value: O(1), but for one that lives in the block of its entry.
pub(crate) fn root_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Str(text @ Str::Int(_)) => Value::Str(Bytes::from_vec(text.to_vec())),
        ValueRef::Str(Str::Inline(bytes)) => Value::Str(Bytes::copy_from(bytes)),
        ValueRef::Str(Str::Shared(bytes)) => Value::Str(bytes.clone()),
        ValueRef::Str(Str::Pages(pages)) => Value::Pages(pages.share()),
        ValueRef::List(ListRef::Inline { bytes, encoding }) => {
            Value::List(List::from_inline(bytes, encoding))
        }
        ValueRef::List(ListRef::Value(list)) => Value::List(list.share()),
        ValueRef::Hash(HashRef::Inline { bytes, encoding }) => {
            Value::Hash(Hash::from_inline(bytes, encoding))
        }
        ValueRef::Hash(HashRef::Value(hash)) => Value::Hash(hash.share()),
        ValueRef::Set(SetRef::Inline { bytes, encoding }) => Value::Set(Set::from_inline(bytes, encoding)),
        ValueRef::Set(SetRef::Value(set)) => Value::Set(set.share()),
        ValueRef::Zset(ZsetRef::Inline { bytes, encoding }) => {
            Value::Zset(Zset::from_inline(bytes, encoding))
        }
        ValueRef::Zset(ZsetRef::Value(zset)) => Value::Zset(zset.share()),
        ValueRef::Stream(stream) => Value::Stream(stream.share()),
    }
}

/// What the engine remembers of slow reads.
#[derive(Debug, Default)]
pub struct SlowReads {
    /// How many can be produced at a time; 0: none.
    threads: usize,
    /// Threads that produce one.
    running: usize,
    /// Of these, the ones that mostly wait for a client to take what it was given, as the server said last.
    held: usize,
    /// Bytes that only slow reads hold, as the server said last.
    retained_bytes: usize,
    /// Begun so far.
    pub(crate) total: u64,
    /// Reads so far that were slow and produced where they ran.
    pub(crate) in_place: u64,
}

impl SlowReads {
    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    fn has_free_thread(&self) -> bool {
        self.running < self.threads
    }

    /// Whether slow clients have all threads: whoever waits for one waits for these clients, and not for work.
    fn are_threads_held(&self) -> bool {
        !self.has_free_thread() && self.held >= self.running
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset_counts(&mut self) {
        (self.total, self.in_place) = (0, 0);
    }
}

/// What a handler asks whether another thread is to produce its reply.
pub struct SlowReadAsk<'a> {
    pub(crate) reads: &'a mut SlowReads,
    /// A read that visits more is slow.
    pub(crate) elements_max: usize,
    pub(crate) mode: ReplyMode,
    /// The command runs inside another one, which goes on behind it.
    pub(crate) is_nested: bool,
}

impl SlowReadAsk<'_> {
    /// Whether a read that visits so many elements is slow, and can be produced elsewhere. Where this is so, the handler ends with
    /// [`SlowReadAsk::begin`].
    #[inline]
    pub(crate) fn suits(&mut self, elements: usize) -> bool {
        elements > self.elements_max && self.is_possible(elements)
    }

    /// The same for so many bytes of strings.
    #[inline]
    pub(crate) fn suits_bytes(&mut self, bytes: usize) -> bool {
        self.suits(bytes / BYTES_OF_ELEMENT)
    }

    #[cold]
    fn is_possible(&mut self, elements: usize) -> bool {
        let is_clients = match self.mode {
            ReplyMode::On | ReplyMode::Off | ReplyMode::Skipping | ReplyMode::SkipNext => true,
            // A reply ends a replica.
            ReplyMode::Attaching | ReplyMode::Forbidden => false,
        };
        let can_begin = self.reads.threads > 0 && self.reads.retained_bytes < RETAINED_BYTES_MAX;
        // Everybody waits two milliseconds for such a read, and its client would wait for as long as others take to read.
        let is_quick = elements / QUICK_MULTIPLE <= self.elements_max;
        let is_better_here = is_quick && self.reads.are_threads_held();
        let is_possible = is_clients && !self.is_nested && can_begin && !is_better_here;
        self.reads.in_place += u64::from(!is_possible);
        is_possible
    }

    /// Elements that a read may visit where it runs: for reads that have to count them first.
    pub(crate) fn elements_max(&self) -> usize {
        self.elements_max
    }

    /// Whether a command whose reply is to be produced elsewhere has to wait for a thread. One that changes the data asks before it does.
    #[cold]
    pub(crate) fn must_wait(&self) -> bool {
        self.mode == ReplyMode::On && !self.reads.has_free_thread()
    }

    /// Has the read that `make` returns produced, once a thread is free for it. A reply that nobody is sent is not produced.
    #[cold]
    pub(crate) fn begin(&self, make: impl FnOnce() -> SlowRead) -> Run {
        if self.mode != ReplyMode::On {
            return Ok(Outcome::Done);
        }
        if self.must_wait() {
            return Ok(Outcome::Wait(Box::new(WaitFor::SlowRead { since_ns: 0 })));
        }
        Ok(Outcome::Produce(Box::new(make())))
    }
}

/// A reply on its way from the thread that produces it to its client.
#[derive(Debug)]
pub struct Producing {
    /// What the server may take: replies before this one, and pieces of this one.
    pub(crate) unsent: Outbox,
    /// Bytes of the pieces so far.
    reply_bytes: usize,
    /// Its moment, ns of the monotonic clock.
    moment_ns: u64,
    /// How long the command took where it ran.
    executing_ns: u64,
    /// Since when the client has had no room for a piece, ns of the monotonic clock; `None`: it has.
    full_since_ns: Option<u64>,
    /// How long it had none before that, ns.
    full_ns: u64,
    /// How long it had none in all, at the last look.
    waited_ns: u64,
    /// The client took nothing for too long: all of the rest goes into its output, so that the roots go.
    is_unbounded: bool,
    /// Bytes of the roots at the moment; 0 of what was taken out of the data.
    root_bytes: usize,
    /// See [`sluice_keyspace::Effects::left_to_others`], at the moment.
    left_before: u64,
}

impl Producing {
    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        heap::boxed::<Producing>() + self.unsent.footprint()
    }

    /// The client has room for a piece.
    fn note_room(&mut self, now: Now) {
        if let Some(since_ns) = self.full_since_ns.take() {
            self.full_ns += now.mono_ns.saturating_sub(since_ns);
        }
    }

    /// It has none: for how long now, and in all, ns.
    fn note_full(&mut self, now: Now) -> (u64, u64) {
        let since_ns = *self.full_since_ns.get_or_insert(now.mono_ns);
        let full_ns = now.mono_ns.saturating_sub(since_ns);
        self.waited_ns = self.full_ns + full_ns;
        (full_ns, self.waited_ns)
    }

    /// How long the reply has taken from its moment until now, without the time in which the client had no room for it, ns.
    fn produced_ns(&mut self, now: Now) -> u64 {
        self.note_room(now);
        now.mono_ns.saturating_sub(self.moment_ns).saturating_sub(self.full_ns)
    }
}

/// Whether a client is to be given the next piece of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceRoom {
    /// It is.
    Room,
    /// Not before it has taken some of the others.
    Full,
    /// Never: it is gone.
    Gone,
}

impl Engine {
    /// So many slow reads can be produced at a time.
    pub fn set_slow_read_threads(&mut self, threads: usize) {
        self.control.slow_reads.set_threads(threads);
    }

    /// What slow reads hold alone: `each_alone` is the sum of what every one of them holds, and nobody else, not even another one.
    /// `holding`: those that still have their roots.
    ///
    /// What two reads hold together is not in that sum. The bytes that keys have lost to others since the first of them began are an upper
    /// bound of all. A cut loses far more than reads, so that beside one the sum has to do.
    pub fn set_slow_read_retained(&mut self, each_alone: usize, holding: impl Iterator<Item = SessionKey>) {
        let sessions = &self.sessions;
        let producing = holding.filter_map(|key| sessions.get(key)?.producing.as_deref());
        let (mut reads, mut roots, mut left_before) = (0, 0, u64::MAX);
        for read in producing.filter(|read| read.root_bytes > 0) {
            reads += 1;
            roots += read.root_bytes;
            left_before = left_before.min(read.left_before);
        }
        let left = self.effects.left_to_others().saturating_sub(left_before);
        let is_shared = reads > 1 && !self.has_job();
        let together = if is_shared { usize::try_from(left).unwrap_or(roots).min(roots) } else { 0 };
        self.control.slow_reads.retained_bytes = each_alone.max(together);
    }

    /// No thread is free for a slow read: it has not happened.
    #[cold]
    pub(crate) fn put_off_slow_read(&mut self, session: &mut Session, request: Request<'_>) {
        let _ = self.effects.take_lookups();
        session.caller.net_in = session.caller.net_in.saturating_sub(request.wire_len() as u64);
    }

    /// A client's command was run again: LATENCY learns how long a slow read waited for a thread, unless it still finds none.
    pub(crate) fn note_slow_read_waited(&mut self, on: WaitFor, next: &Next, now: Now) {
        let still_waits = matches!(next, Next::Wait(again) if matches!(**again, WaitFor::SlowRead { .. }));
        if let WaitFor::SlowRead { since_ns } = on
            && !still_waits
        {
            self.note_latency("slow-read-wait", now, now.mono_ns.saturating_sub(since_ns));
        }
    }

    /// A slow read has taken its roots.
    #[cold]
    pub(crate) fn begin_slow_read(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        mut read: Box<SlowRead>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        let end = process.now();
        let moment_ns = now.mono_ns;
        let executing_ns = end.mono_ns.saturating_sub(moment_ns);
        *now = end;
        self.stats.iteration_command_ns += executing_ns;
        let unsent = std::mem::take(&mut session.outbox);
        session.producing = Some(Box::new(Producing {
            unsent,
            reply_bytes: 0,
            moment_ns,
            executing_ns,
            full_since_ns: None,
            full_ns: 0,
            waited_ns: 0,
            is_unbounded: false,
            root_bytes: read.root_bytes(),
            left_before: self.effects.left_to_others(),
        }));
        session.note_unsent(&mut self.control.ready);
        if !self.control.monitors.is_empty() && !session.is_rerun {
            self.feed_monitors(session, spec, args, end);
        }
        read.proto = session.caller.proto;
        self.control.slow_reads.running += 1;
        self.control.slow_reads.total += 1;
        self.actions.push(Action::Produce(session.key, read));
        Next::Wait(Box::new(WaitFor::Reply))
    }

    /// Whether a client is to be given the next piece of its reply.
    pub fn piece_room(&mut self, key: SessionKey, now: Now) -> PieceRoom {
        let (others_waited_ns, are_threads_held) =
            (self.longest_wait_ns(now), self.control.slow_reads.are_threads_held());
        let Some(session) = self.sessions.get_mut(key) else { return PieceRoom::Gone };
        let in_flight = session.in_flight;
        let Some(producing) = session.producing.as_mut().filter(|_| session.caller.closing != Closing::Now)
        else {
            return PieceRoom::Gone;
        };
        if producing.is_unbounded || producing.unsent.len() + in_flight + PIECE_BYTES <= AHEAD_BYTES {
            producing.note_room(now);
            return PieceRoom::Room;
        }
        let (full_ns, all_ns) = producing.note_full(now);
        let is_too_slow = match others_waited_ns {
            None => false,
            Some(PATIENCE_NS..) if are_threads_held => all_ns >= SLOW_READER_NS,
            // Threads that work are waited for, too: their clients are as quick as they can be.
            Some(_) => all_ns >= PATIENCE_NS,
        };
        producing.is_unbounded = full_ns >= PATIENCE_NS || is_too_slow;
        match producing.is_unbounded {
            true => PieceRoom::Room,
            false => PieceRoom::Full,
        }
    }

    /// How long the first of the clients that wait for a thread has waited, ns.
    fn longest_wait_ns(&self, now: Now) -> Option<u64> {
        let first = self.sessions.get(self.control.blocking.next_slow_read()?)?;
        let WaitFor::SlowRead { since_ns } = first.waiting.as_ref()?.on else { return None };
        Some(now.mono_ns.saturating_sub(since_ns))
    }

    /// Whether the thread that produces a client's reply has waited for the client rather than worked.
    pub fn is_slow_reader(&self, key: SessionKey) -> bool {
        let producing = self.sessions.get(key).and_then(|session| session.producing.as_ref());
        producing.is_some_and(|producing| producing.waited_ns >= SLOW_READER_NS)
    }

    /// So many of the threads wait for slow readers.
    pub fn set_slow_reads_held(&mut self, held: usize) {
        self.control.slow_reads.held = held;
    }

    /// Takes a piece of a client's reply.
    pub fn take_piece(&mut self, key: SessionKey, mut piece: Outbox, process: &mut dyn Process) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(producing) = &mut session.producing else { return };
        producing.reply_bytes += piece.len();
        producing.unsent.append(&mut piece);
        session.note_unsent(&mut self.control.ready);
        if session.output_bytes() >= self.control.limits.output_floor {
            self.check_output_limit(key, process);
        }
    }

    /// The client was given the last piece of its reply, which took so much processor time: it goes on. A client that is gone is
    /// none of it.
    pub fn end_slow_read(&mut self, key: SessionKey, produced_ns: u64, process: &mut dyn Process) {
        let Some(mut session) = self.sessions.take(key) else { return };
        if let Some(mut producing) = session.producing.take() {
            let now = process.recent();
            self.note_latency("slow-read", now, producing.produced_ns(now));
            let Producing { mut unsent, reply_bytes, executing_ns, .. } = *producing;
            unsent.append(&mut session.outbox);
            session.outbox = unsent;
            self.account_slow_read(&mut session, (executing_ns, produced_ns), reply_bytes, process);
            self.limit_output(&mut session, process);
            self.resume(&mut session, process);
        }
        self.sessions.put_back(session);
    }

    /// Counts a slow read that has ended, and takes its request back.
    fn account_slow_read(
        &mut self,
        session: &mut Session,
        (executing_ns, produced_ns): (u64, u64),
        reply_bytes: usize,
        process: &mut dyn Process,
    ) {
        let Some(waiting) = self.unpark(session) else { return };
        let Named::Command(spec) = waiting.prepared.named else { return };
        let now = process.recent();
        session.caller.last_s = now.unix_s();
        let duration_ns = executing_ns + produced_ns;
        self.account(session, spec, duration_ns, false);
        // The iteration's own part was counted when it ran.
        self.stats.iteration_command_ns -= duration_ns;
        let event = if spec.flags.has(sluice_command::Flags::FAST) { "fast-command" } else { "command" };
        self.note_latency(event, now, executing_ns);
        let request = waiting.request.at(0);
        let hashing = Hashing { hasher: self.keyspace.hasher(), hashes: Vec::new() };
        let args = Args::new(&request, &waiting.prepared, &hashing);
        self.add_to_commandlog(session, spec, args, duration_ns, request.wire_len(), reply_bytes, now);
    }

    /// A session ends. The read whose reply is on its way to the session has happened, as has what a pop took out of the data: it
    /// counts, with the time that it took where it ran.
    pub(crate) fn end_lost_read(&mut self, session: &mut Session) {
        let Some(producing) = session.producing.take() else { return };
        if let Some(waiting) = self.unpark(session)
            && let Named::Command(spec) = waiting.prepared.named
        {
            self.account(session, spec, producing.executing_ns, false);
            // The iteration's own part was counted when it ran.
            self.stats.iteration_command_ns -= producing.executing_ns;
        }
    }

    /// A thread that produced a slow read has no roots any more: the next one can begin.
    pub fn slow_thread_is_free(&mut self, process: &mut dyn Process) {
        let reads = &mut self.control.slow_reads;
        reads.running = reads.running.saturating_sub(1);
        self.control.blocking.thread_is_free();
        self.serve_waiting(process);
    }

    /// Begins the slow reads that wait, in the order of their coming, as long as a thread is free.
    pub(crate) fn serve_slow_reads(&mut self, process: &mut dyn Process) {
        while self.control.slow_reads.has_free_thread()
            && let Some(client) = self.control.blocking.next_slow_read()
        {
            self.run_waiting(client, process);
        }
    }
}

impl Session {
    /// Lists a session for which a thread produces, if the server has something to take.
    fn note_unsent(&mut self, ready: &mut Vec<SessionKey>) {
        if !self.queued && !self.unsent_mut().is_empty() {
            self.queued = true;
            ready.push(self.key);
        }
    }
}

/// Bytes of a piece at most; values that it shares are more.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that one element adds to a piece at most, a field with its value: what is larger is shared.
const ELEMENT_BYTES_MAX: usize = 33 << 10;
/// Runs of fewer bytes are copied when a piece is taken.
const SHARED_RUN_BYTES_MIN: usize = 4 << 10;
/// What a client has not taken is less than this; the thread is ahead by two pieces more, so that there are 1 MiB in all.
const AHEAD_BYTES: usize = 512 << 10;
/// A client that makes no room for a piece for so long gets the rest into its output: at a stretch, or in all while others wait for
/// its thread. So does a slow reader while one of the others has waited for so long.
const PATIENCE_NS: u64 = 1_000_000_000;
/// A client that had no room for so long in all is a slow reader.
const SLOW_READER_NS: u64 = 20_000_000;
/// A read of so many times `slow-read-elements` is produced where it runs while slow readers have all threads.
const QUICK_MULTIPLE: usize = 4;
/// Bytes that only slow reads hold; from here on reads are produced where they run.
const RETAINED_BYTES_MAX: usize = 64 << 20;
/// So many bytes of a string take as long as an element: 4,096 elements are 1 MiB.
const BYTES_OF_ELEMENT: usize = 256;
