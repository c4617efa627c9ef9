//! CLUSTER commands that show the node and its cluster.

use crate::cluster::endpoint::AskingClient;
use crate::exec::ctx::ClusterCtx;
use sluice_cluster::{ClusterInfo, ClusterState};
use sluice_command::derive;
use sluice_command::specs::cluster as specs;
use sluice_commands::{Args, CmdError, Outcome, Run, reply_lines};
use std::fmt::Write as _;

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
    let mut text = String::new();
    for (name, value) in info_fields(&ctx.mode.machine.info()) {
        // A string takes all that is written.
        let _ = write!(text, "{name}:{value}\r\n");
    }
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

/// Types of messages in the order and with the names of CLUSTER INFO, by their number on the wire.
const COUNTED: [&str; 11] = [
    "ping",
    "pong",
    "meet",
    "fail",
    "publish",
    "auth-req",
    "auth-ack",
    "update",
    "mfstart",
    "module",
    "publishshard",
];

/// The fields of CLUSTER INFO, in order (V-2).
pub(crate) fn info_fields(info: &ClusterInfo) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut add =
        |name: &str, value: &dyn std::fmt::Display| fields.push((name.to_owned(), value.to_string()));
    let state = match info.state {
        ClusterState::Ok => "ok",
        ClusterState::Fail => "fail",
    };
    add("cluster_state", &state);
    add("cluster_slots_assigned", &(info.slots.ok + info.slots.pfail + info.slots.fail));
    add("cluster_slots_ok", &info.slots.ok);
    add("cluster_slots_pfail", &info.slots.pfail);
    add("cluster_slots_fail", &info.slots.fail);
    add("cluster_nodes_pfail", &info.nodes_pfail);
    add("cluster_nodes_fail", &info.nodes_fail);
    add("cluster_voting_nodes_pfail", &info.voting_nodes_pfail);
    add("cluster_voting_nodes_fail", &info.voting_nodes_fail);
    add("cluster_known_nodes", &info.known_nodes);
    add("cluster_size", &info.size);
    add("cluster_current_epoch", &info.current_epoch);
    add("cluster_my_epoch", &info.my_epoch);
    let statistics = &info.statistics;
    for (counts, end) in [(&statistics.sent, "sent"), (&statistics.received, "received")] {
        for (name, count) in COUNTED.iter().zip(counts).filter(|(_, count)| **count > 0) {
            add(&format!("cluster_stats_messages_{name}_{end}"), count);
        }
        add(&format!("cluster_stats_messages_{end}"), &counts.iter().sum::<u64>());
    }
    add("cluster_stats_bytes_sent", &statistics.bytes_sent);
    add("cluster_stats_bytes_received", &statistics.bytes_received);
    add("cluster_stats_pubsub_bytes_sent", &statistics.pubsub_bytes_sent);
    add("cluster_stats_pubsub_bytes_received", &statistics.pubsub_bytes_received);
    // Nobody here sends a module's message.
    add("cluster_stats_module_bytes_sent", &0);
    add("cluster_stats_module_bytes_received", &statistics.module_bytes_received);
    add("total_cluster_links_buffer_limit_exceeded", &statistics.buffer_limit_exceeded);
    fields
}

pub(super) fn nodes(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    let text = ctx.mode.machine.nodes_text();
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

/// CLUSTER REPLICAS and its older name (K-20).
pub(super) fn replicas(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let lines = ctx.mode.machine.replica_lines(args.at(2)).map_err(CmdError::owned)?;
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
    /// The client that asks, as far as addresses depend on it.
    pub(super) fn asking(&self) -> AskingClient {
        AskingClient::of(&self.session.caller)
    }
}
