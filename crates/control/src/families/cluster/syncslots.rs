//! CLUSTER SYNCSLOTS: messages between the two nodes of a slot migration, and reports of
//! migrations to replicas.
//!
//! The meaning of a message depends on the sender. ESTABLISH from a client begins an import, if the
//! node's machine permits it: from then on the client counts as the source node, and its connection belongs
//! to the job. The stream of a primary, and an append-only file, mark the beginning of a migration with
//! ESTABLISH, which hides the slots, and the end with FINISH, which shows them. Keys arrive by ordinary
//! commands between the two, and keys of a failed migration are deleted by ordinary commands before FINISH
//! . The other messages, which the stream of a Valkey primary also contains, have no effect there.

use super::ranges::{self, RangesJudge};
use crate::cluster::slot_moves::{Establishing, move_of};
use crate::ctx::ImportsCtx;
use sluice_cluster::{Cluster, ClusterInput, JobName, MigrationInput, ReportSource, SyncMessage};
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor};
use sluice_keyspace::{IMPORT_NAME_LEN, SlotImport};
use sluice_session::ClientKind;

/// The error of FINISH for a name that no import has.
const NO_IMPORT: CmdError = CmdError::text("ERR No such slot migration job");
/// The error for a misplaced message of the other node: the migration fails, and its connection is closed.
const NOT_HERE: CmdError =
    CmdError::text("ERR This word does not belong on the connection of a move of slots");

pub(super) fn syncslots(ctx: &mut ImportsCtx<'_>, args: Args<'_>) -> Run {
    if !ctx.limits.is_cluster {
        return Err(CmdError::NO_CLUSTER);
    }
    match ctx.caller.kind {
        ClientKind::Primary | ClientKind::Log => told(ctx, args),
        ClientKind::SlotImport => said(ctx, args),
        ClientKind::SlotExport => said_by_target(ctx, args),
        ClientKind::Normal | ClientKind::Replica => asked(ctx, args),
    }
}

/// Handles a report of a migration in the stream of a primary or in an append-only file.
fn told(ctx: &mut ImportsCtx<'_>, args: Args<'_>) -> Run {
    if args.is(2, "ESTABLISH") {
        let import = parse_establish(args, None)?;
        let input = MigrationInput::Reported { job: &move_of(&import), from: ReportSource::Command };
        step(ctx, input);
        ctx.imports.begin(import);
        ctx.effects.force();
    } else if args.is(2, "FINISH") {
        let finish = parse_finish(args)?;
        let ended = ctx.imports.end(finish.name).ok_or(NO_IMPORT)?;
        let FinishWords { is_success: success, message, .. } = finish;
        step(ctx, MigrationInput::ReportedEnd { job: JobName(ended.name), success, message });
        ctx.effects.force();
    } else {
        ctx.effects.force_to_replicas();
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Handles a message from the source of an import.
fn said(ctx: &mut ImportsCtx<'_>, args: Args<'_>) -> Run {
    if args.is(2, "CAPA") {
        return Ok(Outcome::Done);
    }
    if args.is(2, "ESTABLISH") || args.is(2, "FINISH") {
        return Err(NOT_HERE);
    }
    let link = ctx.mode.as_deref().and_then(|mode| mode.moves.link(ctx.client));
    let Some(job) = link.map(|link| link.job) else { return Err(NOT_HERE) };
    let word = if args.len() == 3 { SyncMessage::parse(args.at(2)) } else { SyncMessage::Unknown };
    if word == SyncMessage::SnapshotEof {
        // After SNAPSHOT-EOF the source's commands begin in database 0: a Valkey node sends the snapshot from
        // another process, and begins its own commands without a SELECT.
        ctx.caller.db = 0;
    }
    step(ctx, MigrationInput::Said { job, word });
    Ok(Outcome::Done)
}

/// Handles a message from the target of an export.
fn said_by_target(ctx: &mut ImportsCtx<'_>, args: Args<'_>) -> Run {
    if args.is(2, "CAPA") {
        return Ok(Outcome::Done);
    }
    let link = ctx.mode.as_deref().and_then(|mode| mode.moves.export_of(ctx.client));
    let Some(job) = link.map(|link| link.job) else { return Err(NOT_HERE) };
    let word = if args.len() == 3 { SyncMessage::parse(args.at(2)) } else { SyncMessage::Unknown };
    step(ctx, MigrationInput::Said { job, word });
    Ok(Outcome::Done)
}

/// Handles a message from a client that belongs to no migration.
fn asked(ctx: &mut ImportsCtx<'_>, args: Args<'_>) -> Run {
    if args.is(2, "CAPA") {
        // No reply is sent, as in the reference.
        return Ok(Outcome::Done);
    }
    let is_establish = args.is(2, "ESTABLISH") && ctx.caller.kind == ClientKind::Normal;
    if !is_establish {
        let is_known = args.is(2, "FINISH")
            || ![SyncMessage::Unknown, SyncMessage::Refused].contains(&SyncMessage::parse(args.at(2)));
        let word = args.at(2).to_ascii_uppercase();
        return Err(match is_known {
            true => CmdError::owned(
                [&b"ERR CLUSTER SYNCSLOTS "[..], &word, b" should only be used by slot migration clients"]
                    .concat(),
            ),
            false => CmdError::Syntax,
        });
    }
    let Some(mode) = ctx.mode.as_deref_mut() else { return Err(CmdError::NO_CLUSTER) };
    mode.machine.may_import_at_all().map_err(CmdError::owned)?;
    let job = move_of(&parse_establish(args, Some(&mode.machine))?);
    mode.machine.may_import(&job).map_err(CmdError::owned)?;
    if !ctx.may_wait {
        return Err(CmdError::text("ERR This command cannot wait inside a transaction or a script"));
    }
    let ticket = mode.ticket(ctx.client);
    mode.moves.establishing.push(Establishing { ticket, client: ctx.client, job });
    Ok(Outcome::Wait(Box::new(WaitFor::Cluster(ticket.0))))
}

/// Passes an input to the node's machine. Does nothing without a node: an append-only file with these
/// messages may also be loaded outside of a cluster.
fn step(ctx: &mut ImportsCtx<'_>, input: MigrationInput<'_>) {
    if let Some(mode) = ctx.mode.as_deref_mut() {
        mode.machine.step(ctx.now, &ClusterInput::Migration(input));
    }
}

/// The argument after the word at `at`, which is a name or an id.
fn id(args: Args<'_>, at: usize) -> Result<[u8; IMPORT_NAME_LEN], CmdError> {
    let word = args.get(at + 1).ok_or(CmdError::Syntax)?;
    word.try_into().map_err(|_| CmdError::Syntax)
}

/// Stores the parsed value of an option; an error if the option occurs twice.
fn put<T>(into: &mut Option<T>, value: T) -> Result<(), CmdError> {
    if into.replace(value).is_some() { Err(CmdError::Syntax) } else { Ok(()) }
}

/// Parses `ESTABLISH SOURCE id NAME name SLOTSRANGE first last …`, in any order. `judge` is the
/// node that checks a client's request. Reports of a primary are not checked against the map, which may
/// be older than the command.
fn parse_establish(args: Args<'_>, judge: Option<&Cluster>) -> Result<SlotImport, CmdError> {
    let (mut source, mut name, mut ranges) = (None, None, None);
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "SOURCE") {
            put(&mut source, id(args, at)?)?;
            if let Some(node) = judge {
                node.import_source(args.at(at + 1)).map_err(CmdError::owned)?;
            }
            at += 2;
        } else if args.is(at, "NAME") {
            put(&mut name, id(args, at)?)?;
            at += 2;
        } else if args.is(at, "SLOTSRANGE") {
            let (found, end) = ranges::parse(args, at + 1, judge.map(RangesJudge::Import))?;
            put(&mut ranges, found)?;
            at = end;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    let (Some(source), Some(name), Some(ranges)) = (source, name, ranges) else {
        return Err(CmdError::Syntax);
    };
    Ok(SlotImport { name, source: Some(source), ranges: ranges.into() })
}

/// The parsed options of FINISH.
struct FinishWords<'a> {
    name: &'a [u8],
    is_success: bool,
    message: &'a [u8],
}

/// Parses `FINISH STATE success|failed|cancelled NAME name [MESSAGE text]`. Every state ends the hiding
/// of the slots.
fn parse_finish(args: Args<'_>) -> Result<FinishWords<'_>, CmdError> {
    let (mut name, mut is_success, mut message, mut at) = (None, None, &b""[..], 3);
    while at + 1 < args.len() {
        if args.is(at, "STATE") {
            let is_end = ["success", "failed", "cancelled"].iter().any(|word| args.is(at + 1, word));
            is_success = is_end.then(|| args.is(at + 1, "success"));
        } else if args.is(at, "NAME") {
            name = Some(args.at(at + 1));
        } else if args.is(at, "MESSAGE") {
            message = args.at(at + 1);
        } else {
            return Err(CmdError::Syntax);
        }
        at += 2;
    }
    match (name, is_success) {
        (Some(name), Some(is_success)) if at == args.len() => Ok(FinishWords { name, is_success, message }),
        _ => Err(CmdError::Syntax),
    }
}
