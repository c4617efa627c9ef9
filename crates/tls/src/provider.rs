//! The cryptographic primitives. Only this module and `record.rs` name the library that has them.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub(crate) use ring::aead;

/// The library's primitives, with all its suites and groups.
pub(crate) fn all() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// The signer of a private key, or `None` for a kind of key that the library does not support.
pub(crate) fn signing_key(
    key: rustls_pki_types::PrivateKeyDer<'static>,
) -> Option<Arc<dyn rustls::sign::SigningKey>> {
    rustls::crypto::ring::sign::any_supported_type(&key).ok()
}
