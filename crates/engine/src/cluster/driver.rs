//! The type whose methods drive the node's state machine.

use crate::core::Core;

/// Driver of the node's state machine: steps it, and carries out its decisions.
pub(crate) struct ClusterDriver<'a> {
    pub(crate) core: &'a mut Core,
}

impl<'a> ClusterDriver<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> ClusterDriver<'a> {
        ClusterDriver { core }
    }
}
