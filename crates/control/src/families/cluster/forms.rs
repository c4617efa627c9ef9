//! Answers to forms of CLUSTER that no handler takes.

use crate::ctx::ClusterCtx;
use sluice_commands::{Args, CmdError, Run};

/// The error of a form that the command table lets pass and no subcommand has (K-2).
pub(super) fn unknown_form(args: Args<'_>) -> CmdError {
    let word = args.at(1);
    CmdError::owned(
        [b"ERR unknown subcommand or wrong number of arguments for '", word, b"'. Try CLUSTER HELP."]
            .concat(),
    )
}

/// Commands that the reference has and that are refused here: nothing of them is done.
pub(super) fn not_yet(_: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let name = args.at(1).to_ascii_uppercase();
    Err(CmdError::owned([b"ERR CLUSTER ", name.as_slice(), b" is not supported by this version"].concat()))
}
