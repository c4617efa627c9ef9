//! Commands about the caller's own connection, except CLIENT.

use crate::ctx::{Handler, Route, ServerCtx, SessionCtx, route};
use crate::families::users::{Attempt, authenticate};
use crate::{ClientRelations, Control};
use sluice_base::num;
use sluice_base::version;
use sluice_command::specs::connection as specs;
use sluice_commands::{Args, CmdError, Outcome, ReplyMode, Run, until_zero};
use sluice_config::param;
use sluice_resp::{Protocol, Reply};
use sluice_session::identity::Identity;
use sluice_session::line::LineSources;
use sluice_session::{ClientFlags, Closing};
use sluice_subscriptions::registry::Subscribed;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::ECHO, Handler::Session(echo)),
    route(&specs::HELLO, Handler::Server(hello)),
    route(&specs::PING, Handler::Session(ping)),
    route(&specs::QUIT, Handler::Session(quit)),
    route(&specs::RESET, Handler::Server(reset)),
    route(&specs::SELECT, Handler::Session(select)),
];

fn ping(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    match args.len() {
        // A RESP2 client with subscriptions expects the reply in the form of a message. A PING called by a
        // script gets the ordinary reply.
        1 | 2 if ctx.caller.only_listens() && !ctx.is_called => {
            ctx.reply.array(2);
            ctx.reply.bulk(b"pong");
            ctx.reply.bulk(args.get(1).unwrap_or_default());
        }
        1 => ctx.reply.raw(b"+PONG\r\n"),
        2 => ctx.reply.bulk(args.at(1)),
        _ => return Err(CmdError::Arity("ping")),
    }
    Ok(Outcome::Done)
}

fn echo(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    ctx.reply.bulk(args.at(1));
    Ok(Outcome::Done)
}

fn select(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    let number = args.int(1)?;
    let number = i32::try_from(number).map_err(|_| {
        CmdError::text("ERR value is out of range, value must between -2147483648 and 2147483647")
    })?;
    let number =
        usize::try_from(number).ok().filter(|n| *n < ctx.limits.databases).ok_or(CmdError::DbIndex)?;
    ctx.caller.db = number;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn quit(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    ctx.caller.closing = Closing::AfterReply;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// The parsed options of HELLO.
struct HelloArgs<'a> {
    proto: Option<Protocol>,
    auth: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

fn hello(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let greeting = greeting(args)?;
    if let Some((user, password)) = greeting.auth {
        let attempt = Attempt { command: args.at(0), user, password };
        let Control { clients: ClientRelations { users, watching, tracking, .. }, config, .. } =
            &mut *ctx.control;
        let sources = LineSources { watching, tracking };
        let counts = &mut ctx.stats.failures.refused;
        authenticate(ctx.session, &attempt, users, sources, config, counts, ctx.now)?;
    }
    let caller = &mut ctx.session.caller;
    if caller.must_authenticate(&ctx.control.limits) {
        return Err(CmdError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
             the same time",
        ));
    }
    if let Some(name) = greeting.name {
        caller.labels_mut().name = name.into();
    }
    if let Some(proto) = greeting.proto {
        caller.proto = proto;
    }
    introduce(ctx);
    Ok(Outcome::Done)
}

fn greeting(args: Args<'_>) -> Result<HelloArgs<'_>, CmdError> {
    let mut greeting = HelloArgs { proto: None, auth: None, name: None };
    if let Some(version) = args.get(1) {
        greeting.proto = Some(match num::parse_i64(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(CmdError::text("NOPROTO unsupported protocol version")),
            None => return Err(CmdError::text("ERR Protocol version is not an integer or out of range")),
        });
    }
    let mut i = 2;
    while let Some(option) = args.get(i) {
        match (args.get(i + 1), args.get(i + 2)) {
            (Some(user), Some(password)) if args.is(i, "AUTH") => {
                greeting.auth = Some((user, password));
                i += 3;
            }
            (Some(name), _) if args.is(i, "SETNAME") => {
                check_label(name, b"Client names")?;
                greeting.name = Some(name);
                i += 2;
            }
            _ => {
                let text = [b"ERR Syntax error in HELLO option '", until_zero(option), b"'"].concat();
                return Err(CmdError::owned(text));
            }
        }
    }
    Ok(greeting)
}

/// Writes the reply of HELLO, in the protocol that was just selected.
fn introduce(ctx: &mut ServerCtx<'_>) {
    let caller = &ctx.session.caller;
    let config = &ctx.control.config;
    let zone = config.bytes(param::AVAILABILITY_ZONE);
    let (server, version) = if ctx.control.limits.redis_names {
        ("redis", version::REDIS_COMPATIBLE)
    } else {
        ("valkey", version::COMPATIBLE)
    };
    let mut reply = Reply::new(ctx.reply.outbox(), caller.proto);
    reply.map(7 + usize::from(!zone.is_empty()));
    for (name, value) in [("server", server), ("version", version)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.int(match caller.proto {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    });
    reply.bulk(b"id");
    reply.int(caller.id.0 as i64);
    let role = if ctx.control.replication.replica.is_some() { "replica" } else { "master" };
    for (name, value) in [("mode", ctx.control.limits.mode_name()), ("role", role)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone);
    }
}

fn reset(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    let key = ctx.session.key;
    let caller = &mut ctx.session.caller;
    if caller.replica.is_some() {
        return Err(CmdError::text("ERR can only reset normal client connections"));
    }
    ctx.session.transaction = None;
    ctx.control.clients.watching.forget(key);
    ctx.control.clients.pubsub.forget(key);
    ctx.control.clients.tracking.leave(key);
    ctx.session.tracks_reads = false;
    caller.subscribed = Subscribed::default();
    caller.leave_multi();
    if caller.flags.monitor {
        ctx.control.clients.monitors.retain(|monitor| *monitor != key);
    }
    // The library and the capabilities describe the client's program, so RESET keeps them.
    caller.flags = ClientFlags {
        medium: caller.flags.medium,
        capa_redirect: caller.flags.capa_redirect,
        authentication: caller.flags.authentication.ended(),
        ..ClientFlags::default()
    };
    if let Some(labels) = &mut caller.labels {
        labels.name = Box::default();
    }
    caller.db = 0;
    caller.proto = Protocol::Resp2;
    caller.act_as(Identity::of_newcomer(ctx.control.clients.users.users()));
    // CLIENT REPLY SKIP before RESET suppresses the reply of RESET, so the mode stays until that reply.
    if caller.reply != ReplyMode::Skipping {
        caller.reply = ReplyMode::On;
    }
    ctx.reply.simple(b"RESET");
    Ok(Outcome::Done)
}

/// Refuses a client's label (its name or library) that would break a line of CLIENT LIST: blanks, control
/// characters and non-ASCII bytes. Bytes after a zero byte are not shown there, so they are not checked.
/// `what` begins the text of the error.
pub(crate) fn check_label(label: &[u8], what: &[u8]) -> Result<(), CmdError> {
    if until_zero(label).iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    Err(CmdError::owned(
        [b"ERR ", until_zero(what), b" cannot contain spaces, newlines or special characters."].concat(),
    ))
}
