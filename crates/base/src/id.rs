//! Ids that cross crates.

/// A client connection, never reused within a process: what `CLIENT ID` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);
