//! Configuration: one table of parameters, and the code that is derived from it.
//!
//! `table.rs` declares each parameter once: name, alias, type, default, bounds, mutability, prose. The config
//! file, the command line, CONFIG GET, CONFIG SET, CONFIG REWRITE and the example file are derived from those
//! rows.
//!
//! Invariants:
//! 1. This crate reads no file, clock or environment: text comes in, text goes out; a loader that the
//!    caller passes reads included files.
//! 2. A [`Config`] holds exactly one value per row of [`PARAMS`], of the row's kind, within the row's bounds.
//! 3. After a failed load or CONFIG SET, no `Config` is half changed.
//! 4. Reading a value at run time is an array index: names are looked up only for text from outside.
//!
//! Deliberate differences from the reference: memory sizes and counts that overflow are refused
//! instead of wrapping around; `save` lines after an `include` still add up; a line break at the end of a
//! file is not one more empty line in a rewrite; the minimum of `repl-backlog-size` also applies in files;
//! addresses are quoted in a rewrite where they need it.
//!
//! The crate never applies a value (listens on a port, changes a directory, opens a log). The server does so
//! after [`Config::apply`], and calls [`Config::rollback`] if it fails.
#![forbid(unsafe_code)]

mod arguments;
pub mod choice;
mod config;
mod endpoints;
mod error;
mod example;
mod fuzz;
mod get;
mod info;
mod load;
mod number;
mod rewrite;
pub mod row;
mod secret;
mod set;
mod subnets;
mod table;
#[cfg(test)]
mod tests;
mod user_line;
mod users;
mod value;

pub use arguments::{CommandLine, command_line};
pub use config::Config;
pub use endpoints::{EndpointRule, RuleNode};
pub use error::{BadLine, COMMAND_LINE, LoadError, Location, Rename};
pub use example::example_conf;
pub use fuzz::fuzz_parse;
pub use info::{ParamFacts, ValidValues};
pub use load::{Loader, check_texts, parse_file};
pub use number::memory;
pub use rewrite::{Force, rewrite};
pub use row::{Empty, Honoured, Id, Param, ParamId, ParamKind, Section, Traits, UnitOfMeasure, ZeroBytes};
pub use secret::names_secret;
pub use set::{Change, Origin, Phase, SetError, Undo};
pub use subnets::{Subnet, Subnets};
pub use table::{PARAMS, param};
pub use user_line::{OutsideUser, UserLine};
pub use value::{BufferLimit, ClientClass, ParamValue, SavePoint, notify};
