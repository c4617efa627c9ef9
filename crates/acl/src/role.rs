//! Roles, as in Valkey 9.2: named sets of rights, which users hold in addition to their own rights.

use crate::rights::Rights;
use crate::rule::RuleError;
use crate::selector::Selector;
use crate::text::{has_spaces, merge_selectors, word};
use sluice_base::heap;
use sluice_command::lookup;
use sluice_command::spec::Cat;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A version of a role. Users always hold the present version.
#[derive(Clone, Debug)]
pub struct Role {
    name: Box<[u8]>,
    rights: Rights,
}

/// The reason why ACL SETROLE fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetRoleError {
    /// The name is empty.
    EmptyName,
    /// The name contains white space or a zero byte.
    Spaces,
    /// The name contains a quote or a backslash, so the canonical text of a user could not be parsed again.
    Quotes,
    /// The name contains a comma, which separates names in `role=`.
    Comma,
    /// The name is that of a command or a category.
    Taken,
    /// A parenthesis is not closed; the field is the rule in which it stands.
    Unmatched(Vec<u8>),
    /// A rule is refused; the field is the rule, with the words of a selector joined.
    Rule(Vec<u8>, RuleError),
}

impl SetRoleError {
    /// The text of the error reply, without the `ERR` in front.
    pub fn text(&self) -> Vec<u8> {
        let text: &[u8] = match self {
            SetRoleError::EmptyName => b"Role names can't be empty",
            SetRoleError::Spaces => b"Role names can't contain spaces or null characters",
            SetRoleError::Quotes => b"Role names can't contain quotes or backslashes",
            SetRoleError::Comma => b"Role names can't contain commas",
            SetRoleError::Taken => b"Role name conflicts with a command or category name",
            SetRoleError::Unmatched(rule) => {
                return [b"Unmatched parenthesis in acl selector starting at '", word(rule), b"'."].concat();
            }
            SetRoleError::Rule(rule, error) => {
                return [b"Error in ACL SETROLE modifier '", word(rule), b"': ", error.text().as_bytes()]
                    .concat();
            }
        };
        text.to_vec()
    }
}

/// Refuses names that a role cannot have.
pub(crate) fn check_name(name: &[u8]) -> Result<(), SetRoleError> {
    if name.is_empty() {
        Err(SetRoleError::EmptyName)
    } else if has_spaces(name) {
        Err(SetRoleError::Spaces)
    } else if name.iter().any(|byte| matches!(byte, b'"' | b'\'' | b'\\')) {
        Err(SetRoleError::Quotes)
    } else if name.contains(&b',') {
        Err(SetRoleError::Comma)
    } else if is_taken(name) {
        Err(SetRoleError::Taken)
    } else {
        Ok(())
    }
}

/// Whether a rule could use this name for a command or a category. The name of a command with `|` and any
/// text after it is included, and so is any name that begins with `@`, because categories may be added later.
fn is_taken(name: &[u8]) -> bool {
    let command = name.split(|&byte| byte == b'|').next().unwrap_or_default();
    name.starts_with(b"@")
        || lookup(command).is_some()
        || Cat::named(name).is_some()
        || name.eq_ignore_ascii_case(b"all")
}

impl Role {
    /// A role without rights to commands and keys; `all_channels` is true under `acl-pubsub-default
    /// allchannels`.
    pub(crate) fn new(name: &[u8], all_channels: bool) -> Role {
        Role { name: name.into(), rights: Rights::new(all_channels) }
    }

    /// The name that `role=` uses.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The rights that the role grants to its holders.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.rights.selectors()
    }

    /// Applies one rule; a selector in parentheses is one rule. Rules about the state, passwords or roles
    /// of a user, and `reset`, are syntax errors.
    pub(crate) fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        self.rights.apply(rule, all_channels)
    }

    /// Applies the rules of ACL SETROLE. An error leaves the rules before the faulty one applied, so
    /// callers change a copy.
    pub(crate) fn apply_all<'a>(
        &mut self,
        rules: impl Iterator<Item = &'a [u8]> + Clone,
        all_channels: bool,
    ) -> Result<(), SetRoleError> {
        let merged = merge_selectors(rules.clone())
            .map_err(|at| SetRoleError::Unmatched(rules.clone().nth(at).unwrap_or_default().to_vec()))?;
        for rule in merged {
            let applied = self.apply(&rule, all_channels);
            applied.map_err(|error| SetRoleError::Rule(rule.into_owned(), error))?;
        }
        Ok(())
    }

    /// The whole line `role NAME …` of ACL LIST, ACL SAVE and CONFIG REWRITE, without a line end.
    pub fn line(&self) -> Vec<u8> {
        let mut line = [b"role ", &*self.name, b" "].concat();
        self.rights.describe(&mut line);
        line
    }

    fn footprint(&self) -> usize {
        heap::counted::<Role>() + heap::block(self.name.len()) + self.rights.footprint()
    }
}

/// All roles, sorted by name.
#[derive(Debug, Default)]
pub struct Roles {
    by_name: BTreeMap<Box<[u8]>, Arc<Role>>,
}

impl Roles {
    /// The role of this name. Cost: the logarithm of the number of roles.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Role>> {
        self.by_name.get(name)
    }

    /// All roles, in the order of the bytes of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.by_name.values()
    }

    /// The number of roles.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn insert(&mut self, role: Arc<Role>) {
        self.by_name.insert(role.name.clone(), role);
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Arc<Role>> {
        self.by_name.remove(name)
    }

    /// The roles of `role=a,b`, each once, in the order given.
    pub(crate) fn named(&self, names: &[u8]) -> Result<Vec<Arc<Role>>, RuleError> {
        let mut roles: Vec<Arc<Role>> = Vec::new();
        for name in names.split(|&byte| byte == b',') {
            if name.is_empty() {
                return Err(RuleError::Syntax);
            }
            let role = self.get(name).ok_or(RuleError::NoSuchRole)?;
            if !roles.iter().any(|known| known.name == role.name) {
                roles.push(Arc::clone(role));
            }
        }
        Ok(roles)
    }

    /// Bytes of heap memory that the roles hold, as the allocator rounds them.
    pub(crate) fn footprint(&self) -> usize {
        let roles: usize = self.iter().map(|role| role.footprint() + heap::block(role.name.len())).sum();
        roles + heap::tree::<Box<[u8]>, Arc<Role>>(self.by_name.len())
    }
}
