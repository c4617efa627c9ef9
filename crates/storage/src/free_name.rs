//! A free name beside a file, for a copy or a second name of that file.

use super::Storage;
use super::replacement::folder_of;
use crate::plain_error;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Candidate names: the file's name with an ending, or the ending alone where both together are too long.
#[derive(Debug)]
pub struct FreeName<'a> {
    file: &'a Path,
    ending: &'a str,
    /// Whether the first name has a number, too.
    is_numbered: bool,
}

impl<'a> FreeName<'a> {
    /// The names `NAME.ENDING`, `NAME.ENDING-2` and so on.
    pub fn beside(file: &'a Path, ending: &'a str) -> FreeName<'a> {
        FreeName { file, ending, is_numbered: false }
    }

    /// The names `NAME.ENDING-1`, `NAME.ENDING-2` and so on.
    pub(crate) fn numbered(file: &'a Path, ending: &'a str) -> FreeName<'a> {
        FreeName { file, ending, is_numbered: true }
    }

    /// The first free name. Errors: the system does not report whether a name is free.
    pub fn find(&self, storage: &dyn Storage) -> io::Result<PathBuf> {
        self.find_where(storage, |_| Ok(false))
    }

    /// The first name that is free, or that is taken by a file which `fits`.
    fn find_where(
        &self,
        storage: &dyn Storage,
        fits: impl Fn(&Path) -> io::Result<bool>,
    ) -> io::Result<PathBuf> {
        for number in 1u32.. {
            let mut name = self.long(number);
            let is_there = match storage.is_there(&name) {
                Err(error) if error.kind() == ErrorKind::InvalidFilename => {
                    name = folder_of(self.file).join(format!("{}-{number}", self.ending));
                    storage.is_there(&name)?
                }
                known => known?,
            };
            if !is_there || fits(&name)? {
                return Ok(name);
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn long(&self, number: u32) -> PathBuf {
        let mut name = self.file.as_os_str().to_owned();
        name.push(format!(".{}", self.ending));
        if number > 1 || self.is_numbered {
            name.push(format!("-{number}"));
        }
        PathBuf::from(name)
    }
}

/// Gives a file a second name, durably: the first free name with `ending` and a number. If another file later
/// takes the file's name, the data stays under the second name. Returns the second name, which may exist from
/// an earlier call.
pub fn second_name(storage: &dyn Storage, file: &Path, ending: &str) -> io::Result<PathBuf> {
    let names = FreeName::numbered(file, ending);
    let second = names.find_where(storage, |name| storage.is_same(file, name))?;
    if !storage.is_there(&second)? {
        storage.link(file, &second)?;
    }
    storage.sync_folder(folder_of(file))?;
    Ok(second)
}

/// Keeps a file under a second name because parts of it were dropped while it was loaded. Returns the second
/// name. Errors: the system's reason.
pub fn keep_as_loaded(storage: &dyn Storage, file: &Path) -> Result<Option<String>, String> {
    let second = second_name(storage, file, "as-loaded").map_err(|error| plain_error(&error))?;
    Ok(Some(second.file_name().unwrap_or_default().display().to_string()))
}

/// Gives second names that end in `ending`, durably, to the snapshot and to the files in `folder` whose
/// names begin with `log`, the name of the append-only file. Returns the second names; missing files are
/// left out. Cost: a link for each file, however large.
pub fn keep_data(
    storage: &dyn Storage,
    snapshot: &Path,
    (folder, log): (&Path, &[u8]),
    ending: &str,
) -> io::Result<Vec<String>> {
    let mut files = vec![snapshot.to_owned()];
    if storage.is_there(folder)? {
        let names = storage.list(folder)?;
        files.extend(
            names.iter().filter(|name| name.as_bytes().starts_with(log)).map(|name| folder.join(name)),
        );
    }
    let mut kept = Vec::new();
    for file in files {
        if storage.is_there(&file)? {
            let second = FreeName::beside(&file, ending).find(storage)?;
            storage.link(&file, &second)?;
            storage.sync_folder(folder_of(&file))?;
            kept.push(second.display().to_string());
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;

    #[test]
    fn a_name_of_which_nobody_knows_whether_it_is_free_is_not_taken() {
        let folder = std::env::temp_dir().join(format!("sluice-free-name-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let file = folder.join("incr");
        std::fs::write(&file, "").expect("writable");
        assert_eq!(FreeName::beside(&file, "cut-7").find(&Real).ok(), Some(folder.join("incr.cut-7")));
        assert_eq!(FreeName::numbered(&file, "x").find(&Real).ok(), Some(folder.join("incr.x-1")));
        // A plain file stands where the folder of the name should be.
        let beneath = file.join("incr");
        let error = FreeName::beside(&beneath, "cut-7").find(&Real).expect_err("no folder");
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn the_data_have_second_names_that_survive_what_takes_their_place() {
        let folder = std::env::temp_dir().join(format!("sluice-keep-data-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let log = folder.join("log");
        std::fs::create_dir_all(&log).expect("a temporary folder");
        let snapshot = folder.join("dump.rdb");
        for (file, text) in [("a.aof.1.base.rdb", "base"), ("a.aof.1.incr.aof", "incr"), ("other", "other")] {
            std::fs::write(log.join(file), text).expect("writable");
        }
        let keep = || keep_data(&Real, &snapshot, (&log, b"a.aof"), "before-slots-7").expect("kept").len();
        assert_eq!(keep(), 2, "there is no snapshot");
        std::fs::write(&snapshot, "one").expect("writable");
        assert_eq!(keep(), 5, "those of before are files of the log, too");
        std::fs::remove_file(&snapshot).expect("there");
        std::fs::write(&snapshot, "two").expect("writable");
        assert_eq!(std::fs::read(folder.join("dump.rdb.before-slots-7")).expect("there"), b"one");
        let incr = std::fs::read(log.join("a.aof.1.incr.aof.before-slots-7")).expect("there");
        assert_eq!(incr, b"incr");
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn a_file_has_one_second_name_until_another_takes_its_place() {
        let folder = std::env::temp_dir().join(format!("sluice-second-name-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let file = folder.join("dump.rdb");
        let again = |text: &str, name: &str| {
            std::fs::write(folder.join("new"), text).expect("writable");
            std::fs::rename(folder.join("new"), &file).expect("ours");
            for _ in 0..2 {
                assert_eq!(keep_as_loaded(&Real, &file), Ok(Some(name.to_owned())));
            }
        };
        again("one", "dump.rdb.as-loaded-1");
        again("two", "dump.rdb.as-loaded-2");
        assert_eq!(std::fs::read(folder.join("dump.rdb.as-loaded-1")).expect("there"), b"one");
        std::fs::remove_dir_all(&folder).expect("removable");
    }
}
