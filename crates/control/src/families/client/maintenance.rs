//! CLIENT MAINT_NOTIFICATIONS: clients that request notifications of failovers and slot migrations. The
//! contents and the times of the notifications are in `replication/maintenance.rs` of the engine;
//! docs/maint-notifications.md describes what clients do with them.

use super::common::on_or_off;
use crate::ctx::ServerCtx;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_resp::Protocol;
use sluice_session::MaintenanceNotices;

pub(super) fn maint_notifications(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let wanted = parse(args)?;
    if wanted != MaintenanceNotices::Off && ctx.session.caller.proto == Protocol::Resp2 {
        return Err(CmdError::text("ERR Maintenance notifications require RESP3, which HELLO 3 selects"));
    }
    ctx.session.caller.flags.maintenance = wanted;
    ctx.control.replication.maintenance.has_newcomer = wanted != MaintenanceNotices::Off;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn parse(args: Args<'_>) -> Result<MaintenanceNotices, CmdError> {
    let is_on = on_or_off(args, 2)?;
    match args.len() {
        3 if is_on => Ok(MaintenanceNotices::ToSame),
        3 => Ok(MaintenanceNotices::Off),
        5 if is_on && args.is(3, "MOVING-ENDPOINT-TYPE") => endpoint_type(args, 4),
        _ => Err(CmdError::Syntax),
    }
}

fn endpoint_type(args: Args<'_>, index: usize) -> Result<MaintenanceNotices, CmdError> {
    match () {
        () if args.is(index, "INTERNAL-IP") || args.is(index, "EXTERNAL-IP") => Ok(MaintenanceNotices::ToIp),
        () if args.is(index, "INTERNAL-FQDN") || args.is(index, "EXTERNAL-FQDN") => {
            Ok(MaintenanceNotices::ToName)
        }
        () if args.is(index, "NONE") => Ok(MaintenanceNotices::ToSame),
        () => Err(CmdError::text(
            "ERR moving-endpoint-type must be internal-ip, internal-fqdn, external-ip, external-fqdn or none",
        )),
    }
}
