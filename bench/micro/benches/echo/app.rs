//! The application that every server arm runs, with the same protocol and the same state per connection.
//!
//! Replies of an iteration are collected in the connection's `out`, and the arm sends each `out` once, at
//! the end of the iteration.

use super::machine::Counters;
use super::wire::{HEADER, Kind, header};

/// A value of which at least this many bytes are missing may be received directly into its final buffer.
const DIRECT_MIN: usize = 64 * 1024;

/// The state of one connection.
#[derive(Debug, Default)]
struct Conn {
    header: [u8; HEADER],
    /// Number of header bytes received so far.
    have: usize,
    /// Missing bytes of the body.
    left: usize,
    value: Vec<u8>,
    out: Vec<u8>,
    open: bool,
    dirty: bool,
    ending: bool,
}

impl Conn {
    fn kind(&self) -> Kind {
        Kind::from_byte(self.header[4])
    }
}

/// The way in which large values are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// Large values are received in chunks, which are then copied into the value.
    Chunks,
    /// Large values are received directly into the value.
    Direct,
}

/// All connections of a server.
#[derive(Debug)]
pub struct App {
    conns: Vec<Conn>,
    free: Vec<u32>,
    /// Ids of the connections closed in this iteration; later iterations may reuse them.
    freed: Vec<u32>,
    dirty: Vec<u32>,
    subscribers: Vec<u32>,
    marks: Vec<u32>,
    taking: Taking,
    digest: u64,
}

impl App {
    pub fn new(taking: Taking) -> App {
        App {
            conns: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            dirty: Vec::new(),
            subscribers: Vec::new(),
            marks: Vec::new(),
            taking,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Assigns an id to a new connection.
    pub fn opened(&mut self) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.conns.push(Conn::default());
            self.conns.len() as u32 - 1
        });
        let conn = &mut self.conns[id as usize];
        let (mut out, mut value) = (std::mem::take(&mut conn.out), std::mem::take(&mut conn.value));
        out.clear();
        value.clear();
        *conn = Conn { out, value, open: true, ..Conn::default() };
        id
    }

    pub fn closed(&mut self, id: u32) {
        let conn = &mut self.conns[id as usize];
        if conn.open {
            conn.open = false;
            self.freed.push(id);
            self.subscribers.retain(|subscriber| *subscriber != id);
        }
    }

    pub fn is_open(&self, id: u32) -> bool {
        self.conns[id as usize].open
    }

    /// Whether the connection is to be closed after its `out` is sent.
    pub fn is_ending(&self, id: u32) -> bool {
        self.conns[id as usize].ending
    }

    /// The bytes that are to be sent on the connection.
    pub fn out(&mut self, id: u32) -> &mut Vec<u8> {
        &mut self.conns[id as usize].out
    }

    /// Missing bytes of a large value, if they may be received directly into [`App::value`].
    pub fn wants(&self, id: u32) -> Option<usize> {
        let conn = &self.conns[id as usize];
        let large = self.taking == Taking::Direct && conn.kind() == Kind::Sink && conn.left >= DIRECT_MIN;
        large.then_some(conn.left)
    }

    /// The value that is being received.
    pub fn value(&mut self, id: u32) -> &mut Vec<u8> {
        &mut self.conns[id as usize].value
    }

    /// Records that `bytes` bytes were added to the value.
    pub fn filled(&mut self, id: u32, bytes: usize) {
        let conn = &mut self.conns[id as usize];
        conn.left -= bytes;
        if conn.left == 0 {
            self.finish(id);
        }
    }

    /// Handles the received bytes of a connection.
    pub fn received(&mut self, id: u32, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let conn = &mut self.conns[id as usize];
            if conn.left == 0 {
                let part = bytes.len().min(HEADER - conn.have);
                conn.header[conn.have..conn.have + part].copy_from_slice(&bytes[..part]);
                conn.have += part;
                bytes = &bytes[part..];
                if conn.have == HEADER {
                    self.begin(id);
                }
                continue;
            }
            let (body, rest) = bytes.split_at(bytes.len().min(conn.left));
            match conn.kind() {
                Kind::Echo | Kind::Last => conn.out.extend_from_slice(body),
                Kind::Sink | Kind::Publish => conn.value.extend_from_slice(body),
                Kind::Flood => {
                    let digest = body.iter().fold(self.digest, |digest, byte| {
                        (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
                    });
                    self.digest = std::hint::black_box(digest);
                }
                Kind::Subscribe | Kind::Mark | Kind::Census => {}
            }
            conn.left -= body.len();
            if conn.left == 0 {
                self.finish(id);
            }
            bytes = rest;
        }
    }

    /// Handles a complete header.
    fn begin(&mut self, id: u32) {
        let conn = &mut self.conns[id as usize];
        conn.have = 0;
        let [a, b, c, d, ..] = conn.header;
        conn.left = u32::from_le_bytes([a, b, c, d]) as usize;
        match conn.kind() {
            Kind::Echo | Kind::Last => conn.out.extend_from_slice(&conn.header),
            Kind::Sink | Kind::Publish => {
                conn.value.clear();
                conn.value.reserve_exact(conn.left);
            }
            Kind::Flood | Kind::Subscribe | Kind::Mark | Kind::Census => {}
        }
        if conn.left == 0 {
            self.finish(id);
        }
    }

    /// Handles a complete message.
    fn finish(&mut self, id: u32) {
        let conn = &mut self.conns[id as usize];
        match conn.kind() {
            Kind::Echo => {}
            Kind::Flood => return,
            Kind::Last => conn.ending = true,
            Kind::Sink => conn.out.extend_from_slice(&header(Kind::Sink, 0)),
            Kind::Subscribe => {
                conn.out.extend_from_slice(&header(Kind::Subscribe, 0));
                self.subscribers.push(id);
            }
            Kind::Publish => {
                conn.out.extend_from_slice(&header(Kind::Publish, 0));
                self.publish(id);
            }
            Kind::Mark | Kind::Census => return self.marks.push(id),
        }
        self.touch(id);
    }

    fn publish(&mut self, publisher: u32) {
        let value = std::mem::take(&mut self.conns[publisher as usize].value);
        let header = header(Kind::Publish, value.len());
        for &id in &self.subscribers {
            let conn = &mut self.conns[id as usize];
            conn.out.extend_from_slice(&header);
            conn.out.extend_from_slice(&value);
            if !conn.dirty {
                conn.dirty = true;
                self.dirty.push(id);
            }
        }
        self.conns[publisher as usize].value = value;
    }

    /// Marks a connection that has bytes to send, or is to be closed.
    pub fn touch(&mut self, id: u32) {
        let conn = &mut self.conns[id as usize];
        if !conn.dirty {
            conn.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Answers the connections that have requested counters.
    pub fn answer_marks(&mut self, mut counters: impl FnMut() -> Counters) {
        while let Some(id) = self.marks.pop() {
            let mut counters = counters();
            let conn = &mut self.conns[id as usize];
            if conn.kind() == Kind::Census {
                counters.take_census();
            }
            conn.out.extend_from_slice(&counters.to_bytes());
            self.touch(id);
        }
    }

    /// The connections that have bytes to send, or are to be closed. The list must be passed to
    /// [`App::turn_over`] at the end of the iteration.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        let dirty = std::mem::take(&mut self.dirty);
        for &id in &dirty {
            self.conns[id as usize].dirty = false;
        }
        dirty
    }

    /// Ends an iteration, and takes back the list of [`App::take_dirty`].
    pub fn turn_over(&mut self, mut dirty: Vec<u32>) {
        dirty.clear();
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
        self.free.append(&mut self.freed);
    }
}
