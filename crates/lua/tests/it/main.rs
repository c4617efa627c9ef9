//! The machine as its host uses it.

mod common;
mod host;
mod inspect;
mod language;
mod lifetimes;
mod limits;
mod puc;
