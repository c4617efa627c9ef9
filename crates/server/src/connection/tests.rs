use super::input::QueryBufUsage;
use super::*;
use crate::net::{Codec, Endpoint};
use sluice_evloop::{Backend, Deadline};
use sluice_resp::{ParseLimits, Requests, State};
use sluice_tls::Buffers;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// An owner of one connection, on this thread. "Executing" a request means replying with its arguments.
struct Rig {
    event_loop: AnyLoop,
    spare: SpareBuffers,
    connection: Option<Box<Connection>>,
    ended: Option<String>,
    sent: usize,
    received: usize,
    usage: QueryBufUsage,
    detached: Option<(Box<Connection>, Stream)>,
    client: UnixStream,
}

const KEY: SessionKey = SessionKey { slot: 0, generation: 1 };

impl Rig {
    fn new(codec: Option<Box<dyn Codec>>) -> Rig {
        let opened = AnyLoop::choose(Backend::Poll, &sluice_evloop::Config::default());
        let mut event_loop = opened.expect("poll is everywhere").event_loop;
        let (client, server) = UnixStream::pair().expect("a pair of sockets");
        client.set_nonblocking(true).expect("a socket");
        let mut connection = Connection::new(KEY, Transport::attach(&mut event_loop, server.into(), KEY));
        if let Some(codec) = codec {
            connection.transport.set_codec(codec);
        }
        connection.receive(&mut event_loop);
        Rig {
            event_loop,
            spare: SpareBuffers::default(),
            connection: Some(connection),
            ended: None,
            sent: 0,
            received: 0,
            usage: QueryBufUsage::default(),
            detached: None,
            client,
        }
    }

    /// Runs the loop until nothing happens; returns the bytes that the client has received in this time.
    fn run(&mut self) -> Vec<u8> {
        let mut got = Vec::new();
        for _ in 0..100 {
            let before = got.len();
            if self.iterate(&mut got) && got.len() == before {
                return got;
            }
        }
        panic!("it does not come to rest");
    }

    /// Runs one iteration, and appends the bytes that the client has received; returns whether there
    /// was no event.
    fn iterate(&mut self, got: &mut Vec<u8>) -> bool {
        let _ = self.event_loop.wait(0, Deadline::PAST).expect("poll works");
        let mut quiet = true;
        while let Some(event) = self.event_loop.next_event(0) {
            quiet = false;
            let key = Endpoint::client(event.token());
            handle(self, key, event);
        }
        // Reads the bytes that have arrived; fails with WouldBlock if the stream has not ended.
        let _ = self.client.read_to_end(got);
        quiet
    }
}

impl ConnectionHost for Rig {
    fn event_loop(&mut self) -> &mut AnyLoop {
        &mut self.event_loop
    }

    fn spare(&mut self) -> &mut SpareBuffers {
        &mut self.spare
    }

    fn take(&mut self, key: SessionKey) -> Option<Box<Connection>> {
        assert_eq!(key, KEY);
        self.connection.take()
    }

    fn put(&mut self, mut connection: Box<Connection>) {
        connection.detach_if_at_rest(&mut self.event_loop);
        self.connection = Some(connection);
    }

    fn process(&mut self, connection: &mut Connection, fresh: &[u8]) {
        connection.input.keep(fresh);
        if !connection.input.is_open() {
            return;
        }
        let mut requests = Requests::new();
        let limits = ParseLimits::new(AuthState::Authenticated, 1 << 30, 100);
        let mut bytes = std::mem::take(&mut connection.input.query_buf);
        let progress = connection.input.parser.parse(&bytes, &limits, &mut requests);
        assert!(!matches!(progress.state, State::Failed(_)), "{progress:?}");
        let mut reply = Outbox::new();
        for request in requests.iter(&bytes) {
            request.args().for_each(|arg| reply.push(arg));
        }
        bytes.drain(..progress.consumed);
        connection.input.query_buf = bytes;
        connection.input.move_out_large_argument();
        let Flushed::Open = send(self, connection, reply) else { panic!("the socket is open") };
    }

    fn note_unfinished(&mut self, _: &Connection) {}

    fn count_received(&mut self, _: &mut Connection, bytes: usize) {
        self.received += bytes;
    }

    fn count_sent(&mut self, _: &mut Connection, bytes: usize) {
        self.sent += bytes;
    }

    fn output_is_idle(&mut self, _: SessionKey) {}

    fn recycle(&mut self, _: SendBuf) {}

    fn report_usage(&mut self, connection: &mut Connection) {
        if let Some(usage) = connection.input.unreported() {
            self.usage = usage;
        }
    }

    fn idle_s(&mut self, connection: &Connection) -> i64 {
        i64::from(connection.idle_s)
    }

    fn end(&mut self, mut connection: Box<Connection>, why: &str) {
        connection.transport.close(&mut self.event_loop);
        self.ended = Some(why.to_owned());
    }

    fn input_ended(&mut self, connection: Box<Connection>) {
        self.end(connection, CLIENT_CLOSED);
    }

    fn detached(&mut self, connection: Box<Connection>, stream: Stream) {
        self.detached = Some((connection, stream));
    }
}

/// A codec that inverts every byte, and decodes four bytes at a time. It answers the first four bytes with
/// `hello`, refuses a tilde with `alert`, and takes a caret as the end of the client's side. It writes a bar
/// after each group of parts that are encoded together, and a full stop at the end of the connection.
#[derive(Debug)]
struct Inverting {
    held: Vec<u8>,
    greeted: bool,
}

impl Codec for Inverting {
    fn decode(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<PeerSide, String> {
        self.held.extend_from_slice(bytes);
        let whole = self.held.len() / 4 * 4;
        buffers.plain.extend(self.held.drain(..whole).map(|byte| !byte));
        if whole > 0 && !std::mem::replace(&mut self.greeted, true) {
            buffers.answer.extend_from_slice(b"hello");
        }
        if buffers.plain.contains(&b'~') {
            buffers.answer.extend_from_slice(b"alert");
            return Err("a tilde".to_owned());
        }
        Ok(if buffers.plain.contains(&b'^') { PeerSide::Ended } else { PeerSide::Open })
    }

    fn encode(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend(parts.iter().copied().flatten().map(|byte| !byte));
        out.push(b'|');
        Ok(())
    }

    fn peer_has_ended(&self) -> bool {
        false
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.push(b'.');
    }

    fn footprint(&self) -> usize {
        self.held.capacity()
    }
}

fn inverted(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| !byte).collect()
}

fn inverting() -> Option<Box<dyn Codec>> {
    Some(Box::new(Inverting { held: Vec::new(), greeted: false }))
}

#[test]
fn bytes_pass_as_they_are_without_a_codec() {
    let mut rig = Rig::new(None);
    rig.client.write_all(b"PING\r\nECHO a").unwrap();
    assert_eq!(rig.run(), b"PING");
    assert_eq!(rig.usage.used, 6);
    rig.client.write_all(b"b\r\n").unwrap();
    assert_eq!(rig.run(), b"ECHOab");
    assert_eq!((rig.sent, rig.received, rig.usage.used), (10, 15, 0));
}

#[test]
fn a_codec_transforms_holds_back_and_answers() {
    let mut rig = Rig::new(inverting());
    let bytes = inverted("ECHO abcd\r\nPING\r\nxxx");
    // The bytes are sent one by one, and nothing is executed before the codec has four bytes.
    let mut got = Vec::new();
    for byte in &bytes[..15] {
        rig.client.write_all(&[*byte]).unwrap();
        got.extend(rig.run());
    }
    assert_eq!(got, [b"hello", &inverted("ECHOabcd")[..], b"|"].concat());
    rig.client.write_all(&bytes[15..]).unwrap();
    assert_eq!(rig.run(), [&inverted("PING")[..], b"|"].concat());
    assert_eq!(rig.sent, 12, "output is counted before it is encoded, answers are none");
    assert_eq!(rig.received, 20);
}

#[test]
fn a_peer_that_ends_by_the_codec_has_ended_its_input_and_is_told_the_end() {
    let mut rig = Rig::new(inverting());
    rig.client.write_all(&inverted("PING\r\n^^")).unwrap();
    assert_eq!(rig.run(), [b"hello", &inverted("PING")[..], b"|."].concat());
    assert_eq!(rig.ended.as_deref(), Some(CLIENT_CLOSED));
}

#[test]
fn a_large_reply_is_encoded_part_by_part_as_the_client_takes_it() {
    let mut rig = Rig::new(inverting());
    let mut connection = rig.connection.take().unwrap();
    let value = sluice_base::Bytes::from_vec(vec![b'v'; 5_000_000]);
    let mut outbox = Outbox::new();
    outbox.push(b"head");
    outbox.push_shared(value);
    outbox.push(b"tail");
    let Flushed::Open = send(&mut rig, &mut connection, outbox) else { panic!("the socket is open") };
    assert!(connection.output.is_sending(), "the socket has no room for all of it");
    assert!(connection.transport.footprint() > 0);
    let mut second = Outbox::new();
    second.push(b"second");
    let Flushed::Open = send(&mut rig, &mut connection, second) else { panic!("the socket is open") };
    rig.connection = Some(connection);
    let mut got = Vec::new();
    while rig.sent < 5_000_014 {
        got.extend(rig.run());
    }
    got.extend(rig.run());
    got.retain(|byte| *byte != b'|');
    let plain: Vec<u8> = got.iter().map(|byte| !byte).collect();
    assert!(plain == [b"head", &vec![b'v'; 5_000_000][..], b"tailsecond"].concat(), "{}", plain.len());
    assert!(rig.connection.as_ref().unwrap().is_at_rest());
}

#[test]
fn a_codec_never_has_bytes_received_into_the_memory_of_an_argument() {
    let mut rig = Rig::new(inverting());
    let value = "v".repeat(300_000);
    let request = inverted(&format!("*2\r\n$4\r\nECHO\r\n${}\r\n{value}\r\n....", value.len()));
    let (mut rest, mut got) = (&request[..request.len() / 4 * 4], Vec::new());
    while !rest.is_empty() {
        match rig.client.write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        got.extend(rig.run());
    }
    // Removes the bars at the ends of the large reply's parts.
    got.retain(|byte| *byte != b'|');
    assert!(got == [b"hello", &inverted(&format!("ECHO{value}"))[..]].concat(), "{}", got.len());
}

#[test]
fn what_a_codec_refuses_ends_the_connection() {
    let mut rig = Rig::new(inverting());
    rig.client.write_all(&inverted("ab~c")).unwrap();
    assert_eq!(rig.run(), b"helloalert");
    assert_eq!(rig.ended.as_deref(), Some("a tilde"));
}

#[test]
fn a_connection_leaves_with_everything_that_it_has() {
    let mut rig = Rig::new(None);
    let value = "v".repeat(100_000);
    let request =
        format!("*3\r\n$4\r\nECHO\r\n$5000\r\n{}\r\n${}\r\n{value}\r\n", "w".repeat(5000), value.len());
    let (begun, end) = request.as_bytes().split_at(60_000);
    rig.client.write_all(begun).unwrap();
    assert_eq!(rig.run(), b"");
    let mut connection = rig.connection.take().unwrap();
    assert_eq!(connection.input.state(), InputState::Filling);
    connection.begin_leaving(&mut rig.event_loop);
    rig.put(connection);
    rig.run();
    // The connection moves to another event loop in the middle of the second large argument.
    let (mut moved, socket) = rig.detached.take().expect("it is at rest");
    assert_eq!(moved.input.state(), InputState::Large);
    let mut other = Rig::new(None);
    moved.arrive(&mut other.event_loop, socket);
    let _own = std::mem::replace(&mut other.client, rig.client.try_clone().unwrap());
    resume(&mut other, moved);
    rig.client.write_all(end).unwrap();
    let (got, wanted) = (other.run(), format!("ECHO{}{value}", "w".repeat(5000)));
    assert_eq!(got.len(), wanted.len());
    assert!(got == wanted.as_bytes());
}

#[test]
fn output_behind_a_send_in_flight_stays_in_order() {
    let mut rig = Rig::new(None);
    let mut connection = rig.connection.take().unwrap();
    for number in 0..4_u8 {
        let mut outbox = Outbox::new();
        outbox.push(&vec![number; 500_000]);
        let Flushed::Open = send(&mut rig, &mut connection, outbox) else { panic!("the socket is open") };
    }
    assert!(connection.output.is_sending() && !connection.is_at_rest());
    connection.close_when_sent();
    rig.connection = Some(connection);
    let mut got = Vec::new();
    while rig.ended.is_none() {
        got.extend(rig.run());
    }
    got.extend(rig.run());
    assert!(got == (0..4_u8).flat_map(|number| vec![number; 500_000]).collect::<Vec<_>>());
    assert_eq!((rig.sent, rig.ended.as_deref()), (2_000_000, Some(CLOSED_AFTER_REPLY)));
}

#[test]
#[should_panic(expected = "at rest")]
fn a_connection_that_sends_cannot_arrive_elsewhere() {
    let mut rig = Rig::new(None);
    let mut connection = rig.connection.take().unwrap();
    connection.output.begin_send();
    let (socket, _) = UnixStream::pair().unwrap();
    connection.arrive(&mut rig.event_loop, socket.into());
}

#[test]
fn the_packets_of_a_replica_are_filled_when_asked() {
    let mut rig = Rig::new(None);
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let socket = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    socket.set_nodelay(true).expect("a socket");
    let twin = socket.try_clone().expect("a descriptor");
    rig.connection = Some(Connection::new(KEY, Transport::attach(&mut rig.event_loop, socket.into(), KEY)));
    fill_packets(&mut rig, KEY);
    assert!(!twin.nodelay().expect("readable"));
}
