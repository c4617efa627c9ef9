//! Errors for unknown commands and subcommands.

use sluice_command::Spec;
use sluice_commands::{Args, CmdError, shown};

/// The error for an unknown command. Name and arguments are shortened, and end at a zero byte.
pub fn unknown_command(args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(shown(args.at(0), SHOWN_BYTES));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut left = SHOWN_BYTES;
    for arg in args.iter_from(1) {
        if left == 0 {
            break;
        }
        let before = text.len();
        text.push(b'\'');
        text.extend_from_slice(shown(arg, left));
        text.extend_from_slice(b"' ");
        left = left.saturating_sub(text.len() - before);
    }
    CmdError::owned(text)
}

/// The error for an unknown subcommand of this container.
pub fn unknown_subcommand(container: &Spec, args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(shown(args.at(1), SHOWN_BYTES));
    text.extend_from_slice(format!("'. Try {} HELP.", container.name().to_ascii_uppercase()).as_bytes());
    CmdError::owned(text)
}

/// The error for a subcommand in a wrong form that only the handler detects.
pub fn wrong_form(container: &Spec, args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(shown(args.at(1), SHOWN_BYTES));
    text.extend_from_slice(format!("'. Try {} HELP.", container.name().to_ascii_uppercase()).as_bytes());
    CmdError::owned(text)
}

/// An error shows at most this many bytes of the name, and as many of all arguments together.
const SHOWN_BYTES: usize = 128;
