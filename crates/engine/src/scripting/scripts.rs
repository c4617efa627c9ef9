//! Work on scripts, libraries and runs that executes no command.

use crate::core::Core;
use crate::engine::Engine;
use sluice_scripts::state::Scripting;

/// Scripts, libraries and runs, with their core.
pub(crate) struct Scripts<'a> {
    pub(super) core: &'a mut Core,
    pub(super) scripting: &'a mut Scripting,
}

impl Engine {
    /// The scripts, libraries and runs, without the parts that execute commands.
    #[inline]
    pub(crate) fn scripts(&mut self) -> Scripts<'_> {
        Scripts { core: &mut self.core, scripting: &mut self.scripting }
    }
}
