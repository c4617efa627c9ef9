//! Sessions that accept any bytes, flights of a client that were changed on the way, and certificates.
//!
//! A handshake has randomness of its own: an input is tried again as it was, but not with the same keys.

use std::sync::LazyLock;

use sluice_tls::{
    Buffers, ClientAuth, Context, NameField, Named, Options, Session, Sources, fuzz_certificate,
};

/// When the certificate of the fixtures is valid, in unix seconds.
const NOW_S: i64 = 1_800_000_000;

/// A certificate that signs itself, with its key: server, client and CA at once.
pub(crate) const CERT: &[u8] = include_bytes!("tls/server.crt");
pub(crate) const KEY: &[u8] = include_bytes!("tls/server.key");

/// Most bytes that any peer may make a session take.
const FOOTPRINT_MAX: usize = 512 * 1024;

/// Contexts of TLS 1.3 and 1.2.
pub(crate) static CONTEXTS: LazyLock<[Context; 2]> =
    LazyLock::new(|| ["TLSv1.3", "TLSv1.2"].map(|protocols| context(sources(CERT, KEY, CERT), protocols)));

/// Files of those bytes.
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

/// The reference's defaults.
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

/// A context that must be possible.
fn context(sources: Sources, protocols: &str) -> Context {
    let built = Context::build(&sources, &options(protocols), NOW_S, || NOW_S);
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// Gives bytes in pieces; whether the session lives on.
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

/// Bytes into a session that accepts: the first says the version, the second how large the pieces are. Where
/// the third is odd the bytes behind are changes of what a true client sends: offset (2 bytes), bits to turn.
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
        // The client learns from a server's answer that its hello was changed.
        if client.receive(&answer, &mut at_client).is_err() {
            return;
        }
    }
    // No change is overlooked but in what nobody reads. A record whose length has grown is waited for: behind
    // it nothing is read.
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

/// Turns bits in a flight whose first byte is at `sent` of what the client sends.
fn change(flight: &mut [u8], sent: usize, changes: &[u8]) {
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]]));
        if let Some(byte) = at.checked_sub(sent).and_then(|at| flight.get_mut(at)) {
            *byte ^= change[2];
        }
    }
}

/// Files that an operator gives, as certificate, key and CA; what is no PEM is a certificate's DER.
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
