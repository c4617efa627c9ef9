//! Roles, of Valkey 9.2: rights with a name, which users hold besides their own.

use crate::rights::Rights;
use crate::rule::RuleError;
use crate::selector::Selector;
use crate::text::{has_spaces, merge_selectors, word};
use sluice_base::heap;
use sluice_command::lookup;
use sluice_command::spec::Cat;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A role as it was defined at some moment. Users that hold a role hold its present form.
#[derive(Clone, Debug)]
pub struct Role {
    name: Box<[u8]>,
    rights: Rights,
}

/// Why ACL SETROLE refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetRoleError {
    /// The name is empty.
    EmptyName,
    /// A space or a zero byte in the name.
    Spaces,
    /// A quote or a backslash in the name: the text of a user could not be read again.
    Quotes,
    /// A comma in the name: `role=` separates names by commas.
    Comma,
    /// A command or a category has the name.
    Taken,
    /// A parenthesis that nothing closes, with the rule in which it stands.
    Unmatched(Vec<u8>),
    /// A rule that cannot be applied, selectors joined.
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

/// Whether a role may have this name.
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

/// Whether rules name a command or a category so: with any subcommand or first argument, and whatever a
/// category may be called one day.
fn is_taken(name: &[u8]) -> bool {
    let command = name.split(|&byte| byte == b'|').next().unwrap_or_default();
    name.starts_with(b"@")
        || lookup(command).is_some()
        || Cat::named(name).is_some()
        || name.eq_ignore_ascii_case(b"all")
}

impl Role {
    /// A role without any right; `all_channels` is `acl-pubsub-default`.
    pub(crate) fn new(name: &[u8], all_channels: bool) -> Role {
        Role { name: name.into(), rights: Rights::new(all_channels) }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What it allows.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.rights.selectors()
    }

    /// Applies one rule, its selector joined. Rules about a user itself are syntax errors: its state,
    /// passwords, roles, and `reset`.
    pub(crate) fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        self.rights.apply(rule, all_channels)
    }

    /// Applies rules as ACL SETROLE gives them. After an error the role is between two states: callers change
    /// a copy.
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

/// All roles, by name.
#[derive(Debug, Default)]
pub struct Roles {
    by_name: BTreeMap<Box<[u8]>, Arc<Role>>,
}

impl Roles {
    /// The role of this name. Cost: the logarithm of the roles.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Role>> {
        self.by_name.get(name)
    }

    /// All of them, in the order of the bytes of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.by_name.values()
    }

    /// How many there are.
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

    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        let roles: usize = self.iter().map(|role| role.footprint() + heap::block(role.name.len())).sum();
        roles + heap::tree::<Box<[u8]>, Arc<Role>>(self.by_name.len())
    }
}
