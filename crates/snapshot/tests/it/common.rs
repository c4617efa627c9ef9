//! Files in memory: loads from bytes, and keyspaces written to bytes.

use sluice_base::{HashSeed, Now};
use sluice_config::Config;
use sluice_keyspace::{KeyHasher, Keyspace, Layout};
use sluice_persist::rdb::{Compression, ReadOptions, Unknown, Version, WriteOptions, Writer};
use sluice_snapshot::{
    Duplicates, FileLoad, LoadOptions, LoadProgress, LoadResult, LoadThread, NotLoaded, RdbAux, Reporter,
    SnapshotSource, options, write,
};
use std::ops::ControlFlow;

/// The time of all loads and files.
pub(crate) const NOW: Now = Now { mono_ns: 1_000_000_000, unix_us: 1_700_000_000_000_000 };

/// The result of a load.
pub(crate) struct Loaded {
    /// The keyspace that was filled, as far as the load got.
    pub keyspace: Keyspace,
    /// Contents of the file other than the keys, or the reason why the load failed.
    pub result: Result<LoadResult, NotLoaded>,
    /// Lines of the log.
    pub log: Vec<String>,
}

/// Loads a file into an empty keyspace, and checks the databases.
pub(crate) fn load(bytes: &[u8]) -> Loaded {
    load_as(bytes, Unknown::Refuse)
}

/// Loads a file into an empty keyspace; types that this server lacks are refused or skipped.
pub(crate) fn load_as(bytes: &[u8], unknown: Unknown) -> Loaded {
    let options = LoadOptions {
        reading: ReadOptions { unknown, ..ReadOptions::default() },
        duplicates: Duplicates::Refused,
        now: NOW,
        lfu: false,
        is_relaxed: unknown == Unknown::Skip,
        piece_bytes: 4096,
        name: b"dump.rdb".to_vec(),
        ends_process: false,
        keeps_expired: false,
        is_checked_on_the_way: false,
        replaces_file: true,
    };
    let hasher = KeyHasher::new(HashSeed { k0: 1, k1: 2 }, Layout::One);
    let mut keyspace = Keyspace::new(16, hasher);
    let (progress, mut source) = (LoadProgress::default(), Bytes { bytes: bytes.to_vec(), at: 0 });
    let mut out = Reporter { progress: &progress, thread: &mut Here };
    let result = FileLoad::new(options).run(&mut source, &mut keyspace, &mut out);
    keyspace.iter().for_each(|(_, db)| db.check());
    let log = progress.take_news().lines.into_iter().map(|(_, line)| line).collect();
    Loaded { keyspace, result, log }
}

impl Loaded {
    /// The lines of the log, joined.
    pub(crate) fn said(&self) -> String {
        self.log.join("; ")
    }
}

/// Writes a keyspace with the default configuration.
pub(crate) fn save(keyspace: &Keyspace) -> Vec<u8> {
    save_as(keyspace, "")
}

/// Writes a keyspace with these lines of configuration.
pub(crate) fn save_as(keyspace: &Keyspace, lines: &str) -> Vec<u8> {
    let mut none = |path: &[u8]| Err(format!("no include here: {path:?}"));
    let config: Config = sluice_config::parse_file(lines.as_bytes(), "test", b"", &mut none).unwrap();
    let about = RdbAux {
        now: NOW,
        used_memory: 0,
        is_aof_base: false,
        stream: None,
        slot_states: None,
        imports: &[],
    };
    let mut file = Vec::new();
    let mut give = |piece: sluice_base::Bytes| {
        file.extend_from_slice(&piece);
        ControlFlow::Continue(())
    };
    let options = options(&config, Version::Valkey);
    write(keyspace, &config, options, &about, Vec::new(), &mut || {}, &mut give);
    file
}

/// A writer of an RDB file with compressed strings and a checksum.
pub(crate) fn writer() -> Writer {
    Writer::new(WriteOptions { version: Version::Valkey, compression: Compression::Strings, checksum: true })
}

/// A file that is read a thousand bytes at a time.
struct Bytes {
    bytes: Vec<u8>,
    at: usize,
}

impl SnapshotSource for Bytes {
    fn open(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.bytes.len() as u64))
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(into.len()).min(1000);
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }

    fn keep(&mut self) -> Result<Option<String>, String> {
        Ok(Some("dump.rdb.as-loaded-1".to_owned()))
    }
}

/// The thread on which a load runs, which is the test's own thread.
struct Here;

impl LoadThread for Here {
    fn wake(&mut self) {}

    fn sleep(&mut self, _: u64) {}

    fn now(&mut self) -> Now {
        NOW
    }
}
