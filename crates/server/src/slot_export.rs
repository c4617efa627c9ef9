//! Connections of slot moves from this node to their targets. A thread makes each connection, authenticates,
//! and asks the target to agree. The main thread then makes it the connection of a client.
//!
//! Invariant: the main thread never waits for these threads; if a move has ended before the report of its
//! thread arrives, the report is dropped with its connection.

use crate::host::Host;
use crate::net::{BlockingStream, ConnectPlan, Stream};
use crate::threads::Thread;
use sluice_cluster::{ExportHandshake, JobName, MOVE_TIMED_OUT};
use sluice_config::param;
use sluice_control::cluster::slot_moves::ExportTarget;
use sluice_engine::Engine;
use sluice_evloop::Waker;
use sluice_storage::plain_error;
use sluice_tls::Context;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The threads that connect to targets.
pub struct ExportDialler {
    sender: Sender<ExportReport>,
    receiver: Receiver<ExportReport>,
    running: usize,
    waiting: VecDeque<(ExportTarget, ExportSource)>,
    waker: Waker,
}

/// A report of a connecting thread.
pub enum ExportReport {
    /// The handshake has reached this step.
    Step(JobName, ExportHandshake),
    /// The connection could not be made. The text tells operators the reason, in the wording of the rules
    ///
    Refused(JobName, String),
    /// The target has agreed. Holds the connection, and the bytes received after the target's reply.
    Agreed(JobName, Stream, Vec<u8>),
}

/// How a connection to a target is made.
pub struct ExportSource {
    /// The local address from which the connection is made; empty for any address.
    pub address: String,
    /// The TLS context; `None` for a plain connection.
    pub tls: Option<Context>,
    /// How long each step may take.
    pub timeout: Duration,
}

impl ExportSource {
    /// The settings from the directives that also apply to connections to a primary.
    pub fn of(engine: &Engine, host: &Host) -> ExportSource {
        let config = engine.config();
        ExportSource {
            address: config.str(param::BIND_SOURCE_ADDR).into_owned(),
            tls: host.settings.tls.context_of_links(),
            timeout: Duration::from_secs(config.uint(param::REPL_TIMEOUT)),
        }
    }
}

impl ExportDialler {
    pub fn new(waker: Waker) -> ExportDialler {
        let (sender, receiver) = channel();
        ExportDialler { sender, receiver, running: 0, waiting: VecDeque::new(), waker }
    }

    /// Begins to connect, as soon as fewer than [`THREADS_MAX`] threads are connecting.
    pub fn begin(&mut self, target: ExportTarget, source: ExportSource) {
        self.waiting.push_back((target, source));
        self.start_next();
    }

    fn start_next(&mut self) {
        while self.running < THREADS_MAX
            && let Some((target, source)) = self.waiting.pop_front()
        {
            self.start(target, source);
        }
    }

    fn start(&mut self, target: ExportTarget, source: ExportSource) {
        self.running += 1;
        let (sender, waker, job) = (self.sender.clone(), self.waker.clone(), target.job);
        let started = Thread::ExportConnect.start(move || {
            let tell = |report| {
                // The send fails when the server ends.
                if sender.send(report).is_ok() {
                    waker.wake();
                }
            };
            let step = |step| tell(ExportReport::Step(job, step));
            tell(match connect(&target, source, step) {
                Ok((stream, rest)) => ExportReport::Agreed(job, stream, rest),
                Err(why) => ExportReport::Refused(job, why),
            });
        });
        if let Err(error) = started {
            let why = format!("Unable to connect to target node: {}", plain_error(&error));
            let _ = self.sender.send(ExportReport::Refused(job, why));
        }
    }

    /// Whether no thread is connecting.
    pub fn is_idle(&self) -> bool {
        self.running == 0
    }

    /// The next report, in the order in which the threads sent them.
    pub fn next(&mut self) -> Option<ExportReport> {
        if self.running == 0 {
            return None;
        }
        let report = self.receiver.try_recv().ok()?;
        if !matches!(report, ExportReport::Step(..)) {
            self.running -= 1;
            self.start_next();
        }
        Some(report)
    }
}

/// Connects, authenticates, and asks the target to agree.
fn connect(
    target: &ExportTarget,
    source: ExportSource,
    step: impl Fn(ExportHandshake),
) -> Result<(Stream, Vec<u8>), String> {
    let ExportSource { address, tls, timeout } = source;
    let plan = ConnectPlan { host: target.host.clone(), port: target.port, source: address, timeout, tls };
    let unable =
        |error| why(&error, |error| format!("Unable to connect to target node: {}", plain_error(error)));
    let lost = |error| why(&error, |_| LOST.to_owned());
    let mut stream = Stream::connect(&plan).map_err(unable)?.block().map_err(unable)?;
    stream.set_timeout(timeout).map_err(unable)?;
    let mut input = Vec::new();
    if let Some(auth) = &target.auth {
        step(ExportHandshake::SendingAuthCommand);
        stream.write_all(auth).map_err(|error| {
            why(&error, |error| format!("Failed to send AUTH command to target node: {}", plain_error(error)))
        })?;
        step(ExportHandshake::ReadingAuthResponse);
        let answer = line(&mut stream, &mut input)
            .map_err(|error| why(&error, |_| "Target node did not respond to AUTH command".to_owned()))?;
        if answer.starts_with(b"-") {
            return Err(format!("Failed to AUTH to target node: {}", String::from_utf8_lossy(&answer)));
        }
    }
    step(ExportHandshake::SendingEstablishCommand);
    stream.write_all(&target.establish).map_err(lost)?;
    step(ExportHandshake::ReadingEstablishResponse);
    let answer = line(&mut stream, &mut input).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => "Response to establish job is larger than buffer limit".to_owned(),
        _ => lost(error),
    })?;
    if answer != b"+OK" {
        let answer = String::from_utf8_lossy(&answer);
        return Err(format!("Received error during handshake to target: {answer}"));
    }
    let stream = stream.release(&mut input);
    Ok((stream, input))
}

/// The error text for operators. A timeout has the same text here as in the node's state machine of moves,
/// because the state machine also measures the time, and either may detect the timeout first.
fn why(error: &io::Error, otherwise: impl FnOnce(&io::Error) -> String) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => MOVE_TIMED_OUT.to_owned(),
        _ => otherwise(error),
    }
}

/// The next line of the target's reply, without its line end. The bytes after the line stay in `input`.
fn line(stream: &mut BlockingStream, input: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    for _ in 0..READS_MAX {
        if let Some(end) = input.windows(2).position(|two| two == b"\r\n") {
            let rest = input.split_off(end + 2);
            let mut line = std::mem::replace(input, rest);
            line.truncate(end);
            return Ok(line);
        }
        if input.len() >= ANSWER_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => input.extend_from_slice(&buffer[..len]),
        }
    }
    Err(ErrorKind::InvalidData.into())
}

/// Maximum number of threads that connect at the same time; further moves wait.
const THREADS_MAX: usize = 16;
/// A reply must arrive in at most this many reads, so that a target that sends the reply in tiny pieces
/// does not occupy the thread.
const READS_MAX: usize = 64;
/// Maximum length in bytes of a target's reply.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// The error text for a connection that ends before the target's reply.
const LOST: &str =
    "Connection lost to target. Check CLUSTER GETSLOTMIGRATIONS on the target node for more information.";

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A target is silent if it never answers AUTH, or if its process is stopped while the kernel still
    /// accepts connections for it.
    #[test]
    fn cb_a40_a_silent_target_is_told_of_in_the_words_of_the_moves_own_clock() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        for auth in [None, Some(b"AUTH".to_vec())] {
            let target = ExportTarget {
                job: JobName([b'a'; 40]),
                host: "127.0.0.1".to_owned(),
                port: silent.local_addr().unwrap().port(),
                auth,
                establish: b"ESTABLISH".to_vec(),
            };
            let source =
                ExportSource { address: String::new(), tls: None, timeout: Duration::from_millis(100) };
            let refused = connect(&target, source, |_| ()).map(|_| ()).unwrap_err();
            assert_eq!(refused, MOVE_TIMED_OUT);
        }
    }
}
