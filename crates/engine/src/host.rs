//! The border to the process: what the engine is told ([`process::Process`]) and what it asks for
//! ([`action::Action`]).

pub(crate) mod action;
pub(crate) mod process;
