//! All users, and the roles that they hold.
//!
//! Invariants: (1) there is a user `default`; (2) no two users ever have the same identity; (3) a user that
//! is not in the set any more, or in another form, is stale; (4) a role that a user holds is in the set, in
//! the form in which the user holds it.

use crate::password::Digest;
use crate::role::{Role, Roles, SetRoleError, check_name};
use crate::text::has_spaces;
use crate::user::{RevokedChannels, RuleScope, SetUserError, User};
use sluice_base::heap;
use std::collections::BTreeMap;
use std::sync::Arc;

const DEFAULT: &[u8] = b"default";

/// Passwords that AUTH compares at least: users with as many or fewer take the same time.
const COMPARED_MIN: usize = 8;

/// All users, by name, and all roles.
#[derive(Debug)]
pub struct Users {
    by_name: BTreeMap<Box<[u8]>, Arc<User>>,
    roles: Roles,
    next_identity: u64,
    all_channels: bool,
}

/// Why a client is not let in. It is told the same for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AuthError {
    UnknownUser,
    Disabled,
    WrongPassword,
}

impl AuthError {
    /// The error reply.
    pub const TEXT: &'static str = "WRONGPASS invalid username-password pair or user is disabled.";
}

/// What a loaded file changed for those who are there.
#[derive(Debug)]
pub struct UserChanges {
    /// Users that are gone: their clients have to be closed.
    pub gone: Vec<Arc<User>>,
    /// Users that lost channels: their new form, and what is left of the channels.
    pub revoked: Vec<(Arc<User>, RevokedChannels)>,
    /// What others took the place of: to be freed where nobody waits, where there are many.
    pub replaced: Vec<Arc<User>>,
}

impl Users {
    /// The user `default` alone, who may do everything. `all_channels` is `acl-pubsub-default allchannels`:
    /// what new users and selectors may hear.
    pub fn new(all_channels: bool) -> Users {
        let mut users =
            Users { by_name: BTreeMap::new(), roles: Roles::default(), next_identity: 1, all_channels };
        users.insert(User::new_default(0));
        users
    }

    /// Without any user, while a file is read.
    pub(crate) fn empty(all_channels: bool) -> Users {
        Users { by_name: BTreeMap::new(), roles: Roles::default(), next_identity: 0, all_channels }
    }

    /// Sets what users and selectors made from now on may hear.
    pub fn set_all_channels(&mut self, all_channels: bool) {
        self.all_channels = all_channels;
    }

    /// What users and selectors made from now on may hear.
    pub fn all_channels(&self) -> bool {
        self.all_channels
    }

    /// Bytes that the allocator has given. Cost: the users, the roles and their patterns.
    pub fn footprint(&self) -> usize {
        let users: usize = self.iter().map(|user| user.footprint()).sum();
        let names: usize = self.by_name.keys().map(|name| heap::block(name.len())).sum();
        users + names + heap::tree::<Box<[u8]>, Arc<User>>(self.by_name.len()) + self.roles.footprint()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// All of them, in the order of the bytes of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    /// The roles that there are.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// What rules refer to.
    pub(crate) fn scope(&self) -> RuleScope<'_> {
        RuleScope { all_channels: self.all_channels, roles: &self.roles }
    }

    /// The names of the users that hold a role. Cost: the users and what they hold.
    pub fn holders<'a>(&'a self, role: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |user| user.holds(role)).map(|user| user.name())
    }

    /// The canonical lines of all roles, then of all users: ACL LIST, ACL SAVE, CONFIG REWRITE. Cost: the
    /// text.
    pub fn lines(&self) -> impl Iterator<Item = Vec<u8>> {
        let roles = self.roles.iter().map(|role| role.line());
        roles.chain(self.iter().map(|user| user.line()))
    }

    /// The fingerprint of all users, as ACL DIGEST of 9.2 shows it: the digests of their lines without the
    /// word `user`, combined by exclusive or. Lines of roles count whole: a user's line has only the names of
    /// its roles. Cost: the text of all users and roles.
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

    /// The user of this name. Cost: the logarithm of the users.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// The user `default`.
    pub fn default_user(&self) -> &Arc<User> {
        &self.by_name[DEFAULT]
    }

    /// The present form of a user that a session holds; `None` when the user was deleted, also where another
    /// one of this name was made since. Cost: the logarithm of the users.
    pub fn renew(&self, held: &User) -> Option<&Arc<User>> {
        self.get(&held.name).filter(|user| user.identity == held.identity)
    }

    /// Lets a client in as a user, or not. Cost: the digest of the password, and `COMPARED_MIN` comparisons
    /// or as many as the user has passwords: the same for a name that is unknown, a user that is disabled or
    /// needs no password, and a password that is wrong, so that the time of a refusal names no user.
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

    /// Makes a user or changes one, as ACL SETUSER does: all rules, or none. Returns what is left of the
    /// channels where the user lost some. Cost: as the rules have it.
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

    /// Makes a role or changes one, as ACL SETROLE does: all rules, or none. Users that hold the role have
    /// its new form at once. Returns those that lost channels, with what is left of their channels. Cost: as
    /// the rules have it, and the users with what they hold.
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

    /// Deletes roles; names of none are passed over. Returns how many there were. `Err` names a role that a
    /// user holds, and nothing is deleted. Cost: the names times the users.
    pub fn delete_roles<'a>(
        &mut self,
        names: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<usize, &'a [u8]> {
        if let Some(held) = names.clone().find(|name| self.holders(name).next().is_some()) {
            return Err(held);
        }
        Ok(names.filter(|name| self.roles.remove(name).is_some()).count())
    }

    /// A role as a file has it.
    pub(crate) fn insert_role(&mut self, role: Role) {
        self.roles.insert(Arc::new(role));
    }

    /// Sets the password of `default`, as `requirepass` does; none lets everybody in.
    pub fn set_default_password(&mut self, password: Option<&[u8]>) {
        let mut user = User::clone(self.default_user());
        let rule = password.map(|password| [b">", password].concat());
        for rule in [b"resetpass", rule.as_deref().unwrap_or(b"nopass")] {
            let applied = user.apply(rule, self.scope());
            debug_assert!(applied.is_ok(), "passwords are any bytes");
        }
        self.insert(user);
    }

    /// Deletes a user; its clients have to be closed. `None` where there is no such user, and for `default`,
    /// which stays.
    pub fn delete(&mut self, name: &[u8]) -> Option<Arc<User>> {
        if name == DEFAULT {
            return None;
        }
        let user = self.by_name.remove(name)?;
        user.retire();
        Some(user)
    }

    /// A user without rights, for the next one of this name.
    pub(crate) fn make(&self, name: &[u8]) -> User {
        User::new(name, self.next_identity, self.all_channels)
    }

    pub(crate) fn make_default(&self) -> User {
        User::new_default(self.next_identity)
    }

    /// Takes a user whose rules are complete, in the place of the one of its name.
    pub(crate) fn insert(&mut self, mut user: User) -> Arc<User> {
        self.next_identity = self.next_identity.max(user.identity + 1);
        user.summarize();
        let user = Arc::new(user);
        if let Some(before) = self.by_name.insert(user.name.clone(), Arc::clone(&user)) {
            before.retire();
        }
        user
    }

    /// Takes over the users and roles of a file. A user whose name stays is the same user changed, as in the
    /// reference: its clients stay. Cost: the users of both.
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
