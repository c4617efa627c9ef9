//! The users with which the server starts: `user` and `role` lines or a file of users, and `requirepass`.
//!
//! Invariants: (1) a fault ends the start, so that no server begins with users other than the configured
//! ones;
//! (2) no log line contains a password.

pub mod loads;

use sluice_acl::{ConfigUsers, Users};
use sluice_base::LogLevel;
use sluice_config::{Config, LoadError, OutsideUser, UserLine, param};
use sluice_storage::plain_error;
use sluice_storage::{Storage, read_whole};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// `user` and `role` lines, each of which was validated as far as this is possible without the other lines.
#[derive(Debug, Default)]
pub struct JudgedLines {
    users: ConfigUsers,
    lines: Vec<UserLine>,
}

/// The users of a start.
#[derive(Debug)]
pub struct StartUsers {
    /// All users and roles of the server.
    pub users: Users,
    /// Users and roles from included files and the command line, which CONFIG REWRITE does not write into the
    /// config file.
    pub outside: Vec<OutsideUser>,
    /// Log lines about settings that the operator may not have meant.
    pub notes: Vec<(LogLevel, String)>,
}

/// Takes the `user` and `role` lines out of a configuration and validates them. Errors: the
/// first faulty line.
pub fn take_lines(config: &mut Config) -> Result<JudgedLines, LoadError> {
    let mut judged = JudgedLines { users: ConfigUsers::default(), lines: config.take_user_lines() };
    for line in &judged.lines {
        add(&mut judged.users, line)?;
    }
    Ok(judged)
}

fn add(users: &mut ConfigUsers, line: &UserLine) -> Result<(), LoadError> {
    let added = users.add(&line.words(), line.all_channels());
    added.map_err(|fault| line.error(fault.shown, fault.error.text()))
}

/// The users with which a server begins. Errors: lines for the log, after which the start ends. Cost:
/// parsing the rules, and reading the file of users, if any.
pub fn at_start(
    config: &Config,
    judged: &JudgedLines,
    storage: &dyn Storage,
) -> Result<StartUsers, Vec<String>> {
    let mut notes = Vec::new();
    if !config.bytes(param::ACLFILE).is_empty() {
        if !judged.lines.is_empty() {
            return Err(vec![LINES_BESIDE_FILE.to_owned()]);
        }
        let read = read_file(config, storage);
        let users =
            read.map_err(|text| vec![format!("Aborting Valkey startup because of ACL errors: {text}")])?;
        let note = useless_password(config, &users);
        notes.extend(note.map(|text| (LogLevel::Warning, text)));
        return Ok(StartUsers { users, outside: Vec::new(), notes });
    }
    let mut users = Users::new(config.all_channels_by_default());
    let password = config.bytes(param::REQUIREPASS);
    if !password.is_empty() {
        users.set_default_password(Some(password));
    }
    match judged.users.define(&mut users) {
        Ok(disabled) => {
            notes.extend(disabled.iter().map(|name| (LogLevel::Notice, disabled_text(name))));
        }
        Err(text) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            return Err(vec![text, "Critical error while loading ACLs. Exiting.".to_owned()]);
        }
    }
    let outside = judged.lines.iter().filter_map(|line| {
        let source = line.outside_source()?.to_owned();
        let name = *line.words().get(1)?;
        let canonical = match line.is_role() {
            true => users.roles().get(name)?.line(),
            false => users.get(name)?.line(),
        };
        Some(OutsideUser { name: name.to_vec(), line: canonical, source })
    });
    let outside = outside.collect();
    Ok(StartUsers { users, outside, notes })
}

/// Reads the users of the file that `aclfile` names. Errors: the faults, in the words of ACL LOAD.
fn read_file(config: &Config, storage: &dyn Storage) -> Result<Users, String> {
    let name = config.bytes(param::ACLFILE);
    let text = read_whole(storage, Path::new(OsStr::from_bytes(name))).map_err(|error| {
        let name = String::from_utf8_lossy(name);
        format!("Error loading ACLs, opening file '{name}': {}", plain_error(&error))
    })?;
    let parsed = Users::parse_file(&text, name, config.all_channels_by_default());
    parsed.map_err(|faults| String::from_utf8_lossy(&faults).into_owned())
}

/// A warning if `requirepass` is set but is not the default user's password, because the file of users sets
/// other passwords or none.
fn useless_password(config: &Config, users: &Users) -> Option<String> {
    let password = config.bytes(param::REQUIREPASS);
    let default = users.default_user();
    if password.is_empty() || (default.accepts(password) && !default.is_nopass()) {
        return None;
    }
    let what = if default.is_nopass() { "has no password" } else { "has other passwords" };
    let name = String::from_utf8_lossy(config.bytes(param::ACLFILE));
    Some(format!("WARNING: requirepass has no effect: the default user of the ACL file '{name}' {what}"))
}

fn disabled_text(name: &[u8]) -> String {
    format!(
        "The user '{}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a configuration \
         error.",
        String::from_utf8_lossy(name)
    )
}

const LINES_BESIDE_FILE: &str = "Configuring Valkey with users defined in valkey.conf and at the same setting an ACL file path is \
     invalid. This setup is very likely to lead to configuration errors and security holes, please define either an ACL file or \
     declare users directly in your valkey.conf, but not both.";

/// The findings of `--check-config` about users.
#[derive(Debug, Default)]
pub struct UserFindings {
    /// Faults of a line that would end a start.
    pub errors: Vec<LoadError>,
    /// Faults of `aclfile`, or of its use, that would end a start.
    pub file_errors: Vec<String>,
    /// Notes about a line that a start would log.
    pub notes: Vec<LoadError>,
    /// Notes about `aclfile` that a start would log.
    pub file_notes: Vec<String>,
}

/// Validates all users of a configuration: each line on its own, and the file that `aclfile` names.
pub fn check(config: &Config, storage: &dyn Storage) -> UserFindings {
    let mut findings = UserFindings::default();
    let all_channels = config.all_channels_by_default();
    let mut known = ConfigUsers::default();
    let mut users = Users::new(all_channels);
    let (roles, others): (Vec<_>, Vec<_>) = config.user_lines().iter().partition(|line| line.is_role());
    for line in roles.into_iter().chain(others) {
        let mut alone = ConfigUsers::default();
        if let Err(error) = add(&mut known, line).and_then(|()| add(&mut alone, line)) {
            findings.errors.push(error);
            continue;
        }
        match alone.define(&mut users) {
            Ok(disabled) => {
                let notes = disabled.iter().map(|name| line.bad_line(disabled_text(name)));
                findings.notes.extend(notes);
            }
            Err(text) => findings.errors.push(line.bad_line(String::from_utf8_lossy(&text).into_owned())),
        }
    }
    if config.bytes(param::ACLFILE).is_empty() {
        return findings;
    }
    if !config.user_lines().is_empty() {
        findings.file_errors.push(LINES_BESIDE_FILE.to_owned());
    }
    match read_file(config, storage) {
        Ok(users) => findings.file_notes.extend(useless_password(config, &users)),
        Err(text) => findings.file_errors.push(text),
    }
    findings
}

/// Reads the text of a file of users. Errors: the system's reason.
pub fn read_user_file(storage: &dyn Storage, path: &[u8]) -> Result<Vec<u8>, String> {
    read_whole(storage, Path::new(OsStr::from_bytes(path))).map_err(|error| plain_error(&error))
}

/// Replaces the text of a file of users atomically, so that after a crash or an error the file has either
/// the old or the new text. The permissions stay the same; only the owner can access a newly created file.
/// Errors: the system's reason.
pub fn replace_user_file(storage: &Arc<dyn Storage>, path: &[u8], text: &[u8]) -> Result<(), String> {
    let path = Path::new(OsStr::from_bytes(path));
    sluice_storage::replace_file(storage, path, text).map_err(|error| plain_error(&error))
}

#[cfg(test)]
mod tests;
