//! Makes a connection on a separate thread, so that the main thread waits neither for the lookup of the
//! name nor for a host that does not answer.

use crate::net::{ConnectPlan, Stream};
use crate::threads::Thread;
use sluice_evloop::Waker;
use sluice_storage::plain_error;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// A connection that is being made.
pub struct Connecting {
    result: Receiver<Result<Stream, String>>,
}

impl Connecting {
    /// Begins to connect, and wakes `waker` when the connection was made or has failed.
    pub fn start(plan: ConnectPlan, waker: Waker) -> io::Result<Connecting> {
        let (sender, result) = channel();
        Thread::Connect.start(move || {
            let made = Stream::connect(&plan).map_err(|error| plain_error(&error));
            // The send fails if the attempt was given up.
            if sender.send(made).is_ok() {
                waker.wake();
            }
        })?;
        Ok(Connecting { result })
    }

    /// The connection, or the reason why it could not be made; `None` while it is being made.
    pub fn take(&self) -> Option<Result<Stream, String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("its thread has ended".to_owned())),
        }
    }
}
