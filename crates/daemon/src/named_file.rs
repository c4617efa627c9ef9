//! Files at configured paths, which another user may have created first: the log and the pid file. Their
//! folder may be writable for everyone.
//!
//! Invariants: (1) a symbolic link is followed only if it belongs to root or to this user, as `/dev/stdout`
//! does; (2) a pid file is overwritten only if it is empty or holds a process id, and removed only if it
//! holds the id of this process.

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use sluice_storage::lock::{PID_BYTES_MAX, is_pid};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a log for appending; creates it if it is missing. Allocates nothing for a path of usual length.
pub fn append(path: &Path) -> io::Result<File> {
    options_for(path)?.append(true).create(true).open(path)
}

/// Whether an existing log or pid file can be written. Creates and changes nothing.
pub fn try_append(path: &Path) -> io::Result<()> {
    options_for(path)?.append(true).open(path).map(drop)
}

/// Whether the content of a pid file permits the file to be overwritten. Creates and changes nothing.
pub fn try_pid(path: &Path) -> io::Result<()> {
    let mut file = options_for(path)?.read(true).write(true).open(path)?;
    if file.metadata()?.is_file() { judge_pid(&mut file) } else { Ok(()) }
}

/// Writes the id of this process into the pid file; creates it if it is missing. Errors: the reason; a
/// regular file that holds anything but a process id is left unchanged.
pub fn write_pid(path: &Path) -> io::Result<()> {
    let mut file = options_for(path)?.read(true).write(true).create(true).truncate(false).open(path)?;
    // A device or a pipe has no content to judge or to replace.
    if file.metadata()?.is_file() {
        judge_pid(&mut file)?;
        file.set_len(0)?;
        file.rewind()?;
    }
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
}

/// Removes the pid file if it still holds the id of this process.
pub fn remove_pid(path: &Path) {
    let mut options = match options_for(path) {
        Ok(options) => options,
        Err(_) => return,
    };
    let Ok(file) = options.read(true).open(path) else { return };
    let mut text = String::new();
    let read = file.take(PID_BYTES_MAX).read_to_string(&mut text);
    if read.is_ok() && text.trim().parse() == Ok(std::process::id()) {
        let _ = std::fs::remove_file(path);
    }
}

/// Options to open a file of this name. Errors: a link that is not followed.
fn options_for(path: &Path) -> io::Result<OpenOptions> {
    let link = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_symlink);
    let mut options = OpenOptions::new();
    match link {
        Some(link) if ![0, geteuid().as_raw()].contains(&link.uid()) => {
            return Err(io::Error::other("a symbolic link of another user is not followed"));
        }
        Some(_) => {}
        // A link that is created between this check and the opening is not followed.
        None => drop(options.custom_flags(OFlag::O_NOFOLLOW.bits())),
    }
    Ok(options)
}

/// Errors: the file holds anything but a process id.
fn judge_pid(file: &mut File) -> io::Result<()> {
    let mut text = Vec::new();
    Read::by_ref(file).take(PID_BYTES_MAX).read_to_end(&mut text)?;
    match is_pid(&text) {
        true => Ok(()),
        false => {
            Err(io::Error::other("the file holds something other than a process id, and is not replaced"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sluice-named-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        path
    }

    /// Tries every kind of file that may already exist at the path of a pid file.
    #[test]
    fn a_pid_file_replaces_a_number_and_nothing_else() {
        let folder = folder("pid");
        let (path, victim) = (folder.join("pid"), folder.join("victim"));
        let own = format!("{}\n", std::process::id());
        for (before, is_replaced) in [
            (&b""[..], true),
            (b"17\n", true),
            (b"  1795324409\n\n", true),
            (b"17 and data", false),
            (b"REDIS0011", false),
            (&[b'1'; 64], false),
            (b"\0\0", false),
        ] {
            std::fs::write(&path, before).expect("writable");
            assert_eq!(try_pid(&path).is_ok(), is_replaced, "{}", before.escape_ascii());
            assert_eq!(write_pid(&path).is_ok(), is_replaced, "{}", before.escape_ascii());
            let left = std::fs::read(&path).expect("there");
            assert_eq!(left, if is_replaced { own.as_bytes() } else { before });
            remove_pid(&path);
            assert_eq!(path.exists(), !is_replaced);
            let _ = std::fs::remove_file(&path);
        }
        // The path is first a hard link to a file with data, then a symbolic link that belongs to this user.
        std::fs::write(&victim, "data").expect("writable");
        std::fs::hard_link(&victim, &path).expect("linkable");
        assert!(write_pid(&path).is_err());
        std::fs::remove_file(&path).expect("removable");
        std::os::unix::fs::symlink(&victim, &path).expect("linkable");
        assert!(write_pid(&path).is_err());
        assert_eq!(std::fs::read(&victim).expect("there"), b"data");
        std::fs::write(&victim, "").expect("writable");
        write_pid(&path).expect("the link is ours");
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), own);
        // The file now holds the id of another process, so it must not be removed.
        std::fs::write(&victim, "1\n").expect("writable");
        remove_pid(&path);
        assert!(path.exists());
        write_pid(Path::new("/dev/null")).expect("a device holds nothing");
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let folder = folder("link");
        let (path, victim) = (folder.join("log"), folder.join("victim"));
        std::fs::write(&victim, "7\n").expect("writable");
        std::os::unix::fs::symlink(&victim, &path).expect("linkable");
        append(&path).expect("ours").write_all(b"8\n").expect("written");
        append(Path::new("/dev/stdout")).expect("root's, where it is a link");
        if !geteuid().is_root() {
            // The rest of the test needs root, because only root can give a link to another user.
            return std::fs::remove_dir_all(&folder).expect("removable");
        }
        std::os::unix::fs::lchown(&path, Some(54321), None).expect("root");
        for error in [append(&path).map(drop), try_append(&path), write_pid(&path), try_pid(&path)] {
            let error = error.expect_err("the link is another's");
            assert_eq!(error.to_string(), "a symbolic link of another user is not followed");
        }
        remove_pid(&path);
        assert_eq!(std::fs::read(&victim).expect("there"), b"7\n8\n");
        assert!(path.is_symlink());
        std::fs::remove_dir_all(&folder).expect("removable");
    }
}
