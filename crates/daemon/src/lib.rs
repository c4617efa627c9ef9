//! The process among others on its machine: its log, signals and crash report, its title, its files of a
//! daemon, what systemd is told, what it uses.
//!
//! Invariants: (1) nothing here knows a client or a command; (2) the unsafe code of the process is here: the
//! handlers of faults, the fork of `daemonize`, the title over the arguments.
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
