//! FAILOVER: parsing and checks; the failover itself is in `failover.rs` of the engine.

use crate::ctx::{Handler, Route, ServerCtx, route};
use crate::replication::failover::{Failover, FailoverTarget};
use sluice_base::LogLevel;
use sluice_command::specs::server as specs;
use sluice_commands::{Args, CmdError, Outcome, Run, until_zero};

pub(crate) const ROUTES: &[Route] = &[route(&specs::FAILOVER, Handler::Server(failover))];

/// The parsed options of FAILOVER.
#[derive(Default)]
struct FailoverArgs {
    timeout_ms: Option<u64>,
    target: Option<FailoverTarget>,
    force: bool,
}

fn failover(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    if ctx.control.limits.is_cluster {
        return Err(CmdError::text(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    if args.len() == 2 && args.is(1, "ABORT") {
        match ctx.control.replication.failover.as_mut() {
            Some(failover) => failover.is_aborted = true,
            None => return Err(CmdError::text("ERR No failover in progress.")),
        }
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    let wanted = parse(args)?;
    check(ctx, &wanted)?;
    let FailoverArgs { timeout_ms, target, force } = wanted;
    let text = match &target {
        Some(FailoverTarget { host, port }) => format!("FAILOVER requested to {host}:{port}."),
        None => "FAILOVER requested to any replica.".to_owned(),
    };
    ctx.process.log(LogLevel::Notice, &text);
    ctx.process.log(LogLevel::Notice, WRITES_WAIT);
    let now_ms = ctx.now.mono_ns / 1_000_000;
    let deadline_ms = timeout_ms.map(|timeout_ms| now_ms.saturating_add(timeout_ms));
    let failover = Failover {
        target,
        force,
        deadline_ms,
        asked_by: ctx.session.key,
        told_as: None,
        is_in_progress: false,
        is_aborted: false,
    };
    *ctx.control.replication.failover = Some(Box::new(failover));
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// The log line that tells operators why clients wait with their writes.
const WRITES_WAIT: &str = "Writes wait until the failover has ended; FAILOVER ABORT ends it.";

fn parse(args: Args<'_>) -> Result<FailoverArgs, CmdError> {
    let mut wanted = FailoverArgs::default();
    let mut i = 1;
    while i < args.len() {
        if args.is(i, "TIMEOUT") && i + 1 < args.len() && wanted.timeout_ms.is_none() {
            let ms = args.int(i + 1)?;
            let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0);
            let error = const { CmdError::text("ERR FAILOVER timeout must be greater than 0") };
            wanted.timeout_ms = Some(ms.ok_or(error)?);
            i += 2;
        } else if args.is(i, "TO") && i + 2 < args.len() && wanted.target.is_none() {
            let port = args.int(i + 2)?;
            let host = String::from_utf8_lossy(until_zero(args.at(i + 1))).into_owned();
            wanted.target = Some(FailoverTarget { host, port });
            i += 3;
        } else if args.is(i, "FORCE") && !wanted.force {
            wanted.force = true;
            i += 1;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    Ok(wanted)
}

fn check(ctx: &ServerCtx<'_>, wanted: &FailoverArgs) -> Result<(), CmdError> {
    let refuse_if = |is_bad: bool, text| if is_bad { Err(CmdError::text(text)) } else { Ok(()) };
    let control = &*ctx.control;
    refuse_if(control.replication.failover.is_some(), "ERR FAILOVER already in progress.")?;
    refuse_if(control.replication.replica.is_some(), "ERR FAILOVER is not valid when server is a replica.")?;
    let mut replicas = control.replicas().into_iter().filter_map(|key| ctx.sessions.get(key));
    let is_alone = !replicas.any(|session| session.caller.replica_state().is_some());
    refuse_if(is_alone, "ERR FAILOVER requires connected replicas.")?;
    let lacks = wanted.force && (wanted.timeout_ms.is_none() || wanted.target.is_none());
    refuse_if(lacks, "ERR FAILOVER with force option requires both a timeout and target HOST and IP.")?;
    let Some(target) = &wanted.target else { return Ok(()) };
    let replica = control.replica_at(target, ctx.sessions);
    refuse_if(replica.is_none(), "ERR FAILOVER target HOST and PORT is not a replica.")?;
    let is_online = replica.is_some_and(|replica| replica.is_online());
    refuse_if(!is_online, "ERR FAILOVER target replica is not online.")
}
