//! Messages between the load and a server: a header of eight bytes (length of the body, kind) and a body.

/// Bytes of a header.
pub const HEADER: usize = 8;

/// The request in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The message is returned unchanged.
    Echo = 0,
    /// The message is stored as a value; a header without a body is returned.
    Sink = 1,
    /// The message is digested; nothing is returned.
    Flood = 2,
    /// The message is returned, and then the server closes the connection.
    Last = 3,
    /// The connection becomes a subscriber; a header is returned.
    Subscribe = 4,
    /// The message is sent to every subscriber; a header is returned.
    Publish = 5,
    /// The server's counters are returned.
    Mark = 6,
    /// The server's counters are returned with memory and descriptors, which take longer to determine.
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
