//! Tests of the machine through its public interface, in one program.

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
