//! What is done with scripts, libraries and runs without executing a command.

use crate::core::Core;
use crate::engine::Engine;
use sluice_scripts::state::Scripting;

/// Scripts, libraries and runs, with the core that they belong to.
pub(crate) struct Scripts<'a> {
    pub(super) core: &'a mut Core,
    pub(super) scripting: &'a mut Scripting,
}

impl Engine {
    /// Scripts, libraries and runs, without what executes a command.
    #[inline]
    pub(crate) fn scripts(&mut self) -> Scripts<'_> {
        Scripts { core: &mut self.core, scripting: &mut self.scripting }
    }
}
