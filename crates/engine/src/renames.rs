//! `rename-command`: commands under other names, and commands that are gone.
//!
//! A name that this server does not know is left alone: a configuration may well remove a command that is yet to come.

use sluice_config::{Config, LoadError};
use std::collections::HashMap;

/// Names in lower case, and the command each one means now; `None`: the command is gone from this name.
pub(crate) type Renames = HashMap<Box<[u8]>, Option<Box<str>>>;

/// Whether the renames of a configuration can be applied. Errors: a new name is that of another command.
pub fn check_renames(config: &Config) -> Result<(), LoadError> {
    apply(config).map(|_| ())
}

/// The renames in force; none when they cannot be applied.
pub(crate) fn of(config: &Config) -> Renames {
    apply(config).unwrap_or_default()
}

fn apply(config: &Config) -> Result<Renames, LoadError> {
    let mut renames = Renames::new();
    for rename in config.renames() {
        let (from, to) = (rename.from.to_ascii_lowercase(), rename.to.to_ascii_lowercase());
        let Some(command) = meaning(&renames, &from) else { continue };
        renames.insert(from.into(), None);
        if to.is_empty() {
            continue;
        }
        if meaning(&renames, &to).is_some() {
            return Err(rename.name_taken());
        }
        renames.insert(to.into(), Some(command));
    }
    Ok(renames)
}

/// The command that `name` means after the renames so far.
fn meaning(renames: &Renames, name: &[u8]) -> Option<Box<str>> {
    match renames.get(name) {
        Some(command) => command.clone(),
        None => sluice_command::lookup(name).map(|spec| spec.name.into()),
    }
}
