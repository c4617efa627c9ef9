//! The target for an established session with a client of rustls. All sent data must arrive, whatever the
//! pieces, key updates and record lengths; if a byte was changed in transit, no wrong data may arrive.

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use sluice_tls::{Buffers, Session};

use crate::tls::{CERT, CONTEXTS, KEY};

/// Client configurations for TLS 1.3 and 1.2.
static CONFIGS: LazyLock<[Arc<ClientConfig>; 2]> = LazyLock::new(|| {
    [&rustls::version::TLS13, &rustls::version::TLS12].map(|version| {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        let builder = builder.expect("a version").dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(TakesAny(ring::default_provider())));
        let chain = vec![CertificateDer::from_pem_slice(CERT).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
        Arc::new(builder.with_client_auth_cert(chain, key).expect("a pair"))
    })
});

/// Accepts the fixtures' certificate without verification, which is not tested here.
#[derive(Debug)]
struct TakesAny(CryptoProvider);

impl ServerCertVerifier for TakesAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let all = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, all)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let all = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, all)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Both ends, and the data that each has sent so far.
struct Ends {
    client: ClientConnection,
    server: Session,
    at_server: Buffers,
    /// The server's data that are still to be sent.
    answer: Vec<u8>,
    from_client: Vec<u8>,
    from_server: Vec<u8>,
    at_client: Vec<u8>,
    has_client_ended: bool,
    /// Whether a byte was changed in transit; if so, missing data are no fault.
    is_changed: bool,
}

/// The first byte selects the version, the second the size of the pieces in which bytes arrive; the
/// others are steps, each with a byte for the kind and one for the size.
pub(crate) fn established(data: &[u8]) {
    let [version, piece, steps @ ..] = data else { return };
    let version = usize::from(version % 2);
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(CONFIGS[version].clone(), name).expect("a client");
    client.set_buffer_limit(None);
    let mut ends = Ends {
        client,
        server: CONTEXTS[version].accept().expect("a session"),
        at_server: Buffers::default(),
        answer: Vec::new(),
        from_client: Vec::new(),
        from_server: Vec::new(),
        at_client: Vec::new(),
        has_client_ended: false,
        is_changed: false,
    };
    let piece = usize::from(*piece).max(1) * 64;
    for _ in 0..6 {
        if !ends.exchange(piece, None) {
            return ends.judge();
        }
    }
    assert!(ends.server.is_established(), "nothing was changed");
    for step in steps.chunks_exact(2).take(64) {
        let size = usize::from(step[1]) * usize::from(step[0] >> 3);
        let change = match step[0] % 8 {
            0..=2 => {
                let bytes: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
                // Data after the end are not part of the stream, although rustls accepts them.
                if !ends.has_client_ended && ends.client.writer().write_all(&bytes).is_ok() {
                    ends.from_client.extend_from_slice(&bytes);
                }
                None
            }
            3 | 4 => {
                let bytes: Vec<u8> = (0..size).map(|i| (i * 11) as u8).collect();
                let parts = bytes.split_at(size / 3);
                if ends.server.send([parts.0, parts.1].into_iter(), &mut ends.answer).is_ok() {
                    ends.from_server.extend_from_slice(&bytes);
                }
                None
            }
            5 => {
                // TLS 1.2 has no key updates.
                let _ = ends.client.refresh_traffic_keys();
                None
            }
            6 if step[1] > 250 => {
                ends.client.send_close_notify();
                ends.has_client_ended = true;
                None
            }
            6 if step[1] > 245 => {
                ends.server.close(&mut ends.answer);
                None
            }
            _ => Some(usize::from(step[1])),
        };
        if !ends.exchange(piece, change.filter(|_| step[0] % 8 == 7)) {
            break;
        }
    }
    ends.judge();
}

impl Ends {
    /// Transfers the pending bytes in pieces, possibly with a changed byte; returns whether
    /// both ends continue.
    fn exchange(&mut self, piece: usize, change: Option<usize>) -> bool {
        let mut flight = Vec::new();
        while self.client.wants_write() {
            if self.client.write_tls(&mut flight).is_err() {
                return false;
            }
        }
        if let Some(byte) = change.and_then(|at| flight.get_mut(at)) {
            *byte ^= 0x55;
            self.is_changed = true;
        }
        for bytes in flight.chunks(piece) {
            let received = self.server.receive(bytes, &mut self.at_server);
            self.answer.append(&mut self.at_server.answer);
            if received.is_err() {
                return false;
            }
        }
        let mut answer = std::mem::take(&mut self.answer);
        if let Some(byte) = change.and_then(|at| answer.get_mut(at)) {
            *byte ^= 0x55;
            self.is_changed = true;
        }
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            if !matches!(self.client.read_tls(&mut rest), Ok(1..)) {
                return false;
            }
            if self.client.process_new_packets().is_err() {
                return false;
            }
            // Neither a lack of further data nor the end is a fault.
            let _ = self.client.reader().read_to_end(&mut self.at_client);
        }
        true
    }

    /// Checks that the received data are the beginning of the sent data, or all of them if nothing was
    /// changed.
    fn judge(&self) {
        assert!(self.from_client.starts_with(&self.at_server.plain), "the server was told something else");
        assert!(self.from_server.starts_with(&self.at_client), "the client was told something else");
        if !self.is_changed {
            assert_eq!(self.at_server.plain.len(), self.from_client.len(), "bytes are missing at the server");
            assert_eq!(self.at_client.len(), self.from_server.len(), "bytes are missing at the client");
        }
    }
}
