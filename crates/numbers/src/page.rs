//! What the page of the metrics endpoint shows beside the numbers of a sample: rows of clients, logged
//! commands and large keys as copies, and their JSON. The engine gathers them.
//!
//! Invariant: names of keys, and arguments of commands, are in no JSON but that for a request whose user may
//! read them.

pub mod details;
pub mod history;
pub mod json;
pub mod keys;
