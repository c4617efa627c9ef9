//! Records that no honest peer sends, and keys that are used up.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::{Buffers, Received, Session, TlsPhase};
use crate::record::Records;
use crate::{ClientAuth, Context, Named, Options, SessionError, Sources};

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// Two established sessions of that version: the server's and the client's.
fn pair(protocols: &str) -> (Session, Session) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let ca = CertifiedIssuer::self_signed(params, &key).expect("a CA");
    let named = |text: String| Named { name: "a file".to_owned(), bytes: text.into_bytes() };
    let sources = Sources {
        cert: Some(named(ca.pem())),
        key: Some(named(key.serialize_pem())),
        ca: vec![named(ca.pem())],
        ..Sources::default()
    };
    let options = Options {
        client_auth: ClientAuth::Off,
        protocols: protocols.to_owned(),
        ciphers: String::new(),
        ciphersuites: String::new(),
        prefer_server_ciphers: false,
        session_caching: false,
        session_cache_size: 0,
        session_timeout_s: 0,
    };
    let context = Context::build(&sources, &options, 1_780_000_000, || 1_780_000_000).expect("a context");
    let (mut server, mut client) = (context.accept().expect("one"), context.connect().expect("one"));
    let (mut at_server, mut at_client) = (Buffers::default(), Buffers::default());
    client.start(&mut at_client).expect("started");
    while !server.is_established() || !client.is_established() {
        server.receive(&std::mem::take(&mut at_client.answer), &mut at_server).expect("received");
        client.receive(&std::mem::take(&mut at_server.answer), &mut at_client).expect("received");
    }
    (server, client)
}

/// The records of an established session.
fn records(session: &mut Session) -> &mut Records {
    match &mut session.0.phase {
        TlsPhase::Open(open) => &mut open.records,
        TlsPhase::Handshake(_) | TlsPhase::Over => panic!("not established"),
    }
}

/// A record of the type `kind` with this content.
fn message(session: &mut Session, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    records(session).seal_message(kind, content, &mut out).expect("sealed");
    out
}

/// Processes bytes; returns the result, the decrypted data and the answer.
fn receive(session: &mut Session, bytes: &[u8]) -> (Result<Received, SessionError>, Vec<u8>, Vec<u8>) {
    let mut buffers = Buffers::default();
    let received = session.receive(bytes, &mut buffers);
    (received, buffers.plain, buffers.answer)
}

#[test]
fn keys_change_before_they_are_used_up() {
    let (mut server, mut client) = pair("TLSv1.3");
    records(&mut server).limit_key(4);
    for round in 0..40u8 {
        let mut out = Vec::new();
        server.send([[round].as_slice()].into_iter(), &mut out).expect("sent");
        // A longer output begins with a record that updates the key.
        assert_eq!(out.len() > 40, round >= 4 && round % 4 == 0, "round {round}");
        let (received, plain, answer) = receive(&mut client, &out);
        assert!(received.is_ok() && answer.is_empty(), "{received:?}");
        assert_eq!(plain, [round]);
    }
}

/// TLS 1.2 cannot change keys, so the session ends with close_notify, at the same byte for both sides.
#[test]
fn a_key_of_tls_1_2_ends_its_session_when_it_is_used_up() {
    for limits in [[100, u64::MAX], [u64::MAX, 100], [100, 100]] {
        let (mut server, mut client) = pair("TLSv1.2");
        records(&mut server).limit_blocks(limits[0]);
        records(&mut client).limit_blocks(limits[1]);
        let mut ended = None;
        for round in 0..100 {
            let mut out = Vec::new();
            let sent = server.send([[7; 64].as_slice()].into_iter(), &mut out);
            let (received, plain, _) = receive(&mut client, &out);
            if sent.is_err() || received.is_err() {
                assert!(sent.err().or(received.err()) == Some(SessionError::KeyUsedUp));
                assert!(plain.is_empty());
                ended = Some(round);
                break;
            }
            assert_eq!(plain, [7; 64]);
        }
        // A record counts as five blocks, four of data and one for the tag. The handshake does not count.
        assert_eq!(ended, Some(20), "{limits:?}");
        if limits[0] == 100 {
            let mut out = Vec::new();
            server.close(&mut out);
            assert!(receive(&mut client, &out).0.is_ok_and(|received| received.closed));
        }
    }
    // TLS 1.3 has no such bound; in TLS 1.2 the bound of AES-GCM is 2^34 blocks.
    let (mut server, _) = pair("TLSv1.3");
    assert_eq!(records(&mut server).block_limit(), u64::MAX);
    let (mut server, _) = pair("TLSv1.2");
    assert_eq!(records(&mut server).block_limit(), 1 << 34);
}

#[test]
fn a_key_update_that_asks_for_one_gets_one() {
    let (mut server, mut client) = pair("TLSv1.3");
    let mut bytes = message(&mut client, HANDSHAKE, &[24, 0, 0, 1, 1]);
    let next = records(&mut client).next_sending();
    assert!(next, "the client has a new key too");
    bytes.append(&mut message(&mut client, DATA, b"PING"));
    let (received, plain, answer) = receive(&mut server, &bytes);
    assert!(received.is_ok());
    assert_eq!(plain, b"PING");
    let mut out = answer;
    server.send([b"PONG".as_slice()].into_iter(), &mut out).expect("sent");
    assert_eq!(receive(&mut client, &out).1, b"PONG");
}

#[test]
fn messages_that_nobody_sends_end_a_session() {
    // Each case has the version, the type, the content, and whether the record ends the session.
    let cases: [(&str, u8, &[u8], bool); 22] = [
        ("TLSv1.3", HANDSHAKE, &[24, 0, 0, 1, 2], true),
        ("TLSv1.3", HANDSHAKE, &[24, 0, 0, 2, 0, 0], true),
        ("TLSv1.3", HANDSHAKE, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0], true),
        ("TLSv1.3", HANDSHAKE, &[4, 0, 0, 0], true),
        ("TLSv1.3", HANDSHAKE, &[1, 0, 0, 0], true),
        ("TLSv1.3", HANDSHAKE, &[24, 0], false),
        ("TLSv1.3", HANDSHAKE, &[], true),
        ("TLSv1.3", ALERT, &[1], true),
        ("TLSv1.3", ALERT, &[1, 0, 0], true),
        ("TLSv1.3", ALERT, &[1, 90], false),
        ("TLSv1.3", ALERT, &[1, 40], true),
        ("TLSv1.3", ALERT, &[2, 40], true),
        ("TLSv1.3", 20, &[1], true),
        ("TLSv1.3", 99, &[1], true),
        ("TLSv1.3", 0, &[], true),
        ("TLSv1.2", HANDSHAKE, &[0, 0, 0, 0], true),
        ("TLSv1.2", HANDSHAKE, &[], true),
        ("TLSv1.2", ALERT, &[1, 40], false),
        ("TLSv1.2", ALERT, &[2, 40], true),
        ("TLSv1.2", ALERT, &[], true),
        ("TLSv1.2", 20, &[1], true),
        ("TLSv1.2", 24, &[1], true),
    ];
    for (version, kind, content, ends) in cases {
        let (mut server, mut client) = pair(version);
        let bytes = message(&mut client, kind, content);
        let (received, plain, _) = receive(&mut server, &bytes);
        assert_eq!(received.is_err(), ends, "{version} {kind} {content:?}: {received:?}");
        assert!(plain.is_empty());
        assert_eq!(server.is_established(), !ends);
    }
}

#[test]
fn data_between_the_pieces_of_a_message_end_a_session() {
    let (mut server, mut client) = pair("TLSv1.3");
    let mut bytes = message(&mut client, HANDSHAKE, &[24, 0, 0]);
    bytes.append(&mut message(&mut client, DATA, b"PING"));
    let (received, plain, _) = receive(&mut server, &bytes);
    assert!(received.is_err() && plain.is_empty());
}

#[test]
fn a_message_in_pieces_is_put_together() {
    let (mut server, mut client) = pair("TLSv1.3");
    for piece in [[24].as_slice(), &[0, 0], &[1, 0]] {
        let bytes = message(&mut client, HANDSHAKE, piece);
        assert!(receive(&mut server, &bytes).0.is_ok());
    }
    assert!(records(&mut client).next_sending());
    let bytes = message(&mut client, DATA, b"PING");
    assert_eq!(receive(&mut server, &bytes).1, b"PING");
    // A long ticket arrives in pieces; a client of this crate does not keep tickets.
    let mut ticket = vec![4, 0, 0x80, 0];
    ticket.resize(4 + 0x8000, 7);
    for piece in ticket.chunks(10_000) {
        let bytes = message(&mut server, HANDSHAKE, piece);
        assert!(receive(&mut client, &bytes).0.is_ok());
    }
    assert!(client.footprint() < 5000);
    // A message that claims to be larger than any allowed is refused at once.
    let bytes = message(&mut server, HANDSHAKE, &[4, 1, 0, 1]);
    assert!(receive(&mut client, &bytes).0.is_err());
}

#[test]
fn records_without_effect_are_counted() {
    for (version, kind, content) in [
        ("TLSv1.3", DATA, [].as_slice()),
        ("TLSv1.2", DATA, &[]),
        ("TLSv1.2", ALERT, &[1, 90]),
        ("TLSv1.3", ALERT, &[1, 90]),
    ] {
        let (mut server, mut client) = pair(version);
        for _ in 0..3 {
            for _ in 0..32 {
                let bytes = message(&mut client, kind, content);
                assert!(receive(&mut server, &bytes).0.is_ok());
            }
            let bytes = message(&mut client, DATA, b"x");
            assert_eq!(receive(&mut server, &bytes).1, b"x", "data begin the count anew");
        }
        let mut count = 0;
        while receive(&mut server, &message(&mut client, kind, content)).0.is_ok() {
            count += 1;
        }
        assert_eq!(count, 32, "{version} {kind}");
    }
}

#[test]
fn a_wish_to_negotiate_again_is_refused() {
    for is_server_asked in [true, false] {
        let (mut server, mut client) = pair("TLSv1.2");
        let (asked, asks, hello): (_, _, &[u8]) = if is_server_asked {
            (&mut server, &mut client, &[1, 0, 0, 2, 3, 3])
        } else {
            (&mut client, &mut server, &[0, 0, 0, 0])
        };
        let bytes = message(asks, HANDSHAKE, hello);
        let (received, _, answer) = receive(asked, &bytes);
        assert!(received.is_ok());
        // The answer is a warning, which does not end the session of the side that asked.
        let (received, plain, _) = receive(asks, &answer);
        assert!(received.is_ok() && plain.is_empty());
        assert!(!answer.is_empty());
        let bytes = message(asks, DATA, b"x");
        assert_eq!(receive(asked, &bytes).1, b"x");
        let bytes = [message(asks, HANDSHAKE, hello), message(asks, HANDSHAKE, hello)].concat();
        assert!(receive(asked, &bytes).0.is_err());
    }
}

#[test]
fn a_record_of_more_than_16_kib_is_refused() {
    for version in ["TLSv1.3", "TLSv1.2"] {
        let (mut server, mut client) = pair(version);
        let bytes = message(&mut client, DATA, &[7; 16 * 1024]);
        assert_eq!(receive(&mut server, &bytes).1.len(), 16 * 1024);
        let bytes = message(&mut client, DATA, &[7; 16 * 1024 + 1]);
        let (received, plain, answer) = receive(&mut server, &bytes);
        assert!(received.is_err() && plain.is_empty());
        let told = receive(&mut client, &answer).0;
        assert_eq!(told, Err(SessionError::Alert("RecordOverflow".to_owned())));
    }
}

#[test]
fn padding_is_taken_off() {
    let (mut server, mut client) = pair("TLSv1.3");
    // The record is sealed as type 0 and has the true type in its data, followed by zeros as padding.
    let bytes = message(&mut client, 0, b"PING\x17\0\0\0\0");
    assert_eq!(receive(&mut server, &bytes).1, b"PING");
    let bytes = message(&mut client, 0, &[0; 100]);
    assert!(receive(&mut server, &bytes).0.is_err(), "nothing but zeros");
}
