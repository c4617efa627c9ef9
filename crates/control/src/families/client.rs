//! The CLIENT container: inspecting and controlling connections.

mod common;
mod filter;
mod maintenance;
mod tracking;

use crate::ctx::{Handler, ReportCtx, Route, ServerCtx, SessionCtx, route};
use crate::families::client::common::on_or_off;
use crate::families::connection::check_label;
use filter::{ClientFilter, SkipMe};
use sluice_base::num;
use sluice_command::derive::help;
use sluice_command::specs::connection as specs;
use sluice_commands::{Args, CmdError, Outcome, ReplyMode, Run, WaitFor, until_zero};
use sluice_session::blocking::Unblock;
use sluice_session::line::{CommandUnderWay, LineSources};
use sluice_session::{Closing, Session, Sessions};
use sluice_subscriptions::registry::Subscribed;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::CLIENT_CACHING, Handler::PubSub(tracking::caching)),
    route(&specs::CLIENT_CAPA, Handler::Session(capa)),
    route(&specs::CLIENT_GETNAME, Handler::Session(getname)),
    route(&specs::CLIENT_GETREDIR, Handler::Report(tracking::getredir)),
    route(&specs::CLIENT_HELP, Handler::Session(client_help)),
    route(&specs::CLIENT_ID, Handler::Session(id)),
    route(&specs::CLIENT_IMPORT_SOURCE, Handler::Session(import_source)),
    route(&specs::CLIENT_INFO, Handler::Report(info)),
    route(&specs::CLIENT_KILL, Handler::Server(kill)),
    route(&specs::CLIENT_LIST, Handler::Report(list)),
    route(&specs::CLIENT_MAINT_NOTIFICATIONS, Handler::Server(maintenance::maint_notifications)),
    route(&specs::CLIENT_NO_EVICT, Handler::Session(no_evict)),
    route(&specs::CLIENT_NO_TOUCH, Handler::Session(no_touch)),
    route(&specs::CLIENT_PAUSE, Handler::Server(pause)),
    route(&specs::CLIENT_REPLY, Handler::Session(reply)),
    route(&specs::CLIENT_SETINFO, Handler::Session(setinfo)),
    route(&specs::CLIENT_SETNAME, Handler::Session(setname)),
    route(&specs::CLIENT_TRACKING, Handler::Server(tracking::tracking)),
    route(&specs::CLIENT_TRACKINGINFO, Handler::Report(tracking::trackinginfo)),
    route(&specs::CLIENT_UNBLOCK, Handler::Server(unblock)),
    route(&specs::CLIENT_UNPAUSE, Handler::Server(unpause)),
];

fn id(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.int(ctx.caller.id.0 as i64);
    Ok(Outcome::Done)
}

fn getname(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    if ctx.caller.name().is_empty() {
        ctx.reply.null();
    } else {
        ctx.reply.bulk(ctx.caller.name());
    }
    Ok(Outcome::Done)
}

fn setname(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    check_label(args.at(2), b"Client names")?;
    ctx.caller.labels_mut().name = args.at(2).into();
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn setinfo(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    let label = if args.is(2, "LIB-NAME") {
        &mut ctx.caller.labels_mut().lib_name
    } else if args.is(2, "LIB-VER") {
        &mut ctx.caller.labels_mut().lib_ver
    } else {
        return Err(CmdError::owned([b"ERR Unrecognized option '", until_zero(args.at(2)), b"'"].concat()));
    };
    check_label(args.at(3), args.at(2))?;
    *label = args.at(3).into();
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn capa(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    // Unknown capabilities are ignored without an error.
    if args.iter_from(2).any(|word| until_zero(word).eq_ignore_ascii_case(b"redirect")) {
        ctx.caller.flags.capa_redirect = true;
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn reply(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    if args.is(2, "ON") {
        ctx.caller.reply = ReplyMode::On;
        ctx.reply.ok();
    } else if args.is(2, "OFF") {
        ctx.caller.reply = ReplyMode::Off;
    } else if args.is(2, "SKIP") {
        if ctx.caller.reply != ReplyMode::Off {
            ctx.caller.reply = ReplyMode::SkipNext;
        }
    } else {
        return Err(CmdError::Syntax);
    }
    Ok(Outcome::Done)
}

fn no_evict(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    ctx.caller.flags.no_evict = on_or_off(args, 2)?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn no_touch(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    ctx.caller.flags.no_touch = on_or_off(args, 2)?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn import_source(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    if !ctx.limits.import_mode && !args.is(2, "OFF") {
        return Err(CmdError::text("ERR Server is not in import mode"));
    }
    ctx.caller.flags.import_source = on_or_off(args, 2)?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn client_help(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    let lines = help::lines(&specs::CLIENT);
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.simple(line.as_bytes()));
    Ok(Outcome::Done)
}

fn unblock(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let how = match args.len() {
        4 if args.is(3, "ERROR") => Unblock::Error,
        4 if !args.is(3, "TIMEOUT") => {
            return Err(CmdError::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        _ => Unblock::Timeout,
    };
    let id = args.int(2)?;
    let mut others = ctx.sessions.iter_mut();
    let named = others.find(|other| i64::try_from(other.caller.id.0) == Ok(id));
    let key = named.and_then(|other| {
        let waiting = other.waiting.as_mut()?;
        // A client that a pause postpones, that a load holds, or that waits for a slow read does not count as
        // blocked. A client whose wait CLIENT UNBLOCK is already ending is not unblocked again.
        let is_blocked =
            matches!(waiting.on, WaitFor::Keys(_) | WaitFor::Replicas { .. } | WaitFor::ReplicasFirst { .. });
        let can_end = is_blocked && waiting.unblock.is_none();
        can_end.then(|| {
            waiting.unblock = Some(how);
            other.key
        })
    });
    if let Some(key) = key {
        ctx.control.clients.blocking.unblock(key);
    }
    ctx.reply.int(i64::from(key.is_some()));
    Ok(Outcome::Done)
}

fn pause(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let all = match args.len() {
        4 if args.is(3, "WRITE") => false,
        4 if !args.is(3, "ALL") => return Err(CmdError::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => true,
    };
    let timeout_ms = num::parse_i64(args.at(2))
        .ok_or(const { CmdError::text("ERR timeout is not an integer or out of range") })?;
    if timeout_ms < 0 {
        return Err(CmdError::text("ERR timeout is negative"));
    }
    let until_ms = timeout_ms
        .checked_add(ctx.now.unix_ms())
        .ok_or(const { CmdError::text("ERR timeout is out of range") })?;
    ctx.control.clients.pause.prolong(ctx.now, until_ms, all);
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn unpause(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    ctx.control.end_pause();
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Three values: the caller with the data of its running command, for the caller's own line; the other
/// sessions; and the data that all lines need.
fn running<'a>(
    ctx: &'a mut ReportCtx<'_>,
    args: Args<'_>,
) -> (&'a Session, CommandUnderWay, &'a Sessions, LineSources<'a>) {
    let outbox = ctx.reply.outbox();
    let running = CommandUnderWay {
        argv_bytes: args.bytes(),
        outbox_bytes: outbox.len(),
        outbox_capacity: outbox.capacity_bytes(),
    };
    (ctx.session, running, ctx.sessions, ctx.control.clients.line_sources())
}

fn info(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let now_s = ctx.now.unix_s();
    let mut text = String::with_capacity(LINE_BYTES);
    let (own, running, _, sources) = running(ctx, args);
    own.push_line(now_s, sources, Some(running), &mut text);
    text.push('\n');
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

fn list(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    if args.len() == 3 {
        return Err(CmdError::Syntax);
    }
    let filter = ClientFilter::parse(
        args,
        2,
        SkipMe::No,
        ctx.control.limits.databases,
        ctx.control.clients.users.users(),
    )?;
    let now_s = ctx.now.unix_s();
    let (own, running, others, sources) = running(ctx, args);
    let mut chosen: Vec<&Session> = others
        .iter()
        .filter(|other| other.caller.closing != Closing::Now)
        .filter(|other| filter.chooses(other, now_s, sources))
        .collect();
    if filter.skip_me == SkipMe::No && filter.chooses(own, now_s, sources) {
        chosen.push(own);
    }
    // The list is sorted by id, because only ids show the order of connecting; slots in the table of sessions
    // are reused.
    chosen.sort_unstable_by_key(|session| session.caller.id);
    let mut text = String::with_capacity(LINE_BYTES * chosen.len());
    for session in chosen {
        let running = (session.key == own.key).then_some(running);
        session.push_line(now_s, sources, running, &mut text);
        text.push('\n');
    }
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

fn kill(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    if args.len() == 3 {
        let killed = kill_chosen(ctx, &ClientFilter::of_addr(args.at(2)));
        if killed == 0 {
            return Err(CmdError::text("ERR No such client"));
        }
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    let filter = ClientFilter::parse(
        args,
        2,
        SkipMe::Yes,
        ctx.control.limits.databases,
        ctx.control.clients.users.users(),
    )?;
    let killed = kill_chosen(ctx, &filter);
    ctx.reply.int(killed);
    Ok(Outcome::Done)
}

/// Marks the chosen clients for closing; the caller is closed after its reply. Returns the number of chosen
/// clients. O(clients).
fn kill_chosen(ctx: &mut ServerCtx<'_>, filter: &ClientFilter<'_>) -> i64 {
    let now_s = ctx.now.unix_s();
    let mut killed = 0;
    for other in ctx.sessions.iter_mut() {
        if other.caller.closing != Closing::Now
            && filter.chooses(other, now_s, ctx.control.clients.line_sources())
        {
            other.caller.closing = Closing::Now;
            ctx.control.clients.to_close.push(other.key);
            // The subscriptions end at once, so that the next published message no longer counts this
            // client as a receiver.
            if other.caller.subscribed.is_any() {
                ctx.control.clients.pubsub.forget(other.key);
                other.caller.subscribed = Subscribed::default();
            }
            killed += 1;
        }
    }
    if filter.skip_me == SkipMe::No && filter.chooses(ctx.session, now_s, ctx.control.clients.line_sources())
    {
        ctx.session.caller.closing = Closing::AfterReply;
        killed += 1;
    }
    killed
}

/// Approximate length of a client's line, in bytes.
const LINE_BYTES: usize = 384;
