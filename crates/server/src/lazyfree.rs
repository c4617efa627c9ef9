//! The lazy free thread, which frees values and other objects that are too large to be freed between two
//! commands.

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

/// An object to be freed on the lazy free thread.
pub enum Garbage {
    /// A large value that was deleted or replaced.
    Value(Value),
    /// A flushed or replaced database with all its entries.
    Db(Box<Db>),
    /// Entries captured for a snapshot.
    Captured(#[expect(dead_code, reason = "only to be dropped")] Vec<Captured>),
    /// Objects of scripts: flushed scripts or functions, a library's Lua machine, or the values that a
    /// large run of a script has left.
    Scripts(#[expect(dead_code, reason = "only to be dropped")] Box<ScriptGarbage>),
    /// Users that were replaced by others.
    Users(#[expect(dead_code, reason = "only to be dropped")] Vec<Arc<User>>),
    /// Pages that a reply shared with the keyspace.
    Reply(#[expect(dead_code, reason = "only to be dropped")] Vec<Shared>),
    /// The buffered replication stream of a full sync that was given up.
    Stream(StreamBuffer),
}

/// The lazy free thread, with its queue.
#[derive(Debug)]
pub struct LazyFreeThread {
    sender: Option<Sender<Garbage>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<FreeCounts>,
}

#[derive(Debug, Default)]
struct FreeCounts {
    /// Number of objects handed to the thread. Written by the main thread.
    queued: AtomicU64,
    /// Number of objects freed. Written by the lazy free thread; relaxed, because the count orders no other
    /// accesses.
    freed: AtomicU64,
    /// Number of bytes handed to the thread, as `bytes_of` counts them. Written by the main thread.
    queued_bytes: AtomicUsize,
    /// Number of those bytes that were freed. Written by the lazy free thread (relaxed).
    freed_bytes: AtomicUsize,
}

impl LazyFreeThread {
    /// Starts the thread. `bio`: the directive `bio-cpulist`.
    pub fn start(bio: &str) -> std::io::Result<LazyFreeThread> {
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
        Ok(LazyFreeThread { sender: Some(sender), thread: Some(thread), counts })
    }

    /// Hands an object to the thread to be freed.
    pub fn free(&self, garbage: Garbage) {
        self.counts.queued.fetch_add(objects_of(&garbage), Relaxed);
        self.counts.queued_bytes.fetch_add(bytes_of(&garbage), Relaxed);
        if let Some(sender) = &self.sender {
            // The send does not fail, because the thread ends only with this sender. If the thread were
            // gone, the object would be freed here.
            let _ = sender.send(garbage);
        }
    }

    /// Number of objects that wait to be freed.
    pub fn pending(&self) -> u64 {
        self.counts.queued.load(Relaxed).saturating_sub(self.counts.freed.load(Relaxed))
    }

    /// Number of bytes that wait to be freed, as far as they are counted.
    pub fn pending_bytes(&self) -> usize {
        // The freed bytes are read first, because every freed byte was counted as queued earlier.
        let freed = self.counts.freed_bytes.load(Relaxed);
        self.counts.queued_bytes.load(Relaxed).saturating_sub(freed)
    }

    /// Number of objects freed so far.
    pub fn freed(&self) -> u64 {
        self.counts.freed.load(Relaxed)
    }
}

impl Drop for LazyFreeThread {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Bytes that are freed with the object, as far as they can be determined quickly.
fn bytes_of(garbage: &Garbage) -> usize {
    match garbage {
        Garbage::Value(value) => value.heap_bytes(),
        Garbage::Db(db) => db.allocated_bytes(),
        // No bytes are counted for these, because values that only a snapshot owns did not count as used
        // memory, values of a reply count as output, and the sizes of scripts and users are not known.
        Garbage::Reply(_) | Garbage::Captured(_) | Garbage::Scripts(_) | Garbage::Users(_) => 0,
        Garbage::Stream(buffer) => buffer.footprint(),
    }
}

fn objects_of(garbage: &Garbage) -> u64 {
    match garbage {
        Garbage::Value(_) => 1,
        Garbage::Db(db) => db.len() as u64,
        Garbage::Stream(buffer) => buffer.blocks() as u64,
        // Only values and entries of the keyspace, and blocks of a stream, count as objects; other garbage
        // has neither.
        Garbage::Reply(_) | Garbage::Captured(_) | Garbage::Scripts(_) | Garbage::Users(_) => 0,
    }
}
