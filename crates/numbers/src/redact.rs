//! Secrets in arguments, hidden from MONITOR and the command log. An invalid call may contain a secret, too,
//! such as a password with a blank, so in doubt more arguments are hidden than in the reference.

use sluice_command::specs::{connection, generic, server};
use sluice_command::{Named, Spec, is_word};
use sluice_commands::{Args, Renames, resolve_renamed};
use sluice_config::{ParamId, names_secret};

/// The text in place of a secret.
const HIDDEN: &[u8] = b"(redacted)";

/// The arguments of a command with secrets replaced. If the arguments contain another call (ACL DRYRUN,
/// COMMAND GETKEYS and GETKEYSANDFLAGS), its secrets are replaced, too, unless its command is unknown. Cost:
/// O(arguments), and a look-up for each nested call.
pub fn shown<'a>(spec: &'static Spec, args: Args<'a>, renames: &Renames) -> Vec<&'a [u8]> {
    let mut shown: Vec<&[u8]> = args.iter_from(0).collect();
    let (mut spec, mut first) = (spec, 0);
    while let Some(inner) = inner_call(spec) {
        first += inner;
        // Name and subcommand suffice for the look-up; copying all arguments for each nested call
        // would be quadratic.
        let call = shown.get(first..).unwrap_or_default();
        match resolve_renamed(renames, &call[..call.len().min(2)]) {
            Named::Command(called) => spec = called,
            Named::UnknownSubcommand(_) | Named::Unknown => return shown,
        }
    }
    hide(spec, shown.get_mut(first..).unwrap_or_default());
    shown
}

/// Position of the nested call among the arguments of a command that takes a call (ACL DRYRUN, COMMAND
/// GETKEYS and GETKEYSANDFLAGS); `None` for other commands.
fn inner_call(spec: &Spec) -> Option<usize> {
    match spec.id {
        id if id == server::ACL_DRYRUN.id => Some(3),
        id if [server::COMMAND_GETKEYS.id, server::COMMAND_GETKEYSANDFLAGS.id].contains(&id) => Some(2),
        _ => None,
    }
}

fn hide(spec: &Spec, shown: &mut [&[u8]]) {
    // ACL SETROLE is included although roles have no passwords, because a call that gives a role a password
    // by mistake is refused but contains the password.
    let users =
        [server::ACL_SETUSER.id, server::ACL_DELUSER.id, server::ACL_GETUSER.id, server::ACL_SETROLE.id];
    if spec.id == connection::AUTH.id {
        hide_from(1, shown);
    } else if users.contains(&spec.id) {
        hide_from(2, shown);
    } else if spec.id == connection::HELLO.id {
        hide_behind_words(&[("AUTH", 2)], 2, shown);
    } else if spec.id == generic::MIGRATE.id {
        // The search ends at KEYS, because all arguments after it are keys.
        let end = shown.iter().skip(6).position(|arg| is_word(arg, "KEYS")).map_or(shown.len(), |at| 6 + at);
        hide_behind_words(&[("AUTH", 1), ("AUTH2", 2)], 6, &mut shown[..end]);
    } else if spec.id == server::CONFIG_SET.id {
        hide_in_config_set(shown);
    }
}

fn hide_from(first: usize, shown: &mut [&[u8]]) {
    if let Some(secrets) = shown.get_mut(first..) {
        secrets.fill(HIDDEN);
    }
}

/// Searches the arguments from position `first` on for these words, and hides the given number of arguments
/// after each word found.
fn hide_behind_words(words: &[(&str, usize)], first: usize, shown: &mut [&[u8]]) {
    let mut at = first;
    while at < shown.len() {
        let word = words.iter().find(|(word, _)| is_word(shown[at], word));
        let end = (at + 1 + word.map_or(0, |(_, secrets)| *secrets)).min(shown.len());
        shown[at + 1..end].fill(HIDDEN);
        at = end;
    }
}

fn hide_in_config_set(shown: &mut [&[u8]]) {
    let pairs = shown.get_mut(2..).unwrap_or_default();
    let (whole, odd) = pairs.as_chunks_mut::<2>();
    let are_known = odd.is_empty() && whole.iter().all(|[name, _]| ParamId::find(name).is_some());
    if are_known {
        for [name, value] in whole {
            if names_secret(name) {
                *value = HIDDEN;
            }
        }
    } else if let Some(at) = pairs.iter().position(|name| names_secret(name)) {
        // A name is unknown or an argument missing, so every later argument may be the secret.
        hide_from(at + 1, pairs);
    }
}
