//! The process and its environment: log, signals, crash report, process title, files of a daemon, notes
//! to systemd, use of resources.
//!
//! Invariants: (1) this crate knows no clients and no commands; (2) it holds the unsafe code of the
//! process: the handlers of faults, the fork of `daemonize`, the title over the arguments.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod crash;
#[allow(unsafe_code)]
pub mod detach;
pub mod log;
pub mod named_file;
pub mod oom_score;
pub mod restart;
pub mod service_status;
pub mod signals;
pub mod syslog;
pub mod systemd;
#[allow(unsafe_code)]
pub mod title;
pub mod usage;
