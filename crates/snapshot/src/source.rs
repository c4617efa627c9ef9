//! Where a snapshot is read from.

/// A snapshot that is read, on the thread that loads it.
pub trait SnapshotSource: Send {
    /// Opens it, where that was not done: how many bytes it has, or 0 where nobody knows; `None` where there
    /// is no such file. Errors: the system's reason.
    fn open(&mut self) -> Result<Option<u64>, String>;

    /// Reads the next bytes of what was opened, some at least; none at the end of the file. Errors: the
    /// system's reason.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String>;

    /// Gives the file a second name, durably, so that a file which takes its place does not lose what it
    /// holds: that name, which may be there from before. `None`: no file of this server. Errors: the reason.
    fn keep(&mut self) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// The snapshot was read whole: what stands behind it is nobody's.
    fn end(&mut self) {}
}
