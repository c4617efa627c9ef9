//! Commands about the server.

pub(crate) mod common;
mod config;
mod debug;
mod flush;
mod hot_keys;
mod latency;
mod log;
mod memory;
mod module;
mod save;
mod shutdown;

use crate::ctx::{Handler, ReportCtx, Route, route};
use crate::families::server::common::view;
use crate::observe::info;
use crate::process::MemoryShown;
use sluice_command::specs::server as specs;
use sluice_commands::{Args, DataHandler, Outcome, Run, reply_help};
use sluice_numbers::facts::Facts;
use sluice_numbers::stats::Stats;
use sluice_replication::LinkState;
use sluice_session::ReplicaState;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::BGREWRITEAOF, Handler::Server(save::bgrewriteaof)),
    route(&specs::BGSAVE, Handler::Server(save::bgsave)),
    route(&specs::COMMANDLOG_GET, Handler::Report(log::get)),
    route(
        &specs::COMMANDLOG_HELP,
        Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::COMMANDLOG))),
    ),
    route(&specs::COMMANDLOG_LEN, Handler::Report(log::len)),
    route(&specs::COMMANDLOG_RESET, Handler::Log(log::reset)),
    route(&specs::CONFIG_GET, Handler::Report(config::get)),
    route(&specs::CONFIG_INFO, Handler::Report(config::info)),
    route(&specs::CONFIG_HELP, Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::CONFIG)))),
    route(&specs::CONFIG_RESETSTAT, Handler::Server(config::resetstat)),
    route(&specs::CONFIG_REWRITE, Handler::Server(config::rewrite)),
    route(&specs::CONFIG_SET, Handler::Server(config::set)),
    route(&specs::DEBUG, Handler::Debug(debug::debug)),
    route(&specs::FLUSHALL, Handler::Dataset(flush::flushall)),
    route(&specs::FLUSHDB, Handler::Dataset(flush::flushdb)),
    route(&specs::HOTKEYS_GET, Handler::Log(hot_keys::get)),
    route(
        &specs::HOTKEYS_HELP,
        Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::HOTKEYS))),
    ),
    route(&specs::HOTKEYS_RESET, Handler::Log(hot_keys::reset)),
    route(&specs::INFO, Handler::Report(info)),
    route(&specs::LASTSAVE, Handler::Report(lastsave)),
    route(&specs::LATENCY_DOCTOR, Handler::Report(latency::doctor)),
    route(&specs::LATENCY_GRAPH, Handler::Report(latency::graph)),
    route(
        &specs::LATENCY_HELP,
        Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::LATENCY))),
    ),
    route(&specs::LATENCY_HISTOGRAM, Handler::Report(latency::histogram)),
    route(&specs::LATENCY_HISTORY, Handler::Report(latency::history)),
    route(&specs::LATENCY_LATEST, Handler::Report(latency::latest)),
    route(&specs::LATENCY_RESET, Handler::Log(latency::reset)),
    route(&specs::MEMORY_DOCTOR, Handler::Report(memory::doctor)),
    route(&specs::MEMORY_HELP, Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::MEMORY)))),
    route(&specs::MEMORY_MALLOC_STATS, Handler::Report(memory::malloc_stats)),
    route(&specs::MEMORY_PURGE, Handler::Server(memory::purge)),
    route(&specs::MEMORY_STATS, Handler::Report(memory::stats)),
    route(&specs::MEMORY_USAGE, Handler::Data(DataHandler::Read(memory::usage))),
    route(&specs::MODULE_HELP, Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::MODULE)))),
    route(&specs::MODULE_LIST, Handler::Data(DataHandler::Static(module::list))),
    route(&specs::MODULE_LOAD, Handler::Data(DataHandler::Static(module::load))),
    route(&specs::MODULE_LOADEX, Handler::Data(DataHandler::Static(module::load))),
    route(&specs::MODULE_UNLOAD, Handler::Data(DataHandler::Static(module::unload))),
    route(&specs::ROLE, Handler::Report(role)),
    route(&specs::SAVE, Handler::Server(save::save)),
    route(&specs::SHUTDOWN, Handler::Server(shutdown::shutdown)),
    route(&specs::SLOWLOG_GET, Handler::Report(log::slow_get)),
    route(
        &specs::SLOWLOG_HELP,
        Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::SLOWLOG))),
    ),
    route(&specs::SLOWLOG_LEN, Handler::Report(log::slow_len)),
    route(&specs::SLOWLOG_RESET, Handler::Log(log::slow_reset)),
    route(&specs::SWAPDB, Handler::Dataset(flush::swapdb)),
];

fn info(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let words = args.iter_from(1).map(sluice_commands::until_zero);
    let memory = match info::shows_memory(words.clone()) {
        true => MemoryShown::After(commands_but_info(ctx.stats)),
        false => MemoryShown::No,
    };
    let facts = ctx.process.facts_for_info(ctx.keyspace, memory);
    let text = info::text(&view(ctx, &facts), words);
    ctx.reply.verbatim(b"txt", &text);
    Ok(Outcome::Done)
}

/// Number of executed commands other than INFO.
fn commands_but_info(stats: &Stats) -> u64 {
    let asked = stats.commands.get(usize::from(specs::INFO.id.0)).map_or(0, |info| info.calls);
    stats.total_commands.wrapping_sub(asked)
}

fn lastsave(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.int(ctx.control.persistence.last_save_s);
    Ok(Outcome::Done)
}

/// The word in ROLE for the state of a link.
fn link_word(link: LinkState) -> &'static str {
    match link {
        LinkState::None => "none",
        LinkState::Connect => "connect",
        LinkState::Connecting => "connecting",
        LinkState::Handshake => "handshake",
        LinkState::Transfer => "sync",
        LinkState::Connected => "connected",
    }
}

fn role(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    if let Some(role) = ctx.control.replication.replica.as_deref() {
        ctx.reply.array(5);
        ctx.reply.bulk(b"slave");
        ctx.reply.bulk(role.primary().host.as_bytes());
        ctx.reply.int(i64::from(role.primary().port));
        ctx.reply.bulk(link_word(role.link.state()).as_bytes());
        ctx.reply.int(if role.session.is_some() { ctx.control.replication.stream.offset as i64 } else { -1 });
        return Ok(Outcome::Done);
    }
    let facts = Facts::default();
    let view = view(ctx, &facts);
    let offset = view.control.replication.stream.offset as i64;
    let replicas: Vec<(String, String, String)> = view
        .replicas()
        .into_iter()
        .filter_map(|session| {
            let replica = session.caller.replica_state().filter(ReplicaState::is_online)?;
            let (ip, port) = session.caller.replica_address();
            Some((ip.to_owned(), port.to_string(), replica.acked.max(0).to_string()))
        })
        .collect();
    ctx.reply.array(3);
    ctx.reply.bulk(b"master");
    ctx.reply.int(offset);
    ctx.reply.array(replicas.len());
    for (ip, port, offset) in replicas {
        ctx.reply.array(3);
        for text in [ip, port, offset] {
            ctx.reply.bulk(text.as_bytes());
        }
    }
    Ok(Outcome::Done)
}
