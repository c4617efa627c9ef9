//! Scripts: the Lua machine as the server opens it, the caches of scripts and libraries, a run with its
//! state, the conversion of replies in both directions, and the debugger.
//!
//! A run pauses between two instructions and requests a command; the engine decides who executes the
//! command, and as which user (`scripting/` of the crate `engine`).
//!
//! Invariants: (1) this crate has no access to sessions or execution units: a run only receives the reply
//! to its request; (2) programs are bounded in memory, except those that come from the primary or a
//! replayed log, and in time if the engine sets a limit; (3) this crate reads no clock: the time comes from
//! [`library::LoadWatch`] or with each step.
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
