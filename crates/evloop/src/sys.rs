//! The drivers. Whatever touches the kernel without a safe wrapper is here.

pub(crate) mod epoll;
mod pause;
pub(crate) mod poll;
mod readiness;
pub(crate) mod sim;
pub(crate) mod uring;
