//! Verification of a peer's certificate: chain, dates and usage, never a name.
//!
//! Invariants: (1) webpki bounds the chain: six certificates between the peer's and the CA's, and a number of
//! signatures; (2) a CA certificate that is out of date verifies no peer, although webpki does not check
//! that; (3) a peer's certificate that is itself among the CA certificates is trusted, as OpenSSL trusts it,
//! because self-signed certificates are used like this; (4) a certificate verifies others only if it may sign
//! certificates, which webpki does not check for an anchor. Otherwise the key of any certificate in a folder
//! of CAs could make certificates for every user.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_cert::der::asn1::ObjectIdentifier;

use crate::BuildError;
use crate::certificate::{Certificate, OlderUsage};

/// The side that shows a certificate.
#[derive(Clone, Copy)]
enum CertificateUse {
    Client,
    Server,
}

impl CertificateUse {
    fn older(self) -> OlderUsage {
        match self {
            CertificateUse::Client => OlderUsage::Client,
            CertificateUse::Server => OlderUsage::Server,
        }
    }
}

/// The CA certificates that peers are verified with.
#[derive(Debug)]
pub(crate) struct Authorities {
    list: Vec<Authority>,
    /// The anchors of the CA certificates that may sign.
    anchors: Vec<TrustAnchor<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// The span in which all CA certificates are valid, in unix seconds.
    all_valid_from_s: i64,
    all_valid_to_s: i64,
}

#[derive(Debug)]
struct Authority {
    der: CertificateDer<'static>,
    valid_from_s: i64,
    valid_to_s: i64,
    /// `None` if the certificate may not sign others.
    anchor: Option<TrustAnchor<'static>>,
}

impl Authorities {
    pub(crate) fn new(algorithms: WebPkiSupportedAlgorithms) -> Authorities {
        let (all_valid_from_s, all_valid_to_s) = (i64::MIN, i64::MAX);
        Authorities { list: Vec::new(), anchors: Vec::new(), algorithms, all_valid_from_s, all_valid_to_s }
    }

    /// Whether there is no CA certificate.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether this CA certificate was added already.
    pub(crate) fn has(&self, der: &CertificateDer<'_>) -> bool {
        self.list.iter().any(|authority| authority.der == *der)
    }

    /// Adds a CA certificate of the file `name`.
    pub(crate) fn add(
        &mut self,
        name: &str,
        der: CertificateDer<'static>,
        certificate: &Certificate,
    ) -> Result<(), BuildError> {
        let anchor = webpki::anchor_from_trusted_cert(&der)
            .map_err(|error| BuildError::new(format!("{name}: a CA certificate cannot be used: {error}")))?;
        let anchor = certificate.may_sign().then(|| anchor.to_owned());
        self.anchors.extend(anchor.clone());
        let (valid_from_s, valid_to_s) = (certificate.valid_from_s(), certificate.expires_at_s());
        self.all_valid_from_s = self.all_valid_from_s.max(valid_from_s);
        self.all_valid_to_s = self.all_valid_to_s.min(valid_to_s);
        self.list.push(Authority { der, valid_from_s, valid_to_s, anchor });
        Ok(())
    }

    /// Checks that a peer's certificate is good for `usage`.
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        usage: CertificateUse,
        now: UnixTime,
    ) -> Result<(), Error> {
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let valid = |authority: &Authority| (authority.valid_from_s..=authority.valid_to_s).contains(&now_s);
        if let Some(own) = self.list.iter().find(|authority| authority.der == *end_entity) {
            return verify_trusted(own, usage, now_s);
        }
        let in_date: Vec<TrustAnchor<'static>>;
        let anchors = if (self.all_valid_from_s..=self.all_valid_to_s).contains(&now_s) {
            &self.anchors
        } else {
            in_date =
                self.list.iter().filter(|own| valid(own)).filter_map(|own| own.anchor.clone()).collect();
            &in_date
        };
        let parsed = EndEntityCert::try_from(end_entity).map_err(|error| explain(error, end_entity))?;
        let wanted = match usage {
            CertificateUse::Client => KeyUsage::client_auth(),
            CertificateUse::Server => KeyUsage::server_auth(),
        };
        parsed
            .verify_for_usage(self.algorithms.all, anchors, intermediates, now, wanted, None, None)
            .map_err(|error| explain(error, end_entity))?;
        match Certificate::read(end_entity).is_some_and(|own| own.serves_as(usage.older())) {
            true => Ok(()),
            false => Err(Error::InvalidCertificate(CertificateError::InvalidPurpose)),
        }
    }
}

/// Checks dates and usage of a peer's certificate that is itself among the CA certificates.
fn verify_trusted(own: &Authority, usage: CertificateUse, now_s: i64) -> Result<(), Error> {
    let purpose = match usage {
        CertificateUse::Client => ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2"),
        CertificateUse::Server => ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"),
    };
    let reason = if now_s > own.valid_to_s {
        CertificateError::Expired
    } else if now_s < own.valid_from_s {
        CertificateError::NotValidYet
    } else if !Certificate::read(&own.der)
        .is_some_and(|certificate| certificate.allows(purpose) && certificate.serves_as(usage.older()))
    {
        CertificateError::InvalidPurpose
    } else {
        return Ok(());
    };
    Err(Error::InvalidCertificate(reason))
}

/// Translates an error of webpki, so that rustls sends the right alert.
fn explain(error: webpki::Error, end_entity: &CertificateDer<'_>) -> Error {
    let reason = match error {
        webpki::Error::CertExpired { .. } => CertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
        webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        webpki::Error::BadDer => CertificateError::BadEncoding,
        _ if Certificate::read(end_entity).is_some_and(|certificate| certificate.is_version_1()) => {
            CertificateError::Other(OtherError(Arc::new(BuildError::new(
                "it is of X.509 version 1, which is not supported; make one of version 3, with openssl x509 -req \
                 -extfile",
            ))))
        }
        other => CertificateError::Other(OtherError(Arc::new(other))),
    };
    Error::InvalidCertificate(reason)
}

/// The three methods about handshake signatures that both verifier traits of rustls demand. A peer proves
/// with a signature, by one of the algorithms of the authorities, that it has the key of its certificate.
macro_rules! handshake_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, cert, signed, &self.authorities.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, cert, signed, &self.authorities.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.authorities.algorithms.supported_schemes()
        }
    };
}

/// Verifies the certificates of clients, for the server's side.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    pub(crate) authorities: Arc<Authorities>,
    /// Whether a client without a certificate is refused.
    pub(crate) is_required: bool,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    /// The list is empty, as in the reference, so clients get no hint which certificate to choose.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.authorities.verify(end_entity, intermediates, CertificateUse::Client, now)?;
        Ok(ClientCertVerified::assertion())
    }

    handshake_signatures!();
}

/// Verifies the certificates of servers, for the client's side.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    pub(crate) authorities: Arc<Authorities>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.authorities.verify(end_entity, intermediates, CertificateUse::Server, now)?;
        Ok(ServerCertVerified::assertion())
    }

    handshake_signatures!();
}
