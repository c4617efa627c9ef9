//! The source from which a snapshot is read.

/// A snapshot that the loading thread reads from a file or a connection.
pub trait SnapshotSource: Send {
    /// Opens the snapshot if it is not open yet. Returns its size in bytes, 0 if the size is unknown,
    /// or `None` if there is no such file. Errors: the system's reason.
    fn open(&mut self) -> Result<Option<u64>, String>;

    /// Reads at least one further byte of the opened snapshot; 0 bytes mean the end of the file. Errors: the
    /// system's reason.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String>;

    /// Gives the file a second name, durably, so that its records survive when another file takes its
    /// place. Returns that name, which may exist already, or `None` if the snapshot is no file of this
    /// server. Errors: the reason.
    fn keep(&mut self) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Reports that the whole snapshot was read. Bytes after it are not read.
    fn end(&mut self) {}
}
