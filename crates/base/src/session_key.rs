//! The name of a session, for everything that refers to clients without looking at them.

/// Names a session; stale keys find nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// Slot in the table: small, reused.
    pub slot: u32,
    /// Generation of the slot.
    pub generation: u32,
}
