//! Where in a history of replication the data of a file stand.
//!
//! A snapshot says so in the fields `repl-id` and `repl-offset`; a log by annotations behind its units
//! (`docs/formats/aof.md`). A unit that no annotation follows has taken the data away from there: replicas of
//! that history may lack the unit, or have it. A log that begins elsewhere than the one before it ends shows
//! that a crash has taken the end of that one, whose sync had failed.

use std::mem::take;

use sluice_persist::aof::{NO_HISTORY, ReplicationNote};

/// A key, or fields of a hash, that had expired and were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The key's database.
    pub db: usize,
    /// The key.
    pub key: Box<[u8]>,
    /// The fields; none where the whole key was left out.
    pub fields: Vec<Vec<u8>>,
}

/// What the files that were loaded have told so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedHistory {
    replid: Option<String>,
    offset: Option<u64>,
    /// The database that the stream has selected there.
    db: Option<usize>,
    /// What had expired and was left out. Replicas that go on from there have it.
    expired: Vec<LeftOut>,
    /// Nothing of the present file has changed the data yet: where the file before it has left them.
    left_at: Option<(Option<String>, Option<u64>)>,
    /// The end of a file is missing, and another follows.
    has_gap: bool,
}

impl LoadedHistory {
    /// The id of the history: 40 hexadecimal digits. Where in it the data stand is to follow. [`NO_HISTORY`]:
    /// a history begins here.
    pub(crate) fn note_id(&mut self, id: &[u8]) {
        if id == NO_HISTORY {
            // A gap stays one: what a crash has taken, replicas of the new history may have.
            let (expired, has_gap) = (take(&mut self.expired), self.has_gap);
            return *self = LoadedHistory { expired, has_gap, ..LoadedHistory::default() };
        }
        let is_id = id.len() == ID_LEN && id.iter().all(u8::is_ascii_hexdigit);
        self.replid = is_id.then(|| String::from_utf8_lossy(id).into_owned());
        self.offset = None;
    }

    /// The data stand behind so many bytes of the history.
    pub(crate) fn note_offset(&mut self, offset: u64) {
        self.offset = Some(offset);
        if let Some((replid, left_at)) = self.left_at.take() {
            // The file begins where the one before has ended, or ended before a crash has taken its end.
            self.has_gap |= left_at != self.offset || replid != self.replid;
        }
    }

    /// Another file follows, behind a log or behind a base. A base may be older than its history; a log that
    /// says nothing, behind which a history goes on, may have lost all that it said.
    pub fn begin_file(&mut self, is_behind_log: bool) {
        self.left_at = (is_behind_log || self.replid.is_some()).then(|| (self.replid.clone(), self.offset));
    }

    /// Whether the end of a file is missing, and another follows: then the data belong to no history.
    pub fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// Takes what a log says.
    pub fn note(&mut self, note: ReplicationNote) {
        match note {
            ReplicationNote::Id(id) => self.note_id(&id),
            ReplicationNote::Offset(offset) => self.note_offset(offset),
            ReplicationNote::Db(db) => self.note_db(usize::try_from(db).ok()),
        }
    }

    /// Whether the file belongs to a history.
    pub(crate) fn has_id(&self) -> bool {
        self.replid.is_some()
    }

    /// The data have been changed since.
    #[inline]
    pub fn note_change(&mut self) {
        self.offset = None;
        self.left_at = None;
    }

    /// The stream has selected this database.
    pub(crate) fn note_db(&mut self, db: Option<usize>) {
        self.db = db;
    }

    /// A key was left out, because it has expired, or fields of a hash: replicas of the history have it, if
    /// there is one.
    pub(crate) fn note_expired(&mut self, left_out: LeftOut) {
        if self.has_id() {
            self.expired.push(left_out);
        }
    }

    /// What had expired, in the order of the file.
    pub fn take_expired(&mut self) -> Vec<LeftOut> {
        take(&mut self.expired)
    }

    /// The database that the stream has selected there, where that is known.
    pub fn db(&self) -> Option<usize> {
        self.db
    }

    /// Id and offset, where both are known.
    pub fn point(self) -> Option<(String, u64)> {
        self.replid.zip(self.offset).filter(|_| !self.has_gap)
    }
}

/// Digits of an id.
const ID_LEN: usize = 40;
