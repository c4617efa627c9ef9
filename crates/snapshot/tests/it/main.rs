//! Tests of files in memory: writing a keyspace, and loading a file. The engine's tests cover saves,
//! loads of a server, and replicas.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod files;
mod foreign;
