//! The key of a session, for code that refers to clients without access to them.

/// Names a session. The key of a session that has ended finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// Index in the table of sessions: small, reused.
    pub slot: u32,
    /// Generation of the slot, which tells reused slots apart.
    pub generation: u32,
}
