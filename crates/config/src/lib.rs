//! Configuration: one table of parameters, and everything that follows from it.
//!
//! `table.rs` declares each parameter once: name, alias, type, default, bounds, mutability, prose. The config file, the
//! command line, CONFIG GET, CONFIG SET, CONFIG REWRITE and the example file are derived from those rows.
//!
//! Invariants:
//! 1. Nothing here reads a file, a clock or the environment: text comes in, text goes out; included files come from a
//!    loader that the caller passes.
//! 2. A [`Config`] holds exactly one value per row of [`PARAMS`], of the row's kind, within the row's bounds.
//! 3. A failed load or CONFIG SET leaves no half-changed `Config` behind.
//! 4. Reading a value at run time is an array index: names are looked up only for text that came from outside.
//!
//! Never does: apply a value (listen on a port, change a directory, open a log). That is the server's part, between
//! [`Config::apply`] and, when it fails, [`Config::rollback`].
#![forbid(unsafe_code)]

pub mod row;
mod table;
pub mod choice;
mod value;
mod config;
mod load;
mod arguments;
mod set;
mod get;
mod rewrite;
mod example;
mod split;
mod number;
mod glob;
mod fuzz;
#[cfg(test)]
mod tests;

pub use arguments::{CommandLine, command_line};
pub use config::Config;
pub use example::example_conf;
pub use fuzz::fuzz_parse;
pub use load::{BadLine, LoadError, Loader, Place, Rename, parse_file};
pub use row::{Empty, Honoured, Id, Kind, Param, ParamId, Section, Storage, Traits, Unit};
pub use rewrite::{Force, rewrite};
pub use set::{Change, Origin, Phase, SetError, Undo};
pub use split::{quote, split_args};
pub use table::{PARAMS, param};
pub use value::{BufferLimit, ClientClass, SavePoint, Value, notify};
