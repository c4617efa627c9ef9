//! Freeing of libraries that are not needed any more.

use sluice_control::action::Action;
use sluice_scripts::functions::Functions;
use sluice_scripts::library::Library;
use sluice_scripts::state::ScriptGarbage;

/// Frees libraries on this thread, or passes them to another thread if `is_async`.
pub(crate) fn free_functions(actions: &mut Vec<Action>, old: Functions, is_async: bool) {
    match is_async {
        true => actions.push(Action::FreeScripts(Box::new(ScriptGarbage::of_functions(old)))),
        false => drop(old),
    }
}

/// Passes the machine of a library to another thread, which frees the machine.
pub(super) fn free_library(actions: &mut Vec<Action>, old: Option<Box<Library>>) {
    if let Some(machine) = old.and_then(|library| library.machine) {
        actions.push(Action::FreeScripts(Box::new(ScriptGarbage::of_machine(machine))));
    }
}
