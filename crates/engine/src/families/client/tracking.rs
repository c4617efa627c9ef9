//! CLIENT TRACKING and its relatives, as far as they are true without the tracking of keys.
//!
//! Arguments are judged as ever, and everything that says or does nothing answers. What would promise invalidations is
//! refused: a client that believed it would serve stale values from its cache.

use crate::args::Args;
use crate::ctx::{Outcome, Run, ServerCtx, SessionCtx};
use crate::error::{CmdError, until_zero};

/// CLIENT TRACKING's options.
#[derive(Default)]
struct Options<'a> {
    redirect: bool,
    bcast: bool,
    opt_in: bool,
    opt_out: bool,
    prefixes: Vec<&'a [u8]>,
}

pub(super) fn tracking(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let options = options(ctx, args)?;
    let on = super::on_or_off(args, 2)?;
    if !on {
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    if !options.prefixes.is_empty() && !options.bcast {
        return Err(CmdError::text("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    if options.bcast && (options.opt_in || options.opt_out) {
        return Err(CmdError::text("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if options.opt_in && options.opt_out {
        return Err(CmdError::text("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    refuse_overlap(&options.prefixes)?;
    Err(CmdError::text("ERR CLIENT TRACKING ON is not supported by this server yet"))
}

fn options<'a>(ctx: &ServerCtx<'_>, args: Args<'a>) -> Result<Options<'a>, CmdError> {
    let mut options = Options::default();
    let mut i = 3;
    while i < args.len() {
        let next = args.get(i + 1);
        match next {
            Some(_) if args.is(i, "REDIRECT") => {
                if options.redirect {
                    return Err(CmdError::text("ERR A client can only redirect to a single other client"));
                }
                options.redirect = true;
                refuse_absent(ctx, args.int(i + 1)?)?;
                i += 1;
            }
            Some(prefix) if args.is(i, "PREFIX") => {
                options.prefixes.push(prefix);
                i += 1;
            }
            _ if args.is(i, "BCAST") => options.bcast = true,
            _ if args.is(i, "OPTIN") => options.opt_in = true,
            _ if args.is(i, "OPTOUT") => options.opt_out = true,
            _ if args.is(i, "NOLOOP") => {}
            _ => return Err(CmdError::Syntax),
        }
        i += 1;
    }
    Ok(options)
}

fn refuse_absent(ctx: &ServerCtx<'_>, id: i64) -> Result<(), CmdError> {
    let is = |other: u64| i64::try_from(other) == Ok(id);
    if is(ctx.session.caller.id.0) || ctx.sessions.iter().any(|other| is(other.caller.id.0)) {
        return Ok(());
    }
    Err(CmdError::text("ERR The client ID you want redirect to does not exist"))
}

/// Prefixes of one client must not hold each other: a key would be announced twice. O(prefixes²), and they are short.
fn refuse_overlap(prefixes: &[&[u8]]) -> Result<(), CmdError> {
    for (i, first) in prefixes.iter().enumerate() {
        for second in &prefixes[i + 1..] {
            if first.starts_with(second) || second.starts_with(first) {
                let text = [
                    b"ERR Prefix '",
                    until_zero(first),
                    b"' overlaps with another provided prefix '",
                    until_zero(second),
                    b"'. Prefixes for a single client must not overlap.",
                ];
                return Err(CmdError::owned(text.concat()));
            }
        }
    }
    Ok(())
}

pub(super) fn caching(_: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    Err(CmdError::text(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    ))
}

pub(super) fn getredir(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.int(-1);
    Ok(Outcome::Done)
}

pub(super) fn trackinginfo(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    let reply = &mut ctx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.int(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
    Ok(Outcome::Done)
}
