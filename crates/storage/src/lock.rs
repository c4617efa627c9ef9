//! Claims of data files: a second server that would write the same file is refused.
//!
//! A claim is a locked file beside the data. The lock is held until the claim is given up; if the process
//! ends in any way, the kernel unlocks the file. The file holds the process id, and is removed when the claim
//! is given up or the server exits normally. A file that a crash left is not locked, and is used again. If
//! the file exists and has other contents than a process id, it is locked, too, but neither overwritten nor
//! removed; a symbolic link is not followed.
//!
//! Invariants: (1) servers with different file names may share a folder, and a server that writes nothing
//! by itself (no save points, no append-only file) claims nothing. An append-only file that is open, or is
//! rewritten while it is off, is claimed where it is, whatever the configuration says; (2) a server serves
//! even if the folder's files cannot be locked, or the folder cannot be written; (3) claimed files stay
//! claimed when a change of the claims is refused; (4) a thread that writes a file in the background shares
//! the file's claim until the file is done, whatever the configuration says meanwhile.

use super::{LockHold, LockRefused, Storage};
use crate::{can_write_into, plain_error};
use sluice_config::{Config, param};
use std::any::Any;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

/// The claims that a server holds.
#[derive(Default)]
pub struct DataClaims {
    held: Vec<DataClaim>,
    /// Claims that were given up; a background write may still share one of them.
    given_up: Vec<(PathBuf, Weak<dyn Any + Send + Sync>)>,
}

struct DataClaim {
    path: PathBuf,
    /// `None` if the file could not be locked; no second attempt is made.
    hold: Option<LockHold>,
}

/// Data that a server is about to claim.
struct Wanted {
    /// The file to be locked.
    path: PathBuf,
    /// The folder that the data are written into; for an append-only file whose folder does not exist yet,
    /// the parent of that folder.
    folder: PathBuf,
    /// What is claimed, for the message of a refusal; `otherwise` has the settings that avoid the conflict.
    what: String,
    otherwise: &'static str,
}

impl DataClaims {
    /// Claims the files that a server with this configuration writes in the working directory, and gives up
    /// claims that are not needed any more. `aof`: for each append-only file that is open or about to be
    /// opened, the directory that contains its folder (`appenddirname`). If empty, the configured append-only
    /// file is claimed in the working directory if `appendonly` is on. `say` gets a line for each file that
    /// cannot be locked. Errors: a message about the file that another server has claimed; no claim has
    /// changed then.
    pub fn claim(
        &mut self,
        storage: &dyn Storage,
        config: &Config,
        aof: &[PathBuf],
        say: &mut dyn FnMut(String),
    ) -> Result<(), String> {
        let folder = std::env::current_dir().unwrap_or_default();
        let wanted = wanted(&folder, config, aof);
        let text = format!("{}\n", std::process::id());
        let mut new = Vec::new();
        for one in &wanted {
            if self.held.iter().any(|claim| claim.path == one.path) {
                continue;
            }
            let shared = self.given_up.iter().find(|(path, _)| *path == one.path);
            let shared = shared.and_then(|(_, hold)| hold.upgrade());
            let locked = shared.map_or_else(|| storage.lock(&one.path, &text), Ok);
            let hold = match locked {
                Ok(hold) => Some(hold),
                Err(LockRefused::Held(holder)) => return Err(one.refusal(&holder)),
                Err(LockRefused::Failed(error)) => {
                    let path = one.path.display();
                    let reason = plain_error(&error);
                    let mut text = format!(
                        "{path} cannot be locked ({reason}): another server could overwrite {}",
                        one.what
                    );
                    if let Err(error) = can_write_into(&one.folder) {
                        let folder = one.folder.display();
                        let _ = write!(text, "; nothing can be saved in {folder}: {}", plain_error(&error));
                    }
                    say(text);
                    None
                }
            };
            new.push(DataClaim { path: one.path.clone(), hold });
        }
        let is_wanted = |claim: &mut DataClaim| wanted.iter().any(|one| one.path == claim.path);
        for DataClaim { path, hold } in self.held.extract_if(.., |claim| !is_wanted(claim)) {
            self.given_up.extend(hold.map(|hold| (path, Arc::downgrade(&hold))));
        }
        self.given_up.retain(|(_, hold)| hold.strong_count() > 0);
        self.held.extend(new);
        Ok(())
    }

    /// A share of the claim of the RDB file of this name in the working directory; `None` if the file is
    /// not claimed or could not be locked.
    pub fn share_of_rdb(&self, name: &OsStr) -> Option<LockHold> {
        let path = std::env::current_dir().unwrap_or_default().join(suffixed(name));
        self.held.iter().find(|claim| claim.path == path)?.hold.clone()
    }

    /// Gives up all claims, when the server ends.
    pub fn release(&mut self) {
        self.held.clear();
    }
}

fn wanted(folder: &Path, config: &Config, aof: &[PathBuf]) -> Vec<Wanted> {
    let name = |id| OsStr::from_bytes(config.bytes(id));
    let mut wanted = Vec::new();
    if !config.save_points().is_empty() {
        let file = name(param::DBFILENAME);
        wanted.push(Wanted {
            path: folder.join(suffixed(file)),
            folder: folder.to_path_buf(),
            what: format!("the RDB file {}", folder.join(file).display()),
            otherwise: "another 'dir' or 'dbfilename', or no save points (save \"\")",
        });
    }
    let by_config = (aof.is_empty() && config.bool(param::APPENDONLY)).then_some(folder);
    for folder in aof.iter().map(PathBuf::as_path).chain(by_config) {
        let (inner, file) = (name(param::APPENDDIRNAME), name(param::APPENDFILENAME));
        let mut both = inner.to_owned();
        both.push(".");
        both.push(file);
        wanted.push(Wanted {
            path: folder.join(suffixed(&both)),
            folder: Some(folder.join(inner)).filter(|inner| inner.is_dir()).unwrap_or(folder.to_path_buf()),
            what: format!("the append-only file {}", folder.join(inner).join(file).display()),
            otherwise: "another 'dir', 'appenddirname' or 'appendfilename', or 'appendonly no'",
        });
    }
    wanted
}

fn suffixed(name: &OsStr) -> PathBuf {
    let mut name = name.to_owned();
    name.push(".lock");
    name.into()
}

impl Wanted {
    fn refusal(&self, holder: &str) -> String {
        let holder = match holder.trim().parse::<u32>() {
            Ok(pid) => format!("process {pid}"),
            Err(_) => "another process".to_owned(),
        };
        let (what, path, otherwise) = (&self.what, self.path.display(), self.otherwise);
        format!(
            "{what} is in use: {holder} holds {path}. Two servers would overwrite each other's data: give this server {otherwise}"
        )
    }
}

/// A locked file on the machine's disk.
struct LockedFile {
    path: PathBuf,
    lock: Flock<File>,
    /// Whether the file was empty or held only a process id when it was locked, so that this process may
    /// overwrite and remove it.
    is_ours: bool,
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // The file is removed while it is still locked, so that a process that has opened it in the meantime
        // sees, once it has the lock, that the name is gone or leads to another file. A file that cannot be
        // removed does no harm.
        if self.is_ours && is_at(&self.lock, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Locks a file, which is created if it is missing, and writes `text` into it unless it has other contents
/// than a process id.
pub(crate) fn lock_file(path: &Path, text: &str) -> Result<LockHold, LockRefused> {
    for _ in 0..TRIES {
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(flags);
        let opened = options.open(path).and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a file")),
        });
        let mut file =
            match Flock::lock(opened.map_err(LockRefused::Failed)?, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => lock,
                Err((mut file, Errno::EWOULDBLOCK)) => {
                    let mut holder = String::new();
                    // If the holder's text cannot be read, the message names no holder.
                    let _ = Read::by_ref(&mut file).take(HOLDER_BYTES_MAX).read_to_string(&mut holder);
                    return Err(LockRefused::Held(holder));
                }
                Err((_, errno)) => return Err(LockRefused::Failed(errno.into())),
            };
        // The last holder may have removed the file between the opening and the lock. Then no name leads to
        // the locked file, and the next attempt opens the name again.
        if !is_at(&file, path) {
            continue;
        }
        let mut before = Vec::new();
        let read = Read::by_ref(&mut *file).take(PID_BYTES_MAX).read_to_end(&mut before);
        let is_ours = read.is_ok() && is_pid(&before);
        if is_ours {
            // Errors are ignored: on a full disk the process id is missing in the file, but the lock still
            // holds.
            let emptied = file.set_len(0).and_then(|()| file.rewind());
            drop(emptied.and_then(|()| file.write_all(text.as_bytes())));
        }
        return Ok(Arc::new(LockedFile { path: path.to_owned(), lock: file, is_ours }));
    }
    Err(LockRefused::Failed(io::ErrorKind::ResourceBusy.into()))
}

/// Whether a name leads to this open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Whether a file that begins with these bytes holds a process id or nothing.
pub fn is_pid(text: &[u8]) -> bool {
    (text.len() as u64) < PID_BYTES_MAX
        && text.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace())
}

/// A file of this many bytes or more is no pid file.
pub const PID_BYTES_MAX: u64 = 64;

/// At most this many attempts are made to lock a file, because other processes may remove it again and
/// again.
const TRIES: usize = 16;
/// Maximum number of bytes that are read of the holder's text.
const HOLDER_BYTES_MAX: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sluice-lock-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        path
    }

    #[test]
    fn a_file_is_locked_once_and_goes_with_its_holder() {
        let folder = folder("once");
        let path = folder.join("dump.rdb.lock");
        // A file that a crash left is no obstacle.
        std::fs::write(&path, "1795324409 \n").expect("writable");
        let hold = lock_file(&path, "7\n").expect("free");
        match lock_file(&path, "8\n") {
            Err(LockRefused::Held(holder)) => assert_eq!(holder, "7\n"),
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("locked twice"),
        }
        drop(hold);
        assert!(!path.exists());
        drop(lock_file(&path, "8\n").expect("free again"));
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    /// Tests files that others have put at the path of the lock file.
    #[test]
    fn what_is_no_lock_stays_as_it_is() {
        let folder = folder("others");
        let (path, victim) = (folder.join("dump.rdb.lock"), folder.join("victim"));
        // A file with data is locked, and neither written nor removed.
        std::fs::write(&path, "data of somebody\n").expect("writable");
        let hold = lock_file(&path, "7\n").expect("free");
        assert!(matches!(lock_file(&path, "8\n"), Err(LockRefused::Held(_))));
        drop(hold);
        assert_eq!(std::fs::read(&path).expect("there"), b"data of somebody\n");
        std::fs::remove_file(&path).expect("removable");
        // Links are not followed, whether to a file, to nothing or to a folder.
        for target in [&victim, &folder.join("none"), &folder] {
            std::fs::write(&victim, "17\n").expect("writable");
            std::os::unix::fs::symlink(target, &path).expect("linkable");
            assert!(matches!(lock_file(&path, "7\n"), Err(LockRefused::Failed(_))), "{}", target.display());
            assert_eq!(std::fs::read(&victim).expect("there"), b"17\n");
            assert!(!folder.join("none").exists());
            std::fs::remove_file(&path).expect("removable");
        }
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
        assert!(matches!(lock_file(&path, "7\n"), Err(LockRefused::Failed(_))));
        // If another file has taken the name, that other file is not removed with the lock.
        std::fs::remove_file(&path).expect("removable");
        let hold = lock_file(&path, "7\n").expect("free");
        std::fs::rename(&victim, &path).expect("renamed");
        drop(hold);
        assert_eq!(std::fs::read(&path).expect("there"), b"17\n");
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn what_is_written_stays_claimed_when_the_configuration_changes() {
        use crate::Real;
        let config = |text: &str| {
            let mut none = |_: &[u8]| Err(String::new());
            sluice_config::parse_file(text.as_bytes(), "test", b"", &mut none).expect("in order")
        };
        let name = |which: &str| format!("claim-{which}-{}.rdb", std::process::id());
        let (first, other) = (name("a"), name("b"));
        let with = |name: &str| config(&format!("save 1 1\ndbfilename {name}\n"));
        let lock_of = |name: &str| std::env::current_dir().unwrap_or_default().join(format!("{name}.lock"));
        let mut claims = DataClaims::default();
        let mut silent = |text: String| panic!("{text}");
        claims.claim(&Real, &with(&first), &[], &mut silent).expect("free");
        // A save begins, and then `dbfilename` changes.
        let share = claims.share_of_rdb(OsStr::new(&first)).expect("it is claimed");
        assert!(claims.share_of_rdb(OsStr::new(&other)).is_none());
        claims.claim(&Real, &with(&other), &[], &mut silent).expect("free");
        assert!(matches!(lock_file(&lock_of(&first), "8\n"), Err(LockRefused::Held(_))), "it is written");
        // The configuration may return to the first name while the save is still running.
        claims.claim(&Real, &with(&first), &[], &mut silent).expect("its own");
        claims.claim(&Real, &with(&other), &[], &mut silent).expect("free");
        drop(share);
        assert!(!lock_of(&first).exists());
        assert!(matches!(lock_file(&lock_of(&other), "8\n"), Err(LockRefused::Held(_))));
        claims.release();
        assert!(!lock_of(&other).exists());
    }

    #[test]
    fn what_cannot_be_locked_is_said_and_that_nothing_can_be_saved_where_that_is_so() {
        let folder = folder("said");
        let mut none = |_: &[u8]| Err(String::new());
        let config = sluice_config::parse_file(b"save ''\n", "test", b"", &mut none).expect("in order");
        // A folder has the name of the lock file, so the lock file cannot be created.
        std::fs::create_dir_all(folder.join("appendonlydir.appendonly.aof.lock")).expect("writable");
        let said_of = |folder: &Path| {
            let mut said = Vec::new();
            let aof = [folder.to_path_buf()];
            DataClaims::default()
                .claim(&crate::Real, &config, &aof, &mut |text| said.push(text))
                .expect("no reason not to serve");
            said.join("; ")
        };
        let said = said_of(&folder);
        assert!(said.contains("another server could overwrite"), "{said}");
        assert!(!said.contains("nothing can be saved"), "{said}");
        let said = said_of(&folder.join("missing"));
        assert!(said.contains("another server could overwrite"), "{said}");
        assert!(said.contains("/missing: No such file or directory"), "{said}");
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn a_lock_on_a_removed_name_does_not_count() {
        let folder = folder("name");
        let path = folder.join("l");
        let first = OpenOptions::new().write(true).create_new(true).open(&path).expect("made");
        assert!(is_at(&first, &path));
        std::fs::remove_file(&path).expect("removable");
        assert!(!is_at(&first, &path));
        std::fs::write(&path, "").expect("writable");
        assert!(!is_at(&first, &path), "another file has the name");
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn a_server_claims_what_it_writes() {
        let claimed_with = |aof: &[PathBuf], text: &str| {
            let mut none = |_: &[u8]| Err(String::new());
            let config =
                sluice_config::parse_file(text.as_bytes(), "test", b"", &mut none).expect("in order");
            let paths =
                wanted(Path::new("/d"), &config, aof).into_iter().map(|one| one.path.display().to_string());
            paths.collect::<Vec<_>>()
        };
        let claimed = |text: &str| claimed_with(&[], text);
        let aof = "/d/appendonlydir.appendonly.aof.lock";
        assert_eq!(claimed(""), ["/d/dump.rdb.lock"]);
        assert_eq!(claimed("save \"\"\n"), [""; 0]);
        assert_eq!(claimed("save 1 1\ndbfilename x\nappendonly yes\n"), ["/d/x.lock", aof]);
        assert_eq!(claimed("save \"\"\nappendonly yes\n"), [aof]);
        assert_eq!(
            claimed("save \"\"\nappendonly yes\nappendfilename a\nappenddirname b\n"),
            ["/d/b.a.lock"]
        );
        // One append-only file is open, whatever the configuration says, and another in a different directory
        // is about to be opened.
        let open = [PathBuf::from("/o"), PathBuf::from("/p")];
        let (first, second) =
            ("/o/appendonlydir.appendonly.aof.lock", "/p/appendonlydir.appendonly.aof.lock");
        assert_eq!(claimed_with(&open[..1], "save \"\"\nappendonly yes\n"), [first]);
        assert_eq!(claimed_with(&open, "appendonly no\n"), ["/d/dump.rdb.lock", first, second]);
    }
}
