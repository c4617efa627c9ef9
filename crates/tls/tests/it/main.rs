//! Sessions of both sides against each other and against plain rustls.

mod certs;
mod handshake;
mod pair;
