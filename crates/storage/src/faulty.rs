//! Files with a fault, for tests: at a chosen step an operation fails, or the machine crashes and the
//! folder is left as a crash leaves it.
//!
//! A *step* is an operation that changes something: create, write, truncate, sync, rename, link, remove,
//! sync of a folder. For the faults of reading, a step is a read. The files are real; a model in memory
//! records which parts of them are durable: bytes by `sync`, names by `sync_folder`. After a crash the folder
//! holds everything durable and, chosen by the seed, some of the rest: single pages of a file (a hole before
//! them is zeros), and the oldest changes of names, the last of which may be half done.

use super::replacement::folder_of;
use super::{FileAccess, LockHold, LockRefused, Real, Storage, StorageFile};
use nix::errno::Errno;
use sluice_base::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kind of fault that strikes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// A write takes half of its bytes.
    ShortWrite,
    /// The disk is full.
    NoSpace,
    /// The disk fills up: the first write takes half of its bytes, and later ones nothing.
    FillsUp,
    /// A write takes half of its bytes and fails; a truncation fails.
    WriteError,
    /// A sync fails; the bytes of a file that it should have forced to disk never get there.
    SyncError,
    /// A rename fails half done: the file has both names.
    TornRename,
    /// The machine crashes when the operation is done, but before it has made anything durable.
    Crash,
    /// A read returns one byte.
    ShortRead,
    /// A read fails with `EIO`.
    ReadError,
}

impl FileFault {
    fn is_of_reading(self) -> bool {
        match self {
            FileFault::ShortRead | FileFault::ReadError => true,
            FileFault::ShortWrite
            | FileFault::NoSpace
            | FileFault::FillsUp
            | FileFault::WriteError
            | FileFault::SyncError
            | FileFault::TornRename
            | FileFault::Crash => false,
        }
    }
}

/// Which fault strikes, and at which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kind of fault.
    pub fault: FileFault,
    /// The first step that the fault strikes, counted from 1.
    pub first: u64,
    /// The number of steps in a row that the fault strikes.
    pub count: u64,
    /// The seed of the random choices of what a crash leaves.
    pub seed: u64,
}

/// Parses `fault:first:count:seed`, as the switch of a test gives it.
impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let bad = || format!("not a plan: {text}");
        let mut words = text.split(':');
        let fault = match words.next() {
            Some("short-write") => FileFault::ShortWrite,
            Some("no-space") => FileFault::NoSpace,
            Some("fills-up") => FileFault::FillsUp,
            Some("write-error") => FileFault::WriteError,
            Some("sync-error") => FileFault::SyncError,
            Some("torn-rename") => FileFault::TornRename,
            Some("crash") => FileFault::Crash,
            Some("short-read") => FileFault::ShortRead,
            Some("read-error") => FileFault::ReadError,
            _ => return Err(bad()),
        };
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or_else(bad);
        Ok(Plan { fault, first: number()?, count: number()?, seed: number()? })
    }
}

/// What happens after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterCrash {
    /// The process ends with `CRASH_STATUS`.
    Exit,
    /// Every later step, and opening a file for appending, fails with `EIO`; files can still be read.
    Fail,
}

/// The exit status of a process whose machine has crashed.
const CRASH_STATUS: i32 = 86;

/// Real files with a planned fault.
pub struct Faulty {
    real: Arc<Real>,
    state: Arc<Mutex<FaultyState>>,
}

struct FaultyState {
    plan: Plan,
    after: AfterCrash,
    steps: u64,
    crashed: bool,
    /// `FillsUp` has struck: the disk takes no more bytes.
    is_filled: bool,
    disk: Disk,
}

/// The files of a folder as processes see them, and as they are durable.
#[derive(Default)]
struct Disk {
    /// Contents by file number; a file keeps its number when its name changes.
    files: Vec<Contents>,
    /// The names that processes see.
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    /// Changes of names that are not durable yet, the oldest first.
    changes: Vec<NameChange>,
}

/// The bytes of a file, seen and durable.
#[derive(Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Pages of `seen` that a sync would make durable.
    dirty: BTreeSet<usize>,
    /// The smallest size to which the file was cut since the last sync.
    cut_to: Option<usize>,
}

/// Bytes of a page in this model: small, so that small files have several pages.
const PAGE: usize = 512;

enum NameChange {
    Created(PathBuf, usize),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

impl Faulty {
    /// Storage with the real files, whose operations fail as `plan` says. `after`: what happens after a
    /// crash.
    pub fn new(real: Arc<Real>, plan: Plan, after: AfterCrash) -> Faulty {
        let state =
            FaultyState { plan, after, steps: 0, crashed: false, is_filled: false, disk: Disk::default() };
        Faulty { real, state: Arc::new(Mutex::new(state)) }
    }

    /// The number of steps that were begun.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// Whether the machine has crashed.
    pub fn has_crashed(&self) -> bool {
        self.lock().crashed
    }

    /// Crashes the machine now.
    pub fn crash_now(&self, seed: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.crashed = true;
        state.disk.leave(&mut Rng::new(seed))
    }

    fn lock(&self) -> MutexGuard<'_, FaultyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultyState {
    /// Begins a step; returns the fault that strikes the step, if one does. Errors: the machine
    /// has crashed.
    fn begin(&mut self) -> io::Result<Option<FileFault>> {
        if self.crashed {
            return Err(Errno::EIO.into());
        }
        if self.plan.fault.is_of_reading() {
            return Ok(None);
        }
        Ok(self.step())
    }

    /// Counts a step; returns the fault that strikes the step, if one does.
    fn step(&mut self) -> Option<FileFault> {
        self.steps += 1;
        let Plan { fault, first, count, .. } = self.plan;
        let strikes = (first..first.saturating_add(count)).contains(&self.steps);
        strikes.then_some(fault)
    }

    /// Ends a step that was done; a crash happens here.
    fn end(&mut self, struck: Option<FileFault>) -> io::Result<()> {
        if struck != Some(FileFault::Crash) {
            return Ok(());
        }
        self.crashed = true;
        self.disk.leave(&mut Rng::new(self.plan.seed))?;
        match self.after {
            AfterCrash::Exit => std::process::exit(CRASH_STATUS),
            AfterCrash::Fail => Err(Errno::EIO.into()),
        }
    }
}

impl Disk {
    /// The number of the file with this name. A file from before the test counts as durable.
    fn number_of(&mut self, path: &Path) -> Option<usize> {
        if let Some(number) = self.names.get(path) {
            return Some(*number);
        }
        let bytes = std::fs::read(path).ok()?;
        let number = self.add(Contents { seen: bytes.clone(), durable: bytes, ..Contents::default() });
        self.names.insert(path.to_owned(), number);
        self.durable.insert(path.to_owned(), number);
        Some(number)
    }

    fn add(&mut self, contents: Contents) -> usize {
        self.files.push(contents);
        self.files.len() - 1
    }

    fn create(&mut self, path: &Path) -> usize {
        let number = self.add(Contents::default());
        self.names.insert(path.to_owned(), number);
        self.changes.push(NameChange::Created(path.to_owned(), number));
        number
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        self.number_of(to);
        if let Some(number) = self.number_of(from) {
            self.names.remove(from);
            self.names.insert(to.to_owned(), number);
            self.changes.push(NameChange::Renamed(from.to_owned(), to.to_owned()));
        }
    }

    fn link(&mut self, from: &Path, to: &Path) {
        if let Some(number) = self.number_of(from) {
            self.names.insert(to.to_owned(), number);
            self.changes.push(NameChange::Created(to.to_owned(), number));
        }
    }

    fn remove(&mut self, path: &Path) {
        if self.number_of(path).is_some() {
            self.names.remove(path);
            self.changes.push(NameChange::Removed(path.to_owned()));
        }
    }

    /// Makes the names of a folder durable. A rename between two folders becomes durable as a whole
    /// as soon as either of them is synced.
    fn sync_folder(&mut self, folder: &Path) {
        let changes = std::mem::take(&mut self.changes);
        for change in changes {
            match change {
                NameChange::Created(path, number) if folder_of(&path) == folder => {
                    self.durable.insert(path, number);
                }
                NameChange::Removed(path) if folder_of(&path) == folder => drop(self.durable.remove(&path)),
                NameChange::Renamed(from, to)
                    if [&from, &to].map(|path| folder_of(path)).contains(&folder) =>
                {
                    let number = self.durable.remove(&from);
                    self.durable.extend(number.map(|number| (to, number)));
                }
                other => self.changes.push(other),
            }
        }
    }

    /// Changes the real folder into what a crash of the machine leaves.
    fn leave(&mut self, rng: &mut Rng) -> io::Result<()> {
        let mut names = self.durable.clone();
        let survive = rng.below(self.changes.len() as u64 + 1) as usize;
        for (at, change) in self.changes.iter().take(survive).enumerate() {
            match change {
                NameChange::Created(path, number) => drop(names.insert(path.clone(), *number)),
                NameChange::Removed(path) => drop(names.remove(path)),
                NameChange::Renamed(from, to) => {
                    let is_torn = at + 1 == survive && rng.below(2) == 0;
                    let number = if is_torn { names.get(from).copied() } else { names.remove(from) };
                    names.extend(number.map(|number| (to.clone(), number)));
                }
            }
        }
        for path in self.names.keys().chain(self.durable.keys()) {
            let _ = std::fs::remove_file(path);
        }
        let left: Vec<Vec<u8>> = self.files.iter().map(|file| file.left(rng)).collect();
        names.into_iter().try_for_each(|(path, number)| std::fs::write(path, &left[number]))
    }
}

impl Contents {
    fn write(&mut self, bytes: &[u8]) {
        let start = self.seen.len();
        self.seen.extend_from_slice(bytes);
        if !bytes.is_empty() {
            self.dirty.extend(start / PAGE..=(self.seen.len() - 1) / PAGE);
        }
    }

    fn copy_page(&self, page: usize, into: &mut Vec<u8>) {
        let (start, end) = (page * PAGE, self.seen.len().min((page + 1) * PAGE));
        if into.len() < end {
            into.resize(end, 0);
        }
        into[start..end].copy_from_slice(&self.seen[start..end]);
    }

    fn sync(&mut self) {
        let mut durable = std::mem::take(&mut self.durable);
        if let Some(size) = self.cut_to.take() {
            durable.truncate(size);
        }
        for page in std::mem::take(&mut self.dirty) {
            self.copy_page(page, &mut durable);
        }
        self.durable = durable;
    }

    /// Cuts the file off. The shorter size becomes durable with the next sync, as a written page does.
    fn truncate(&mut self, size: usize) {
        self.seen.truncate(size);
        self.dirty.retain(|page| page * PAGE < size);
        self.cut_to = Some(self.cut_to.map_or(size, |cut| cut.min(size)));
    }

    /// What a crash leaves of the file: all durable bytes, and some, all or none of the dirty pages.
    fn left(&self, rng: &mut Rng) -> Vec<u8> {
        let mut left = self.durable.clone();
        let share = rng.below(3);
        for page in &self.dirty {
            if share == 2 || share == 1 && rng.below(2) == 0 {
                self.copy_page(*page, &mut left);
            }
        }
        left
    }
}

impl Storage for Faulty {
    fn create(&self, path: &Path, mode: u32) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.lock();
        let struck = state.begin()?;
        if matches!(struck, Some(FileFault::NoSpace | FileFault::FillsUp)) {
            return Err(Errno::ENOSPC.into());
        }
        let file = self.real.create(path, mode)?;
        let number = state.disk.create(path);
        state.end(struck)?;
        Ok(Box::new(FaultyFile { file, number, state: self.state.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(FaultyReader { file: self.real.open(path)?, state: self.state.clone() }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.lock();
        if state.crashed {
            return Err(Errno::EIO.into());
        }
        let number = state.disk.number_of(path).ok_or(Errno::ENOENT)?;
        let file = self.real.append(path)?;
        Ok(Box::new(FaultyFile { file, number, state: self.state.clone() }))
    }

    // A crash never removes a folder in this model, because the tests examine only the files in it.
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.real.create_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let struck = state.begin()?;
        state.disk.rename(from, to);
        self.real.rename(from, to)?;
        if struck == Some(FileFault::TornRename) {
            std::fs::hard_link(to, from)?;
            return Err(Errno::EIO.into());
        }
        state.end(struck)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let struck = state.begin()?;
        self.real.link(from, to)?;
        state.disk.link(from, to);
        state.end(struck)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if !state.crashed && !self.real.is_there(path).unwrap_or(true) {
            // The file is missing and nothing changes, so this is no step.
            return self.real.remove(path);
        }
        let struck = state.begin()?;
        state.disk.remove(path);
        self.real.remove(path)?;
        state.end(struck)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let struck = state.begin()?;
        if struck == Some(FileFault::SyncError) {
            return Err(Errno::EIO.into());
        }
        // A crash at this step happens before the sync has made the names durable, so none of them is certain
        // to survive.
        state.end(struck)?;
        state.disk.sync_folder(folder);
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.real.list(folder)
    }

    fn is_written(&self, path: &Path) -> bool {
        self.real.is_written(path)
    }

    fn is_there(&self, path: &Path) -> io::Result<bool> {
        self.real.is_there(path)
    }

    fn is_same(&self, one: &Path, other: &Path) -> io::Result<bool> {
        self.real.is_same(one, other)
    }

    fn access(&self, path: &Path) -> io::Result<FileAccess> {
        self.real.access(path)
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        match self.lock().plan.fault {
            FileFault::NoSpace => Ok(0),
            _ => self.real.free_bytes(folder),
        }
    }

    /// Locking is not a step, because a lock file holds no data.
    fn lock(&self, path: &Path, text: &str) -> Result<LockHold, LockRefused> {
        self.real.lock(path, text)
    }
}

struct FaultyFile {
    file: Box<dyn StorageFile>,
    number: usize,
    state: Arc<Mutex<FaultyState>>,
}

impl StorageFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let struck = state.begin()?;
        let len = match struck {
            Some(FileFault::NoSpace) => return Err(Errno::ENOSPC.into()),
            Some(FileFault::FillsUp) if state.is_filled => return Err(Errno::ENOSPC.into()),
            Some(FileFault::ShortWrite | FileFault::WriteError | FileFault::FillsUp) => {
                bytes.len().div_ceil(2)
            }
            Some(
                FileFault::SyncError
                | FileFault::TornRename
                | FileFault::Crash
                | FileFault::ShortRead
                | FileFault::ReadError,
            )
            | None => bytes.len(),
        };
        let mut rest = &bytes[..len];
        while !rest.is_empty() {
            let written = self.file.write(rest)?;
            rest = &rest[written..];
        }
        state.is_filled |= struck == Some(FileFault::FillsUp);
        state.disk.files[self.number].write(&bytes[..len]);
        state.end(struck)?;
        if struck == Some(FileFault::WriteError) { Err(Errno::EIO.into()) } else { Ok(len) }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into)
    }

    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(at, into)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.sync()
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let struck = state.begin()?;
        if struck == Some(FileFault::WriteError) {
            return Err(Errno::EIO.into());
        }
        self.file.truncate(size)?;
        state.disk.files[self.number].truncate(size as usize);
        state.end(struck)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let struck = state.begin()?;
        if struck == Some(FileFault::SyncError) {
            // The pages count as clean from now on, though they are not on disk.
            state.disk.files[self.number].dirty.clear();
            return Err(Errno::EIO.into());
        }
        // `Disk::leave` writes the real files after a crash: forcing them to disk here would cost
        // time and test nothing.
        state.end(struck)?;
        state.disk.files[self.number].sync();
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn twin(&self) -> io::Result<Box<dyn StorageFile>> {
        let file = self.file.twin()?;
        Ok(Box::new(FaultyFile { file, number: self.number, state: self.state.clone() }))
    }

    fn set_access(&self, like: FileAccess) -> io::Result<()> {
        self.file.set_access(like)
    }
}

/// A file that was opened for reading.
struct FaultyReader {
    file: Box<dyn StorageFile>,
    state: Arc<Mutex<FaultyState>>,
}

impl FaultyReader {
    /// Counts a step of reading. Returns the part of the buffer that the read may fill: one byte if a short
    /// read strikes. Errors: the fault that strikes the read.
    fn room<'into>(&self, into: &'into mut [u8]) -> io::Result<&'into mut [u8]> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let struck = if state.plan.fault.is_of_reading() { state.step() } else { None };
        match struck {
            Some(FileFault::ReadError) => Err(Errno::EIO.into()),
            Some(FileFault::ShortRead) => {
                let len = into.len().min(1);
                Ok(&mut into[..len])
            }
            _ => Ok(into),
        }
    }
}

impl StorageFile for FaultyReader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let into = self.room(into)?;
        self.file.read(into)
    }

    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let into = self.room(into)?;
        self.file.read_at(at, into)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn twin(&self) -> io::Result<Box<dyn StorageFile>> {
        self.file.twin()
    }

    fn set_access(&self, like: FileAccess) -> io::Result<()> {
        self.file.set_access(like)
    }
}
