//! Scripts: the Lua machine as the server sets it up, the known scripts, and their runs.

pub(crate) mod debugger;
mod function_commands;
pub(crate) mod garbage;
pub(crate) mod run;
mod script_commands;
pub(crate) mod scripts;
