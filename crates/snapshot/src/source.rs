//! Where a snapshot is read from.

/// A snapshot that is read, on the thread that loads it.
pub trait SnapshotSource: Send {
    /// Opens it, where that was not done: how many bytes it has, or 0 where nobody knows; `None` where there
    /// is no such file. Errors: the system's reason.
    fn open(&mut self) -> Result<Option<u64>, String>;

    /// Reads the next bytes of what was opened, some at least; none at the end of the file. Errors: the
    /// system's reason.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String>;

    /// The snapshot was read whole: what stands behind it is nobody's.
    fn end(&mut self) {}
}
