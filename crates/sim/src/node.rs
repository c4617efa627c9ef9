//! A node: an engine, its process and the link to its primary, driven by the network and the clock
//! of the simulation.
//!
//! The work of the server's event loop and threads is reduced to two facts: which part has the link's
//! connection, and when another thread's work has ended. Only the engine and the state machine of the link
//! know the meaning of the bytes.

mod bus;
mod download;
mod exports;
mod link;
mod main_channel;

pub use self::bus::ip_of;

use self::bus::Bus;
use self::download::Download;
use self::exports::ExportDial;
use self::main_channel::{MainLink, Replay};
use crate::digest::digest;
use crate::disk::Disk;
use crate::net::{ConnId, Net, NodeId, Side};
use crate::node_file::NodeFile;
use crate::process::SimProcess;
use sluice_base::SessionKey;
use sluice_base::{HashSeed, Now, Rng};
use sluice_cluster::{JobName, LinkKey};
use sluice_commands::Progress;
use sluice_config::Config;
use sluice_control::action::Action;
use sluice_control::persistence::loading::{LoadEnded, LoadJob};
use sluice_control::replication::role::LinkCounts;
use sluice_engine::{Engine, Flow, Seeds};
use sluice_replication::Input;
use sluice_replication::{HistoryPoint, LinkState, Primary};
use sluice_resp::{AuthState, ParseLimits, Parser, Requests, State};
use sluice_session::{ClientAddress, Closing, Medium};
use sluice_snapshot::LoadThread;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Directives in addition to those of every node.
    pub directives: Vec<(&'static str, String)>,
    /// Whether the node has an append-only file.
    pub has_aof: bool,
    /// Whether replies wait for the append-only file: `appendfsync always`.
    pub is_strict: bool,
    /// The seed for hashing keys and members.
    pub hash_seed: HashSeed,
    /// Whether the event loop releases the link's connection one iteration later than asked.
    pub leaves_later: bool,
    /// Maximum bytes of the stream that are buffered while a snapshot arrives on another connection.
    /// Afterwards one iteration executes `block_bytes` of that buffer.
    pub stream_bound: usize,
    pub block_bytes: usize,
    /// How far each look at the clock advances it while a script or another long execution unit runs, and in
    /// some iterations with moves of slots, µs.
    pub look_us: u64,
    /// `nodes.conf` of a cluster's node; `None` without cluster mode.
    pub node_file: Option<NodeFile>,
}

/// A connection that a node asks for, other than that of the link to its primary.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// A link of the bus to another node.
    Bus(LinkKey),
    /// The connection of a job that moves slots.
    Export(JobName),
}

/// The client port of a node.
pub fn port_of(node: NodeId) -> u16 {
    7000 + node as u16
}

/// The node with the port of `primary`.
pub fn node_of(primary: &Primary) -> NodeId {
    usize::from(primary.port.saturating_sub(7000))
}

/// The other end of a session's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// A node that has connected to this one: a replica, a node that asks to become one, or the source of a
    /// move of slots.
    Accepted(ConnId),
    /// This node's primary, which sends the stream.
    Link(ConnId),
    /// The target of a move of slots.
    Export(ConnId),
    /// A simulated client, without a network connection.
    Client,
}

struct Seat {
    key: SessionKey,
    peer: Peer,
    buf: Vec<u8>,
    parser: Parser,
    /// Whether a request of the session is deferred.
    waits: bool,
    /// Whether no further requests of the session are executed.
    is_shut: bool,
    /// Replies that were sent to a client.
    out: Vec<u8>,
}

/// The owner of the connection to the primary, as in `server/replica.rs`.
enum Holder {
    Nobody,
    Connecting,
    Attached(ConnId),
    /// The event loop is asked to release the connection; these bytes of the snapshot have arrived.
    Leaving(ConnId, Vec<u8>),
    /// The event loop has released the connection.
    Left(ConnId, Vec<u8>),
    Receiving(Box<Download>),
    Received(ConnId, Vec<u8>),
    Session(SessionKey),
}

struct Here(Now);

impl LoadThread for Here {
    fn wake(&mut self) {}
    fn sleep(&mut self, _: u64) {}
    fn now(&mut self) -> Now {
        self.0
    }
}

/// A running node.
pub struct SimNode {
    pub id: NodeId,
    pub engine: Engine,
    pub process: SimProcess,
    holder: Holder,
    /// The main channel, while `holder` has the connection of the snapshot.
    main: Option<MainLink>,
    replay: Option<Replay>,
    leaves_later: bool,
    stream_bound: usize,
    block_bytes: usize,
    look_us: u64,
    /// Whether the node was asked to shut down.
    is_ending: bool,
    /// The attempt of the link that the present connections belong to.
    attempt: u64,
    last_activity_ns: u64,
    next_cron_ns: u64,
    seats: Vec<Seat>,
    load: Option<(u64, Box<LoadJob>)>,
    /// Whether a load has ended whose result the engine has not taken over yet.
    has_loaded: bool,
    rng: Rng,
    /// The connection that the link asks for: its attempt, and the node to connect to.
    pub wants: Option<(u64, NodeId)>,
    /// The connections of the bus, in cluster mode.
    bus: Option<Bus>,
    /// Connections of moves whose targets have not agreed yet.
    exports: Vec<ExportDial>,
    /// Further connections that the node asks for, each with the other node.
    pub calls: Vec<(Call, NodeId)>,
    /// Number of snapshots that arrived on a connection of their own, with the stream after them on another.
    pub met_dual: u64,
    /// The last fingerprint of the data, which stands after the number of changes and the point of the
    /// history at which it was computed.
    digested: Option<(u64, HistoryPoint, u64)>,
}

impl SimNode {
    /// Starts a node from its disk, as the server does.
    pub fn start(
        id: NodeId,
        plan: &NodePlan,
        follows: Option<NodeId>,
        disk: Disk,
        (now, mut rng): (Now, Rng),
    ) -> Result<SimNode, String> {
        let config = config_of(id, plan, follows)?;
        let mut process = SimProcess::new(disk, now, Rng::new(rng.next_u64()));
        if plan.is_strict {
            process.sync_always();
        }
        let seeds = Seeds { hash: plan.hash_seed, rng: rng.next_u64() };
        let mut engine = Engine::new(config, seeds, &mut process);
        let bus = plan.node_file.clone().map(|file| Bus::start(id, file, &mut engine, &mut process));
        let begun = match (plan.has_aof, process.disk.aof_files()) {
            (true, Some(files)) => {
                engine.begin_aof_load_at_start(files, &mut process);
                true
            }
            (true, None) => false,
            (false, _) => engine
                .begin_load_at_start(&mut process)
                .map_err(|_| "no RDB file can be opened".to_owned())?,
        };
        let mut node = SimNode {
            id,
            engine,
            process,
            holder: Holder::Nobody,
            main: None,
            replay: None,
            leaves_later: plan.leaves_later,
            stream_bound: plan.stream_bound,
            block_bytes: plan.block_bytes,
            look_us: plan.look_us,
            is_ending: false,
            attempt: 0,
            last_activity_ns: 0,
            next_cron_ns: now.mono_ns,
            seats: Vec::new(),
            load: None,
            has_loaded: false,
            rng,
            wants: None,
            bus: bus.transpose()?,
            exports: Vec::new(),
            calls: Vec::new(),
            met_dual: 0,
            digested: None,
        };
        if begun {
            node.load_at_start(now)?;
        }
        if plan.has_aof {
            let SimNode { engine, process, .. } = &mut node;
            process.open_aof(engine)?;
        }
        Ok(node)
    }

    fn load_at_start(&mut self, now: Now) -> Result<(), String> {
        let mut actions = Vec::new();
        self.engine.take_actions(&mut actions);
        for action in actions {
            if let Action::Load(job) = action {
                job.run(&mut Here(now));
            }
        }
        match self.engine.advance_load(&mut self.process) {
            Some(LoadEnded::Start(Ok(()))) => Ok(()),
            other => Err(format!("the data were not loaded: {other:?}: {:?}", self.process.base.log.last())),
        }
    }

    /// Runs one iteration of the event loop at the time `now`.
    pub fn iterate(&mut self, now: Now, net: &mut Net) {
        if self.process.base.now.mono_ns < now.mono_ns {
            self.process.base.now = now;
        }
        self.process.meet_disk();
        self.collect_bus(net);
        self.collect(net);
        self.collect_exports(net);
        if self.engine.next_unit_ns() < u64::MAX {
            self.process.base.us_each_look = self.look_us;
        }
        self.engine.advance_unit(&mut self.process);
        self.process.base.us_each_look = 1;
        self.end_load(net);
        self.follow_primary(net);
        if self.next_cron_ns <= now.mono_ns {
            self.engine.cron(&mut self.process);
            self.engine.expire_slice(&mut self.process);
            self.next_cron_ns = now.mono_ns + CRON_NS;
        }
        self.act(net);
        // In an iteration in which `leaps` holds, each look at the clock advances it, so that slices of
        // moves end early.
        self.process.base.us_each_look = if self.leaps() { self.look_us } else { 1 };
        self.engine.end_iteration(&mut self.process);
        self.process.base.us_each_look = 1;
        self.drive_bus(net);
        let SimNode { engine, process, .. } = self;
        process.feed_aof(engine);
        self.write(net);
        self.close(net);
        self.process.base.us_each_look = if self.leaps() { self.look_us } else { 1 };
        self.engine.walk_exports(&mut self.process);
        self.process.base.us_each_look = 1;
        self.process.base.background_room.set(self.rng.below(3) as usize);
        if self.engine.has_job() {
            self.engine.save_slice(1_000_000, &mut self.process);
        }
        self.act(net);
    }

    // --- input

    fn collect(&mut self, net: &mut Net) {
        // The event loop now releases the connection whose release the link requested in the previous
        // iteration.
        self.end_leave(net);
        let conns: Vec<(SessionKey, ConnId, Side)> = self
            .seats
            .iter()
            .filter(|seat| self.replay.as_ref().is_none_or(|replay| replay.key != seat.key))
            .filter_map(|seat| match seat.peer {
                Peer::Accepted(conn) => Some((seat.key, conn, Side::Acceptor)),
                Peer::Link(conn) | Peer::Export(conn) => Some((seat.key, conn, Side::Opener)),
                Peer::Client => None,
            })
            .collect();
        for (key, conn, side) in conns {
            let arrived = net.receive(conn, side);
            if !arrived.bytes.is_empty() {
                if matches!(self.holder, Holder::Session(own) if own == key) {
                    self.last_activity_ns = self.process.base.now.mono_ns;
                }
                if let Some(seat) = self.seat(key) {
                    seat.buf.extend_from_slice(&arrived.bytes);
                }
                self.execute(key);
            }
            if arrived.has_ended {
                self.connection_lost(key, net);
            }
        }
        self.collect_for_link(net);
        self.collect_for_main(net);
    }

    fn collect_for_link(&mut self, net: &mut Net) {
        let attempt = self.attempt;
        let conn = match &self.holder {
            Holder::Attached(conn) => *conn,
            Holder::Receiving(download) => download.conn,
            Holder::Nobody
            | Holder::Connecting
            | Holder::Leaving(..)
            | Holder::Left(..)
            | Holder::Received(..)
            | Holder::Session(_) => return,
        };
        let arrived = net.receive(conn, Side::Opener);
        if !arrived.bytes.is_empty() {
            self.last_activity_ns = self.process.base.now.mono_ns;
            match &self.holder {
                Holder::Receiving(_) => self.download(&arrived.bytes, net),
                _ => self.link_input(Input::Received(attempt, &arrived.bytes), net),
            }
        }
        if arrived.has_ended && attempt == self.engine.link_attempt() {
            match &self.holder {
                Holder::Attached(_) => self.link_input(Input::Ended(attempt), net),
                Holder::Receiving(_) => self.download_lost(net),
                _ => {}
            }
        }
    }

    fn seat(&mut self, key: SessionKey) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.key == key)
    }

    /// Executes the requests that a session's connection has received.
    fn execute(&mut self, key: SessionKey) {
        let Some(at) = self.seats.iter().position(|seat| seat.key == key) else { return };
        let mut buf = std::mem::take(&mut self.seats[at].buf);
        let mut parser = std::mem::take(&mut self.seats[at].parser);
        let mut requests = Requests::new();
        let limits = ParseLimits::new(AuthState::Authenticated, 512 << 20, 1024);
        let (mut used, mut waits, mut is_shut) = (0, self.seats[at].waits, self.seats[at].is_shut);
        while !waits && !is_shut {
            requests.clear();
            let rest = &buf[used..];
            let progress = parser.parse(rest, &limits, &mut requests);
            if !requests.is_empty() {
                let done = self.engine.submit(key, rest, &requests, &mut self.process);
                match done.flow {
                    Flow::Continue => {}
                    Flow::Closing => is_shut = true,
                    Flow::Waiting => {
                        used += done
                            .executed
                            .checked_sub(1)
                            .map_or(0, |last| requests.end_of(last).min(rest.len()));
                        (waits, parser) = (true, Parser::new());
                        break;
                    }
                }
            }
            used += progress.consumed;
            match progress.state {
                State::Full => {}
                State::Starved => break,
                State::Failed(error) => {
                    let broken = &buf[used..];
                    self.engine.protocol_error(key, &error.message(), broken, &mut self.process);
                    is_shut = true;
                }
            }
        }
        buf.drain(..if is_shut { buf.len() } else { used });
        let seat = &mut self.seats[at];
        (seat.buf, seat.parser, seat.waits, seat.is_shut) = (buf, parser, waits, is_shut);
    }

    /// Notes that data of the primary have arrived.
    fn note_activity(&mut self) {
        self.last_activity_ns = self.process.base.now.mono_ns;
    }

    fn later(&mut self, most_ms: u64) -> u64 {
        self.process.base.now.mono_ns + self.rng.below(most_ms) * 1_000_000
    }

    // --- sessions

    fn add_seat(&mut self, key: SessionKey, peer: Peer, buf: Vec<u8>) {
        let (parser, out) = (Parser::new(), Vec::new());
        self.seats.push(Seat { key, peer, buf, parser, waits: false, is_shut: false, out });
    }

    /// Adds a session for a connection of another node.
    pub fn accept(&mut self, conn: ConnId) {
        let key = self.engine.connect(connection(self.id), &mut self.process);
        self.add_seat(key, Peer::Accepted(conn), Vec::new());
    }

    /// Adds a session of a client.
    pub fn client(&mut self) -> SessionKey {
        let key = self.engine.connect(connection(self.id), &mut self.process);
        self.add_seat(key, Peer::Client, Vec::new());
        key
    }

    /// Whether the session of a client still exists.
    pub fn has_client(&self, key: SessionKey) -> bool {
        self.seats.iter().any(|seat| seat.key == key)
    }

    /// Adds a request to a client's session.
    pub fn request(&mut self, key: SessionKey, words: &[&[u8]]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        if let Some(seat) = self.seat(key) {
            seat.buf.extend_from_slice(&bytes);
        }
        self.execute(key);
    }

    /// Executes a client's request that runs a script, during which each look at the clock advances it.
    pub fn request_run(&mut self, key: SessionKey, words: &[Vec<u8>]) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.process.base.us_each_look = self.look_us;
        self.request(key, &words);
        self.process.base.us_each_look = 1;
    }

    /// Ends a client's session.
    pub fn close_client(&mut self, key: SessionKey) {
        self.engine.client_lost(key, &mut self.process);
        self.seats.retain(|seat| seat.key != key);
        self.engine.disconnect(key, &mut self.process);
    }

    /// Whether the node was asked to shut down and may do so now.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Shuts the node down, so that its executed writes are in its files as far as the disk accepts them.
    pub fn end(&mut self) {
        let SimNode { engine, process, .. } = self;
        process.end_aof(engine);
    }

    /// The replies to a client since the last call.
    pub fn replies(&mut self, key: SessionKey) -> Vec<u8> {
        self.seat(key).map(|seat| std::mem::take(&mut seat.out)).unwrap_or_default()
    }

    /// Handles the end of a session's connection.
    fn connection_lost(&mut self, key: SessionKey, net: &mut Net) {
        self.engine.client_lost(key, &mut self.process);
        self.end_session(key, net);
    }

    fn end_session(&mut self, key: SessionKey, net: &mut Net) {
        let Some(at) = self.seats.iter().position(|seat| seat.key == key) else { return };
        let seat = self.seats.remove(at);
        match seat.peer {
            Peer::Accepted(conn) => net.close(conn, Side::Acceptor, &mut self.rng),
            Peer::Link(conn) | Peer::Export(conn) => net.close(conn, Side::Opener, &mut self.rng),
            Peer::Client => {}
        }
        self.engine.disconnect(key, &mut self.process);
        if matches!(self.holder, Holder::Session(own) if own == key) {
            self.replay = None;
            self.holder = Holder::Nobody;
            let attempt = self.attempt;
            self.link_input(Input::Ended(attempt), net);
        }
    }

    /// Sends all replies and stream bytes that are durable.
    fn write(&mut self, net: &mut Net) {
        let mut ready = Vec::new();
        self.engine.take_ready(&mut ready);
        for key in ready {
            let Some((outbox, closing)) = self.engine.take_output(key) else { continue };
            let bytes = outbox.flatten();
            self.engine.recycle(outbox);
            self.engine.sent(key, bytes.len(), self.process.base.now);
            let Some(at) = self.seats.iter().position(|seat| seat.key == key) else { continue };
            match self.seats[at].peer {
                Peer::Accepted(conn) => net.send(conn, Side::Acceptor, bytes, &mut self.rng),
                Peer::Link(conn) | Peer::Export(conn) => {
                    net.send(conn, Side::Opener, bytes, &mut self.rng);
                }
                Peer::Client => self.seats[at].out.extend_from_slice(&bytes),
            }
            if closing != Closing::No {
                self.connection_lost(key, net);
            }
        }
    }

    fn close(&mut self, net: &mut Net) {
        let mut to_close = Vec::new();
        self.engine.take_to_close(&mut to_close);
        for key in to_close {
            self.end_session(key, net);
        }
    }

    fn act(&mut self, net: &mut Net) {
        let mut actions = Vec::new();
        self.engine.take_actions(&mut actions);
        for action in actions {
            match action {
                Action::Load(job) => {
                    let is_of_memory = matches!(&self.holder, Holder::Receiving(_));
                    let due_ns = if is_of_memory { u64::MAX } else { self.later(500) };
                    self.load = Some((due_ns, job));
                }
                Action::Resume(keys) => {
                    for key in keys {
                        if let Some(seat) = self.seat(key) {
                            seat.waits = false;
                        }
                        self.execute(key);
                    }
                }
                Action::Produce(key, mut read) => {
                    loop {
                        let (piece, progress) = read.next_piece();
                        self.engine.take_piece(key, piece, &mut self.process);
                        if progress == Progress::End {
                            break;
                        }
                    }
                    self.engine.end_slow_read(key, 1000, &mut self.process);
                    self.engine.slow_thread_is_free(&mut self.process);
                }
                Action::Shutdown | Action::Restart(_) => {
                    self.is_ending = true;
                    self.engine.stop();
                }
                Action::ConnectExport(target) => self.dial_export(*target),
                Action::FreeValue(_)
                | Action::FreeDb(_)
                | Action::FreeCaptured(_)
                | Action::FreeScripts(_)
                | Action::TrimInput { .. }
                | Action::FillPackets(_)
                // No simulated client asks for this action.
                | Action::Migrate(_)
                | Action::LoadUsers(_)
                | Action::FreeUsers(_)
                | Action::DelayAof(_)
                | Action::KeepRunning
                | Action::Crash(_) => {}
            }
        }
        let _ = net;
    }

    // --- what the simulation asks

    /// Connections to targets of moves of slots.
    pub fn export_conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.seats.iter().filter_map(|seat| match seat.peer {
            Peer::Export(conn) => Some(conn),
            Peer::Accepted(_) | Peer::Link(_) | Peer::Client => None,
        })
    }

    /// Number of loaded snapshots of a primary, and of partial resynchronisations.
    pub fn link_counts(&self) -> LinkCounts {
        self.engine.link_counts()
    }

    /// The state of the link.
    pub fn link_state(&self) -> LinkState {
        self.engine.link_state()
    }

    /// The point of a history at which the data are, with their fingerprint; `None` while they are at none.
    pub fn state(&mut self) -> Option<(HistoryPoint, u64)> {
        // While an execution unit is open, the data are at no point of the history.
        if self.engine.is_loading() || self.engine.has_open_unit() {
            return None;
        }
        let point = self.engine.history_point()?;
        let written = self.engine.written();
        if let Some((changes, known, digest)) = &self.digested
            && *changes == written
            && *known == point
        {
            return Some((point, *digest));
        }
        let digest = digest(&self.engine);
        self.digested = Some((written, point.clone(), digest));
        Some((point, digest))
    }

    /// The fingerprint of the present data, computed again even if the last one is still valid.
    pub fn state_anew(&mut self) -> Option<(HistoryPoint, u64)> {
        self.digested = None;
        self.state()
    }

    /// Whether database 0 of the node has a key.
    pub fn has_key(&self, key: &[u8]) -> bool {
        let keyspace = self.engine.keyspace();
        keyspace.db(0).find(keyspace.key(key)).is_some()
    }

    /// The lines of the log since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.process.base.log).into_iter().map(|(_, line)| line).collect()
    }
}

fn config_of(id: NodeId, plan: &NodePlan, follows: Option<NodeId>) -> Result<Config, String> {
    let mut text = String::from("enable-debug-command yes\nsave \"\"\nrepl-ping-replica-period 1\n");
    text.push_str(&format!("port {}\nappendonly {}\n", port_of(id), if plan.has_aof { "yes" } else { "no" }));
    for (name, value) in &plan.directives {
        text.push_str(&format!("{name} {value}\n"));
    }
    if plan.node_file.is_some() {
        text.push_str("cluster-enabled yes\n");
    }
    if let Some(primary) = follows {
        text.push_str(&format!("replicaof node{primary} {}\n", port_of(primary)));
    }
    let mut none = |path: &[u8]| Err(format!("no include here: {path:?}"));
    sluice_config::parse_file(text.as_bytes(), "sim", b"", &mut none).map_err(|error| format!("{error:?}"))
}

fn connection(node: NodeId) -> ClientAddress {
    ClientAddress {
        addr: format!("10.0.0.{node}:5000"),
        laddr: "10.0.0.1:7000".into(),
        fd: 8,
        medium: Medium::Tcp,
        has_priority: false,
    }
}

/// Time between two runs of the cron.
const CRON_NS: u64 = 100_000_000;
