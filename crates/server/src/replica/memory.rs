//! A full sync into memory: the thread of a load reads the snapshot from the connection.
//!
//! ```text
//!  line ──► payload ──► the load reads all of it ──► the mark, if there is one ──► the socket goes back
//!     └────────┴── fails, is cancelled: the load ends without data, and the socket is closed
//! ```
//!
//! Invariants: (1) the source owns the connection, and returns it before the main thread learns that the load
//! has ended; (2) the main thread never waits for the source: to cancel the sync, the main thread shuts the
//! socket down (D-1).

use super::progress::SyncProgress;
use crate::net::{BlockingStream, Stream, StreamRemote};
use sluice_base::LogLevel;
use sluice_evloop::Waker;
use sluice_replication::{Extent, Framing};
use sluice_snapshot::SnapshotSource;
use sluice_storage::plain_error;
use std::convert::Infallible;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A report of the source to the main thread.
pub enum SourceReport {
    /// A line for the log.
    Log(LogLevel, String),
    /// The complete snapshot was read. Holds the connection, and the bytes that arrived after the snapshot.
    Received(Stream, Vec<u8>),
}

/// The main thread's side of a full sync into memory. Dropping it before the sync's end cancels the sync.
pub struct MemorySync {
    reports: Receiver<SourceReport>,
    /// A handle to end the connection; `None` after the connection was returned.
    remote: Option<StreamRemote>,
    progress: Arc<SyncProgress>,
}

impl MemorySync {
    /// Makes the source of a load from this connection. The bytes in `first` were already received on it.
    pub fn new(stream: Stream, first: Vec<u8>, waker: Waker) -> io::Result<(MemorySync, SocketSource)> {
        let (sender, reports) = channel();
        let progress = Arc::new(SyncProgress::default());
        progress.count_received(first.len());
        let stream = stream.block()?;
        let remote = stream.remote()?;
        let source = SocketSource {
            stream: Some(stream),
            come: first,
            ready: Vec::new(),
            framing: Framing::default(),
            progress: progress.clone(),
            sender,
            waker,
        };
        Ok((MemorySync { reports, remote: Some(remote), progress }, source))
    }

    /// The counters of received bytes.
    pub fn progress(&self) -> &Arc<SyncProgress> {
        &self.progress
    }

    /// The next report, if there is one.
    pub fn take(&self) -> Option<SourceReport> {
        self.reports.try_recv().ok()
    }

    /// Records that the connection was returned.
    pub fn end(mut self) {
        self.remote = None;
    }
}

impl Drop for MemorySync {
    fn drop(&mut self) {
        if let Some(remote) = &self.remote {
            remote.end();
        }
    }
}

/// A snapshot read from a connection.
pub struct SocketSource {
    stream: Option<BlockingStream>,
    /// Received bytes that were not parsed.
    come: Vec<u8>,
    /// Bytes of the snapshot that the load has not read.
    ready: Vec<u8>,
    framing: Framing,
    progress: Arc<SyncProgress>,
    sender: Sender<SourceReport>,
    waker: Waker,
}

impl Drop for SocketSource {
    /// Ends the connection of a failed load at once. Closing the socket would not suffice, because the main
    /// thread shares it.
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.end();
        }
    }
}

impl SocketSource {
    /// Receives at least one byte.
    fn receive(&mut self) -> Result<(), String> {
        let Some(stream) = &mut self.stream else { return Err("the connection is gone".to_owned()) };
        let mut buffer = vec![0; self.framing.welcome(READ_BYTES)];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Err("connection lost".to_owned()),
                Ok(len) => {
                    self.progress.count_received(len);
                    self.come.extend_from_slice(&buffer[..len]);
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(plain_error(&error)),
            }
        }
    }

    /// Moves the snapshot's bytes from the received bytes to `ready`.
    fn unframe(&mut self) {
        let SocketSource { come, ready, framing, progress, .. } = self;
        let mut give = |bytes: &[u8]| {
            progress.count_read(bytes.len());
            ready.extend_from_slice(bytes);
            Ok::<(), Infallible>(())
        };
        let used = framing.payload(come, &mut give).unwrap_or(0);
        come.drain(..used);
    }

    fn report(&self, report: SourceReport) {
        // The send fails if the sync was cancelled.
        if self.sender.send(report).is_ok() {
            self.waker.wake();
        }
    }
}

impl SnapshotSource for SocketSource {
    fn open(&mut self) -> Result<Option<u64>, String> {
        let extent = loop {
            let (used, extent) = self.framing.line(&self.come).map_err(|error| error.to_string())?;
            self.come.drain(..used);
            if let Some(extent) = extent {
                break extent;
            }
            self.receive()?;
        };
        let (size, text) = match extent {
            Extent::Sized(size) => {
                (size, format!("PRIMARY <-> REPLICA sync: receiving {size} bytes from primary to parser"))
            }
            Extent::Marked => (
                0,
                "PRIMARY <-> REPLICA sync: receiving streamed RDB from primary with EOF to parser".to_owned(),
            ),
        };
        self.progress.set_total(size);
        self.report(SourceReport::Log(LogLevel::Notice, text));
        self.unframe();
        Ok(Some(size))
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        while self.ready.is_empty() {
            if self.framing.has_ended() {
                return Ok(0);
            }
            self.receive()?;
            self.unframe();
        }
        let len = self.ready.len().min(into.len());
        into[..len].copy_from_slice(&self.ready[..len]);
        self.ready.drain(..len);
        Ok(len)
    }

    fn end(&mut self) {
        // The load has read the snapshot up to its checksum, but the end mark may not have arrived yet.
        while !self.framing.has_ended() && self.ready.is_empty() && self.receive().is_ok() {
            self.unframe();
        }
        if self.framing.has_ended()
            && self.ready.is_empty()
            && let Some(stream) = self.stream.take()
        {
            let mut rest = std::mem::take(&mut self.come);
            let stream = stream.release(&mut rest);
            self.report(SourceReport::Received(stream, rest));
        }
    }
}

/// Maximum number of bytes received at once.
const READ_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_evloop::{AnyLoop, Backend};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn bed() -> (TcpStream, MemorySync, SocketSource, AnyLoop) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let primary = listener.accept().unwrap().0;
        let event_loop = AnyLoop::choose(Backend::Poll, &Default::default()).unwrap().event_loop;
        let (sync, source) = MemorySync::new(socket.into(), Vec::new(), event_loop.waker()).unwrap();
        (primary, sync, source, event_loop)
    }

    fn read_all(source: &mut SocketSource, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut piece = [0; 7];
        while all.len() < len {
            let wanted = piece.len().min(len - all.len());
            let got = source.read(&mut piece[..wanted]).unwrap();
            assert!(got > 0);
            all.extend_from_slice(&piece[..got]);
        }
        all
    }

    #[test]
    fn the_connection_comes_back_behind_a_snapshot_of_either_kind() {
        let mark = "m".repeat(40);
        for (bytes, size, rest) in [
            ("\n$10\r\n0123456789*1\r\n".to_owned(), 10, "*1\r\n"),
            (format!("$EOF:{mark}\r\n0123456789{mark}"), 0, ""),
        ] {
            let (mut primary, sync, mut source, _event_loop) = bed();
            primary.write_all(bytes.as_bytes()).unwrap();
            assert_eq!(source.open(), Ok(Some(size)));
            assert_eq!(read_all(&mut source, 10), b"0123456789");
            source.end();
            let Some(SourceReport::Log(..)) = sync.take() else { panic!("a line for the log") };
            let Some(SourceReport::Received(socket, mut behind)) = sync.take() else { panic!("the socket") };
            sync.end();
            let mut socket = socket.block().unwrap();
            let mut more = vec![0; rest.len() - behind.len()];
            socket.read_exact(&mut more).unwrap();
            behind.extend_from_slice(&more);
            assert_eq!(behind, rest.as_bytes());
            primary.write_all(b"x").unwrap();
            assert_eq!(socket.read(&mut [0]).unwrap(), 1, "it is open");
        }
    }

    #[test]
    fn a_cancel_ends_the_wait_and_closes_the_connection() {
        let (mut primary, sync, mut source, _event_loop) = bed();
        primary.write_all(b"$10\r\n012").unwrap();
        source.open().unwrap();
        assert_eq!(read_all(&mut source, 3), b"012");
        drop(sync);
        assert!(source.read(&mut [0; 8]).is_err());
        drop(source);
        assert_eq!(primary.read(&mut [0]).unwrap_or(0), 0);
    }

    #[test]
    fn a_load_that_fails_closes_the_connection() {
        let (mut primary, sync, mut source, _event_loop) = bed();
        primary.write_all(b"$10\r\n01234").unwrap();
        source.open().unwrap();
        source.read(&mut [0; 5]).unwrap();
        drop(source);
        assert!(matches!(sync.take(), Some(SourceReport::Log(..))));
        assert!(sync.take().is_none(), "nothing comes back");
        assert_eq!(primary.read(&mut [0]).unwrap_or(0), 0);
    }
}
