//! Users: the set of users, and the log of refusals. `users/rights.rs` checks whether a request is
//! allowed, `users/refusals.rs` counts and logs refusals. The engine updates clients when users change.

pub mod load;
pub mod refusals;
pub mod rights;

use load::UserLoading;
use sluice_acl::{RefusalLog, RevokedChannels, SetRoleError, User, UserChanges, Users};
use std::sync::Arc;

/// The users, the log of refusals, and changes that sessions have yet to see.
#[derive(Debug)]
pub struct UsersState {
    users: Users,
    /// The entries of ACL LOG.
    pub(crate) log: RefusalLog,
    /// Whether users have changed since the sessions were last updated.
    has_changed: bool,
    /// Users that lost channels, with their remaining channels, because some subscribers may have to be
    /// closed.
    revoked: Vec<(Arc<User>, RevokedChannels)>,
    /// The state of ACL LOAD.
    pub loading: UserLoading,
}

impl UsersState {
    /// The state with only the user `default`. `all_channels`: whether `acl-pubsub-default` is
    /// `allchannels`.
    pub(crate) fn new(all_channels: bool) -> UsersState {
        UsersState {
            users: Users::new(all_channels),
            log: RefusalLog::default(),
            has_changed: false,
            revoked: Vec::new(),
            loading: UserLoading::default(),
        }
    }

    /// Bytes of heap memory that the users, the log and a finished load take. O(users, entries of the log).
    pub fn footprint(&self) -> usize {
        let lists = self.log.footprint() + sluice_base::heap::vec(&self.revoked);
        self.users.footprint() + lists + self.loading.footprint()
    }

    /// All users and roles.
    #[inline]
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// All users, to be changed. Sessions are updated by `Engine::apply_users`.
    pub(crate) fn change(&mut self) -> &mut Users {
        self.has_changed = true;
        self.loading.note_change();
        &mut self.users
    }

    /// Whether users have changed since the last [`UsersState::take_revoked`].
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Removes and returns the users that lost channels, with their remaining channels. The caller then
    /// updates all sessions.
    pub fn take_revoked(&mut self) -> Vec<(Arc<User>, RevokedChannels)> {
        self.has_changed = false;
        std::mem::take(&mut self.revoked)
    }

    /// Records that a user has lost channels.
    pub(crate) fn note_revoked(&mut self, name: &[u8], left: RevokedChannels) {
        if let Some(user) = self.users.get(name) {
            self.revoked.push((Arc::clone(user), left));
        }
    }

    /// Makes or changes a role: see [`Users::set_role`].
    pub(crate) fn set_role<'a>(
        &mut self,
        name: &[u8],
        rules: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), SetRoleError> {
        let lost = self.change().set_role(name, rules)?;
        self.revoked.extend(lost);
        Ok(())
    }

    /// Replaces the users by those of a file. Returns the number of removed users, and the old versions
    /// to be freed.
    pub fn replace(&mut self, loaded: Users) -> (usize, Vec<Arc<User>>) {
        let UserChanges { revoked, mut replaced, gone } = self.change().replace(loaded);
        self.revoked.extend(revoked);
        let count = gone.len();
        replaced.extend(gone);
        (count, replaced)
    }
}
