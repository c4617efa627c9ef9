//! Tests of files in memory: what is written of a keyspace, and what comes of a file. Saves, loads of a
//! server and replicas are in the engine's tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod files;
mod foreign;
