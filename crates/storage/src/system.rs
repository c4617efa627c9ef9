//! Questions to the operating system: the text of its errors, and whether a path can be written.

use nix::unistd::{AccessFlags, access};
use std::io;
use std::path::Path;

/// The system's text for an error, without the number that Rust appends.
pub fn plain_error(error: &io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |n| nix::errno::Errno::from_raw(n).desc().to_owned())
}

/// Checks, by the permissions of the folder, that a file can be created at this path. Errors: why it cannot.
pub fn can_create(path: &Path) -> io::Result<()> {
    can_write_into(path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Checks, by the folder's permissions, that files can be created in it. Errors: why they cannot.
pub fn can_write_into(folder: &Path) -> io::Result<()> {
    if !std::fs::metadata(folder)?.is_dir() {
        return Err(nix::errno::Errno::ENOTDIR.into());
    }
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK).map_err(io::Error::from)
}
