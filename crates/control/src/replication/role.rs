//! What a server knows of itself as a replica, and how it becomes one, and a primary again.
//!
//! ```text
//!  REPLICAOF host port ──► role wanted ──behind the command──► role, with a link: the process makes connections for it
//!                                                                   │
//!              snapshot loaded, +CONTINUE ──► the link's session ──► commands ──► counted, relayed
//! ```
//!
//! The role has the state machine of the link (`sluice_replication`), and the process its connections
//! (`transport.rs`).
//!
//! Invariants: (1) while there is a role, the stream consists of what the primary has sent: each byte once,
//! behind the command that it is of, a transaction behind its EXEC; (2) the data stand at `stream.offset`
//! whenever no unit runs, and `can_resume` says whether they can be brought up to date from there; (3) a role
//! that is wanted while a file is put in force, or anything is loaded, waits for the end of the load (D-3).

use sluice_base::SessionKey;
use sluice_replication::{LinkState, Primary, ReplicaLink};
use sluice_session::Session;
use sluice_snapshot::SnapshotSource;
use std::collections::BTreeSet;

/// This server as a replica.
#[derive(Debug)]
pub struct ReplicaRole {
    /// The link: whom this server follows, and how far that is.
    pub link: ReplicaLink,
    /// A file that was received whole waits to take the place of the RDB file.
    pub commit_waits: bool,
    /// When time is told to the link next, monotonic ns.
    pub next_tick_ns: u64,
    /// Since when a snapshot is awaited, received or loaded, while one is; monotonic ns.
    pub transfer_since_ns: u64,
    /// The session of the link, while commands are received.
    pub session: Option<SessionKey>,
    /// Whether the data can be brought up to date from where they stand.
    pub can_resume: bool,
    /// The database that the primary's stream has selected.
    pub db: usize,
    /// Since when the link is down, seconds since the epoch; 0: it has never been up.
    pub down_since_s: i64,
    /// When the primary was heard last while the link was up, seconds since the epoch, as a node of a cluster
    /// notes it; 0: never.
    pub heard_s: i64,
    /// When the link was seen up last, likewise.
    pub seen_up_s: i64,
    /// When the data were last in contact with the primary before this one, whose data they are as long as
    /// the link has not been up; seconds since the epoch. 0: never, or they are not this primary's.
    pub earlier_contact_s: i64,
    /// What the primary has sent of a transaction that has not ended.
    pub uncounted: Vec<u8>,
    /// The primary asks how far the data are.
    pub asks_ack: bool,
    /// The link was cut: what its session has executed last does not count.
    pub is_cut: bool,
    /// How far the data are that are on disk: a position of the append-only file, and the offset of the
    /// stream there.
    pub durable: DurablePoint,
    /// Names of the primary's commands that are not known here, as far as the log has told them.
    pub dropped: BTreeSet<Vec<u8>>,
}

/// How far the replica's own append-only file is, in bytes of the stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct DurablePoint {
    /// The offset that is known to be on disk.
    pub offset: u64,
    /// A position of the file that is waited for, and the offset there.
    pub awaited: Option<(u64, u64)>,
}

/// What has come of the links of this server to its primaries since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Snapshots that were loaded.
    pub snapshots: u64,
    /// Times that a primary went on where the data stood.
    pub continued: u64,
}

/// A change of roles that a client has asked for.
#[derive(Clone, Debug)]
pub struct RoleWanted {
    /// The primary to follow; none: this server becomes a primary.
    pub primary: Option<Primary>,
    /// Who asks, for the log: `user request from '...'`, `failover request from '...'`; nobody: empty.
    pub by: String,
    /// The data are to be brought up to date where that is possible, and not replaced.
    pub keeps_data: bool,
}

/// Where the snapshot of a primary is read from, and what becomes of the data that are there.
pub enum SyncSource {
    /// From the RDB file, which holds the snapshot.
    File,
    /// From the connection. The data are freed first.
    Stream(Box<dyn SnapshotSource>),
    /// From the connection, of a primary with this history. The data stay until the others are there, and are
    /// served meanwhile where they belong to the same history.
    Exchanged(Box<dyn SnapshotSource>, String),
}

/// Seconds without a look at a link that was up until its end, from which on this server has stood still.
const STOOD_STILL_S: i64 = 2;

impl ReplicaRole {
    /// A role whose link has just begun: nothing is known of the data yet.
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

    /// Whom this server follows.
    #[inline]
    pub fn primary(&self) -> &Primary {
        self.link.primary()
    }

    /// Bytes that the primary has sent and that are not counted: of a transaction, of a command that waits,
    /// and behind that.
    pub(crate) fn unapplied_bytes(&self, session: &Session) -> u64 {
        let waiting = session.waiting.as_ref().map_or(0, |waiting| waiting.wire_bytes());
        (self.uncounted.len() + waiting + session.caller.traffic.input_bytes) as u64
    }

    /// Whether commands of the primary are received.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.link.state() == LinkState::Connected
    }

    /// Whether the data are the primary's, up to the offset: no copy replaces them, or is needed.
    pub fn has_data_of_primary(&self) -> bool {
        match self.link.state() {
            LinkState::Connected => true,
            LinkState::Transfer => false,
            LinkState::None | LinkState::Connect | LinkState::Connecting | LinkState::Handshake => {
                self.can_resume
            }
        }
    }

    /// When the data were last in contact with a primary, seconds since the epoch; 0: never in this process.
    /// A link that has ended counts from its end. A server that stood still learns of the end when it goes
    /// on: its data are older, and the primary's last word counts.
    pub fn contact_s(&self) -> i64 {
        let stood_still = self.down_since_s - self.seen_up_s > STOOD_STILL_S;
        let of_this = match self.heard_s > 0 && (self.down_since_s == 0 || stood_still) {
            true => self.heard_s,
            false => self.down_since_s.max(self.heard_s),
        };
        if of_this == 0 { self.earlier_s() } else { of_this }
    }

    /// When the data were last in contact with the primary before this one, as long as they are its data
    /// still; 0: never, or a copy replaces them.
    pub(crate) fn earlier_s(&self) -> i64 {
        if self.has_data_of_primary() { self.earlier_contact_s } else { 0 }
    }

    /// What [`ReplicaRole::contact_s`] is when this primary is followed no longer, and the data stay.
    /// `was_up`: the link was up.
    pub fn contact_at_end_s(&self, was_up: bool, now_s: i64) -> i64 {
        let stood_still = self.seen_up_s > 0 && now_s - self.seen_up_s > STOOD_STILL_S;
        match was_up {
            true if stood_still => self.heard_s,
            true => now_s,
            false => self.contact_s(),
        }
    }

    /// Whether commands of the primary were received since it is followed.
    pub(crate) fn has_been_up(&self) -> bool {
        self.is_up() || self.down_since_s > 0
    }

    /// The primary asks how far the data are: it is answered behind the command.
    pub(crate) fn ask_ack(&mut self) {
        self.asks_ack = true;
    }

    /// A rewrite of the append-only file has its cut at this position of the file and of the stream. When it
    /// is in force, the data of the cut are durable, whatever is synced behind it.
    pub fn await_rewrite(&mut self, position: u64, offset: u64) {
        self.durable.awaited = Some((position, offset));
    }

    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        sluice_base::heap::boxed::<ReplicaRole>()
            + sluice_base::heap::block(self.primary().host.capacity())
            + sluice_base::heap::vec(&self.uncounted)
    }
}
