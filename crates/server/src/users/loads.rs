//! ACL LOAD: a file of users is read and judged on a thread of its own.

use super::read_user_file;
use crate::storage::Storage;
use crate::threads::Thread;
use sluice_acl::Users;
use sluice_base::SessionKey;
use sluice_engine::UserLoad;
use sluice_evloop::Waker;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The client that has asked, and the users of the file or what is wrong with them.
type Judged = (SessionKey, Result<Users, Vec<u8>>);

/// Loads that are under way.
pub struct UserLoads {
    storage: Arc<dyn Storage>,
    sender: Sender<Judged>,
    receiver: Receiver<Judged>,
    running: usize,
    waker: Waker,
}

impl UserLoads {
    /// None; the event loop of `waker` is woken when one ends.
    pub fn new(storage: Arc<dyn Storage>, waker: Waker) -> UserLoads {
        let (sender, receiver) = channel();
        UserLoads { storage, sender, receiver, running: 0, waker }
    }

    /// Begins one.
    pub fn begin(&mut self, load: UserLoad) {
        let (storage, sender, waker) = (self.storage.clone(), self.sender.clone(), self.waker.clone());
        let client = load.client;
        self.running += 1;
        let started = Thread::Users.start(move || {
            let judged = load.judge(read_user_file(storage.as_ref(), &load.path));
            if sender.send((load.client, judged)).is_ok() {
                waker.wake();
            }
        });
        if let Err(error) = started {
            let text = format!("Error loading ACLs, no thread can be started: {error}");
            let _ = self.sender.send((client, Err(text.into_bytes())));
        }
    }

    /// The next one that has ended. Cost: a comparison while none is under way.
    pub fn ended(&mut self) -> Option<Judged> {
        if self.running == 0 {
            return None;
        }
        let ended = self.receiver.try_recv().ok()?;
        self.running -= 1;
        Some(ended)
    }
}
