//! What a crash and other faults leave when one file replaces another.

use super::*;
use crate::faulty::{AfterCrash, Faulty, FileFault, Plan};
use crate::{Real, StorageFile};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const PIECES: usize = 5;
const OLD: &[u8] = b"the old file";
const TEMPORARY: &str = "temp-1.rdb";

fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("sluice-replacement-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path).expect("a temporary folder");
    path
}

fn new_contents() -> Vec<u8> {
    (0..PIECES * 700).map(|n| (n % 251) as u8).collect()
}

/// Replaces the old file while the storage has a fault. Returns whether the replacement was completed, and
/// the number of its steps, which are file operations. `left` inspects the folder.
fn replace_with(
    fault: FileFault,
    first: u64,
    seed: u64,
    sync_every: Option<u64>,
    left: impl FnOnce(&Path, bool),
) -> (bool, u64) {
    let folder = folder();
    std::fs::write(folder.join("dump.rdb"), OLD).expect("writable");
    let plan = Plan { fault, first, count: 1, seed };
    let faulty = Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail));
    let storage: Arc<dyn Storage> = faulty.clone();
    let begun =
        Replacement::begin(storage, folder.join(TEMPORARY), folder.join("dump.rdb"), 0o600, sync_every);
    let done = begun.and_then(|mut replacement| {
        for piece in new_contents().chunks(700) {
            replacement.write(piece)?;
        }
        replacement.finish()
    });
    left(&folder, done.is_ok());
    std::fs::remove_dir_all(&folder).expect("removable");
    (done.is_ok(), faulty.steps())
}

/// Number of steps of a replacement without a fault: create, one write for each piece, sync, rename, and the
/// sync of the folder.
const STEPS: u64 = PIECES as u64 + 4;

#[test]
fn without_a_fault_the_new_file_takes_the_place() {
    let (done, steps) = replace_with(FileFault::Crash, u64::MAX, 0, None, |folder, _| {
        assert_eq!(std::fs::read(folder.join("dump.rdb")).expect("there"), new_contents());
        assert!(!folder.join(TEMPORARY).exists());
    });
    assert!(done);
    assert_eq!(steps, STEPS);
}

#[test]
fn a_crash_at_any_step_leaves_the_old_file_or_the_new_one_whole() {
    let (mut old, mut new, mut torn) = (0, 0, 0);
    for sync_every in [None, Some(1000)] {
        for first in 1..=STEPS + 4 {
            for seed in 0..40 {
                let (done, _) = replace_with(FileFault::Crash, first, seed, sync_every, |folder, done| {
                    let left = std::fs::read(folder.join("dump.rdb")).expect("one of the two is there");
                    let is_new = left == new_contents();
                    assert!(is_new || left == OLD, "step {first}, seed {seed}: {} bytes", left.len());
                    assert!(!done || is_new, "step {first}, seed {seed}: what was said to be done is there");
                    *if is_new { &mut new } else { &mut old } += 1;
                    let part = std::fs::read(folder.join(TEMPORARY)).ok();
                    torn += u32::from(part.is_some_and(|part| part != new_contents()));
                });
                let steps = STEPS + if sync_every.is_some() { PIECES as u64 / 2 } else { 0 };
                assert_eq!(done, first > steps, "step {first}");
            }
        }
    }
    // All kinds of outcomes occurred.
    assert!(old > 300 && new > 60 && torn > 300, "{old} {new} {torn}");
}

/// A replacement that lacks some of its syncs; the simulated crashes must reveal this.
fn replace_carelessly(faulty: &Faulty, folder: &Path, syncs_file: bool) -> io::Result<()> {
    let mut file: Box<dyn StorageFile> = faulty.create(&folder.join(TEMPORARY), 0o600)?;
    for piece in new_contents().chunks(700) {
        file.write(piece)?;
    }
    if syncs_file {
        file.sync()?;
    }
    faulty.rename(&folder.join(TEMPORARY), &folder.join("dump.rdb"))
}

#[test]
fn the_crashes_find_a_missing_sync_of_the_file_and_one_of_the_folder() {
    for (syncs_file, wanted) in [(false, "a part of the new file"), (true, "the old file")] {
        let mut found = false;
        for seed in 0..40 {
            let folder = folder();
            std::fs::write(folder.join("dump.rdb"), OLD).expect("writable");
            let steps = PIECES as u64 + 2 + u64::from(syncs_file);
            let plan = Plan { fault: FileFault::Crash, first: steps, count: 1, seed };
            let faulty = Faulty::new(Arc::new(Real), plan, AfterCrash::Fail);
            assert!(replace_carelessly(&faulty, &folder, syncs_file).is_err(), "it crashed at the rename");
            let left = std::fs::read(folder.join("dump.rdb")).expect("there");
            found |= if syncs_file { left == OLD } else { left != OLD && left != new_contents() };
            std::fs::remove_dir_all(&folder).expect("removable");
        }
        assert!(found, "some crash leaves {wanted}");
    }
}

#[test]
fn a_fault_leaves_the_old_file_and_no_temporary_one() {
    for (fault, strikes) in [
        (FileFault::NoSpace, 1..=6),
        (FileFault::WriteError, 2..=6),
        (FileFault::SyncError, 7..=7),
        (FileFault::TornRename, 8..=8),
    ] {
        for first in strikes {
            let (done, _) = replace_with(fault, first, 1, None, |folder, _| {
                let left = std::fs::read(folder.join("dump.rdb")).expect("there");
                assert_eq!(left == new_contents(), fault == FileFault::TornRename, "{fault:?} at {first}");
                assert!(!folder.join(TEMPORARY).exists(), "{fault:?} at {first}");
            });
            assert!(!done, "{fault:?} at {first}");
        }
    }
}

#[test]
fn a_short_write_goes_on_with_the_rest() {
    for first in 2..=6 {
        let (done, steps) = replace_with(FileFault::ShortWrite, first, 1, None, |folder, _| {
            assert_eq!(std::fs::read(folder.join("dump.rdb")).expect("there"), new_contents());
        });
        assert!(done);
        assert_eq!(steps, STEPS + 1);
    }
}

#[test]
fn a_failed_sync_is_not_made_good_by_another() {
    let folder = folder();
    let plan = Plan { fault: FileFault::SyncError, first: 3, count: 1, seed: 0 };
    let faulty = Faulty::new(Arc::new(Real), Plan { first: 3, ..plan }, AfterCrash::Fail);
    let mut file = faulty.create(&folder.join("f"), 0o600).expect("created");
    assert_eq!(file.write(b"lost").expect("written"), 4);
    assert!(file.sync().is_err());
    file.sync().expect("the kernel has nothing left to write");
    faulty.sync_folder(&folder).expect("synced");
    faulty.crash_now(0).expect("crashed");
    assert_eq!(std::fs::read(folder.join("f")).expect("the name is durable"), b"");
    std::fs::remove_dir_all(&folder).expect("removable");
}

/// Gives a complete file a second name, with a fault at each step. The file itself must always be left; the
/// second name may be missing.
#[test]
fn a_file_that_is_whole_gets_a_second_name_or_keeps_the_one() {
    // The steps are the link, the rename and the sync of the folder. A fault at step 4 never strikes.
    for first in 1..=4 {
        for fault in [FileFault::Crash, FileFault::TornRename, FileFault::SyncError] {
            let folder = folder();
            let (source, target) = (folder.join("dump.rdb"), folder.join("base.rdb"));
            std::fs::write(&source, OLD).expect("writable");
            let plan = Plan { fault, first, count: 1, seed: 1 };
            let storage: Arc<dyn Storage> = Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail));
            let linked = Replacement::of_link(storage, &source, folder.join(TEMPORARY));
            let done = linked.and_then(|mut replacement| {
                replacement.aim_at(target.clone());
                replacement.finish()
            });
            assert_eq!(std::fs::read(&source).expect("there"), OLD, "{fault:?} {first}");
            if done.is_ok() {
                assert_eq!(std::fs::read(&target).expect("there"), OLD, "{fault:?} {first}");
                assert!(!folder.join(TEMPORARY).exists(), "{fault:?} {first}");
            }
            let strikes = match first {
                1 => fault == FileFault::Crash,
                2 => fault != FileFault::SyncError,
                3 => fault != FileFault::TornRename,
                _ => false,
            };
            assert_eq!(done.is_err(), strikes, "{fault:?} {first}");
            std::fs::remove_dir_all(&folder).expect("removable");
        }
    }
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sluice-replace-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("temporary directory");
    path
}

fn names(path: &Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(path).expect("readable");
    entries.map(|entry| entry.expect("readable").file_name()).collect()
}

#[test]
fn a_replaced_file_keeps_its_permissions_and_readers_of_the_old_one_are_left_alone() {
    use std::io::Read;
    let storage: Arc<dyn Storage> = Arc::new(Real);
    let dir = directory("replace");
    let path = dir.join("a.conf");
    std::fs::write(&path, "old").expect("writable");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("ours");
    let mut reader = std::fs::File::open(&path).expect("readable");
    replace_file(&storage, &path, b"new").expect("replaced");
    let mut seen = String::new();
    reader.read_to_string(&mut seen).expect("readable");
    assert_eq!(seen, "old", "the old contents were never changed in place");
    assert_eq!(std::fs::read(&path).expect("readable"), b"new");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o640);
    assert_eq!(names(&dir), ["a.conf"]);
    // A replaced snapshot keeps its owner, group and permissions, too. The group is one that this process may
    // set.
    let group = if nix::unistd::geteuid().is_root() { 12345 } else { nix::unistd::getegid().as_raw() };
    for (name, owner) in [("a.conf", None), ("dump.rdb", nix::unistd::geteuid().is_root().then_some(54321))] {
        let path = dir.join(name);
        std::fs::write(&path, "old").expect("writable");
        std::os::unix::fs::chown(&path, owner, Some(group)).expect("ours to give");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o464)).expect("ours");
        let access = storage.access(&path).expect("there");
        replace_by(&storage, &path);
        assert_eq!(storage.access(&path).expect("there"), access, "{name}");
        assert_eq!(std::fs::read(&path).expect("readable"), b"new");
    }
    std::fs::remove_dir_all(&dir).expect("removable");
}

fn replace_by(storage: &Arc<dyn Storage>, path: &Path) {
    if path.ends_with("a.conf") {
        return replace_file(storage, path, b"new").expect("replaced");
    }
    // A snapshot has a temporary file with a name of its own.
    let temporary = path.with_file_name("temp-1.rdb");
    let begun = Replacement::begin(storage.clone(), temporary, path.to_owned(), 0o666, None);
    let mut replacement = begun.map_err(|failed| failed.error).expect("begun");
    replacement.write(b"new").map_err(|failed| failed.error).expect("written");
    replacement.finish().map_err(|failed| failed.error).expect("replaced");
}

#[test]
fn a_replacement_that_fails_leaves_nothing_behind() {
    let storage: Arc<dyn Storage> = Arc::new(Real);
    let dir = directory("fails");
    let path = dir.join("a.conf");
    // A directory cannot be replaced by a file.
    std::fs::create_dir(&path).expect("creatable");
    assert!(replace_file(&storage, &path, b"new").is_err());
    assert_eq!(names(&dir), ["a.conf"]);
    std::fs::remove_dir_all(&dir).expect("removable");
}

#[test]
fn a_file_of_the_temporary_ones_name_is_not_written_through() {
    let storage: Arc<dyn Storage> = Arc::new(Real);
    let dir = directory("link");
    let (path, victim) = (dir.join("a.conf"), dir.join("victim"));
    std::fs::write(&victim, "safe").expect("writable");
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    std::os::unix::fs::symlink(&victim, &temporary).expect("linkable");
    replace_file(&storage, &path, b"secret").expect("replaced");
    assert_eq!(std::fs::read(&victim).expect("readable"), b"safe");
    assert_eq!(std::fs::read(&path).expect("readable"), b"secret");
    assert_eq!(std::fs::symlink_metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    std::fs::remove_dir_all(&dir).expect("removable");
}
