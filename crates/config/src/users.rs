//! The configuration's users and roles, and which of them a rewrite writes.

use std::collections::BTreeMap;

use crate::choice::AclPubsubDefault;
use crate::config::Config;
use crate::error::COMMAND_LINE;
use crate::table::param;
use crate::user_line::{OutsideUser, UserLine};

impl Config {
    /// Whether new users may use every channel: `acl-pubsub-default allchannels`.
    pub fn all_channels_by_default(&self) -> bool {
        self.choice::<AclPubsubDefault>(param::ACL_PUBSUB_DEFAULT) == AclPubsubDefault::AllChannels
    }

    /// The `user` and `role` lines, in the order read.
    pub fn user_lines(&self) -> &[UserLine] {
        &self.user_lines
    }

    /// Removes and returns the `user` and `role` lines: they contain passwords and are not
    /// needed after the start.
    pub fn take_user_lines(&mut self) -> Vec<UserLine> {
        std::mem::take(&mut self.user_lines)
    }

    /// Sets the users that a rewrite does not write, because they are defined elsewhere.
    pub fn keep_outside(&mut self, users: Vec<OutsideUser>) {
        self.outside_users = users;
    }

    /// Selects from the canonical lines of all roles and users, `role NAME …` and `user NAME …`, the ones
    /// that [`crate::rewrite()`] is to write: no line if an `aclfile` is configured, and no line of a user
    /// that is defined in an included file or on the command line, because the next start would refuse a
    /// second definition. The error is the reason: such a user has changed since the start, which no rewrite
    /// can express. Cost: a look-up in a map for each line and for each user that is defined elsewhere.
    pub fn lines_to_rewrite(&self, mut users: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, String> {
        if !self.bytes(param::ACLFILE).is_empty() {
            return Ok(Vec::new());
        }
        let mut outside: BTreeMap<&[u8], &OutsideUser> =
            self.outside_users.iter().map(|user| (user.line.as_slice(), user)).collect();
        users.retain(|line| outside.remove(line.as_slice()).is_none());
        if let Some(changed) = outside.values().next() {
            let name = String::from_utf8_lossy(&changed.name);
            let origin = match changed.source.as_str() {
                COMMAND_LINE => COMMAND_LINE.to_owned(),
                file => format!("included file '{file}'"),
            };
            let what = if changed.line.starts_with(b"role ") { "role" } else { "user" };
            return Err(format!("{what} '{name}' of the {origin} has changed since the start"));
        }
        Ok(users)
    }
}
