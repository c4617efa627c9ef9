//! Command families: one module per group. A handler is two halves: arguments in and reply out, and what it does to
//! the data.

pub(crate) mod bitmap;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod failover;
pub(crate) mod generic;
pub(crate) mod geo;
pub(crate) mod hash;
pub(crate) mod hyperloglog;
pub(crate) mod list;
pub(crate) mod monitor;
pub(crate) mod pubsub;
pub(crate) mod replica;
pub(crate) mod replication;
pub(crate) mod server;
pub(crate) mod set;
pub(crate) mod stream;
pub(crate) mod string;
pub(crate) mod transactions;
pub(crate) mod zset;

use crate::args::Args;
use crate::error::CmdError;
use crate::exec::ctx::ServerCtx;
use crate::exec::outcome::Run;

/// Runs for a container called without a subcommand, which the check of arity rejects before.
pub(crate) fn not_routed(_: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    Err(CmdError::Syntax)
}
