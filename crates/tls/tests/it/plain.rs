//! A client or server of plain rustls, in memory: the peer of this crate's sessions.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme, SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::certs::Pair;
use crate::pair::End;

/// Both versions of TLS, 1.3 and 1.2.
pub const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

/// A connection of plain rustls, and the data that it decrypted.
pub struct Plain(pub Connection, Vec<u8>);

impl Plain {
    /// A client that connects to `sluice.test`.
    pub fn client(config: &Arc<ClientConfig>) -> Plain {
        let name = ServerName::try_from("sluice.test").expect("a name");
        Plain(ClientConnection::new(Arc::clone(config), name).expect("a client").into(), Vec::new())
    }

    /// A server with this configuration.
    pub fn server(config: &Arc<ServerConfig>) -> Plain {
        Plain(ServerConnection::new(Arc::clone(config)).expect("a server").into(), Vec::new())
    }

    /// Processes records of the peer.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes).expect("read");
            let state = self.0.process_new_packets()?;
            let at = self.1.len();
            self.1.resize(at + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut self.1[at..]).expect("read");
        }
        Ok(())
    }

    /// Takes the bytes to be sent to the peer.
    pub fn answer(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut out).expect("written");
        }
        out
    }

    /// Encrypts bytes and returns the records.
    pub fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in bytes.chunks(16 * 1024) {
            self.0.writer().write_all(piece).expect("written");
            out.append(&mut self.answer());
        }
        out
    }

    /// Takes the data that were decrypted.
    pub fn plain(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.1)
    }

    /// Performs the handshake with a session of this crate, which receives `step` bytes at a time. The data
    /// `last` are sent with the client's Finished if the version allows that.
    pub fn shake(&mut self, ours: &mut End, step: usize, last: &[u8]) {
        let mut last = Some(last).filter(|last| !last.is_empty());
        for _ in 0..10 {
            let flight = ours.answer();
            self.receive(&flight).expect("received");
            let mut flight = self.answer();
            if !self.0.is_handshaking()
                && let Some(last) = last.take()
            {
                flight.append(&mut self.send(last));
            }
            ours.receive(&flight, step).expect("received");
        }
        assert!(ours.session.is_established() && !self.0.is_handshaking());
    }
}

/// The certificates of a pair and its private key.
pub fn identity(pair: &Pair) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_slice_iter(&pair.cert.bytes).map(|der| der.expect("PEM")).collect();
    (chain, PrivateKeyDer::from_pem_slice(&pair.key.bytes).expect("a key"))
}

/// A client that trusts every server.
pub fn client(versions: &[&'static SupportedProtocolVersion], pair: Option<&Pair>) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting));
    match pair {
        Some(pair) => {
            let (chain, key) = identity(pair);
            let key = ring::sign::any_supported_type(&key).expect("a key");
            // The pair is not checked here, because some tests show a certificate that must be refused.
            let identity = SingleCertAndKey::from(CertifiedKey::new(chain, key));
            builder.with_client_cert_resolver(Arc::new(identity))
        }
        None => builder.with_no_client_auth(),
    }
}

/// A server that asks for no certificate.
pub fn server(versions: &[&'static SupportedProtocolVersion], pair: &Pair) -> ServerConfig {
    let (chain, key) = identity(pair);
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("an identity")
}

#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
