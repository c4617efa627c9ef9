//! The file checkers `sluice-check-rdb` and `sluice-check-aof`, as functions that a program or a
//! test can call.
//!
//! Options, exit statuses and the lines that scripts look for are those of `valkey-check-rdb` and
//! `valkey-check-aof`.
//!
//! Invariants: (1) a file is read in pieces, so a checker needs memory only for one value or one command; (2)
//! without `--fix` or `--truncate-to-timestamp` no checked file is changed; with them only the end of the
//! last file of a log is cut off, after a whole command outside of a transaction, and only when the bytes to
//! be removed are durable in another file; (3) no file makes a checker panic.
#![forbid(unsafe_code)]

mod aof;
mod cli;
mod console;
mod rdb;
mod stats;

pub use aof::check_aof;
pub use cli::run;
pub use console::{Console, Meter};
pub use rdb::check_rdb;
