//! The position in a replication history to which the data of the loaded files correspond.
//!
//! A snapshot states the position in its fields `repl-id` and `repl-offset`; a log (append-only file) states
//! it in annotations after commands and transactions (`docs/formats/aof.md`). A command or transaction
//! without a later annotation has moved the data away from the last stated position, and replicas of that
//! history may or may not have the change. If a log does not begin at the position at which the previous log
//! ends, a crash has cut off the end of the previous log, whose sync had failed.

use std::mem::take;

use sluice_persist::aof::{NO_HISTORY, ReplicationNote};

/// A key, or fields of a hash, that a load left out because they had expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of the key's database.
    pub db: usize,
    /// Name of the key that had expired, or of the hash.
    pub key: Box<[u8]>,
    /// The fields that were left out; empty if the whole key was left out.
    pub fields: Vec<Vec<u8>>,
}

/// The position in a history, collected from the files that are loaded one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedHistory {
    replid: Option<String>,
    offset: Option<u64>,
    /// The database that the stream has selected at this position.
    db: Option<usize>,
    /// Keys and fields that were left out as expired. Replicas that continue from this position
    /// still have them.
    expired: Vec<LeftOut>,
    /// The position at which the previous file ended, as long as nothing in the present file has changed the
    /// data.
    left_at: Option<(Option<String>, Option<u64>)>,
    /// Whether the end of some file is missing although another file follows it.
    has_gap: bool,
}

impl LoadedHistory {
    /// Sets the history's id, 40 hexadecimal digits, or forgets it if `id` is malformed. The offset must
    /// follow. [`NO_HISTORY`] states that a new history begins here.
    pub(crate) fn note_id(&mut self, id: &[u8]) {
        if id == NO_HISTORY {
            // A gap stays a gap, because replicas of the new history may have the commands that a crash has
            // cut off here.
            let (expired, has_gap) = (take(&mut self.expired), self.has_gap);
            return *self = LoadedHistory { expired, has_gap, ..LoadedHistory::default() };
        }
        let is_id = id.len() == ID_LEN && id.iter().all(u8::is_ascii_hexdigit);
        self.replid = is_id.then(|| String::from_utf8_lossy(id).into_owned());
        self.offset = None;
    }

    /// Sets the position: the data contain this many bytes of the history.
    pub(crate) fn note_offset(&mut self, offset: u64) {
        self.offset = Some(offset);
        if let Some((replid, left_at)) = self.left_at.take() {
            // The file begins where the previous file ended, unless a crash has cut off that end.
            self.has_gap |= left_at != self.offset || replid != self.replid;
        }
    }

    /// Notes that another file follows, after a log (`is_after_log`) or after a base. If a history begins
    /// in the file after a base without a position, there is no gap, because a base may be older than the
    /// history. After a log without a position there is one, because the log may have lost all of its
    /// annotations.
    pub fn begin_file(&mut self, is_after_log: bool) {
        self.left_at = (is_after_log || self.replid.is_some()).then(|| (self.replid.clone(), self.offset));
    }

    /// Whether the end of a file is missing although another file follows it; the data then belong to no
    /// history.
    pub fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// Applies an annotation of a log.
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

    /// Notes that the data were changed after the last annotation.
    #[inline]
    pub fn note_change(&mut self) {
        self.offset = None;
        self.left_at = None;
    }

    /// Sets the database that the stream has selected.
    pub(crate) fn note_db(&mut self, db: Option<usize>) {
        self.db = db;
    }

    /// Notes that a key, or fields of a hash, were left out because they have expired. Does so only if the
    /// file belongs to a history, whose replicas still have them.
    pub(crate) fn note_expired(&mut self, left_out: LeftOut) {
        if self.has_id() {
            self.expired.push(left_out);
        }
    }

    /// The keys and fields that had expired, in the order of the file. The list is empty afterwards.
    pub fn take_expired(&mut self) -> Vec<LeftOut> {
        take(&mut self.expired)
    }

    /// The database that the stream has selected at this position, if that is known.
    pub fn db(&self) -> Option<usize> {
        self.db
    }

    /// The history's id and the offset, if both are known and no file has a gap.
    pub fn point(self) -> Option<(String, u64)> {
        self.replid.zip(self.offset).filter(|_| !self.has_gap)
    }
}

/// Digits of an id.
const ID_LEN: usize = 40;
