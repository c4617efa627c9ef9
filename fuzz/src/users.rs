//! Targets about rules of users, files of users and roles, and `user` lines of the configuration file.

use sluice_acl::{ConfigUsers, User, Users};
use sluice_config::{Config, Force, parse_file, rewrite};

/// Parses the bytes as an ACL file; the file that is written from its users must mean the same.
pub(crate) fn file(data: &[u8]) {
    let all_channels = data.len().is_multiple_of(2);
    let Ok(users) = Users::parse_file(data, b"users.acl", all_channels) else { return };
    let text = users.to_file();
    let again = Users::parse_file(&text, b"users.acl", all_channels);
    let again = again.unwrap_or_else(|faults| panic!("{}: {}", text.escape_ascii(), faults.escape_ascii()));
    assert_eq!(again.to_file(), text, "written otherwise: {}", text.escape_ascii());
}

/// Applies the bytes as rules of ACL SETUSER, one on each line. The user's canonical text must give the same
/// user, as rules and as a line of a rewritten configuration file.
pub(crate) fn rules(data: &[u8]) {
    let all_channels = data.len().is_multiple_of(2);
    let mut users = Users::new(all_channels);
    // A second set of rules changes the user that the first has created.
    for rules in data.split(|byte| *byte == b'\r') {
        let before = users.get(b"u").map(|user| user.line());
        if users.set_user(b"u", rules.split(|byte| *byte == b'\n')).is_err() {
            assert_eq!(
                users.get(b"u").map(|user| user.line()),
                before,
                "a refused rule has changed the user"
            );
        }
    }
    let Some(user) = users.get(b"u") else { return };
    let mut copies = Users::new(all_channels);
    let made = copies.set_user(b"u", user.describe().split(|byte| *byte == b' '));
    assert!(made.is_ok(), "{}: {made:?}", user.line().escape_ascii());
    assert_same(user, copies.get(b"u").map(|user| &**user));
    assert_same(user, rewritten(user, all_channels).get(b"u").map(|user| &**user));
}

/// The users after a start with the configuration file to which a user was written.
fn rewritten(user: &User, all_channels: bool) -> Users {
    let text = rewrite(None, &Config::default(), &[user.line()], Force::Changed);
    let config = parse_file(&text, "written", b"", &mut |_: &[u8]| Ok(Vec::new()));
    let config = config.unwrap_or_else(|error| panic!("{}: {error}", text.escape_ascii()));
    let mut lines = ConfigUsers::default();
    for line in config.user_lines() {
        let added = lines.add(&line.words(), all_channels);
        added.unwrap_or_else(|fault| panic!("{}: {fault:?}", user.line().escape_ascii()));
    }
    let mut users = Users::new(all_channels);
    let defined = lines.define(&mut users);
    defined.unwrap_or_else(|text| panic!("{}: {}", user.line().escape_ascii(), text.escape_ascii()));
    users
}

/// Compares the users by their texts.
fn assert_same(user: &User, copy: Option<&User>) {
    let Some(copy) = copy else { panic!("no user came of {}", user.line().escape_ascii()) };
    let (line, other) = (user.line(), copy.line());
    assert!(line == other, "{} is not {}", other.escape_ascii(), line.escape_ascii());
}
