//! DEBUG: tools for the server's developers and for tests. Subcommands that tests of other servers use
//! are provided if they are meaningful here.

mod cluster;
mod common;
mod load_aof;
mod protocol;
mod reload;
mod restart;

use crate::action::{Action, Crash};
use crate::ctx::DebugCtx;
use crate::families::server::debug::common::{ok, switch, unknown};
use sluice_base::LogLevel;
use sluice_collections::index::IndexStats;
use sluice_command::derive;
use sluice_commands::{Args, CmdError, Outcome, Run, address_of, reply_lines, serialized_len};
use sluice_config::{Force, param};
use sluice_keyspace::NewValue;
use std::fmt::Write;
use std::ops::RangeInclusive;

/// A subcommand of DEBUG with its text in HELP.
struct Sub {
    name: &'static str,
    /// The arguments in the form that HELP shows.
    syntax: &'static str,
    help: &'static str,
    /// Allowed number of arguments, without `DEBUG` and the subcommand's name.
    args: RangeInclusive<usize>,
    run: fn(&mut DebugCtx<'_>, Args<'_>) -> Run,
}

const ANY: usize = usize::MAX;

/// Subcommands that change the data and are therefore refused during a load.
const CHANGE_DATA: [&str; 3] = ["LOADAOF", "POPULATE", "RELOAD"];

/// All subcommands, in the order of HELP.
const SUBS: &[Sub] = &[
    #[cfg(debug_assertions)]
    sub(
        "STAND-STILL",
        "<milliseconds>",
        "For tests: suspends the EXEC in progress after this command for so long.",
        1..=1,
        stand_still,
    ),
    sub(
        "AOF-FLUSH-SLEEP",
        "<microseconds>",
        "Waits so long before each write of the append-only file.",
        1..=1,
        aof_flush_sleep,
    ),
    sub("ASSERT", "", "Ends the process by a failed assertion.", 0..=0, |ctx, _| crash(ctx, Crash::Assert)),
    sub("CHANGE-REPL-ID", "", "Changes the replication id.", 0..=0, change_repl_id),
    sub(
        "CLIENT-ENFORCE-REPLY-LIST",
        "(0|1)",
        "Unauthenticated clients with waiting output are closed.",
        1..=1,
        |ctx, args| {
            ctx.control.debug.enforce_reply_list = switch(args, 2);
            ok(ctx)
        },
    ),
    sub(
        "CONFIG-REWRITE-FORCE-ALL",
        "",
        "CONFIG REWRITE with a line for every parameter.",
        0..=0,
        config_rewrite,
    ),
    sub(
        "CLOSE-CLUSTER-LINK-ON-PACKET-DROP",
        "(0|1)",
        "Whether a dropped message closes its link of the cluster bus.",
        1..=1,
        cluster::close_on_drop,
    ),
    sub(
        "CLUSTERLINK",
        "KILL (TO|FROM|ALL) <node-id>",
        "Closes the links of the cluster bus with a node.",
        3..=3,
        cluster::kill_links,
    ),
    sub(
        "CRASH-AND-RECOVER",
        "[<delay>]",
        "Ends the process at once, and restarts it after a delay in milliseconds.",
        0..=1,
        restart::at_once,
    ),
    sub("DICT-RESIZING", "(0|1)", "Whether the indexes of keys shrink by themselves.", 1..=1, |ctx, args| {
        ctx.control.debug.resizing = switch(args, 2);
        ok(ctx)
    }),
    sub("DIGEST", "", "A fingerprint of all data.", 0..=0, digest_all),
    sub("DIGEST-VALUE", "[<key> ...]", "A fingerprint of each key's value.", 0..=ANY, digest_values),
    sub(
        "DISABLE-CLUSTER-RANDOM-PING",
        "(0|1)",
        "Whether nodes of the cluster are pinged only when that is due.",
        1..=1,
        cluster::disable_random_ping,
    ),
    sub(
        "DISABLE-CLUSTER-RECONNECTION",
        "(0|1)",
        "Whether lost links of the cluster stay lost.",
        1..=1,
        cluster::disable_reconnection,
    ),
    sub(
        "DROP-CLUSTER-PACKET-FILTER",
        "<type>",
        "Drops messages of the cluster bus by type; -2 drops all, -1 none.",
        1..=1,
        cluster::drop_packets,
    ),
    sub("ERROR", "<text>", "Replies with that error.", 1..=1, |ctx, args| {
        // The error is the requested reply and no failure of this command, so it is not counted.
        ctx.reply.error(args.at(2));
        Ok(Outcome::Done)
    }),
    sub("HTSTATS", "<dbid> [full]", "Describes the indexes of a database.", 1..=2, htstats),
    sub("HTSTATS-KEY", "<key> [full]", "Describes the index inside a value.", 1..=2, htstats_key),
    sub("LOADAOF", "", "Loads the append-only file again.", 0..=0, load_aof::load_aof),
    sub("LOG", "<text>", "Writes a line to the log.", 1..=1, log),
    sub("OBJECT", "<key> [fast]", "Shows how a value is stored.", 1..=2, object),
    sub("PANIC", "", "Ends the process by a panic.", 0..=0, |ctx, _| crash(ctx, Crash::Panic)),
    sub("PAUSE-CRON", "(0|1)", "Stops the cron, or resumes it.", 1..=1, |ctx, args| {
        ctx.control.debug.cron_paused = switch(args, 2);
        ok(ctx)
    }),
    sub(
        "POPULATE",
        "<count> [<prefix>] [<size>]",
        "Creates keys `prefix:N` with values of a size; existing keys are kept.",
        1..=3,
        populate,
    ),
    sub("PROTOCOL", "<type>", "Replies with a value of a type of the protocol.", 1..=1, protocol::protocol),
    sub(
        "QUICKLIST-PACKED-THRESHOLD",
        "<size>",
        "Sets the bytes from which an element of a quicklist has a node of its own; 0 is the default.",
        1..=1,
        packed_threshold,
    ),
    sub(
        "RELOAD",
        "[MERGE] [NOFLUSH] [NOSAVE]",
        "Saves the data and loads it again: without saving before, without emptying, with the file's values winning.",
        0..=ANY,
        reload::reload,
    ),
    sub(
        "REPLICATE",
        "<command> [<arg> ...]",
        "Sends replicas a command that this server has not executed: their data differ from then on.",
        1..=ANY,
        |ctx, args| {
            let argv: Vec<&[u8]> = args.iter_from(2).collect();
            ctx.control.replication.stream.command_of_its_own(argv.into_iter());
            ok(ctx)
        },
    ),
    sub("REPLYBUFFER", "(PEAK-RESET-TIME|RESIZING) <value>", "Accepted without effect.", 2..=2, reply_buffer),
    sub(
        "RESTART",
        "[<delay>]",
        "Shuts the server down in good order, and restarts it after a delay in milliseconds.",
        0..=1,
        restart::in_order,
    ),
    sub("SEGFAULT", "", "Ends the process by a fault.", 0..=0, |ctx, _| crash(ctx, Crash::Segfault)),
    sub(
        "SET-ACTIVE-EXPIRE",
        "(0|1)",
        "Whether expired keys are deleted before a command meets them.",
        1..=1,
        |ctx, args| {
            ctx.control.debug.active_expire = switch(args, 2);
            ok(ctx)
        },
    ),
    sub(
        "SET-DISABLE-DENY-SCRIPTS",
        "(0|1)",
        "Whether scripts may call commands that are not for scripts.",
        1..=1,
        |ctx, args| {
            ctx.control.debug.scripts_call_all = switch(args, 2);
            ok(ctx)
        },
    ),
    sub(
        "SET-SKIP-CHECKSUM-VALIDATION",
        "(0|1)",
        "Whether RESTORE takes payloads with a wrong checksum.",
        1..=1,
        |ctx, args| {
            ctx.control.debug.skip_checksum = switch(args, 2);
            ctx.control.apply_limits();
            ok(ctx)
        },
    ),
    sub(
        "SLOTMIGRATION",
        "(PREVENT-FAILOVER|PREVENT-PAUSE) (0|1)",
        "Whether slot migrations wait: at the target before the takeover, at the source before the pause.",
        2..=2,
        cluster::hold_moves,
    ),
    sub("SLEEP", "<seconds>", "Stops the server for a time, fractions allowed.", 1..=1, sleep),
    sub("HELP", "", "Explains the subcommands.", 0..=0, help),
];

/// DEBUG STAND-STILL, for tests: suspends the EXEC in progress after this command.
#[cfg(debug_assertions)]
fn stand_still(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    if !ctx.session.caller.flags.in_exec {
        return Err(CmdError::text("ERR DEBUG STAND-STILL is for EXEC"));
    }
    let ms = u64::try_from(args.int(2)?).unwrap_or(0);
    ctx.control.debug.stand_still_ns = Some(ms.saturating_mul(1_000_000));
    ok(ctx)
}

const fn sub(
    name: &'static str,
    syntax: &'static str,
    help: &'static str,
    args: RangeInclusive<usize>,
    run: fn(&mut DebugCtx<'_>, Args<'_>) -> Run,
) -> Sub {
    Sub { name, syntax, help, args, run }
}

pub(super) fn debug(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let found = SUBS.iter().find(|sub| args.is(1, sub.name) && sub.args.contains(&(args.len() - 2)));
    match found {
        // The load would overwrite the changes made to the keyspace.
        Some(sub) if ctx.control.persistence.load.is_some() && CHANGE_DATA.contains(&sub.name) => {
            Err(CmdError::LOADING)
        }
        Some(sub) => (sub.run)(ctx, args),
        None => Err(unknown(args)),
    }
}

fn help(ctx: &mut DebugCtx<'_>, _: Args<'_>) -> Run {
    let syntaxes: Vec<String> =
        SUBS.iter().map(|sub| format!("{} {}", sub.name, sub.syntax).trim_end().to_owned()).collect();
    let entries: Vec<(&str, &str)> =
        syntaxes.iter().zip(SUBS).map(|(syntax, sub)| (syntax.as_str(), sub.help)).collect();
    reply_lines(&mut ctx.reply, &derive::help::frame("debug", &entries));
    Ok(Outcome::Done)
}

fn crash(ctx: &mut DebugCtx<'_>, how: Crash) -> Run {
    ctx.actions.push(Action::Crash(how));
    Ok(Outcome::Done)
}

fn aof_flush_sleep(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    // Anything except a positive number means no delay, as in the reference.
    let microseconds = args.int(2).ok().and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    ctx.actions.push(Action::DelayAof(microseconds));
    ok(ctx)
}

fn change_repl_id(ctx: &mut DebugCtx<'_>, _: Args<'_>) -> Run {
    ctx.control.replication.stream.earlier = None;
    ctx.control.replication.stream.replid = sluice_base::hex(&ctx.process.entropy());
    ctx.process.log(LogLevel::Notice, "Changing replication IDs after receiving change-repl-id");
    ok(ctx)
}

fn config_rewrite(ctx: &mut DebugCtx<'_>, _: Args<'_>) -> Run {
    super::config::rewrite_file(ctx.control, ctx.process, Force::All)?;
    ok(ctx)
}

fn sleep(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let seconds = sluice_base::num::parse_f64(args.at(2)).unwrap_or(0.0);
    // The cast of a negative or too large number saturates.
    ctx.process.sleep((seconds * 1e6) as u64);
    ok(ctx)
}

fn log(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let line = format!("DEBUG LOG: {}", String::from_utf8_lossy(args.at(2)));
    ctx.process.log(LogLevel::Warning, &line);
    ok(ctx)
}

fn packed_threshold(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let bytes = sluice_config::memory(args.at(2)).and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| *bytes <= PACKED_THRESHOLD_MAX);
    ctx.control.debug.packed_threshold = bytes
        .ok_or(CmdError::text("ERR argument must be a memory value bigger than 1 and smaller than 4gb"))?;
    ctx.control.apply_limits();
    ok(ctx)
}

/// Largest accepted threshold, in bytes: 4 GiB minus 1 MiB.
const PACKED_THRESHOLD_MAX: usize = (1 << 32) - (1 << 20);

fn reply_buffer(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    if args.is(2, "PEAK-RESET-TIME") && !args.is(3, "NEVER") && !args.is(3, "RESET") {
        args.int(3)?;
    } else if !args.is(2, "PEAK-RESET-TIME") && !args.is(2, "RESIZING") {
        return Err(unknown(args));
    }
    ok(ctx)
}

fn htstats_key(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let key = ctx.data.keyspace().key(args.at(2));
    let found = ctx.data.keyspace().db(ctx.session.caller.db).find(key);
    found.ok_or(CmdError::NoSuchKey)?;
    Err(CmdError::text("ERR The value stored at the specified key is not represented using an hash table"))
}

fn htstats(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let number = args.int(2)?;
    let number = usize::try_from(number).ok().filter(|n| *n < ctx.data.databases());
    let number = number.ok_or(CmdError::text("ERR Out of range database"))?;
    let detail = if args.is(3, "full") { Detail::Full } else { Detail::Short };
    let db = ctx.data.keyspace().db(number);
    let mut text = String::from("[Dictionary HT]\n");
    describe(&db.index_stats(), detail, &mut text);
    text.push_str("[Expires HT]\n");
    describe(&db.expires_stats(), detail, &mut text);
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Short,
    Full,
}

/// Describes the combined indexes of one kind in the reference's words. The indexes grow bucket by bucket
/// and never have two tables, so the rehashing index is always -1.
fn describe(stats: &IndexStats, detail: Detail, text: &mut String) {
    if stats.used == 0 {
        return;
    }
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "Hash table 0 stats (main hash table):\n table size: {}\n number of entries: {}\n rehashing index: -1\n",
        stats.lanes, stats.used
    );
    if detail == Detail::Short {
        return;
    }
    let longest = stats.chain_max.saturating_sub(1);
    let mean = stats.overflow_buckets as f64 / stats.buckets.max(1) as f64;
    let _ = write!(
        text,
        " top-level buckets: {}\n child buckets: {}\n max chain length: {longest}\n avg chain length: {mean:.6}\n \
         chain length distribution:\n",
        stats.buckets, stats.overflow_buckets
    );
    for (length, count) in stats.chains.iter().enumerate().filter(|(_, count)| **count > 0) {
        let share = *count as f64 * 100.0 / stats.buckets.max(1) as f64;
        let _ = writeln!(text, "   {length}: {count} ({share:.2}%)");
    }
}

fn object(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let keyspace = ctx.data.keyspace();
    let db = keyspace.db(ctx.session.caller.db);
    let found = db.find(keyspace.key(args.at(2))).ok_or(CmdError::NoSuchKey)?;
    let entry = db.entry(found.handle);
    let mut text =
        format!("Value at:{:p} refcount:1 encoding:{}", address_of(entry), entry.encoding().name());
    if !args.is(3, "fast") {
        let list_fill = ctx.control.config.int(param::LIST_MAX_LISTPACK_SIZE) as i32;
        let _ = write!(text, " serializedlength:{}", serialized_len(entry.value(), list_fill));
    }
    let clock = entry.clock();
    let now = ctx.now.unix_s() as u32 & sluice_keyspace::CLOCK_MASK;
    let idle = now.wrapping_sub(clock) & sluice_keyspace::CLOCK_MASK;
    let _ = write!(text, " lru:{clock} lru_seconds_idle:{idle}");
    ctx.reply.simple(text.as_bytes());
    Ok(Outcome::Done)
}

fn populate(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let positive = |index| -> Result<usize, CmdError> {
        let number = args.int(index).ok().and_then(|n| usize::try_from(n).ok());
        number.ok_or(CmdError::text("ERR value is out of range, must be positive"))
    };
    let count = positive(2)?;
    let prefix = args.get(3).unwrap_or(b"key");
    let size = if args.len() == 5 { Some(positive(4)?) } else { None };
    if size.is_some_and(|size| size > ctx.control.limits.proto_max_bulk_len) {
        return Err(CmdError::StringTooLong);
    }
    let number = ctx.session.caller.db;
    let (mut name, mut value) = (Vec::new(), Vec::new());
    for n in 0..count {
        name.clear();
        name.extend_from_slice(prefix);
        name.push(b':');
        sluice_base::num::push_u64(&mut name, n as u64);
        if ctx.data.keyspace().is_nearly_full(number) {
            return Err(CmdError::NO_ENTRY_SPACE);
        }
        let mut db = ctx.data.db(number);
        let key = db.key(&name);
        value.clear();
        value.extend_from_slice(b"value:");
        sluice_base::num::push_u64(&mut value, n as u64);
        if let Some(size) = size.filter(|size| *size > 0) {
            value.resize(size, 0);
        }
        // The keys are for tests of this server only, so they are not sent to replicas and not
        // counted as changes.
        db.populate(key, NewValue::Str(&value));
    }
    ok(ctx)
}

/// DEBUG DIGEST: the digest of all data.
fn digest_all(ctx: &mut DebugCtx<'_>, _: Args<'_>) -> Run {
    let digest = sluice_commands::digest(ctx.data.keyspace(), ctx.now);
    ctx.reply.simple(sluice_base::hex(&digest).as_bytes());
    Ok(Outcome::Done)
}

/// DEBUG DIGEST-VALUE: the digests of keys; zeros for a missing key.
fn digest_values(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    ctx.reply.array(args.len() - 2);
    let keyspace = ctx.data.keyspace();
    let db = keyspace.db(ctx.session.caller.db);
    for name in args.iter_from(2) {
        let found = db.find(keyspace.key(name));
        let digest =
            found.map_or([0; 20], |found| sluice_commands::digest_of(db.entry(found.handle), ctx.now));
        ctx.reply.simple(sluice_base::hex(&digest).as_bytes());
    }
    Ok(Outcome::Done)
}
