//! TLS without I/O: bytes of a socket in, bytes of the protocol and bytes for the socket out.
//!
//! [`Context::build`] parses certificates, keys and the operator's options, refuses unusable ones with a text
//! for the operator, and makes [`Session`]s: one for each connection, of either side. rustls makes
//! handshakes, webpki checks certificate chains, and `ring` computes. This crate implements the records after
//! a handshake, the ownership of buffers, the meaning of OpenSSL's cipher strings, and the errors.
//!
//! Invariants: (1) this crate uses no socket, file, thread or clock; the caller passes a function that gives
//! the time; (2) a peer can make a session keep at most [`PENDING_MAX`] bytes and one incomplete record, and
//! a session at rest keeps only the peer's certificate; (3) a peer is verified by chain, dates and usage,
//! never by name; (4) no bytes of a peer cause a panic; at worst they end the session with an error.
//!
//! Threads: all threads share a [`Context`]; locks, which are held only for a look-up, protect its tickets'
//! keys and its session cache. A [`Session`] belongs to one thread at a time and may move between any two
//! calls.

mod cache;
mod certificate;
mod context;
mod error;
mod key;
mod pem;
mod provider;
mod record;
mod session;
mod tickets;
mod verify;
mod words;

pub use certificate::{CertFacts, CertificateSummary, NameField, fuzz_certificate};
pub use context::{ClientAuth, Context, Sources, TlsOptions as Options, is_certificates};
pub use error::{BuildError, SessionError};
pub use pem::SourceFile as Named;
pub use session::{Buffers, PENDING_MAX, Received, Session};
