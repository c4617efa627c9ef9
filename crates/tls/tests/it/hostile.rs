//! Malicious peers.

use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use sluice_tls::{ClientAuth, Context, Options, PENDING_MAX, SessionError, Sources};

use crate::certs::{CA, CLIENT, Pair, params};
use crate::pair::{End, context, handshake, options, sources};
use crate::plain::{self, Plain};

/// The context of a server that asks for no certificate.
fn open_context() -> Context {
    context(&sources(), &Options { client_auth: ClientAuth::Off, ..options() })
}

/// The result of a new server session that receives these bytes.
fn first(bytes: &[u8]) -> Result<(), SessionError> {
    let mut server = End::new(open_context().accept().expect("one"));
    server.receive(bytes, usize::MAX).map(|_| ())
}

#[test]
fn what_is_not_tls_is_refused_at_its_first_bytes() {
    for bytes in [
        b"PING\r\n".as_slice(),
        b"*1\r\n$4\r\nPING\r\n",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x09\x01\x00\x05hello",
        b"\x17\x03\x03\x00\x01x",
        b"\x80\x2e\x01\x00\x02",
    ] {
        assert!(first(bytes).is_err(), "{}", bytes.escape_ascii());
    }
    assert_eq!(first(b"\x16\x03\x01"), Ok(()));
}

#[test]
fn records_of_65535_bytes_and_of_none_end_an_open_session() {
    for bytes in [b"\x17\x03\x03\xff\xff".as_slice(), b"\x17\x03\x03\x00\x00", b"\x17\x03\x03\x00\x10"] {
        let context = open_context();
        let (mut server, mut client) = handshake(&context, &context, usize::MAX).expect("a handshake");
        assert!(server.receive(bytes, 1).is_err());
        let alert = server.answer();
        assert!(matches!(client.receive(&alert, 1), Err(SessionError::Alert(_))));
    }
}

#[test]
fn handshake_messages_in_small_pieces_are_bounded() {
    // The ClientHello claims 65,000 bytes, and arrives with one byte in each record.
    let mut server = End::new(open_context().accept().expect("one"));
    let mut message = vec![1, 0, 0xfd, 0xe8];
    message.resize(65_000, 0);
    let mut largest = 0;
    let mut refused = None;
    for byte in message {
        if let Err(error) = server.receive(&[0x16, 3, 1, 0, 1, byte], usize::MAX) {
            refused = Some(error);
            break;
        }
        largest = largest.max(server.session.footprint());
    }
    assert!(refused.is_some());
    assert!(largest < 3 * PENDING_MAX, "{largest} bytes");
    assert!(server.session.footprint() < 1000, "what was kept is given back");
}

/// The server's error when a client shows `chain` to a server that asks for a certificate.
fn show(chain: &Pair) -> Option<SessionError> {
    let mut server = End::new(context(&sources(), &options()).accept().expect("one"));
    let config = Arc::new(plain::client(&[&rustls::version::TLS13], Some(chain)));
    let mut client = Plain::client(&config);
    for _ in 0..4 {
        let flight = client.answer();
        if let Err(error) = server.receive(&flight, 1000) {
            return Some(error);
        }
        let flight = server.answer();
        client.receive(&flight).ok()?;
    }
    None
}

/// A client's certificate with an extension of `length` bytes.
fn large(length: usize) -> Pair {
    let mut params: CertificateParams = params("alice");
    params.custom_extensions =
        vec![CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![4; length])];
    CA.issue_for("client.crt", &params, &KeyPair::generate().expect("a key"))
}

#[test]
fn a_certificate_of_a_megabyte_is_refused() {
    assert_eq!(show(&large(20_000)), None, "one of 20 kB is not");
    assert!(show(&large(1 << 20)).is_some());
}

#[test]
fn a_chain_of_a_hundred_is_bounded() {
    let mut chain = CLIENT.clone();
    let stranger = crate::certs::Authority::new("another CA");
    for index in 0..100 {
        let link = stranger.issue("link.crt", &format!("link {index}"));
        chain.cert.bytes.extend_from_slice(&link.cert.bytes);
    }
    // The client's own certificate is signed by a CA directly, so the rest of the chain does not matter.
    assert_eq!(show(&chain), None);
    let mut deep = stranger.issue("deep.crt", "deep");
    deep.cert.bytes.extend_from_slice(&chain.cert.bytes);
    assert!(matches!(show(&deep), Some(SessionError::Certificate(_))));
}

#[test]
fn a_deep_chain_is_refused() {
    let (pair, root) = crate::certs::deep(100);
    let sources = Sources { ca: vec![root], ..sources() };
    let mut server = End::new(context(&sources, &options()).accept().expect("one"));
    let config = Arc::new(plain::client(&[&rustls::version::TLS13], Some(&pair)));
    let mut client = Plain::client(&config);
    let hello = client.answer();
    server.receive(&hello, usize::MAX).expect("received");
    let flight = server.answer();
    client.receive(&flight).expect("received");
    let flight = client.answer();
    assert!(matches!(server.receive(&flight, usize::MAX), Err(SessionError::Certificate(_))));
}

#[test]
fn key_updates_without_end_are_refused() {
    let context = open_context();
    for version in plain::BOTH {
        let config = Arc::new(plain::client(&[version], None));
        let (mut client, mut server) = (Plain::client(&config), End::new(context.accept().expect("one")));
        client.shake(&mut server, usize::MAX, b"");
        let mut updates = 0;
        while client.0.refresh_traffic_keys().is_ok() {
            let bytes = client.answer();
            if server.receive(&bytes, usize::MAX).is_err() {
                break;
            }
            updates += 1;
            let answer = server.answer();
            assert!(answer.len() <= 64, "one answer each");
        }
        let most = if *version == &rustls::version::TLS13 { 32 } else { 0 };
        assert_eq!(updates, most, "{version:?}");
    }
}

#[test]
fn a_record_that_is_not_encrypted_ends_an_open_session() {
    let context = context(
        &sources(),
        &Options { client_auth: ClientAuth::Off, protocols: "TLSv1.2".to_owned(), ..options() },
    );
    let (mut server, mut client) = handshake(&context, &context, usize::MAX).expect("a handshake");
    // The record is a ClientHello in the clear; `session/tests.rs` tests the same message, encrypted with the
    // client's key.
    assert!(server.receive(b"\x16\x03\x03\x00\x04\x01\x00\x00\x00", usize::MAX).is_err());
    let alert = server.answer();
    assert!(matches!(client.receive(&alert, 1), Err(SessionError::Alert(_))));
}
