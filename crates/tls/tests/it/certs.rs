//! Certificates of the tests, made once for the process.

use std::sync::LazyLock;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ED25519,
};
use sluice_tls::Named;

/// The time of the tests' clock in unix seconds, a moment in 2026.
pub const NOW_S: i64 = 1_780_000_000;

/// The clock of contexts.
pub fn now() -> i64 {
    NOW_S
}

/// A CA that signs the tests' certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
#[derive(Clone)]
pub struct Pair {
    pub cert: Named,
    pub key: Named,
}

/// The CA that both sides trust.
pub static CA: LazyLock<Authority> = LazyLock::new(|| Authority::new("test CA"));

/// A server's certificate with a P-256 key.
pub static SERVER: LazyLock<Pair> = LazyLock::new(|| CA.issue("server.crt", "server"));

/// A client's certificate with the common name `alice`.
pub static CLIENT: LazyLock<Pair> = LazyLock::new(|| CA.issue("client.crt", "alice"));

/// A file with this name and text.
pub fn named(name: &str, text: &str) -> Named {
    Named { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
}

/// Parameters of a certificate with that common name, valid from 2020 to 2040.
pub fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2040, 1, 1);
    params
}

impl Authority {
    /// A new self-signed CA with that common name.
    pub fn new(common_name: &str) -> Authority {
        let mut params = params(common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("a CA") }
    }

    /// The CA's certificate as a file.
    pub fn file(&self) -> Named {
        named("ca.crt", &self.issuer.pem())
    }

    /// A certificate for that common name with a new P-256 key.
    pub fn issue(&self, file: &str, common_name: &str) -> Pair {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        self.issue_for(file, &params(common_name), &key)
    }

    /// A certificate of `params` for `key`.
    pub fn issue_for(&self, file: &str, params: &CertificateParams, key: &KeyPair) -> Pair {
        let issuer: &Issuer<'_, KeyPair> = &self.issuer;
        let certificate = params.signed_by(key, issuer).expect("a certificate");
        Pair { cert: named(file, &certificate.pem()), key: named("server.key", &key.serialize_pem()) }
    }
}

/// An RSA key of 2048 bits, which rcgen cannot make with `ring`; used in tests only.
pub const RSA_KEY: &str = include_str!("rsa.key");

/// A server's certificate with a key of each kind: RSA, P-256, Ed25519.
pub static KINDS: LazyLock<[Pair; 3]> = LazyLock::new(|| {
    let rsa = KeyPair::from_pem(RSA_KEY).expect("a key");
    let p256 = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let ed25519 = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    [rsa, p256, ed25519].map(|key| CA.issue_for("server.crt", &params("server"), &key))
});

/// A chain of `depth` CA certificates, each signed by the one before, with a client's certificate at its
/// end; and the root.
pub fn deep(depth: usize) -> (Pair, Named) {
    let root = Authority::new("root");
    let mut issuers: Vec<CertifiedIssuer<'static, KeyPair>> = Vec::new();
    for index in 0..depth {
        let mut params = params(&format!("link {index}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let above = issuers.last().unwrap_or(&root.issuer);
        issuers.push(CertifiedIssuer::signed_by(params, key, above).expect("a CA"));
    }
    let key = KeyPair::generate().expect("a key");
    let last: &Issuer<'_, KeyPair> = issuers.last().unwrap_or(&root.issuer);
    let leaf = params("alice").signed_by(&key, last).expect("a certificate");
    let links = issuers.iter().rev().map(|issuer| issuer.pem());
    let text: String = std::iter::once(leaf.pem()).chain(links).collect();
    (Pair { cert: named("deep.crt", &text), key: named("deep.key", &key.serialize_pem()) }, root.file())
}
