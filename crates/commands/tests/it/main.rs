//! Tables of calls and replies of the data commands, one module for each group, in one program, so that the
//! crate is linked once. Tests of propagation, waiting, transactions and the like, which concern more than
//! one command's data, are in the engine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod bitmap;
mod common;
mod digest;
mod dump;
mod expire;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod list;
mod server;
mod set;
mod slow_reads;
mod stream;
mod string;
mod zset;
