//! Users and roles in files: a file of users, and `user` and `role` lines of the configuration file.

use crate::role::{Role, SetRoleError, check_name};
use crate::rule::RuleError;
use crate::text::{has_spaces, merge_selectors, trim, word};
use crate::user::{RuleScope, User};
use crate::users::Users;
use std::borrow::Cow;

impl Users {
    /// The users and roles that a file describes, one per line; `default` with its initial rights is added
    /// if the file lacks it. A user may precede the roles that it holds. `Err` is the text about the
    /// faults, in the form of ACL LOAD's error; `file` is the name shown there. Cost: linear in the bytes
    /// of the file, in addition to applying its rules.
    pub fn parse_file(text: &[u8], file: &[u8], all_channels: bool) -> Result<Users, Vec<u8>> {
        let mut users = Users::empty(all_channels);
        let mut faults = Vec::new();
        let lines = || {
            let lines = text.split(|&byte| byte == b'\n').map(|line| trim(line, b" \t\r\n"));
            lines.enumerate().filter(|(_, line)| !word(line).is_empty())
        };
        for (at, line) in lines().filter(|(_, line)| is_role(line)) {
            users.parse_role(line, FileLine { file, number: at + 1 }, &mut faults);
        }
        for (at, line) in lines().filter(|(_, line)| !is_role(line)) {
            users.parse_user(line, FileLine { file, number: at + 1 }, &mut faults);
        }
        if !faults.is_empty() {
            faults.extend_from_slice(
                b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
            );
            return Err(faults);
        }
        if users.get(b"default").is_none() {
            let user = users.make_default();
            users.insert(user);
        }
        Ok(users)
    }

    fn parse_role(&mut self, line: &[u8], file_line: FileLine<'_>, faults: &mut Vec<u8>) {
        let mut words = line.split(|&byte| byte == b' ');
        let name = words.by_ref().nth(1).unwrap_or_default();
        if name.is_empty() {
            faults.extend([&file_line.text()[..], b": role keyword requires a role name. "].concat());
            return;
        }
        if let Err(error) = check_name(name) {
            faults.extend([&file_line.text()[..], b": ", &error.text(), b". "].concat());
            return;
        }
        if self.roles().get(name).is_some() {
            let number = file_line.number.to_string();
            faults.extend(
                [b"WARNING: Duplicate role '", name, b"' found on line ", number.as_bytes(), b". "].concat(),
            );
            return;
        }
        let all_channels = self.all_channels();
        let mut role = Role::new(name, all_channels);
        apply_line(words, file_line, faults, |rule| role.apply(rule, all_channels));
        self.insert_role(role);
    }

    fn parse_user(&mut self, line: &[u8], file_line: FileLine<'_>, faults: &mut Vec<u8>) {
        let mut words = line.split(|&byte| byte == b' ');
        let (first, name) = (words.next().unwrap_or_default(), words.next());
        let (b"user", Some(name)) = (word(first), name) else {
            faults.extend(
                [&file_line.text()[..], b" should start with user keyword followed by the username. "]
                    .concat(),
            );
            return;
        };
        if has_spaces(name) {
            faults.extend(
                [
                    b"'",
                    &file_line.text()[..],
                    b": username '",
                    word(name),
                    b"' contains invalid characters. ",
                ]
                .concat(),
            );
            return;
        }
        if self.get(name).is_some() {
            let number = file_line.number.to_string();
            faults.extend(
                [b"WARNING: Duplicate user '", name, b"' found on line ", number.as_bytes(), b". "].concat(),
            );
            return;
        }
        let mut user = self.make(name);
        apply_line(words, file_line, faults, |rule| user.apply(rule, self.scope()));
        self.insert(user);
    }

    /// The text of a file with all roles and users: what ACL SAVE writes. Cost: linear in this text.
    pub fn to_file(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for line in self.lines() {
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        text
    }
}

/// The file and the number of a line, for messages about faults.
#[derive(Clone, Copy)]
struct FileLine<'a> {
    file: &'a [u8],
    number: usize,
}

impl FileLine<'_> {
    fn text(self) -> Vec<u8> {
        [self.file, b":", self.number.to_string().as_bytes()].concat()
    }
}

/// Whether a line of a file describes a role.
fn is_role(line: &[u8]) -> bool {
    line.split(|&byte| byte == b' ').next().is_some_and(|first| word(first) == b"role")
}

/// Applies the rules of one line of a file. Appends to `faults` a message for each unknown command or
/// category, and for the first other fault.
fn apply_line<'a>(
    rules: impl Iterator<Item = &'a [u8]>,
    file_line: FileLine<'_>,
    faults: &mut Vec<u8>,
    mut apply: impl FnMut(&[u8]) -> Result<(), RuleError>,
) {
    let Ok(rules) = merge_selectors(rules) else {
        faults.extend([&file_line.text()[..], b": Unmatched parenthesis in selector definition."].concat());
        return;
    };
    let mut is_told = false;
    for rule in &rules {
        let rule = trim(rule, b"\t\r\n");
        match apply(rule) {
            Ok(()) => {}
            Err(RuleError::Unknown) => {
                let text = RuleError::Unknown.text().as_bytes();
                let rule = word(rule);
                faults.extend(
                    [&file_line.text()[..], b": Error in applying operation '", rule, b"': ", text, b". "]
                        .concat(),
                );
            }
            // The first error of a line may cause the others, so only the first one is reported. Unknown
            // commands and categories are all reported.
            Err(error) if !is_told => {
                is_told = true;
                faults.extend([&file_line.text()[..], b": ", error.text().as_bytes(), b". "].concat());
            }
            Err(_) => {}
        }
    }
}

/// A `user` or `role` line that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineFault {
    /// Index of the word to show, counted as the reference counts: 0 is `user`, 1 is the name. For a faulty
    /// rule this is the number of the rule, from 0, so the word shown is not the rule itself but an earlier
    /// word. For a `role` line with a name it is always 1, the name.
    pub shown: usize,
    /// The reason for which the line is refused.
    pub error: RuleError,
}

/// The `user` and `role` lines of the configuration, collected while it is read at the start.
#[derive(Debug, Default)]
pub struct ConfigUsers {
    users: RuleLines,
    roles: RuleLines,
}

/// The lines of one kind (`user` or `role`) in order, each with a name and its rules. `names` finds
/// duplicates.
#[derive(Debug, Default)]
struct RuleLines {
    lines: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    names: std::collections::BTreeSet<Vec<u8>>,
}

impl RuleLines {
    fn add(&mut self, name: &[u8], rules: Vec<Cow<'_, [u8]>>) {
        self.names.insert(name.to_vec());
        self.lines.push((name.to_vec(), rules.into_iter().map(Cow::into_owned).collect()));
    }
}

impl ConfigUsers {
    /// Adds the words of one line, which begins with `user` or `role`. Names of commands, categories and
    /// roles are resolved later, by [`ConfigUsers::define`]. Cost: the same as for applying the rules to a
    /// user.
    pub fn add(&mut self, words: &[&[u8]], all_channels: bool) -> Result<(), LineFault> {
        let [keyword, name, rules @ ..] = words else {
            return Err(LineFault { shown: 0, error: RuleError::Unmatched });
        };
        let is = |text: &str| word(keyword).eq_ignore_ascii_case(text.as_bytes());
        let (lines, is_role) = match (is("user"), is("role")) {
            (true, _) => (&mut self.users, false),
            (_, true) => (&mut self.roles, true),
            _ => return Err(LineFault { shown: 0, error: RuleError::Unmatched }),
        };
        if lines.names.contains(*name) {
            let error = if is_role { RuleError::DuplicateRole } else { RuleError::Duplicate };
            return Err(LineFault { shown: 1, error });
        }
        let shown = |rule: usize| if is_role { 1 } else { rule };
        let rules = merge_selectors(rules.iter().copied())
            .map_err(|at| LineFault { shown: shown(at), error: RuleError::Unmatched })?;
        let roles = Default::default();
        let scope = RuleScope { all_channels, roles: &roles };
        let (mut user, mut role) = (User::new(name, 0, all_channels), Role::new(name, all_channels));
        for (at, rule) in rules.iter().enumerate() {
            match if is_role { role.apply(rule, all_channels) } else { user.apply(rule, scope) } {
                Ok(()) | Err(RuleError::Unknown | RuleError::NoSuchRole) => {}
                Err(error) => return Err(LineFault { shown: shown(at), error }),
            }
        }
        lines.add(name, rules);
        Ok(())
    }

    /// Whether no `user` and no `role` line was added.
    pub fn is_empty(&self) -> bool {
        self.users.lines.is_empty() && self.roles.lines.is_empty()
    }

    /// Defines the roles, then the users. `Ok` has the names of disabled users, for a warning in the log;
    /// `Err` is the line to log before the server exits.
    pub fn define(&self, users: &mut Users) -> Result<Vec<Vec<u8>>, Vec<u8>> {
        for (name, rules) in &self.roles.lines {
            let failed = |error: SetRoleError| {
                [b"Error loading the ACL role named '", word(name), b"': ", &error.text()].concat()
            };
            check_name(name).map_err(failed)?;
            let mut role = Role::new(name, users.all_channels());
            role.apply_all(rules.iter().map(Vec::as_slice), users.all_channels()).map_err(failed)?;
            users.insert_role(role);
        }
        let mut disabled = Vec::new();
        for (name, rules) in &self.users.lines {
            if has_spaces(name) {
                return Err(b"Spaces not allowed in ACL usernames".to_vec());
            }
            let scope = users.scope();
            let mut user = match users.get(name) {
                Some(known) => {
                    let mut user = User::clone(known);
                    // `reset` is a known word, so the rule cannot fail.
                    let _ = user.apply(b"reset", scope);
                    user
                }
                None => users.make(name),
            };
            for rule in rules {
                user.apply(rule, scope).map_err(|error| {
                    let text = error.text().as_bytes();
                    let (rule, name) = (word(rule), word(name));
                    [b"Error loading ACL rule '", rule, b"' for the user named '", name, b"': ", text]
                        .concat()
                })?;
            }
            if !user.is_enabled() {
                disabled.push(name.clone());
            }
            users.insert(user);
        }
        Ok(disabled)
    }
}
