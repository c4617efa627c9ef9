//! The link to the primary, driven: what the machine of `sluice_replication` wants is done, and what comes of it is told.
//!
//! The machine sees one input at a time. Threads wake the event loop when they have something, so that nothing waits for a clock (D-2);
//! ten times a second time itself is an input.

use super::Server;
use crate::connection::transport::Transport;
use crate::connection::{self, Connection};
use crate::listen;
use crate::os::plain_error;
use crate::replica::connect::{ConnectPlan, Connecting};
use crate::replica::download::{Download, DownloadPlan, Report, keep_alive};
use crate::replica::memory::{MemoryReport, MemorySync};
use crate::replica::{LinkHolder, TICK_NS, is_of_link};
use crate::storage;
use sluice_config::choice::{DisklessLoad, RdbVersionCheck};
use sluice_config::param;
use sluice_engine::{HistoryPoint, LinkState, LogLevel, NotLoaded, Process, SessionKey, SyncSource};
use sluice_evloop::{Event, Fd, Received, SendBuf, Sending, Source};
use sluice_persist::rdb::{ReadOptions, Unknown};
use sluice_replication::{self as replication, Input, LinkOutput, Primary, SyncFailure};
use sluice_resp::Admission;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

impl Server {
    /// Goes on with the link to the primary: whom it leads to, what its threads have reported, what is due.
    pub(super) fn follow_primary(&mut self) {
        let epoch = self.engine.role_epoch();
        if epoch != self.follower.seen_epoch && !self.engine.is_loading() {
            self.follower.seen_epoch = epoch;
            match self.engine.primary().cloned() {
                Some(primary) if self.engine.is_failing_over() => self.link_step(Input::HandOver(primary)),
                primary => self.link_step(Input::Follow(primary)),
            }
        }
        if self.follower.replay.is_some() {
            self.replay_stream();
        }
        if self.follower.link.state() != LinkState::None {
            self.hear_threads();
            self.commit_download();
            self.tick_link();
        }
    }

    /// When the link wants the next iteration at the latest, ns of the monotonic clock.
    pub(super) fn link_deadline_ns(&self) -> u64 {
        match self.follower.link.state() {
            LinkState::None => u64::MAX,
            _ if self.has_replay() => 0,
            _ => self.follower.next_tick_ns,
        }
    }

    fn hear_threads(&mut self) {
        let attempt = self.follower.link.attempt();
        match &self.follower.holder {
            LinkHolder::Connecting(connecting) => match connecting.take() {
                None => {}
                Some(Ok(socket)) => self.link_opened(attempt, socket),
                Some(Err(reason)) => self.link_step(Input::Refused(attempt, &reason)),
            },
            LinkHolder::Receiving(_) => self.hear_download(attempt),
            LinkHolder::Loading(_) => self.hear_memory_sync(),
            LinkHolder::Nobody
            | LinkHolder::Attached(_)
            | LinkHolder::Leaving(_)
            | LinkHolder::Received(..)
            | LinkHolder::Session(_) => {}
        }
    }

    fn hear_download(&mut self, attempt: u64) {
        while let LinkHolder::Receiving(download) = &self.follower.holder {
            let Some(report) = download.take() else { return };
            match report {
                Report::Log(level, line) => self.host.note(level, &line),
                Report::Saved => self.link_step(Input::Saved(attempt)),
                Report::InForce(socket, rest) => {
                    self.merge_download();
                    let received = LinkHolder::Received(socket, rest);
                    if let LinkHolder::Receiving(download) =
                        std::mem::replace(&mut self.follower.holder, received)
                    {
                        download.end();
                    }
                    self.link_step(Input::InForce(attempt));
                }
                Report::Failed => {
                    self.merge_download();
                    self.follower.holder = LinkHolder::Nobody;
                    self.link_step(Input::Failed(attempt, SyncFailure::Transfer));
                }
            }
        }
    }

    /// Has the snapshot that was received take the place of the RDB file, unless that is about to become the base of the append-only file.
    fn commit_download(&mut self) {
        if !self.follower.commit_waits || self.engine.is_snapshot_wanted(&mut self.host) {
            return;
        }
        self.follower.commit_waits = false;
        if let LinkHolder::Receiving(download) = &self.follower.holder {
            self.engine.prepare_commit(&mut self.host);
            download.commit();
        }
    }

    /// Takes up what the source of a load has told.
    fn hear_memory_sync(&mut self) {
        while let LinkHolder::Loading(sync) = &self.follower.holder {
            let Some(report) = sync.take() else { return };
            match report {
                MemoryReport::Log(level, line) => self.host.note(level, &line),
                MemoryReport::Received(socket, rest) => {
                    self.merge_download();
                    let received = LinkHolder::Received(socket, rest);
                    if let LinkHolder::Loading(sync) = std::mem::replace(&mut self.follower.holder, received)
                    {
                        sync.end();
                    }
                }
            }
        }
    }

    /// What a download has received is counted as the main thread's from now on.
    fn merge_download(&mut self) {
        if let Some(progress) = &self.follower.progress {
            let bytes = progress.merge();
            self.host.counts.net_input_bytes += bytes;
            self.host.counts.net_repl_input_bytes += bytes;
        }
    }

    fn tick_link(&mut self) {
        let now = self.host.recent();
        if now.mono_ns < self.follower.next_tick_ns {
            return;
        }
        self.follower.next_tick_ns = now.mono_ns + TICK_NS;
        let heard = match &self.follower.holder {
            LinkHolder::Receiving(download) => (download.progress().received(), 0, 0),
            LinkHolder::Loading(sync) => (sync.progress().received(), 0, 0),
            LinkHolder::Session(key) => self.engine.session(*key).map_or((0, 0, 0), |session| {
                (
                    session.caller.traffic.net_in,
                    session.caller.traffic.last_s,
                    session.caller.traffic.input_bytes,
                )
            }),
            LinkHolder::Nobody
            | LinkHolder::Connecting(_)
            | LinkHolder::Attached(_)
            | LinkHolder::Leaving(_)
            | LinkHolder::Received(..) => self.follower.heard,
        };
        if heard != self.follower.heard {
            self.follower.heard = heard;
            self.note_heard();
        }
        self.publish_sync_facts();
        self.link_step(Input::Tick);
    }

    pub(super) fn note_heard(&mut self) {
        self.follower.heard_ns = self.host.recent().mono_ns;
    }

    /// What INFO shows of the snapshot that is received.
    fn publish_sync_facts(&mut self) {
        let is_transfer = self.follower.link.state() == LinkState::Transfer;
        self.host.sync = self.follower.progress.clone().filter(|_| is_transfer);
        self.host.sync_heard_ns = self.follower.heard_ns;
    }

    /// Takes a step of the machine, and does what it wants.
    pub(super) fn link_step(&mut self, input: Input<'_>) {
        let seen = (self.follower.heard_ns, crate::cli::COMPATIBLE);
        let outputs = self.engine.step_link(&mut self.follower.link, input, seen, &mut self.host);
        for output in outputs {
            self.do_for_link(output);
        }
        self.engine.settle_link(&mut self.host);
        self.publish_sync_facts();
    }

    fn repl_timeout(&self) -> Duration {
        Duration::from_secs(self.engine.config().uint(param::REPL_TIMEOUT))
    }

    fn do_for_link(&mut self, output: LinkOutput) {
        let attempt = self.follower.link.attempt();
        match output {
            LinkOutput::Log(replication::LogLevel::Notice, line) => self.host.note(LogLevel::Notice, &line),
            LinkOutput::Log(replication::LogLevel::Warning, line) => self.host.note(LogLevel::Warning, &line),
            LinkOutput::Connect(attempt, primary) => self.connect_link(attempt, primary),
            LinkOutput::ConnectSecond(attempt, primary) => self.connect_second(attempt, primary),
            LinkOutput::Send(bytes) => self.send_on_link(bytes),
            LinkOutput::SendMain(bytes) => self.send_on_main_channel(bytes),
            LinkOutput::Buffer(first) => self.buffer_stream(&first),
            LinkOutput::Receive(first) => self.leave_for_download(first),
            LinkOutput::Commit => {
                self.follower.commit_waits = true;
                self.commit_download();
            }
            LinkOutput::Load if self.engine.is_loading() => {
                self.link_step(Input::Failed(attempt, SyncFailure::Transfer))
            }
            LinkOutput::Load => self.engine.begin_sync_load(SyncSource::File, &mut self.host),
            LinkOutput::KeepAlive if self.follower.main.is_some() => {
                self.send_on_main_channel(b"\n".to_vec());
            }
            LinkOutput::KeepAlive => match &self.follower.holder {
                LinkHolder::Receiving(download) => download.keep_alive(),
                LinkHolder::Received(socket, _) => keep_alive(socket.as_fd()),
                LinkHolder::Nobody
                | LinkHolder::Connecting(_)
                | LinkHolder::Attached(_)
                | LinkHolder::Leaving(_)
                | LinkHolder::Loading(_)
                | LinkHolder::Session(_) => {}
            },
            LinkOutput::Adopt(HistoryPoint { replid, offset }) => {
                let point = HistoryPoint { replid, offset };
                self.engine.adopt_history(point, &mut self.host);
            }
            LinkOutput::Continue(replid) => self.engine.continue_history(replid),
            LinkOutput::HandedOver => self.engine.end_failover(&mut self.host),
            LinkOutput::NotHandedOver => {
                self.engine.abort_failover("Failover target rejected psync request", &mut self.host);
            }
            LinkOutput::Stream(rest) => self.stream_from_link(attempt, rest),
            LinkOutput::Acknowledge => self.engine.acknowledge(),
            LinkOutput::Close => self.close_link(),
        }
    }

    pub(super) fn connect_link(&mut self, attempt: u64, primary: Primary) {
        let Primary { host, port } = primary;
        let source = self.engine.config().str(param::BIND_SOURCE_ADDR).into_owned();
        let plan = ConnectPlan { host, port, source, timeout: self.repl_timeout() };
        self.note_heard();
        match Connecting::start(plan, self.sockets.event_loop.waker()) {
            Ok(connecting) => self.follower.holder = LinkHolder::Connecting(connecting),
            Err(error) => self.link_step(Input::Refused(attempt, &plain_error(&error))),
        }
    }

    fn link_opened(&mut self, attempt: u64, socket: OwnedFd) {
        let token = self.follower.token();
        let source = self.sockets.event_loop.attach(socket, token);
        self.follower.holder = LinkHolder::Attached(source);
        self.sockets.event_loop.recv_start(source);
        self.link_step(Input::Opened(attempt));
    }

    /// Sends a line of the handshake: shorter than what a socket takes at once.
    fn send_on_link(&mut self, bytes: Vec<u8>) {
        let LinkHolder::Attached(source) = self.follower.holder else { return };
        self.host.counts.net_output_bytes += bytes.len() as u64;
        match self.sockets.event_loop.send(source, SendBuf { head: bytes, shared: Vec::new() }) {
            Sending::Done(sent) if sent.error.is_some() => {
                // The end of the connection is reported by the receive, too.
            }
            Sending::Done(_) | Sending::InFlight => {}
        }
    }

    /// Takes an event of the link's descriptors; any other event comes back.
    #[cold]
    pub(super) fn take_link_event(&mut self, event: Event) -> Option<Event> {
        if is_of_link(&event) {
            self.link_event(event);
            return None;
        }
        self.keep_late(event)
    }

    fn link_event(&mut self, event: Event) {
        if self.follower.is_of_main_channel(&event) {
            return self.main_channel_event(event);
        }
        let attempt = self.follower.link.attempt();
        match event {
            Event::Received { token, received } => {
                let is_current = token == self.follower.token();
                let chunk = match received {
                    Received::Data(chunk) => chunk,
                    Received::Eof | Received::Failed(_) if is_current => {
                        return self.link_step(Input::Ended(attempt));
                    }
                    Received::Eof | Received::Failed(_) => return,
                };
                self.host.counts.net_input_bytes += chunk.len() as u64;
                self.host.counts.net_repl_input_bytes += chunk.len() as u64;
                self.note_heard();
                match &mut self.follower.holder {
                    LinkHolder::Leaving(first) if is_current => first.extend_from_slice(&chunk),
                    _ if is_current => self.link_step(Input::Received(attempt, &chunk)),
                    _ => {}
                }
                self.sockets.event_loop.give_back(chunk);
            }
            Event::Detached { token, fd } => {
                self.follower.leaving = self.follower.leaving.saturating_sub(1);
                if token == self.follower.token() {
                    self.leave_done(attempt, fd);
                }
            }
            _ => {}
        }
    }

    /// The snapshot begins: the event loop is to let go of the connection.
    fn leave_for_download(&mut self, first: Vec<u8>) {
        let LinkHolder::Attached(source) = self.follower.holder else { return };
        self.follower.commit_waits = false;
        let event_loop = &mut self.sockets.event_loop;
        event_loop.recv_stop(source);
        event_loop.detach(source);
        self.follower.leaving += 1;
        self.follower.holder = LinkHolder::Leaving(first);
    }

    /// The event loop has let go of the connection. Where a client has changed the role meanwhile, nothing is loaded from it: the link is
    /// told next whom this server follows, which a load would put off until it has taken the place of the data.
    fn leave_done(&mut self, attempt: u64, fd: Fd) {
        if self.engine.role_epoch() == self.follower.seen_epoch {
            self.begin_download(attempt, fd);
        } else if matches!(self.follower.holder, LinkHolder::Leaving(_)) {
            self.follower.holder = LinkHolder::Nobody;
        }
    }

    fn begin_download(&mut self, attempt: u64, fd: Fd) {
        let first = match std::mem::replace(&mut self.follower.holder, LinkHolder::Nobody) {
            LinkHolder::Leaving(first) => first,
            // The attempt was given up, and another may be under way.
            other => return self.follower.holder = other,
        };
        if let Some(how) = self.memory_load() {
            return self.begin_memory_load(attempt, fd, first, how);
        }
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
        let processors = config.str(param::BIO_CPULIST).into_owned();
        let temporary = storage::snapshot::scratch_path(self.host.count_snapshot());
        let storage = self.host.storage.clone();
        let plan = DownloadPlan { storage, temporary, target, options, processors };
        let waker = self.sockets.event_loop.waker();
        let begun = owned(fd).and_then(|socket| Download::start(socket, first, plan, waker));
        match begun {
            Ok(download) => {
                self.note_heard();
                self.follower.progress = Some(download.progress().clone());
                self.follower.holder = LinkHolder::Receiving(download);
            }
            Err(error) => {
                let text = format!("No thread to receive the snapshot: {}", plain_error(&error));
                self.host.note(LogLevel::Warning, &text);
                self.link_step(Input::Failed(attempt, SyncFailure::Transfer));
            }
        }
        self.publish_sync_facts();
    }

    /// How a snapshot is loaded from the connection, where it is.
    fn memory_load(&self) -> Option<DisklessLoad> {
        let wanted = self.engine.config().choice::<DisklessLoad>(param::REPL_DISKLESS_LOAD);
        match wanted {
            DisklessLoad::Disabled => None,
            DisklessLoad::OnEmptyDb => {
                let is_empty = self.engine.keyspace().iter().all(|(_, db)| db.is_empty());
                is_empty.then_some(wanted)
            }
            DisklessLoad::SwapDb | DisklessLoad::FlushBeforeLoad => Some(wanted),
        }
    }

    fn begin_memory_load(&mut self, attempt: u64, fd: Fd, first: Vec<u8>, how: DisklessLoad) {
        let waker = self.sockets.event_loop.waker();
        // One load at a time: one of DEBUG, or of an attempt that was given up, may not have ended.
        let begun = match self.engine.is_loading() {
            true => Err(std::io::Error::other("another load is under way")),
            false => owned(fd).and_then(|socket| MemorySync::new(socket, first, waker)),
        };
        match begun {
            Ok((sync, source)) => {
                self.note_heard();
                self.follower.progress = Some(sync.progress().clone());
                self.follower.holder = LinkHolder::Loading(sync);
                let source = Box::new(source);
                let source = match (how, self.follower.link.point()) {
                    (DisklessLoad::SwapDb, Some(point)) => {
                        SyncSource::Exchanged(source, point.replid.clone())
                    }
                    _ => SyncSource::Stream(source),
                };
                self.engine.begin_sync_load(source, &mut self.host);
            }
            Err(error) => {
                let text =
                    format!("The snapshot cannot be loaded from the connection: {}", plain_error(&error));
                self.host.note(LogLevel::Warning, &text);
                self.link_step(Input::Failed(attempt, SyncFailure::Transfer));
            }
        }
        self.publish_sync_facts();
    }

    /// The load of a snapshot of the primary, which another thread has done (D-9), has ended.
    pub(super) fn sync_loaded(&mut self, result: Result<(), NotLoaded>) {
        let attempt = self.follower.link.attempt();
        self.hear_memory_sync();
        self.merge_download();
        self.follower.progress = None;
        match result {
            Ok(()) => {
                // Says nothing new where the snapshot was loaded from its file.
                self.link_step(Input::Accepted(attempt));
                self.link_step(Input::Loaded(attempt));
            }
            Err(_) => {
                let is_of_stream = matches!(self.follower.holder, LinkHolder::Loading(_));
                let failure = if is_of_stream { SyncFailure::Stream } else { SyncFailure::Load };
                self.link_step(Input::Failed(attempt, failure));
            }
        }
    }

    /// Commands follow: the connection is that of a session from now on, in the main thread's event loop.
    fn stream_from_link(&mut self, attempt: u64, rest: Vec<u8>) {
        let holder = std::mem::replace(&mut self.follower.holder, LinkHolder::Nobody);
        if let Some(main) = self.follower.main.take() {
            self.note_heard();
            return self.stream_from_main_channel(main);
        }
        let (transport, rest) = match holder {
            LinkHolder::Attached(source) => (self.transport_of_link(source), rest),
            LinkHolder::Received(socket, behind) => {
                let key = self.session_of_link(socket.as_fd());
                let transport = Transport::attach(&mut self.sockets.event_loop, socket, key);
                ((key, transport), behind)
            }
            _ => return self.link_step(Input::Ended(attempt)),
        };
        let (key, transport) = transport;
        self.note_heard();
        self.follower.holder = LinkHolder::Session(key);
        self.sockets.clients.add(key);
        let mut connection = Connection::new(key, transport);
        connection.authentication = Admission::Authenticated;
        connection.input.keep(&rest);
        connection::resume(self, connection);
    }

    pub(super) fn transport_of_link(&mut self, source: Source) -> (SessionKey, Transport) {
        let socket = self.sockets.event_loop.fd(source).and_then(|fd| fd.try_clone_to_owned().ok());
        let key = match &socket {
            Some(socket) => self.session_of_link(socket.as_fd()),
            None => self.add_session_of_link(String::new(), "", -1),
        };
        (key, Transport::adopt(&mut self.sockets.event_loop, source, key))
    }

    fn session_of_link(&mut self, socket: std::os::fd::BorrowedFd<'_>) -> SessionKey {
        let (addr, laddr) = listen::ends_of(socket);
        self.add_session_of_link(addr, &laddr, socket.as_raw_fd())
    }

    fn add_session_of_link(&mut self, addr: String, laddr: &str, fd: i32) -> SessionKey {
        let client = sluice_engine::Connection { addr, laddr: laddr.into(), fd, unix: false };
        self.engine.connect_primary(client, &mut self.host)
    }

    /// The client of the link has gone.
    pub(super) fn note_link_closed(&mut self, key: SessionKey) {
        if matches!(self.follower.holder, LinkHolder::Session(own) if own == key) {
            self.forget_replay(key);
            self.follower.holder = LinkHolder::Nobody;
            let attempt = self.follower.link.attempt();
            self.link_step(Input::Ended(attempt));
        }
    }

    /// Whether a client is the link to the primary: its connection stays with the main thread.
    pub(super) fn is_link(&self, key: SessionKey) -> bool {
        self.follower.session() == Some(key)
    }

    /// Gives up the connection, and whatever works for it, without waiting (D-1).
    fn close_link(&mut self) {
        self.merge_download();
        self.follower.progress = None;
        self.close_main_channel();
        if let Some(key) = self.follower.session() {
            self.forget_replay(key);
        }
        match std::mem::replace(&mut self.follower.holder, LinkHolder::Nobody) {
            LinkHolder::Nobody | LinkHolder::Connecting(_) | LinkHolder::Leaving(_) => {}
            LinkHolder::Attached(source) => self.sockets.event_loop.close(source),
            // Dropped, it shuts its socket.
            LinkHolder::Receiving(download) => drop(download),
            LinkHolder::Loading(sync) => {
                drop(sync);
                if let Some(load) = &self.host.load {
                    load.stop();
                }
            }
            LinkHolder::Received(socket, _) => drop(socket),
            LinkHolder::Session(key) => self.end_client(key),
        }
    }

    /// The server ends: what is received is given up, and its file removed (D-5).
    pub(super) fn end_link(&mut self) {
        if let LinkHolder::Receiving(download) =
            std::mem::replace(&mut self.follower.holder, LinkHolder::Nobody)
        {
            download.remove_temporary();
        }
    }
}

/// A descriptor that nobody shares.
fn owned(fd: Fd) -> std::io::Result<OwnedFd> {
    match fd {
        Fd::Owned(fd) => Ok(fd),
        Fd::Shared(fd) => fd.try_clone(),
    }
}
