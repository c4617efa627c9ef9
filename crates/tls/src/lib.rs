//! TLS as a transducer: bytes of a socket in, bytes of the protocol and bytes for the socket out.
//!
//! [`Context::build`] reads certificates, keys and the operator's words, refuses what cannot work with a text
//! for the operator, and makes [`Session`]s: one for each connection, of either side. rustls makes
//! handshakes, webpki checks chains, `ring` computes; ours are the records behind a handshake, how buffers
//! are owned, what OpenSSL's words mean, and the errors.
//!
//! Invariants: (1) this crate knows no socket, file, thread or clock: the time comes from a function that the
//! caller gives; (2) what a peer's bytes may make a session keep is at most [`PENDING_MAX`] bytes, and a
//! session at rest keeps none; (3) a peer is verified by chain, dates and usage, never by name; (4) no bytes
//! of a peer panic: they end the session with an error.
//!
//! Threads: a [`Context`] is shared by all; its sessions' tickets and their cache are behind locks that are
//! held for a look-up. A [`Session`] belongs to one thread at a time and may move between any two calls.

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
