//! The machine as its host uses it.

#![expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]

mod charges;
mod common;
mod host;
mod images;
mod inspect;
mod language;
mod lifetimes;
mod limits;
mod pieces;
mod puc;
