//! Messages between the load and a server: a header of eight bytes (length of the body, kind) and a body.

/// Bytes of a header.
pub const HEADER: usize = 8;

/// What is to be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Comes back as it is.
    Echo = 0,
    /// Is kept as a value; a header without a body comes back.
    Sink = 1,
    /// Is digested; nothing comes back.
    Flood = 2,
    /// Comes back, and then the server closes.
    Last = 3,
    /// Makes the connection a subscriber; a header comes back.
    Subscribe = 4,
    /// Goes to every subscriber; a header comes back.
    Publish = 5,
    /// The server's counters come back.
    Mark = 6,
    /// The server's counters come back with memory and descriptors, which take longer to find out.
    Census = 7,
}

impl Kind {
    pub fn from_byte(byte: u8) -> Kind {
        [
            Kind::Echo,
            Kind::Sink,
            Kind::Flood,
            Kind::Last,
            Kind::Subscribe,
            Kind::Publish,
            Kind::Mark,
            Kind::Census,
        ][usize::from(byte) % 8]
    }
}

/// A message of `bytes` bytes, header included.
pub fn message(kind: Kind, bytes: usize) -> Vec<u8> {
    let body = bytes - HEADER;
    let mut message = header(kind, body).to_vec();
    message.resize(bytes, 0x5a);
    message
}

pub fn header(kind: Kind, body: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&(body as u32).to_le_bytes());
    header[4] = kind as u8;
    header
}
