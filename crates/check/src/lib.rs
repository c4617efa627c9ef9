//! The file checkers: what `sluice-check-rdb` and `sluice-check-aof` do, but for the process around it.
//!
//! Options, exit statuses and the lines that scripts look for are those of `valkey-check-rdb` and
//! `valkey-check-aof`.
//!
//! Invariants: (1) a file is read in pieces: memory is that of one value or one command; (2) nothing is
//! changed without `--fix` or `--truncate-to-timestamp`, and then only the end of the last file of a log is
//! cut off, behind a whole command outside of a transaction, and is durable in another file before; (3) no
//! file makes a checker panic.
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
