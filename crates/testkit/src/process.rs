//! A process that does nothing but remember.

use sluice_base::Now;
use sluice_config::{Config, ParamId};
use sluice_engine::{Counts, Facts, LogLevel, Process, SaveError, SnapshotSink, SnapshotSource};
use sluice_keyspace::Keyspace;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A process whose clock moves when told, plus one microsecond per reading.
#[derive(Debug)]
pub struct FakeProcess {
    /// The time.
    pub now: Now,
    /// Lines logged.
    pub log: Vec<(LogLevel, String)>,
    /// Names of the directives applied, in order.
    pub applied: Vec<&'static str>,
    /// When set, `apply_config` fails with this text.
    pub refuse: Option<String>,
    /// The config file, if there is one.
    pub file: Option<String>,
    /// What INFO is told.
    pub facts: Facts,
    /// Snapshot files by name.
    pub snapshots: Snapshots,
    /// When set, snapshots cannot be written, and the log says this.
    pub refuse_snapshots: Option<String>,
}

/// Files in memory.
pub type Snapshots = Rc<RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// A snapshot that is written into memory.
struct MemorySink {
    files: Snapshots,
    name: Vec<u8>,
    bytes: Vec<u8>,
}

impl SnapshotSink for MemorySink {
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<(), SaveError> {
        self.files.borrow_mut().insert(self.name, self.bytes);
        Ok(())
    }
}

/// A snapshot that is read from memory, a few bytes at a time.
struct MemorySource {
    bytes: Vec<u8>,
    at: usize,
}

impl SnapshotSource for MemorySource {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(into.len()).min(1000);
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

impl Default for FakeProcess {
    fn default() -> FakeProcess {
        FakeProcess {
            now: Now { mono_ns: 1_000_000_000, unix_us: 1_700_000_000_000_000 },
            log: Vec::new(),
            applied: Vec::new(),
            refuse: None,
            file: None,
            facts: Facts { pid: 4711, used_memory: 1 << 20, ..Facts::default() },
            snapshots: Snapshots::default(),
            refuse_snapshots: None,
        }
    }
}

impl FakeProcess {
    /// Moves the clock.
    pub fn pass_us(&mut self, us: u64) {
        self.now.mono_ns += us * 1000;
        self.now.unix_us += us as i64;
    }
}

impl Process for FakeProcess {
    fn now(&mut self) -> Now {
        self.pass_us(1);
        self.now
    }
    fn recent(&mut self) -> Now {
        self.now
    }
    fn facts(&mut self, _: &Keyspace) -> Facts {
        self.facts.clone()
    }
    fn counts(&mut self) -> Counts {
        Counts::default()
    }
    fn used_memory(&mut self, _: &Keyspace) -> usize {
        self.facts.used_memory
    }
    fn apply_config(&mut self, _: &Config, changed: ParamId) -> Result<(), String> {
        if let Some(text) = &self.refuse {
            return Err(text.clone());
        }
        self.applied.push(changed.param().name);
        Ok(())
    }
    fn rewrite_config(&mut self, make: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        match &self.file {
            None => Err("The server is running without a config file".into()),
            Some(text) => {
                self.file = Some(String::from_utf8_lossy(&make(Some(text.as_bytes()))).into_owned());
                Ok(())
            }
        }
    }
    fn create_snapshot(&mut self, name: &[u8], _: bool) -> Result<Box<dyn SnapshotSink>, SaveError> {
        if let Some(text) = &self.refuse_snapshots {
            return Err(SaveError(text.clone()));
        }
        Ok(Box::new(MemorySink { files: self.snapshots.clone(), name: name.to_vec(), bytes: Vec::new() }))
    }
    fn open_snapshot(&mut self, name: &[u8]) -> Result<Option<Box<dyn SnapshotSource>>, String> {
        let bytes = self.snapshots.borrow().get(name).cloned();
        Ok(bytes.map(|bytes| Box::new(MemorySource { bytes, at: 0 }) as Box<dyn SnapshotSource>))
    }
    fn sleep(&mut self, microseconds: u64) {
        self.pass_us(microseconds);
    }
    fn log(&mut self, level: LogLevel, line: &str) {
        self.log.push((level, line.to_owned()));
    }
    fn entropy(&mut self) -> [u8; 20] {
        [7; 20]
    }
    fn purge_memory(&mut self) {}
    fn malloc_stats(&mut self) -> String {
        "fake".into()
    }
}
