//! Helpers shared by the files of this family: arguments, look-ups, replies.

use sluice_commands::{Args, CmdError};

/// The argument at `index` as a switch: ON or OFF.
pub(crate) fn on_or_off(args: Args<'_>, index: usize) -> Result<bool, CmdError> {
    match () {
        () if args.is(index, "ON") => Ok(true),
        () if args.is(index, "OFF") => Ok(false),
        () => Err(CmdError::Syntax),
    }
}
