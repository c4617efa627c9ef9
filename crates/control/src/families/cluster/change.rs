//! CLUSTER commands that change the node or its knowledge, and COUNT-FAILURE-REPORTS.
//!
//! The node's state machine answers them once the change is durable; only the calling client waits. In MULTI,
//! in scripts and in the stream of a primary nothing can wait, so there the machine answers at once.

use super::forms::unknown_form;
use crate::ctx::ClusterCtx;
use sluice_cluster::{
    ClusterAnswer, ClusterCommand, ClusterInput, FailoverKind, HasKeys, HashSlot, ResetKind, SLOT_COUNT,
};
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor};

/// The error for a slot that is out of range or no number (K-3).
const NO_SLOT: CmdError = CmdError::text("ERR Invalid or out of range slot");

/// Passes a command to the machine, and waits for the answer.
pub(super) fn execute(ctx: &mut ClusterCtx<'_>, command: ClusterCommand<'_>) -> Run {
    let client = ctx.client_line();
    if !ctx.may_wait || ctx.session.caller.is_primary() {
        return answer(ctx, |ctx| ctx.mode.machine.execute_at_once(ctx.now, &client, &command));
    }
    let ticket = ctx.mode.ticket(ctx.session.key);
    let input = ClusterInput::Command { ticket, client: &client, command };
    ctx.mode.machine.step(ctx.now, &input);
    Ok(Outcome::Wait(Box::new(WaitFor::Cluster(ticket.0))))
}

fn answer(ctx: &mut ClusterCtx<'_>, execute: impl FnOnce(&mut ClusterCtx<'_>) -> ClusterAnswer) -> Run {
    match execute(ctx) {
        ClusterAnswer::Ok => ctx.reply.ok(),
        ClusterAnswer::Integer(number) => ctx.reply.int(number),
        ClusterAnswer::Status(text) => ctx.reply.simple(text.as_bytes()),
        ClusterAnswer::Error(text) => return Err(CmdError::owned(text)),
    }
    Ok(Outcome::Done)
}

pub(super) fn slot(args: Args<'_>, at: usize) -> Result<HashSlot, CmdError> {
    let number = args.int(at).ok().and_then(|number| u16::try_from(number).ok());
    number.and_then(HashSlot::new).ok_or(NO_SLOT)
}

/// The slots of ranges, up to the first invalid range.
struct RangedSlots {
    slots: Vec<HashSlot>,
    /// The error of the first invalid range; an error about slots of earlier ranges takes precedence.
    refusal: Option<CmdError>,
}

/// The slots that a command lists singly.
fn slots(args: Args<'_>) -> Result<Vec<HashSlot>, CmdError> {
    (2..args.len()).map(|at| slot(args, at)).collect()
}

/// The slots of the ranges that a command lists. At most 16,385 slots are kept, one more than exist; a list
/// of that length has some slot twice, so the machine refuses it.
fn slots_of_ranges(args: Args<'_>, name: &'static str) -> Result<RangedSlots, CmdError> {
    if args.len() % 2 == 1 {
        return Err(CmdError::Arity(name));
    }
    let mut slots = Vec::new();
    for at in (2..args.len()).step_by(2) {
        let (first, last) = match range(args, at) {
            Ok(range) => range,
            Err(refusal) => return Ok(RangedSlots { slots, refusal: Some(refusal) }),
        };
        let room = (usize::from(SLOT_COUNT) + 1).saturating_sub(slots.len());
        slots.extend((first.number()..=last.number()).filter_map(HashSlot::new).take(room));
    }
    Ok(RangedSlots { slots, refusal: None })
}

/// The first and the last slot of a range.
fn range(args: Args<'_>, at: usize) -> Result<(HashSlot, HashSlot), CmdError> {
    let (first, last) = (slot(args, at)?, slot(args, at + 1)?);
    if first > last {
        let (first, last) = (first.number(), last.number());
        let text = format!("ERR start slot number {first} is greater than end slot number {last}");
        return Err(CmdError::owned(text));
    }
    Ok((first, last))
}

/// Passes slots of ranges to the machine, or returns the first error (K-10).
fn execute_ranges(
    ctx: &mut ClusterCtx<'_>,
    RangedSlots { slots, refusal }: &RangedSlots,
    command: fn(&[HashSlot]) -> ClusterCommand<'_>,
) -> Run {
    let Some(refusal) = refusal else { return execute(ctx, command(slots)) };
    ctx.mode.machine.check(&command(slots)).map_err(CmdError::owned)?;
    Err(refusal.clone())
}

pub(super) fn addslots(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let slots = slots(args)?;
    execute(ctx, ClusterCommand::AddSlots { slots: &slots })
}

pub(super) fn addslotsrange(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let slots = slots_of_ranges(args, "cluster|addslotsrange")?;
    execute_ranges(ctx, &slots, |slots| ClusterCommand::AddSlots { slots })
}

pub(super) fn delslots(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let slots = slots(args)?;
    execute(ctx, ClusterCommand::DelSlots { slots: &slots })
}

pub(super) fn delslotsrange(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let slots = slots_of_ranges(args, "cluster|delslotsrange")?;
    execute_ranges(ctx, &slots, |slots| ClusterCommand::DelSlots { slots })
}

pub(super) fn flushslots(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    let data = ctx.has_keys();
    execute(ctx, ClusterCommand::FlushSlots { data })
}

pub(super) fn bumpepoch(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    execute(ctx, ClusterCommand::BumpEpoch)
}

pub(super) fn saveconfig(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    execute(ctx, ClusterCommand::SaveConfig)
}

pub(super) fn set_config_epoch(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let epoch = args.int(2)?;
    execute(ctx, ClusterCommand::SetConfigEpoch { epoch })
}

pub(super) fn count_failure_reports(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    execute(ctx, ClusterCommand::CountFailureReports { node: args.at(2) })
}

pub(super) fn forget(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    execute(ctx, ClusterCommand::Forget { node: args.at(2) })
}

/// CLUSTER MEET: the default bus port is the client port plus 10,000 (K-14).
pub(super) fn meet(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    if args.len() > 5 {
        return Err(unknown_form(args));
    }
    let number = |at: usize, what: &str| {
        let word = args.at(at);
        let error =
            || CmdError::owned([b"ERR Invalid ", what.as_bytes(), b" port specified: ", word].concat());
        args.int(at).map_err(|_| error())
    };
    let port = number(3, "base")?;
    if !(1..=65_535).contains(&port) {
        return Err(CmdError::text("ERR Port number is out of range"));
    }
    let bus_port = if args.len() == 5 { number(4, "bus")? } else { port + 10_000 };
    if !(1..=65_535).contains(&bus_port) {
        return Err(CmdError::text("ERR Cluster bus port number is out of range"));
    }
    let ip = String::from_utf8_lossy(args.at(2));
    execute(ctx, ClusterCommand::Meet { ip: &ip, port, bus_port: Some(bus_port) })
}

/// CLUSTER FAILOVER: the reply confirms the request; the log reports the result.
pub(super) fn failover(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let mut kind = FailoverKind::Agreed;
    let mut words = 2..args.len();
    while let Some(at) = words.next() {
        if args.is(at, "TAKEOVER") {
            kind = FailoverKind::Takeover;
        } else if ctx.session.caller.is_primary() && args.is(at, "REPLICAID") {
            // REPLICAID: a primary that is about to end sends all of its replicas the id of the replica that
            // takes over (M11); the others reply OK and do nothing.
            let id = words.next().ok_or(CmdError::Syntax)?;
            if args.at(id) != ctx.mode.id().to_string().as_bytes() {
                ctx.reply.ok();
                return Ok(Outcome::Done);
            }
            kind = FailoverKind::Ordered;
        } else if !args.is(at, "FORCE") {
            return Err(CmdError::Syntax);
        } else if kind == FailoverKind::Agreed {
            kind = FailoverKind::Forced;
        }
    }
    execute(ctx, ClusterCommand::Failover { kind })
}

pub(super) fn replicate(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let is_no_one = args.len() == 4 && args.is(2, "NO") && args.is(3, "ONE");
    if is_no_one {
        return execute(ctx, ClusterCommand::ReplicateNoOne);
    }
    if args.len() != 3 {
        return Err(unknown_form(args));
    }
    let data = ctx.has_keys();
    execute(ctx, ClusterCommand::Replicate { node: args.at(2), data })
}

pub(super) fn reset(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let kind = match args.len() {
        2 => ResetKind::Soft,
        3 if args.is(2, "SOFT") => ResetKind::Soft,
        3 if args.is(2, "HARD") => ResetKind::Hard,
        3 => return Err(CmdError::Syntax),
        _ => return Err(unknown_form(args)),
    };
    let data = ctx.has_keys();
    execute(ctx, ClusterCommand::Reset { kind, data })
}

impl ClusterCtx<'_> {
    /// Whether any database has a key that is not hidden.
    fn has_keys(&self) -> HasKeys {
        match (0..self.keyspace.databases()).any(|number| !self.keyspace.db(number).shown().is_empty()) {
            true => HasKeys::Yes,
            false => HasKeys::No,
        }
    }
}
