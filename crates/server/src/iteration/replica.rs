//! The connections of the link to the primary. The server implements [`LinkTransport`]; events of the
//! connections and reports of threads become input of the link.
//!
//! Threads wake the event loop when they have a report, so that no report waits for a timer (D-2). Ten
//! times a second this file passes the time to the link.

use super::Server;
use crate::connection::input::Receive;
use crate::connection::output::OutputPiece;
use crate::connection::transport::Transport;
use crate::connection::{self, Connection};
use crate::net::{ConnectPlan, Ends, LinkChannel, PeerSide, Stream};
use crate::replica::LinkConnection;
use crate::replica::connect::Connecting;
use crate::replica::download::{Download, DownloadPlan, Report};
use crate::replica::main_channel::{MainLink, StreamBuffer};
use crate::replica::memory::{MemorySync, SourceReport};
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_config::choice::{RdbVersionCheck, ReplCompression};
use sluice_config::{Config, param};
use sluice_control::process::Process;
use sluice_control::process::ProcessClock;
use sluice_engine::{Engine, LinkDriver, LinkTransport};
use sluice_evloop::{AnyLoop, Event, Fd, Received, Sending, Sent};
use sluice_persist::rdb::{ReadOptions, Unknown};
use sluice_replication::LinkState;
use sluice_replication::{Input, Primary, SyncFailure};
use sluice_resp::{AuthState, Outbox};
use sluice_snapshot::SnapshotSource;
use sluice_storage::plain_error;
use sluice_storage::temporary::scratch_path;
use sluice_tls::Buffers;
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

impl Server {
    /// Drives the link to the primary: takes the reports of its threads, carries out its orders, executes the
    /// buffered stream, and handles deadlines.
    pub(super) fn follow_primary(&mut self) {
        // A change of this server's role that waited for the end of a load takes effect here, with or without
        // a link.
        self.carry_out();
        if self.primary_link.replay.is_some() {
            self.replay_stream();
        }
        if self.engine.link_state() != LinkState::None {
            self.poll_threads();
            self.advance_link();
        }
    }

    /// The latest time at which the link needs the next iteration, monotonic ns.
    pub(super) fn link_deadline_ns(&self) -> u64 {
        match self.has_replay() {
            true => 0,
            false => self.engine.link_tick_ns(),
        }
    }

    fn poll_threads(&mut self) {
        let attempt = self.primary_link.attempt;
        match &self.primary_link.holder {
            LinkConnection::Connecting(connecting) => match connecting.take() {
                None => {}
                Some(Ok(stream)) => self.link_opened(attempt, stream),
                Some(Err(reason)) => self.link_input(Input::Refused(attempt, &reason)),
            },
            LinkConnection::Receiving(_) => self.poll_download(attempt),
            LinkConnection::Loading(_) => self.poll_memory_sync(),
            LinkConnection::Nobody
            | LinkConnection::Attached(_)
            | LinkConnection::Leaving(..)
            | LinkConnection::Left(..)
            | LinkConnection::Received(..)
            | LinkConnection::Session(_) => {}
        }
    }

    fn poll_download(&mut self, attempt: u64) {
        while let LinkConnection::Receiving(download) = &self.primary_link.holder {
            let Some(report) = download.take() else { return };
            match report {
                Report::Log(level, line) => self.host.note(level, &line),
                Report::Saved => self.link_input(Input::Saved(attempt)),
                Report::InForce(stream, rest) => {
                    self.merge_download();
                    let received = LinkConnection::Received(stream, rest);
                    if let LinkConnection::Receiving(download) =
                        std::mem::replace(&mut self.primary_link.holder, received)
                    {
                        download.end();
                    }
                    self.link_input(Input::InForce(attempt));
                }
                Report::Failed => {
                    self.merge_download();
                    self.primary_link.holder = LinkConnection::Nobody;
                    self.link_input(Input::Failed(attempt, SyncFailure::Transfer));
                }
            }
        }
    }

    /// Takes the reports of a load from the primary's connection.
    fn poll_memory_sync(&mut self) {
        while let LinkConnection::Loading(sync) = &self.primary_link.holder {
            let Some(report) = sync.take() else { return };
            match report {
                SourceReport::Log(level, line) => self.host.note(level, &line),
                SourceReport::Received(stream, rest) => {
                    self.merge_download();
                    let received = LinkConnection::Received(stream, rest);
                    if let LinkConnection::Loading(sync) =
                        std::mem::replace(&mut self.primary_link.holder, received)
                    {
                        sync.end();
                    }
                }
            }
        }
    }

    /// Adds the bytes that a download has received to the main thread's counts.
    fn merge_download(&mut self) {
        if let Some(progress) = &self.host.incoming.sync {
            let bytes = progress.merge();
            self.host.work.counts.net_input_bytes += bytes;
            self.host.work.counts.net_repl_input_bytes += bytes;
        }
    }

    /// Numbers that change with each receive on the link's connection: received bytes, time in seconds of the
    /// last receive, and bytes of waiting input. During a download only the received bytes are used. If no
    /// connection receives, the numbers of the previous call are returned.
    fn last_activity(&self) -> (u64, i64, usize) {
        match &self.primary_link.holder {
            LinkConnection::Receiving(download) => (download.progress().received(), 0, 0),
            LinkConnection::Loading(sync) => (sync.progress().received(), 0, 0),
            LinkConnection::Session(key) => self.engine.session(*key).map_or((0, 0, 0), |session| {
                (
                    session.caller.traffic.net_in,
                    session.caller.traffic.last_s,
                    session.caller.traffic.input_bytes,
                )
            }),
            LinkConnection::Nobody
            | LinkConnection::Connecting(_)
            | LinkConnection::Attached(_)
            | LinkConnection::Leaving(..)
            | LinkConnection::Left(..)
            | LinkConnection::Received(..) => self.primary_link.last_activity,
        }
    }

    pub(super) fn note_activity(&mut self) {
        self.host.incoming.last_activity_ns = self.host.recent().mono_ns;
    }

    fn repl_timeout(&self) -> Duration {
        Duration::from_secs(self.engine.config().uint(param::REPL_TIMEOUT))
    }

    fn link_opened(&mut self, attempt: u64, stream: Stream) {
        let endpoint = self.primary_link.endpoint();
        let mut transport = Transport::attach_as(&mut self.sockets.event_loop, stream, endpoint);
        transport.receive(&mut self.sockets.event_loop, Receive::Chunks);
        self.primary_link.holder = LinkConnection::Attached(transport);
        self.link_input(Input::Opened(attempt));
    }

    /// Handles an event of one of the link's connections.
    #[cold]
    pub(super) fn link_event(&mut self, channel: LinkChannel, attempt: u32, event: Event) {
        if self.primary_link.is_main_channel(channel, attempt) {
            return self.main_channel_event(event);
        }
        let is_current = self.primary_link.is_in_event_loop(channel, attempt);
        let attempt = self.primary_link.attempt;
        match event {
            Event::Received { received, .. } => {
                let chunk = match received {
                    Received::Data(chunk) => chunk,
                    Received::Eof | Received::Failed(_) if is_current => {
                        return self.link_input(Input::Ended(attempt));
                    }
                    Received::Eof | Received::Failed(_) => return,
                };
                if is_current {
                    self.link_received(attempt, &chunk);
                }
                self.sockets.event_loop.give_back(chunk);
            }
            Event::Detached { fd, .. } if is_current => self.leave_done(fd),
            _ => {}
        }
    }

    /// Handles bytes of the link's connection as received from the socket.
    fn link_received(&mut self, attempt: u64, chunk: &[u8]) {
        let (LinkConnection::Attached(transport) | LinkConnection::Leaving(transport, _)) =
            &mut self.primary_link.holder
        else {
            return;
        };
        let mut buffers = self.sockets.spare.decoded();
        let decoded = match transport.is_coded() {
            false => Decoded::Plain(chunk),
            true => decode_on_link(transport, &mut self.sockets.event_loop, chunk, &mut buffers),
        };
        match decoded {
            Decoded::Plain(bytes) => {
                self.host.work.counts.net_input_bytes += bytes.len() as u64;
                self.host.work.counts.net_repl_input_bytes += bytes.len() as u64;
                self.note_activity();
                match &mut self.primary_link.holder {
                    LinkConnection::Leaving(_, first) => first.extend_from_slice(bytes),
                    _ if bytes.is_empty() => {}
                    _ => self.link_input(Input::Received(attempt, bytes)),
                }
            }
            Decoded::Ended(why) => {
                self.note_link_end(&why);
                self.link_input(Input::Ended(attempt));
            }
        }
        self.sockets.spare.keep_decoded(buffers);
    }

    /// Logs why a connection of the link has ended, if the reason is known.
    pub(super) fn note_link_end(&mut self, why: &str) {
        if !why.is_empty() {
            self.host.note(LogLevel::Warning, &format!("The connection to the primary has ended: {why}"));
        }
    }

    /// Takes the connection's socket after the event loop has released it.
    fn leave_done(&mut self, socket: Fd) {
        let (transport, first) =
            match std::mem::replace(&mut self.primary_link.holder, LinkConnection::Nobody) {
                LinkConnection::Leaving(transport, first) => (transport, first),
                // The attempt was given up, and another may be under way.
                other => return self.primary_link.holder = other,
            };
        self.primary_link.holder = LinkConnection::Left(transport.into_stream(socket), first);
        self.link_left(self.primary_link.attempt);
    }

    /// Takes the connection that the event loop has released, and the bytes of the snapshot that were
    /// received so far.
    fn take_left(&mut self) -> Result<(Stream, Vec<u8>), String> {
        match std::mem::replace(&mut self.primary_link.holder, LinkConnection::Nobody) {
            LinkConnection::Left(stream, first) => Ok((stream, first)),
            other => {
                self.primary_link.holder = other;
                Err("the connection has another holder".to_owned())
            }
        }
    }

    /// Handles the end of the load of a primary's snapshot.
    pub(super) fn sync_loaded(&mut self) {
        self.poll_memory_sync();
        self.merge_download();
        self.host.incoming.sync = None;
        self.carry_out();
    }

    pub(super) fn session_of_transport(&mut self, transport: &Transport) -> SessionKey {
        let socket = transport.socket(&mut self.sockets.event_loop);
        match socket.map(|socket| (Ends::of(socket), socket.as_raw_fd())) {
            Some((ends, number)) => self.session_of_link(ends, number),
            None => add_session_of_link(self, String::new(), "", -1),
        }
    }

    /// Sends bytes on a connection of the link, and counts them.
    fn send_bytes(&mut self, transport: &mut Transport, bytes: &[u8]) {
        self.host.work.counts.net_output_bytes += bytes.len() as u64;
        let mut output = Outbox::new();
        output.push(bytes);
        let piece = OutputPiece::Output(output);
        let event_loop = &mut self.sockets.event_loop;
        // The result is not needed, because the receive also reports a broken connection. No partial send
        // remains, because the bytes sent here are few, and the primary answers before more bytes are
        // sent.
        let _ = match transport.is_coded() {
            false => Ok(transport.send(event_loop, piece)),
            true => transport.send_coded(event_loop, piece, Vec::new()).sending,
        };
    }

    fn session_of_link(&mut self, ends: Ends, number: i32) -> SessionKey {
        let (addr, laddr) = ends.shown();
        add_session_of_link(self, addr, &laddr, number)
    }

    /// Handles the end of the link's client.
    pub(super) fn note_link_closed(&mut self, key: SessionKey) {
        if matches!(self.primary_link.holder, LinkConnection::Session(own) if own == key) {
            self.forget_replay(key);
            self.primary_link.holder = LinkConnection::Nobody;
            self.link_input(Input::Ended(self.primary_link.attempt));
        }
    }

    /// Whether a client is the link to the primary. The link's connection always stays with the main thread.
    pub(super) fn is_link(&self, key: SessionKey) -> bool {
        self.primary_link.session() == Some(key)
    }

    /// Gives up the download under way at the end of the server, and removes its file (D-5).
    pub(super) fn end_link(&mut self) {
        if let LinkConnection::Receiving(download) =
            std::mem::replace(&mut self.primary_link.holder, LinkConnection::Nobody)
        {
            download.remove_temporary();
        }
    }
}

/// The result of decoding bytes of a connection of the link.
pub(super) enum Decoded<'a> {
    /// Decoded bytes of the primary.
    Plain(&'a [u8]),
    /// The connection is over. The text is the reason, and empty if the primary has closed the connection
    /// properly.
    Ended(String),
}

/// Decodes bytes of a connection of the link, and sends the answers that TLS requires.
pub(super) fn decode_on_link<'a>(
    transport: &mut Transport,
    event_loop: &mut AnyLoop,
    chunk: &[u8],
    buffers: &'a mut Buffers,
) -> Decoded<'a> {
    let decoded = transport.decode(chunk, buffers);
    if !buffers.answer.is_empty() {
        let answer = std::mem::take(&mut buffers.answer);
        if decoded.is_err() {
            transport.send_last(event_loop, &answer);
        } else {
            let sending = transport.send_coded(event_loop, OutputPiece::Answer(answer), Vec::new()).sending;
            // If the record cannot be sent, for example while another send is in flight, it is missing
            // from the TLS record sequence. This connection then ends, and the link makes another one.
            if matches!(sending, Ok(Sending::Done(Sent { error: Some(_), .. })) | Err(_)) {
                return Decoded::Ended("what TLS answers to the primary could not be sent".to_owned());
            }
        }
    }
    match decoded {
        Ok(PeerSide::Open) => Decoded::Plain(&buffers.plain),
        Ok(PeerSide::Ended) if !buffers.plain.is_empty() => Decoded::Plain(&buffers.plain),
        Ok(PeerSide::Ended) => Decoded::Ended(String::new()),
        Err(why) => Decoded::Ended(why),
    }
}

impl LinkTransport for Server {
    fn engine_and_process(&mut self) -> (&mut Engine, &mut dyn Process) {
        (&mut self.engine, &mut self.host)
    }

    fn last_activity_ns(&mut self) -> u64 {
        let heard = self.last_activity();
        if heard != self.primary_link.last_activity {
            self.primary_link.last_activity = heard;
            self.note_activity();
        }
        self.host.incoming.last_activity_ns
    }

    fn connect_link(&mut self, attempt: u64, primary: Primary) -> Result<(), String> {
        let Primary { host, port } = primary;
        let source = self.engine.config().str(param::BIND_SOURCE_ADDR).into_owned();
        let tls = self.host.settings.tls.context_of_links();
        let plan = ConnectPlan { host, port, source, timeout: self.repl_timeout(), tls };
        self.note_activity();
        self.primary_link.attempt = attempt;
        let connecting = Connecting::start(plan, self.sockets.event_loop.waker());
        self.primary_link.holder =
            LinkConnection::Connecting(connecting.map_err(|error| plain_error(&error))?);
        Ok(())
    }

    fn keep_as_main_channel(&mut self) {
        let holder = std::mem::replace(&mut self.primary_link.holder, LinkConnection::Nobody);
        if let LinkConnection::Attached(transport) = holder {
            self.primary_link.main = Some(MainLink::new(transport));
        }
    }

    fn send_on_link(&mut self, bytes: Vec<u8>) {
        match std::mem::replace(&mut self.primary_link.holder, LinkConnection::Nobody) {
            LinkConnection::Attached(mut transport) => {
                self.send_bytes(&mut transport, &bytes);
                self.primary_link.holder = LinkConnection::Attached(transport);
            }
            other => self.primary_link.holder = other,
        }
    }

    fn send_on_main_channel(&mut self, bytes: Vec<u8>) {
        if let Some(mut main) = self.primary_link.main.take() {
            self.send_bytes(&mut main.transport, &bytes);
            self.primary_link.main = Some(main);
        }
    }

    fn buffer_stream(&mut self, first: Vec<u8>) {
        if let Some(main) = &mut self.primary_link.main {
            main.buffer = Some(StreamBuffer::default());
            self.host.incoming.stream_buffer.peak = 0;
        }
        let is_packed = may_be_packed(self.engine.config());
        let first = match self.primary_link.main.as_mut().filter(|_| is_packed) {
            Some(main) => unpack_first(&mut main.transport, &mut self.sockets.event_loop, &first),
            None => Ok(first),
        };
        match first {
            Ok(first) => self.keep_of_stream(&first),
            Err(why) => self.note_link_end(&why),
        }
    }

    fn leave_link(&mut self, first: Vec<u8>) {
        match std::mem::replace(&mut self.primary_link.holder, LinkConnection::Nobody) {
            LinkConnection::Attached(mut transport) => {
                let event_loop = &mut self.sockets.event_loop;
                transport.receive(event_loop, Receive::Nothing);
                transport.detach(event_loop);
                self.primary_link.holder = LinkConnection::Leaving(transport, first);
            }
            other => self.primary_link.holder = other,
        }
    }

    fn receive_to_disk(&mut self) -> Result<(), String> {
        let (stream, first) = self.take_left()?;
        self.host.note(LogLevel::Notice, "Replica main thread creating Bio thread to save RDB to disk");
        let config = self.engine.config();
        let is_relaxed =
            config.choice::<RdbVersionCheck>(param::RDB_VERSION_CHECK) == RdbVersionCheck::Relaxed;
        let options = ReadOptions {
            unknown: if is_relaxed { Unknown::Skip } else { Unknown::Refuse },
            checksum: config.bool(param::RDBCHECKSUM),
            ..ReadOptions::default()
        };
        let folder = std::env::current_dir().unwrap_or_default();
        let target = folder.join(OsStr::from_bytes(config.bytes(param::DBFILENAME)));
        let bio_cpulist = config.str(param::BIO_CPULIST).into_owned();
        let temporary = scratch_path(self.host.snapshots.count());
        let storage = self.host.storage.clone();
        let plan = DownloadPlan { storage, temporary, target, options, bio_cpulist };
        let waker = self.sockets.event_loop.waker();
        let download = Download::start(stream, first, plan, waker).map_err(|error| plain_error(&error))?;
        self.note_activity();
        self.host.incoming.sync = Some(download.progress().clone());
        self.primary_link.holder = LinkConnection::Receiving(download);
        Ok(())
    }

    fn receive_to_memory(&mut self) -> Result<Box<dyn SnapshotSource>, String> {
        let (stream, first) = self.take_left()?;
        let waker = self.sockets.event_loop.waker();
        let (sync, source) = MemorySync::new(stream, first, waker).map_err(|error| plain_error(&error))?;
        self.note_activity();
        self.host.incoming.sync = Some(sync.progress().clone());
        self.primary_link.holder = LinkConnection::Loading(sync);
        Ok(Box::new(source))
    }

    fn commit_download(&mut self) {
        if let LinkConnection::Receiving(download) = &self.primary_link.holder {
            download.commit();
        }
    }

    fn keep_link_alive(&mut self) {
        if self.primary_link.main.is_some() {
            return self.send_on_main_channel(b"\n".to_vec());
        }
        match &mut self.primary_link.holder {
            LinkConnection::Receiving(download) => download.keep_alive(),
            LinkConnection::Received(stream, _) => stream.keep_alive(),
            LinkConnection::Nobody
            | LinkConnection::Connecting(_)
            | LinkConnection::Attached(_)
            | LinkConnection::Leaving(..)
            | LinkConnection::Left(..)
            | LinkConnection::Loading(_)
            | LinkConnection::Session(_) => {}
        }
    }

    /// Makes the main channel, or else the link's connection, the connection of a session in the main
    /// thread's event loop. Returns false if there is no such connection.
    fn stream_from_link(&mut self, rest: Vec<u8>) -> bool {
        let holder = std::mem::replace(&mut self.primary_link.holder, LinkConnection::Nobody);
        if let Some(main) = self.primary_link.main.take() {
            self.note_activity();
            self.stream_from_main_channel(main);
            return true;
        }
        let ((key, mut transport), rest) = match holder {
            LinkConnection::Attached(mut transport) => {
                let key = self.session_of_transport(&transport);
                transport.become_client(&mut self.sockets.event_loop, key);
                ((key, transport), rest)
            }
            LinkConnection::Received(stream, behind) => {
                let key = self.session_of_link(stream.ends(), stream.number());
                let transport = Transport::attach(&mut self.sockets.event_loop, stream, key);
                ((key, transport), behind)
            }
            _ => return false,
        };
        self.note_activity();
        self.primary_link.holder = LinkConnection::Session(key);
        self.sockets.clients.add(key);
        let rest = match may_be_packed(self.engine.config()) {
            true => unpack_first(&mut transport, &mut self.sockets.event_loop, &rest),
            false => Ok(rest),
        };
        let mut connection = Connection::new(key, transport);
        connection.authentication = AuthState::Primary;
        match rest {
            Ok(rest) => connection.input.keep(&rest),
            Err(why) => self.note_link_end(&why),
        }
        connection::resume(self, connection);
        true
    }

    fn close_link(&mut self) {
        self.merge_download();
        self.host.incoming.sync = None;
        self.close_main_channel();
        if let Some(key) = self.primary_link.session() {
            self.forget_replay(key);
        }
        match std::mem::replace(&mut self.primary_link.holder, LinkConnection::Nobody) {
            LinkConnection::Nobody | LinkConnection::Connecting(_) | LinkConnection::Leaving(..) => {}
            LinkConnection::Attached(mut transport) => transport.close(&mut self.sockets.event_loop),
            // Dropping the download closes its socket.
            LinkConnection::Receiving(download) => drop(download),
            LinkConnection::Loading(sync) => {
                drop(sync);
                if let Some(load) = &self.host.incoming.load {
                    load.stop();
                }
            }
            LinkConnection::Left(stream, _) | LinkConnection::Received(stream, _) => drop(stream),
            LinkConnection::Session(key) => self.end_client(key),
        }
    }
}

/// Whether this server has told the primary that it accepts a compressed stream.
fn may_be_packed(config: &Config) -> bool {
    config.choice(param::REPL_COMPRESSION) != ReplCompression::No
}

/// Makes the connection decompress the primary's stream, whose first bytes are `first`. Errors: the stream
/// is malformed, and the connection will end.
fn unpack_first(
    transport: &mut Transport,
    event_loop: &mut AnyLoop,
    first: &[u8],
) -> Result<Vec<u8>, String> {
    let unpacked = transport.unpack(first);
    if unpacked.is_err() {
        transport.end(event_loop);
    }
    unpacked
}

/// Adds a client for the link.
fn add_session_of_link(server: &mut Server, addr: String, laddr: &str, fd: i32) -> SessionKey {
    let client = sluice_session::ClientAddress {
        addr,
        laddr: laddr.into(),
        fd,
        medium: sluice_session::Medium::Tcp,
        has_priority: false,
    };
    server.engine.connect_primary(client, &mut server.host)
}
