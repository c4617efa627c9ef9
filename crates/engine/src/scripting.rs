//! Scripts: the machine as the server opens it, the scripts that are known, and their runs.

pub(crate) mod debugger {
    mod steps;
}
mod function_commands;
pub(crate) mod run {
    mod call;
    pub(crate) mod steps;
}
mod script_commands;
