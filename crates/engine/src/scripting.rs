//! Scripts: the machine as the server opens it, the scripts that are known, and their runs.

pub(crate) mod cache;
pub(crate) mod debugger;
pub(crate) mod from_reply;
mod function_commands;
pub(crate) mod functions;
pub(crate) mod library;
pub(crate) mod machine;
mod restore;
pub(crate) mod run;
mod script_commands;
pub(crate) mod shebang;
pub(crate) mod state;
pub(crate) mod to_reply;
