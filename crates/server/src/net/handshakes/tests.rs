use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sluice_evloop::Backend;
use sluice_tls::{ClientAuth, Named, Options, Sources};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Number of bytes that a client tries to send after its handshake. It sends as many of them as the kernel
/// takes.
const SENT: usize = 32 << 20;

fn context() -> Context {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = CertifiedIssuer::self_signed(params, &key).unwrap();
    let named = |text: String| Named { name: "a file".to_owned(), bytes: text.into_bytes() };
    let sources = Sources {
        cert: Some(named(ca.pem())),
        key: Some(named(key.serialize_pem())),
        ca: vec![named(ca.pem())],
        ..Sources::default()
    };
    let options = Options {
        client_auth: ClientAuth::Off,
        protocols: String::new(),
        ciphers: String::new(),
        ciphersuites: String::new(),
        prefer_server_ciphers: false,
        session_caching: false,
        session_cache_size: 0,
        session_timeout_s: 0,
    };
    Context::build(&sources, &options, 1_780_000_000, || 1_780_000_000).unwrap()
}

fn thread() -> (HandshakeThread<()>, mpsc::Receiver<HandshakeOutcome<()>>) {
    let opened = AnyLoop::choose(Backend::Poll, &sluice_evloop::Config::default()).unwrap();
    let event_loop = opened.event_loop;
    let (_, inbox) = Mailbox::new(event_loop.waker());
    let (reports, outcomes) = mpsc::channel();
    let thread = HandshakeThread {
        main: event_loop.waker(),
        event_loop,
        clock: Clock::system(),
        at_most: CLIENT_HANDSHAKE_MAX,
        inbox,
        reports,
        table: Vec::new(),
        free: Vec::new(),
        deadlines: VecDeque::new(),
        buffers: Buffers::default(),
    };
    (thread, outcomes)
}

/// Handles the waiting events; returns whether there was one.
fn iterate(thread: &mut HandshakeThread<()>) -> bool {
    let now_ns = thread.clock.now().mono_ns;
    let _ = thread.event_loop.wait(now_ns, Deadline::at_ns(now_ns + 1_000_000)).unwrap();
    let mut any = false;
    while let Some(event) = thread.event_loop.next_event(now_ns) {
        any = true;
        thread.handle(Endpoint::client(event.token()), event);
    }
    any
}

/// The client sends data while the server's last flight of handshake messages waits for room in the socket.
/// Only the bytes that were received with the handshake's end are decoded, and the rest reaches the
/// connection's next owner.
#[test]
fn what_comes_during_the_last_flight_waits_in_the_kernel() {
    let (mut thread, outcomes) = thread();
    let context = context();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let accepted = listener.accept().unwrap().0;
    accepted.set_nonblocking(true).unwrap();
    let begin = NewHandshake {
        stream: Stream::accepted(accepted.into()),
        context: context.clone(),
        role: HandshakeRole::Server,
        field: None,
        origin: (),
    };
    thread.begin(begin, 0);
    let key = SessionKey { slot: 0, generation: 1 };
    let (mut client, mut buffers) = (context.connect().unwrap(), Buffers::default());
    client.start(&mut buffers).unwrap();
    let mut input = vec![0; 64 << 10];
    while !client.is_established() {
        socket.write_all(&std::mem::take(&mut buffers.answer)).unwrap();
        iterate(&mut thread);
        if let Ok(len) = socket.read(&mut input) {
            client.receive(&input[..len], &mut buffers).unwrap();
        }
    }
    // The last flight is being sent, and the client does not read it.
    thread.handshake(key).unwrap().is_sending = true;
    socket.write_all(&buffers.answer).unwrap();
    let mut records = Vec::new();
    client.send([vec![b'x'; SENT].as_slice()].into_iter(), &mut records).unwrap();
    let (mut sent, mut idle) = (0, 0);
    while idle < 100 && sent < records.len() {
        let room = socket.write(&records[sent..]).unwrap_or(0);
        sent += room;
        idle = if iterate(&mut thread) || room > 0 { 0 } else { idle + 1 };
    }
    let handshake = thread.handshake(key).unwrap();
    assert!(handshake.stage == HandshakeStage::Established, "the handshake is over");
    let decoded = handshake.plain.len();
    assert!(decoded <= 1 << 20, "{decoded} bytes were decoded of {sent} that were sent");
    assert!(outcomes.try_recv().is_err());
    // Once the flight is sent, the connection leaves the thread, with every decoded byte.
    handshake.is_sending = false;
    thread.go_on(key);
    let outcome = loop {
        if let Ok(outcome) = outcomes.try_recv() {
            break outcome;
        }
        iterate(&mut thread);
    };
    let HandshakeOutcome::Established { plain, .. } = outcome else { panic!("it has failed") };
    assert_eq!(plain.len(), decoded);
}

/// A client connects when it starts, but begins the handshake only with its first command, half a minute
/// later. Its connection stays open until then, but no longer than a minute.
#[test]
fn a_client_that_begins_late_is_awaited_for_a_minute() {
    let (mut thread, outcomes) = thread();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    accepted.set_nonblocking(true).unwrap();
    let stream = Stream::accepted(accepted.into());
    let role = HandshakeRole::Server;
    thread.begin(NewHandshake { stream, context: context(), role, field: None, origin: () }, 0);
    let minute = CLIENT_HANDSHAKE_MAX.as_nanos() as u64;
    assert!(minute == 60_000_000_000);
    thread.end_late(minute - 1);
    assert!(outcomes.try_recv().is_err(), "it has a minute");
    thread.end_late(minute);
    let Ok(HandshakeOutcome::Failed { reason, .. }) = outcomes.try_recv() else { panic!("it stands") };
    assert_eq!(reason, "no handshake within 60 seconds");
}
