//! Scripts: the machine as the server opens it, the scripts and libraries that are known, a run with its
//! calls as values, replies in both directions, the debugger.
//!
//! A run stands still between two instructions and asks for a command; who executes the command, and in
//! whose name, is the engine's: see `scripting/` there.
//!
//! Invariants: (1) no session and no unit: a run is handed the reply to what it has asked for; (2) what the
//! code in a library or file does is bounded in memory, and in time where the engine says so; (3) no clock:
//! time comes in through [`library::LoadWatch`] or with each step.
#![forbid(unsafe_code)]

pub mod cache;
pub mod debugger;
pub mod from_reply;
pub mod functions;
pub mod library;
pub mod machine;
pub mod restore;
pub mod run;
pub mod shebang;
mod slots;
pub mod state;
pub mod to_reply;
