//! Temporary files of snapshots and append-only files: their names, and the removal of files that a dead
//! server left.

use crate::{Storage, plain_error};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use sluice_persist::rdb::MAGICS;
use std::path::{Path, PathBuf};

/// The temporary name of a snapshot, made of the process id and the low 32 bits of the number of the
/// snapshot. Each number has its own name, because the file of a snapshot that was broken off may still exist
/// when the next snapshot begins. The caller does not begin at a fixed number, because a process in another
/// container may use the same folder with the same id.
pub fn temporary_name(pid: u32, number: u64) -> String {
    match number {
        0 => format!("temp-{pid}.rdb"),
        number => format!("temp-{}.{pid}.rdb", number as u32),
    }
}

/// The path of a scratch file for this process's snapshot with this number. A scratch file that a crash
/// leaves is removed like other temporary files.
pub fn scratch_path(number: u64) -> PathBuf {
    let folder = std::env::current_dir().unwrap_or_default();
    folder.join(temporary_name(std::process::id(), number))
}

/// Removes the temporary files that dead servers left, of snapshots and of rewrites of the append-only file;
/// `say` gets a line for each file that is removed or cannot be removed, and for each file that is kept
/// because of its contents. The file of a live process stays, because another server may use the folder.
pub fn remove_left_over(storage: &dyn Storage, folder: &Path, say: &mut dyn FnMut(String)) {
    let Ok(names) = storage.list(folder) else { return };
    for name in names {
        let Some(pid) = name.to_str().and_then(pid_of) else { continue };
        let is_alive =
            i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH));
        let path = folder.join(&name);
        // The lock on the file is checked, too, because a process in another container may have the id of
        // this process, or an id that no process has in this container.
        if is_alive && pid != std::process::id() || storage.is_written(&path) {
            continue;
        }
        let name = name.display();
        if !is_of_server(storage, &path) {
            say(format!(
                "Kept {name}: it has the name of a temporary file of the server, but other contents"
            ));
            continue;
        }
        say(match storage.remove(&path) {
            Ok(()) => format!("Removed {name}, the file of a server that ended during a save"),
            Err(error) => format!("Could not remove the left-over file {name}: {}", plain_error(&error)),
        });
    }
}

/// Whether a file may be one that a server was writing, because it is empty, or begins as a snapshot, an
/// append-only file or a manifest does.
pub(crate) fn is_of_server(storage: &dyn Storage, path: &Path) -> bool {
    let mut start = [0; 8];
    let read = storage.open(path).and_then(|mut file| file.read(&mut start));
    let begins = |magic: &&[u8]| {
        let start = &start[..read.as_ref().copied().unwrap_or(0)];
        start.starts_with(magic) || magic.starts_with(start)
    };
    // A file that cannot be read cannot be judged, so it counts as a server's file.
    read.is_err() || MAGICS.iter().chain(BEGINNINGS).any(|magic| begins(&&magic[..]))
}

/// The first bytes of append-only files and manifests.
const BEGINNINGS: &[&[u8]] = &[b"*", b"#", b"file "];

/// The id of the process whose temporary file has this name. The names are this program's and the
/// reference's: `temp-PID.rdb`, `temp-NUMBER.PID.rdb` (in the reference, the number is the time of a full
/// synchronisation), `temp-rewriteaof-PID.aof`, `temp-rewriteaof-bg-PID.aof`.
fn pid_of(name: &str) -> Option<u32> {
    let inner = name.strip_prefix("temp-")?;
    let digits = match (inner.strip_suffix(".rdb"), inner.strip_suffix(".aof")) {
        (Some(inner), _) => match inner.split_once('.') {
            Some((time, digits)) if number(time).is_some() => digits,
            Some(_) => return None,
            None => inner,
        },
        (None, Some(inner)) => {
            let inner = inner.strip_prefix("rewriteaof-")?;
            inner.strip_prefix("bg-").unwrap_or(inner)
        }
        (None, None) => return None,
    };
    number(digits).filter(|pid| *pid > 0)
}

/// A decimal number without leading zeros or a sign.
fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;
    use std::sync::Arc;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sluice-host-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("temporary directory");
        path
    }

    fn names(path: &Path) -> Vec<std::ffi::OsString> {
        let entries = std::fs::read_dir(path).expect("readable");
        entries.map(|entry| entry.expect("readable").file_name()).collect()
    }

    #[test]
    fn only_names_of_temporary_files_have_a_process() {
        for name in
            ["temp-17.rdb", "temp-1795324409.17.rdb", "temp-rewriteaof-17.aof", "temp-rewriteaof-bg-17.aof"]
        {
            assert_eq!(pid_of(name), Some(17), "{name}");
        }
        assert_eq!(pid_of(&temporary_name(17, 0)), Some(17));
        assert_eq!(pid_of(&temporary_name(17, 3)), Some(17));
        for other in [
            "temp-0.rdb",
            "temp-17.0.rdb",
            "temp-17.03.rdb",
            "temp-3.4.17.rdb",
            "temp-017.rdb",
            "temp-+1.rdb",
            "temp-.rdb",
            "temp-a.rdb",
            "temp-1.rdb.old",
            "temp-x.17.rdb",
            "temp-1.2.17.rdb",
            "temp-17.aof",
            "temp-rewriteaof-bg-.aof",
            "temp-rewriteaof-017.aof",
            "temp-appendonly.aof.1.incr.aof",
            "dump.rdb",
        ] {
            assert_eq!(pid_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_process_of_the_same_number_writes_is_no_left_over() {
        let storage: Arc<dyn Storage> = Arc::new(Real);
        let dir = directory("same-number");
        let (written, left) = (temporary_name(std::process::id(), 7), temporary_name(std::process::id(), 8));
        let open = storage.create(&dir.join(&written), 0o666).expect("made");
        std::fs::write(dir.join(&left), "REDIS0011 and a part").expect("writable");
        // This file has such a name, but no server has written it.
        let foreign = temporary_name(std::process::id(), 9);
        std::fs::write(dir.join(&foreign), "notes").expect("writable");
        let mut said = Vec::new();
        remove_left_over(storage.as_ref(), &dir, &mut |line| said.push(line));
        let mut left: Vec<_> = names(&dir);
        left.sort();
        assert_eq!(left, [written.as_str(), foreign.as_str()], "{said:?}");
        drop(open);
        remove_left_over(storage.as_ref(), &dir, &mut |line| said.push(line));
        assert_eq!(names(&dir), [foreign.as_str()]);
        assert_eq!(said.iter().filter(|line| line.starts_with("Removed ")).count(), 2);
        assert_eq!(said.iter().filter(|line| line.starts_with("Kept ")).count(), 2);
        std::fs::remove_dir_all(&dir).expect("removable");
    }
}
