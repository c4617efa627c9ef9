//! Switches for this crate's tests: environment variables that make rare paths common. A build without
//! debug assertions, such as `--release`, has none of them and does not read the environment.

/// Number of messages that each ring to or from an I/O thread holds. A test sets it low, so that rings become
/// full.
pub const RING: &str = "SLUICE_TEST_RING";
/// The largest number of connections that the main thread keeps while I/O threads are active. The number kept
/// changes about every tenth of a second, between 0 and this value.
pub const KEPT: &str = "SLUICE_TEST_KEPT";
/// If set to any number: threads poll for work before they sleep, even if no processor is idle.
pub const SPIN: &str = "SLUICE_TEST_SPIN";
/// Additional microseconds that each sync of the append-only file takes, as on a slow disk.
pub const FSYNC_US: &str = "SLUICE_TEST_FSYNC_US";
/// Number of bytes waiting to be written to the append-only file from which on write commands are held back.
/// A test sets it low, so that they are held back.
pub const AOF_BACKLOG: &str = "SLUICE_TEST_AOF_BACKLOG";
/// If set to any number: the memory of each part of the server is added up at the end of each iteration, and
/// INFO debug shows it (the `memory_*` fields).
pub const PARTS: &str = "SLUICE_TEST_PARTS";
/// If set to any number: the allocator raises SIGSEGV when it next needs memory from the kernel, for tests of
/// the crash report.
#[cfg(debug_assertions)]
pub const ALLOCATOR_FAULT: &str = "SLUICE_TEST_ALLOCATOR_FAULT";
/// A planned failure of file operations, in the text form that [`sluice_storage::faulty::Plan`] parses.
#[cfg(debug_assertions)]
pub const STORAGE: &str = "SLUICE_TEST_STORAGE";

/// The text of this switch; `None` if it is not set.
#[cfg(debug_assertions)]
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The number of this switch; `None` if it is not set or is no number, and in a release build.
pub fn number(name: &str) -> Option<u64> {
    if !cfg!(debug_assertions) {
        return None;
    }
    std::env::var(name).ok()?.parse().ok()
}
