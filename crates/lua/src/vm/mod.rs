//! The machine: the loop over instructions, and what leaves the loop.

mod exit;
pub(crate) mod inspect;
mod inside;
mod interp;
pub(crate) mod link;
pub(crate) mod machine;
mod names;
mod operate;
mod raise;
mod stack;
mod steps;

pub(crate) use exit::Known;
