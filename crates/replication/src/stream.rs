//! The replication stream: the bytes that replicas receive.
//!
//! ```text
//!  command ──► unit (`UnitCommands`) ──close──► backlog ──once an iteration, and as replicas take it──► their output
//! ```
//!
//! Invariants: (1) the stream is a function of the execution units (commands or transactions with their
//! effects) and of commands that belong to no unit, namely pings and questions to replicas; on a server that
//! has a primary it is the primary's bytes and nothing else; (2) a unit of several commands is wrapped in
//! MULTI and EXEC; (3) SELECT precedes the first command of another database; (4) a byte of the stream is
//! written once, into the backlog, and kept there once for all replicas (`backlog.rs`); (5) `offset` is the
//! end of the backlog; (6) without a backlog nothing is added, and the offset does not change: unless loaded
//! files or a primary provide a history, the history begins with the first replica, under a new id, and
//! writes made without a backlog are in no history.

mod backlog;
mod spooled;

pub use backlog::{Backlog, WINDOW_BYTES};
pub use spooled::SpoolReceiver;
pub use spooled::Spooled;

use crate::unit_commands::{Audience, Grouping, UnitCommands};
use sluice_base::Epoch;
use sluice_base::SessionKey;
use sluice_base::mistake::{self, Mistake};
use sluice_base::{ClientId, StreamPosition, heap};
use sluice_resp::command::push_command;
use sluice_value::Value;

/// The stream and its receivers.
#[derive(Debug, Default)]
pub struct ReplicationStream {
    /// Advanced when the stream begins, ends, or changes its source.
    pub epoch: Epoch,
    /// Sessions that receive the stream, in order of arrival.
    pub replicas: Vec<SessionKey>,
    /// Number of bytes of the history so far, even those that the backlog no longer has.
    pub offset: u64,
    /// Id of the history: 40 hexadecimal digits.
    pub replid: String,
    /// Id of the earlier history, and the number, counted from 1, of the first byte that does not belong to
    /// that history.
    pub earlier: Option<(String, u64)>,
    /// Whether this server is itself a replica, so that the stream consists of its primary's bytes.
    has_primary: bool,
    /// Database selected in the stream; `None` if the next unit has to name its database.
    selected: Option<usize>,
    /// Database selected in the stream that this server's primary sends.
    relayed_db: usize,
    /// The last bytes of the history; `None` before the history begins, and after no replica has been
    /// connected for `repl-backlog-ttl`.
    backlog: Option<Backlog>,
    /// End of the bytes that were offered to the replicas.
    delivered: u64,
    /// Whether a replica may take more than at the last delivery although nothing was added, for example
    /// because the replica has acknowledged its snapshot.
    has_pending_replica: bool,
    /// Positions from which replicas will take the stream; these replicas now take a snapshot
    /// on another connection.
    pub reserved: Vec<Reserved>,
    /// Bytes that the backlog no longer keeps and that replicas taking a snapshot will need.
    pub spooled: Spooled,
    /// When the cron first found that no replica was connected, seconds since the epoch; `None` while one is.
    pub idle_since_s: Option<i64>,
}

/// A position of the stream from which bytes are kept for a replica.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// The client that takes the snapshot.
    pub client: ClientId,
    /// Offset of the first byte after the snapshot.
    pub offset: u64,
    /// When that client disconnected, seconds since the epoch; `None` while it is connected.
    pub gone_s: Option<i64>,
}

impl ReplicationStream {
    /// Bytes of heap memory of the list of replicas and of the backlog. Cost: O(promised blocks).
    pub fn footprint(&self) -> usize {
        heap::vec(&self.replicas) + self.backlog.as_ref().map_or(0, Backlog::footprint)
    }

    /// An empty stream of the history `replid`.
    pub fn new(replid: String) -> ReplicationStream {
        ReplicationStream { replid, ..ReplicationStream::default() }
    }

    /// The stream with this epoch of a control plane, which the stream advances when it begins, ends, or
    /// changes its source.
    pub fn watched_by(self, epoch: Epoch) -> ReplicationStream {
        ReplicationStream { epoch, ..self }
    }

    /// Whether the history has begun, so that there is a backlog.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.backlog.is_some()
    }

    /// Whether the commands of this server belong in the stream, because the history has begun and this
    /// server has no primary.
    #[inline]
    pub fn generates(&self) -> bool {
        self.backlog.is_some() && !self.has_primary
    }

    /// The backlog; `None` while there is no history.
    pub fn backlog(&self) -> Option<&Backlog> {
        self.backlog.as_ref()
    }

    /// Sets whether this server has a primary. While it has one, neither its commands nor its pings are
    /// part of the stream, which then consists of the bytes passed to [`ReplicationStream::relay`].
    pub fn set_has_primary(&mut self, has_primary: bool) {
        self.epoch.advance();
        self.has_primary = has_primary;
        // The next bytes come from another source, and begin with a SELECT of their own.
        self.selected = None;
    }

    /// Whether this server has a primary.
    pub fn has_primary(&self) -> bool {
        self.has_primary
    }

    /// Appends bytes of the primary's stream unchanged, because replicas of this server follow the same
    /// history.
    pub fn relay(&mut self, bytes: &[u8]) {
        debug_assert!(self.has_primary);
        self.offset += bytes.len() as u64;
        if let Some(backlog) = &mut self.backlog {
            backlog.tail(bytes.len()).extend_from_slice(bytes);
        }
    }

    /// Records the database that the primary's stream has selected; a snapshot for replicas states it.
    pub fn relay_selects(&mut self, db: usize) {
        self.relayed_db = db;
    }

    /// Records that a full synchronisation has ended and the data are those of a primary at `offset`
    /// bytes of the history `replid`. Earlier bytes of the history are unknown. Replicas of this server
    /// have other data, and the caller must close them.
    pub fn adopt_history(&mut self, replid: String, offset: u64) {
        self.replid = replid;
        self.earlier = None;
        // Positions that were reserved in the earlier history have no meaning in this history.
        self.reserved.clear();
        self.begin_backlog(offset);
    }

    /// Records that this server is promoted, so that the history continues under another id. Replicas
    /// that followed the history until now can continue from here.
    pub fn shift_history(&mut self, replid: String) {
        let old = std::mem::replace(&mut self.replid, replid);
        self.earlier = Some((old, self.offset + 1));
        self.selected = None;
    }

    /// Records that the primary continues the same history under another id (`+CONTINUE <id>`). The old
    /// id stays valid up to the present offset. If `replid` is the present id, nothing changes.
    pub fn continue_history(&mut self, replid: String) {
        if replid != self.replid && !mistake::is_made(Mistake::IdNotContinued) {
            let old = std::mem::replace(&mut self.replid, replid);
            self.earlier = Some((old, self.offset + 1));
        }
    }

    /// Begins the history under this id, for the first replica.
    pub fn begin(&mut self, replid: String) {
        self.replid = replid;
        self.earlier = None;
        self.begin_backlog(self.offset);
    }

    /// Records that the loaded data are at `offset` bytes of the history `replid`. The following bytes are a
    /// new history under the id of this run of the server, because replicas may have received more of the
    /// old history than the files have. Replicas that have not received more can continue.
    pub fn resume(&mut self, replid: String, offset: u64) {
        if mistake::is_made(Mistake::IdOfLastRun) {
            self.replid.clone_from(&replid);
        }
        self.earlier = Some((replid, offset + 1));
        self.begin_backlog(offset);
    }

    /// Ends the history, so that later bytes belong to no history until a replica connects.
    pub fn end_history(&mut self, replid: String) {
        debug_assert!(self.replicas.is_empty());
        self.replid = replid;
        self.earlier = None;
        self.backlog = None;
        self.idle_since_s = None;
        self.epoch.advance();
    }

    fn begin_backlog(&mut self, offset: u64) {
        self.epoch.advance();
        self.offset = offset;
        self.delivered = offset;
        self.selected = None;
        self.backlog = Some(Backlog::new(offset));
    }

    /// The position of the data in the history, if it has begun. `None` without a backlog.
    pub fn point(&self) -> Option<StreamPosition<'_>> {
        let db = self.selected().unwrap_or(0);
        self.backlog.is_some().then(|| StreamPosition { db, replid: &self.replid, offset: self.offset })
    }

    /// Database selected in the stream. If this server relays its primary's bytes, this is the database
    /// that the primary has selected.
    pub fn selected(&self) -> Option<usize> {
        if self.has_primary { Some(self.relayed_db) } else { self.selected }
    }

    /// Sends the stream from here on to a session, after a snapshot. The next unit names its database again,
    /// unless the stream consists of a primary's bytes.
    pub fn attach(&mut self, key: SessionKey) {
        if !self.has_primary {
            self.selected = None;
        }
        self.attach_within(key);
    }

    /// Sends the stream to a session whose replica has all bytes before its position, and therefore knows
    /// the database that those bytes have selected.
    pub fn attach_within(&mut self, key: SessionKey) {
        debug_assert!(self.backlog.is_some());
        self.idle_since_s = None;
        self.has_pending_replica = true;
        self.replicas.push(key);
    }

    /// Keeps the stream from here on for a replica that takes its snapshot on another connection, as
    /// `client`. The next unit names its database, unless the stream consists of a primary's bytes.
    pub fn reserve(&mut self, client: ClientId) {
        if !self.has_primary {
            self.selected = None;
        }
        self.idle_since_s = None;
        self.reserved.push(Reserved { client, offset: self.offset, gone_s: None });
    }

    /// Stops sending the stream to a session.
    pub fn detach(&mut self, key: SessionKey) {
        self.replicas.retain(|k| *k != key);
    }

    /// Whether a replica that has `replid` and wants byte number `wanted` next, counted from 1, can
    /// continue; returns that byte's offset, counted from 0. Errors: the reason, for the log; `None` if the
    /// replica asks for a full synchronisation.
    pub fn continues(&self, replid: &[u8], wanted: i64) -> Result<u64, Option<String>> {
        let known = replid.eq_ignore_ascii_case(self.replid.as_bytes());
        let second = self.earlier.as_ref().filter(|(id, _)| replid.eq_ignore_ascii_case(id.as_bytes()));
        let position = u64::try_from(wanted).ok().and_then(|wanted| wanted.checked_sub(1));
        match second {
            _ if known => {}
            Some(_) if mistake::is_made(Mistake::SecondIdForever) => {}
            Some((_, limit)) if position.is_none_or(|position| position < *limit) => {}
            Some((_, limit)) => {
                return Err(Some(format!(
                    "Requested offset for second ID was {wanted}, but I can reply up to {limit}"
                )));
            }
            None if replid == b"?" => return Err(None),
            None => {
                let asked = replid.escape_ascii();
                return Err(Some(format!(
                    "Replication ID mismatch (Replica asked for '{asked}', my replication ID is '{}')",
                    self.replid
                )));
            }
        }
        match (position, &self.backlog) {
            (Some(position), Some(backlog)) if backlog.reaches(position) => Ok(position),
            _ => Err(Some(format!("lack of backlog (Replica request was: {wanted})"))),
        }
    }

    /// Adds a command that belongs to no unit and no database (a ping or a question to replicas), if
    /// [`ReplicationStream::generates`].
    pub fn command_of_its_own<'a>(&mut self, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
        let Some(backlog) = self.backlog.as_mut().filter(|_| !self.has_primary) else { return };
        push_command(backlog.tail(OWN_BYTES), argv);
        self.offset = backlog.end();
    }

    /// Adds a completed unit, if [`ReplicationStream::generates`].
    pub fn add_unit(&mut self, unit: &UnitCommands, grouping: Grouping) {
        if let Some(backlog) = self.backlog.as_mut().filter(|_| !self.has_primary) {
            let tail = backlog.tail(unit.len_bytes() + OWN_BYTES);
            let promised = unit.write_to(Audience::Replicas, grouping, &mut self.selected, tail);
            if let Some((at, commands)) = promised {
                let behind = tail.split_off(at);
                backlog.push_promised(commands);
                backlog.tail(behind.len()).extend_from_slice(&behind);
            }
            if unit.count() > 1 {
                backlog.split_large();
            }
            self.offset = backlog.end();
        }
    }

    /// Whether the stream has promised bytes: bytes of commands that were added and are encoded later.
    #[inline]
    pub fn has_promises(&self) -> bool {
        self.backlog.as_ref().is_some_and(Backlog::has_promises)
    }

    /// Number of promised bytes that are not encoded yet. Cost: O(promised blocks).
    pub fn promised_left(&self) -> usize {
        self.backlog.as_ref().map_or(0, Backlog::promised_left)
    }

    /// Encodes about `bytes` of the first promised bytes. Values that are no longer needed go to `garbage`.
    pub fn keep_promises(&mut self, bytes: usize, garbage: &mut Vec<Value>) {
        if let Some(backlog) = self.backlog.as_mut().filter(|backlog| backlog.has_promises()) {
            backlog.keep_promises(bytes, garbage);
            // The encoded bytes precede bytes that were offered already, so replicas that stopped before
            // the promised bytes may now continue.
            self.has_pending_replica = true;
        }
    }

    /// Whether there are bytes that were not offered to the replicas yet, or a replica may take more than at
    /// the last delivery.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.offset != self.delivered || self.has_pending_replica || self.spooled.has_news()
    }

    /// Records that a replica that has received a snapshot may now take the stream.
    pub fn mark_pending(&mut self) {
        self.has_pending_replica = true;
    }

    /// Records that all bytes were offered to the replicas, and trims the backlog to about `size` bytes; the
    /// trimmed blocks are added to the spools. `needed` is the offset of the byte that the slowest replica
    /// wants next.
    pub fn offered(&mut self, needed: u64, size: u64) {
        self.delivered = self.offset;
        self.has_pending_replica = false;
        if let Some(backlog) = &mut self.backlog {
            backlog.trim(size, needed, |start, block| self.spooled.give(start, block));
        }
    }

    /// Trims the backlog to about `size` bytes while no replica is connected.
    pub fn trim(&mut self, size: u64) {
        debug_assert!(self.replicas.is_empty());
        if let Some(backlog) = &mut self.backlog {
            backlog.seal_full();
            backlog.trim(size, u64::MAX, |_, _| {});
        }
    }

    /// The backlog and the spools, from which replicas take bytes; `None` without a backlog.
    pub fn sources(&mut self) -> Option<(&Backlog, &mut Spooled)> {
        if let Some(backlog) = &mut self.backlog {
            backlog.seal_full();
        }
        self.backlog.as_ref().map(|backlog| (backlog, &mut self.spooled))
    }
}

/// Room in bytes for MULTI, one SELECT and EXEC around the commands of a unit. A ping, or a question to
/// replicas, takes less.
const OWN_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_keyspace::{CommandSource, PromisedCommands};
    use sluice_resp::Outbox;

    fn begun() -> ReplicationStream {
        let mut stream = ReplicationStream::default();
        stream.begin("0".repeat(40));
        stream
    }

    fn text(stream: &ReplicationStream, from: u64) -> Vec<u8> {
        let mut out = Outbox::new();
        stream.backlog().unwrap().read(from, usize::MAX, &mut out);
        out.flatten()
    }

    fn unit() -> UnitCommands {
        let mut unit = UnitCommands::default();
        unit.command(0, Audience::All, [&b"DEL"[..], b"a"].into_iter());
        unit
    }

    #[test]
    fn the_offset_counts_the_history_and_nothing_before_it_begins() {
        let mut stream = begun();
        stream.add_unit(&unit(), Grouping::Transaction);
        stream.command_of_its_own([&b"ping"[..]].into_iter());
        let text = text(&stream, 0);
        assert!(text.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"));
        assert_eq!(stream.offset, text.len() as u64);
        let mut alone = ReplicationStream::default();
        alone.add_unit(&unit(), Grouping::Transaction);
        alone.command_of_its_own([&b"ping"[..]].into_iter());
        assert_eq!((alone.offset, alone.has_news()), (0, false));
    }

    #[test]
    fn a_server_with_a_primary_relays_its_bytes_and_adds_nothing() {
        let mut stream = begun();
        stream.set_has_primary(true);
        stream.adopt_history("a".repeat(40), 1000);
        stream.add_unit(&unit(), Grouping::Transaction);
        stream.command_of_its_own([&b"ping"[..]].into_iter());
        stream.relay(b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(text(&stream, 1000), b"*1\r\n$4\r\nPING\r\n");
        assert_eq!((stream.offset, stream.generates()), (1014, false));
    }

    /// A source of one PING, whose bytes are made one at a time.
    #[derive(Debug)]
    struct Ping(usize);

    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    impl CommandSource for Ping {
        fn share(&self) -> Box<dyn CommandSource> {
            Box::new(Ping(self.0))
        }

        fn go_on(&mut self, _: usize, out: &mut Vec<u8>, _: &mut Vec<Value>) {
            out.push(PING[self.0]);
            self.0 += 1;
        }

        fn heap_bytes(&self) -> usize {
            100
        }
    }

    #[test]
    fn what_is_promised_stays_in_the_history_when_the_server_gets_a_primary_and_is_promoted_again() {
        let mut stream = begun();
        let mut unit = UnitCommands::default();
        unit.promised(0, Audience::All, &PromisedCommands::new(1, PING.len(), Box::new(Ping(0))));
        stream.add_unit(&unit, Grouping::Transaction);
        assert_eq!((stream.offset, stream.promised_left()), (23 + 14, 14));
        stream.set_has_primary(true);
        stream.relay(b"*1\r\n$4\r\nTIME\r\n");
        assert_eq!(text(&stream, 37), b"*1\r\n$4\r\nTIME\r\n");
        stream.keep_promises(5, &mut Vec::new());
        stream.set_has_primary(false);
        stream.shift_history("b".repeat(40));
        assert_eq!(stream.continues("0".repeat(40).as_bytes(), 30), Ok(29), "a byte that is promised");
        assert!(stream.has_promises() && stream.has_news());
        stream.keep_promises(usize::MAX, &mut Vec::new());
        let all = text(&stream, 0);
        assert_eq!(all[23..], *b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nTIME\r\n");
        assert_eq!((stream.offset, stream.promised_left()), (all.len() as u64, 0));
        // After a change to another history, the backlog has none of the promised bytes.
        stream.add_unit(&unit, Grouping::Transaction);
        stream.adopt_history("a".repeat(40), 1000);
        assert!(!stream.has_promises());
    }

    #[test]
    fn positions_of_a_history_that_is_left_are_not_kept() {
        let mut stream = begun();
        stream.add_unit(&unit(), Grouping::Transaction);
        stream.reserve(ClientId(7));
        stream.adopt_history("a".repeat(40), 0);
        assert!(stream.reserved.is_empty());
    }

    #[test]
    fn a_promotion_keeps_the_history_before_up_to_here() {
        let (old, new) = ("a".repeat(40), "b".repeat(40));
        let mut stream = begun();
        stream.set_has_primary(true);
        stream.adopt_history(old.clone(), 7);
        stream.continue_history(old.clone());
        assert_eq!((&stream.replid, &stream.earlier), (&old, &None));
        stream.set_has_primary(false);
        stream.shift_history(new.clone());
        assert_eq!((&stream.replid, &stream.earlier), (&new, &Some((old, 8))));
    }

    /// Whether a replica can continue depends on the history's id and the number of the replica's next byte.
    #[test]
    fn a_replica_goes_on_where_the_backlog_reaches_in_a_history_that_is_known() {
        let (old, new) = ("a".repeat(40), "b".repeat(40));
        let mut stream = ReplicationStream::new(new.clone());
        stream.resume(old.clone(), 100);
        stream.add_unit(&unit(), Grouping::Transaction);
        let end = stream.offset as i64;
        for (id, wanted, expected) in [
            (&old, 101, true),
            (&old, 100, false),
            (&old, 102, false),
            (&new, 101, true),
            (&new, end + 1, true),
            (&new, end + 2, false),
            (&new, 100, false),
            (&new, 0, false),
            (&new, -1, false),
            (&new, i64::MIN, false),
            (&old, i64::MAX, false),
            (&"c".repeat(40), 101, false),
            (&"?".to_owned(), -1, false),
        ] {
            let found = stream.continues(id.as_bytes(), wanted);
            assert_eq!(found.clone().ok(), expected.then(|| (wanted - 1) as u64), "{id} {wanted}: {found:?}");
        }
    }
}
