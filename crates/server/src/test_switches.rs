//! Switches for this crate's tests: environment variables that make rare paths common. A build without
//! debug assertions, such as `--release`, has none of them and does not read the environment.

/// Messages in each ring to and from I/O threads: few, so that rings become full.
pub const RING: &str = "SLUICE_TEST_RING";
/// The most connections that the main thread keeps while I/O threads are active: the number changes each
/// tenth of a second, up to this one.
pub const KEPT: &str = "SLUICE_TEST_KEPT";
/// Any number: threads poll for work before they sleep, even if no processor is idle.
pub const SPIN: &str = "SLUICE_TEST_SPIN";
/// Additional microseconds that each sync of the append-only file takes, as on a slow disk.
pub const FSYNC_US: &str = "SLUICE_TEST_FSYNC_US";
/// Bytes that wait for the append-only file before writing commands are held back: few, so that this happens.
pub const AOF_BACKLOG: &str = "SLUICE_TEST_AOF_BACKLOG";
/// Any number: the parts of memory are summed at the end of each iteration, and shown by INFO debug.
pub const PARTS: &str = "SLUICE_TEST_PARTS";
/// Any number: the allocator faults when it needs more memory from the kernel.
#[cfg(debug_assertions)]
pub const ALLOCATOR_FAULT: &str = "SLUICE_TEST_ALLOCATOR_FAULT";
/// A fault of the files, as [`sluice_storage::faulty::Plan`] reads it.
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
