//! The type whose methods drive the node's machine: what it works on.

use crate::core::Core;

/// The driver of the node's machine: steps it, and carries out what it decides.
pub(crate) struct ClusterDriver<'a> {
    pub(crate) core: &'a mut Core,
}

impl<'a> ClusterDriver<'a> {
    /// Works on this core.
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> ClusterDriver<'a> {
        ClusterDriver { core }
    }
}
