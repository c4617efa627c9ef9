//! Files written on a thread of their own: what a cut has captured is formatted, compressed, summed and written there.
//!
//! ```text
//!  main thread ──pieces──► channel ──► thread: format ──► file ──end──► sync, rename, sync of the folder ──► outcome
//!       ▲                                 └── wakes the event loop: caught up, or done
//! ```
//!
//! Invariants: (1) the main thread never waits for the thread: it hands over, reads counters and takes the outcome; (2) a file
//! that is broken off is removed by the thread, which sees that between two writes.

use sluice_base::Bytes;
use sluice_engine::{Background, SaveError, SnapshotFile, SnapshotSink};
use sluice_evloop::Waker;
use sluice_keyspace::Captured;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A file that a thread writes.
pub struct BackgroundWriter {
    /// `None` behind the last piece.
    pieces: Option<Sender<Captured>>,
    shared: Arc<WriterState>,
}

#[derive(Default)]
struct WriterState {
    /// What is on its way to the file, as [`Captured::weight`] counts, and in bytes of memory.
    weight: AtomicUsize,
    held: AtomicUsize,
    /// Entries and bytes written.
    progress: AtomicU64,
    broken_off: AtomicBool,
    outcome: Mutex<Option<Result<(), SaveError>>>,
}

/// The main thread is woken when less than this is on its way.
const CAUGHT_UP_WEIGHT: usize = 4 << 20;

impl BackgroundWriter {
    /// Begins to write a file into `sink`. `key_delay` is the setting `rdb-key-save-delay`.
    pub fn start(
        file: SnapshotFile,
        sink: Box<dyn SnapshotSink + Send>,
        key_delay: i64,
        waker: Waker,
    ) -> Result<BackgroundWriter, SaveError> {
        let shared = Arc::new(WriterState::default());
        let (pieces, received) = channel();
        let seen = shared.clone();
        let run = move || {
            let _stack = crate::crash::SignalStack::install();
            yield_to_others();
            let outcome = write(file, sink, &received, Delay::new(key_delay), &seen, &waker);
            *seen.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            waker.wake();
        };
        let spawned = std::thread::Builder::new().name("snapshot".to_owned()).spawn(run);
        spawned.map_err(|error| SaveError(format!("Cannot start a thread to save on: {error}")))?;
        Ok(BackgroundWriter { pieces: Some(pieces), shared })
    }
}

impl Background for BackgroundWriter {
    fn give(&mut self, piece: Captured) {
        self.shared.weight.fetch_add(piece.weight(), Relaxed);
        self.shared.held.fetch_add(piece.footprint(), Relaxed);
        if let Some(pieces) = &self.pieces {
            // The thread ends early only with an outcome, which is an error: the piece is not needed then.
            let _ = pieces.send(piece);
        }
    }

    fn end(&mut self) {
        self.pieces = None;
    }

    fn weight(&self) -> usize {
        self.shared.weight.load(Acquire)
    }

    fn held_bytes(&self) -> usize {
        self.shared.held.load(Relaxed)
    }

    fn progress(&self) -> u64 {
        self.shared.progress.load(Relaxed)
    }

    fn outcome(&mut self) -> Option<Result<(), SaveError>> {
        self.shared.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        self.shared.broken_off.store(true, Release);
    }
}

/// Lets this thread have a third of what others get where processors are short; on an idle one it loses nothing.
fn yield_to_others() {
    // Only a matter of who waits: where it is not allowed, nothing is wrong.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

/// Niceness of the thread: at 5 it has the weight 335 of 1,024.
const NICE: i32 = 5;

fn write(
    mut file: SnapshotFile,
    mut sink: Box<dyn SnapshotSink + Send>,
    pieces: &Receiver<Captured>,
    mut delay: Delay,
    shared: &WriterState,
    waker: &Waker,
) -> Result<(), SaveError> {
    let mut result = Ok(());
    let mut give = |bytes: Bytes| {
        if shared.broken_off.load(Acquire) {
            result = Err(SaveError("Saving was broken off".to_owned()));
        } else {
            result = sink.write(&bytes);
            shared.progress.fetch_add(bytes.len() as u64, Relaxed);
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    for piece in pieces {
        let mut each = || {
            shared.progress.fetch_add(1, Relaxed);
            delay.wait(shared);
        };
        let going = file.piece(&piece, &mut each, &mut give);
        let (weight, footprint) = (piece.weight(), piece.footprint());
        drop(piece);
        shared.held.fetch_sub(footprint, Relaxed);
        let before = shared.weight.fetch_sub(weight, Release);
        if before >= CAUGHT_UP_WEIGHT && before - weight < CAUGHT_UP_WEIGHT {
            waker.wake();
        }
        if going.is_break() {
            break;
        }
    }
    // The channel also ends when the job is dropped: then nothing is finished.
    let is_whole = !shared.broken_off.load(Acquire);
    if is_whole {
        let _ = file.finish(&mut give);
    }
    result?;
    match is_whole {
        true => sink.finish(),
        false => Err(SaveError("Saving was broken off".to_owned())),
    }
}

/// The setting `rdb-key-save-delay`.
struct Delay {
    each: Duration,
    /// One wait for so many keys.
    keys: u64,
    left: u64,
}

impl Delay {
    fn new(setting: i64) -> Delay {
        let keys = if setting < 0 { setting.unsigned_abs() } else { 1 };
        let us = if setting < 0 { 1 } else { setting.unsigned_abs() };
        Delay { each: Duration::from_micros(us), keys, left: keys }
    }

    fn wait(&mut self, shared: &WriterState) {
        if self.each.is_zero() {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.keys;
            if !shared.broken_off.load(Relaxed) {
                std::thread::sleep(self.each);
            }
        }
    }
}
