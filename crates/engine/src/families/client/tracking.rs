//! CLIENT TRACKING and its relatives, as far as they are true without the tracking of keys.
//!
//! Arguments are judged as ever, and everything that says or does nothing answers. What would promise
//! invalidations is refused: a client that believed it would serve stale values from its cache.

use crate::exec::ctx::{ServerCtx, SessionCtx};
use sluice_commands::{Args, CmdError, Outcome, Run, until_zero};

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

/// Prefixes of one client must not hold each other: a key would be announced twice. O(n log n).
fn refuse_overlap(prefixes: &[&[u8]]) -> Result<(), CmdError> {
    let Some((first, second)) = first_overlap(prefixes) else { return Ok(()) };
    let text = [
        b"ERR Prefix '",
        until_zero(first),
        b"' overlaps with another provided prefix '",
        until_zero(second),
        b"'. Prefixes for a single client must not overlap.",
    ];
    Err(CmdError::owned(text.concat()))
}

/// The first prefix that holds a later one or is held by it, and the first such.
fn first_overlap<'a>(prefixes: &[&'a [u8]]) -> Option<(&'a [u8], &'a [u8])> {
    let mut sorted: Vec<(&[u8], usize)> =
        prefixes.iter().enumerate().map(|(i, prefix)| (*prefix, i)).collect();
    sorted.sort_unstable();
    // In this order all that a prefix holds follows it without a gap.
    let mut first: Option<usize> = None;
    let mut root = *sorted.first()?;
    for &(prefix, i) in &sorted[1..] {
        if prefix.starts_with(root.0) {
            first = Some(first.map_or(i, |first| first.min(i)).min(root.1));
        } else {
            root = (prefix, i);
        }
    }
    let first = first?;
    let one = prefixes[first];
    // Whatever overlaps with the first that overlaps with anything is behind it.
    let other = prefixes[first + 1..]
        .iter()
        .copied()
        .find(|other| one.starts_with(other) || other.starts_with(one))?;
    Some((one, other))
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

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;

    #[test]
    fn the_first_overlap_is_what_comparing_every_pair_finds() {
        let mut rng = Rng::new(5);
        let mut found = 0;
        for _ in 0..20_000 {
            let words: Vec<Vec<u8>> = (0..rng.below(7))
                .map(|_| (0..1 + rng.below(4)).map(|_| b'a' + rng.below(3) as u8).collect())
                .collect();
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let pairs = (0..words.len()).flat_map(|i| (i + 1..words.len()).map(move |j| (i, j)));
            let naive = pairs
                .map(|(i, j)| (words[i], words[j]))
                .find(|(one, other)| one.starts_with(other) || other.starts_with(one));
            assert_eq!(first_overlap(&words), naive, "{words:?}");
            found += usize::from(naive.is_some());
        }
        assert!((1000..19_000).contains(&found));
    }
}
