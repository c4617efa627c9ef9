//! CONFIG.

use crate::Control;
use crate::cluster::exports::HoldStatistics;
use crate::cluster::slot_moves::CarriedBytes;
use crate::ctx::{ReportCtx, ServerCtx};
use crate::persistence::saving::JobAsk;
use sluice_base::LogLevel;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_config::choice::AclPubsubDefault;
use sluice_config::{Force, Origin, ParamFacts, ParamId, Phase, ValidValues, param};
use sluice_resp::Reply;

pub(super) fn get(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let patterns: Vec<&[u8]> = args.iter_from(2).collect();
    let found = ctx.control.config.get(&patterns);
    ctx.reply.map(found.len());
    for (name, value) in found {
        ctx.reply.bulk(&name);
        ctx.reply.bulk(&value);
    }
    Ok(Outcome::Done)
}

/// CONFIG INFO, as in version 9.2 of the reference.
pub(super) fn info(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let patterns: Vec<&[u8]> = args.iter_from(2).collect();
    let found = ParamFacts::found_by(&patterns);
    let reply = &mut ctx.reply;
    reply.array(found.len());
    for facts in found {
        let says_more = facts.accepted != ValidValues::Unlimited;
        reply.map(3 + usize::from(facts.other_name.is_some()) + usize::from(says_more));
        for (field, word) in [("name", facts.name), ("type", facts.kind)] {
            reply.bulk(field.as_bytes());
            reply.bulk(word.as_bytes());
        }
        reply_words(reply, "flags", &facts.flags);
        if let Some(other) = facts.other_name {
            reply.bulk(b"alias");
            reply.bulk(other.as_bytes());
        }
        match facts.accepted {
            ValidValues::Names(names) => reply_words(reply, "values", &names),
            ValidValues::Range(min, max) => {
                let bounds = [min.to_string(), max.to_string()];
                reply_words(reply, "range", &bounds.each_ref().map(String::as_str));
            }
            ValidValues::Unlimited => {}
        }
    }
    Ok(Outcome::Done)
}

/// Writes a field of a map whose value is an array of words.
fn reply_words(reply: &mut Reply<'_>, field: &str, words: &[&str]) {
    reply.bulk(field.as_bytes());
    reply.array(words.len());
    words.iter().for_each(|word| reply.bulk(word.as_bytes()));
}

pub(super) fn set(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let words: Vec<&[u8]> = args.iter_from(2).collect();
    let (pairs, odd) = words.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(CmdError::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    let origin = if ctx.session.caller.is_local() { Origin::Local } else { Origin::Remote };
    let phase = if ctx.control.persistence.load.is_some() { Phase::Loading } else { Phase::Serving };
    let change = ctx.control.config.prepare(&pairs, origin, phase).map_err(wire)?;
    let undo = ctx.control.config.apply(change);
    let changed: Vec<ParamId> = undo.changed().collect();
    // The parameters are applied one by one, so that the error can name the faulty parameter.
    for (done, id) in changed.iter().enumerate() {
        let applied =
            may_want_aof(ctx, *id).and_then(|()| ctx.process.apply_config(&ctx.control.config, *id));
        let Err(reason) = applied else { continue };
        let error = undo.failed(*id, &reason);
        ctx.control.config.rollback(undo);
        for id in changed[..=done].iter().rev() {
            // These values were in force a moment ago. If one cannot be applied again, the error is dropped
            // here; most effects have logged it.
            let _ = ctx.process.apply_config(&ctx.control.config, *id);
        }
        return Err(wire(error));
    }
    for id in undo.named() {
        if let Some(text) = ctx.control.config.no_effect_of(id) {
            ctx.process.log(LogLevel::Warning, &text);
        }
    }
    let is_maxmemory_changed = changed.contains(&param::MAXMEMORY.any());
    ctx.control.scripts.settings_changed |=
        changed.iter().any(|id| sluice_scripts::state::is_machine_setting(*id));
    let aof_changed = changed.contains(&param::APPENDONLY.any());
    for id in changed.iter().copied() {
        if let Some(value) = ctx.process.in_force(id) {
            // The value describes the applied setting, so it is valid.
            let _ = ctx.control.config.assign(id, &[&value]);
        }
    }
    take_up_users(ctx.control, &changed);
    ctx.control.apply_limits();
    if let Some(mode) = &mut ctx.control.cluster {
        mode.apply_settings(&ctx.control.config, ctx.now);
    }
    // The good replicas are counted again, because their allowed lag may have changed.
    ctx.control.replication.count_good_replicas = true;
    if is_maxmemory_changed {
        warn_of_maxmemory(ctx);
    }
    if aof_changed && !ctx.control.wants_aof() && !ctx.control.persistence.aof.is_on() {
        // Cancels the rewrite with which the append-only file would begin. If that rewrite has begun already,
        // the file is turned off after this command.
        ctx.control.cancel_scheduled_rewrite(ctx.process);
    }
    want_aof(ctx);
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Warns if the memory in use already exceeds the limit, because the limit takes effect at once.
fn warn_of_maxmemory(ctx: &mut ServerCtx<'_>) {
    let limit = ctx.control.limits.maxmemory;
    let used = ctx.process.counted_memory(ctx.keyspace);
    if limit > 0 && used > limit {
        let text = format!(
            "WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the current memory usage ({used}). \
             This will result in key eviction and/or the inability to accept new write commands depending on the \
             maxmemory-policy."
        );
        ctx.process.log(LogLevel::Warning, &text);
    }
}

/// Refuses to turn the append-only file on if a partly loaded file would then be replaced or ignored. `Err`
/// is the text for the client; the reason is logged.
fn may_want_aof(ctx: &mut ServerCtx<'_>, changed: ParamId) -> Result<(), String> {
    let control = &*ctx.control;
    if changed != param::APPENDONLY.any() || !control.wants_aof() || control.persistence.aof.is_on() {
        return Ok(());
    }
    let Some(line) = control.rewrite_refusal() else { return Ok(()) };
    ctx.process.log(LogLevel::Warning, line);
    Err("Unable to turn on AOF. Check server logs.".to_owned())
}

/// Applies changed directives about users.
fn take_up_users(control: &mut Control, changed: &[ParamId]) {
    let Control { config, clients, .. } = control;
    if changed.contains(&param::ACL_PUBSUB_DEFAULT.any()) {
        let default = config.choice::<AclPubsubDefault>(param::ACL_PUBSUB_DEFAULT);
        clients.users.change().set_all_channels(default == AclPubsubDefault::AllChannels);
    }
    if changed.contains(&param::REQUIREPASS.any()) {
        let password = Some(config.bytes(param::REQUIREPASS)).filter(|password| !password.is_empty());
        clients.users.change().set_default_password(password);
    }
}

/// Requests the rewrite with which a newly enabled append-only file begins. It begins right after this
/// command, or later if other background work is in progress or the command runs in a transaction.
fn want_aof(ctx: &mut ServerCtx<'_>) {
    let wants_aof = ctx.control.config.bool(param::APPENDONLY);
    if !wants_aof || ctx.control.persistence.aof.is_on() || ctx.control.persistence.rewriting.scheduled {
        return;
    }
    if ctx.control.persistence.load.is_some() {
        // No rewrite begins during a load; the file is turned on after the load.
        return;
    }
    if ctx.may_wait && !ctx.control.works_in_background() {
        ctx.control.persistence.asked.push(JobAsk::Rewrite);
        return;
    }
    let text = match ctx.may_wait {
        true => {
            "AOF was enabled but there is already another background operation. An AOF background was scheduled to start when \
             possible."
        }
        false => {
            "AOF was enabled during a transaction. An AOF background was scheduled to start when possible."
        }
    };
    ctx.control.persistence.rewriting.scheduled = true;
    ctx.process.log(LogLevel::Notice, text);
}

fn wire(error: sluice_config::SetError) -> CmdError {
    CmdError::owned(error.to_string())
}

pub(super) fn resetstat(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    let facts = ctx.process.facts(ctx.keyspace);
    ctx.stats.reset(&facts);
    ctx.process.forget_longest_iteration();
    ctx.control.clients.slow_reads.reset_counts();
    if let Some(mode) = &mut ctx.control.cluster {
        mode.slot_stats.reset();
        mode.moves.carried = CarriedBytes::default();
        mode.machine.reset_statistics();
        mode.exports_mut().holds = HoldStatistics::default();
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn rewrite(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    rewrite_file(ctx.control, ctx.process, Force::Changed)?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Rewrites the configuration file with the present values.
pub(super) fn rewrite_file(
    control: &Control,
    process: &mut dyn crate::process::Process,
    force: Force,
) -> Result<(), CmdError> {
    let config = &control.config;
    let failed = |reason: String| CmdError::owned(format!("ERR {reason}"));
    let users = config.lines_to_rewrite(lines_of_users(control));
    let users = users.map_err(|reason| failed(format!("Rewriting config file: {reason}")))?;
    let mut make = |old: Option<&[u8]>| sluice_config::rewrite(old, config, &users, force);
    process.rewrite_config(&mut make).map_err(failed)
}

/// The canonical lines of all roles and users.
fn lines_of_users(control: &Control) -> Vec<Vec<u8>> {
    control.clients.users.users().lines().collect()
}
