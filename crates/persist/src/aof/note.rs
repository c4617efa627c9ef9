//! Annotations about replication. They state which position of a replication history the data has reached
//! with all records before the annotation.

use sluice_base::num;

/// An annotation about replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicationNote {
    /// `#REPL-ID:` and 40 bytes: the id of the history that the following offsets belong to.
    /// With [`NO_HISTORY`], the records before the annotation belong to no history.
    Id([u8; 40]),
    /// `#REPL-OFFSET:` and a number: with the records before the annotation, the data contain this many bytes
    /// of the history.
    Offset(u64),
    /// `#REPL-DB:` and a number: the database that the primary's stream has selected at this position.
    /// A primary writes this annotation, too, because the server may be a replica when it loads the file.
    Db(u64),
}

impl ReplicationNote {
    /// The annotation in a line without its line end; `None` for any other annotation, or an invalid value.
    pub(super) fn parse(line: &[u8]) -> Option<ReplicationNote> {
        if let Some(id) = line.strip_prefix(ID) {
            return id.try_into().ok().map(ReplicationNote::Id);
        }
        let number = |text| num::parse_i64(text).and_then(|number| u64::try_from(number).ok());
        if let Some(db) = line.strip_prefix(DB) {
            return number(db).map(ReplicationNote::Db);
        }
        line.strip_prefix(OFFSET).and_then(number).map(ReplicationNote::Offset)
    }

    /// Whether the value of an unfinished line may still become valid, if the line begins with the name of an
    /// annotation about replication; `None` for any other line.
    pub(super) fn is_begun(line: &[u8]) -> Option<bool> {
        if let Some(id) = line.strip_prefix(ID) {
            return Some(id.len() <= NO_HISTORY.len() && id.iter().all(u8::is_ascii_hexdigit));
        }
        let number = line.strip_prefix(DB).or_else(|| line.strip_prefix(OFFSET))?;
        Some(number.iter().all(u8::is_ascii_digit))
    }

    /// Appends the annotation as a line with its end.
    pub fn push(self, out: &mut Vec<u8>) {
        match self {
            ReplicationNote::Id(id) => {
                out.extend_from_slice(ID);
                out.extend_from_slice(&id);
            }
            ReplicationNote::Offset(offset) => {
                out.extend_from_slice(OFFSET);
                num::push_u64(out, offset);
            }
            ReplicationNote::Db(db) => {
                out.extend_from_slice(DB);
                num::push_u64(out, db);
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The id that stands for no history.
pub const NO_HISTORY: [u8; 40] = [b'0'; 40];

const ID: &[u8] = b"#REPL-ID:";
const OFFSET: &[u8] = b"#REPL-OFFSET:";
const DB: &[u8] = b"#REPL-DB:";
