//! Drives the cluster bus: carries out the engine's orders, and reports their results and the messages of
//! other nodes to the engine.

use super::Server;
use crate::bus::lanes::LaneBytes;
use crate::bus::links::{BusConnection, BusLinkPhase};
use crate::bus::node_file::FileWriter;
use crate::bus::{Bus, BusPeer, HANDSHAKES_MAX, HeldDial};
use crate::connection::spare::SpareBuffers;
use crate::host::Host;
use crate::net::handshakes::{HandshakeOutcome, HandshakeRole, NewHandshake};
use crate::net::{BusPlace, Codec, Endpoint, Ends, PeerSide, Stream, send_now};
use sluice_base::LogLevel;
use sluice_cluster::{BusLane, Cluster, ClusterInput, DialMoment, LinkKey};
use sluice_config::param;
use sluice_control::cluster::order::BusOrder;
use sluice_engine::Engine;
use sluice_evloop::{AnyLoop, Event, Interest, Received, SendBuf, Sending, Sent};
use sluice_storage::plain_error;
use std::net::{IpAddr, SocketAddr};

/// Maximum number of bytes of messages that are sent in one write of a link.
const WRITE_BYTES: usize = 64 * 1024;
/// Maximum number of bytes of TLS protocol answers that wait for a write. A correct peer causes far fewer.
const ANSWERS_MAX: usize = 64 * 1024;

impl Server {
    /// Makes this server a cluster node that writes its file through `file`. With `waits`, the node dials
    /// no other node and accepts none before its data are loaded. Until then the node does not answer on
    /// the bus. If the load takes longer than `cluster-node-timeout`, a replica may take over the role of
    /// this node.
    pub fn join_cluster(&mut self, file: FileWriter, waits: bool) {
        self.bus.file = Some(file);
        match waits {
            true => self.bus.held = Some(Vec::new()),
            false => self.host.settings.open_bus(),
        }
    }

    fn bus_driver(&mut self) -> BusDriver<'_> {
        BusDriver {
            bus: &mut self.bus,
            engine: &mut self.engine,
            host: &mut self.host,
            event_loop: &mut self.sockets.event_loop,
            spare: &mut self.sockets.spare,
            ending: &mut self.ending,
        }
    }

    /// Reports the results of the bus's threads to the engine, carries out the engine's orders until no order
    /// is left, and begins to send the messages.
    pub(super) fn drive_bus(&mut self) {
        if self.bus.is_on() {
            self.bus_driver().drive();
        }
    }

    /// Handles an event of a bus connection.
    #[cold]
    pub(super) fn bus_event(&mut self, place: BusPlace, event: Event) {
        self.bus_driver().event(place, event);
    }

    /// Takes a connection that was accepted on the bus port.
    #[cold]
    pub(super) fn accept_on_bus(&mut self, stream: Stream) {
        if self.bus.is_on() {
            self.bus_driver().accept(stream);
        }
    }

    /// Begins to dial nodes and to accept them, after the data are loaded.
    pub(super) fn open_bus(&mut self) {
        if self.bus.is_on() {
            self.bus_driver().open();
        }
    }

    /// Writes the node's file a last time when the server ends. Then another process may lock the file
    /// (N-21).
    pub(super) fn end_bus(&mut self) {
        let Some(file) = &mut self.bus.file else { return };
        let Some(text) = self.engine.node().map(Cluster::file_text) else { return };
        self.host.note(LogLevel::Notice, "Saving the cluster configuration file before exiting.");
        let failures = file.end(text);
        failures.iter().for_each(|reason| self.host.note(LogLevel::Warning, reason));
    }
}

/// The bus and the parts of the server that drive it.
struct BusDriver<'a> {
    bus: &'a mut Bus,
    engine: &'a mut Engine,
    host: &'a mut Host,
    event_loop: &'a mut AnyLoop,
    spare: &'a mut SpareBuffers,
    /// The exit status, if the server is to end.
    ending: &'a mut Option<i32>,
}

impl BusDriver<'_> {
    fn drive(&mut self) {
        self.take_handshakes();
        self.take_node_file();
        while let Some(found) = self.bus.resolver.take() {
            self.step(&ClusterInput::Resolved { node: found.node, addresses: &found.addresses });
        }
        loop {
            let mut was_ordered = false;
            while let Some(order) = self.engine.next_bus_order() {
                was_ordered = true;
                self.carry_out(order);
            }
            if !was_ordered {
                return self.send_all();
            }
        }
    }

    fn step(&mut self, input: &ClusterInput<'_>) {
        self.engine.step_cluster(input, self.host);
    }

    fn carry_out(&mut self, order: BusOrder) {
        match order {
            BusOrder::Dial { link, ip, port } => {
                let place = self.bus.links.insert(BusConnection::new(link));
                match &mut self.bus.held {
                    Some(held) => held.push(HeldDial { place, ip, port }),
                    None => self.dial(place, &ip, port),
                }
            }
            BusOrder::Close { link } => {
                if let Some(place) = self.bus.links.place_of(link) {
                    self.drop_link(place);
                }
            }
            BusOrder::Resolve { node, host } => {
                let asked = self.bus.resolver.ask(node, host, self.event_loop.waker());
                if let Err(error) = asked {
                    self.host
                        .note(LogLevel::Warning, &format!("No thread for names: {}", plain_error(&error)));
                    self.step(&ClusterInput::Resolved { node, addresses: &[] });
                }
            }
            BusOrder::Send { link, message, lane } => {
                let Some(place) = self.bus.links.place_of(link) else { return };
                if let Some(connection) = self.bus.links.get_mut(place) {
                    connection.lanes.push(message, lane);
                    self.bus.note_ready(place);
                }
            }
            BusOrder::Persist { generation, file } => {
                if let Some(writer) = &mut self.bus.file {
                    writer.write(generation, file);
                }
            }
            BusOrder::End => *self.ending = Some(1),
        }
    }

    /// Reports the results of writes of `nodes.conf` to the engine.
    fn take_node_file(&mut self) {
        while let Some(report) = self.bus.file.as_mut().and_then(FileWriter::take) {
            let generation = report.generation;
            match report.result {
                Ok(()) => self.step(&ClusterInput::Saved { generation }),
                Err(reason) => {
                    self.host.note(LogLevel::Warning, &reason);
                    self.step(&ClusterInput::SaveFailed { generation });
                }
            }
        }
    }

    fn open(&mut self) {
        self.host.settings.open_bus();
        for HeldDial { place, ip, port } in self.bus.held.take().into_iter().flatten() {
            self.dial(place, &ip, port);
        }
    }

    fn dial(&mut self, place: BusPlace, ip: &str, port: u16) {
        let Some(connection) = self.bus.links.get_mut(place) else { return };
        let source = self.engine.config().str(param::BIND_SOURCE_ADDR);
        let dialled = ip.parse::<IpAddr>().map_err(|error| error.to_string()).and_then(|ip| {
            Stream::dial(SocketAddr::new(ip, port), &source).map_err(|error| plain_error(&error))
        });
        match dialled {
            Ok(stream) => {
                let event_loop = &mut *self.event_loop;
                (connection.source, _) = stream.attach(event_loop, Endpoint::BusLink(place));
                connection.phase = BusLinkPhase::Dialling;
                event_loop.watch(connection.source, Interest::WRITABLE);
            }
            Err(reason) => {
                let text = format!("Cannot connect to the cluster bus of {ip}:{port}: {reason}");
                self.host.note(LogLevel::Debug, &text);
                if let Some(link) = self.drop_link(place) {
                    self.step(&ClusterInput::DialFailed { link, moment: DialMoment::AtOnce });
                }
            }
        }
    }

    fn event(&mut self, place: BusPlace, event: Event) {
        match event {
            Event::Received { received: Received::Data(chunk), .. } => {
                self.received(place, &chunk);
                self.event_loop.give_back(chunk);
            }
            Event::Received { received: Received::Eof, .. } => self.end_link(place, ""),
            Event::Received { received: Received::Failed(error), .. } => {
                self.end_link(place, &plain_error(&error));
            }
            Event::Sent { sent, .. } => {
                let in_flight = self.bus.links.get_mut(place).and_then(|link| link.in_flight.take());
                self.bus.note_ready(place);
                self.sent(place, in_flight.unwrap_or_default(), sent);
            }
            Event::Ready { .. } => self.dialled(place),
            Event::Detached { fd, .. } => self.begin_dialled_handshake(place, Stream::detached(fd)),
            _ => {}
        }
    }

    /// Passes received bytes to the engine.
    fn received(&mut self, place: BusPlace, chunk: &[u8]) {
        let Some(link) = self.bus.links.get_mut(place) else { return };
        let key = link.key;
        let Some(codec) = &mut link.codec else {
            return self.step(&ClusterInput::ReceivedMessage { link: key, bytes: chunk });
        };
        let mut buffers = self.spare.decoded();
        let decoded = codec.decode(chunk, &mut buffers);
        link.answers.extend_from_slice(&buffers.answer);
        let is_flooded = link.answers.len() > ANSWERS_MAX;
        if !buffers.answer.is_empty() {
            self.bus.note_ready(place);
        }
        if !buffers.plain.is_empty() {
            self.step(&ClusterInput::ReceivedMessage { link: key, bytes: &buffers.plain });
        }
        self.spare.keep_decoded(buffers);
        match decoded {
            Ok(PeerSide::Open) if !is_flooded => {}
            Ok(_) => self.end_link(place, ""),
            Err(reason) => {
                self.send_answers_now(place);
                self.end_link(place, &reason);
            }
        }
    }

    /// Sends the TLS alert with the reason why a connection ends, if no write is in flight and the socket has
    /// room.
    fn send_answers_now(&mut self, place: BusPlace) {
        if let Some(link) = self.bus.links.get_mut(place)
            && link.in_flight.is_none()
            && let Some(socket) = self.event_loop.fd(link.source)
        {
            send_now(socket, &link.answers);
        }
    }

    /// Drops a connection that has ended, and reports its end to the engine.
    fn end_link(&mut self, place: BusPlace, reason: &str) {
        let Some(key) = self.drop_link(place) else { return };
        if !reason.is_empty() {
            self.host.note(LogLevel::Debug, &format!("A link of the cluster bus has ended: {reason}"));
        }
        self.step(&ClusterInput::Closed { link: key });
    }

    /// Removes a connection and closes its socket, without a report to the engine.
    fn drop_link(&mut self, place: BusPlace) -> Option<LinkKey> {
        let link = self.bus.links.remove(place)?;
        match link.phase {
            BusLinkPhase::Dialling | BusLinkPhase::Open => self.event_loop.close(link.source),
            // In these phases the event loop has no socket to close. If another part hands the socket
            // over later, the entry of the connection is not found, and the socket is dropped.
            BusLinkPhase::Held | BusLinkPhase::Leaving | BusLinkPhase::Shaking => {}
        }
        Some(link.key)
    }

    /// Handles the result of a dial: connected or failed.
    fn dialled(&mut self, place: BusPlace) {
        let Some(link) = self.bus.links.get_mut(place) else { return };
        let (source, key) = (link.source, link.key);
        if link.phase != BusLinkPhase::Dialling {
            return;
        }
        let Some(socket) = self.event_loop.fd(source) else { return };
        if let Err(error) = Stream::dialled(socket) {
            let peer = Ends::of(socket).peer.map_or_else(String::new, |peer| format!(" of {peer}"));
            let text = format!("Cannot connect to the cluster bus{peer}: {}", plain_error(&error));
            self.host.note(LogLevel::Debug, &text);
            self.drop_link(place);
            return self.step(&ClusterInput::DialFailed { link: key, moment: DialMoment::Later });
        }
        if self.engine.config().bool(param::TLS_CLUSTER) {
            link.phase = BusLinkPhase::Leaving;
            return self.event_loop.detach(source);
        }
        link.phase = BusLinkPhase::Open;
        self.event_loop.recv_start(source);
        self.bus.note_ready(place);
        self.step(&ClusterInput::Connected { link: key });
    }

    /// Begins the TLS handshake, on the handshake thread, of a dialled connection that has left
    /// the event loop.
    fn begin_dialled_handshake(&mut self, place: BusPlace, stream: Stream) {
        let Some(link) = self.bus.links.get_mut(place) else { return };
        link.phase = BusLinkPhase::Shaking;
        if let Err(reason) = self.begin_handshake(stream, HandshakeRole::Dialler, BusPeer::Dialled(place)) {
            self.fail_handshake(BusPeer::Dialled(place), &reason);
        }
    }

    fn begin_handshake(
        &mut self,
        stream: Stream,
        role: HandshakeRole,
        origin: BusPeer,
    ) -> Result<(), String> {
        if self.bus.handshakes.in_progress() >= HANDSHAKES_MAX {
            return Err("too many handshakes are under way".to_owned());
        }
        let context = self.host.settings.tls.context().cloned().ok_or("TLS is not configured")?;
        let begin = NewHandshake { stream, context, role, field: None, origin };
        let begun = self.bus.handshakes.begin(begin, self.event_loop.waker());
        begun.map_err(|error| format!("no thread for handshakes: {}", plain_error(&error)))
    }

    fn accept(&mut self, stream: Stream) {
        if !self.engine.config().bool(param::TLS_CLUSTER) {
            return self.admit(stream, &[]);
        }
        if let Err(reason) = self.begin_handshake(stream, HandshakeRole::Node, BusPeer::Accepted) {
            self.fail_handshake(BusPeer::Accepted, &reason);
        }
    }

    /// Makes a connection a link, unless the addresses of its ends are unknown or the engine refuses the
    /// connection. `plain` are bytes that were received during the handshake.
    fn admit(&mut self, stream: Stream, plain: &[u8]) {
        let Ends { peer: Some(peer), own: Some(own) } = stream.ends() else { return };
        let (peer, own) = (peer.ip().to_canonical(), own.ip().to_canonical());
        let Some(key) = self.engine.accept_bus_link(peer, own, self.host) else { return };
        let place = self.bus.links.insert(BusConnection::new(key));
        self.attach(place, stream);
        if !plain.is_empty() {
            self.step(&ClusterInput::ReceivedMessage { link: key, bytes: plain });
        }
    }

    /// Attaches a connection to the event loop, so that messages can be sent and received on it.
    fn attach(&mut self, place: BusPlace, stream: Stream) {
        let event_loop = &mut *self.event_loop;
        let (source, codec) = stream.attach(event_loop, Endpoint::BusLink(place));
        event_loop.recv_start(source);
        if let Some(link) = self.bus.links.get_mut(place) {
            (link.source, link.codec, link.phase) = (source, codec, BusLinkPhase::Open);
        }
    }

    /// Takes the connections whose handshake has ended.
    fn take_handshakes(&mut self) {
        while let Some(outcome) = self.bus.handshakes.take() {
            match outcome {
                HandshakeOutcome::Established { stream, plain, origin: BusPeer::Accepted, .. } => {
                    self.admit(stream, &plain);
                }
                HandshakeOutcome::Established { stream, plain, origin: BusPeer::Dialled(place), .. } => {
                    let Some(key) = self.bus.links.get_mut(place).map(|link| link.key) else { continue };
                    self.attach(place, stream);
                    self.bus.note_ready(place);
                    self.step(&ClusterInput::Connected { link: key });
                    if !plain.is_empty() {
                        self.step(&ClusterInput::ReceivedMessage { link: key, bytes: &plain });
                    }
                }
                HandshakeOutcome::Failed { reason, origin } => self.fail_handshake(origin, &reason),
            }
        }
    }

    #[cold]
    fn fail_handshake(&mut self, origin: BusPeer, reason: &str) {
        match origin {
            BusPeer::Accepted => {
                let text = format!("Error accepting cluster node connection: {reason}");
                self.host.note(LogLevel::Verbose, &text);
            }
            BusPeer::Dialled(place) => {
                let Some(key) = self.drop_link(place) else { return };
                self.host.note(LogLevel::Verbose, &format!("Error connecting to a cluster node: {reason}"));
                self.step(&ClusterInput::DialFailed { link: key, moment: DialMoment::Later });
            }
        }
    }

    /// Starts one write on each link that has bytes to send. Remaining bytes are sent in the next iteration.
    fn send_all(&mut self) {
        for place in self.bus.take_ready() {
            self.write(place);
        }
    }

    fn write(&mut self, place: BusPlace) {
        let Some(link) = self.bus.links.get_mut(place) else { return };
        if link.phase != BusLinkPhase::Open || link.in_flight.is_some() {
            return;
        }
        let mut plain = std::mem::take(&mut self.bus.spare);
        let taken = link.lanes.take(WRITE_BYTES, &mut plain);
        let head = match &mut link.codec {
            None => Ok(plain),
            Some(codec) => encode(codec.as_mut(), plain, std::mem::take(&mut link.answers)),
        };
        let head = match head {
            Ok(head) if head.is_empty() => return self.bus.spare = head,
            Ok(head) => head,
            Err(reason) => return self.end_link(place, &reason),
        };
        match self.event_loop.send(link.source, SendBuf { head, shared: Vec::new() }) {
            Sending::InFlight => link.in_flight = Some(taken),
            Sending::Done(sent) => {
                if !link.lanes.is_empty() {
                    self.bus.note_ready(place);
                }
                self.sent(place, taken, sent);
            }
        }
    }

    /// Handles the end of a write.
    fn sent(&mut self, place: BusPlace, bytes: LaneBytes, sent: Sent) {
        let Some(key) = self.bus.links.get_mut(place).map(|link| link.key) else { return };
        if let Some(error) = sent.error {
            return self.end_link(place, &plain_error(&error));
        }
        let mut buffer = sent.buf.head;
        if self.bus.spare.capacity() == 0 && buffer.capacity() <= 2 * WRITE_BYTES {
            buffer.clear();
            self.bus.spare = buffer;
        }
        for (lane, bytes) in [(BusLane::Control, bytes.control), (BusLane::Publish, bytes.publish)] {
            if bytes > 0 {
                self.step(&ClusterInput::Sent { link: key, lane, bytes });
            }
        }
    }
}

/// Appends the encoded messages to the TLS protocol answers in `out`.
fn encode(codec: &mut dyn Codec, plain: Vec<u8>, mut out: Vec<u8>) -> Result<Vec<u8>, String> {
    if !plain.is_empty() {
        codec.encode(&[&plain], &mut out)?;
    }
    Ok(out)
}
