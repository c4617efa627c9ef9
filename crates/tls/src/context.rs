//! Builds the configurations from which sessions are made, out of certificates, keys and the operator's
//! options.

use std::fmt;
use std::sync::Arc;

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ServerConfig, SignatureScheme, SupportedProtocolVersion};
use rustls_pki_types::UnixTime;

use crate::cache::Cache;
use crate::certificate::{CertFacts, CertificateSummary, check_dates, earliest, read_all};
use crate::pem::SourceFile;
use crate::tickets::Tickets;
use crate::verify::{Authorities, ClientVerifier, ServerVerifier};
use crate::{BuildError, Session, SessionError, key, pem, provider, words};

/// The certificate and key files of the configuration, already read into memory.
#[derive(Clone, Default)]
pub struct Sources {
    /// `tls-cert-file`: the server's certificate, followed by the intermediate certificates up to the CA's.
    pub cert: Option<SourceFile>,
    /// `tls-key-file`: the private key of `cert`.
    pub key: Option<SourceFile>,
    /// `tls-key-file-pass`: the passphrase of `key`.
    pub key_pass: Option<Vec<u8>>,
    /// `tls-alt-cert-file`: a second certificate of the server, for a key of another kind.
    pub alt_cert: Option<SourceFile>,
    /// `tls-alt-key-file`: the private key of `alt_cert`.
    pub alt_key: Option<SourceFile>,
    /// `tls-alt-key-file-pass`: the passphrase of `alt_key`.
    pub alt_key_pass: Option<Vec<u8>>,
    /// `tls-client-cert-file`: the certificate for connections that this server makes.
    pub client_cert: Option<SourceFile>,
    /// `tls-client-key-file`: the private key of `client_cert`.
    pub client_key: Option<SourceFile>,
    /// `tls-client-key-file-pass`: the passphrase of `client_key`.
    pub client_key_pass: Option<Vec<u8>>,
    /// `tls-ca-cert-file` and each file of `tls-ca-cert-dir`.
    pub ca: Vec<SourceFile>,
}

/// Whether clients must show certificates (`tls-auth-clients`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// `yes`: a client without a certificate is refused.
    Required,
    /// `optional`: a certificate that a client shows must be good.
    Optional,
    /// `no`: the server asks for no certificate.
    Off,
}

/// The options of the configuration, as the operator wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// `tls-auth-clients`: whether clients must show certificates.
    pub client_auth: ClientAuth,
    /// `tls-protocols`: versions separated by blanks; TLSv1.2 and TLSv1.3 if empty.
    pub protocols: String,
    /// `tls-ciphers`: OpenSSL's cipher string for TLS 1.2; all suites if empty.
    pub ciphers: String,
    /// `tls-ciphersuites`: suites of TLS 1.3 separated by colons; all if empty.
    pub ciphersuites: String,
    /// `tls-prefer-server-ciphers`: the server's order of suites decides, not the client's.
    pub prefer_server_ciphers: bool,
    /// `tls-session-caching`: whether sessions can be resumed at all.
    pub session_caching: bool,
    /// `tls-session-cache-size`: sessions kept for clients that take no tickets.
    pub session_cache_size: usize,
    /// `tls-session-cache-timeout`, in seconds: how long a session can be resumed.
    pub session_timeout_s: u64,
}

/// The configuration of all sessions: cheap to clone, shared by all threads.
#[derive(Clone)]
pub struct Context(Arc<Built>);

struct Built {
    server: Arc<ServerConfig>,
    /// For connections from other nodes of the cluster, which must show certificates; `None`
    /// without a CA certificate.
    nodes: Option<Arc<ServerConfig>>,
    client: Option<Arc<ClientConfig>>,
    facts: CertificateSummary,
}

impl Context {
    /// Parses and checks all files and options. `now_s` is the time in unix seconds at which certificates
    /// must be in date; `now` is the clock that handshakes use.
    ///
    /// # Errors
    /// A file is missing, unreadable, out of date or does not belong to its pair, or an option is not
    /// understood or not supported. The text names the file or the parameter.
    pub fn build(
        sources: &Sources,
        options: &TlsOptions,
        now_s: i64,
        now: fn() -> i64,
    ) -> Result<Context, BuildError> {
        let versions = words::protocols(&options.protocols)?;
        let provider = Arc::new(restrict(provider::all(), options)?);
        let mut facts = CertificateSummary::default();
        let authorities = Arc::new(read_authorities(&sources.ca, &provider, now_s, &mut facts)?);
        if authorities.is_empty() && options.client_auth != ClientAuth::Off {
            return Err(BuildError::new(
                "tls-ca-cert-file or tls-ca-cert-dir must be set while tls-auth-clients is not no",
            ));
        }
        let (pair, server_facts) = Pair::server(sources).read(now_s)?;
        facts.server = Some(server_facts);
        let mut alternative = None;
        if sources.alt_cert.is_some() || sources.alt_key.is_some() {
            let (pair, alt_facts) = Pair::alternative(sources).read(now_s)?;
            alternative = Some(pair);
            facts.server_alt = Some(alt_facts);
        }
        let pairs = Arc::new(OwnPairs { first: pair, alternative });
        let mut client_pairs = Arc::clone(&pairs);
        if sources.client_cert.is_some() {
            let (first, client_facts) = Pair::client(sources).read(now_s)?;
            client_pairs = Arc::new(OwnPairs { first, alternative: None });
            facts.client = Some(client_facts);
        }
        let parts = ConfigParts { provider, versions, authorities, options, now };
        let has_authority = !parts.authorities.is_empty();
        let nodes = has_authority.then(|| parts.nodes(Arc::clone(&pairs))).transpose()?;
        let server = parts.server(pairs)?;
        let client = has_authority.then(|| parts.client(client_pairs)).transpose()?;
        Ok(Context(Arc::new(Built { server, nodes, client, facts })))
    }

    /// Serial numbers and dates of the files.
    pub fn facts(&self) -> &CertificateSummary {
        &self.0.facts
    }

    /// A session for a connection that the server accepted; the client sends first.
    ///
    /// # Errors
    /// None today: [`Context::build`] has checked the configuration.
    pub fn accept(&self) -> Result<Session, SessionError> {
        Session::accept(Arc::clone(&self.0.server))
    }

    /// A session for a connection that another node of the cluster made. A certificate is required, whatever
    /// `tls-auth-clients` says, and no session is resumed.
    ///
    /// # Errors
    /// [`SessionError::NoAuthority`] if there is no CA certificate.
    pub fn accept_node(&self) -> Result<Session, SessionError> {
        Session::accept(Arc::clone(self.0.nodes.as_ref().ok_or(SessionError::NoAuthority)?))
    }

    /// A session for a connection that this server makes: [`Session::start`] gives the first bytes to send.
    ///
    /// # Errors
    /// [`SessionError::NoAuthority`] if there is no CA certificate.
    pub fn connect(&self) -> Result<Session, SessionError> {
        Session::connect(Arc::clone(self.0.client.as_ref().ok_or(SessionError::NoAuthority)?))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Context").field("facts", &self.0.facts).finish_non_exhaustive()
    }
}

/// The crypto provider with only the suites that the operator chose, in that order.
fn restrict(mut provider: CryptoProvider, options: &TlsOptions) -> Result<CryptoProvider, BuildError> {
    let chosen = [words::ciphersuites(&options.ciphersuites)?, words::ciphers(&options.ciphers)?].concat();
    let all = std::mem::take(&mut provider.cipher_suites);
    let find = |suite| all.iter().copied().find(|candidate| candidate.suite() == suite);
    provider.cipher_suites = chosen.into_iter().filter_map(find).collect();
    Ok(provider)
}

/// Whether these bytes are a file of certificates, all of which can be parsed. In a folder of CA
/// certificates other files are ignored.
pub fn is_certificates(bytes: &[u8]) -> bool {
    let file = SourceFile { name: String::new(), bytes: bytes.to_vec() };
    pem::certificates(&file).is_ok_and(|ders| {
        let all_read = read_all("", &ders).is_ok();
        all_read && !ders.is_empty() && ders.iter().all(|der| webpki::anchor_from_trusted_cert(der).is_ok())
    })
}

/// The CA certificates of all files, without duplicates. Files without a certificate, which a folder may
/// contain, are skipped as long as others are good. Certificates that are out of date, which a bundle may
/// contain, are no error as long as another is in date; they verify no peer.
fn read_authorities(
    files: &[SourceFile],
    provider: &CryptoProvider,
    now_s: i64,
    facts: &mut CertificateSummary,
) -> Result<Authorities, BuildError> {
    let mut authorities = Authorities::new(provider.signature_verification_algorithms);
    let mut all = Vec::new();
    for file in files {
        let ders = pem::certificates(file)?;
        let certificates = read_all(&file.name, &ders)?;
        for (der, certificate) in ders.into_iter().zip(certificates) {
            if !authorities.has(&der) {
                authorities.add(&file.name, der, &certificate)?;
                all.push((&file.name, certificate));
            }
        }
    }
    if let (true, Some(file)) = (authorities.is_empty(), files.first()) {
        return Err(BuildError::new(format!("{}: the file has no certificate in PEM form", file.name)));
    }
    let mut errors = Vec::new();
    for (name, certificate) in &all {
        errors.extend(check_dates(name, certificate, now_s).err());
    }
    if errors.len() == all.len()
        && let Some(error) = errors.into_iter().next()
    {
        return Err(error);
    }
    facts.ca = earliest(all.iter().map(|(_, certificate)| certificate));
    Ok(authorities)
}

/// A certificate file and its key file, before they are parsed.
struct Pair<'a> {
    cert: Option<&'a SourceFile>,
    key: Option<&'a SourceFile>,
    pass: Option<&'a [u8]>,
    /// The parameters that name the certificate, the key and the passphrase.
    parameters: [&'static str; 3],
}

impl<'a> Pair<'a> {
    fn server(sources: &'a Sources) -> Pair<'a> {
        Pair {
            cert: sources.cert.as_ref(),
            key: sources.key.as_ref(),
            pass: sources.key_pass.as_deref(),
            parameters: ["tls-cert-file", "tls-key-file", "tls-key-file-pass"],
        }
    }

    fn alternative(sources: &'a Sources) -> Pair<'a> {
        Pair {
            cert: sources.alt_cert.as_ref(),
            key: sources.alt_key.as_ref(),
            pass: sources.alt_key_pass.as_deref(),
            parameters: ["tls-alt-cert-file", "tls-alt-key-file", "tls-alt-key-file-pass"],
        }
    }

    fn client(sources: &'a Sources) -> Pair<'a> {
        Pair {
            cert: sources.client_cert.as_ref(),
            key: sources.client_key.as_ref(),
            pass: sources.client_key_pass.as_deref(),
            parameters: ["tls-client-cert-file", "tls-client-key-file", "tls-client-key-file-pass"],
        }
    }

    /// Parses both files, and checks that they belong together and are in date.
    fn read(&self, now_s: i64) -> Result<(Arc<CertifiedKey>, CertFacts), BuildError> {
        let [cert_parameter, key_parameter, pass_parameter] = self.parameters;
        let missing = |parameter| BuildError::new(format!("{parameter} is not set"));
        let cert = self.cert.ok_or_else(|| missing(cert_parameter))?;
        let key = self.key.ok_or_else(|| missing(key_parameter))?;
        let chain = pem::certificates(cert)?;
        // Only the first certificate of the file has to be in date. An expired intermediate certificate is
        // sent all the same, because a peer may have a newer one for the same key.
        let certificates = read_all(&cert.name, &chain)?;
        let Some(own) = certificates.first() else {
            return Err(BuildError::new(format!("{}: the file has no certificate in PEM form", cert.name)));
        };
        if own.is_version_1() {
            return Err(BuildError::new(format!(
                "{0}: the certificate is of X.509 version 1, which is not supported; make one of version 3 with: \
                 openssl x509 -req -extfile <(echo basicConstraints=CA:FALSE) ... -out {0}",
                cert.name
            )));
        }
        check_dates(&cert.name, own, now_s)?;
        let signing = provider::signing_key(key::read(key, self.pass, pass_parameter)?).ok_or_else(|| {
            BuildError::new(format!(
                "{}: the private key is not supported: use RSA of 2048 to 4096 bits, ECDSA on P-256 or P-384, or Ed25519",
                key.name
            ))
        })?;
        let pair = CertifiedKey::new(chain, signing);
        match pair.keys_match() {
            Ok(()) => Ok((Arc::new(pair), own.facts())),
            Err(rustls::Error::InconsistentKeys(_)) => Err(BuildError::new(format!(
                "{}: the private key does not belong to the certificate {}",
                key.name, cert.name
            ))),
            Err(error) => {
                Err(BuildError::new(format!("{}: the certificate cannot be used: {error}", cert.name)))
            }
        }
    }
}

/// The certificates that this side may show, with their keys.
#[derive(Debug)]
struct OwnPairs {
    first: Arc<CertifiedKey>,
    alternative: Option<Arc<CertifiedKey>>,
}

impl OwnPairs {
    /// The pair for a peer that accepts `schemes`, which are in the peer's order of preference: the pair
    /// whose key can sign by the earliest of these schemes. If no key can, the first pair is returned; the
    /// handshake then fails and gives the reason.
    fn for_peer(&self, schemes: &[SignatureScheme]) -> Arc<CertifiedKey> {
        let Some(alternative) = &self.alternative else { return Arc::clone(&self.first) };
        let pairs = [&self.first, alternative];
        let maker = |scheme: &SignatureScheme| {
            pairs.into_iter().find(|pair| pair.key.choose_scheme(&[*scheme]).is_some())
        };
        Arc::clone(schemes.iter().find_map(maker).unwrap_or(&self.first))
    }
}

impl ResolvesServerCert for OwnPairs {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.for_peer(hello.signature_schemes()))
    }
}

impl ResolvesClientCert for OwnPairs {
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.for_peer(schemes))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The parts that the configurations of both sides share.
struct ConfigParts<'a> {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    authorities: Arc<Authorities>,
    options: &'a TlsOptions,
    now: fn() -> i64,
}

impl ConfigParts<'_> {
    fn server(&self, pairs: Arc<OwnPairs>) -> Result<Arc<ServerConfig>, BuildError> {
        let mut config = self.server_that_asks(self.options.client_auth, pairs)?;
        if self.options.session_caching {
            let (size, timeout_s) = (self.options.session_cache_size, self.options.session_timeout_s);
            config.session_storage = Arc::new(Cache::new(size, timeout_s, self.now));
            config.ticketer = Arc::new(Tickets::new(self.provider.secure_random, timeout_s, self.now));
        } else {
            resume_nothing(&mut config);
        }
        Ok(Arc::new(config))
    }

    fn nodes(&self, pairs: Arc<OwnPairs>) -> Result<Arc<ServerConfig>, BuildError> {
        let mut config = self.server_that_asks(ClientAuth::Required, pairs)?;
        // A ticket that a client was given without a certificate must not let it connect as a node.
        resume_nothing(&mut config);
        Ok(Arc::new(config))
    }

    fn server_that_asks(
        &self,
        client_auth: ClientAuth,
        pairs: Arc<OwnPairs>,
    ) -> Result<ServerConfig, BuildError> {
        let authorities = Arc::clone(&self.authorities);
        let verifier = match client_auth {
            ClientAuth::Required => Arc::new(ClientVerifier { authorities, is_required: true }),
            ClientAuth::Optional => Arc::new(ClientVerifier { authorities, is_required: false }),
            ClientAuth::Off => WebPkiClientVerifier::no_client_auth(),
        };
        let builder =
            ServerConfig::builder_with_details(Arc::clone(&self.provider), Arc::new(RustlsClock(self.now)))
                .with_protocol_versions(&self.versions)
                .map_err(unusable)?;
        let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(pairs);
        config.enable_secret_extraction = true;
        config.ignore_client_order = self.options.prefer_server_ciphers;
        Ok(config)
    }

    fn client(&self, pairs: Arc<OwnPairs>) -> Result<Arc<ClientConfig>, BuildError> {
        let authorities = Arc::clone(&self.authorities);
        let builder =
            ClientConfig::builder_with_details(Arc::clone(&self.provider), Arc::new(RustlsClock(self.now)))
                .with_protocol_versions(&self.versions)
                .map_err(unusable)?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ServerVerifier { authorities }))
            .with_client_cert_resolver(pairs);
        // No session is resumed, because this client does not distinguish servers by name, so that a ticket
        // of one server could be shown to another.
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        config.enable_secret_extraction = true;
        Ok(Arc::new(config))
    }
}

fn resume_nothing(config: &mut ServerConfig) {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
}

/// The error for options that rustls refuses in combination.
fn unusable(error: rustls::Error) -> BuildError {
    BuildError::new(format!(
        "tls-protocols, tls-ciphers and tls-ciphersuites cannot be used together: {error}"
    ))
}

/// The server's clock, in the form that rustls wants.
struct RustlsClock(fn() -> i64);

impl TimeProvider for RustlsClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from((self.0)()).ok()?;
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)))
    }
}

impl fmt::Debug for RustlsClock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Clock")
    }
}
