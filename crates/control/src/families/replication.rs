//! Commands that a replica sends to its primary (SYNC, PSYNC and REPLCONF), and WAIT and WAITAOF.
//!
//! A replica is a client that has requested the data. It receives a snapshot, then the stream; its
//! later commands get no reply. A replica that reconnects continues at its offset if the backlog reaches back
//! to that offset.

use crate::action::Action;
use crate::cluster::mode::ClusterMode;
use crate::ctx::{Handler, Route, ServerCtx, route};
use crate::families::replica::asked_by;
use crate::replication::acks::{aof_replicas_at, replicas_at};
use crate::replication::role::RoleWanted;
use crate::replication::waitaof::{AOF_IS_OFF, reply_waitaof};
use sluice_base::LogLevel;
use sluice_base::num::parse_i64;
use sluice_base::quote::{Dialect, split_args};
use sluice_base::{Now, hex};
use sluice_cluster::NodeId;
use sluice_command::specs::{generic, server as specs};
use sluice_commands::{Args, CmdError, LocalWait, Outcome, ReplyMode, Run, WaitFor, until_zero};
use sluice_config::param;
use sluice_replication::ReplicationStream;
use sluice_replication::SyncGreeting;
use sluice_session::{Announced, ClientKind, ReplicaState, SyncStage};

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::PSYNC, Handler::Server(psync)),
    route(&specs::REPLCONF, Handler::Server(replconf)),
    route(&specs::SYNC, Handler::Server(sync)),
    route(&generic::WAIT, Handler::Server(wait)),
    route(&generic::WAITAOF, Handler::Server(waitaof)),
];

fn psync(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    if ctx.session.caller.replica.is_some() {
        return Ok(Outcome::Done);
    }
    if args.len() > 3 && args.is(3, "FAILOVER") {
        return take_over(ctx, args);
    }
    if is_handed_over_later(ctx, args) {
        return Ok(Outcome::WaitSince(Box::new(WaitFor::Pause), Vec::new()));
    }
    let wanted = args.int(2)?;
    check_may_synchronise(ctx)?;
    let name = ctx.session.caller.replica_name();
    ctx.process.log(LogLevel::Notice, &format!("Replica {name} asks for synchronization"));
    match ctx.control.replication.stream.continues(args.at(1), wanted) {
        Ok(offset) => go_on(ctx, offset),
        Err(reason) => {
            if let Some(reason) = reason {
                let text = format!(
                    "Partial resynchronization not accepted: {reason}. Replica {name} gets a full sync."
                );
                ctx.process.log(LogLevel::Notice, &text);
            }
            ctx.stats.syncs.partial_err += u64::from(!args.at(1).starts_with(b"?"));
            match wants_dual_channel(ctx) {
                true => ctx.reply.raw(b"+DUALCHANNELSYNC\r\n"),
                false => synchronise(ctx, SyncGreeting::Full),
            }
        }
    }
    Ok(Outcome::Done)
}

/// Handles PSYNC FAILOVER, with which this server's primary hands its role over. This server is promoted,
/// and then PSYNC runs again to make the old primary a replica.
fn take_over(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let replid = String::from_utf8_lossy(args.at(1)).into_owned();
    let shown = replid.escape_debug();
    ctx.process.log(LogLevel::Notice, &format!("Failover request received for replid {shown}."));
    if ctx.control.replication.replica.is_none() {
        return Err(CmdError::text("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if !replid.eq_ignore_ascii_case(&ctx.control.replication.stream.replid) {
        return Err(CmdError::text("ERR PSYNC FAILOVER replid must match my replid."));
    }
    let has_been_up = ctx.control.replication.replica.as_ref().is_some_and(|role| role.has_been_up());
    let next = args.int(2).ok().and_then(|next| u64::try_from(next).ok()).unwrap_or(0);
    if !has_been_up && next > ctx.control.replication.stream.offset.saturating_add(1) {
        // A crash of this replica has lost data that it had acknowledged to the primary; if it took over now,
        // the data would be lost for good.
        return Err(CmdError::text("ERR PSYNC FAILOVER asks for data that this replica does not have."));
    }
    let by = asked_by(ctx, "failover");
    ctx.control.replication.role_wanted = Some(RoleWanted { primary: None, by, keeps_data: true });
    ctx.control.replication.failover_asked = true;
    Ok(Outcome::WaitSince(Box::new(WaitFor::Pause), vec![(HANDED_OVER, Vec::new())]))
}

/// Whether PSYNC FAILOVER has to wait again, because this server's promotion still waits for the end of a
/// load. The waiting client is released at the end of any pause, which may be before the promotion. If this
/// server answered as a replica, the old primary would give up the failover, and both would be primaries.
fn is_handed_over_later(ctx: &ServerCtx<'_>, args: Args<'_>) -> bool {
    args.len() > HANDED_OVER && args.at(HANDED_OVER).is_empty() && ctx.control.replication.failover_asked
}

/// Index of the argument of `PSYNC ... FAILOVER` that is set empty for the second run.
const HANDED_OVER: usize = 3;

/// Whether a replica in need of a full synchronisation should receive the snapshot on another connection.
fn wants_dual_channel(ctx: &mut ServerCtx<'_>) -> bool {
    let announced = ctx.session.caller.origin.announced.as_deref();
    let is_able = announced.is_some_and(|announced| announced.dual_channel && !announced.rdb_channel);
    let is_enabled = is_able && ctx.control.config.bool(param::DUAL_CHANNEL_REPLICATION_ENABLED);
    if is_enabled && !ctx.control.config.bool(param::REPL_DISKLESS_SYNC) {
        let text = "Dual channel capability ignored: repl-diskless-sync disabled";
        ctx.process.log(LogLevel::Notice, text);
        return false;
    }
    is_enabled
}

fn sync(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    if ctx.session.caller.replica.is_none() {
        check_may_synchronise(ctx)?;
        let announced = ctx.session.caller.origin.announced.as_deref();
        let greeting = match announced.is_some_and(|announced| announced.rdb_channel) {
            true => SyncGreeting::EndOffset,
            false => SyncGreeting::None,
        };
        synchronise(ctx, greeting);
    }
    Ok(Outcome::Done)
}

fn check_may_synchronise(ctx: &mut ServerCtx<'_>) -> Result<(), CmdError> {
    // Until the target is asked to take over, a disconnected replica may reconnect, because it may be the
    // target.
    if ctx.control.replication.failover.as_ref().is_some_and(|failover| failover.is_in_progress) {
        return Err(CmdError::text("NOMASTERLINK Can't SYNC while failing over"));
    }
    if ctx.control.replication.replica.as_ref().is_some_and(|role| !role.is_up()) {
        return Err(CmdError::text("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    let announced = ctx.session.caller.origin.announced.as_deref();
    if announced.is_some_and(|announced| announced.without_keys && !announced.eof) {
        return Err(CmdError::text("ERR Filtered replica requires EOF capability"));
    }
    if ctx.reply.outbox().len() + ctx.session.in_flight > 0 {
        return Err(CmdError::text("ERR SYNC and PSYNC are invalid with pending output"));
    }
    Ok(())
}

/// Makes the client a replica in this stage.
fn become_replica(ctx: &mut ServerCtx<'_>, stage: SyncStage, sends_acks: bool) {
    let acked_s = ctx.now.unix_s();
    let announced = ctx.session.caller.origin.announced.as_deref();
    let awaits_ack =
        stage == SyncStage::Wanted && announced.is_some_and(|announced| announced.eof && !announced.rdb_only);
    if ctx.control.config.bool(param::REPL_DISABLE_TCP_NODELAY) {
        ctx.actions.push(Action::FillPackets(ctx.session.key));
    }
    let caller = &mut ctx.session.caller;
    caller.kind = ClientKind::Replica;
    caller.reply = ReplyMode::Attaching;
    caller.replica = Some(Box::new(ReplicaState {
        snapshot_queued: 0,
        acked: sluice_session::NOT_ACKED,
        acked_s,
        stage,
        awaits_ack,
        sends_acks,
        next: u64::MAX,
        acked_aof: 0,
        spool: None,
        is_main_channel: false,
        superseded_at: None,
        superseded_s: 0,
    }));
}

/// Marks the earlier connections of a replica that has connected again, because this server may not have
/// noticed their end. From now on an earlier connection counts as a replica only if it acknowledges more than
/// the present end of the stream. Otherwise the replica would count twice, and a crash of the replica may
/// have lost data that it acknowledged on the earlier connection.
fn supersede(ctx: &mut ServerCtx<'_>) {
    let (end, now_s) = (ctx.control.replication.stream.offset, ctx.now.unix_s());
    let caller = &ctx.session.caller;
    if !caller.supersedes() {
        return;
    }
    let (ip, port) = caller.replica_address();
    ctx.control.replication.count_good_replicas = true;
    for key in ctx.control.replicas() {
        let Some(earlier) = ctx.sessions.get_mut(key) else { continue };
        if earlier.caller.is_reached_at(ip, port)
            && let Some(replica) = &mut earlier.caller.replica
        {
            replica.superseded_at = replica.superseded_at.max(Some(end));
            replica.superseded_s = now_s;
        }
    }
}

/// Continues a reconnected replica at this offset of the history.
fn go_on(ctx: &mut ServerCtx<'_>, offset: u64) {
    supersede(ctx);
    become_replica(ctx, SyncStage::Online, true);
    let stream = &mut ctx.control.replication.stream;
    let knows_ids = ctx.session.caller.origin.announced.as_deref().is_some_and(|announced| announced.psync2);
    match knows_ids {
        true => ctx.reply.raw(format!("+CONTINUE {}\r\n", stream.replid).as_bytes()),
        false => ctx.reply.raw(b"+CONTINUE\r\n"),
    }
    let bytes = stream.offset - offset;
    let rdb_client =
        ctx.session.caller.origin.announced.as_deref().and_then(|announced| announced.rdb_client);
    let before = stream.reserved.len();
    stream.reserved.retain(|reserved| Some(reserved.client.0) != rdb_client);
    if let Some(replica) = &mut ctx.session.caller.replica {
        replica.next = offset;
        replica.is_main_channel = stream.reserved.len() < before;
    }
    stream.attach_within(ctx.session.key);
    ctx.stats.syncs.partial_ok += 1;
    let name = ctx.session.caller.replica_name();
    let text = format!(
        "Partial resynchronization request from {name} accepted. Sending {bytes} bytes of backlog starting from offset {}.",
        offset + 1
    );
    ctx.process.log(LogLevel::Notice, &text);
}

/// Begins a full synchronisation of a replica.
fn synchronise(ctx: &mut ServerCtx<'_>, greeting: SyncGreeting) {
    let name = ctx.session.caller.replica_name();
    // A new history begins together with the backlog. Data written while there was no backlog is in no
    // history, so a former replica that continued at its old offset would lack that data.
    if !ctx.control.replication.stream.has_begun() {
        let replid = hex(&ctx.process.entropy());
        ctx.control.replication.stream.begin(replid);
    }
    if greeting == SyncGreeting::Full {
        ctx.process.log(LogLevel::Notice, &format!("Full resync requested by replica {name}"));
    }
    supersede(ctx);
    become_replica(ctx, SyncStage::Wanted, greeting == SyncGreeting::Full);
    ctx.control.replication.full_syncs.want(ctx.session.key, greeting, ctx.now.mono_ns);
    log_delay(ctx);
}

/// Logs the delay of a diskless full synchronisation, during which the replica receives nothing.
fn log_delay(ctx: &mut ServerCtx<'_>) {
    let config = &ctx.control.config;
    let delay_s = config.int(param::REPL_DISKLESS_SYNC_DELAY);
    let max = usize::try_from(config.int(param::REPL_DISKLESS_SYNC_MAX_REPLICAS)).unwrap_or(0);
    let is_full = max > 0 && ctx.control.replication.full_syncs.wanted.len() >= max;
    let announced = ctx.session.caller.origin.announced.as_deref();
    let takes_mark = announced.is_some_and(|announced| announced.eof);
    if delay_s > 0 && config.bool(param::REPL_DISKLESS_SYNC) && takes_mark && !is_full {
        let text = format!(
            "Delay next BGSAVE for diskless SYNC: replicas that ask within {delay_s} seconds share it \
             (repl-diskless-sync-delay)"
        );
        ctx.process.log(LogLevel::Notice, &text);
    }
}

fn replconf(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    if args.len().is_multiple_of(2) {
        return Err(CmdError::Syntax);
    }
    for i in (1..args.len()).step_by(2) {
        if args.is(i, "ACK") {
            let aof = (i + 3 < args.len() && args.is(i + 2, "FACK")).then(|| args.at(i + 3));
            acknowledge(ctx, args.at(i + 1), aof);
            return Ok(Outcome::Done);
        }
        // GETACK is obeyed if it comes from this server's primary, and ignored if it comes from any other
        // client.
        if args.is(i, "GETACK") {
            if let Some(role) =
                ctx.control.replication.replica.as_mut().filter(|_| ctx.session.caller.is_primary())
            {
                role.ask_ack();
            }
            return Ok(Outcome::Done);
        }
        let announced = ctx.session.caller.origin.announced.get_or_insert_default();
        let cluster = ctx.control.cluster.as_deref();
        announce(announced, &ctx.control.replication.stream, cluster, args, i)?;
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn wait(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    if ctx.control.replication.replica.is_some() {
        return Err(CmdError::WAIT_ON_REPLICA);
    }
    let count = args.int(1)?;
    let deadline_ms = timeout_ms(args.at(2), ctx.now)?;
    let offset = ctx.session.caller.write_offset;
    let acknowledged = replicas_at(ctx.control, ctx.sessions, offset);
    if acknowledged >= count || !ctx.may_wait {
        ctx.reply.int(acknowledged);
        return Ok(Outcome::Done);
    }
    Ok(Outcome::Wait(Box::new(WaitFor::Replicas { count, offset, local: None, deadline_ms })))
}

fn waitaof(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let waits_here = match args.int(1)? {
        0 => false,
        1 => true,
        _ => return Err(CmdError::text("ERR value is out of range, value must between 0 and 1")),
    };
    let count = args.int(2).ok().filter(|count| *count >= 0);
    let count = count.ok_or(CmdError::text("ERR value is out of range, must be positive"))?;
    let deadline_ms = timeout_ms(args.at(3), ctx.now)?;
    if ctx.control.replication.replica.is_some() {
        return Err(CmdError::WAITAOF_ON_REPLICA);
    }
    if waits_here && !ctx.control.wants_aof() {
        return Err(AOF_IS_OFF);
    }
    let position = ctx.session.durable_at;
    let is_durable = ctx.control.is_kept(position);
    let offset = ctx.session.caller.write_offset;
    let acknowledged = aof_replicas_at(ctx.control, ctx.sessions, offset);
    if (is_durable || !waits_here) && acknowledged >= count || !ctx.may_wait {
        reply_waitaof(&mut ctx.reply, is_durable, acknowledged);
        return Ok(Outcome::Done);
    }
    let local = Some(LocalWait { position, is_awaited: waits_here });
    Ok(Outcome::Wait(Box::new(WaitFor::Replicas { count, offset, local, deadline_ms })))
}

/// Converts a timeout in milliseconds to its end, in ms of the monotonic clock; 0 means never.
fn timeout_ms(text: &[u8], now: Now) -> Result<u64, CmdError> {
    let timeout =
        parse_i64(text).ok_or(const { CmdError::text("ERR timeout is not an integer or out of range") })?;
    let timeout = u64::try_from(timeout).map_err(|_| CmdError::text("ERR timeout is negative"))?;
    // The bound is that of the reference, which uses the wall clock.
    if timeout > i64::MAX.saturating_sub(now.unix_ms()).unsigned_abs() {
        return Err(CmdError::text("ERR timeout is out of range"));
    }
    Ok(if timeout == 0 { 0 } else { (now.mono_ns / 1_000_000).saturating_add(timeout) })
}

fn acknowledge(ctx: &mut ServerCtx<'_>, offset: &[u8], aof: Option<&[u8]>) {
    let name = ctx.session.caller.replica_name();
    let Some(replica) = &mut ctx.session.caller.replica else { return };
    let Some(offset) = parse_i64(offset) else { return };
    let was_online = replica.is_online();
    // Acknowledgements sent before the whole snapshot was queued do not confirm the snapshot.
    replica.awaits_ack &= replica.stage != SyncStage::Online;
    replica.is_main_channel = false;
    replica.acked = replica.acked.max(offset);
    if let Some(aof) = aof.and_then(parse_i64) {
        replica.acked_aof = replica.acked_aof.max(aof);
    }
    replica.acked_s = ctx.now.unix_s();
    if !was_online && replica.is_online() {
        ctx.process.log(LogLevel::Notice, &format!("Synchronization with replica {name} succeeded"));
        ctx.control.replication.count_good_replicas = true;
    }
    ctx.control.replication.stream.mark_pending();
    ctx.control.clients.blocking.replica_acknowledged();
}

/// Stores the announcement of the option at index `i`.
fn announce(
    announced: &mut Announced,
    stream: &ReplicationStream,
    cluster: Option<&ClusterMode>,
    args: Args<'_>,
    i: usize,
) -> Result<(), CmdError> {
    let value = args.at(i + 1);
    // The reference ends texts at a zero byte.
    let text = until_zero(value);
    if args.is(i, "LISTENING-PORT") {
        announced.port = args.int(i + 1)? as i32;
    } else if args.is(i, "IP-ADDRESS") {
        if value.len() > ADDRESS_LEN_MAX {
            let len = value.len();
            let text =
                format!("ERR REPLCONF ip-address provided by replica instance is too long: {len} bytes");
            return Err(CmdError::owned(text));
        }
        // The address is shown between commas in INFO, and in the log.
        if !text.iter().all(|byte| byte.is_ascii_graphic() && *byte != b',') {
            return Err(CmdError::text("ERR REPLCONF ip-address provided by replica instance is no address"));
        }
        announced.ip = String::from_utf8_lossy(text).into();
    } else if args.is(i, "CAPA") {
        // Unknown capabilities are ignored, because newer replicas may announce them.
        announced.eof |= args.is(i + 1, "EOF");
        announced.psync2 |= args.is(i + 1, "PSYNC2");
        announced.dual_channel |= args.is(i + 1, "DUAL-CHANNEL");
        announced.skips_checksum |= args.is(i + 1, "SKIP-RDB-CHECKSUM");
        announced.lz4 |= args.is(i + 1, "LZ4");
        announced.zstd |= args.is(i + 1, "ZSTD");
    } else if args.is(i, "VERSION") {
        let unknown = || CmdError::owned([b"ERR Unrecognized version format: ", text].concat());
        announced.version = parse_version(text).ok_or_else(unknown)?;
    } else if args.is(i, "RDB-ONLY") {
        announced.rdb_only = switch(args, i + 1)?;
    } else if args.is(i, "RDB-FILTER-ONLY") {
        check_filter(value)?;
        announced.without_keys = true;
    } else if args.is(i, "RDB-CHANNEL") {
        announced.rdb_channel = switch(args, i + 1)?;
    } else if args.is(i, "SET-RDB-CLIENT-ID") {
        let id = args.int(i + 1)?;
        let known = stream
            .reserved
            .iter()
            .map(|reserved| reserved.client.0)
            .find(|known| u64::try_from(id) == Ok(*known));
        let unknown = || CmdError::owned(format!("ERR Unrecognized RDB client id {id}"));
        announced.rdb_client = Some(known.ok_or_else(unknown)?);
    } else if args.is(i, "SET-CLUSTER-NODE-ID") {
        let mode = cluster.ok_or(CmdError::NO_CLUSTER)?;
        let unknown = || CmdError::owned([b"ERR Unknown node ", text].concat());
        let id = NodeId::parse(text).ok_or_else(unknown)?;
        // The id is stored even if this node does not know it and replies with an error, because the
        // replica sends its id only once, and gossip may introduce the node later (M12).
        announced.node_id = Some(id.to_string().into());
        mode.machine.offset(&id).ok_or_else(unknown)?;
    } else {
        return Err(CmdError::owned(
            [b"ERR Unrecognized REPLCONF option: ", until_zero(args.at(i))].concat(),
        ));
    }
    Ok(())
}

fn switch(args: Args<'_>, index: usize) -> Result<bool, CmdError> {
    match args.int(index)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(CmdError::text("ERR value is out of range, value must between 0 and 1")),
    }
}

/// Checks the filter of a snapshot: only functions may be requested, never keys.
fn check_filter(text: &[u8]) -> Result<(), CmdError> {
    let words = split_args(text, Dialect::Config)
        .map_err(|_| CmdError::text("ERR Missing rdb-filter-only values"))?;
    match words.iter().find(|word| !word.eq_ignore_ascii_case(b"functions")) {
        Some(word) => Err(CmdError::owned([b"ERR Unsupported rdb-filter-only option: ", &word[..]].concat())),
        None => Ok(()),
    }
}

/// Parses three numbers below 256, separated by dots.
fn parse_version(text: &[u8]) -> Option<u32> {
    let mut parts = text.split(|byte| *byte == b'.');
    let mut version = 0;
    for _ in 0..3 {
        let part = parse_i64(parts.next()?)?;
        version = version << 8 | u32::from(u8::try_from(part).ok()?);
    }
    parts.next().is_none().then_some(version)
}

/// Longest address that a replica may announce, in bytes.
const ADDRESS_LEN_MAX: usize = 255;
