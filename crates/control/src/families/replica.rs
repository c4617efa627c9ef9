//! REPLICAOF and SLAVEOF: changes the primary that this server follows.

use crate::ctx::{Handler, Route, ServerCtx, route};
use crate::replication::role::RoleWanted;
use sluice_base::LogLevel;
use sluice_base::num::parse_i64;
use sluice_command::specs::server as specs;
use sluice_commands::{Args, CmdError, Outcome, Run, until_zero};
use sluice_replication::Primary;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::REPLICAOF, Handler::Server(replicaof)),
    route(&specs::SLAVEOF, Handler::Server(replicaof)),
];

fn replicaof(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    if ctx.control.limits.is_cluster {
        return Err(CmdError::text("ERR REPLICAOF not allowed in cluster mode."));
    }
    if ctx.control.replication.failover.is_some() {
        return Err(CmdError::text("ERR REPLICAOF not allowed while failing over."));
    }
    let by = asked_by(ctx, "user");
    if args.is(1, "NO") && args.is(2, "ONE") {
        if ctx.control.replication.replica.is_some() || ctx.control.replication.role_wanted.is_some() {
            ctx.control.replication.role_wanted = Some(RoleWanted { primary: None, by, keeps_data: true });
        }
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    // As in the reference, a client that is a replica of this server may not change this server's primary.
    if ctx.session.caller.replica.is_some() {
        return Err(CmdError::text("ERR Command is not valid when client is a replica."));
    }
    let port = parse_i64(args.at(2)).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(const { CmdError::text("ERR Invalid master port") })?;
    let host = String::from_utf8_lossy(until_zero(args.at(1))).into_owned();
    let primary = Primary { host, port };
    let is_followed = ctx.control.replication.replica.as_ref().is_some_and(|role| {
        let followed = role.primary();
        followed.port == primary.port && followed.host.eq_ignore_ascii_case(&primary.host)
    });
    if is_followed && ctx.control.replication.role_wanted.is_none() {
        ctx.process.log(LogLevel::Notice, ALREADY);
        ctx.reply.simple(b"OK Already connected to specified master");
        return Ok(Outcome::Done);
    }
    ctx.control.replication.role_wanted = Some(RoleWanted { primary: Some(primary), by, keeps_data: true });
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// A description of the caller for the log: `user request from '...'`.
pub(crate) fn asked_by(ctx: &ServerCtx<'_>, what: &str) -> String {
    let hides = ctx.control.config.bool(sluice_config::param::HIDE_USER_DATA_FROM_LOG);
    format!("{what} request from '{}'", ctx.session.short_line(hides))
}

const ALREADY: &str = "REPLICAOF would result into synchronization with the primary we are already connected with. No \
                       operation performed.";
