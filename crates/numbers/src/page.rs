//! The content of the web page that the metrics endpoint serves, in addition to the numbers of a sample:
//! copies of rows about clients, logged commands and large keys, and their JSON. The engine gathers them.
//!
//! Invariant: names of keys and arguments of commands appear only in the JSON for a request whose user
//! may read them.

pub mod details;
pub mod history;
pub mod json;
pub mod keys;
