//! Switches for this crate's tests: words from the environment that make rare paths usual. A build without
//! debug assertions, as `--release` makes it, has none of them and does not read the environment.

/// Messages that the rings to and from I/O threads hold: few, so that full ones are met.
pub const RING: &str = "SLUICE_TEST_RING";
/// Connections that the main thread keeps at most while I/O threads are active: another number in each tenth
/// of a second, up to this one.
pub const KEPT: &str = "SLUICE_TEST_KEPT";
/// Any number: threads look for work before they sleep, whatever processors are idle.
pub const SPIN: &str = "SLUICE_TEST_SPIN";
/// Microseconds that each sync of the append-only file takes longer: a disk that is slow on purpose.
pub const FSYNC_US: &str = "SLUICE_TEST_FSYNC_US";
/// Bytes that wait for the append-only file before commands that write are held back: few, so that it is met.
pub const AOF_BACKLOG: &str = "SLUICE_TEST_AOF_BACKLOG";
/// Any number: at the end of each iteration the parts of memory are summed, and INFO debug shows them.
pub const PARTS: &str = "SLUICE_TEST_PARTS";
/// Any number: the allocator faults when it needs more memory from the kernel.
#[cfg(debug_assertions)]
pub const ALLOCATOR_FAULT: &str = "SLUICE_TEST_ALLOCATOR_FAULT";
/// A fault of the files, as [`sluice_storage::faulty::Plan`] reads it.
#[cfg(debug_assertions)]
pub const STORAGE: &str = "SLUICE_TEST_STORAGE";

/// The text of this switch; none where it is not set.
#[cfg(debug_assertions)]
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The number of this switch; none where it is not set, and none in a release build.
pub fn number(name: &str) -> Option<u64> {
    if !cfg!(debug_assertions) {
        return None;
    }
    std::env::var(name).ok()?.parse().ok()
}
