//! Counts the heap memory of a session. This is a separate test program, because the counts are for the whole
//! process.

use std::alloc::System;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use sluice_tls::{Buffers, ClientAuth, Context, Named, Options, Session, Sources};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of sessions that are made to measure the memory of one.
const SESSIONS: usize = 100;

/// Maximum bytes that a session at rest may take.
const AT_REST_MAX: usize = 4096;

/// Bytes that are allocated at the moment.
fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// A context of that version whose clients show certificates.
fn context(protocols: &str) -> Context {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "alice");
    let cert = params.signed_by(&key, &ca).expect("a certificate");
    let named = |text: String| Named { name: "a file".to_owned(), bytes: text.into_bytes() };
    let sources = Sources {
        cert: Some(named(cert.pem())),
        key: Some(named(key.serialize_pem())),
        ca: vec![named(ca.pem())],
        ..Sources::default()
    };
    let options = Options {
        client_auth: ClientAuth::Required,
        protocols: protocols.to_owned(),
        ciphers: String::new(),
        ciphersuites: String::new(),
        prefer_server_ciphers: false,
        session_caching: true,
        session_cache_size: 20_480,
        session_timeout_s: 300,
    };
    Context::build(&sources, &options, 1_780_000_000, || 1_780_000_000).expect("a context")
}

/// An established session of the server's side that has sent and received data.
fn establish(context: &Context, at_server: &mut Buffers, at_client: &mut Buffers) -> Session {
    let mut server = context.accept().expect("one");
    let mut client = context.connect().expect("one");
    client.start(at_client).expect("started");
    while !server.is_established() {
        server.receive(&std::mem::take(&mut at_client.answer), at_server).expect("received");
        client.receive(&std::mem::take(&mut at_server.answer), at_client).expect("received");
    }
    let mut bytes = Vec::new();
    client.send([[7; 20_000].as_slice()].into_iter(), &mut bytes).expect("sent");
    server.receive(&bytes[..10_000], at_server).expect("received");
    assert!(server.footprint() > 10_000, "the beginning of a record is counted");
    server.receive(&bytes[10_000..], at_server).expect("received");
    assert_eq!(std::mem::take(&mut at_server.plain).len(), 20_000);
    server
}

// There is a single test, because two tests in one process would count each other's sessions.
#[test]
fn footprints_are_true_and_a_session_at_rest_owns_no_buffer() {
    sessions_at_rest();
    handshakes_that_stand_still();
}

fn sessions_at_rest() {
    for version in ["TLSv1.2", "TLSv1.3"] {
        let context = context(version);
        let (mut at_server, mut at_client) = (Buffers::default(), Buffers::default());
        // The first session makes the context create its own state, such as the keys of tickets.
        drop(establish(&context, &mut at_server, &mut at_client));
        let mut sessions = Vec::with_capacity(SESSIONS);
        (at_server, at_client) = (Buffers::default(), Buffers::default());
        let before = live();
        for _ in 0..SESSIONS {
            sessions.push(establish(&context, &mut at_server, &mut at_client));
            (at_server, at_client) = (Buffers::default(), Buffers::default());
        }
        let with = live();
        let footprint = sessions[0].footprint();
        drop(sessions);
        // The bytes that remain belong to the cache, not to a session.
        let each = (with - live()) / SESSIONS;
        let cached = live().saturating_sub(before) / SESSIONS;
        println!("{version}: {each} bytes at rest, {footprint} said, {cached} in the cache");
        assert!(each <= AT_REST_MAX, "{each}");
        assert!(footprint.abs_diff(each) <= each / 4, "{footprint} bytes are said, {each} are taken");
    }
}

fn handshakes_that_stand_still() {
    let context = context("");
    let mut buffers = Buffers::default();
    let mut client = context.connect().expect("one");
    client.start(&mut buffers).expect("started");
    let hello = std::mem::take(&mut buffers.answer);
    let before = live();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut server = context.accept().expect("one");
        server.receive(&hello, &mut buffers).expect("received");
        buffers = Buffers::default();
        sessions.push(server);
    }
    let each = (live() - before) / SESSIONS;
    println!("{each} bytes behind a ClientHello, {} said", sessions[0].footprint());
    assert!(sessions[0].footprint().abs_diff(each) <= each / 4, "{each}");
}
