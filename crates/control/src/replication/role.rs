//! The state of a server as a replica, and changes of its role.
//!
//! ```text
//!  REPLICAOF host port ──► role wanted ──after the command───► role, with a link: the process connects
//!                                                                   │
//!              snapshot loaded, +CONTINUE ──► the link's session ──► commands ──► counted, relayed
//! ```
//!
//! The role owns the state machine of the link (`sluice_replication`); the process owns
//! the connections (`transport.rs`).
//!
//! Invariants: (1) while there is a role, the stream consists of the primary's bytes, each once; bytes are
//! counted after the execution of their command, and bytes of a transaction after its EXEC; (2) the data is
//! at `stream.offset` whenever no command or transaction is in progress, and `can_resume` shows whether the
//! data can be updated from there; (3) a requested change of the role waits while a file is installed or data
//! is loaded (D-3).

use sluice_base::SessionKey;
use sluice_replication::{LinkState, Primary, ReplicaLink};
use sluice_session::Session;
use sluice_snapshot::SnapshotSource;
use std::collections::BTreeSet;

/// This server as a replica.
#[derive(Debug)]
pub struct ReplicaRole {
    /// The link: the primary that this server follows, and the stage of the connection.
    pub link: ReplicaLink,
    /// A completely received file waits to replace the RDB file.
    pub commit_waits: bool,
    /// Time of the link's next tick, in ns of the monotonic clock.
    pub next_tick_ns: u64,
    /// Start of the current synchronisation, in ns of the monotonic clock; valid while a snapshot is
    /// awaited, received or loaded.
    pub transfer_since_ns: u64,
    /// The session of the link; `None` while no commands are received.
    pub session: Option<SessionKey>,
    /// Whether the data can be updated from its present position in the history.
    pub can_resume: bool,
    /// The database that the primary's stream has selected.
    pub db: usize,
    /// Time at which the link was lost, in seconds since the epoch; 0 if it has never been up.
    pub down_since_s: i64,
    /// Last time the primary was active while the link was up, in seconds since the epoch, as recorded by
    /// a cluster node; 0: never.
    pub heard_s: i64,
    /// Last time the link was checked and found up, in seconds since the epoch; 0: never.
    pub seen_up_s: i64,
    /// Last contact of the data with the previous primary, in seconds since the epoch. Valid until this
    /// link has been up; 0: never, or the data is not this primary's.
    pub earlier_contact_s: i64,
    /// Bytes received of a transaction that has not ended.
    pub uncounted: Vec<u8>,
    /// The primary has asked for the offset of the data.
    pub asks_ack: bool,
    /// The link was closed by `Control::cut_link`: the last command of its session does not count.
    pub is_cut: bool,
    /// The offset of the stream that is on disk in this server's append-only file.
    pub durable: DurablePoint,
    /// Names of unknown commands of the primary that have been logged.
    pub dropped: BTreeSet<Vec<u8>>,
}

/// The durable part of the replica's append-only file, as an offset of the stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct DurablePoint {
    /// The offset that is known to be on disk.
    pub offset: u64,
    /// A position of the file that is not yet known to be durable, and the stream's offset there.
    pub awaited: Option<(u64, u64)>,
}

/// Results of this server's links to primaries since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Number of snapshots loaded.
    pub snapshots: u64,
    /// Number of partial synchronisations, which continued at the data's offset.
    pub continued: u64,
}

/// A requested change of the role.
#[derive(Clone, Debug)]
pub struct RoleWanted {
    /// The primary to follow; `None` makes this server a primary.
    pub primary: Option<Primary>,
    /// The origin for the log: `user request from '...'`, `failover request from '...'`; empty
    /// without a client.
    pub by: String,
    /// Whether the present data should be updated if possible, instead of replaced.
    pub keeps_data: bool,
}

/// The source of a primary's snapshot, with the treatment of the present data.
pub enum SyncSource {
    /// The RDB file, into which the snapshot was received. The present data is freed once the file's header
    /// has been accepted.
    File,
    /// The connection. The present data is freed once the header of the snapshot has been accepted.
    Stream(Box<dyn SnapshotSource>),
    /// The connection, from a primary with this history. The present data stays until the new data is loaded;
    /// until then it is served if it belongs to the same history.
    Exchanged(Box<dyn SnapshotSource>, String),
}

/// If more than this many seconds pass between the last check of a link that was up and the time at which
/// its loss is noticed, this server counts as having been stopped in between.
const STOOD_STILL_S: i64 = 2;

impl ReplicaRole {
    /// A role whose link has just begun; the position of the data is unknown.
    pub fn new(link: ReplicaLink) -> ReplicaRole {
        ReplicaRole {
            link,
            commit_waits: false,
            next_tick_ns: 0,
            transfer_since_ns: 0,
            session: None,
            can_resume: false,
            db: 0,
            down_since_s: 0,
            heard_s: 0,
            seen_up_s: 0,
            earlier_contact_s: 0,
            uncounted: Vec::new(),
            asks_ack: false,
            is_cut: false,
            durable: DurablePoint::default(),
            dropped: BTreeSet::new(),
        }
    }

    /// The primary that this server follows.
    #[inline]
    pub fn primary(&self) -> &Primary {
        self.link.primary()
    }

    /// Bytes received from the primary but not yet counted: those of an unfinished transaction, of a
    /// waiting command, and of the input after it.
    pub(crate) fn unapplied_bytes(&self, session: &Session) -> u64 {
        let waiting = session.waiting.as_ref().map_or(0, |waiting| waiting.wire_bytes());
        (self.uncounted.len() + waiting + session.caller.traffic.input_bytes) as u64
    }

    /// Whether the link is up, so that commands of the primary are received.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.link.state() == LinkState::Connected
    }

    /// Whether the data is the primary's up to the offset, so no full synchronisation is needed
    /// or in progress.
    pub fn has_data_of_primary(&self) -> bool {
        match self.link.state() {
            LinkState::Connected => true,
            LinkState::Transfer => false,
            LinkState::None | LinkState::Connect | LinkState::Connecting | LinkState::Handshake => {
                self.can_resume
            }
        }
    }

    /// Last contact of the data with a primary, in seconds since the epoch; 0: never in this process. A
    /// lost link counts as contact until its loss. If this server was stopped, it noticed the loss only
    /// when it continued, so the last activity of the primary counts instead.
    pub fn contact_s(&self) -> i64 {
        let was_suspended = self.down_since_s - self.seen_up_s > STOOD_STILL_S;
        let of_this = match self.heard_s > 0 && (self.down_since_s == 0 || was_suspended) {
            true => self.heard_s,
            false => self.down_since_s.max(self.heard_s),
        };
        if of_this == 0 { self.earlier_s() } else { of_this }
    }

    /// Last contact of the data with the previous primary, while the data is still that primary's; 0:
    /// never, or the data is being replaced.
    pub(crate) fn earlier_s(&self) -> i64 {
        if self.has_data_of_primary() { self.earlier_contact_s } else { 0 }
    }

    /// The value of [`ReplicaRole::contact_s`] when this server stops following the primary and keeps the
    /// data. `was_up`: whether the link was up.
    pub fn contact_at_end_s(&self, was_up: bool, now_s: i64) -> i64 {
        let was_suspended = self.seen_up_s > 0 && now_s - self.seen_up_s > STOOD_STILL_S;
        match was_up {
            true if was_suspended => self.heard_s,
            true => now_s,
            false => self.contact_s(),
        }
    }

    /// Whether the link has been up since this server began to follow this primary.
    pub(crate) fn has_been_up(&self) -> bool {
        self.is_up() || self.down_since_s > 0
    }

    /// Records that the primary asked for the offset; the answer is sent after the command.
    pub(crate) fn ask_ack(&mut self) {
        self.asks_ack = true;
    }

    /// Records the position of the file and the offset of the stream at which a rewrite began. Once the base
    /// of the rewrite is installed, the data of that moment is durable, whatever is synced later.
    pub fn await_rewrite(&mut self, position: u64, offset: u64) {
        self.durable.awaited = Some((position, offset));
    }

    /// Bytes of heap memory that the role takes.
    pub fn footprint(&self) -> usize {
        sluice_base::heap::boxed::<ReplicaRole>()
            + sluice_base::heap::block(self.primary().host.capacity())
            + sluice_base::heap::vec(&self.uncounted)
    }
}
