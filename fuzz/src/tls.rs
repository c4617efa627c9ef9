//! Targets about TLS: sessions that receive any bytes, or a client's flights with changed bits; and files
//! with certificates and keys.
//!
//! A handshake draws random numbers, so a repeated input has the same bytes, but other keys.

use std::sync::LazyLock;

use sluice_tls::{
    Buffers, ClientAuth, Context, NameField, Named, Options, Session, Sources, fuzz_certificate,
};

/// A time at which the fixtures' certificate is valid, in unix seconds.
const NOW_S: i64 = 1_800_000_000;

/// A self-signed certificate, which serves as that of server, client and CA; its key is the next constant.
pub(crate) const CERT: &[u8] = include_bytes!("tls/server.crt");
pub(crate) const KEY: &[u8] = include_bytes!("tls/server.key");

/// Maximum bytes that any peer may make a session allocate.
const FOOTPRINT_MAX: usize = 512 * 1024;

/// Contexts for TLS 1.3 and 1.2.
pub(crate) static CONTEXTS: LazyLock<[Context; 2]> =
    LazyLock::new(|| ["TLSv1.3", "TLSv1.2"].map(|protocols| context(sources(CERT, KEY, CERT), protocols)));

/// The certificate, key and CA files of a configuration, with these bytes.
fn sources(cert: &[u8], key: &[u8], ca: &[u8]) -> Sources {
    let named = |name: &str, bytes: &[u8]| Named { name: name.to_owned(), bytes: bytes.to_vec() };
    Sources {
        cert: Some(named("cert", cert)),
        key: Some(named("key", key)),
        key_pass: Some(b"secret".to_vec()),
        ca: vec![named("ca", ca)],
        ..Sources::default()
    }
}

/// The reference's defaults, except for the versions and the size of the session cache.
fn options(protocols: &str) -> Options {
    Options {
        client_auth: ClientAuth::Required,
        protocols: protocols.to_owned(),
        ciphers: String::new(),
        ciphersuites: String::new(),
        prefer_server_ciphers: false,
        session_caching: true,
        session_cache_size: 100,
        session_timeout_s: 300,
    }
}

/// Builds a context, which must succeed.
fn context(sources: Sources, protocols: &str) -> Context {
    let built = Context::build(&sources, &options(protocols), NOW_S, || NOW_S);
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// Passes bytes in pieces; returns whether the session is still open.
fn feed(session: &mut Session, bytes: &[u8], piece: usize, buffers: &mut Buffers) -> bool {
    for piece in bytes.chunks(piece.max(1)) {
        let received = session.receive(piece, buffers);
        assert!(session.footprint() < FOOTPRINT_MAX);
        if received.is_err() {
            assert!(!session.is_established());
            assert!(session.receive(piece, buffers).is_err(), "it is over");
            return false;
        }
    }
    true
}

/// Passes bytes to a server session. The first byte selects the version, the second the size of the pieces.
/// If the third is even, the server receives the following bytes as they are. If it is odd, they are changes
/// of a real client's flights: offset (2 bytes), bits to flip.
pub(crate) fn server(data: &[u8]) {
    let [version, piece, mode, rest @ ..] = data else { return };
    let context = &CONTEXTS[usize::from(version % 2)];
    let mut server = context.accept().expect("a session");
    let mut at_server = Buffers::default();
    if mode.is_multiple_of(2) {
        feed(&mut server, rest, usize::from(*piece), &mut at_server);
        return;
    }
    let mut client = context.connect().expect("a session");
    let mut at_client = Buffers::default();
    client.start(&mut at_client).expect("a flight");
    let (mut sent, mut said) = (0, Vec::new());
    for _ in 0..6 {
        let mut flight = std::mem::take(&mut at_client.answer);
        if client.is_established() {
            let parts = [b"*1\r\n$4\r\nPING\r\n".as_slice(), &[7; 300]];
            client.send(parts.into_iter(), &mut flight).expect("sent");
            said.extend(parts.concat());
        }
        change(&mut flight, sent, rest);
        sent += flight.len();
        if !feed(&mut server, &flight, usize::from(*piece), &mut at_server) {
            return;
        }
        let answer = std::mem::take(&mut at_server.answer);
        // The client detects from the server's reply that its hello was changed.
        if client.receive(&answer, &mut at_client).is_err() {
            return;
        }
    }
    // Every change is detected, except in bytes that are not read. The server waits for the rest of a
    // record whose length has grown, and reads nothing after it.
    if server.is_established() {
        assert_eq!(server.peer_names(NameField::Cn), [b"alice"]);
        assert!(said.starts_with(&at_server.plain));
    }
    if rest.is_empty() {
        assert!(
            server.is_established() && at_server.plain == said && !said.is_empty(),
            "nothing was changed"
        );
    }
}

/// Flips bits in a flight whose first byte is at offset `sent` of the client's output.
fn change(flight: &mut [u8], sent: usize, changes: &[u8]) {
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]]));
        if let Some(byte) = at.checked_sub(sent).and_then(|at| flight.get_mut(at)) {
            *byte ^= change[2];
        }
    }
}

/// Uses the bytes as a file of an operator, in turn as certificate, key and CA; bytes that are no PEM are
/// read as the DER of a certificate.
pub(crate) fn certificate(data: &[u8]) {
    if !data.starts_with(b"-----") {
        fuzz_certificate(data);
        return;
    }
    for sources in [sources(data, KEY, CERT), sources(CERT, data, CERT), sources(CERT, KEY, data)] {
        if let Ok(context) = Context::build(&sources, &options(""), NOW_S, || NOW_S) {
            assert!(context.facts().server.is_some() && context.facts().ca.is_some());
        }
    }
}
