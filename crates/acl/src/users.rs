//! The set of all users and roles.
//!
//! Invariants: (1) there is a user `default`, except in a set that is still being read from a file; (2) no
//! two users ever have the same identity; (3) a version of a user is stale once it is no longer in the set;
//! (4) a role that a user holds is in the set, in the version that the user holds.

use crate::password::Digest;
use crate::role::{Role, Roles, SetRoleError, check_name};
use crate::text::has_spaces;
use crate::user::{RevokedChannels, RuleScope, SetUserError, User};
use sluice_base::heap;
use std::collections::BTreeMap;
use std::sync::Arc;

const DEFAULT: &[u8] = b"default";

/// AUTH compares at least this many digests, so that all users with this many passwords or fewer take the
/// same time.
const COMPARED_MIN: usize = 8;

/// All users, by name, and all roles.
#[derive(Debug)]
pub struct Users {
    by_name: BTreeMap<Box<[u8]>, Arc<User>>,
    roles: Roles,
    next_identity: u64,
    all_channels: bool,
}

/// The reason why AUTH fails. The error reply is the same for all reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AuthError {
    UnknownUser,
    Disabled,
    WrongPassword,
}

impl AuthError {
    /// The error reply of AUTH, which is the same for all reasons.
    pub const TEXT: &'static str = "WRONGPASS invalid username-password pair or user is disabled.";
}

/// The differences between the users before and after ACL LOAD.
#[derive(Debug)]
pub struct UserChanges {
    /// Deleted users, whose clients have to be closed.
    pub gone: Vec<Arc<User>>,
    /// Users that lost channels: the new version, and the remaining channels.
    pub revoked: Vec<(Arc<User>, RevokedChannels)>,
    /// Old versions of all users that the file contains, changed or not. If there are many, they should be
    /// freed on another thread.
    pub replaced: Vec<Arc<User>>,
}

impl Users {
    /// The user `default` alone, with all rights. `all_channels` is `acl-pubsub-default allchannels`:
    /// whether new users, roles and selectors have every channel.
    pub fn new(all_channels: bool) -> Users {
        let mut users =
            Users { by_name: BTreeMap::new(), roles: Roles::default(), next_identity: 1, all_channels };
        users.insert(User::new_default(0));
        users
    }

    /// A set without any user, not even `default`, for the reader of a file.
    pub(crate) fn empty(all_channels: bool) -> Users {
        Users { by_name: BTreeMap::new(), roles: Roles::default(), next_identity: 0, all_channels }
    }

    /// Sets whether users, roles and selectors made from now on have every channel.
    pub fn set_all_channels(&mut self, all_channels: bool) {
        self.all_channels = all_channels;
    }

    /// Whether users, roles and selectors made from now on have every channel.
    pub fn all_channels(&self) -> bool {
        self.all_channels
    }

    /// Bytes of heap memory that the users and roles hold, as the allocator rounds them. Cost: linear in
    /// the number of users, roles, rules and patterns.
    pub fn footprint(&self) -> usize {
        let users: usize = self.iter().map(|user| user.footprint()).sum();
        let names: usize = self.by_name.keys().map(|name| heap::block(name.len())).sum();
        users + names + heap::tree::<Box<[u8]>, Arc<User>>(self.by_name.len()) + self.roles.footprint()
    }

    /// The number of users, including `default`.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// All users, in the order of the bytes of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    /// All roles, which users may hold.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The settings and roles to which rules refer.
    pub(crate) fn scope(&self) -> RuleScope<'_> {
        RuleScope { all_channels: self.all_channels, roles: &self.roles }
    }

    /// The names of the users that hold a role. Cost: O(users and their roles).
    pub fn holders<'a>(&'a self, role: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |user| user.holds(role)).map(|user| user.name())
    }

    /// The canonical lines of all roles, then of all users: ACL LIST, ACL SAVE, CONFIG REWRITE. Cost:
    /// linear in the text of all lines.
    pub fn lines(&self) -> impl Iterator<Item = Vec<u8>> {
        let roles = self.roles.iter().map(|role| role.line());
        roles.chain(self.iter().map(|user| user.line()))
    }

    /// The fingerprint of all users that ACL DIGEST of 9.2 shows: the exclusive or of the digests of all
    /// lines of roles and users; lines of users count without their first word, `user`. Lines of roles are
    /// included because a user's line has only the names of its roles. Cost: linear in the text of all
    /// users and roles.
    pub fn digest(&self) -> String {
        let mut all = [0; 32];
        let users = self.iter().map(|user| [user.name(), b" ", &user.describe()].concat());
        for line in users.chain(self.roles.iter().map(|role| role.line())) {
            for (byte, other) in all.iter_mut().zip(Digest::of(&line).bytes()) {
                *byte ^= other;
            }
        }
        sluice_base::hex(&all)
    }

    /// The user of this name. Cost: the logarithm of the number of users.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// The user of clients that have not authenticated.
    pub fn default_user(&self) -> &Arc<User> {
        &self.by_name[DEFAULT]
    }

    /// The present version of a user that a session holds. `None` if the user was deleted, even if
    /// another user of the same name was made afterwards. Cost: the logarithm of the number of users.
    pub fn renew(&self, held: &User) -> Option<&Arc<User>> {
        self.get(&held.name).filter(|user| user.identity == held.identity)
    }

    /// Checks a name and a password and returns the user. Cost: the digest of the password, and one
    /// comparison for each of the user's passwords, but at least `COMPARED_MIN` comparisons. Unless the
    /// user has more passwords than that, an unknown name, a disabled user, a user without a password and a
    /// wrong password cost the same, so the time of a refusal does not reveal a name.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Result<Arc<User>, AuthError> {
        let digest = Digest::of(password);
        let user = self.get(name);
        let known = user.map_or(&[][..], |user| user.passwords());
        let is_password = digest.is_among(known, COMPARED_MIN);
        match user {
            None => Err(AuthError::UnknownUser),
            Some(user) if !user.is_enabled() => Err(AuthError::Disabled),
            Some(user) if user.is_nopass() || is_password => Ok(Arc::clone(user)),
            Some(_) => Err(AuthError::WrongPassword),
        }
    }

    /// Makes or changes a user, as ACL SETUSER does: all rules are applied, or none. Returns the remaining
    /// channels if the user lost some. Cost: applying the rules.
    pub fn set_user<'a>(
        &mut self,
        name: &[u8],
        rules: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Option<RevokedChannels>, SetUserError> {
        if has_spaces(name) {
            return Err(SetUserError::Name);
        }
        let before = self.get(name).cloned();
        let mut user = match &before {
            Some(user) => User::clone(user),
            None => User::new(name, self.next_identity, self.all_channels),
        };
        user.apply_all(rules, self.scope())?;
        let revoked = before.and_then(|before| user.revoked_channels(&before));
        self.insert(user);
        Ok(revoked)
    }

    /// Makes or changes a role, as ACL SETROLE does: all rules are applied, or none. Users that hold the
    /// role get the new version. Returns the users that lost channels, with their remaining channels. Cost:
    /// applying the rules, a look at each user's roles, and for each holder the comparison of its channels.
    pub fn set_role<'a>(
        &mut self,
        name: &[u8],
        rules: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Vec<(Arc<User>, RevokedChannels)>, SetRoleError> {
        check_name(name)?;
        let mut role = match self.roles.get(name) {
            Some(role) => Role::clone(role),
            None => Role::new(name, self.all_channels),
        };
        role.apply_all(rules, self.all_channels)?;
        let role = Arc::new(role);
        self.roles.insert(Arc::clone(&role));
        let holders: Vec<_> = self.iter().filter(|user| user.holds(name)).cloned().collect();
        let mut lost = Vec::new();
        for before in holders {
            let mut user = User::clone(&before);
            user.renew_role(&role);
            let revoked = user.revoked_channels(&before);
            let user = self.insert(user);
            lost.extend(revoked.map(|left| (user, left)));
        }
        Ok(lost)
    }

    /// Deletes roles and returns how many existed; unknown names are skipped. `Err` is a role that a user
    /// holds; then nothing is deleted. Cost: O(names × users).
    pub fn delete_roles<'a>(
        &mut self,
        names: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<usize, &'a [u8]> {
        if let Some(held) = names.clone().find(|name| self.holders(name).next().is_some()) {
            return Err(held);
        }
        Ok(names.filter(|name| self.roles.remove(name).is_some()).count())
    }

    /// Adds a role that was read from a file.
    pub(crate) fn insert_role(&mut self, role: Role) {
        self.roles.insert(Arc::new(role));
    }

    /// Replaces all passwords of `default` by this one, as `requirepass` does. With `None` no password is
    /// needed.
    pub fn set_default_password(&mut self, password: Option<&[u8]>) {
        let mut user = User::clone(self.default_user());
        let rule = password.map(|password| [b">", password].concat());
        for rule in [b"resetpass", rule.as_deref().unwrap_or(b"nopass")] {
            let applied = user.apply(rule, self.scope());
            debug_assert!(applied.is_ok(), "passwords are any bytes");
        }
        self.insert(user);
    }

    /// Removes a user, whose clients have to be closed. `None` if there is no such user, and for
    /// `default`, which cannot be deleted.
    pub fn delete(&mut self, name: &[u8]) -> Option<Arc<User>> {
        if name == DEFAULT {
            return None;
        }
        let user = self.by_name.remove(name)?;
        user.retire();
        Some(user)
    }

    /// A new, disabled user without rights to commands and keys, with an unused identity.
    pub(crate) fn make(&self, name: &[u8]) -> User {
        User::new(name, self.next_identity, self.all_channels)
    }

    pub(crate) fn make_default(&self) -> User {
        User::new_default(self.next_identity)
    }

    /// Adds a user with complete rules, in place of the present version of that name.
    pub(crate) fn insert(&mut self, mut user: User) -> Arc<User> {
        self.next_identity = self.next_identity.max(user.identity + 1);
        user.summarize();
        let user = Arc::new(user);
        if let Some(before) = self.by_name.insert(user.name.clone(), Arc::clone(&user)) {
            before.retire();
        }
        user
    }

    /// Takes over the users and roles of a file. A user whose name is in both sets keeps its identity, so its
    /// clients stay connected, as in the reference. Cost: O(users of both sets), and for each user that is in
    /// both the comparison of its channels.
    pub fn replace(&mut self, mut loaded: Users) -> UserChanges {
        let mut change = UserChanges { gone: Vec::new(), revoked: Vec::new(), replaced: Vec::new() };
        let before = std::mem::take(&mut self.by_name);
        for (name, user) in &mut loaded.by_name {
            let old = before.get(name);
            let identity = old.map_or(self.next_identity, |old| old.identity);
            self.next_identity = self.next_identity.max(identity + 1);
            match Arc::get_mut(user) {
                Some(user) => user.identity = identity,
                None => {
                    let mut copy = User::clone(user);
                    copy.identity = identity;
                    *user = Arc::new(copy);
                }
            }
            let Some(old) = old else { continue };
            if let Some(left) = user.revoked_channels(old) {
                change.revoked.push((Arc::clone(user), left));
            }
        }
        for (name, user) in before {
            user.retire();
            match loaded.by_name.contains_key(&name) {
                true => change.replaced.push(user),
                false => change.gone.push(user),
            }
        }
        self.by_name = loaded.by_name;
        self.roles = loaded.roles;
        change
    }
}
