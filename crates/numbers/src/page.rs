//! The content of the web page that the metrics endpoint serves, in addition to the numbers of a sample:
//! rows about clients, logged commands, keys, slot migrations and cluster nodes, the series of the charts,
//! and their JSON. The engine gathers the rows, which are copies.
//!
//! Invariant: names of keys and arguments of commands appear only in the JSON for a request whose user
//! may read them.

pub mod details;
pub mod history;
pub mod json;
pub mod keys;
