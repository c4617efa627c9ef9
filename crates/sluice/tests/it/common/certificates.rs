//! Certificates for tests, signed by an authority that is made once per process, and TLS clients.

use super::{DEADLINE, Dir};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, LazyLock};

/// The authority that servers and clients trust.
static AUTHORITY: LazyLock<CertifiedIssuer<'static, KeyPair>> = LazyLock::new(|| {
    let mut params = params("authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
});

/// Parameters of a certificate that is valid from 2020 to 2120.
fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2120, 1, 1);
    params
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Certificate {
    pub cert: String,
    pub key: String,
}

impl Certificate {
    /// A certificate with this common name.
    pub fn named(name: &str) -> Certificate {
        Certificate::of(params(name))
    }

    /// A certificate with a URI in addition to its common name.
    pub fn with_uri(name: &str, uri: &str) -> Certificate {
        let mut params = params(name);
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        Certificate::of(params)
    }

    /// A certificate that has expired.
    pub fn expired(name: &str) -> Certificate {
        let mut params = params(name);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        Certificate::of(params)
    }

    fn of(params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &AUTHORITY).unwrap();
        Certificate { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// Writes the certificate and its key to files; returns their paths.
    pub fn files(&self, dir: &Dir, name: &str) -> [String; 2] {
        [dir.file(&format!("{name}.crt"), &self.cert), dir.file(&format!("{name}.key"), &self.key)]
    }
}

/// The arguments of a server with this certificate that listens on `port` for TLS.
pub fn arguments(dir: &Dir, port: u16, certificate: &Certificate) -> Vec<String> {
    let [cert, key] = certificate.files(dir, "server");
    let ca = dir.file("ca.crt", &AUTHORITY.pem());
    let mut words = vec!["--tls-port".to_owned(), port.to_string()];
    for (name, value) in [("--tls-cert-file", cert), ("--tls-key-file", key), ("--tls-ca-cert-file", ca)] {
        words.extend([name.to_owned(), value]);
    }
    words
}

/// The options that a client offers.
#[derive(Default)]
pub struct Offer<'a> {
    pub certificate: Option<&'a Certificate>,
    /// The offered versions; `None` for all.
    pub versions: Option<&'static [&'static SupportedProtocolVersion]>,
}

/// A client's side of TLS, with its socket.
pub struct TlsClient {
    pub connection: ClientConnection,
    pub socket: TcpStream,
}

impl TlsClient {
    /// A connection whose handshake has not begun.
    pub fn open(port: u16, offer: &Offer<'_>) -> TlsClient {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(AUTHORITY.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = offer.versions.unwrap_or(rustls::ALL_VERSIONS);
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match offer.certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.cert.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        connection.set_buffer_limit(None);
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket.set_write_timeout(Some(DEADLINE)).unwrap();
        socket.set_nodelay(true).unwrap();
        TlsClient { connection, socket }
    }

    /// A connection on which the server has answered a PING.
    pub fn connect(port: u16, offer: &Offer<'_>) -> TlsClient {
        let mut client = TlsClient::open(port, offer);
        client.check("PING", "+PONG\r\n");
        client
    }

    /// All bytes that are to be sent now.
    pub fn flight(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Encrypts the bytes and sends them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut TlsClient {
        self.connection.writer().write_all(bytes.as_ref()).unwrap();
        let flight = self.flight();
        self.socket.write_all(&flight).unwrap();
        self
    }

    /// Receives `count` decrypted bytes, or fewer if the connection ends. Also sends pending bytes.
    pub fn receive(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        let mut got = Vec::new();
        let mut piece = [0; 16 * 1024];
        loop {
            let wanted = piece.len().min(count - got.len());
            match self.connection.reader().read(&mut piece[..wanted]) {
                Ok(0) => return Ok(got),
                Ok(len) => {
                    got.extend_from_slice(&piece[..len]);
                    if got.len() == count {
                        return Ok(got);
                    }
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let flight = self.flight();
            self.socket.write_all(&flight)?;
            self.connection.read_tls(&mut self.socket)?;
            self.connection.process_new_packets().map_err(std::io::Error::other)?;
        }
    }

    /// Sends a line and expects this reply.
    #[track_caller]
    pub fn check(&mut self, line: &str, reply: impl AsRef<[u8]>) -> &mut TlsClient {
        self.send(format!("{line}\r\n"));
        self.expect(reply)
    }

    /// Checks that the next decrypted bytes are `reply`.
    #[track_caller]
    pub fn expect(&mut self, reply: impl AsRef<[u8]>) -> &mut TlsClient {
        let wanted = reply.as_ref();
        let got = self.receive(wanted.len()).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(wanted));
        self
    }

    /// Checks that the server has ended the connection with close_notify.
    #[track_caller]
    pub fn expect_end(&mut self) {
        assert_eq!(self.receive(1).unwrap(), b"");
    }
}
