//! What travels between the executing thread and the workers. A message is two words to a worker, and at most four from
//! it; what is larger is boxed, and boxes go round.

use crate::inbound::Kept;
use sluice_engine::{Limits, PreparedBatch, Preparer, SessionKey};
use sluice_evloop::Fd;
use sluice_resp::{Admission, Outbox, ParseError, Requests};
use sluice_value::Value;
use std::sync::Arc;

/// To a worker.
#[derive(Debug)]
pub enum ToWorker {
    /// A connection is its own from now on.
    Adopt(Box<Adopted>),
    /// A batch comes back executed, with its replies.
    Reply(Box<Batch>),
    /// Output that no batch asked for.
    Push(Box<Push>),
    /// What kept a connection's next request waiting is over.
    Resume(SessionKey),
    /// The connection ends at once.
    Close(SessionKey),
    /// A client that has room for input was last heard so many seconds ago: give back what it does not need.
    Trim(SessionKey, u32),
    /// Other limits are in force.
    Settings(Arc<Settings>),
    /// The connection goes back as soon as it is at rest. No output follows: what comes up meanwhile waits for its return.
    Release(SessionKey),
    /// End when there is no connection left.
    Stop,
    /// Send what waits, close everything, and end.
    Finish,
}

/// To the executing thread.
#[derive(Debug)]
pub enum ToMain {
    /// Requests, prepared.
    Batch(Box<Batch>),
    /// Bytes of a request have come, and not all of it.
    Partial(SessionKey, Kept),
    /// Bytes of a connection that no batch told of.
    Traffic(SessionKey, Traffic),
    /// The connection has ended; why is for the log.
    Gone(SessionKey, Box<str>),
    /// A connection comes back.
    Released(Box<Adopted>),
    /// The worker on this seat has ended: its last message.
    Stopped(usize),
}

/// Bytes that went over a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// That the kernel took.
    pub sent: u32,
    /// That came.
    pub received: u32,
}

/// A connection on its way.
#[derive(Debug)]
pub struct Adopted {
    /// Its session.
    pub key: SessionKey,
    /// Its socket.
    pub socket: Fd,
    /// Bytes received and not parsed.
    pub carry: Vec<u8>,
    /// Whether it has authenticated itself.
    pub authentication: Admission,
    /// Its next request waits.
    pub held: bool,
    /// Bytes received that no batch has told of.
    pub received: usize,
}

/// Output that no batch asked for.
#[derive(Debug)]
pub struct Push {
    /// Whose.
    pub key: SessionKey,
    /// What.
    pub outbox: Outbox,
    /// The connection ends once it is sent.
    pub then_close: bool,
}

/// Requests of one connection, on their way to be executed and back.
#[derive(Debug)]
pub struct Batch {
    /// Whose.
    pub key: SessionKey,
    /// The seat of the worker that sent it, and gets it back.
    pub worker: usize,
    /// The bytes that the requests are ranges of.
    pub input: Vec<u8>,
    /// The requests.
    pub requests: Requests,
    /// What is known of each.
    pub prepared: PreparedBatch,
    /// What follows the requests is none.
    pub failed: Option<ParseError>,
    /// When the turn began in which it was received, monotonic nanoseconds.
    pub at_ns: u64,
    /// Bytes received for this batch.
    pub received: usize,
    /// Bytes of output sent since the last batch.
    pub sent: usize,
    /// What the connection keeps of its input.
    pub kept: Kept,
    /// The buffer with more than this limit allows is full: the connection ends.
    pub too_much: bool,
    /// The replies, on the way back; a spent buffer on the way there.
    pub reply: Outbox,
    /// On the way back: values that lost their keys, for the worker to free. Whose batch it is does not matter.
    pub garbage: Vec<Value>,
    /// On the way back: bytes of `input` that are done with.
    pub done: usize,
    /// On the way back: how the connection goes on.
    pub ended: Ended,
    /// On the way back: whether the connection has authenticated itself.
    pub authentication: Admission,
}

/// How a connection goes on after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As before.
    No,
    /// The request at `done` waits.
    Held,
    /// It had to wait, and need no longer: it is parsed again.
    Resumed,
    /// It ends once the replies are sent.
    AfterReply,
}

impl Batch {
    /// An empty batch.
    pub fn new(key: SessionKey) -> Box<Batch> {
        Box::new(Batch {
            key,
            worker: 0,
            input: Vec::new(),
            requests: Requests::new(),
            prepared: PreparedBatch::default(),
            failed: None,
            at_ns: 0,
            received: 0,
            sent: 0,
            kept: Kept::default(),
            too_much: false,
            reply: Outbox::new(),
            garbage: Vec::new(),
            done: 0,
            ended: Ended::No,
            authentication: Admission::Unauthenticated,
        })
    }

    /// Makes a spent batch one of `key`, keeping its buffers.
    pub fn renew(&mut self, key: SessionKey) {
        self.key = key;
        self.input.clear();
        if self.input.capacity() > SPARE_INPUT_BYTES {
            self.input = Vec::new();
        }
        self.requests.clear();
        self.prepared.clear();
        self.failed = None;
        (self.received, self.sent, self.done) = (0, 0, 0);
        self.kept = Kept::default();
        self.too_much = false;
        self.ended = Ended::No;
    }
}

/// What workers need to know of the configuration.
#[derive(Debug)]
pub struct Settings {
    /// Looks commands up and hashes keys.
    pub preparer: Preparer,
    /// The numbers in force. Whether a password is asked for is among them, so a change of that is known to a worker before
    /// the next batch of any of its connections comes back.
    pub limits: Arc<Limits>,
    /// From so many requests in a batch on, input may gather; a number never reached where it must not.
    pub gather_depth: u64,
}

/// A spent batch keeps an input buffer up to this size.
const SPARE_INPUT_BYTES: usize = 64 * 1024;

const _: () = assert!(size_of::<ToWorker>() <= 16 && size_of::<ToMain>() <= 32);
