//! Tests of the whole server, one module for each part, in one program, so that shared code is built once.
//!
//! `cargo xtask test` runs all of them with the default configuration, and many modules once more with
//! another configuration, which is called an arm (`xtask/src/test/arms.rs`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "the server under test lives in real time")]

mod aof;
mod aof_loading;
mod backups;
mod cluster;
mod common;
mod config;
mod dual_channel;
mod examples;
mod failover;
mod foreign_files;
mod iothreads;
mod limits;
mod live_migration;
mod loading;
mod memory;
mod metrics;
mod migrate;
mod moving;
mod open_units;
mod operation;
mod operators_traces;
mod protocol;
mod pubsub;
mod replica;
mod replication;
mod replication_matrix;
mod saving;
mod scripts;
mod sentinel;
mod slow_reads;
mod threads;
mod tls;
mod tools;
mod tracking;
mod users;
mod version;
