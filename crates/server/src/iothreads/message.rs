//! What travels between the main thread and the I/O threads. A message is two words to an I/O thread, and at
//! most four from it; what is larger is boxed, and boxes go round.

use super::IoThreadId;
use crate::connection::input::QueryBufUsage;
use crate::connection::{Connection, Traffic};
use crate::net::Stream;
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_commands::{Limits, PreparedBatch, Preparer};
use sluice_resp::{AuthState, Outbox, ParseError, Requests};
use sluice_subscriptions::multicast::Multicast;
use sluice_value::Value;
use std::sync::Arc;

/// To an I/O thread.
#[derive(Debug)]
pub enum ToIoThread {
    /// A connection belongs to it from now on.
    Adopt(Box<Moving>),
    /// A batch comes back executed, with its replies.
    Reply(Box<Batch>),
    /// Output that no batch asked for.
    Push(Box<Push>),
    /// Messages, each for many connections, by protocol version. Two messages for one connection are of one
    /// version.
    Multicast(Box<[Multicast; 2]>),
    /// The request that a connection waited with is done. That may have been AUTH.
    Resume(SessionKey, AuthState),
    /// The connection ends at once.
    Close(SessionKey),
    /// A client with room for input has sent nothing for so many seconds: give back the memory that it does
    /// not need.
    Trim(SessionKey, u32),
    /// The packets of a replica shall be filled at the price of a delay.
    FillPackets(SessionKey),
    /// Other limits are in force.
    Settings(Arc<Settings>),
    /// The connection goes back as soon as it is at rest. No output follows: what comes up meanwhile waits
    /// for its return.
    Release(SessionKey),
    /// End when there is no connection left.
    Stop,
    /// Send what waits, close everything, and end.
    Finish,
}

/// To the main thread.
#[derive(Debug)]
pub enum ToMain {
    /// Requests, prepared.
    Batch(Box<Batch>),
    /// The usage of a query buffer has changed: bytes of a request have come, and not all of it.
    Usage(SessionKey, QueryBufUsage),
    /// Query buffer usage of a connection, where no batch reported it.
    Traffic(SessionKey, Traffic),
    /// The connection has ended; why is for the log.
    Ended(SessionKey, Box<str>),
    /// A connection comes back.
    Released(Box<Moving>),
    /// This I/O thread has ended: its last message.
    Stopped(IoThreadId),
}

/// A connection on its way between two threads.
#[derive(Debug)]
pub struct Moving {
    /// The connection, at rest.
    pub connection: Box<Connection>,
    /// Its socket, which is in no event loop.
    pub stream: Stream,
}

/// Output that no batch asked for.
#[derive(Debug)]
pub struct Push {
    /// Whose.
    pub key: SessionKey,
    /// What.
    pub outbox: Outbox,
    /// Whether the connection ends once it is sent.
    pub then: AfterPush,
}

/// What follows a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterPush {
    /// Nothing.
    Stay,
    /// The connection ends once the push is sent.
    Close,
}

/// Requests of one connection, on their way to be executed and back.
#[derive(Debug)]
pub struct Batch {
    /// Whose.
    pub key: SessionKey,
    /// The I/O thread that sent it, and gets it back.
    pub from: IoThreadId,
    /// The bytes that the requests are ranges of.
    pub input: Vec<u8>,
    /// The requests.
    pub requests: Requests,
    /// What is known of each.
    pub prepared: PreparedBatch,
    /// What follows the requests is none.
    pub failed: Option<Box<BrokenRequest>>,
    /// When the iteration began in which it was received, monotonic nanoseconds.
    pub at_ns: u64,
    /// Bytes that went over the connection since the last batch.
    pub traffic: Traffic,
    /// Usage of the connection's query buffer without the batch.
    pub usage: QueryBufUsage,
    /// The replies, on the way back; a spent buffer on the way there.
    pub reply: Outbox,
    /// On the way back: values that lost their keys, for the I/O thread to free. Whose batch it is does not
    /// matter.
    pub garbage: Vec<Value>,
    /// On the way back: bytes of `input` that are done with.
    pub done: usize,
    /// On the way back: how the connection goes on.
    pub outcome: BatchOutcome,
    /// On the way back: whether the client has authenticated itself.
    pub authentication: AuthState,
}

/// Bytes that are no request.
#[derive(Debug)]
pub struct BrokenRequest {
    /// What is wrong with them.
    pub error: ParseError,
    /// The first of them, for the log.
    pub input: Vec<u8>,
}

/// How a connection goes on after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// As before.
    GoOn,
    /// The request at `done` is deferred.
    Deferred,
    /// It was deferred, and need not be any more: it is parsed again.
    Resumed,
    /// It ends once the replies are sent.
    Close,
}

impl Batch {
    /// An empty batch.
    pub fn new(key: SessionKey) -> Box<Batch> {
        Box::new(Batch {
            key,
            from: IoThreadId(0),
            input: Vec::new(),
            requests: Requests::new(),
            prepared: PreparedBatch::default(),
            failed: None,
            at_ns: 0,
            traffic: Traffic::default(),
            usage: QueryBufUsage::default(),
            reply: Outbox::new(),
            garbage: Vec::new(),
            done: 0,
            outcome: BatchOutcome::GoOn,
            authentication: AuthState::Unauthenticated,
        })
    }

    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        heap::boxed::<Batch>()
            + heap::vec(&self.input)
            + self.requests.footprint()
            + self.prepared.footprint()
            + self.reply.footprint()
            + heap::vec(&self.garbage)
    }

    /// Frees the buffers that a spent batch is not to keep while it waits for its next use.
    pub fn trim(&mut self) {
        // A large argument would otherwise outlive its key, and be copied by the next write.
        self.requests.clear();
        self.input.clear();
        if self.input.capacity() > SPARE_INPUT_BYTES {
            self.input = Vec::new();
        }
    }

    /// Makes a spent batch, which was trimmed, one of `key`, keeping its buffers.
    pub fn renew(&mut self, key: SessionKey) {
        self.key = key;
        self.prepared.clear();
        self.failed = None;
        self.done = 0;
        self.traffic = Traffic::default();
        self.usage = QueryBufUsage::default();
        self.outcome = BatchOutcome::GoOn;
    }
}

/// What I/O threads need to know of the configuration.
#[derive(Debug)]
pub struct Settings {
    /// Looks commands up and hashes keys.
    pub preparer: Preparer,
    /// The numbers in force. Whether a password is asked for is among them, so a change of that is known to
    /// an I/O thread before the next batch of any of its connections comes back.
    pub limits: Arc<Limits>,
    /// From so many requests in a batch on, input may gather; a number never reached where it must not.
    pub gather_depth: u64,
    /// How long a thread looks for work after its last work before it sleeps, nanoseconds; 0: not at all.
    pub spin_ns: u64,
}

/// A spent batch keeps an input buffer up to this size.
const SPARE_INPUT_BYTES: usize = 64 * 1024;

const _: () = assert!(size_of::<ToIoThread>() <= 16 && size_of::<ToMain>() <= 32);
