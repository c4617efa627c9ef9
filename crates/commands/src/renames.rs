//! The names of commands after `rename-command`.

use sluice_command::{Named, table};
use sluice_config::{Config, LoadError, Rename};
use std::collections::HashMap;

/// Maps a name in lower case to the command (by its name in the command table) that it now calls, or to
/// `None` if it calls no command any more. Names that are absent here call the command of that name in the
/// table.
pub type Renames = HashMap<Box<[u8]>, Option<Box<str>>>;

/// The renames that the configuration's `rename-command` lines define, applied in order. Errors: a line
/// names no command, or its new name is taken.
pub fn renames(config: &Config) -> Result<Renames, LoadError> {
    let mut renames = Renames::new();
    for line in config.renames() {
        rename(&mut renames, line)?;
    }
    Ok(renames)
}

/// All errors in the configuration's `rename-command` lines.
pub fn rename_errors(config: &Config) -> Vec<LoadError> {
    let mut renames = Renames::new();
    config.renames().iter().filter_map(|line| rename(&mut renames, line).err()).collect()
}

fn rename(renames: &mut Renames, line: &Rename) -> Result<(), LoadError> {
    let from = line.from.to_ascii_lowercase().into_boxed_slice();
    let to = line.to.to_ascii_lowercase().into_boxed_slice();
    let command = meaning(renames, &from).ok_or_else(|| line.unknown_command())?;
    renames.insert(from, None);
    if to.is_empty() {
        return Ok(());
    }
    if meaning(renames, &to).is_some() {
        return Err(line.name_taken());
    }
    renames.insert(to, Some(command));
    Ok(())
}

/// The command of a call whose first word may have been renamed. Cost: a look-up, and a copy of the word in
/// lower case.
pub fn resolve_renamed(renames: &Renames, call: &[&[u8]]) -> Named {
    let Some(name) = call.first() else { return Named::Unknown };
    match renames.get(&name.to_ascii_lowercase()[..]) {
        Some(None) => Named::Unknown,
        Some(Some(old)) => {
            let mut call = call.to_vec();
            call[0] = old.as_bytes();
            table::resolve(&call)
        }
        None => table::resolve(call),
    }
}

/// The command that a name now calls, by its name in the command table; `None` if it calls none.
fn meaning(renames: &Renames, name: &[u8]) -> Option<Box<str>> {
    match renames.get(name) {
        Some(known) => known.clone(),
        None => sluice_command::lookup(name).map(|spec| spec.name().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &str) -> Result<Renames, LoadError> {
        let config = sluice_config::parse_file(lines.as_bytes(), "test", b"", &mut |_: &[u8]| Ok(Vec::new()))
            .expect("valid lines");
        renames(&config)
    }

    #[test]
    fn lines_apply_in_their_order() {
        let renames =
            of("rename-command Get fetch\nrename-command FETCH take\nrename-command set ''").expect("valid");
        assert_eq!(meaning(&renames, b"take").as_deref(), Some("get"));
        assert_eq!(meaning(&renames, b"get"), None);
        assert_eq!(meaning(&renames, b"fetch"), None);
        assert_eq!(meaning(&renames, b"set"), None);
        assert_eq!(meaning(&renames, b"ping").as_deref(), Some("ping"));
    }

    #[test]
    fn a_name_may_be_given_back_or_passed_on() {
        let renames =
            of("rename-command get x\nrename-command set get\nrename-command x set").expect("valid");
        assert_eq!(meaning(&renames, b"get").as_deref(), Some("set"));
        assert_eq!(meaning(&renames, b"set").as_deref(), Some("get"));
        assert!(of("rename-command get GET").is_ok());
    }

    #[test]
    fn a_line_that_names_nothing_or_takes_a_name_is_refused() {
        let report = |lines| of(lines).expect_err("invalid").report("9");
        assert!(
            report("port 1\nrename-command nope x")
                .contains("at line 2\n>>> 'rename-command nope x'\nNo such command in rename-command")
        );
        assert!(report("rename-command get set").contains("\nTarget command name already exists\n"));
        assert!(report("rename-command get ''\nrename-command get x").contains("No such command"));
    }

    #[test]
    fn a_check_hears_of_every_wrong_line() {
        let lines = "rename-command nope x\nrename-command get fetch\nrename-command del set";
        let config = sluice_config::parse_file(lines.as_bytes(), "test", b"", &mut |_: &[u8]| Ok(Vec::new()))
            .expect("valid lines");
        let told: Vec<String> = rename_errors(&config).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "test:1: No such command in rename-command: 'rename-command nope x'",
                "test:3: Target command name already exists: 'rename-command del set'",
            ]
        );
    }
}
