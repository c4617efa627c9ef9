//! Full synchronisation: a replica is sent a snapshot, then the replication stream.
//!
//! ```text
//!  SYNC, PSYNC ──► wanted ──end of the iteration, no job, no snapshot unread: cut──► sending ──last piece queued──► streaming
//!                     └── a newline each second, so that the replica does not give up
//! ```
//!
//! A job of `background.rs` makes the snapshot from a cut (all entries as they are at one moment), on a
//! thread of the server. Pieces of the snapshot are taken while the job makes it ([`SnapshotPieces`]).
//!
//! Invariants: (1) there is one snapshot at a time: it begins when no replica reads an earlier one and no
//! other job writes in the background, and all replicas that have asked by then share it, so any number of
//! clients that ask for a snapshot and do not read it cost one snapshot; (2) a snapshot is queued piece by
//! piece, a few pieces ahead of the replica, so that progress shows, and the job does not wait for replicas;
//! (3) a replica that makes no progress for `repl-timeout` is closed; (4) until the snapshot is sent, the
//! stream from the cut on waits in the backlog or on disk; (5) a replica that reads a snapshot up to an end
//! mark (capability `eof`) is sent the snapshot while it is made, and a replica that needs the length in
//! advance is sent the snapshot when it is whole; if the producer of the snapshot waits for all replicas, a
//! replica that needs the length is closed at once, because it and the producer would wait for each other.

use crate::core::Core;
use crate::persistence::background::Jobs;
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_base::StreamPosition;
use sluice_base::mistake::{self, Mistake};
use sluice_base::{ClientId, Now, hex};
use sluice_config::choice::ReplCompression;
use sluice_config::param;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::{Process, SaveError};
use sluice_control::{ClientRelations, Control, ReplicationState};
use sluice_persist::rdb::{CompressionMethod, Version, WriteOptions};
use sluice_replication::ReplicationStream;
use sluice_replication::SnapshotPieces;
use sluice_replication::{Feed, FeedSource, SyncGreeting, SyncRequest};
use sluice_session::replica_feed::{FeedResult, StreamTaken};
use sluice_session::{Announced, Closing, Medium, Session, SyncStage};
use sluice_snapshot::{RdbAux, SnapshotFile};

/// Version of the snapshot format that a replica can read.
fn version_for(announced: &Announced) -> Version {
    // A replica that reads up to a mark is recent, but only versions from 9.0 on know our version of the
    // format, and announce their own. A client that reads no mark gets our version.
    let is_older = announced.eof && announced.version < VERSION_9;
    if is_older { Version::Common } else { Version::Valkey }
}

/// The best compression that `repl-compression` allows and all these replicas read. If a replica needs the
/// length in advance, the snapshot is not compressed.
fn codec_for(allowed: ReplCompression, all: &[Announced]) -> Option<CompressionMethod> {
    let reads = |announced: &Announced, codec| match codec {
        CompressionMethod::Lz4 => announced.eof && announced.lz4,
        CompressionMethod::Zstd => announced.eof && announced.zstd,
    };
    let codecs: &[CompressionMethod] = match allowed {
        ReplCompression::No => &[],
        ReplCompression::Yes | ReplCompression::Lz4 => &[CompressionMethod::Lz4],
        ReplCompression::Zstd => &[CompressionMethod::Zstd, CompressionMethod::Lz4],
    };
    codecs.iter().copied().find(|codec| all.iter().all(|announced| reads(announced, *codec)))
}

/// Log line for a replica to which the whole snapshot was queued. "Synchronization … succeeded" is logged
/// once for each replica. For a replica that reads up to a mark, or has a separate connection for the
/// stream, it is not logged here, but when the replica acknowledges.
fn line_at_the_end(session: &Session) -> Option<String> {
    let (replica, name) = (session.caller.replica_state()?, session.caller.replica_name());
    match session.caller.origin.announced.as_deref() {
        Some(announced) if announced.rdb_channel => None,
        Some(announced) if announced.rdb_only => {
            Some(format!("RDB transfer completed, rdb only replica ({name}) should be disconnected asap"))
        }
        Some(_) | None if replica.is_online() => {
            Some(format!("Synchronization with replica {name} succeeded"))
        }
        Some(_) | None => Some(format!(
            "Streamed RDB transfer with replica {name} succeeded (socket). Waiting for REPLCONF ACK from replica to enable streaming"
        )),
    }
}

/// Steps of the snapshots that replicas are sent.
pub(crate) struct FullCopies<'a> {
    core: &'a mut Core,
}

impl<'a> FullCopies<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> FullCopies<'a> {
        FullCopies { core }
    }
}

impl FullCopies<'_> {
    /// Notes that a replica has taken bytes of its output, and queues more of its snapshot.
    pub(crate) fn note_taken_by_replica(&mut self, client: SessionKey, bytes: usize, now: Now) {
        let Core { sessions, control, stats, .. } = self.core;
        let Some(session) = sessions.get_mut(client) else { return };
        let of_snapshot =
            session.caller.replica_state().map_or(0, |replica| replica.snapshot_queued.min(bytes));
        stats.syncs.output_bytes += of_snapshot as u64;
        if session.note_taken(bytes, &mut control.replication.full_syncs, now) == FeedResult::Failed {
            close(session, &mut control.clients.to_close);
        }
        if let Some((backlog, spooled)) = control.replication.stream.sources() {
            match session.take_stream(backlog, spooled) {
                StreamTaken::Bytes(bytes) => stats.syncs.output_bytes += bytes,
                StreamTaken::Failed => close(session, &mut control.clients.to_close),
            }
        }
        session.note_output(&mut control.clients.ready);
    }

    /// Begins a snapshot for the replicas that have asked for one, if it may begin now (invariant (1),
    /// `repl-diskless-sync-delay`), and queues the new pieces of the current one. Cost: that of a cut.
    #[inline]
    pub(crate) fn serve_full_syncs(&mut self, process: &mut dyn Process) {
        if self.core.control.replication.full_syncs.are_under_way() {
            self.advance_full_syncs(process);
        }
    }

    #[cold]
    fn advance_full_syncs(&mut self, process: &mut dyn Process) {
        let syncs = &self.core.control.replication.full_syncs;
        if syncs.shared.as_ref().is_some_and(|shared| shared.pieces.has_news()) {
            self.feed_readers(process);
        }
        for client in std::mem::take(&mut self.core.control.replication.full_syncs.ended) {
            self.core.control.replication.stream.mark_pending();
            self.core.control.replication.full_syncs.readers.retain(|reader| *reader != client);
            let Some(session) = self.core.sessions.get(client) else { continue };
            if let Some(line) = line_at_the_end(session) {
                process.log(LogLevel::Notice, &line);
            }
        }
        // Data that are being loaded are not sent.
        if self.core.control.replication.full_syncs.wanted.is_empty()
            || self.core.is_loading()
            || !self.core.control.between_units(BetweenUnits::FullSync)
        {
            return;
        }
        let syncs = &mut self.core.control.replication.full_syncs;
        let sessions = &self.core.sessions;
        syncs.readers.retain(|key| sessions.get(*key).is_some_and(Session::reads_snapshot));
        if !syncs.readers.is_empty() {
            return;
        }
        let is_busy = self.core.control.works_in_background();
        if !self.is_sync_due(process.recent()) {
            return;
        }
        let syncs = &mut self.core.control.replication.full_syncs;
        let wanted = std::mem::take(&mut syncs.wanted);
        let wants_keys = |wanted: &SyncRequest| {
            let session = sessions.get(wanted.client);
            session.map(|session| !session.caller.origin.announced.as_ref().is_some_and(|a| a.without_keys))
        };
        let (mut with_keys, mut without_keys) = (Vec::new(), Vec::new());
        for one in wanted {
            match wants_keys(&one) {
                Some(true) => with_keys.push(one),
                Some(false) => without_keys.push(one),
                None => {}
            }
        }
        if is_busy {
            // These replicas wait until the job has ended.
            syncs.wanted = with_keys;
        } else if !with_keys.is_empty() {
            self.begin_full_sync(with_keys, process);
        }
        if !without_keys.is_empty() {
            self.send_without_keys(without_keys, process);
        }
    }

    /// Whether the replicas that have asked for a snapshot have waited long enough for others to share it
    /// (`repl-diskless-sync-delay`), or are many enough (`repl-diskless-sync-max-replicas`). As in the
    /// reference, the delay applies to replicas that read up to a mark; without `repl-diskless-sync` there is
    /// no delay.
    fn is_sync_due(&self, now: Now) -> bool {
        let Control { replication: ReplicationState { full_syncs, .. }, config, .. } = &self.core.control;
        let delay_s = u64::try_from(config.int(param::REPL_DISKLESS_SYNC_DELAY)).unwrap_or(0);
        let max = usize::try_from(config.int(param::REPL_DISKLESS_SYNC_MAX_REPLICAS)).unwrap_or(0);
        let is_delayed = |wanted: &SyncRequest| {
            let session = self.core.sessions.get(wanted.client);
            let announced = session.and_then(|session| session.caller.origin.announced.as_deref());
            announced.is_some_and(|announced| announced.eof)
                && now.mono_ns.saturating_sub(wanted.since_ns) < delay_s * 1_000_000_000
        };
        !config.bool(param::REPL_DISKLESS_SYNC)
            || max > 0 && full_syncs.wanted.len() >= max
            || !full_syncs.wanted.iter().all(is_delayed)
    }

    /// Makes the cut of the snapshot, and attaches the replicas to the stream from this point on.
    fn begin_full_sync(&mut self, wanted: Vec<SyncRequest>, process: &mut dyn Process) {
        let announced = |wanted: &SyncRequest| {
            let session = self.core.sessions.get(wanted.client);
            session.and_then(|session| session.caller.origin.announced.as_deref().cloned())
        };
        let all: Vec<Announced> = wanted.iter().map(|one| announced(one).unwrap_or_default()).collect();
        // The format version of the oldest replica is read by all.
        let is_old = all.iter().any(|announced| version_for(announced) == Version::Common);
        let version = if is_old { Version::Common } else { Version::Valkey };
        let config = &self.core.control.config;
        let codec = codec_for(config.choice(param::REPL_COMPRESSION), &all);
        let mut options = sluice_snapshot::options_for_replicas(config, version, codec);
        let is_by_tls = |one: &SyncRequest| {
            self.core
                .sessions
                .get(one.client)
                .is_some_and(|session| session.caller.flags.medium == Medium::Tls)
        };
        let skips_checksum = self.core.control.config.bool(param::REPL_DISKLESS_SYNC)
            && all.iter().all(|announced| announced.eof && announced.skips_checksum)
            && wanted.iter().all(is_by_tls);
        options.checksum &= !skips_checksum;
        let pieces = match self.begin_job_for_replicas(options, wanted.len(), process) {
            Ok(pieces) => pieces,
            Err(SaveError(line)) => return self.refuse_replicas(wanted, &line, process),
        };
        self.core.control.replication.full_syncs.share(pieces, wanted.len(), process.recent().unix_s());
        let keys = self.core.job_state().map_or(0, |state| state.total);
        let without = if skips_checksum { " while skipping RDB checksum for this transfer" } else { "" };
        let by = match codec {
            None => "",
            Some(CompressionMethod::Lz4) => ", compressed by LZ4",
            Some(CompressionMethod::Zstd) => ", compressed by Zstd",
        };
        let replicas = wanted.len();
        let text = format!(
            "Background full synchronization started: {keys} keys for {replicas} replicas{by}{without}"
        );
        process.log(LogLevel::Notice, &text);
        for (number, (one, announced)) in wanted.into_iter().zip(&all).enumerate() {
            self.begin_sending(one, announced, FeedSource::Shared(number), process);
        }
    }

    fn begin_job_for_replicas(
        &mut self,
        options: WriteOptions,
        replicas: usize,
        process: &mut dyn Process,
    ) -> Result<Box<dyn SnapshotPieces>, SaveError> {
        if options.version == Version::Common && !self.core.keyspace.imports().is_empty() {
            return Err(SaveError("Can't store slot migrations in RDB version 11".to_owned()));
        }
        let sizes = Jobs::of(self.core).database_sizes();
        let about = self.about_stream(process);
        let file = SnapshotFile::new(
            &self.core.control.config,
            options,
            &about,
            self.core.control.libraries(),
            sizes,
        );
        let delay = self.core.control.config.int(param::RDB_KEY_SAVE_DELAY);
        let (writing, pieces) = process.snapshot_for_replicas(replicas, delay, file)?;
        Jobs::of(self.core).begin_job(writing, process);
        Ok(pieces)
    }

    /// Auxiliary fields of a snapshot for replicas, among them the offset of the stream at the snapshot's
    /// cut.
    fn about_stream(&self, process: &mut dyn Process) -> RdbAux<'_> {
        let stream = &self.core.control.replication.stream;
        let db = stream.selected().filter(|_| !mistake::is_made(Mistake::SnapshotOfDbZero));
        let point = StreamPosition { db: db.unwrap_or(0), replid: &stream.replid, offset: stream.offset };
        let used_memory = process.used_memory(&self.core.keyspace);
        let slot_states = self.core.control.cluster.as_ref().and_then(|mode| mode.open_slots.as_deref());
        RdbAux {
            now: process.recent(),
            used_memory,
            stream: Some(point),
            slot_states,
            imports: self.core.keyspace.imports(),
            is_aof_base: false,
        }
    }

    /// Logs why a snapshot cannot be begun, and closes the replicas that asked for it.
    fn refuse_replicas(&mut self, wanted: Vec<SyncRequest>, line: &str, process: &mut dyn Process) {
        process.log(LogLevel::Warning, line);
        process.log(LogLevel::Warning, "BGSAVE for replication failed");
        let Core { sessions, control, .. } = self.core;
        for SyncRequest { client, .. } in wanted {
            let Some(session) = sessions.get_mut(client) else { continue };
            session.outbox.push(b"-BGSAVE failed, replication can't continue\r\n");
            session.caller.closing = Closing::AfterReply;
            session.note_output(&mut control.clients.ready);
        }
    }

    /// Sends a snapshot without keys to replicas that have asked for one without keys: the snapshot is
    /// small, and is made at once.
    fn send_without_keys(&mut self, wanted: Vec<SyncRequest>, process: &mut dyn Process) {
        for one in wanted {
            let Some(session) = self.core.sessions.get(one.client) else { continue };
            let announced = session.caller.origin.announced.as_deref().cloned().unwrap_or_default();
            let version = version_for(&announced);
            let options = sluice_snapshot::options_for_replicas(&self.core.control.config, version, None);
            // Imports are left out, because they concern keys.
            let about = RdbAux { imports: &[], ..self.about_stream(process) };
            let pieces = sluice_snapshot::pieces_without_keys(
                &self.core.control.config,
                options,
                &about,
                self.core.control.libraries(),
            );
            self.begin_sending(one, &announced, FeedSource::WithoutKeys(pieces.into_iter()), process);
        }
    }

    /// Begins to send a replica its snapshot, and attaches the replica to the stream, unless it has asked for
    /// the snapshot alone. A replica that reads up to a mark finds the mark only if no bytes follow it, so
    /// the stream waits until the replica has acknowledged the snapshot.
    fn begin_sending(
        &mut self,
        wanted: SyncRequest,
        announced: &Announced,
        source: FeedSource,
        process: &mut dyn Process,
    ) {
        let SyncRequest { client, greeting, .. } = wanted;
        // Without `repl-diskless-sync` the snapshot is sent when all of it is on disk.
        let is_diskless = self.core.control.config.bool(param::REPL_DISKLESS_SYNC) || announced.without_keys;
        let mark = (announced.eof && is_diskless || greeting == SyncGreeting::EndOffset)
            .then(|| hex(&process.entropy()));
        let now = process.recent();
        let Core { sessions, control, .. } = self.core;
        let Some(session) = sessions.get_mut(client) else {
            return control.replication.full_syncs.leave(&source);
        };
        let name = session.caller.replica_name();
        session.outbox.push(greet(greeting, &mut control.replication.stream, session.caller.id).as_bytes());
        if let Some(mark) = &mark {
            session.outbox.push(format!("$EOF:{mark}\r\n").as_bytes());
        }
        if let Some(replica) = &mut session.caller.replica {
            if mark.is_some() {
                replica.stage = SyncStage::Sending;
            } else {
                replica.awaits_ack = false;
            }
            replica.snapshot_queued = session.outbox.len();
            replica.acked_s = now.unix_s();
            if !announced.rdb_only {
                replica.next = control.replication.stream.offset;
            }
        }
        let needs_length = mark.is_none();
        session.feed = Some(Box::new(Feed {
            source,
            needs_length,
            trailer: mark,
            progress_ns: now.mono_ns,
            taken_bytes: 0,
            began_ns: now.mono_ns,
        }));
        if session.feed_on(&mut control.replication.full_syncs, now) == FeedResult::Failed {
            close(session, &mut control.clients.to_close);
        }
        session.note_output(&mut control.clients.ready);
        control.replication.full_syncs.readers.push(client);
        if !announced.rdb_only {
            control.replication.stream.attach(client);
        }
        self.core.stats.syncs.full += 1;
        process.log(LogLevel::Notice, &format!("Synchronization with replica {name} begins"));
    }

    /// Queues new pieces for each replica that has taken the pieces queued before. Closes the replicas that
    /// need the length in advance if the snapshot cannot be written to disk first.
    fn feed_readers(&mut self, process: &mut dyn Process) {
        let now = process.recent();
        let Core { sessions, control, .. } = self.core;
        let Control {
            replication: ReplicationState { full_syncs, .. },
            clients: ClientRelations { to_close, ready, .. },
            ..
        } = control;
        let readers = std::mem::take(&mut full_syncs.readers);
        let lacks_room = full_syncs.lacks_room();
        for client in &readers {
            let Some(session) = sessions.get_mut(*client) else { continue };
            let waits_for_length = session.feed.as_ref().is_some_and(|feed| feed.needs_length);
            if let Some(reason) = &lacks_room
                && waits_for_length
                && session.caller.closing != Closing::Now
            {
                close(session, to_close);
                let name = session.caller.replica_name();
                let text = format!(
                    "Disconnecting replica {name}: it needs the length of the snapshot first, and the \
                     snapshot cannot be written to a scratch file: {reason}"
                );
                process.log(LogLevel::Warning, &text);
                continue;
            }
            if session.feed_on(full_syncs, now) == FeedResult::Failed {
                close(session, to_close);
            }
            session.note_output(ready);
        }
        full_syncs.readers = readers;
    }

    /// Ends the snapshot of a session that ends. A snapshot without readers is given up.
    pub(crate) fn leave_full_sync(&mut self, session: &Session) {
        let Some(feed) = &session.feed else { return };
        self.core.control.replication.full_syncs.readers.retain(|reader| *reader != session.key);
        self.core.control.replication.full_syncs.leave(&feed.source);
        if self.core.control.replication.full_syncs.shared.is_none()
            && self.core.control.replication.full_syncs.began_s.take().is_some()
        {
            Jobs::of(self.core).drop_job();
        }
    }

    /// Ends the snapshot for replicas that is under way: the replicas have to ask again.
    pub(crate) fn break_off_full_sync(&mut self, process: &mut dyn Process) {
        if self.core.control.replication.full_syncs.began_s.take().is_some() {
            Jobs::of(self.core).drop_job();
            process.log(LogLevel::Notice, "Background full synchronization was stopped");
        }
    }

    /// Keeps replicas that wait for a snapshot from timing out, and closes replicas that take nothing of
    /// their snapshot or do not acknowledge the stream; once a second.
    pub(crate) fn watch_full_syncs(&mut self, now: Now, process: &mut dyn Process) {
        let timeout_s = u64::try_from(self.core.control.config.int(param::REPL_TIMEOUT)).unwrap_or(0);
        let Core { sessions, control, .. } = self.core;
        let waits_for_length =
            |session: &Session| session.feed.as_ref().is_some_and(|feed| feed.needs_length);
        let readers = control.replication.full_syncs.readers.iter().copied();
        let readers = readers.filter(|key| sessions.get(*key).is_some_and(waits_for_length));
        let waiting: Vec<SessionKey> = control.replication.full_syncs.waiting().chain(readers).collect();
        for client in waiting {
            if let Some(session) = sessions.get_mut(client) {
                session.outbox.push(b"\n");
                session.note_output(&mut control.clients.ready);
            }
        }
        // A replica for which nothing is queued is not late.
        let late = |session: &Session| match (&session.feed, session.caller.replica_state()) {
            (Some(feed), Some(replica)) if replica.snapshot_queued > 0 => {
                now.mono_ns.saturating_sub(feed.progress_ns) > timeout_s * 1_000_000_000
            }
            (Some(_) | None, _) => false,
        };
        for client in &control.replication.full_syncs.readers {
            let Some(session) = sessions.get_mut(*client).filter(|session| late(session)) else { continue };
            if session.caller.closing == Closing::Now {
                continue;
            }
            session.caller.closing = Closing::Now;
            control.clients.to_close.push(*client);
            let name = session.caller.replica_name();
            process.log(LogLevel::Warning, &format!("Disconnecting timedout replica (full sync): {name}"));
        }
        let silent = |session: &Session| {
            let online = session
                .caller
                .replica_state()
                .filter(|replica| replica.sends_acks && session.feed.is_none() && !replica.is_main_channel);
            online.is_some_and(|replica| now.unix_s() - replica.acked_s > timeout_s as i64)
        };
        for client in &control.replication.stream.replicas {
            let Some(session) = sessions.get_mut(*client).filter(|session| silent(session)) else { continue };
            if session.caller.closing == Closing::Now {
                continue;
            }
            session.caller.closing = Closing::Now;
            control.clients.to_close.push(*client);
            let name = session.caller.replica_name();
            let text = format!("Disconnecting timedout replica (streaming sync): {name}");
            process.log(LogLevel::Warning, &text);
        }
    }
}

/// The line that is sent before a snapshot; empty if the client expects none.
fn greet(greeting: SyncGreeting, stream: &mut ReplicationStream, client: ClientId) -> String {
    match greeting {
        SyncGreeting::None => String::new(),
        SyncGreeting::Full => format!("+FULLRESYNC {} {}\r\n", stream.replid, stream.offset),
        SyncGreeting::EndOffset => {
            stream.reserve(client);
            let db = stream.selected().map_or(-1, |db| db as i64);
            format!("$ENDOFF:{} {} {db} {}\r\n", stream.offset, stream.replid, client.0)
        }
    }
}

/// Closes a session at once, unless it is already marked.
fn close(session: &mut Session, to_close: &mut Vec<SessionKey>) {
    if session.caller.closing != Closing::Now {
        session.caller.closing = Closing::Now;
        to_close.push(session.key);
    }
}

/// Version 9.0.0 as [`Announced`] encodes it.
const VERSION_9: u32 = 9 << 16;
