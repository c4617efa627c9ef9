//! Users: passwords, rights and roles.

use crate::password::Digest;
use crate::rights::Rights;
use crate::role::{Role, Roles};
use crate::rule::RuleError;
use crate::selector::{Selector, is_among};
use crate::text::{merge_selectors, word};
use sluice_base::heap;
use sluice_command::KeyFlags;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A version of a user. A session keeps one and calls [`User::is_stale`] before it uses the rights; if the
/// version is stale, [`crate::Users::renew`] returns the present one.
#[derive(Debug)]
pub struct User {
    pub(crate) name: Box<[u8]>,
    /// Identifies the user across all of its versions; never reused for another user.
    pub(crate) identity: u64,
    stale: AtomicBool,
    enabled: bool,
    nopass: bool,
    asks: Asks,
    passwords: Vec<Digest>,
    rights: Rights,
    roles: Vec<Arc<Role>>,
}

/// The parts of a request on which the user's rights depend, computed by [`User::summarize`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks {
    /// A selector allows everything.
    allows_all: bool,
    /// Some selector does not allow every key.
    pub keys: bool,
    /// Some selector does not allow every channel.
    pub channels: bool,
    /// Some selector does not allow every database.
    pub databases: bool,
}

impl Asks {
    /// The safe value before [`User::summarize`]: everything has to be checked.
    const EVERYTHING: Asks = Asks { allows_all: false, keys: true, channels: true, databases: true };
}

/// The settings and roles to which rules refer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleScope<'a> {
    /// Whether new users, roles and selectors have every channel: `acl-pubsub-default allchannels`.
    pub all_channels: bool,
    /// The roles that `role=` may name.
    pub roles: &'a Roles,
}

impl Clone for User {
    fn clone(&self) -> User {
        User {
            name: self.name.clone(),
            identity: self.identity,
            stale: AtomicBool::new(false),
            enabled: self.enabled,
            nopass: self.nopass,
            asks: self.asks,
            passwords: self.passwords.clone(),
            rights: self.rights.clone(),
            roles: self.roles.clone(),
        }
    }
}

/// The canonical rules of a user: the text after `user NAME` in files.
pub type UserText = Vec<u8>;

/// The reason why ACL SETUSER fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetUserError {
    /// The name contains white space or a zero byte.
    Name,
    /// A parenthesis is not closed; the field is the rule in which it stands.
    Unmatched(Vec<u8>),
    /// A rule is refused; the field is the rule, with the words of a selector joined.
    Rule(Vec<u8>, RuleError),
}

impl SetUserError {
    /// The text of the error reply, without the `ERR` in front.
    pub fn text(&self) -> Vec<u8> {
        match self {
            SetUserError::Name => b"Usernames can't contain spaces or null characters".to_vec(),
            SetUserError::Unmatched(rule) => {
                [b"Unmatched parenthesis in acl selector starting at '", word(rule), b"'."].concat()
            }
            SetUserError::Rule(rule, error) => {
                [b"Error in ACL SETUSER modifier '", word(rule), b"': ", error.text().as_bytes()].concat()
            }
        }
    }
}

/// The remaining channel patterns of a user that has lost some.
#[derive(Clone, Debug)]
pub struct RevokedChannels {
    left: Vec<Vec<u8>>,
}

impl RevokedChannels {
    /// Whether a subscription to a channel or pattern may stay. Cost: a match with each of the user's
    /// patterns.
    pub fn allows(&self, channel: &[u8], is_pattern: bool) -> bool {
        is_among(&self.left, channel, is_pattern)
    }
}

impl User {
    /// A disabled user without rights to commands and keys; `all_channels` is true under
    /// `acl-pubsub-default allchannels`.
    pub(crate) fn new(name: &[u8], identity: u64, all_channels: bool) -> User {
        User {
            name: name.into(),
            identity,
            stale: AtomicBool::new(false),
            enabled: false,
            nopass: false,
            asks: Asks::EVERYTHING,
            passwords: Vec::new(),
            rights: Rights::new(all_channels),
            roles: Vec::new(),
        }
    }

    /// The user that a session keeps after its user was deleted: it has the same name, but no rights. No
    /// session authenticates as this user; it is in no set and never stale.
    pub fn without_rights(&self) -> User {
        User::new(&self.name, self.identity, false)
    }

    /// The initial user `default`: all rights, no password needed.
    pub(crate) fn new_default(identity: u64) -> User {
        let mut user = User::new(b"default", identity, true);
        user.enabled = true;
        user.nopass = true;
        for rule in [&b"+@all"[..], b"~*", b"&*"] {
            let applied = user.rights.apply(rule, true);
            debug_assert!(applied.is_ok());
        }
        user
    }

    /// Computes which parts of a request the user's rights depend on. Must be called when the rules are
    /// complete, before the first check. Cost: O(selectors).
    pub(crate) fn summarize(&mut self) {
        let asks = Asks {
            allows_all: self.selectors().any(Selector::allows_all),
            keys: !self.selectors().all(Selector::has_all_keys),
            channels: !self.selectors().all(Selector::has_all_channels),
            databases: !self.selectors().all(Selector::has_all_databases),
        };
        self.asks = asks;
    }

    /// Bytes of heap memory that the user holds, as the allocator rounds them, including the user itself
    /// and the counters of its `Arc`, but not its roles.
    pub(crate) fn footprint(&self) -> usize {
        heap::counted::<User>()
            + heap::block(self.name.len())
            + heap::vec(&self.passwords)
            + heap::vec(&self.roles)
            + self.rights.footprint()
    }

    /// The name with which clients authenticate.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether clients may authenticate as this user.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether any password is accepted.
    pub fn is_nopass(&self) -> bool {
        self.nopass
    }

    /// The flags that ACL GETUSER shows, in order.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        [if self.enabled { "on" } else { "off" }].into_iter().chain(self.nopass.then_some("nopass"))
    }

    /// The digests of the passwords, in the order in which the rules added them.
    pub fn passwords(&self) -> &[Digest] {
        &self.passwords
    }

    /// The rights from the user's own rules, without those of roles.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// The roles of the user, in the order given.
    pub fn roles(&self) -> &[Arc<Role>] {
        &self.roles
    }

    /// Whether the user holds the role of this name. Cost: O(roles of the user).
    pub fn holds(&self, role: &[u8]) -> bool {
        self.roles.iter().any(|held| held.name() == role)
    }

    /// Replaces a held role of the same name by its present version.
    pub(crate) fn renew_role(&mut self, role: &Arc<Role>) {
        for held in self.roles.iter_mut().filter(|held| held.name() == role.name()) {
            *held = Arc::clone(role);
        }
    }

    /// The selectors of the user, then those of the roles.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.rights.selectors().chain(self.roles.iter().flat_map(|role| role.selectors()))
    }

    pub(crate) fn asks(&self) -> Asks {
        self.asks
    }

    /// Whether every request is allowed, so no further check is needed. O(1).
    #[inline]
    pub fn allows_all(&self) -> bool {
        self.asks.allows_all
    }

    /// Whether a selector allows reading a key of this name in one of these databases; rights to commands
    /// play no part. Cost: a match with each pattern, and a look-up of the databases for each selector.
    pub fn may_read_key(&self, name: &[u8], databases: impl Iterator<Item = usize> + Clone) -> bool {
        self.allows_all()
            || self.selectors().any(|selector| {
                databases.clone().any(|database| selector.allows_database(database))
                    && selector.allows_key(name, KeyFlags::ACCESS)
            })
    }

    /// Whether a selector allows reading every key in every database. Cost: O(patterns).
    pub fn may_read_every_key(&self) -> bool {
        self.allows_all()
            || self
                .selectors()
                .any(|selector| selector.has_all_databases() && selector.allows_every_key(KeyFlags::ACCESS))
    }

    /// Whether the user was changed or deleted after this version. O(1).
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    pub(crate) fn retire(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Whether `password` is a password of the user, or any password is accepted (`nopass`). The time
    /// does not depend on where digests differ. Whether the user is enabled is not checked. Cost: linear in
    /// the number of passwords and in the bytes of `password`.
    pub fn accepts(&self, password: &[u8]) -> bool {
        if self.nopass {
            return true;
        }
        Digest::of(password).is_among(&self.passwords, 0)
    }

    /// Applies the rules of ACL SETUSER. An error leaves the rules before the faulty one applied, so
    /// callers change a copy.
    pub(crate) fn apply_all<'a>(
        &mut self,
        rules: impl Iterator<Item = &'a [u8]> + Clone,
        scope: RuleScope<'_>,
    ) -> Result<(), SetUserError> {
        let merged = merge_selectors(rules.clone())
            .map_err(|at| SetUserError::Unmatched(rules.clone().nth(at).unwrap_or_default().to_vec()))?;
        for rule in merged {
            if let Err(error) = self.apply(&rule, scope) {
                return Err(SetUserError::Rule(rule.into_owned(), error));
            }
        }
        Ok(())
    }

    /// Applies one rule; a selector in parentheses is one rule. Cost: linear in the present definition and
    /// in the rule; for a category, also in the number of commands.
    pub(crate) fn apply(&mut self, rule: &[u8], scope: RuleScope<'_>) -> Result<(), RuleError> {
        if rule.is_empty() {
            return Ok(());
        }
        let op = word(rule);
        let is = |text: &str| op.eq_ignore_ascii_case(text.as_bytes());
        if is("on") || is("off") {
            self.enabled = is("on");
        } else if is("skip-sanitize-payload") || is("sanitize-payload") {
            // Obsolete words have no effect; they are accepted for old files.
        } else if is("nopass") || is("resetpass") {
            self.nopass = is("nopass");
            self.passwords.clear();
        } else if let [b'>' | b'#', ..] = op {
            let digest = digest_of(rule)?;
            if !self.passwords.contains(&digest) {
                self.passwords.push(digest);
            }
            self.nopass = false;
        } else if let [b'<' | b'!', ..] = op {
            let digest = digest_of(rule)?;
            let at =
                self.passwords.iter().position(|known| *known == digest).ok_or(RuleError::NoSuchPassword)?;
            self.passwords.remove(at);
        } else if is("resetroles") {
            self.roles.clear();
        } else if op.get(..5).is_some_and(|head| head.eq_ignore_ascii_case(b"role=")) {
            self.roles = scope.roles.named(&op[5..])?;
        } else if is("reset") {
            *self = User::new(&self.name, self.identity, scope.all_channels);
        } else {
            self.rights.apply(rule, scope.all_channels)?;
        }
        Ok(())
    }

    /// The canonical text of the user's flags, passwords, roles and rights: the part after `user NAME `
    /// in ACL LIST and in files.
    pub fn describe(&self) -> UserText {
        let mut out = Vec::new();
        for flag in self.flags() {
            out.extend_from_slice(flag.as_bytes());
            out.push(b' ');
        }
        for password in &self.passwords {
            out.push(b'#');
            out.extend_from_slice(password.hex().as_bytes());
            out.push(b' ');
        }
        if !self.roles.is_empty() {
            let names: Vec<&[u8]> = self.roles.iter().map(|role| role.name()).collect();
            out.extend([b"role=", &names.join(&b',')[..], b" "].concat());
        }
        self.rights.describe(&mut out);
        out
    }

    /// The line `user NAME …` of ACL LIST, ACL SAVE and CONFIG REWRITE, without a line end.
    pub fn line(&self) -> Vec<u8> {
        [b"user ", &*self.name, b" ", &self.describe()].concat()
    }

    /// Whether both users have the same flags, passwords, rights and names of roles.
    pub fn is_same_definition(&self, other: &User) -> bool {
        self.enabled == other.enabled
            && self.nopass == other.nopass
            && self.passwords == other.passwords
            && self.rights == other.rights
            && self.roles.iter().map(|role| role.name()).eq(other.roles.iter().map(|role| role.name()))
    }

    /// The remaining channels, if `before` had all channels or a channel pattern that this user lacks;
    /// `None` if no subscription has to end. Patterns are compared as texts. Cost: the product of the
    /// numbers of patterns.
    pub(crate) fn revoked_channels(&self, before: &User) -> Option<RevokedChannels> {
        if self.selectors().any(Selector::has_all_channels) {
            return None;
        }
        let left: Vec<_> = self.selectors().flat_map(Selector::channels).cloned().collect();
        let keeps = before.selectors().all(|selector| {
            !selector.has_all_channels() && selector.channels().iter().all(|one| left.contains(one))
        });
        (!keeps).then_some(RevokedChannels { left })
    }
}

/// The digest in `>password`, `<password`, `#hash` or `!hash`.
fn digest_of(rule: &[u8]) -> Result<Digest, RuleError> {
    match rule {
        [b'>' | b'<', password @ ..] => Ok(Digest::of(password)),
        [_, hash @ ..] => Digest::parse(hash).ok_or(RuleError::BadHash),
        [] => Err(RuleError::Syntax),
    }
}
