//! The messages between the main thread and the I/O threads. A message to an I/O thread takes two words, a
//! message from an I/O thread at most four; larger contents are boxed. The boxes of batches are reused.

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

/// A message to an I/O thread.
#[derive(Debug)]
pub enum ToIoThread {
    /// Takes over a connection.
    Adopt(Box<Moving>),
    /// An executed batch, with its replies.
    Reply(Box<Batch>),
    /// Output that belongs to no batch.
    Push(Box<Push>),
    /// Messages, each for many connections, by protocol version. Both messages for the same connection
    /// have the same version.
    Multicast(Box<[Multicast; 2]>),
    /// The deferred request of a connection has ended. Since that request may have been AUTH, the message
    /// holds whether the client is authenticated.
    Resume(SessionKey, AuthState),
    /// Closes the connection at once.
    Close(SessionKey),
    /// Frees unneeded input memory of a client that has sent nothing for this many seconds.
    Trim(SessionKey, u32),
    /// Makes the kernel fill the packets to a replica, at the price of a delay.
    FillPackets(SessionKey),
    /// The new settings and limits.
    Settings(Arc<Settings>),
    /// Returns the connection to the main thread as soon as it is at rest. No output follows this
    /// message, because new output waits in the session until the connection has returned.
    Release(SessionKey),
    /// Ends the thread when it has no connection left.
    Stop,
    /// Sends pending output, closes all connections, and ends the thread.
    Finish,
}

/// A message to the main thread.
#[derive(Debug)]
pub enum ToMain {
    /// A connection's prepared requests, to be executed.
    Batch(Box<Batch>),
    /// The usage of a query buffer has changed, other than by a batch: for example, because an incomplete
    /// request has grown, bytes wait after a deferred request, or memory was freed.
    Usage(SessionKey, QueryBufUsage),
    /// The numbers of bytes sent and received on a connection that no batch has reported.
    Traffic(SessionKey, Traffic),
    /// The connection has ended; the text is the reason, for the log.
    Ended(SessionKey, Box<str>),
    /// A connection that the I/O thread returns.
    Released(Box<Moving>),
    /// This I/O thread has ended, and this is its last message. If its event loop has failed, the text is the
    /// reason.
    Stopped(IoThreadId, Option<Box<str>>),
}

/// A connection that moves between two threads.
#[derive(Debug)]
pub struct Moving {
    /// The connection, at rest.
    pub connection: Box<Connection>,
    /// The connection's socket, which is in no event loop.
    pub stream: Stream,
}

/// Output that belongs to no batch.
#[derive(Debug)]
pub struct Push {
    /// The client to which the output is sent.
    pub key: SessionKey,
    /// The output, which may be empty.
    pub outbox: Outbox,
    /// Whether the connection ends after this output.
    pub then: AfterPush,
}

/// What an I/O thread does with a connection after a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterPush {
    /// The connection stays open.
    Stay,
    /// The connection ends once the push was sent.
    Close,
}

/// Requests of one connection, on their way to the main thread and back.
#[derive(Debug)]
pub struct Batch {
    /// The client whose requests these are.
    pub key: SessionKey,
    /// The I/O thread that sends the batch, and gets it back.
    pub from: IoThreadId,
    /// The received bytes, which contain the requests.
    pub input: Vec<u8>,
    /// The parsed requests, as ranges of `input`.
    pub requests: Requests,
    /// The looked-up commands and hashed keys of the requests.
    pub prepared: PreparedBatch,
    /// Set if the bytes after the requests are no valid request.
    pub failed: Option<Box<BrokenRequest>>,
    /// When the I/O thread's iteration that received the requests began, monotonic ns.
    pub at_ns: u64,
    /// Numbers of bytes sent and received on the connection since its last report.
    pub traffic: Traffic,
    /// Usage of the connection's query buffer without the batch.
    pub usage: QueryBufUsage,
    /// On the way back, the replies; on the way to the main thread, an emptied buffer for reuse.
    pub reply: Outbox,
    /// On the way back: values that were removed from the keyspace, for the I/O thread to free; they may
    /// belong to any client's commands.
    pub garbage: Vec<Value>,
    /// On the way back: the number of bytes of `input` that were executed.
    pub done: usize,
    /// On the way back: the state of the connection after the batch.
    pub outcome: BatchOutcome,
    /// On the way back: whether the client has authenticated.
    pub authentication: AuthState,
}

/// Bytes that are no valid request.
#[derive(Debug)]
pub struct BrokenRequest {
    /// The parser's reason for refusing the bytes.
    pub error: ParseError,
    /// The beginning of the bytes, for the log.
    pub input: Vec<u8>,
}

/// The state of a connection after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// The connection continues to parse requests.
    GoOn,
    /// The last request, which ends at `done`, is deferred (blocked or postponed); the bytes from there on
    /// wait until it has ended.
    Deferred,
    /// The request that ends at `done` was deferred but is not any more, so the bytes from there on are
    /// parsed again.
    Resumed,
    /// The connection ends once the replies were sent.
    Close,
}

impl Batch {
    /// An empty batch for the client `key`.
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

    /// Heap bytes of the batch, without the values in `garbage` and without `failed`.
    pub fn footprint(&self) -> usize {
        heap::boxed::<Batch>()
            + heap::vec(&self.input)
            + self.requests.footprint()
            + self.prepared.footprint()
            + self.reply.footprint()
            + heap::vec(&self.garbage)
    }

    /// Frees buffers that a spent batch must not keep while it waits for reuse.
    pub fn trim(&mut self) {
        // References to large arguments are dropped, because a reference that is kept here could outlive
        // the request, and make the next write to the key copy the value.
        self.requests.clear();
        self.input.clear();
        if self.input.capacity() > SPARE_INPUT_BYTES {
            self.input = Vec::new();
        }
    }

    /// Makes a spent and trimmed batch a batch of `key`; the buffers are kept.
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

/// The settings that I/O threads need.
#[derive(Debug)]
pub struct Settings {
    /// Looks commands up and hashes keys.
    pub preparer: Preparer,
    /// The limits in force. They include whether a password is required, so an I/O thread knows of a
    /// change before the next batch of any of its connections comes back.
    pub limits: Arc<Limits>,
    /// If batches have at least this many requests on average, the thread waits a little for more input
    /// before its next iteration. A number that no batch reaches forbids such waits.
    pub gather_depth: u64,
    /// How long a thread polls after its last work before it sleeps, ns; 0 if it does not poll.
    pub spin_ns: u64,
}

/// A spent batch keeps an input buffer of at most this many bytes.
const SPARE_INPUT_BYTES: usize = 64 * 1024;

const _: () = assert!(size_of::<ToIoThread>() <= 16 && size_of::<ToMain>() <= 32);
