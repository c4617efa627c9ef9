//! Files: everything that the server reads from disk and writes to disk to keep it goes through [`Storage`].
//!
//! Invariants: (1) a file that replaces another is written beside it, forced to disk, renamed, and the folder
//! forced to disk ([`Replacement`]); (2) a failed `sync` is never tried again on the same file: Linux has
//! marked the pages clean, so the next one would succeed with nothing written; (3) what follows from faults
//! of disks is tested through [`faulty`], which loses what a crash of the machine would lose.
//!
//! The log, the pid file and what the kernel shows as files do not go through this: nothing is kept there.
//! Threads are the server's: each function here returns when the disk has answered.

#![forbid(unsafe_code)]

pub mod aof;
pub mod faulty;
mod free_name;
pub mod kept;
pub mod lock;
pub mod node_file;
mod real;
pub mod replacement;
mod system;
pub mod temporary;

pub use free_name::{FreeName, keep_as_loaded, keep_data, second_name};
pub use real::Real;
pub use replacement::{Replacement, replace_file};
pub use system::{can_create, can_write_into, plain_error};

use std::any::Any;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Folders and files by name. Any thread may use it.
pub trait Storage: Send + Sync {
    /// Makes a file that must not be there, with these permissions less those that the process masks out. As
    /// long as it is open it is locked, where files can be, so that [`Storage::is_written`] knows.
    fn create(&self, path: &Path, mode: u32) -> io::Result<Box<dyn StorageFile>>;

    /// Whether a process has a file open that it has made, whatever container it runs in.
    fn is_written(&self, path: &Path) -> bool;

    /// Opens a file to read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file that is there, to append to.
    fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Makes a folder, unless it is there.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name, in place of what has that name. It is in force for everybody at once, and
    /// durable after [`Storage::sync_folder`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, which nothing has.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Forces to disk which names a folder has.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names in a folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// Whether anything has this name: a symbolic link that leads nowhere, too. Errors: nobody knows, as
    /// where the name is too long or the folder may not be read.
    fn is_there(&self, path: &Path) -> io::Result<bool>;

    /// Whether two names are those of one file.
    fn is_same(&self, one: &Path, other: &Path) -> io::Result<bool>;

    /// Who may do what with the file of this name.
    fn access(&self, path: &Path) -> io::Result<FileAccess>;

    /// Bytes that may still be written to the disk of this folder.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;

    /// Locks a file against other processes, as long as what is returned is kept and the process lives. The
    /// file is made if it is not there, and holds this text for those that are refused; the file goes with
    /// the lock.
    fn lock(&self, path: &Path, text: &str) -> Result<LockHold, LockRefused>;
}

/// An open file. One thread uses it.
pub trait StorageFile: Send {
    /// Appends some of the bytes; how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads the next bytes; none at the end of the file.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Reads bytes at a position, for whoever reads a file out of order; none at the end of the file.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Forces to disk what was written.
    fn sync(&mut self) -> io::Result<()>;

    /// Forces to disk what was written, but for what nobody needs in order to read the file again: times, for
    /// example.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Cuts the file off behind so many bytes; the next write goes there.
    fn truncate(&mut self, size: u64) -> io::Result<()>;

    /// Bytes in the file.
    fn size(&self) -> io::Result<u64>;

    /// A second handle of the open file, so that another thread can sync it. What fails there has failed here
    /// too.
    fn twin(&self) -> io::Result<Box<dyn StorageFile>>;

    /// Gives the file the owner, the group and the permissions of another. Where the system does not let it
    /// have the owner or the group, its permissions are fewer: nobody may do more with it than with the
    /// other.
    fn set_access(&self, like: FileAccess) -> io::Result<()>;
}

/// Who may do what with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAccess {
    /// Permissions.
    pub mode: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl FileAccess {
    /// The permissions of a file with this owner and group that let nobody do more than these here.
    pub(crate) fn mode_for(self, uid: u32, gid: u32) -> u32 {
        if (uid, gid) == (self.uid, self.gid) {
            return self.mode;
        }
        let [owner, mut group, mut other] = [6, 3, 0].map(|shift| self.mode >> shift & 0o7);
        if gid != self.gid {
            // Members of the new group were others before, and those of the old group are now.
            group &= other;
            other = group;
        }
        if uid != self.uid {
            // The old owner is in the group, or another.
            group &= owner;
            other &= owner;
        }
        owner << 6 | group << 3 | other
    }
}

/// What keeps a file locked until the last share of it is dropped.
pub type LockHold = Arc<dyn Any + Send + Sync>;

/// Why a file was not locked.
#[derive(Debug)]
pub enum LockRefused {
    /// Another process has it, which wrote this into it.
    Held(String),
    /// It cannot be locked.
    Failed(io::Error),
}

/// All of a file. Cost: its bytes.
pub fn read_whole(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    let mut file = storage.open(path)?;
    let mut text = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(text),
            Ok(read) => text.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FileAccess;

    /// All permissions, and all ways in which somebody may stand to a file before and after.
    #[test]
    fn nobody_may_do_more_with_a_file_of_another_owner_or_group() {
        let old = |mode| FileAccess { mode, uid: 1, gid: 1 };
        // What somebody may do, of these groups.
        let rights = |mode: u32, uid: u32, gid: u32, user: u32, groups: &[u32]| match () {
            () if user == uid => mode >> 6 & 7,
            () if groups.contains(&gid) => mode >> 3 & 7,
            () => mode & 7,
        };
        for mode in 0..0o1000 {
            for (uid, gid) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
                let new = old(mode).mode_for(uid, gid);
                // The new owner is this process, which wrote the file.
                for user in [1, 3] {
                    for groups in [&[][..], &[1], &[2], &[1, 2]] {
                        let (before, after) =
                            (rights(mode, 1, 1, user, groups), rights(new, uid, gid, user, groups));
                        let more = after & !before;
                        assert_eq!(more, 0, "{mode:o} of 1:1, {new:o} of {uid}:{gid}: {user} in {groups:?}");
                    }
                }
            }
            assert_eq!(old(mode).mode_for(1, 1), mode);
        }
        // What is lost is no more than that.
        assert_eq!(old(0o640).mode_for(1, 2), 0o600);
        assert_eq!(old(0o644).mode_for(2, 2), 0o644);
        assert_eq!(old(0o4755).mode_for(2, 1), 0o755);
    }
}
