//! CLUSTER, and the commands that control a connection's access to a node: ASKING, READONLY and
//! READWRITE. Without a cluster the last two also answer OK, as in the reference, because tools send READONLY
//! without checking for a cluster. They then have an effect only for clients that a replica redirects to its
//! primary (CLIENT CAPA).

mod change;
mod flush;
mod forms;
mod keys;
mod map_replies;
mod migrations;
mod ranges;
mod read;
mod scan;
mod setslot;
mod slot_stats;
mod syncslots;

use crate::ctx::{Handler, Route, SessionCtx, route};
use sluice_command::specs::cluster as specs;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_session::AskingState;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::ASKING, Handler::Session(asking)),
    route(&specs::CLUSTER_ADDSLOTS, Handler::Cluster(change::addslots)),
    route(&specs::CLUSTER_ADDSLOTSRANGE, Handler::Cluster(change::addslotsrange)),
    route(&specs::CLUSTER_BUMPEPOCH, Handler::Cluster(change::bumpepoch)),
    route(&specs::CLUSTER_COUNT_FAILURE_REPORTS, Handler::Cluster(change::count_failure_reports)),
    route(&specs::CLUSTER_COUNTKEYSINSLOT, Handler::Cluster(keys::count_keys_in_slot)),
    route(&specs::CLUSTER_DELSLOTS, Handler::Cluster(change::delslots)),
    route(&specs::CLUSTER_DELSLOTSRANGE, Handler::Cluster(change::delslotsrange)),
    route(&specs::CLUSTER_FLUSHSLOT, Handler::Dataset(flush::flushslot)),
    route(&specs::CLUSTER_FLUSHSLOTS, Handler::Cluster(change::flushslots)),
    route(&specs::CLUSTER_FORGET, Handler::Cluster(change::forget)),
    route(&specs::CLUSTER_GETKEYSINSLOT, Handler::Cluster(keys::get_keys_in_slot)),
    route(&specs::CLUSTER_HELP, Handler::Cluster(read::help)),
    route(&specs::CLUSTER_INFO, Handler::Cluster(read::info)),
    route(&specs::CLUSTER_KEYSLOT, Handler::Cluster(keys::key_slot)),
    route(&specs::CLUSTER_LINKS, Handler::Cluster(read::links)),
    route(&specs::CLUSTER_MEET, Handler::Cluster(change::meet)),
    route(&specs::CLUSTER_MYID, Handler::Cluster(read::myid)),
    route(&specs::CLUSTER_MYSHARDID, Handler::Cluster(read::myshardid)),
    route(&specs::CLUSTER_NODES, Handler::Cluster(map_replies::nodes)),
    route(&specs::CLUSTER_REPLICAS, Handler::Cluster(read::replicas)),
    route(&specs::CLUSTER_REPLICATE, Handler::Cluster(change::replicate)),
    route(&specs::CLUSTER_RESET, Handler::Cluster(change::reset)),
    route(&specs::CLUSTER_SAVECONFIG, Handler::Cluster(change::saveconfig)),
    route(&specs::CLUSTER_SET_CONFIG_EPOCH, Handler::Cluster(change::set_config_epoch)),
    route(&specs::CLUSTER_SETSLOT, Handler::Cluster(setslot::setslot)),
    route(&specs::CLUSTER_SHARDS, Handler::Cluster(map_replies::shards)),
    route(&specs::CLUSTER_SLAVES, Handler::Cluster(read::replicas)),
    route(&specs::CLUSTER_SLOT_STATS, Handler::Cluster(slot_stats::slot_stats)),
    route(&specs::CLUSTER_SLOTS, Handler::Cluster(map_replies::slots)),
    route(&specs::CLUSTER_CANCELSLOTMIGRATIONS, Handler::Cluster(migrations::cancel)),
    route(&specs::CLUSTER_FAILOVER, Handler::Cluster(change::failover)),
    route(&specs::CLUSTER_GETSLOTMIGRATIONS, Handler::Cluster(migrations::list)),
    route(&specs::CLUSTER_MIGRATESLOTS, Handler::Cluster(migrations::migrate)),
    route(&specs::CLUSTER_SYNCSLOTS, Handler::Imports(syncslots::syncslots)),
    route(&specs::CLUSTERSCAN, Handler::ReadByMap(scan::clusterscan)),
    route(&specs::READONLY, Handler::Session(readonly)),
    route(&specs::READWRITE, Handler::Session(readwrite)),
];

/// ASKING applies to the next command. If the next command is MULTI, ASKING applies to the whole transaction.
/// Within a transaction, ASKING applies to the commands that follow. If a script calls ASKING, it has no
/// effect.
fn asking(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    if !ctx.limits.is_cluster {
        return Err(CmdError::NO_CLUSTER);
    }
    if ctx.is_called {
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    ctx.caller.flags.asking = if ctx.caller.flags.in_exec { AskingState::Now } else { AskingState::Next };
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn readonly(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    ctx.caller.flags.read_only |= !ctx.is_called;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn readwrite(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    ctx.caller.flags.read_only &= ctx.is_called;
    ctx.reply.ok();
    Ok(Outcome::Done)
}
