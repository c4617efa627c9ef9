//! Subcommands of DEBUG that change the behaviour of the cluster node, for tests.

use super::common::{ok, switch, unknown};
use crate::ctx::DebugCtx;
use sluice_cluster::{
    BusDebug, ClusterAnswer, ClusterCommand, LinkDirection, NodeId, OnPacketDrop, PacketFilter, Switch,
};
use sluice_commands::{Args, CmdError, Run};

const NO_CLUSTER: CmdError =
    CmdError::text("ERR Debug option only available for cluster mode enabled setup!");

fn change(ctx: &mut DebugCtx<'_>, change: impl FnOnce(&mut BusDebug)) -> Run {
    let mode = ctx.control.cluster.as_mut().ok_or(NO_CLUSTER)?;
    change(&mut mode.debug);
    mode.apply_settings(&ctx.control.config, ctx.now);
    ok(ctx)
}

/// DROP-CLUSTER-PACKET-FILTER: -2 drops every message, a number from 0 to 65,535 drops the messages of that
/// type, any other number, for example -1, drops none.
pub(super) fn drop_packets(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let filter = match args.int(2)? {
        -2 => PacketFilter::All,
        number => u16::try_from(number).map_or(PacketFilter::None, PacketFilter::Type),
    };
    change(ctx, |debug| debug.packet_filter = filter)
}

/// CLOSE-CLUSTER-LINK-ON-PACKET-DROP: whether a link is closed when the filter drops its message.
pub(super) fn close_on_drop(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let on_drop = if switch(args, 2) { OnPacketDrop::Close } else { OnPacketDrop::Keep };
    change(ctx, |debug| debug.on_packet_drop = on_drop)
}

/// DISABLE-CLUSTER-RANDOM-PING: 1 stops the pings to random nodes; pings that are due continue.
pub(super) fn disable_random_ping(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let ping = disabled(args);
    change(ctx, |debug| debug.random_ping = ping)
}

/// DISABLE-CLUSTER-RECONNECTION: with 1, lost links are not reconnected.
pub(super) fn disable_reconnection(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let reconnection = disabled(args);
    change(ctx, |debug| debug.reconnection = reconnection)
}

fn disabled(args: Args<'_>) -> Switch {
    if switch(args, 2) { Switch::Disabled } else { Switch::Runs }
}

/// SLOTMIGRATION PREVENT-FAILOVER: whether an import waits before its takeover; PREVENT-PAUSE: whether an
/// export waits before it pauses writing clients.
pub(super) fn hold_moves(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let held = if switch(args, 3) { Switch::Disabled } else { Switch::Runs };
    if args.is(2, "PREVENT-FAILOVER") {
        change(ctx, |debug| debug.takeover_of_imports = held)
    } else if args.is(2, "PREVENT-PAUSE") {
        change(ctx, |debug| debug.pauses_of_exports = held)
    } else {
        Err(unknown(args))
    }
}

/// CLUSTERLINK KILL: closes the links with a node.
pub(super) fn kill_links(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    if !args.is(2, "KILL") {
        return Err(unknown(args));
    }
    let directions = [("TO", LinkDirection::To), ("FROM", LinkDirection::From), ("ALL", LinkDirection::All)];
    let named = directions.into_iter().find(|(word, _)| args.is(3, word));
    let mode = ctx.control.cluster.as_mut().ok_or(NO_CLUSTER)?;
    // As in the reference, an unknown node is reported rather than an unknown direction.
    let id = NodeId::parse(args.at(4)).filter(|id| mode.machine.offset(id).is_some());
    let (Some(_), Some((_, direction))) = (id, named) else {
        let (text, word): (&[u8], _) = match id {
            None => (b"ERR Unknown node ", args.at(4)),
            Some(_) => (b"ERR Unknown direction ", args.at(3)),
        };
        return Err(CmdError::owned([text, word].concat()));
    };
    let command = ClusterCommand::KillLinks { direction, node: args.at(4) };
    match mode.machine.execute_at_once(ctx.now, "", &command) {
        ClusterAnswer::Error(text) => Err(CmdError::owned(text)),
        ClusterAnswer::Ok | ClusterAnswer::Integer(_) | ClusterAnswer::Status(_) => ok(ctx),
    }
}
