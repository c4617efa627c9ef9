//! The file `nodes.conf` of a cluster node. The file outlives the process; a write takes some time and may
//! fail.
//!
//! Invariant: if the process ends during a write, the file has the old text or the new one.

use sluice_base::Rng;
use sluice_cluster::Generation;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

#[derive(Debug)]
struct Writing {
    due_ns: u64,
    generation: Generation,
    text: Arc<[u8]>,
}

#[derive(Debug)]
struct OnDisk {
    text: Arc<[u8]>,
    writing: Option<Writing>,
    /// Whether writes fail.
    is_full: bool,
    /// Longest duration of a write, ms.
    most_ms: u64,
}

/// The file `nodes.conf` of one node; clones share it.
#[derive(Clone, Debug)]
pub struct NodeFile(Rc<RefCell<OnDisk>>);

impl NodeFile {
    /// A file with this text, whose writes take up to `most_ms` milliseconds.
    pub fn new(text: &str, most_ms: u64) -> NodeFile {
        let text = text.as_bytes().into();
        NodeFile(Rc::new(RefCell::new(OnDisk { text, writing: None, is_full: false, most_ms })))
    }

    /// The durable text.
    pub fn text(&self) -> Arc<[u8]> {
        Arc::clone(&self.0.borrow().text)
    }

    /// Makes writes fail, or succeed again.
    pub fn set_full(&self, is_full: bool) {
        self.0.borrow_mut().is_full = is_full;
    }

    /// Sets the longest duration of a write, ms, from the next write on.
    pub fn set_most_ms(&self, most_ms: u64) {
        self.0.borrow_mut().most_ms = most_ms;
    }

    /// Begins a write; an earlier write that is under way is dropped.
    pub fn begin(&self, generation: Generation, text: Arc<[u8]>, now_ns: u64, rng: &mut Rng) {
        let mut file = self.0.borrow_mut();
        let due_ns = now_ns + rng.below(file.most_ms * 1_000_000 + 1);
        file.writing = Some(Writing { due_ns, generation, text });
    }

    /// The result of a finished write: its generation, and whether it is durable. `None` if no write has
    /// finished.
    pub fn end(&self, now_ns: u64) -> Option<(Generation, bool)> {
        let mut file = self.0.borrow_mut();
        let Writing { generation, text, .. } = file.writing.take_if(|writing| writing.due_ns <= now_ns)?;
        if !file.is_full {
            file.text = text;
        }
        Some((generation, !file.is_full))
    }

    /// Simulates the end of the process: a write that is under way leaves the old text or the new one.
    pub fn crash(&self, rng: &mut Rng) {
        let mut file = self.0.borrow_mut();
        let is_there = rng.below(2) == 0 && !file.is_full;
        if let Some(writing) = file.writing.take().filter(|_| is_there) {
            file.text = writing.text;
        }
    }
}
