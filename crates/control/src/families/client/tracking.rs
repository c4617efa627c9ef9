//! CLIENT TRACKING and related commands.

use crate::ctx::{PubSubCtx, ReportCtx, ServerCtx};
use sluice_base::ClientId;
use sluice_commands::{Args, CmdError, Outcome, Run, until_zero};
use sluice_subscriptions::tracking::{Redirect, TrackingClient, TrackingMode, TrackingOptions};

/// The parsed options of CLIENT TRACKING.
#[derive(Default)]
struct TrackingArguments<'a> {
    redirect: Option<Redirect>,
    bcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

pub(super) fn tracking(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let options = options(ctx, args)?;
    let on = super::on_or_off(args, 2)?;
    let key = ctx.session.key;
    if on {
        let mode = options.mode(ctx.control.clients.tracking.client(key))?;
        let (no_loop, redirect) = (options.no_loop, options.redirect);
        let tracking = &mut ctx.control.clients.tracking;
        tracking.turn_on(key, TrackingOptions { mode, no_loop, redirect });
        options.prefixes.iter().for_each(|prefix| tracking.add_prefix(key, prefix));
        if options.bcast && options.prefixes.is_empty() {
            tracking.add_prefix(key, b"");
        }
        ctx.session.tracks_reads = mode != TrackingMode::Broadcast;
    } else {
        ctx.control.clients.tracking.turn_off(key);
        ctx.session.tracks_reads = false;
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

impl TrackingArguments<'_> {
    /// The requested mode; an error if a client with the present tracking state `current` cannot change to
    /// that mode.
    fn mode(&self, current: Option<&TrackingClient>) -> Result<TrackingMode, CmdError> {
        if !self.prefixes.is_empty() && !self.bcast {
            return Err(CmdError::text("ERR PREFIX option requires BCAST mode to be enabled"));
        }
        let now = current.map(|client| client.options.mode);
        if now.is_some_and(|mode| (mode == TrackingMode::Broadcast) != self.bcast) {
            return Err(CmdError::text(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
            ));
        }
        if self.bcast && (self.opt_in || self.opt_out) {
            return Err(CmdError::text("ERR OPTIN and OPTOUT are not compatible with BCAST"));
        }
        if self.opt_in && self.opt_out {
            return Err(CmdError::text("ERR You can't specify both OPTIN mode and OPTOUT mode"));
        }
        let switches = match now {
            Some(TrackingMode::OptIn) => self.opt_out,
            Some(TrackingMode::OptOut) => self.opt_in,
            Some(TrackingMode::Reads | TrackingMode::Broadcast) | None => false,
        };
        if switches {
            return Err(CmdError::text(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
            ));
        }
        if self.bcast {
            refuse_overlap(&self.prefixes, current)?;
            return Ok(TrackingMode::Broadcast);
        }
        Ok(match (self.opt_in, self.opt_out) {
            (true, _) => TrackingMode::OptIn,
            (_, true) => TrackingMode::OptOut,
            (false, false) => TrackingMode::Reads,
        })
    }
}

fn options<'a>(ctx: &ServerCtx<'_>, args: Args<'a>) -> Result<TrackingArguments<'a>, CmdError> {
    let mut options = TrackingArguments::default();
    let mut i = 3;
    while i < args.len() {
        let next = args.get(i + 1);
        match next {
            Some(_) if args.is(i, "REDIRECT") => {
                if options.redirect.is_some() {
                    return Err(CmdError::text("ERR A client can only redirect to a single other client"));
                }
                options.redirect = Some(redirect(ctx, args.int(i + 1)?)?);
                i += 1;
            }
            Some(prefix) if args.is(i, "PREFIX") => {
                options.prefixes.push(prefix);
                i += 1;
            }
            _ if args.is(i, "BCAST") => options.bcast = true,
            _ if args.is(i, "OPTIN") => options.opt_in = true,
            _ if args.is(i, "OPTOUT") => options.opt_out = true,
            _ if args.is(i, "NOLOOP") => options.no_loop = true,
            _ => return Err(CmdError::Syntax),
        }
        i += 1;
    }
    Ok(options)
}

/// The client with this id, as the target of redirection; an error if there is none.
fn redirect(ctx: &ServerCtx<'_>, id: i64) -> Result<Redirect, CmdError> {
    let is = |other: ClientId| i64::try_from(other.0) == Ok(id);
    let own = &ctx.session;
    let found = match is(own.caller.id) {
        true => Some((own.caller.id, own.key)),
        false => {
            let mut others = ctx.sessions.iter();
            others.find(|other| is(other.caller.id)).map(|other| (other.caller.id, other.key))
        }
    };
    let (id, key) =
        found.ok_or(const { CmdError::text("ERR The client ID you want redirect to does not exist") })?;
    Ok(Redirect { id, key })
}

/// Refuses prefixes that overlap each other or the client's present prefixes, because keys would be reported
/// twice. O(n log n).
fn refuse_overlap(prefixes: &[&[u8]], current: Option<&TrackingClient>) -> Result<(), CmdError> {
    let known = current.and_then(|client| {
        let overlaps = |(i, prefix): (usize, &&[u8])| Some((i, client.overlapping(prefix)?));
        prefixes.iter().enumerate().find_map(overlaps)
    });
    let given = first_overlap(prefixes);
    // The error names the first prefix that overlaps another; if it overlaps an existing and a given prefix,
    // the error names the existing one.
    let (first, kind, second): (&[u8], &[u8], &[u8]) = match (known, given) {
        (Some((i, known)), given) if given.is_none_or(|(first, _)| i <= first) => {
            (prefixes[i], b"an existing", known)
        }
        (_, Some((first, second))) => (prefixes[first], b"another provided", prefixes[second]),
        (Some(_) | None, None) => return Ok(()),
    };
    let text = [
        b"ERR Prefix '",
        until_zero(first),
        b"' overlaps with ",
        kind,
        b" prefix '",
        until_zero(second),
        b"'. Prefixes for a single client must not overlap.",
    ];
    Err(CmdError::owned(text.concat()))
}

/// Indexes of the first prefix that overlaps another one, and of the first prefix that it overlaps. Two
/// prefixes overlap if one begins with the other.
fn first_overlap(prefixes: &[&[u8]]) -> Option<(usize, usize)> {
    let mut sorted: Vec<(&[u8], usize)> =
        prefixes.iter().enumerate().map(|(i, prefix)| (*prefix, i)).collect();
    sorted.sort_unstable();
    // The prefixes are compared in sorted order, in which all prefixes that begin with a given one follow
    // it directly.
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
    // Every prefix that overlaps `first` has a greater index, because `first` is the least.
    let other =
        prefixes[first + 1..].iter().position(|other| one.starts_with(other) || other.starts_with(one))?;
    Some((first, first + 1 + other))
}

pub(super) fn caching(ctx: &mut PubSubCtx<'_>, args: Args<'_>) -> Run {
    let client = ctx.tracking.client_mut(ctx.key);
    let client = client.ok_or(const {
        CmdError::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        )
    })?;
    let (wanted, text) = if args.is(2, "YES") {
        (TrackingMode::OptIn, "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
    } else if args.is(2, "NO") {
        (TrackingMode::OptOut, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
    } else {
        return Err(CmdError::Syntax);
    };
    if client.options.mode != wanted {
        return Err(CmdError::text(text));
    }
    client.caching = true;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn getredir(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.int(ctx.control.clients.tracking.redirection(ctx.session.key));
    Ok(Outcome::Done)
}

pub(super) fn trackinginfo(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    let tracking = &ctx.control.clients.tracking;
    let client = tracking.client(ctx.session.key);
    let flags = client.map_or(vec!["off"], flags);
    let reply = &mut ctx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(tracking.redirection(ctx.session.key));
    reply.bulk(b"prefixes");
    match client {
        None => reply.array(0),
        Some(client) => {
            reply.array(client.prefixes().len());
            client.prefixes().for_each(|prefix| reply.bulk(prefix));
        }
    }
    Ok(Outcome::Done)
}

/// The flags of a client that tracks, for CLIENT TRACKINGINFO.
fn flags(client: &TrackingClient) -> Vec<&'static str> {
    let mut flags = vec!["on"];
    match client.options.mode {
        TrackingMode::Reads => {}
        TrackingMode::Broadcast => flags.push("bcast"),
        TrackingMode::OptIn => {
            flags.push("optin");
            flags.extend(client.caching.then_some("caching-yes"));
        }
        TrackingMode::OptOut => {
            flags.push("optout");
            flags.extend(client.caching.then_some("caching-no"));
        }
    }
    flags.extend(client.options.no_loop.then_some("noloop"));
    flags.extend(client.is_broken.then_some("broken_redirect"));
    flags
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
            let mut pairs = (0..words.len()).flat_map(|i| (i + 1..words.len()).map(move |j| (i, j)));
            let naive =
                pairs.find(|(i, j)| words[*i].starts_with(words[*j]) || words[*j].starts_with(words[*i]));
            assert_eq!(first_overlap(&words), naive, "{words:?}");
            found += usize::from(naive.is_some());
        }
        assert!((1000..19_000).contains(&found));
    }
}
