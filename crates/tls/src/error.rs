//! What goes wrong, as texts for a log.

use std::fmt;

/// Why certificates, keys or words cannot be used: an operator's mistake, told with the file or parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    text: String,
}

impl BuildError {
    /// With a whole sentence without its full stop.
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

/// Why a session ended, or cannot do what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The context has no CA certificate, so that no server can be verified.
    NoAuthority,
    /// Data were to be sent before the handshake was over.
    NotEstablished,
    /// The session has ended: by an earlier error, or data were to be sent behind close_notify.
    Ended,
    /// The peer sent an alert that ends the session: its name in the protocol.
    Alert(String),
    /// A key of TLS 1.2 has encrypted or decrypted as many records as its suite bears.
    KeyUsedUp,
    /// The peer's certificate was refused, or it gave none where one is required; with the reason.
    Certificate(String),
    /// Whatever else rustls refuses: bytes that are not TLS, nothing in common, a wrong record.
    Protocol(String),
}

impl SessionError {
    /// Of an error of rustls.
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
                "the key of TLS 1.2 is used up: the peer connects again, or sets TLS 1.3, whose keys change",
            ),
            SessionError::Alert(name) => write!(out, "peer sent alert {name}"),
            SessionError::Certificate(reason) => write!(out, "peer's certificate is refused: {reason}"),
            SessionError::Protocol(reason) => out.write_str(reason),
        }
    }
}

impl std::error::Error for SessionError {}
