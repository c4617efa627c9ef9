//! Full synchronisation: a replica is sent a snapshot, then the replication stream.
//!
//! ```text
//!  SYNC, PSYNC ──► wanted ──end of the iteration, no snapshot unread──► sending ──last piece queued──► streaming
//!                     └── a newline each second, so that the replica does not give up
//! ```
//!
//! Invariants: (1) one snapshot at a time: it is made when nobody reads another any more, and everybody who asked until then
//! shares it, so that clients that ask and do not read cost one snapshot however many they are; (2) a snapshot is queued
//! by the piece, a few ahead of what the replica has taken, so that progress shows; (3) a replica that makes none for
//! `repl-timeout` is closed; (4) the stream from the snapshot on is kept in `Session::held` meanwhile, where it counts
//! against the output limit.
//!
//! The snapshot is built in memory, on the main thread, as long as there are no files.

use crate::engine::{Engine, hex};
use crate::process::{LogLevel, Process};
use crate::session::{Announced, Closing, Session, SyncStage};
use crate::session_key::SessionKey;
use crate::snapshot::{self, RdbAux, StreamPoint};
use crate::sync_state::{Feed, Greeting, Snapshot, Wanted};
use sluice_base::Now;
use sluice_config::param;
use sluice_persist::rdb::Version;

/// The kinds of snapshot that replicas may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variety {
    version: Version,
    without_keys: bool,
}

impl Variety {
    /// What a replica can read.
    fn for_replica(announced: &Announced) -> Variety {
        // A replica that reads up to a mark is recent, but only from 9.0 on does one know our version, and says its own.
        let is_older = announced.eof && announced.version < VERSION_9;
        let version = if is_older { Version::Common } else { Version::Valkey };
        Variety { version, without_keys: announced.without_keys }
    }
}

impl Session {
    /// Whether part of a snapshot is not sent yet.
    fn reads_snapshot(&self) -> bool {
        self.feed.is_some() || self.caller.replica_state().is_some_and(|replica| replica.snapshot_queued > 0)
    }

    /// Queues pieces of the snapshot up to [`AHEAD_BYTES`], and what was kept behind it once it is all there.
    fn feed_on(&mut self) {
        let Some(feed) = &mut self.feed else { return };
        let Some(replica) = &mut self.caller.replica else { return };
        while replica.snapshot_queued < AHEAD_BYTES {
            let Some(piece) = feed.pieces.get(feed.next) else {
                if let Some(trailer) = feed.trailer.take() {
                    self.outbox.push(trailer.as_bytes());
                    replica.snapshot_queued += trailer.len();
                }
                self.feed = None;
                if !replica.awaits_ack
                    && let Some(mut held) = self.held.take()
                {
                    self.outbox.append(&mut held);
                }
                replica.stage = SyncStage::Online;
                let rdb_only = self.caller.announced.as_ref().is_some_and(|announced| announced.rdb_only);
                if rdb_only && self.caller.closing == Closing::No {
                    self.caller.closing = Closing::AfterReply;
                }
                return;
            };
            replica.snapshot_queued += piece.len();
            self.outbox.push_shared(piece.clone());
            feed.next += 1;
        }
    }

    /// The replica has taken so many bytes.
    pub(crate) fn note_sent(&mut self, bytes: usize, now: Now) {
        let Some(replica) = &mut self.caller.replica else { return };
        replica.snapshot_queued = replica.snapshot_queued.saturating_sub(bytes);
        if let Some(feed) = &mut self.feed {
            feed.progress_ns = now.mono_ns;
            self.feed_on();
        }
    }
}

impl Engine {
    /// Makes a snapshot for the replicas that have asked for one, unless another one is unread. Cost: O(data).
    pub(crate) fn serve_full_syncs(&mut self, process: &mut dyn Process) {
        // What is being loaded is in no snapshot.
        if self.control.full_syncs.wanted.is_empty() || self.is_loading() {
            return;
        }
        let syncs = &mut self.control.full_syncs;
        let sessions = &self.sessions;
        syncs.readers.retain(|key| sessions.get(*key).is_some_and(Session::reads_snapshot));
        if !syncs.readers.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut syncs.wanted);
        // What replicas have coming is in the snapshot already.
        self.deliver_stream();
        let mut made: Vec<(Variety, Snapshot)> = Vec::new();
        for Wanted { client, greeting } in wanted {
            let Some(session) = self.sessions.get(client) else { continue };
            let announced = session.caller.announced.as_deref().cloned().unwrap_or_default();
            let variety = Variety::for_replica(&announced);
            let known = made.iter().find(|(other, _)| *other == variety).map(|(_, pieces)| pieces.clone());
            let pieces = known.unwrap_or_else(|| {
                let pieces = self.make_snapshot(variety, process);
                made.push((variety, pieces.clone()));
                pieces
            });
            self.begin_sending(client, greeting, &announced, pieces, process);
        }
    }

    fn make_snapshot(&self, variety: Variety, process: &mut dyn Process) -> Snapshot {
        let used_memory = process.used_memory(&self.keyspace);
        let stream = &self.control.stream;
        let point =
            StreamPoint { db: stream.selected().unwrap_or(0), replid: &stream.replid, offset: stream.offset };
        let about = RdbAux { now: process.recent(), used_memory, stream: Some(point), is_aof_base: false };
        let config = &self.control.config;
        let keyspace = (!variety.without_keys).then_some(&self.keyspace);
        snapshot::pieces(
            keyspace,
            config,
            snapshot::options(config, variety.version),
            &about,
            &self.control.kept,
        )
        .into()
    }

    /// Sends a replica its snapshot, and attaches it to the stream. One that filters must be told the end by a mark, as the
    /// reference does, and finds the mark only when nothing follows; all others are told the length, and the stream
    /// follows at once.
    fn begin_sending(
        &mut self,
        client: SessionKey,
        greeting: Greeting,
        announced: &Announced,
        pieces: Snapshot,
        process: &mut dyn Process,
    ) {
        let mark = announced.without_keys.then(|| hex(&process.entropy()));
        let Some(session) = self.sessions.get_mut(client) else { return };
        let name = session.caller.replica_name();
        if greeting == Greeting::Full {
            let stream = &self.control.stream;
            let line = format!("+FULLRESYNC {} {}\r\n", stream.replid, stream.offset);
            session.outbox.push(line.as_bytes());
        }
        let header = match &mark {
            Some(mark) => format!("$EOF:{mark}\r\n"),
            None => format!("${}\r\n", pieces.iter().map(|piece| piece.len()).sum::<usize>()),
        };
        session.outbox.push(header.as_bytes());
        let progress_ns = process.recent().mono_ns;
        session.feed = Some(Box::new(Feed { pieces, next: 0, trailer: mark, progress_ns }));
        if let Some(replica) = &mut session.caller.replica {
            replica.stage = SyncStage::Sending;
            replica.snapshot_queued = session.outbox.len();
            replica.acked_s = process.recent().unix_s();
        }
        session.feed_on();
        session.note_output(&mut self.control.ready);
        self.control.full_syncs.readers.push(client);
        if !announced.rdb_only {
            self.control.stream.attach(client);
        }
        self.stats.sync_full += 1;
        self.refresh();
        process.log(LogLevel::Notice, &format!("Synchronization with replica {name} succeeded"));
    }

    /// Keeps replicas that wait for a snapshot from giving up, and closes those that take nothing; once a second.
    pub(crate) fn watch_full_syncs(&mut self, now: Now, process: &mut dyn Process) {
        let timeout_s = u64::try_from(self.control.config.int(param::REPL_TIMEOUT)).unwrap_or(0);
        let Engine { sessions, control, .. } = self;
        for client in control.full_syncs.waiting() {
            if let Some(session) = sessions.get_mut(client) {
                session.outbox.push(b"\n");
                session.note_output(&mut control.ready);
            }
        }
        let late = |session: &Session| match &session.feed {
            Some(feed) => now.mono_ns.saturating_sub(feed.progress_ns) > timeout_s * 1_000_000_000,
            None => false,
        };
        for client in &control.full_syncs.readers {
            let Some(session) = sessions.get_mut(*client).filter(|session| late(session)) else { continue };
            if session.caller.closing == Closing::Now {
                continue;
            }
            session.caller.closing = Closing::Now;
            control.to_close.push(*client);
            let name = session.caller.replica_name();
            process.log(LogLevel::Warning, &format!("Disconnecting timedout replica (full sync): {name}"));
        }
        let silent = |session: &Session| {
            let online =
                session.caller.replica_state().filter(|replica| replica.sends_acks && session.feed.is_none());
            online.is_some_and(|replica| now.unix_s() - replica.acked_s > timeout_s as i64)
        };
        for client in &control.stream.replicas {
            let Some(session) = sessions.get_mut(*client).filter(|session| silent(session)) else { continue };
            if session.caller.closing == Closing::Now {
                continue;
            }
            session.caller.closing = Closing::Now;
            control.to_close.push(*client);
            let name = session.caller.replica_name();
            let text = format!("Disconnecting timedout replica (streaming sync): {name}");
            process.log(LogLevel::Warning, &text);
        }
    }
}

/// Version 9.0.0.
const VERSION_9: u32 = 9 << 16;
/// Bytes of a snapshot that are queued ahead of what the replica has taken.
const AHEAD_BYTES: usize = 4 << 20;
