//! SUBSCRIBE and related commands, PUBLISH, SPUBLISH, PUBSUB. Subscriptions are stored in the registry of the
//! crate `subscriptions`; `pubsub/delivery.rs` of the engine sends the messages.

use crate::ctx::{Handler, PubSubCtx, ReportCtx, Route, route};
use sluice_base::glob;
use sluice_command::derive::help;
use sluice_command::specs::pubsub as specs;
use sluice_commands::{Args, CmdError, DataHandler, Outcome, ReplyMode, Run, reply_lines, until_zero};
use sluice_resp::Reply;
use sluice_subscriptions::registry::TopicKind;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::PSUBSCRIBE, Handler::PubSub(|ctx, args| subscribe(ctx, args, TopicKind::Pattern))),
    route(&specs::PUBLISH, Handler::PubSub(|ctx, args| publish(ctx, args, TopicKind::Channel))),
    route(&specs::PUBSUB_CHANNELS, Handler::Report(|ctx, args| channels(ctx, args, TopicKind::Channel))),
    route(
        &specs::PUBSUB_HELP,
        Handler::Data(DataHandler::Static(|ctx, _| {
            reply_lines(&mut ctx.reply, &help::lines(&specs::PUBSUB));
            Ok(Outcome::Done)
        })),
    ),
    route(&specs::PUBSUB_NUMPAT, Handler::Report(numpat)),
    route(&specs::PUBSUB_NUMSUB, Handler::Report(|ctx, args| numsub(ctx, args, TopicKind::Channel))),
    route(&specs::PUBSUB_SHARDCHANNELS, Handler::Report(|ctx, args| channels(ctx, args, TopicKind::Shard))),
    route(&specs::PUBSUB_SHARDNUMSUB, Handler::Report(|ctx, args| numsub(ctx, args, TopicKind::Shard))),
    route(&specs::PUNSUBSCRIBE, Handler::PubSub(|ctx, args| unsubscribe(ctx, args, TopicKind::Pattern))),
    route(&specs::SPUBLISH, Handler::PubSub(|ctx, args| publish(ctx, args, TopicKind::Shard))),
    route(&specs::SSUBSCRIBE, Handler::PubSub(|ctx, args| subscribe(ctx, args, TopicKind::Shard))),
    route(&specs::SUBSCRIBE, Handler::PubSub(|ctx, args| subscribe(ctx, args, TopicKind::Channel))),
    route(&specs::SUNSUBSCRIBE, Handler::PubSub(|ctx, args| unsubscribe(ctx, args, TopicKind::Shard))),
    route(&specs::UNSUBSCRIBE, Handler::PubSub(|ctx, args| unsubscribe(ctx, args, TopicKind::Channel))),
];

fn subscribe(ctx: &mut PubSubCtx<'_>, args: Args<'_>, kind: TopicKind) -> Run {
    if kind == TopicKind::Shard && ctx.caller.flags.in_exec {
        return Err(CmdError::text("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    let word = match kind {
        TopicKind::Channel => "subscribe",
        TopicKind::Pattern => "psubscribe",
        TopicKind::Shard => "ssubscribe",
    };
    for (index, name) in args.iter_from(1).enumerate() {
        ctx.pubsub.subscribe(kind, ctx.key, name);
        confirm(ctx, kind, word, index, Some(name));
    }
    Ok(Outcome::Done)
}

fn unsubscribe(ctx: &mut PubSubCtx<'_>, args: Args<'_>, kind: TopicKind) -> Run {
    let word = match kind {
        TopicKind::Channel => "unsubscribe",
        TopicKind::Pattern => "punsubscribe",
        TopicKind::Shard => "sunsubscribe",
    };
    for (index, name) in args.iter_from(1).enumerate() {
        ctx.pubsub.unsubscribe(kind, ctx.key, name);
        confirm(ctx, kind, word, index, Some(name));
    }
    if args.len() > 1 {
        return Ok(Outcome::Done);
    }
    let all = ctx.pubsub.names_of(kind, ctx.key);
    for (index, name) in all.iter().enumerate() {
        ctx.pubsub.unsubscribe(kind, ctx.key, name);
        confirm(ctx, kind, word, index, Some(name));
    }
    if all.is_empty() {
        confirm(ctx, kind, word, 0, None);
    }
    Ok(Outcome::Done)
}

/// Sends a client the confirmation that a subscription has begun or ended, with the number of the client's
/// subscriptions; shard channels are counted separately. Confirmations are sent even while replies are off,
/// like messages.
///
/// The array of EXEC has one value for each command: the first confirmation, whose `index` is 0. Further
/// confirmations are sent after the array, like messages that the same transaction has published.
fn confirm(ctx: &mut PubSubCtx<'_>, kind: TopicKind, word: &str, index: usize, name: Option<&[u8]>) {
    let subscribed = ctx.pubsub.subscribed(ctx.key);
    ctx.caller.subscribed = subscribed;
    let count = match kind {
        TopicKind::Channel | TopicKind::Pattern => subscribed.channels + subscribed.patterns,
        TopicKind::Shard => subscribed.shards,
    };
    let outbox = match ctx.caller.reply {
        ReplyMode::Off | ReplyMode::Skipping => &mut ctx.pubsub.outgoing.own,
        _ if ctx.caller.flags.in_exec && index > 0 => &mut ctx.pubsub.outgoing.own,
        ReplyMode::On | ReplyMode::SkipNext | ReplyMode::Attaching | ReplyMode::Forbidden => {
            ctx.reply.outbox()
        }
    };
    let mut reply = Reply::new(outbox, ctx.caller.proto);
    reply.push(3);
    reply.bulk(word.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.int(i64::from(count));
}

fn publish(ctx: &mut PubSubCtx<'_>, args: Args<'_>, kind: TopicKind) -> Run {
    let receivers = ctx.pubsub.publish(kind, args.at(1));
    ctx.effects.publish(receivers);
    ctx.reply.int(receivers as i64);
    Ok(Outcome::Done)
}

fn channels(ctx: &mut ReportCtx<'_>, args: Args<'_>, kind: TopicKind) -> Run {
    if args.len() > 3 {
        let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
        text.extend_from_slice(until_zero(args.at(1)));
        text.extend_from_slice(b"'. Try PUBSUB HELP.");
        return Err(CmdError::owned(text));
    }
    let pattern = args.get(2).map(glob::Pattern::new);
    let chosen = |name: &&[u8]| pattern.as_ref().is_none_or(|pattern| pattern.matches(name));
    let deferred = ctx.reply.defer();
    let mut count = 0;
    for name in ctx.control.clients.pubsub.iter(kind).filter(chosen) {
        ctx.reply.bulk(name);
        count += 1;
    }
    ctx.reply.end_array(deferred, count);
    Ok(Outcome::Done)
}

fn numpat(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.int(ctx.control.clients.pubsub.count(TopicKind::Pattern) as i64);
    Ok(Outcome::Done)
}

fn numsub(ctx: &mut ReportCtx<'_>, args: Args<'_>, kind: TopicKind) -> Run {
    ctx.reply.array((args.len() - 2) * 2);
    for name in args.iter_from(2) {
        ctx.reply.bulk(name);
        ctx.reply.int(ctx.control.clients.pubsub.subscriber_count(kind, name) as i64);
    }
    Ok(Outcome::Done)
}
