//! The propagation stream: what replicas are fed (and, later, the append-only file).
//!
//! Invariants: (1) the stream is a function of the units executed and nothing else; (2) a unit of several commands is
//! wrapped in MULTI and EXEC; (3) SELECT stands before the first command of another database.

use crate::session::SessionKey;
use sluice_keyspace::Argv;

/// The stream and who gets it.
#[derive(Debug, Default)]
pub struct Stream {
    /// Sessions fed, in order of arrival.
    pub replicas: Vec<SessionKey>,
    /// Bytes produced since the start of the history.
    pub offset: u64,
    /// Id of the history: 40 hexadecimal digits.
    pub replid: String,
    /// Whether a replica has ever been attached: the history begins with the first.
    begun: bool,
    /// Database selected in the stream.
    selected: Option<usize>,
    /// Bytes of the unit under way; delivered at its end.
    pending: Vec<u8>,
}

impl Stream {
    /// An empty stream of the history `replid`.
    pub fn new(replid: String) -> Stream {
        Stream { replid, ..Stream::default() }
    }

    /// Whether anybody is fed.
    #[inline]
    pub fn is_fed(&self) -> bool {
        !self.replicas.is_empty()
    }

    /// Whether the history has begun.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Begins the history under an id.
    pub fn begin(&mut self, replid: String) {
        self.replid = replid;
        self.begun = true;
    }

    /// Database selected in the stream.
    pub fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Feeds a session from the next unit on, which names its database again. To be called between units.
    pub fn attach(&mut self, key: SessionKey) {
        debug_assert!(self.pending.is_empty());
        self.replicas.push(key);
        self.selected = None;
    }

    /// Opens a unit of several commands. SELECT, if it is needed, comes inside.
    pub fn multi(&mut self) {
        push_command(&mut self.pending, [&b"MULTI"[..]].into_iter());
    }

    /// Closes it.
    pub fn exec(&mut self) {
        push_command(&mut self.pending, [&b"EXEC"[..]].into_iter());
    }

    /// Adds a command of database `db`.
    pub fn command<'a>(&mut self, db: usize, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.select(db);
        push_command(&mut self.pending, argv);
    }

    /// Adds a command that belongs to no database.
    pub fn raw<'a>(&mut self, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
        push_command(&mut self.pending, argv);
    }

    /// Adds a rewritten command.
    pub fn argv(&mut self, db: usize, argv: &Argv) {
        self.command(db, argv.iter().map(Vec::as_slice));
    }

    /// Takes the bytes produced since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        self.offset += self.pending.len() as u64;
        std::mem::take(&mut self.pending)
    }

    /// Whether there are bytes to deliver.
    #[inline]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    fn select(&mut self, db: usize) {
        if self.selected == Some(db) {
            return;
        }
        self.selected = Some(db);
        let number = db.to_string();
        push_command(&mut self.pending, [&b"SELECT"[..], number.as_bytes()].into_iter());
    }
}

/// Writes a command as a RESP array of bulk strings.
pub fn push_command<'a>(out: &mut Vec<u8>, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
    out.push(b'*');
    sluice_base::num::push_u64(out, argv.len() as u64);
    out.extend_from_slice(b"\r\n");
    for arg in argv {
        out.push(b'$');
        sluice_base::num::push_u64(out, arg.len() as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn select_stands_inside_a_transaction() {
        let mut stream = Stream::default();
        stream.multi();
        stream.command(0, [&b"DEL"[..], b"a"].into_iter());
        stream.exec();
        let text = String::from_utf8(stream.take()).unwrap();
        let places = ["MULTI", "SELECT", "DEL", "EXEC"].map(|word| text.find(word).unwrap());
        assert!(places.is_sorted());
    }

    #[test]
    fn select_stands_before_the_first_command_of_another_database() {
        let mut stream = Stream::default();
        stream.command(0, [&b"DEL"[..], b"a"].into_iter());
        stream.command(0, [&b"DEL"[..], b"b"].into_iter());
        stream.command(3, [&b"DEL"[..], b"c"].into_iter());
        let bytes = stream.take();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(text.matches("SELECT").count(), 2);
        assert!(text.starts_with("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"));
        assert_eq!(stream.offset, bytes.len() as u64);
    }
}
