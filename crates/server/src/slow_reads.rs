//! Slow reads: the threads that produce replies from roots (second owners of large values), and the pieces
//! that they hand to the main thread.
//!
//! ```text
//!  main thread ──SlowRead──► pool ──► thread: piece ──► hand-over of one piece ──► main thread ──► session ──► socket's owner
//!       ▲                                │                       │
//!       └───────────── woken ────────────┴── waits for room ─────┘
//! ```
//!
//! Invariants: (1) a thread is at most two pieces ahead of the main thread, of which one was handed over and
//! one is finished;
//! (2) the roots are dropped on the thread that had them, before the main thread learns that the thread is
//! free; (3) a read is cancelled if its client is gone, and at the end of the server; it ends after its
//! present piece; (4) the main thread waits for these threads only at the end of the server.

use crate::iteration_stats::thread_ns;
use crate::threads::Thread;
use sluice_base::SessionKey;
use sluice_commands::{Progress, SlowRead};
use sluice_control::process::Process;
use sluice_engine::Engine;
use sluice_evloop::{Finished, JobOutcome, Mailbox, Sender, Token, Waker, WorkerPool};
use sluice_resp::Outbox;
use sluice_session::slow_reads::PieceRoom;
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The slow-read threads, and the reads under way.
pub struct SlowReadThreads {
    threads: usize,
    /// The threads, which are started with the server; `None` if this has failed, so that the next slow read
    /// tries again.
    pool: Option<WorkerPool>,
    waker: Waker,
    sender: Sender<Finished<u64>>,
    mailbox: Mailbox<Finished<u64>>,
    under_way: Vec<SlowReadUnderWay>,
    next_token: u64,
}

/// A read whose reply is being produced, or was not completely handed to the client.
struct SlowReadUnderWay {
    key: SessionKey,
    token: Token,
    hand_over: Arc<HandOver>,
    /// Processor time of the thread; `None` until the thread has finished.
    produced_ns: Option<u64>,
    is_over: bool,
}

/// The hand-over of pieces from a thread to the main thread.
#[derive(Default)]
struct HandOver {
    state: Mutex<Handed>,
    /// Signals that there is room for a piece, or that the read was cancelled.
    changed: Condvar,
    /// Number of bytes that only this read keeps alive. It orders no other accesses (relaxed).
    retained: AtomicUsize,
}

#[derive(Default)]
struct Handed {
    pieces: VecDeque<Outbox>,
    is_cancelled: bool,
}

impl HandOver {
    fn lock(&self) -> MutexGuard<'_, Handed> {
        // The lock is never poisoned, because a panic ends the process.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a piece over as soon as there is room. Returns `false` if the read was cancelled. Calls
    /// `waits` repeatedly during the wait.
    fn put(&self, piece: Outbox, waker: &Waker, mut waits: impl FnMut()) -> bool {
        let mut state = self.lock();
        while state.pieces.len() >= HANDED_OVER_MAX && !state.is_cancelled {
            drop(state);
            waits();
            state = self.lock();
            if state.pieces.len() >= HANDED_OVER_MAX && !state.is_cancelled {
                let waited = self.changed.wait_timeout(state, LOOK_EVERY);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        if state.is_cancelled {
            return false;
        }
        if !piece.is_empty() {
            state.pieces.push_back(piece);
            drop(state);
            waker.wake();
        }
        true
    }

    fn take(&self) -> Option<Outbox> {
        let piece = self.lock().pieces.pop_front();
        if piece.is_some() {
            self.changed.notify_one();
        }
        piece
    }

    fn is_empty(&self) -> bool {
        self.lock().pieces.is_empty()
    }

    fn cancel(&self) {
        let pieces = {
            let mut state = self.lock();
            state.is_cancelled = true;
            std::mem::take(&mut state.pieces)
        };
        drop(pieces);
        self.changed.notify_one();
    }

    /// Produces a reply on a thread. Returns the processor time used, ns.
    fn produce(&self, mut read: Box<SlowRead>, waker: &Waker) -> u64 {
        let began_ns = thread_ns();
        for number in 1_u64.. {
            let (piece, progress) = read.next_piece();
            let note_retained = || self.retained.store(read.retained_bytes(), Relaxed);
            if number.is_multiple_of(LOOK_EVERY_PIECES) {
                note_retained();
            }
            if !self.put(piece, waker, note_retained) || progress == Progress::End {
                break;
            }
        }
        // Large values are freed on this thread, so that the main thread need not free them.
        drop(read);
        self.retained.store(0, Relaxed);
        thread_ns().saturating_sub(began_ns)
    }
}

impl SlowReadThreads {
    /// Starts the threads. `threads` is the value of the directive `slow-read-threads`; 0 means half of
    /// the number of processors.
    pub fn new(threads: usize, waker: Waker) -> SlowReadThreads {
        let (sender, mailbox) = Mailbox::new(waker.clone());
        let half = || std::thread::available_parallelism().map_or(1, |all| (all.get() / 2).max(1));
        let threads = if threads == 0 { half() } else { threads };
        SlowReadThreads {
            threads,
            // If the start fails, the first slow read tries again, and reports the error.
            pool: open_pool(threads).ok(),
            waker,
            sender,
            mailbox,
            under_way: Vec::new(),
            next_token: 0,
        }
    }

    /// Number of slow reads that can run at the same time.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Whether no read is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Begins to produce a client's reply. Errors: no threads could be started, and the reply was
    /// produced on the calling thread.
    pub fn begin(&mut self, key: SessionKey, mut read: Box<SlowRead>) -> std::io::Result<()> {
        let hand_over = Arc::new(HandOver::default());
        self.next_token += 1;
        let token = Token(self.next_token);
        let failure = match &self.pool {
            Some(_) => None,
            None => match open_pool(self.threads) {
                Ok(pool) => {
                    self.pool = Some(pool);
                    None
                }
                Err(error) => Some(error),
            },
        };
        let produced_ns = match &self.pool {
            Some(pool) => {
                let (own, waker) = (hand_over.clone(), self.waker.clone());
                // The engine begins no more reads than there are threads, so the queue has room.
                let _ = pool.submit(&self.sender, token, move |_| own.produce(read, &waker));
                None
            }
            None => Some(produce_all(&hand_over, &mut read)),
        };
        self.under_way.push(SlowReadUnderWay { key, token, hand_over, produced_ns, is_over: false });
        failure.map_or(Ok(()), Err)
    }

    /// Hands pieces from the threads to clients that have room for them, ends finished reads, and reports
    /// to the engine which reads still occupy threads and memory.
    pub fn advance(&mut self, engine: &mut Engine, process: &mut dyn Process) {
        for Finished { token, outcome } in self.mailbox.drain() {
            let produced_ns = match outcome {
                JobOutcome::Done(ns) => ns,
                // These outcomes do not occur, because jobs are never cancelled, and a panic ends the
                // process.
                JobOutcome::Cancelled | JobOutcome::Panicked(_) => 0,
            };
            if let Some(read) = self.under_way.iter_mut().find(|read| read.token == token) {
                read.produced_ns = Some(produced_ns);
            }
            engine.slow_thread_is_free(process);
        }
        for read in &mut self.under_way {
            read.advance(engine, process);
        }
        self.under_way.retain(|read| !read.is_over);
        let retained = self.under_way.iter().map(|read| read.hand_over.retained.load(Relaxed)).sum();
        let holding = self.under_way.iter().filter(|read| read.produced_ns.is_none()).map(|read| read.key);
        engine.set_slow_read_retained(retained, holding);
        let held = |read: &&SlowReadUnderWay| read.produced_ns.is_none() && engine.is_slow_reader(read.key);
        let held = self.under_way.iter().filter(held).count();
        engine.set_slow_reads_held(held);
    }

    /// Cancels all reads, because no more output is sent to clients.
    pub fn cancel_all(&self) {
        self.under_way.iter().for_each(|read| read.hand_over.cancel());
    }
}

impl Drop for SlowReadThreads {
    /// Cancels all reads, because dropping the pool waits for its threads, which must then not wait for
    /// clients.
    fn drop(&mut self) {
        self.cancel_all();
    }
}

impl SlowReadUnderWay {
    fn advance(&mut self, engine: &mut Engine, process: &mut dyn Process) {
        loop {
            match engine.piece_room(self.key, process.recent()) {
                PieceRoom::Gone => {
                    self.hand_over.cancel();
                    self.is_over = self.produced_ns.is_some();
                    return;
                }
                PieceRoom::Full => break,
                PieceRoom::Room => match self.hand_over.take() {
                    Some(piece) => engine.take_piece(self.key, piece, process),
                    None => break,
                },
            }
        }
        // The read is over when the thread has finished and its last piece was taken.
        if let Some(produced_ns) = self.produced_ns
            && self.hand_over.is_empty()
        {
            engine.end_slow_read(self.key, produced_ns, process);
            self.is_over = true;
        }
    }
}

/// Starts `threads` slow-read threads.
fn open_pool(threads: usize) -> std::io::Result<WorkerPool> {
    WorkerPool::open_on(threads, threads, |number, worker| {
        Thread::SlowRead(number + 1).start(move || worker.run())
    })
}

/// Produces a whole reply on the calling thread.
fn produce_all(hand_over: &HandOver, read: &mut SlowRead) -> u64 {
    let began_ns = thread_ns();
    loop {
        let (piece, progress) = read.next_piece();
        if !piece.is_empty() {
            hand_over.lock().pieces.push_back(piece);
        }
        if progress == Progress::End {
            return thread_ns().saturating_sub(began_ns);
        }
    }
}

/// Maximum number of pieces of a read that wait for the main thread.
const HANDED_OVER_MAX: usize = 1;
/// Time between two updates of `retained` by a waiting thread.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Number of pieces between two updates of `retained` by a thread that does not wait.
const LOOK_EVERY_PIECES: u64 = 16;
