//! Users: all there are, and what was refused to each. `users/rights.rs` has the question whether a request
//! is allowed, `users/refusals.rs` what is counted and logged of refusals. The engine does what follows for
//! clients when users change.

pub mod load;
pub mod refusals;
pub mod rights;

use load::UserLoading;
use sluice_acl::{RefusalLog, RevokedChannels, SetRoleError, User, UserChanges, Users};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct UsersState {
    users: Users,
    /// ACL LOG.
    pub(crate) log: RefusalLog,
    /// Users have changed since sessions were last told.
    has_changed: bool,
    /// Users whose subscribers may have to go, with what is left of their channels.
    revoked: Vec<(Arc<User>, RevokedChannels)>,
    /// ACL LOAD.
    pub loading: UserLoading,
}

impl UsersState {
    /// The default user alone. `all_channels` is `acl-pubsub-default allchannels`.
    pub(crate) fn new(all_channels: bool) -> UsersState {
        UsersState {
            users: Users::new(all_channels),
            log: RefusalLog::default(),
            has_changed: false,
            revoked: Vec::new(),
            loading: UserLoading::default(),
        }
    }

    /// Bytes that the allocator has given. O(users, entries of the log).
    pub fn footprint(&self) -> usize {
        let lists = self.log.footprint() + sluice_base::heap::vec(&self.revoked);
        self.users.footprint() + lists + self.loading.footprint()
    }

    /// All users, to look at.
    #[inline]
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// All users, to change. Sessions learn of it by `Engine::apply_users`.
    pub(crate) fn change(&mut self) -> &mut Users {
        self.has_changed = true;
        self.loading.note_change();
        &mut self.users
    }

    /// Whether users have changed since [`UsersState::take_revoked`].
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Takes the users whose subscribers may have to go, with what is left of their channels: sessions are
    /// told of all changes now.
    pub fn take_revoked(&mut self) -> Vec<(Arc<User>, RevokedChannels)> {
        self.has_changed = false;
        std::mem::take(&mut self.revoked)
    }

    /// A user has lost channels.
    pub(crate) fn note_revoked(&mut self, name: &[u8], left: RevokedChannels) {
        if let Some(user) = self.users.get(name) {
            self.revoked.push((Arc::clone(user), left));
        }
    }

    /// Makes a role or changes one: [`Users::set_role`].
    pub(crate) fn set_role<'a>(
        &mut self,
        name: &[u8],
        rules: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), SetRoleError> {
        let lost = self.change().set_role(name, rules)?;
        self.revoked.extend(lost);
        Ok(())
    }

    /// Takes over other users, as a file describes them. How many are gone, and what is to be freed.
    pub fn replace(&mut self, loaded: Users) -> (usize, Vec<Arc<User>>) {
        let UserChanges { revoked, mut replaced, gone } = self.change().replace(loaded);
        self.revoked.extend(revoked);
        let count = gone.len();
        replaced.extend(gone);
        (count, replaced)
    }
}
