//! A connection to an examined server, which sends requests and receives replies, with bounds on their time,
//! size and number.
//!
//! Invariants: (1) the replies of a round have at most [`REPLY_BYTES_MAX`] bytes together, and each has
//! at most [`REPLY_VALUES_MAX`] values; (2) one round of requests and replies takes at most `--timeout`,
//! however slowly its bytes arrive; (3) a connection is used for at most [`ROUNDS_MAX`] rounds.

use crate::net::{BlockingStream, ConnectPlan, Stream};
use sluice_clock::{Clock, System};
use sluice_moving::{NoAnswer, Peer, shown_target};
use sluice_resp::{ExtentError, ReplyExtent, ReplyLimits, Value, command, decode};
use sluice_storage::plain_error;
use sluice_tls::Context;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

/// Maximum bytes of all replies in a round. A CLIENT LIST of ten thousand clients has some five million
/// bytes.
const REPLY_BYTES_MAX: usize = 16 << 20;
/// Maximum number of values in a reply. The reply to CONFIG GET has a thousand values, and the reply to ACL
/// LIST one for each user.
const REPLY_VALUES_MAX: usize = 200_000;
/// Maximum number of rounds of requests and replies on one connection. Each slice of keys takes two
/// rounds, and other requests take some more.
const ROUNDS_MAX: usize = 2_000;
/// Maximum number of bytes that are read at once.
const READ_AT_ONCE: usize = 64 * 1024;
/// Maximum number of bytes that are written at once. The time left is checked before each piece of this size.
const WRITTEN_AT_ONCE: usize = 16 * 1024;
/// Pause between two slices of keys, to spare the other server.
const PAUSE: Duration = Duration::from_millis(10);

/// A connection to the examined server that handles one round at a time.
pub struct MoveConnection {
    stream: BlockingStream,
    clock: Clock<System>,
    timeout: Duration,
    rounds: usize,
    /// Received bytes that are not a complete reply yet.
    input: Vec<u8>,
}

impl MoveConnection {
    /// Connects. `timeout` applies to connecting and to each round; `tls` is the TLS context, `None` for a
    /// plain connection.
    ///
    /// # Errors
    /// The reason why there is no connection, as a sentence.
    pub fn open(host: &str, port: u16, timeout: Duration, tls: Option<Context>) -> Result<Self, String> {
        let plan = ConnectPlan { host: host.to_owned(), port, source: String::new(), timeout, tls };
        let stream = Stream::connect(&plan).and_then(Stream::block);
        let stream = stream.map_err(|error| {
            format!("no connection to {}: {}", shown_target(host, port), plain_error(&error))
        })?;
        let clock = Clock::new(System::without_counter());
        Ok(MoveConnection { stream, clock, timeout, rounds: 0, input: Vec::new() })
    }

    /// Receives until the input begins with a complete reply, and removes the reply from the input.
    /// `bytes` is the number of bytes that the round may still receive, and is reduced by the length of
    /// the reply.
    fn reply(&mut self, until_ns: u64, bytes: &mut usize) -> Result<Value, NoAnswer> {
        let mut extent = ReplyExtent::new(ReplyLimits { bytes: *bytes, values: REPLY_VALUES_MAX });
        loop {
            let found = extent.find(&self.input).map_err(|error| match error {
                ExtentError::Wrong(_) => NoAnswer::NoReply,
                ExtentError::TooLarge => NoAnswer::TooLarge,
            })?;
            if let Some(len) = found {
                let decoded = decode(&self.input[..len]).map_err(|_| NoAnswer::NoReply)?;
                let (value, _) = decoded.ok_or(NoAnswer::NoReply)?;
                self.input.drain(..len);
                *bytes -= len;
                return Ok(value);
            }
            self.receive(until_ns)?;
        }
    }

    /// Sets the timeout of the next read or write to the time left; fails if no time is left.
    fn wait_until(&mut self, until_ns: u64) -> Result<(), NoAnswer> {
        let left = Duration::from_nanos(until_ns.saturating_sub(self.clock.now().mono_ns));
        if left.is_zero() {
            return Err(NoAnswer::Timeout);
        }
        self.stream.set_timeout(left).map_err(|error| broken_by(&error))
    }

    fn receive(&mut self, until_ns: u64) -> Result<(), NoAnswer> {
        self.wait_until(until_ns)?;
        let have = self.input.len();
        self.input.resize(have + READ_AT_ONCE, 0);
        let read = self.stream.read(&mut self.input[have..]);
        self.input.truncate(have + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(NoAnswer::Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(broken_by(&error)),
        }
    }
}

/// Converts a system error to the kind of failure.
fn broken_by(error: &io::Error) -> NoAnswer {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => NoAnswer::Timeout,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => NoAnswer::Closed,
        _ => NoAnswer::System(plain_error(error)),
    }
}

impl Peer for MoveConnection {
    fn ask_all(&mut self, requests: &[Vec<&[u8]>]) -> Result<Vec<Value>, NoAnswer> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Err(NoAnswer::TooLarge);
        }
        let timeout_ns = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.clock.now().mono_ns.saturating_add(timeout_ns);
        let mut out = Vec::new();
        requests.iter().for_each(|words| command::push_command(&mut out, words.iter().copied()));
        for piece in out.chunks(WRITTEN_AT_ONCE) {
            self.wait_until(until_ns)?;
            self.stream.write_all(piece).map_err(|error| broken_by(&error))?;
        }
        let mut bytes = REPLY_BYTES_MAX;
        requests.iter().map(|_| self.reply(until_ns, &mut bytes)).collect()
    }

    fn pause(&mut self) {
        std::thread::sleep(PAUSE);
    }
}
