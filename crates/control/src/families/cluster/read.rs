//! CLUSTER commands that show the node and the cluster.

use crate::cluster::endpoint::asking;
use crate::ctx::ClusterCtx;
use crate::observe::info;
use sluice_cluster::AskingClient;
use sluice_command::derive;
use sluice_command::specs::cluster as specs;
use sluice_commands::{Args, CmdError, Outcome, Run, reply_lines};
use sluice_numbers::info::lines::Lines;

pub(super) fn help(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    reply_lines(&mut ctx.reply, &derive::help::lines(&specs::CLUSTER));
    Ok(Outcome::Done)
}

pub(super) fn myid(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.bulk(ctx.mode.id().to_string().as_bytes());
    Ok(Outcome::Done)
}

pub(super) fn myshardid(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.bulk(ctx.mode.machine.shard_id().to_string().as_bytes());
    Ok(Outcome::Done)
}

pub(super) fn info(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    let mut lines = Lines::new();
    info::cluster::write(&ctx.mode.machine.info(), &mut lines);
    ctx.reply.verbatim(b"txt", &lines.into_bytes());
    Ok(Outcome::Done)
}

/// CLUSTER REPLICAS, and SLAVES, its older name (K-20).
pub(super) fn replicas(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let lines = ctx.mode.machine.replica_lines(args.at(2), ctx.asking()).map_err(CmdError::owned)?;
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.bulk(line.as_bytes()));
    Ok(Outcome::Done)
}

/// CLUSTER LINKS (K-38).
pub(super) fn links(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    let mut links: Vec<_> = ctx.mode.machine.links().collect();
    links.sort_by_key(|link| (link.node, !link.is_out));
    ctx.reply.array(links.len());
    for link in links {
        ctx.reply.map(6);
        ctx.reply.bulk(b"direction");
        ctx.reply.bulk(if link.is_out { b"to" } else { b"from" });
        ctx.reply.bulk(b"node");
        ctx.reply.bulk(link.node.to_string().as_bytes());
        ctx.reply.bulk(b"create-time");
        ctx.reply.int(link.created_wall_ms);
        ctx.reply.bulk(b"events");
        ctx.reply.bulk(if link.queue_bytes > 0 { b"rw" } else { b"r" });
        ctx.reply.bulk(b"send-buffer-allocated");
        ctx.reply.int(link.queue_bytes as i64);
        ctx.reply.bulk(b"send-buffer-used");
        ctx.reply.int(link.queue_bytes as i64);
    }
    Ok(Outcome::Done)
}

impl ClusterCtx<'_> {
    /// The properties of the caller on which addresses depend.
    pub(super) fn asking(&self) -> AskingClient {
        asking(&self.session.caller)
    }
}
