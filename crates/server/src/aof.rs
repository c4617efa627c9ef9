//! The append-only file on disk.
//!
//! ```text
//!  main thread ── blocks, orders ──► thread of the file: write, fsync ──► folder: manifest, base, increments
//!       ▲                                      │
//!       └──── positions, news, a wake-up ──────┘
//! ```
//!
//! The engine says what is appended (`engine/aof.rs`); nothing here knows a command.

mod appender;
mod folder;
mod load;
mod shared;
mod thread;

pub use appender::{Appender, Block};
pub use folder::{Folder, Named};
pub use load::load;
pub use shared::{Item, News, Order, Shared};
pub use thread::Worker;

use sluice_clock::Clock;
use sluice_engine::Engine;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The append-only file as the main thread has it.
pub struct Aof {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Aof {
    /// Starts the thread of the file.
    pub fn start(shared: Arc<Shared>, worker: Worker) -> std::io::Result<Aof> {
        let thread = std::thread::Builder::new().name("aof".into()).spawn(move || {
            let _stack = crate::crash::SignalStack::install();
            worker.run();
        })?;
        Ok(Aof { shared, thread: Some(thread) })
    }

    /// Gives the thread what the engine has to append.
    pub fn append(&self, engine: &mut Engine) {
        if engine.has_aof() {
            let mut bytes = self.shared.buffer();
            if let Some(range) = engine.take_aof(&mut bytes) {
                self.shared.give(Item::Block(Block { bytes, end: range.end }));
            }
        }
    }

    /// Orders something, behind what was given before.
    pub fn order(&self, order: Order) {
        self.shared.give(Item::Order(order));
    }

    /// What the two threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until everything that was given is on disk, or is known not to be.
    pub fn end(&mut self) {
        self.order(Order::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Monotonic nanoseconds, for the thread of the file.
pub fn clock() -> Box<dyn FnMut() -> u64 + Send> {
    let mut clock = Clock::system();
    Box::new(move || clock.now().mono_ns)
}
