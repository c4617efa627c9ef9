//! The one module that names the library with the primitives.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub(crate) use ring::aead;

/// Primitives, with all suites and groups that the library has.
pub(crate) fn all() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// What signs for a private key, or `None` for a kind of key that the library does not have.
pub(crate) fn signing_key(
    key: rustls_pki_types::PrivateKeyDer<'static>,
) -> Option<Arc<dyn rustls::sign::SigningKey>> {
    rustls::crypto::ring::sign::any_supported_type(&key).ok()
}
