//! Ids that cross crates.

/// The id of a client connection, as CLIENT ID returns it; never reused within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);
