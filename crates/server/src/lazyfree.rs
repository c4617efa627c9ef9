//! The background thread: frees what is too large to be freed between two commands.

use crate::replica::main_channel::StreamBuffer;
use crate::threads::Thread;
use sluice_acl::User;
use sluice_evloop::Shared;
use sluice_keyspace::{Captured, Db};
use sluice_scripts::state::ScriptGarbage;
use sluice_value::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Something to free.
pub enum Garbage {
    /// A value.
    Value(Value),
    /// A database.
    Db(Box<Db>),
    /// What a snapshot has captured.
    Captured(#[expect(dead_code, reason = "only to be dropped")] Vec<Captured>),
    /// What scripts have left.
    Scripts(#[expect(dead_code, reason = "only to be dropped")] Box<ScriptGarbage>),
    /// Users that others have taken the place of.
    Users(#[expect(dead_code, reason = "only to be dropped")] Vec<Arc<User>>),
    /// What a reply shared with the keyspace.
    Reply(#[expect(dead_code, reason = "only to be dropped")] Vec<Shared>),
    /// What a primary has sent behind a snapshot that is not used.
    Stream(StreamBuffer),
}

/// The thread and the way to it.
#[derive(Debug)]
pub struct Bio {
    sender: Option<Sender<Garbage>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<FreeCounts>,
}

#[derive(Debug, Default)]
struct FreeCounts {
    /// Objects handed over. Written by the main thread.
    queued: AtomicU64,
    /// Objects freed. Written by the background thread; relaxed, since it only informs.
    freed: AtomicU64,
    /// Bytes handed over that nobody else holds. Written by the main thread.
    queued_bytes: AtomicUsize,
    /// Bytes that were handed over and freed. Written by the background thread (relaxed).
    freed_bytes: AtomicUsize,
}

impl Bio {
    /// Starts the thread. `bio`: the directive `bio-cpulist`.
    pub fn start(bio: &str) -> std::io::Result<Bio> {
        let (sender, receiver) = channel::<Garbage>();
        let counts = Arc::new(FreeCounts::default());
        let seen = counts.clone();
        let thread = Thread::LazyFree { bio }.start(move || {
            for garbage in receiver {
                let (objects, bytes) = (objects_of(&garbage), bytes_of(&garbage));
                drop(garbage);
                seen.freed.fetch_add(objects, Relaxed);
                seen.freed_bytes.fetch_add(bytes, Relaxed);
            }
        })?;
        Ok(Bio { sender: Some(sender), thread: Some(thread), counts })
    }

    /// Hands something over.
    pub fn free(&self, garbage: Garbage) {
        self.counts.queued.fetch_add(objects_of(&garbage), Relaxed);
        self.counts.queued_bytes.fetch_add(bytes_of(&garbage), Relaxed);
        if let Some(sender) = &self.sender {
            // The thread ends only with us; were it gone, the value is freed here.
            let _ = sender.send(garbage);
        }
    }

    /// Objects that wait to be freed.
    pub fn pending(&self) -> u64 {
        self.counts.queued.load(Relaxed).saturating_sub(self.counts.freed.load(Relaxed))
    }

    /// Bytes that wait to be freed.
    pub fn pending_bytes(&self) -> usize {
        // What is freed was counted as queued before.
        let freed = self.counts.freed_bytes.load(Relaxed);
        self.counts.queued_bytes.load(Relaxed).saturating_sub(freed)
    }

    /// Objects freed so far.
    pub fn freed(&self) -> u64 {
        self.counts.freed.load(Relaxed)
    }
}

impl Drop for Bio {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is freed with it, as far as that is known at once.
fn bytes_of(garbage: &Garbage) -> usize {
    match garbage {
        Garbage::Value(value) => value.heap_bytes(),
        Garbage::Db(db) => db.allocated_bytes(),
        // What only a snapshot held did not count, and what a reply held is counted as its output.
        Garbage::Reply(_) | Garbage::Captured(_) | Garbage::Scripts(_) | Garbage::Users(_) => 0,
        Garbage::Stream(buffer) => buffer.footprint(),
    }
}

fn objects_of(garbage: &Garbage) -> u64 {
    match garbage {
        Garbage::Value(_) => 1,
        Garbage::Db(db) => db.len() as u64,
        Garbage::Stream(buffer) => buffer.blocks() as u64,
        // Otherwise only what keys held is counted.
        Garbage::Reply(_) | Garbage::Captured(_) | Garbage::Scripts(_) | Garbage::Users(_) => 0,
    }
}
