//! Answers to forms of CLUSTER that no handler takes.

use sluice_commands::{Args, CmdError};

/// The error of a form that the command table lets pass and no subcommand has (K-2).
pub(super) fn unknown_form(args: Args<'_>) -> CmdError {
    let word = args.at(1);
    CmdError::owned(
        [b"ERR unknown subcommand or wrong number of arguments for '", word, b"'. Try CLUSTER HELP."]
            .concat(),
    )
}
