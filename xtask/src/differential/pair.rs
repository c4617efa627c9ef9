//! A client of a stream, with its connections to both servers; and the number of databases that streams
//! use.

use crate::error::Result;
use crate::wire::Connection;

/// A client's connections to both servers.
pub(super) struct Pair {
    pub(super) ours: Connection,
    pub(super) peer: Connection,
}

impl Pair {
    /// Connects to the ports of our server and of the reference.
    pub(super) fn open([ours, peer]: [u16; 2]) -> Result<Pair> {
        Ok(Pair { ours: Connection::open(ours)?, peer: Connection::open(peer)? })
    }
}

/// Number of databases whose contents are compared at the end.
pub(super) const DATABASES: usize = 16;
