//! ACL LOAD: a file of users is read and validated on a separate thread.

use super::read_user_file;
use crate::threads::Thread;
use sluice_control::users::load::{JudgedUsers, UserLoad};
use sluice_evloop::Waker;
use sluice_storage::Storage;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The load under way. There is at most one, because the engine begins the next load only after it has the
/// result of this one.
pub struct UserLoads {
    storage: Arc<dyn Storage>,
    sender: Sender<JudgedUsers>,
    receiver: Receiver<JudgedUsers>,
    is_running: bool,
    waker: Waker,
}

impl UserLoads {
    /// A value without a load under way. `waker` is woken when a load has ended.
    pub fn new(storage: Arc<dyn Storage>, waker: Waker) -> UserLoads {
        let (sender, receiver) = channel();
        UserLoads { storage, sender, receiver, is_running: false, waker }
    }

    /// Begins a load on a thread. No other load may be under way.
    pub fn begin(&mut self, load: UserLoad) {
        let (storage, sender, waker) = (self.storage.clone(), self.sender.clone(), self.waker.clone());
        debug_assert!(!self.is_running, "one load at a time");
        self.is_running = true;
        let started = Thread::Users.start(move || {
            let judged = load.judge(read_user_file(storage.as_ref(), &load.path));
            if sender.send(judged).is_ok() {
                waker.wake();
            }
        });
        if let Err(error) = started {
            let text = format!("Error loading ACLs, no thread can be started: {error}");
            let _ = self.sender.send(Err(text.into_bytes()));
        }
    }

    /// Whether a load is under way.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// The result of the load, if it has ended. Cost: one comparison while no load is under way.
    pub fn ended(&mut self) -> Option<JudgedUsers> {
        if !self.is_running {
            return None;
        }
        let ended = self.receiver.try_recv().ok()?;
        self.is_running = false;
        Some(ended)
    }
}
