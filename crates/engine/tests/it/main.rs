//! The engine's integration tests, one module for each group of commands or part: one program, so that the engine is linked
//! once. `tests/alloc.rs` stays a program of its own, since its allocator counts for a whole process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod aof;
mod bitmap;
mod blocking;
mod client;
mod cluster;
mod commandlog;
mod compaction;
mod config;
mod connection;
mod debug;
mod dump;
mod events;
mod eviction;
mod expire;
mod failover;
mod generic;
mod geo;
mod hash;
mod hostile;
mod hyperloglog;
mod info;
mod latency;
mod list;
mod load_aof;
mod loading;
mod memory;
mod migrate;
mod monitor;
mod multicast;
mod notifications;
mod open_units;
mod propagation;
mod psync;
mod pubsub;
mod replica;
mod saving;
mod server;
mod set;
mod slow_reads;
mod stream;
mod stream_blocking;
mod string;
mod transactions;
mod zset;
