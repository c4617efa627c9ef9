//! The background thread: frees what is too large to be freed between two commands.

use crate::storage::Storage;
use sluice_evloop::Shared;
use sluice_keyspace::{Captured, Db};
use sluice_value::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Something to free.
pub enum Garbage {
    /// A value.
    Value(#[expect(dead_code, reason = "only to be dropped")] Value),
    /// A database.
    Db(Box<Db>),
    /// What a snapshot has captured.
    Captured(#[expect(dead_code, reason = "only to be dropped")] Vec<Captured>),
    /// A file that is of no use any more.
    File(Arc<dyn Storage>, PathBuf),
    /// What a reply shared with the keyspace.
    Reply(#[expect(dead_code, reason = "only to be dropped")] Vec<Shared>),
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
}

impl Bio {
    /// Starts the thread on these processors: a list as [`crate::affinity`] takes it.
    pub fn start(processors: &str) -> std::io::Result<Bio> {
        let (sender, receiver) = channel::<Garbage>();
        let counts = Arc::new(FreeCounts::default());
        let seen = counts.clone();
        let processors = processors.to_owned();
        let thread = std::thread::Builder::new().name("bio_lazy_free".into()).spawn(move || {
            let _stack = crate::crash::SignalStack::install();
            // The processors are a preference: the thread works on others too.
            let _ = crate::affinity::bind_thread(&processors);
            for garbage in receiver {
                let objects = objects_of(&garbage);
                match garbage {
                    // One that cannot be removed hurts nobody but the disk.
                    Garbage::File(storage, path) => drop(storage.remove(&path)),
                    Garbage::Value(_) | Garbage::Db(_) | Garbage::Captured(_) | Garbage::Reply(_) => {
                        drop(garbage);
                    }
                }
                seen.freed.fetch_add(objects, Relaxed);
            }
        })?;
        Ok(Bio { sender: Some(sender), thread: Some(thread), counts })
    }

    /// Hands something over.
    pub fn free(&self, garbage: Garbage) {
        self.counts.queued.fetch_add(objects_of(&garbage), Relaxed);
        if let Some(sender) = &self.sender {
            // The thread ends only with us; were it gone, the value is freed here.
            let _ = sender.send(garbage);
        }
    }

    /// The way to the thread, for another thread. The background thread ends after the last of these is dropped.
    pub fn sender(&self) -> Option<Sender<Garbage>> {
        self.sender.clone()
    }

    /// Objects that wait to be freed.
    pub fn pending(&self) -> u64 {
        self.counts.queued.load(Relaxed).saturating_sub(self.counts.freed.load(Relaxed))
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

fn objects_of(garbage: &Garbage) -> u64 {
    match garbage {
        Garbage::Value(_) => 1,
        Garbage::Db(db) => db.len() as u64,
        // Only what keys held is counted.
        Garbage::Reply(_) | Garbage::Captured(_) | Garbage::File(..) => 0,
    }
}
