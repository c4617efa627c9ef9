//! `nodes.conf` of a node of a cluster, which outlives its process: a write takes a while, and may fail.
//!
//! Invariant: a process that ends while the file is written leaves the old text or the new one.

use sluice_base::Rng;
use sluice_cluster::Generation;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A write under way.
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
    /// Writes fail.
    is_full: bool,
    /// Most milliseconds that a write takes.
    most_ms: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct NodeFile(Rc<RefCell<OnDisk>>);

impl NodeFile {
    /// A file with this text, whose writes take so many milliseconds at most.
    pub fn new(text: &str, most_ms: u64) -> NodeFile {
        let text = text.as_bytes().into();
        NodeFile(Rc::new(RefCell::new(OnDisk { text, writing: None, is_full: false, most_ms })))
    }

    /// What is durable.
    pub fn text(&self) -> Arc<[u8]> {
        Arc::clone(&self.0.borrow().text)
    }

    /// Has writes fail, or succeed.
    pub fn set_full(&self, is_full: bool) {
        self.0.borrow_mut().is_full = is_full;
    }

    /// How many milliseconds a write takes at most, from the next one on.
    pub fn set_most_ms(&self, most_ms: u64) {
        self.0.borrow_mut().most_ms = most_ms;
    }

    /// Begins a write.
    pub fn begin(&self, generation: Generation, text: Arc<[u8]>, now_ns: u64, rng: &mut Rng) {
        let mut file = self.0.borrow_mut();
        let due_ns = now_ns + rng.below(file.most_ms * 1_000_000 + 1);
        file.writing = Some(Writing { due_ns, generation, text });
    }

    /// What has become of a write that is over: its generation, and whether it is durable.
    pub fn end(&self, now_ns: u64) -> Option<(Generation, bool)> {
        let mut file = self.0.borrow_mut();
        let Writing { generation, text, .. } = file.writing.take_if(|writing| writing.due_ns <= now_ns)?;
        if !file.is_full {
            file.text = text;
        }
        Some((generation, !file.is_full))
    }

    /// The process ends.
    pub fn crash(&self, rng: &mut Rng) {
        let mut file = self.0.borrow_mut();
        let is_there = rng.below(2) == 0 && !file.is_full;
        if let Some(writing) = file.writing.take().filter(|_| is_there) {
            file.text = writing.text;
        }
    }
}
