//! The folder of the append-only file: its manifest, and the files that the manifest names.
//!
//! ```text
//! appendonlydir/
//!   appendonly.aof.manifest          which files there are, replaced as a whole
//!   appendonly.aof.2.base.rdb        the data at some moment
//!   appendonly.aof.5.incr.aof        the log after that moment, a file for each rewrite that was begun
//! ```
//!
//! Invariants: (1) whenever the machine fails, every base and increment that the manifest on disk names is
//! there and complete: a base is durable before it is named, and a file is removed only when the manifest
//! names it as history (superfluous) or not at all; (2) an increment of an append-only file that is in use is
//! named before anything is written into it; the first increment of a new append-only file is named together
//! with its base; (3) a manifest in memory that could not be written is replaced by the previous one; (4) a
//! file with data that no manifest names is never removed or written over, unless its name is temporary, this
//! process has put it there, or (5) holds; instead, it gets another name; (5) the manifest that is to name a
//! base is on disk under its temporary name before the base has its name: if that temporary manifest and the
//! base are found beside another manifest, a server put the base there and was killed before it had finished.

use crate::plain_error;
use crate::replacement::{Failed, Operation, Replacement};
use crate::temporary::is_of_server;
use crate::{FreeName, Storage, StorageFile, kept};
use sluice_config::{Config, param};
use sluice_persist::aof::{AofFile, BaseFormat, Manifest, manifest_name};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of the append-only file, with the manifest in memory.
pub struct Folder {
    storage: Arc<dyn Storage>,
    /// The folder's path, absolute because the working directory may change.
    path: PathBuf,
    /// Directive `appenddirname`, for lines of the log.
    dir_name: String,
    /// Directive `appendfilename`: the first part of all names in the folder.
    name: Vec<u8>,
    manifest: Manifest,
    /// Lines for the log about files that were moved aside.
    warnings: Vec<String>,
}

/// Permissions of new files, less the process's umask.
const MODE: u32 = 0o644;
/// Each time this many bytes of a base have been written, they are forced to disk.
const SYNC_EVERY: u64 = 32 << 20;

/// A base that is being written.
pub struct NewBase {
    replacement: Replacement,
    temporary: String,
    format: BaseFormat,
}

/// When a new increment gets its name in the manifest. Until then the file has a temporary name, and the
/// manifest does not name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// At once, when the increment is created.
    Now,
    /// Together with the base, by [`Folder::finish_base`].
    WithBase,
    /// Never: the append-only file is off, and nothing is written into the increment.
    Never,
}

/// What happens to files that a rewrite has made superfluous: directive `aof-disable-auto-gc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// The files are removed at once.
    Removed,
    /// The files stay, and the manifest still names them.
    Kept,
}

impl History {
    /// The choice that the configuration makes.
    pub fn of(config: &Config) -> History {
        if config.bool(param::AOF_DISABLE_AUTO_GC) { History::Kept } else { History::Removed }
    }
}

impl Folder {
    /// Reads the manifest of the folder inside the working directory. If there is none on disk, the manifest
    /// in memory is empty. Errors: lines for the log.
    pub fn read(storage: Arc<dyn Storage>, config: &Config) -> Result<Folder, Vec<String>> {
        Folder::read_in(storage, &std::env::current_dir().unwrap_or_default(), config)
    }

    /// Like [`Folder::read`], but with the folder of the append-only file inside `dir`.
    pub fn read_in(storage: Arc<dyn Storage>, dir: &Path, config: &Config) -> Result<Folder, Vec<String>> {
        let dir_name = config.str(param::APPENDDIRNAME).into_owned();
        let path = dir.join(&dir_name);
        let name = config.bytes(param::APPENDFILENAME).to_vec();
        let mut folder =
            Folder { storage, path, dir_name, name, manifest: Manifest::new(), warnings: Vec::new() };
        let manifest = folder.path_of(&manifest_name(&folder.name));
        let shown = manifest.display().to_string();
        let text = match folder.read_whole(&manifest) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(folder),
            Err(error) => {
                let reason = plain_error(&error);
                return Err(vec![format!(
                    "Fatal error: can't open the AOF manifest file {shown} for reading: {reason}"
                )]);
            }
        };
        folder.manifest = Manifest::parse(&text).map_err(|error| {
            let mut lines = vec!["*** FATAL AOF MANIFEST FILE ERROR ***".to_owned()];
            if let Some((number, line)) = &error.line {
                lines.push(format!("Reading the manifest file, at line {number}"));
                lines.push(format!(">>> '{}'", line.escape_ascii()));
            }
            lines.push(error.to_string());
            lines
        })?;
        Ok(folder)
    }

    /// The manifest in memory. After a failed write this is the previous manifest again, with counters that
    /// may have advanced.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The storage in which the folder lies.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The path of a file in this folder.
    pub fn path_of(&self, name: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(name))
    }

    /// Whether a file is the single log file of a version before 7.0.
    pub fn is_old_style(&self, file: &AofFile) -> bool {
        file.name == self.name
    }

    /// Opens a file of the folder for reading.
    pub fn open(&self, file: &AofFile) -> std::io::Result<Box<dyn StorageFile>> {
        self.storage.open(&self.path_of(&file.name))
    }

    /// Creates the folder, unless it exists. Errors: a line for the log.
    pub fn create(&self) -> Result<(), String> {
        if self.storage.is_there(&self.path).unwrap_or(false) {
            return Ok(());
        }
        let made = self.storage.create_folder(&self.path);
        let made = made.and_then(|()| self.storage.sync_folder(self.path.parent().unwrap_or(Path::new("/"))));
        made.map_err(|error| {
            format!("Can't open or create append-only dir {}: {}", self.dir_name, plain_error(&error))
        })
    }

    /// Moves the single log file of a version before 7.0 into the folder, and names it in a new manifest.
    /// Does nothing if there is no such file, if the folder has it already, or if the manifest is of a newer
    /// version. Returns a line for the log, or `None` if nothing was moved. Errors: a line for the log.
    pub fn take_over_old(&mut self) -> Result<Option<String>, String> {
        let shown = String::from_utf8_lossy(&self.name).into_owned();
        let old = self.path.parent().unwrap_or(Path::new("/")).join(OsStr::from_bytes(&self.name));
        let is_new = self.manifest.files().next().is_some_and(|(file, _)| file.name != self.name);
        if is_new || !self.is_file(&old) || self.is_file(&self.path_of(&self.name)) {
            return Ok(None);
        }
        // The manifest is written before the file is moved, because a crash between the two steps then leaves
        // a manifest of the old style, and the next start moves the file.
        self.create()?;
        let before = self.manifest.clone();
        self.manifest = Manifest::of_old_style(&self.name);
        self.persist_or(before)?;
        let moved = self.storage.rename(&old, &self.path_of(&self.name));
        moved.and_then(|()| self.storage.sync_folder(&self.path)).map_err(|error| {
            let (dir, reason) = (&self.dir_name, plain_error(&error));
            format!("Error trying to move the old AOF file {shown} into dir {dir}: {reason}")
        })?;
        let dir = &self.dir_name;
        Ok(Some(format!(
            "Successfully migrated an old-style AOF file ({shown}) into the AOF directory ({dir})."
        )))
    }

    fn is_file(&self, path: &Path) -> bool {
        self.storage.open(path).and_then(|file| file.size()).is_ok()
    }

    /// The folder's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Forces a complete base to disk, and names it in the manifest. The previous base and all increments but
    /// the last `kept` become history. `increment`: whether an increment was created that gets its name
    /// together with the base. Returns lines for the log. Errors: lines for the log; the manifest in memory
    /// then names the previous files again.
    pub fn finish_base(
        &mut self,
        base: NewBase,
        kept: usize,
        increment: Named,
    ) -> Result<Vec<String>, Vec<String>> {
        let NewBase { mut replacement, temporary, format } = base;
        let mut said = Vec::new();
        let before = self.manifest.clone();
        let name = self.manifest.replace_base(&self.name, format).name.clone();
        self.manifest.retire_incr(kept);
        let shown = String::from_utf8_lossy(&name).into_owned();
        let base_path = self.path_of(&name);
        if let Err(line) = self.clear_name(&name) {
            self.manifest = before;
            return Err(vec![line]);
        }
        if increment == Named::WithBase {
            self.manifest.add_incr(&self.name);
        }
        // If a start finds this temporary manifest, and a base that the manifest in force does not name, the
        // rewrite was not completed (5).
        let manifest = match self.begin_manifest() {
            Ok(manifest) => manifest,
            Err(failed) => {
                self.manifest = before;
                return Err(vec![self.not_persisted(&failed)]);
            }
        };
        replacement.aim_at(base_path.clone());
        if let Err(Failed { operation, error }) = replacement.finish() {
            self.manifest = before;
            self.take_back(&base_path);
            let reason = plain_error(&error);
            return Err(vec![match operation {
                Operation::Sync | Operation::SyncFolder | Operation::Write | Operation::Create => {
                    format!("Write error writing append only file on disk: {reason}")
                }
                Operation::Rename => {
                    format!(
                        "Error trying to rename the temporary AOF base file {temporary} into {shown}: {reason}"
                    )
                }
            }]);
        }
        said.push(format!("Successfully renamed the temporary AOF base file {temporary} into {shown}"));
        if increment == Named::WithBase {
            match self.name_temporary_incr() {
                Ok(line) => said.push(line),
                Err(line) => {
                    self.manifest = before;
                    self.take_back(&base_path);
                    return Err([said, vec![line]].concat());
                }
            }
        }
        let named_now = self.manifest.clone();
        if let Err(line) = self.persist_begun(manifest, before.clone()) {
            // The new files are removed only if the new manifest cannot come into force any more; otherwise
            // the files that it names stay.
            if self.manifest == before {
                self.take_back(&base_path);
                if let (Named::WithBase, Some(file)) = (increment, named_now.incr().last()) {
                    self.take_back(&self.path_of(&file.name));
                }
            }
            return Err([said, vec![line]].concat());
        }
        Ok(said)
    }

    /// Renames the temporary increment to the name of the last increment of the manifest in memory. Returns a
    /// line for the log, on success and as the error.
    fn name_temporary_incr(&mut self) -> Result<String, String> {
        let name = self.manifest.incr().last().map(|file| file.name.clone()).unwrap_or_default();
        let (from, to) = (self.path_of(TEMP_INCR.as_bytes()), self.path_of(&name));
        let shown = String::from_utf8_lossy(&name).into_owned();
        self.clear_name(&name)?;
        // The increment's name is durable before the manifest names it.
        let renamed = self.storage.rename(&from, &to).and_then(|()| self.storage.sync_folder(&self.path));
        renamed.map_err(|error| {
            self.take_back(&to);
            let reason = plain_error(&error);
            format!("Error trying to rename the temporary AOF incr file {TEMP_INCR} into {shown}: {reason}")
        })?;
        Ok(format!("Successfully renamed the temporary AOF incr file {TEMP_INCR} into {shown}"))
    }

    /// Removes a file that this process has put there for a manifest that was not completed, because the next
    /// attempt uses the same names. A failure is ignored, because the next attempt moves the file aside.
    fn take_back(&self, path: &Path) {
        if self.storage.is_there(path).unwrap_or(true) {
            let _ = self.storage.remove(path);
        }
    }

    /// Frees a file name that is not in the manifest on disk. An empty file is removed. A file with data gets
    /// another name, because its manifest may be lost, or the manifest may be older than the file. Errors: a
    /// line for the log.
    fn clear_name(&mut self, name: &[u8]) -> Result<(), String> {
        let path = self.path_of(name);
        match self.storage.open(&path).and_then(|file| file.size()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // If an empty file cannot be removed, creating the new file fails.
            Ok(0) => {
                let _ = self.storage.remove(&path);
                return Ok(());
            }
            Ok(_) | Err(_) => {}
        }
        let moved = FreeName::numbered(&path, "unnamed").find(self.storage.as_ref()).and_then(|aside| {
            self.storage.rename(&path, &aside)?;
            self.storage.sync_folder(&self.path)?;
            Ok(aside)
        });
        let from = path.display();
        let aside = moved.map_err(|error| {
            format!("Can't move {from} aside, which is in no AOF manifest: {}", plain_error(&error))
        })?;
        let to = aside.display();
        self.warnings.push(format!(
            "WARNING: {from} holds data, but is in no AOF manifest: it was not loaded. It was moved to {to}"
        ));
        Ok(())
    }

    /// Takes the lines for the log about files that were moved aside.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Opens the newest increment for appending after the loaded data, or creates the first
    /// increment. Forces the loaded files to disk first. Returns the file and a line for the log.
    /// Errors: a line for the log.
    pub fn open_to_append(&mut self) -> Result<(Box<dyn StorageFile>, String), String> {
        self.make_durable()?;
        Ok(match self.open_incr()? {
            Some((file, name)) => (file, format!("Opening AOF incr file {name} on server start")),
            None => {
                let (file, name) = self.create_incr(Named::Now)?;
                (file, format!("Creating AOF incr file {name} on server start"))
            }
        })
    }

    /// Creates the folder, if it is missing, and the increment of an append-only file whose first base is not
    /// written yet; removes the files of servers that ended while they wrote. Returns the file and its name.
    /// `say` gets lines for the log. Errors: a line for the log.
    pub fn open_after_cut(
        &mut self,
        named: Named,
        say: &mut dyn FnMut(String),
    ) -> Result<(Box<dyn StorageFile>, String), String> {
        self.create()?;
        self.remove_left_over(say);
        self.create_incr(named)
    }

    /// Creates an empty increment, and names it if `named` says so. Returns the file and its name. Errors: a
    /// line for the log; the manifest in memory then does not name the increment.
    pub fn create_incr(&mut self, named: Named) -> Result<(Box<dyn StorageFile>, String), String> {
        let before = self.manifest.clone();
        let name = match named {
            Named::Now => self.manifest.add_incr(&self.name).name.clone(),
            Named::WithBase | Named::Never => TEMP_INCR.as_bytes().to_vec(),
        };
        let path = self.path_of(&name);
        let shown = String::from_utf8_lossy(&name).into_owned();
        if named == Named::Now {
            if let Err(line) = self.clear_name(&name) {
                self.manifest = before;
                return Err(line);
            }
        } else {
            // The temporary increment of a server that ended during a rewrite is removed.
            let _ = self.storage.remove(&path);
        }
        let made = self.storage.create(&path, MODE).and_then(|file| {
            self.storage.sync_folder(&self.path)?;
            Ok(file)
        });
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                self.manifest = before;
                return Err(format!("Can't open the append-only file {shown}: {}", plain_error(&error)));
            }
        };
        if named == Named::Now {
            self.persist_or(before)?;
        }
        Ok((file, shown))
    }

    /// Opens the newest increment for appending; `None` if the manifest names no increment. Errors: a
    /// line for the log.
    fn open_incr(&self) -> Result<Option<(Box<dyn StorageFile>, String)>, String> {
        let Some(newest) = self.manifest.incr().last() else { return Ok(None) };
        let shown = String::from_utf8_lossy(&newest.name).into_owned();
        match self.storage.append(&self.path_of(&newest.name)) {
            Ok(file) => Ok(Some((file, shown))),
            Err(error) => Err(format!("Can't open the append-only file {shown}: {}", plain_error(&error))),
        }
    }

    /// Forces to disk the contents and the names of all loaded files, because a process that was killed may
    /// have written them without a sync. Errors: a line for the log.
    fn make_durable(&self) -> Result<(), String> {
        for (file, _) in self.manifest.loaded() {
            let synced = self.storage.append(&self.path_of(&file.name)).and_then(|mut file| file.sync());
            synced.map_err(|error| format!("Fail to fsync the AOF file: {}.", plain_error(&error)))?;
        }
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let synced = self.storage.sync_folder(&self.path).and_then(|()| self.storage.sync_folder(parent));
        synced.map_err(|error| {
            format!("Fail to fsync AOF directory {}: {}.", self.dir_name, plain_error(&error))
        })
    }

    /// Superfluous files that can be removed; the manifest on disk names them until
    /// [`Folder::remove_history`]. The manifest itself is left out, and so is a file that the manifest,
    /// written by another server, names a second time as data.
    pub fn history(&self) -> Vec<PathBuf> {
        use sluice_persist::aof::AofFileKind;
        let is_used = |name: &[u8]| {
            name == manifest_name(&self.name) || self.manifest.loaded().any(|(file, _)| file.name == name)
        };
        let files = self.manifest.files().filter(|(_, kind)| *kind == AofFileKind::History);
        files.filter(|(file, _)| !is_used(&file.name)).map(|(file, _)| self.path_of(&file.name)).collect()
    }

    /// Takes the removed files out of the manifest, and writes the manifest. Errors: a line for the log.
    fn forget_history(&mut self) -> Result<(), String> {
        let before = self.manifest.clone();
        match self.manifest.take_history().is_empty() {
            true => Ok(()),
            false => self.persist_or(before),
        }
    }

    /// Removes the files of servers that ended while they wrote; `say` gets a line for the log for each file.
    pub fn remove_left_over(&self, say: &mut dyn FnMut(String)) {
        self.remove_unfinished_base(say);
        let Ok(names) = self.storage.list(&self.path) else { return };
        let names = names.into_iter().map(OsString::into_vec);
        for name in names.filter(|name| is_temporary(name, &self.name)) {
            if !is_of_server(self.storage.as_ref(), &self.path_of(&name)) {
                continue;
            }
            let shown = String::from_utf8_lossy(&name).into_owned();
            if self.storage.remove(&self.path_of(&name)).is_ok() {
                say(format!("Removed {shown}, the file of a server that ended while writing it"));
            }
        }
    }

    /// Removes the base of a rewrite that was not completed: the manifest that was to name the base lies
    /// beside the manifest in force, whose files hold the data (5).
    fn remove_unfinished_base(&self, say: &mut dyn FnMut(String)) {
        let Some(base) = self.manifest.base() else { return };
        let Ok(text) = self.read_whole(&self.path_of(&temporary_manifest(&self.name))) else { return };
        let Ok(unfinished) = Manifest::parse(&text) else { return };
        let left = unfinished.base().filter(|left| left.name != base.name);
        let is_named = |left: &AofFile| self.manifest.files().any(|(file, _)| file.name == left.name);
        if let Some(left) = left.filter(|left| !is_named(left))
            && self.storage.remove(&self.path_of(&left.name)).is_ok()
        {
            let name = String::from_utf8_lossy(&left.name);
            say(format!("Removed {name}, the base file of an incomplete rewrite"));
        }
    }

    /// Removes an increment that was never named.
    pub fn remove_temporary_incr(&self) {
        let _ = self.storage.remove(&self.path_of(TEMP_INCR.as_bytes()));
    }

    /// Bytes of the base, and bytes of the base and all increments.
    pub fn sizes(&self) -> (u64, u64) {
        let size = |file: &AofFile| self.open(file).and_then(|file| file.size()).unwrap_or(0);
        let base = self.manifest.base().map_or(0, size);
        (base, base + self.manifest.incr().iter().map(size).sum::<u64>())
    }

    /// Bytes of the base and of all increments before the newest.
    pub fn bytes_before_last(&self) -> u64 {
        let size = |file: &AofFile| self.open(file).and_then(|file| file.size()).unwrap_or(0);
        let increments = self.manifest.incr();
        let before = &increments[..increments.len().saturating_sub(1)];
        self.manifest.base().map_or(0, size) + before.iter().map(size).sum::<u64>()
    }

    /// Removes superfluous files at once, unless `history` keeps them, because a later increment may get the
    /// name of one of them. `removed` gets a line for the log for each file. Returns a line for the log if
    /// the manifest still names them after an error.
    pub fn remove_history(&mut self, history: History, removed: &mut Vec<String>) -> Option<String> {
        let paths = self.history();
        if paths.is_empty() || history == History::Kept {
            return None;
        }
        for path in paths {
            let name = path.file_name().unwrap_or_default().display().to_string();
            removed.push(format!("Removing the history file {name} in the background"));
            // A file that cannot be removed costs nothing but disk space.
            let _ = self.storage.remove(&path);
        }
        self.forget_history().err()
    }

    /// Writes the manifest. After an error the manifest in memory names the files of `before` again, with
    /// advanced counters if the new manifest may be in force. In that case the manifest in memory is then
    /// written to disk, if the disk allows it. Errors: a line for the log.
    fn persist_or(&mut self, before: Manifest) -> Result<(), String> {
        match self.begin_manifest() {
            Ok(begun) => self.persist_begun(begun, before),
            Err(failed) => {
                self.manifest = before;
                Err(self.not_persisted(&failed))
            }
        }
    }

    /// Puts in force a manifest that [`Folder::begin_manifest`] wrote. An error has the same consequences as
    /// in [`Folder::persist_or`].
    fn persist_begun(&mut self, begun: Replacement, before: Manifest) -> Result<(), String> {
        let Err(failed) = begun.finish() else { return Ok(()) };
        match failed.operation {
            Operation::Create | Operation::Write | Operation::Sync => self.manifest = before,
            Operation::Rename | Operation::SyncFolder => {
                // The new manifest may be in force, or may come into force by a crash of the machine, so the
                // numbers that it used are not used again.
                self.manifest = before.numbered_behind(&self.manifest);
                let to = self.path_of(&manifest_name(&self.name));
                let _ = match self.manifest.files().next() {
                    Some(_) => {
                        self.begin_manifest().and_then(Replacement::finish).map_err(|failed| failed.error)
                    }
                    None => self.storage.remove(&to).and_then(|()| self.storage.sync_folder(&self.path)),
                };
            }
        }
        Err(self.not_persisted(&failed))
    }

    /// Writes the manifest beside the manifest in force, and forces it to disk.
    fn begin_manifest(&self) -> Result<Replacement, Failed> {
        let (from, to) =
            (self.path_of(&temporary_manifest(&self.name)), self.path_of(&manifest_name(&self.name)));
        let mut replacement = Replacement::begin(self.storage.clone(), from, to, MODE, None)?;
        replacement.write(&self.manifest.to_bytes())?;
        replacement.step()?;
        Ok(replacement)
    }

    /// The line for the log about a manifest that could not be put in force.
    fn not_persisted(&self, failed: &Failed) -> String {
        let (temporary, name) = (temporary_manifest(&self.name), manifest_name(&self.name));
        let (temporary, name, reason) =
            (String::from_utf8_lossy(&temporary), String::from_utf8_lossy(&name), plain_error(&failed.error));
        match failed.operation {
            Operation::Create => format!("Can't open the AOF manifest file {temporary}: {reason}"),
            Operation::Write => {
                format!("Error trying to write the temporary AOF manifest file {temporary}: {reason}")
            }
            Operation::Sync => format!("Fail to fsync the temp AOF file {temporary}: {reason}."),
            Operation::Rename => {
                format!(
                    "Error trying to rename the temporary AOF manifest file {temporary} into {name}: {reason}"
                )
            }
            Operation::SyncFolder => format!("Fail to fsync AOF directory {}: {reason}.", self.dir_name),
        }
    }

    fn read_whole(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let mut file = self.storage.open(path)?;
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(text),
                Ok(n) => text.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl NewBase {
    /// Begins a base in `folder`, under a temporary name with this process's id and `number`, so that the
    /// file of a base that was broken off may still exist beside it. The base counts after
    /// [`Folder::finish_base`] has named it. `sync_early`: force the base to disk every 32 MiB. Errors: a
    /// line for the log.
    pub fn begin(
        storage: Arc<dyn Storage>,
        folder: &Path,
        format: BaseFormat,
        sync_early: bool,
        number: u64,
    ) -> Result<NewBase, String> {
        let temporary = format!("{TEMP_BASE}{}-{number}.aof", std::process::id());
        let path = folder.join(&temporary);
        let every = sync_early.then_some(SYNC_EVERY);
        // The final name is chosen when the base is whole; until then the target is the temporary name.
        let begun = Replacement::begin(storage, path.clone(), path, MODE, every);
        let replacement = begun.map_err(|failed| {
            let reason = plain_error(&failed.error);
            format!("Opening the temp file for AOF rewrite in rewriteAppendOnlyFile(): {reason}")
        })?;
        Ok(NewBase { replacement, temporary, format })
    }

    /// Makes a complete and durable RDB file the base; the RDB file keeps its own name as well. `number`: as
    /// in [`NewBase::begin`]. Errors: a line for the log.
    pub fn of_snapshot(
        storage: Arc<dyn Storage>,
        folder: &Path,
        snapshot: &Path,
        number: u64,
    ) -> Result<NewBase, String> {
        let temporary = format!("{TEMP_BASE}{}-{number}.aof", std::process::id());
        let linked = Replacement::of_link(storage, snapshot, folder.join(&temporary));
        let replacement = linked.map_err(|failed| {
            let reason = plain_error(&failed.error);
            format!("Can't use the RDB file {} as the AOF base file: {reason}", snapshot.display())
        })?;
        Ok(NewBase { replacement, temporary, format: BaseFormat::Rdb })
    }

    /// Writes the next piece. Errors: a line for the log.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), String> {
        self.replacement.write(piece).map_err(|failed| not_written(&failed))
    }

    /// Forces to disk what was written, after the last piece. Errors: a line for the log.
    pub fn sync(&mut self) -> Result<(), String> {
        self.replacement.step().map(drop).map_err(|failed| not_written(&failed))
    }

    /// The path of the base until it gets its final name.
    pub fn temporary_path(&self) -> &Path {
        self.replacement.temporary()
    }

    /// The file name of the base until [`Folder::finish_base`] gives the final one.
    pub fn temporary(&self) -> &str {
        &self.temporary
    }
}

fn not_written(failed: &Failed) -> String {
    format!("Write error writing append only file on disk: {}", plain_error(&failed.error))
}

/// Whether a name is temporary, that is, belongs to a file that is renamed once it is whole.
fn is_temporary(name: &[u8], appendfilename: &[u8]) -> bool {
    name == TEMP_INCR.as_bytes()
        || name == temporary_manifest(appendfilename)
        || [TEMP_BASE, kept::TEMPORARY].iter().any(|begin| name.starts_with(begin.as_bytes()))
            && name.ends_with(b".aof")
}

/// The name of a manifest that is not in force yet.
fn temporary_manifest(appendfilename: &[u8]) -> Vec<u8> {
    [b"temp-", manifest_name(appendfilename).as_slice()].concat()
}

/// The first part of the name of a base that is not complete yet.
const TEMP_BASE: &str = "temp-rewriteaof-bg-";
/// The name of an increment until its base is named.
const TEMP_INCR: &str = "temp-appendonly.aof.incr";
