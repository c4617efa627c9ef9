//! Secrets in arguments: what MONITOR and the command log show in their place.

use sluice_command::Spec;
use sluice_command::specs::{connection, generic, server};
use sluice_commands::Args;
use sluice_config::{ParamId, Traits};

/// What stands for a secret.
const HIDDEN: &[u8] = b"(redacted)";

/// The command's arguments as others may see them.
pub(crate) fn shown<'a>(spec: &'static Spec, args: Args<'a>) -> Vec<&'a [u8]> {
    let mut shown: Vec<&[u8]> = args.iter_from(0).collect();
    if std::ptr::eq(spec, &connection::AUTH) {
        // More than a name and a password is no attempt to authenticate.
        if shown.len() <= 3 {
            shown[1..].fill(HIDDEN);
        }
    } else if [server::ACL_SETUSER.id, server::ACL_DELUSER.id, server::ACL_GETUSER.id].contains(&spec.id) {
        shown[2..].fill(HIDDEN);
    } else if std::ptr::eq(spec, &connection::HELLO) {
        hide_in_hello(args, &mut shown);
    } else if std::ptr::eq(spec, &generic::MIGRATE) {
        hide_in_migrate(args, &mut shown);
    } else if std::ptr::eq(spec, &server::CONFIG_SET) {
        for i in (2..args.len().saturating_sub(1)).step_by(2) {
            if ParamId::find(args.at(i)).is_some_and(|id| id.param().traits.has(Traits::SENSITIVE)) {
                shown[i + 1] = HIDDEN;
            }
        }
    }
    shown
}

fn hide_in_hello(args: Args<'_>, shown: &mut [&[u8]]) {
    let mut i = 2;
    while i + 1 < args.len() {
        if args.is(i, "AUTH") && i + 2 < args.len() {
            shown[i + 1..i + 3].fill(HIDDEN);
            i += 3;
        } else if args.is(i, "SETNAME") {
            i += 2;
        } else {
            break;
        }
    }
}

fn hide_in_migrate(args: Args<'_>, shown: &mut [&[u8]]) {
    let mut i = 6;
    while i < args.len() && !args.is(i, "KEYS") {
        let secrets = match () {
            () if args.is(i, "AUTH") => 1,
            () if args.is(i, "AUTH2") => 2,
            () => 0,
        };
        let end = (i + 1 + secrets).min(shown.len());
        shown[i + 1..end].fill(HIDDEN);
        i += 1 + secrets;
    }
}
