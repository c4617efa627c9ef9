//! The cost of records and handshakes on one thread: `cargo run --release -p sluice-tls --example cost`.
//!
//! Prints nanoseconds to encrypt and to decrypt records of three sizes in memory, and handshakes a second.
//! Full handshakes are measured on the server's side alone, by the time inside its calls, and on both sides.
//! Handshakes that resume a session are measured on the server's side alone.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, ServerName};
use sluice_tls::{Buffers, ClientAuth, Context, Named, Options, Session, Sources};

/// An RSA key of 2048 bits, which rcgen cannot make with `ring`; used in tests and here only.
const RSA_KEY: &str = include_str!("../tests/it/rsa.key");

fn main() {
    for (name, key) in [
        ("RSA 2048", KeyPair::from_pem(RSA_KEY).expect("a key")),
        ("P-256", KeyPair::generate().expect("a key")),
    ] {
        let (context, _) = context(key);
        handshakes(name, &context);
    }
    let (context, ca) = context(KeyPair::generate().expect("a key"));
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        resumed(&context, &ca, version);
    }
    let (mut server, mut client) = connect(&context, &mut Duration::default());
    for length in [64, 1024, 16 * 1024] {
        records(&mut server, &mut client, length);
    }
}

/// A context with a certificate for `key` and default options, and the CA's certificate.
fn context(key: KeyPair) -> (Context, CertificateDer<'static>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
    let names = vec!["localhost".to_owned()];
    let cert = CertificateParams::new(names).expect("a name").signed_by(&key, &ca).expect("a certificate");
    let named = |name: &str, text: String| Named { name: name.to_owned(), bytes: text.into_bytes() };
    let sources = Sources {
        cert: Some(named("cert", cert.pem())),
        key: Some(named("key", key.serialize_pem())),
        ca: vec![named("ca", ca.pem())],
        ..Sources::default()
    };
    let options = Options {
        client_auth: ClientAuth::Off,
        protocols: String::new(),
        ciphers: String::new(),
        ciphersuites: String::new(),
        prefer_server_ciphers: false,
        session_caching: true,
        session_cache_size: 20_480,
        session_timeout_s: 300,
    };
    let context = Context::build(&sources, &options, unix_s(), unix_s).expect("a context");
    (context, ca.der().clone())
}

fn unix_s() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs() as i64)
}

/// Establishes a session on each side; adds the time inside the server's calls to `server_time`.
fn connect(context: &Context, server_time: &mut Duration) -> (Session, Session) {
    let (mut at_server, mut at_client) = (Buffers::default(), Buffers::default());
    let mut client = context.connect().expect("a session");
    client.start(&mut at_client).expect("a flight");
    let begin = Instant::now();
    let mut server = context.accept().expect("a session");
    server.receive(&at_client.answer, &mut at_server).expect("received");
    *server_time += begin.elapsed();
    at_client.answer.clear();
    client.receive(&at_server.answer, &mut at_client).expect("received");
    at_server.answer.clear();
    let begin = Instant::now();
    server.receive(&at_client.answer, &mut at_server).expect("received");
    *server_time += begin.elapsed();
    client.receive(&at_server.answer, &mut at_client).expect("received");
    (server, client)
}

/// Measures full handshakes, and prints the fastest of many, because other programs disturb the measurement.
fn handshakes(name: &str, context: &Context) {
    let (mut server_best, mut best) = (Duration::MAX, Duration::MAX);
    for _ in 0..2000 {
        let (mut server_time, begin) = (Duration::default(), Instant::now());
        connect(context, &mut server_time);
        best = best.min(begin.elapsed());
        server_best = server_best.min(server_time);
    }
    let rate = |time: Duration| 1.0 / time.as_secs_f64();
    println!("{name}: {:.0} handshakes/s server, {:.0} both sides", rate(server_best), rate(best));
}

/// Measures the time in the server's calls during handshakes that resume an earlier session, with a client of
/// plain rustls.
fn resumed(context: &Context, ca: &CertificateDer<'static>, version: &'static SupportedProtocolVersion) {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).expect("a CA");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let mut best = Duration::MAX;
    for round in 0..2000 {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut client = ClientConnection::new(Arc::clone(&config), name).expect("a client");
        let mut server = context.accept().expect("a session");
        let (mut buffers, mut time) = (Buffers::default(), Duration::default());
        while !server.is_established() || client.is_handshaking() || client.wants_write() {
            let mut flight = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut flight).expect("written");
            }
            let begin = Instant::now();
            server.receive(&flight, &mut buffers).expect("received");
            time += begin.elapsed();
            let answer = std::mem::take(&mut buffers.answer);
            let mut answer = answer.as_slice();
            while !answer.is_empty() {
                client.read_tls(&mut answer).expect("read");
                client.process_new_packets().expect("processed");
            }
        }
        assert_eq!(server.is_resumed(), round > 0);
        best = best.min(if round > 0 { time } else { best });
    }
    println!("resumed {:?}: {:.0} handshakes/s server", version.version, 1.0 / best.as_secs_f64());
}

/// Measures records of `length` bytes from the server to the client, and prints the best of many batches.
fn records(server: &mut Session, client: &mut Session, length: usize) {
    const BATCH: u32 = 32;
    let part = vec![7; length];
    let (mut out, mut buffers) = (Vec::new(), Buffers::default());
    let (mut encrypting, mut decrypting) = (Duration::MAX, Duration::MAX);
    for _ in 0..3000 {
        out.clear();
        buffers.plain.clear();
        let begin = Instant::now();
        let mut ends = [0; BATCH as usize];
        for end in &mut ends {
            server.send([part.as_slice()].into_iter(), &mut out).expect("sent");
            *end = out.len();
        }
        let middle = Instant::now();
        let mut at = 0;
        for end in ends {
            client.receive(&out[at..end], &mut buffers).expect("received");
            at = end;
        }
        decrypting = decrypting.min(middle.elapsed());
        encrypting = encrypting.min(middle - begin);
        assert_eq!(buffers.plain.len(), length * BATCH as usize);
    }
    let each = |time: Duration| (time / BATCH).as_nanos();
    println!("{length} bytes: encrypt {} ns, decrypt {} ns", each(encrypting), each(decrypting));
}
