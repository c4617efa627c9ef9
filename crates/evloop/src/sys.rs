//! The drivers, and all code that calls the kernel without a safe wrapper.

mod blocking;
mod conditions;
#[cfg(target_os = "linux")]
pub(crate) mod epoll;
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "dragonfly"))]
pub(crate) mod kqueue;
mod pause;
pub(crate) mod poll;
mod portable;
mod readiness;
#[cfg(all(target_os = "linux", any(test, feature = "sim")))]
pub(crate) mod sim;
#[cfg(target_os = "linux")]
pub(crate) mod uring;
pub(crate) mod wake;
