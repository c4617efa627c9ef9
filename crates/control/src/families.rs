//! The command families about the server, one module each. Those about data are in the crate `commands`.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod failover;
pub(crate) mod functions;
pub(crate) mod monitor;
pub(crate) mod pubsub;
pub(crate) mod replica;
pub(crate) mod replication;
pub(crate) mod scripts;
pub(crate) mod server;
pub(crate) mod transactions;
pub mod users;

use crate::ctx::ServerCtx;
use sluice_commands::{Args, CmdError, Run};

/// The handler of a container without a subcommand; it never runs, because the arity check rejects such a
/// request.
pub(crate) fn not_routed(_: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    Err(CmdError::Syntax)
}
