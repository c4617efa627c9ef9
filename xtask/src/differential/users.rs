//! Users with random rules, and clients that authenticate as these users.
//!
//! Invariant: `default` keeps its rights, so the clients that check the servers see everything, and every
//! client can authenticate as `default` again, whatever a stream does.

use super::command::Command;
use super::generator::Generator;
use crate::error::Result;
use crate::wire::Connection;

/// Names of users; the first ones are drawn more often.
const NAMES: &[&str] = &["u0", "u1", "u0", "u1", "u2", "u3"];

/// The password of all users with a password.
const PASSWORD: &str = "pw";

/// Rules that give many rights; drawn more often.
const WIDE: &[&str] = &["+@all", "~*", "&*", "alldbs", "on", "nopass"];

/// Rules, some of them invalid.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">pw",
    ">other",
    "<pw",
    "+@all",
    "allcommands",
    "-@all",
    "nocommands",
    "+@read",
    "-@write",
    "+@write",
    "-@dangerous",
    "+@hash",
    "-@string",
    "-@nosuch",
    "+get",
    "-get",
    "+set",
    "-set",
    "+config|get",
    "-config|set",
    "-config",
    "+config",
    "+client",
    "-client|list",
    "+select|1",
    "-select|1",
    "+select|0",
    "-hset",
    "+eval",
    "-eval",
    "+fcall",
    "+multi",
    "+exec",
    "-exec",
    "-subscribe",
    "+publish",
    "-nosuch",
    "+acl|whoami",
    "-acl|setuser",
    "+debug",
    "~*",
    "allkeys",
    "resetkeys",
    "~k*",
    "~l*",
    "~h*",
    "~s*",
    "~z1",
    "%R~*",
    "%W~*",
    "%RW~e*",
    "%R~k*",
    "%W~s*",
    "%X~a",
    "%R~",
    "~a\\*",
    "&*",
    "allchannels",
    "resetchannels",
    "&news",
    "&ch:*",
    "&",
    "alldbs",
    "resetdbs",
    "db=0",
    "db=1,2",
    "db=0,0",
    "db=x",
    "db=",
    "DB=3",
    "(+get ~*)",
    "(+@read %R~*)",
    "(+set ~k* &news)",
    "(%W~* +@write db=0)",
    "(",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "reset",
    "",
    "x",
    "+@ALL",
    "-@Admin",
    "+GET",
];

/// Commands for ACL DRYRUN.
const CALLS: &[&[&str]] = &[
    &["get", "k1"],
    &["SET", "k1", "v"],
    &["mset", "k1", "v", "l1", "v"],
    &["copy", "k1", "s1", "DB", "1"],
    &["swapdb", "0", "1"],
    &["select", "2"],
    &["flushall"],
    &["flushdb"],
    &["publish", "news", "m"],
    &["psubscribe", "ch:*"],
    &["sort", "l1", "BY", "w*"],
    &["eval", "return 1", "1", "k1"],
    &["sintercard", "2", "e1", "e2"],
    &["config", "get", "x"],
    &["config"],
    &["get"],
    &["nosuch", "k1"],
    &["client", "kill", "USER", "u0"],
    &["xread", "STREAMS", "x1", "0"],
    &["georadius", "g1", "0", "0", "1", "km", "STORE", "k1"],
    &["keys", "*"],
    &["dbsize"],
];

/// Arguments of a command about users; `None` for any other.
pub(super) fn arguments(generator: &mut Generator, name: &str) -> Option<Vec<Vec<u8>>> {
    let user = generator.pick(NAMES);
    let words = match name {
        "auth" if generator.chance(40) => vec![b"default".to_vec(), b"x".to_vec()],
        "auth" if generator.chance(90) => vec![user, generator.pick(&[PASSWORD, PASSWORD, "other", ""])],
        "auth" => vec![PASSWORD.into()],
        "acl|setuser" => return Some(definition(generator, user)),
        "acl|deluser" | "acl|getuser" => vec![user],
        "acl|dryrun" => {
            let call = CALLS[generator.below(CALLS.len())];
            std::iter::once(user).chain(call.iter().map(|word| word.as_bytes().to_vec())).collect()
        }
        "acl|log" if generator.chance(30) => vec![generator.pick(&["RESET", "reset", "1", "-1", "x", "100"])],
        _ => return None,
    };
    Some(words)
}

/// A user's name and rules.
fn definition(generator: &mut Generator, user: Vec<u8>) -> Vec<Vec<u8>> {
    let mut words = vec![user];
    if generator.chance(60) {
        words.extend(WIDE.iter().map(|rule| rule.as_bytes().to_vec()));
    }
    for _ in 0..generator.below(6) {
        words.push(generator.pick(RULES));
    }
    words
}

/// Commands at the start of a stream with users.
pub(super) fn begin(generator: &mut Generator) -> Vec<Command> {
    let definitions = ["u0", "u1", "u2"].map(|user| {
        let words = [b"ACL".to_vec(), b"SETUSER".to_vec()];
        Command::of([&words[..], &definition(generator, user.into())].concat())
    });
    definitions.into()
}

/// A command by which a client becomes another user.
pub(super) fn change(generator: &mut Generator) -> Command {
    let words = arguments(generator, "auth").unwrap_or_default();
    Command::of([vec![b"AUTH".to_vec()], words].concat())
}

/// Deletes all users but `default`, and the ACL log.
pub(super) fn forget(connection: &mut Connection) -> Result<()> {
    let users = connection.ask(&[b"ACL", b"USERS"])?;
    for user in users.items.iter().filter(|user| user.text != b"default") {
        connection.ask(&[b"ACL", b"DELUSER", &user.text])?;
    }
    connection.ask(&[b"ACL", b"LOG", b"RESET"])?;
    Ok(())
}
