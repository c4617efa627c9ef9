//! Errors of this crate, with texts for a log.

use std::fmt;

/// A mistake of the operator in certificates, keys or options; the text names the file or parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    text: String,
}

impl BuildError {
    /// An error with this text, a whole sentence without its full stop.
    pub(crate) fn new(text: impl Into<String>) -> BuildError {
        BuildError { text: text.into() }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for BuildError {}

/// The reason why a session ended, or refuses a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The context has no CA certificate, so neither servers nor nodes of the cluster can be verified.
    NoAuthority,
    /// Data cannot be sent before the handshake is over.
    NotEstablished,
    /// The session has ended by an earlier error, or close_notify was sent and data cannot follow.
    Ended,
    /// The peer sent an alert that ends the session; the text is the alert's name in the protocol.
    Alert(String),
    /// A TLS 1.2 key has encrypted or decrypted as much as its suite allows.
    KeyUsedUp,
    /// The peer's certificate was refused, or a required certificate is missing; with the reason.
    Certificate(String),
    /// Any other refusal, with the reason: bytes that are not TLS, no common version or suite, a wrong
    /// record.
    Protocol(String),
}

impl SessionError {
    /// Translates an error of rustls.
    pub(crate) fn of(error: rustls::Error) -> SessionError {
        match error {
            rustls::Error::AlertReceived(alert) => SessionError::Alert(format!("{alert:?}")),
            rustls::Error::NoCertificatesPresented => {
                SessionError::Certificate("peer did not return a certificate".to_owned())
            }
            rustls::Error::InvalidCertificate(reason) => SessionError::Certificate(reason.to_string()),
            other => SessionError::Protocol(other.to_string()),
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::NoAuthority => out.write_str(
                "no CA certificate is configured (tls-ca-cert-file, tls-ca-cert-dir) to verify servers with",
            ),
            SessionError::NotEstablished => out.write_str("the handshake is not over"),
            SessionError::Ended => out.write_str("the session has ended"),
            SessionError::KeyUsedUp => out.write_str(
                "the key of TLS 1.2 is used up: the peer must connect again, or use TLS 1.3, which renews keys",
            ),
            SessionError::Alert(name) => write!(out, "peer sent alert {name}"),
            SessionError::Certificate(reason) => write!(out, "peer's certificate is refused: {reason}"),
            SessionError::Protocol(reason) => out.write_str(reason),
        }
    }
}

impl std::error::Error for SessionError {}
