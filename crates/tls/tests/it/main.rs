//! Sessions of both sides against each other and against plain rustls.

mod build;
mod certs;
mod clients;
mod handshake;
mod hostile;
mod pair;
mod plain;
mod records;
mod resume;
