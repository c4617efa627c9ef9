//! Scripts: the machine as the server opens it, the scripts that are known, and their runs.

pub(crate) mod debugger;
mod function_commands;
pub(crate) mod garbage;
pub(crate) mod run;
mod script_commands;
pub(crate) mod scripts;
