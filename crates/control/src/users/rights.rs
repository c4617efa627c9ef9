//! Whether a session's user may run a command: checked by the gate, by EXEC for each queued command, and
//! for each call of a script.

use sluice_acl::Denial;
use sluice_command::Spec;
use sluice_commands::{Args, CmdError};
use sluice_session::{Caller, Session};

/// Up to this many arguments are checked without an allocation.
const ARGS_ON_STACK: usize = 16;

/// Whether the user of `caller` may run the command in database `db`; `databases` is the number of
/// databases. Cost: see [`sluice_acl::User::check_args`].
pub fn check(
    caller: &Caller,
    spec: &'static Spec,
    args: Args<'_>,
    db: usize,
    databases: usize,
) -> Result<(), Denial> {
    with_slices(args, |args| caller.user().check_args(spec, args, db, databases))
}

/// Whether the user may read every key, as required for the keys that BY and GET of SORT name.
pub fn may_read_any_key(caller: &Caller, spec: &'static Spec, args: Args<'_>, databases: usize) -> bool {
    with_slices(args, |args| caller.user().reads_every_key(spec, args, caller.db, databases))
}

/// Calls `ask` with the arguments as slices.
fn with_slices<'a, R>(args: Args<'a>, ask: impl FnOnce(&[&'a [u8]]) -> R) -> R {
    let mut few: [&[u8]; ARGS_ON_STACK] = [b""; ARGS_ON_STACK];
    match few.get_mut(..args.len()) {
        Some(few) => {
            for (slice, arg) in few.iter_mut().zip(args.iter_from(0)) {
                *slice = arg;
            }
            ask(few)
        }
        None => ask(&args.iter_from(0).collect::<Vec<_>>()),
    }
}

/// The database in which a new request would run; in a transaction, the one that the queued commands
/// will have selected.
#[inline]
pub fn database_of(session: &Session) -> usize {
    session.transaction.as_ref().and_then(|queued| queued.selected_db()).unwrap_or(session.caller.db)
}

/// The error reply to a refused request.
pub fn error(denial: Denial, caller: &Caller, spec: &'static Spec) -> CmdError {
    CmdError::owned([&b"NOPERM "[..], &denial.text(caller.user_name(), spec)].concat())
}

/// The error reply to a queued command that was allowed when it was queued and is now refused.
pub fn queued_error(denial: Denial) -> CmdError {
    use sluice_acl::Reason;
    let reason = match denial.reason {
        Reason::Command => "no permission to execute the command or subcommand",
        Reason::Key => "no permission to touch the specified keys",
        Reason::Channel => "no permission to access one of the channels used as arguments",
        Reason::Database => "no permission",
    };
    CmdError::owned(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
         This command is no longer allowed for the following reason: {reason}"
    ))
}
