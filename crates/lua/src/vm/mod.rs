//! The virtual machine: the interpreter's loop, and the code for everything that leaves the loop.

pub(crate) mod cycles;
mod exit;
mod inside;
pub(crate) mod inspect;
mod interp;
pub(crate) mod link;
pub(crate) mod machine;
mod names;
mod natives;
pub(crate) mod operate;
mod raise;
mod stack;

pub(crate) use exit::Known;
