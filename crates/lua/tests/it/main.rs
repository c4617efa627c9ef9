//! The machine as its host uses it.

mod common;
mod host;
mod language;
mod lifetimes;
mod limits;
mod puc;
