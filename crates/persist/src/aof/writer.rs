//! Writes records of a log: commands, the databases they belong to, and timestamps.
//!
//! Invariants: (1) a timestamp stands before the first record of each second that has one, if annotations are wanted;
//! (2) SELECT stands before the first command of a file and of another database; (3) nothing is kept but the database and the
//! second: one writer serves one file.

use sluice_base::num;

/// The state that records of one file depend on.
#[derive(Clone, Debug, Default)]
pub struct LogWriter {
    /// The database that the last SELECT of the file names.
    selected: Option<u64>,
    /// The second that the last annotation names.
    annotated_s: Option<i64>,
}

impl LogWriter {
    /// At the beginning of a file.
    pub fn new() -> LogWriter {
        LogWriter::default()
    }

    /// Appends a timestamp, seconds since the epoch, unless the last one in the file is as late. Setting
    /// `aof-timestamp-enabled`.
    pub fn timestamp(&mut self, now_s: i64, out: &mut Vec<u8>) {
        if self.annotated_s.is_none_or(|last| last < now_s) {
            self.annotated_s = Some(now_s);
            out.extend_from_slice(b"#TS:");
            out.extend_from_slice(now_s.to_string().as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Appends SELECT unless the database is the last that was selected in the file.
    pub fn select(&mut self, db: u64, out: &mut Vec<u8>) {
        if self.selected != Some(db) {
            self.selected = Some(db);
            let mut digits = Vec::with_capacity(20);
            num::push_u64(&mut digits, db);
            self.command([&b"SELECT"[..], &digits].into_iter(), out);
        }
    }

    /// Appends a command. Its database was selected before, if it belongs to one: MULTI and EXEC do not.
    pub fn command<'a>(&self, argv: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        header(b'*', argv.len(), out);
        for arg in argv {
            header(b'$', arg.len(), out);
            out.extend_from_slice(arg);
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn header(kind: u8, number: usize, out: &mut Vec<u8>) {
    out.push(kind);
    num::push_u64(out, number as u64);
    out.extend_from_slice(b"\r\n");
}
