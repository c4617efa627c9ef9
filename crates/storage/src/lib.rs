//! Files: all data that the server keeps on disk are read and written through [`Storage`].
//!
//! Invariants: (1) a file that replaces another is written beside it, forced to disk and renamed, and then
//! the folder is forced to disk ([`Replacement`]); (2) a failed `sync` is never tried again on the same file:
//! Linux has marked the pages clean, so another sync would succeed with nothing written; (3) the behaviour
//! after disk faults is tested through [`faulty`], which loses what a crash of the machine would lose.
//!
//! The server's log, the pid file and the kernel's own files (`/proc`, `/sys`) do not go through this crate,
//! because they hold no data to keep. The crate starts no threads; each function returns when the disk has
//! answered.

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

/// Folders and files by name. Any thread may use a storage.
pub trait Storage: Send + Sync {
    /// Creates a file that must not exist, with these permissions less the process's umask. Where the file
    /// system supports locks, the file stays locked while it is open, so that [`Storage::is_written`] can
    /// recognise it.
    fn create(&self, path: &Path, mode: u32) -> io::Result<Box<dyn StorageFile>>;

    /// Whether a process that created this file still has it open, even a process in another container.
    /// Always `false` where the file system has no locks.
    fn is_written(&self, path: &Path) -> bool;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Opens an existing file for appending.
    fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Creates a folder, unless it exists.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Renames a file; a file with the new name is replaced. All processes see the new name at once; it
    /// is durable after [`Storage::sync_folder`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, which must be free.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name of a file; durable after [`Storage::sync_folder`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Forces to disk the names in a folder.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names in a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// Whether anything has this name, a symbolic link that leads nowhere included. Errors: the system
    /// cannot tell, for example because the name is too long or the folder may not be read.
    fn is_there(&self, path: &Path) -> io::Result<bool>;

    /// Whether two names belong to one file. A symbolic link counts as its target for `one`, and as itself
    /// for `other`.
    fn is_same(&self, one: &Path, other: &Path) -> io::Result<bool>;

    /// The owner, group and permissions of the file with this name.
    fn access(&self, path: &Path) -> io::Result<FileAccess>;

    /// Bytes that may still be written to the disk with this folder.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;

    /// Locks a file against other processes, as long as the returned value is kept and the process lives.
    /// Creates the file if it is missing. Writes `text`, which a refused process reads, into the file, and
    /// removes the file together with the lock. A file with other contents than a process id is locked, but
    /// neither overwritten nor removed.
    fn lock(&self, path: &Path, text: &str) -> Result<LockHold, LockRefused>;
}

/// An open file, used by one thread.
pub trait StorageFile: Send {
    /// Appends some of the bytes; returns their number.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads the next bytes; returns their number, 0 at the end of the file.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Reads bytes at a position, for reading out of order; returns their number, 0 at the end of the file.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Forces to disk everything written, times and other attributes included.
    fn sync(&mut self) -> io::Result<()>;

    /// Forces to disk what was written, without attributes that are not needed to read the file
    /// again, such as times.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Cuts the file off after `size` bytes; the next write appends there.
    fn truncate(&mut self, size: u64) -> io::Result<()>;

    /// Bytes in the file at the moment.
    fn size(&self) -> io::Result<u64>;

    /// A second handle of the open file, so that another thread can sync it. A sync that fails through the
    /// second handle has failed for this handle, too.
    fn twin(&self) -> io::Result<Box<dyn StorageFile>>;

    /// Gives the file the owner, group and permissions of another file. Where the system refuses the owner or
    /// the group, the file gets fewer permissions, so that no user but the file's owner may do more with it
    /// than with the other file.
    fn set_access(&self, like: FileAccess) -> io::Result<()>;
}

/// The owner, group and permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAccess {
    /// The permission bits of `chmod`, 12 bits.
    pub mode: u32,
    /// The user id of the owner.
    pub uid: u32,
    /// The group id of the file's group.
    pub gid: u32,
}

impl FileAccess {
    /// The permissions under which no user but the new owner may do more with a file of owner `uid` and group
    /// `gid` than with the file that `self` describes.
    pub(crate) fn mode_for(self, uid: u32, gid: u32) -> u32 {
        if (uid, gid) == (self.uid, self.gid) {
            return self.mode;
        }
        let [owner, mut group, mut other] = [6, 3, 0].map(|shift| self.mode >> shift & 0o7);
        if gid != self.gid {
            // Group and others get only the permissions that both had: members of the new group were others
            // before, and members of the old group are others now.
            group &= other;
            other = group;
        }
        if uid != self.uid {
            // Group and others get no permission that the owner lacked, because the old owner may be in the
            // group now, or among the others.
            group &= owner;
            other &= owner;
        }
        owner << 6 | group << 3 | other
    }
}

/// Keeps a file locked until the last clone is dropped.
pub type LockHold = Arc<dyn Any + Send + Sync>;

/// Why a file was not locked.
#[derive(Debug)]
pub enum LockRefused {
    /// Another process holds the lock; the text is the beginning of the file, normally the id of that
    /// process.
    Held(String),
    /// The file cannot be created or locked.
    Failed(io::Error),
}

/// Reads a whole file. Cost: its bytes.
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

    /// Tries all permissions, and all relations of a user to the file before and after the change.
    #[test]
    fn nobody_may_do_more_with_a_file_of_another_owner_or_group() {
        let old = |mode| FileAccess { mode, uid: 1, gid: 1 };
        // The rights of a user who is in these groups.
        let rights = |mode: u32, uid: u32, gid: u32, user: u32, groups: &[u32]| match () {
            () if user == uid => mode >> 6 & 7,
            () if groups.contains(&gid) => mode >> 3 & 7,
            () => mode & 7,
        };
        for mode in 0..0o1000 {
            for (uid, gid) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
                let new = old(mode).mode_for(uid, gid);
                // The new owner is left out, because it is this process, which wrote the file.
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
        // No more permissions are lost than needed.
        assert_eq!(old(0o640).mode_for(1, 2), 0o600);
        assert_eq!(old(0o644).mode_for(2, 2), 0o644);
        assert_eq!(old(0o4755).mode_for(2, 1), 0o755);
    }
}
