//! Users in files: a file of users, and `user` lines of the configuration file.

use crate::rule::RuleError;
use crate::text::{has_spaces, merge_selectors, trim, word};
use crate::user::User;
use crate::users::Users;

impl Users {
    /// The users that a file describes, one on each line, and `default` as a server begins with it where the
    /// file has none. `Err` is the text of all faults found, as ACL LOAD answers it; `file` is the name shown
    /// there. Nothing else changes. Cost: the file's bytes and what its rules cost.
    pub fn parse_file(text: &[u8], file: &[u8], all_channels: bool) -> Result<Users, Vec<u8>> {
        let mut users = Users::empty(all_channels);
        let mut faults = Vec::new();
        for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = trim(line, b" \t\r\n");
            if !word(line).is_empty() {
                users.parse_line(line, file, at + 1, &mut faults);
            }
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

    fn parse_line(&mut self, line: &[u8], file: &[u8], number: usize, faults: &mut Vec<u8>) {
        let place = || [file, b":", number.to_string().as_bytes()].concat();
        let mut words = line.split(|&byte| byte == b' ');
        let (first, name) = (words.next().unwrap_or_default(), words.next());
        let (b"user", Some(name)) = (word(first), name) else {
            faults.extend(
                [&place()[..], b" should start with user keyword followed by the username. "].concat(),
            );
            return;
        };
        if has_spaces(name) {
            faults.extend(
                [b"'", &place()[..], b": username '", word(name), b"' contains invalid characters. "]
                    .concat(),
            );
            return;
        }
        if self.get(name).is_some() {
            let number = number.to_string();
            faults.extend(
                [b"WARNING: Duplicate user '", name, b"' found on line ", number.as_bytes(), b". "].concat(),
            );
            return;
        }
        let mut user = self.make(name);
        match merge_selectors(words) {
            Err(_) => {
                faults.extend([&place()[..], b": Unmatched parenthesis in selector definition."].concat())
            }
            Ok(rules) => {
                let mut is_told = false;
                for rule in &rules {
                    let rule = trim(rule, b"\t\r\n");
                    match user.apply(rule, self.all_channels()) {
                        Ok(()) => {}
                        Err(RuleError::Unknown) => {
                            let text = RuleError::Unknown.text().as_bytes();
                            let rule = word(rule);
                            faults.extend(
                                [&place()[..], b": Error in applying operation '", rule, b"': ", text, b". "]
                                    .concat(),
                            );
                        }
                        // Any other error may be what follows from the first: only that one is told.
                        Err(error) if !is_told => {
                            is_told = true;
                            faults.extend([&place()[..], b": ", error.text().as_bytes(), b". "].concat());
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        self.insert(user);
    }

    /// The text of a file with all users: what ACL SAVE writes. Cost: the text.
    pub fn to_file(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for user in self.iter() {
            text.extend_from_slice(&user.line());
            text.push(b'\n');
        }
        text
    }
}

/// A `user` line that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineFault {
    /// Which word, as the reference counts: 0 for `user`, 1 for the name; of a faulty rule its number from 0,
    /// so that the word shown is two words before the fault.
    pub shown: usize,
    /// What is wrong.
    pub error: RuleError,
}

/// The `user` lines of a configuration file, until the server begins.
#[derive(Debug, Default)]
pub struct ConfigUsers {
    users: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    names: std::collections::BTreeSet<Vec<u8>>,
}

impl ConfigUsers {
    /// Takes the words of one line, the word `user` first. Names of commands are looked at later. Cost: as
    /// the rules.
    pub fn add(&mut self, words: &[&[u8]], all_channels: bool) -> Result<(), LineFault> {
        let [keyword, name, rules @ ..] = words else {
            return Err(LineFault { shown: 0, error: RuleError::Unmatched });
        };
        if !word(keyword).eq_ignore_ascii_case(b"user") {
            return Err(LineFault { shown: 0, error: RuleError::Unmatched });
        }
        if self.names.contains(*name) {
            return Err(LineFault { shown: 1, error: RuleError::Duplicate });
        }
        let rules = merge_selectors(rules.iter().copied())
            .map_err(|at| LineFault { shown: at, error: RuleError::Unmatched })?;
        let mut trial = User::new(name, 0, all_channels);
        for (shown, rule) in rules.iter().enumerate() {
            match trial.apply(rule, all_channels) {
                Ok(()) | Err(RuleError::Unknown) => {}
                Err(error) => return Err(LineFault { shown, error }),
            }
        }
        self.names.insert(name.to_vec());
        let rules = rules.into_iter().map(std::borrow::Cow::into_owned).collect();
        self.users.push((name.to_vec(), rules));
        Ok(())
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Defines the users. `Ok` names those that are disabled, of which the log should warn; `Err` is the
    /// log's line with which the server ends.
    pub fn define(&self, users: &mut Users) -> Result<Vec<Vec<u8>>, Vec<u8>> {
        let mut disabled = Vec::new();
        for (name, rules) in &self.users {
            if has_spaces(name) {
                return Err(b"Spaces not allowed in ACL usernames".to_vec());
            }
            let all_channels = users.all_channels();
            let mut user = match users.get(name) {
                Some(known) => {
                    let mut user = User::clone(known);
                    // The word is known, so nothing can fail.
                    let _ = user.apply(b"reset", all_channels);
                    user
                }
                None => users.make(name),
            };
            for rule in rules {
                user.apply(rule, all_channels).map_err(|error| {
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
