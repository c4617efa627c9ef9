//! Versions, suites and keys, and data in the last packet of the handshake.

use std::sync::Arc;

use sluice_tls::{ClientAuth, Options, SessionError, Sources};

use crate::certs::KINDS;
use crate::pair::{End, context, handshake, options, sources};
use crate::plain::{self, BOTH, Plain};

/// A version, a suite by OpenSSL's name, and the kinds of keys (RSA, P-256, Ed25519) that the
/// suite works with.
const SUITES: [(&str, &str, [bool; 3]); 9] = [
    ("TLSv1.3", "TLS_AES_128_GCM_SHA256", [true; 3]),
    ("TLSv1.3", "TLS_AES_256_GCM_SHA384", [true; 3]),
    ("TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256", [true; 3]),
    ("TLSv1.2", "ECDHE-RSA-AES128-GCM-SHA256", [true, false, false]),
    ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", [true, false, false]),
    ("TLSv1.2", "ECDHE-RSA-CHACHA20-POLY1305", [true, false, false]),
    ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256", [false, true, true]),
    ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384", [false, true, true]),
    ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305", [false, true, true]),
];

/// Sends a message in each direction.
fn talk(server: &mut End, client: &mut End) {
    let bytes = client.send(b"PING\r\n");
    server.receive(&bytes, 1).expect("received");
    assert_eq!(server.plain(), b"PING\r\n");
    let bytes = server.send(b"+PONG\r\n");
    client.receive(&bytes, usize::MAX).expect("received");
    assert_eq!(client.plain(), b"+PONG\r\n");
}

#[test]
fn every_version_suite_and_key_shakes_hands() {
    for (version, suite, kinds) in SUITES {
        let names = |wanted| if version == wanted { suite.to_owned() } else { String::new() };
        let options = Options {
            protocols: version.to_owned(),
            ciphers: names("TLSv1.2"),
            ciphersuites: names("TLSv1.3"),
            ..options()
        };
        for (pair, _) in KINDS.iter().zip(kinds).filter(|(_, goes)| *goes) {
            let sources = Sources { cert: Some(pair.cert.clone()), key: Some(pair.key.clone()), ..sources() };
            let context = context(&sources, &options);
            for step in [usize::MAX, 1] {
                let (mut server, mut client) = handshake(&context, &context, step).expect("a handshake");
                let agreed = Some((version, suite.to_owned()));
                assert_eq!(server.session.version_and_suite(), agreed);
                assert_eq!(client.session.version_and_suite(), agreed);
                talk(&mut server, &mut client);
            }
        }
    }
}

#[test]
fn first_request_comes_with_the_last_packet_of_the_handshake() {
    let context = context(&sources(), &Options { client_auth: ClientAuth::Off, ..options() });
    for version in BOTH {
        let config = Arc::new(plain::client(&[version], None));
        for step in [usize::MAX, 1, 7] {
            let (mut client, mut server) = (Plain::client(&config), End::new(context.accept().expect("one")));
            client.shake(&mut server, step, b"PING\r\n");
            assert_eq!(server.plain(), b"PING\r\n");
            let bytes = server.send(b"+PONG\r\n");
            client.receive(&bytes).expect("received");
            assert_eq!(client.plain(), b"+PONG\r\n");
        }
    }
}

#[test]
fn plaintext_comes_out_of_the_call_that_establishes() {
    let context = context(&sources(), &Options { client_auth: ClientAuth::Off, ..options() });
    let (mut client, mut server) = (
        Plain::client(&Arc::new(plain::client(&[&rustls::version::TLS13], None))),
        End::new(context.accept().expect("one")),
    );
    let hello = client.answer();
    assert!(!server.receive(&hello, usize::MAX).expect("received").established_now);
    let flight = server.answer();
    client.receive(&flight).expect("received");
    let mut last = client.answer();
    last.append(&mut client.send(b"PING\r\n"));
    let half = &client.send(b"PING\r\n")[..9];
    last.extend_from_slice(half);
    assert!(server.receive(&last, usize::MAX).expect("received").established_now);
    assert_eq!(server.plain(), b"PING\r\n");
}

#[test]
fn a_plain_server_is_spoken_to() {
    for version in BOTH {
        for pair in KINDS.iter() {
            let config = Arc::new(plain::server(&[version], pair));
            let mut client = End::new(context(&sources(), &options()).connect().expect("one"));
            client.session.start(&mut client.buffers).expect("started");
            let mut server = Plain::server(&config);
            server.shake(&mut client, 3, b"");
            let bytes = client.send(b"PING\r\n");
            server.receive(&bytes).expect("received");
            assert_eq!(server.plain(), b"PING\r\n");
            let bytes = server.send(b"+PONG\r\n");
            client.receive(&bytes, 1).expect("received");
            assert_eq!(client.plain(), b"+PONG\r\n");
        }
    }
}

#[test]
fn versions_without_an_intersection_are_refused_with_an_alert() {
    let of = |protocols: &str| context(&sources(), &Options { protocols: protocols.to_owned(), ..options() });
    let (server, client) = (of("TLSv1.3"), of("TLSv1.2"));
    let mut server = End::new(server.accept().expect("one"));
    let mut client = End::new(client.connect().expect("one"));
    client.session.start(&mut client.buffers).expect("started");
    let hello = client.answer();
    assert!(server.receive(&hello, usize::MAX).is_err());
    let alert = server.answer();
    assert_eq!(client.receive(&alert, usize::MAX), Err(SessionError::Alert("ProtocolVersion".to_owned())));
    for bytes in [hello.as_slice(), b"x", b""] {
        let mut more = sluice_tls::Buffers::default();
        assert_eq!(server.session.receive(bytes, &mut more), Err(SessionError::Ended));
        assert!(more.answer.is_empty());
    }
}

#[test]
fn nothing_is_sent_before_the_handshake_is_over() {
    let context = context(&sources(), &options());
    let mut server = context.accept().expect("one");
    let mut out = Vec::new();
    assert_eq!(server.send([b"x".as_slice()].into_iter(), &mut out), Err(SessionError::NotEstablished));
    server.close(&mut out);
    assert!(out.is_empty());
}

#[test]
fn preference_of_the_server_decides_where_it_is_wanted() {
    let ours = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
    for prefer in [false, true] {
        let options = Options {
            ciphersuites: ours.to_owned(),
            prefer_server_ciphers: prefer,
            client_auth: ClientAuth::Off,
            ..options()
        };
        let server = context(&sources(), &options);
        let theirs = Options {
            ciphersuites: "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256".to_owned(),
            ..options
        };
        let client = context(&sources(), &theirs);
        let (server, _) = handshake(&server, &client, usize::MAX).expect("a handshake");
        let wanted = if prefer { "TLS_CHACHA20_POLY1305_SHA256" } else { "TLS_AES_128_GCM_SHA256" };
        assert_eq!(server.session.version_and_suite(), Some(("TLSv1.3", wanted.to_owned())));
    }
}
