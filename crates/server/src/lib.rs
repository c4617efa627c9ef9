//! The process of `sluice-server`: threads, sockets, files, signals. The program itself, with the
//! allocator, is the crate `sluice`, so the allocator's C build does not delay the build of this crate.
#![forbid(unsafe_code)]

mod allocator;
mod aof;
mod arrivals;
mod bus;
mod check;
mod check_move;
mod cli;
mod clients;
mod connection;
mod host;
mod iothreads;
mod iteration;
mod iteration_stats;
mod lazyfree;
mod listen;
mod loader;
mod memory_parts;
mod metrics;
mod migrate;
mod net;
mod pipeline_depth;
mod replica;
mod saving;
mod slot_export;
mod slow_reads;
mod start;
mod storage;
mod supervisor;
mod test_switches;
mod threads;
mod users;

pub use allocator::{Allocated, Allocator};
pub use cli::VERSION;
pub use sluice_daemon::crash::ReportMemory;
pub use start::Failure;

/// Performs the task that the command-line arguments of `sluice-server` select; `arguments` excludes the
/// program's name. Returns the exit status.
///
/// # Errors
/// The reason why the server did not start, as text for standard error.
pub fn run(arguments: Vec<std::ffi::OsString>, allocator: &'static dyn Allocator) -> Result<u8, Failure> {
    start::run(arguments, allocator)
}
