//! The data commands: their arguments, their changes to the keys of a database, and their replies.
//!
//! ```text
//!  request ──prepare──► command, hashes of its keys ──Args──► handler(ReadCtx or WriteCtx) ──► reply, effects, Outcome
//! ```
//!
//! Invariants: (1) this crate knows no session, no other client, no mutable configuration, no replication and
//! no process; a handler has a database, settings ([`Limits`]), random numbers, and an output for its reply;
//! (2) waiting and long work are returned as an [`Outcome`], which the engine carries out; (3) the access of
//! a route is that of its [`DataHandler`], and a command whose flags contradict it does not compile.
#![forbid(unsafe_code)]

mod args;
mod bitmap;
mod ctx;
mod debug;
mod digest;
mod element;
mod entries;
mod error;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod item_commands;
mod limits;
mod list;
mod migration;
mod name_filter;
mod outcome;
mod payload;
mod prepare;
mod production;
mod renames;
mod reply_mode;
mod routes;
mod server;
mod set;
mod slow_reads;
mod stream;
mod string;
mod wait;
mod zset;

pub use args::Args;
pub use ctx::{DataHandler, DataRoute, KeyRights, ReadCtx, StaticCtx, WriteCtx, check_route};
pub use debug::{address_of, serialized_len};
pub use digest::{digest, digest_of};
pub use entries::CommandEntries;
pub use error::{CmdError, shown, until_zero};
pub use generic::{KeyWalk, slot_of_cursor};
pub use limits::{EvictionLimits, HotKeyLimits, Limits, Notify, OutputLimit};
pub use migration::{Migration, MigrationOutcome};
pub use outcome::{Outcome, Run};
pub use prepare::{Hashing, KEYS_AHEAD, Prepared, PreparedBatch, Preparer};
pub use production::{PIECE_BYTES, Progress, SlowRead};
pub use renames::{Renames, rename_errors, renames, resolve_renamed};
pub use reply_mode::ReplyMode;
pub use routes::routes;
pub use server::{reply_help, reply_lines};
pub use slow_reads::{SlowReadAsk, SlowReads};
pub use wait::{BlockOn, LocalWait, WaitFor};
