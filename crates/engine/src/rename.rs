//! `rename-command`: names that commands have instead of their own, or that are taken away.

use sluice_config::{Config, LoadError};
use std::collections::HashMap;

/// Names, lower case, with the command's own name behind them; nothing behind a name that calls nothing any more.
pub(crate) type Renames = HashMap<Box<[u8]>, Option<Box<str>>>;

/// Whether every `rename-command` names a command and gives it a name that is free. The error is for the operator.
pub fn check_renames(config: &Config) -> Result<(), LoadError> {
    renames(config).map(|_| ())
}

/// The names in force. Directives act in order, so that a new name can be renamed again.
pub(crate) fn renames(config: &Config) -> Result<Renames, LoadError> {
    let mut names = Renames::new();
    for rename in config.renames() {
        let (from, to) = (rename.from.to_ascii_lowercase(), rename.to.to_ascii_lowercase());
        let own = meaning(&names, &from).ok_or_else(|| rename.unknown_command())?;
        names.insert(from.into(), None);
        if to.is_empty() {
            continue;
        }
        if meaning(&names, &to).is_some() {
            return Err(rename.name_taken());
        }
        names.insert(to.into(), Some(own));
    }
    Ok(names)
}

/// The own name of the command that `name` calls.
fn meaning(names: &Renames, name: &[u8]) -> Option<Box<str>> {
    match names.get(name) {
        Some(own) => own.clone(),
        None => sluice_command::lookup(name).map(|spec| spec.name.into()),
    }
}
