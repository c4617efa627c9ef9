//! Errors for forms of CLUSTER that no handler accepts.

use sluice_commands::{Args, CmdError};

/// The error for a form that the command table accepts but no subcommand has (K-2).
pub(super) fn unknown_form(args: Args<'_>) -> CmdError {
    let word = args.at(1);
    CmdError::owned(
        [b"ERR unknown subcommand or wrong number of arguments for '", word, b"'. Try CLUSTER HELP."]
            .concat(),
    )
}
