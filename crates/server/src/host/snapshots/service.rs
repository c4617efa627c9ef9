//! Snapshots as the engine requests them, for files and for replicas.

use crate::host::Host;
use crate::saving;
use crate::saving::background::{BackgroundSink, BackgroundWriter, WriterHandle, WriterResources};
use crate::saving::snapshot::{AwaitedSnapshot, SnapshotWriter};
use sluice_config::{Config, param};
use sluice_control::process::SnapshotFiles;
use sluice_control::process::{Background, BackgroundFile, SaveError, SnapshotSink};
use sluice_evloop::Waker;
use sluice_replication::{SnapshotPieces, StreamSpool};
use sluice_snapshot::{SnapshotFile, SnapshotSource};
use sluice_storage::plain_error;
use sluice_storage::temporary::scratch_path;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// No further background writer is started while more than this many run. A save that was broken off
/// counts as running while its thread waits for the disk.
const RUNNING_WRITERS_MAX: usize = 4;

impl Host {
    /// The waker for a new background writer. Errors: no writer can be started now.
    fn waker_for_background(&mut self) -> Result<Waker, SaveError> {
        let Some(waker) = self.waker.clone() else {
            return Err(SaveError("Saving in the background begins once the server runs".to_owned()));
        };
        self.snapshots.writers.retain(WriterHandle::runs);
        if self.snapshots.writers.len() > RUNNING_WRITERS_MAX {
            let text = "Earlier saves still wait for the disk, and no other can begin. Check the disk";
            return Err(SaveError(text.to_owned()));
        }
        Ok(waker)
    }

    fn begin_snapshot(&mut self, name: &[u8], sync_early: bool) -> Result<SnapshotWriter, SaveError> {
        let number = self.snapshots.count();
        saving::snapshot::create(&self.storage, name, sync_early, number)
    }
}

impl SnapshotFiles for Host {
    fn create_snapshot(&mut self, name: &[u8], sync_early: bool) -> Result<Box<dyn SnapshotSink>, SaveError> {
        let older = self.snapshots.writers.iter().filter(|writer| writer.is_snapshot()).cloned().collect();
        let number = self.snapshots.count();
        let writer = saving::snapshot::create_awaited(&self.storage, name, sync_early, number)?;
        let temporary = writer.temporary_snapshot();
        let snapshot = Box::new(YoungerSnapshot { writer, older });
        Ok(Box::new(AwaitedSnapshot::new(temporary.as_deref(), snapshot)))
    }

    fn write_in_background(
        &mut self,
        target: BackgroundFile,
        file: SnapshotFile,
    ) -> Result<Box<dyn Background>, SaveError> {
        let waker = self.waker_for_background()?;
        let sink: Box<dyn BackgroundSink> = match target.is_aof_base {
            true => Box::new(self.create_aof_base(target.as_commands, target.sync_early)?),
            false => Box::new(self.begin_snapshot(&target.name, target.sync_early)?),
        };
        let storage = self.storage.clone();
        let scratch = scratch_path(self.snapshots.count());
        let claim = self.claims.share_of_rdb(OsStr::from_bytes(&target.name));
        let resources = WriterResources { storage, scratch, claim };
        let writer = BackgroundWriter::start(file, sink, target.key_delay, resources, waker)?;
        self.snapshots.writers.push(writer.handle());
        Ok(Box::new(writer))
    }

    fn snapshot_for_replicas(
        &mut self,
        replicas: usize,
        key_delay: i64,
        file: SnapshotFile,
    ) -> Result<(Box<dyn Background>, Box<dyn SnapshotPieces>), SaveError> {
        let waker = self.waker_for_background()?;
        let number = self.snapshots.count();
        let path = scratch_path(number);
        let (into, pieces) = saving::spool::for_replicas(&self.storage, path, replicas, waker.clone());
        let storage = self.storage.clone();
        let writer = BackgroundWriter::start_for_replicas(file, into, key_delay, storage, waker)?;
        self.snapshots.writers.push(writer.handle());
        Ok((Box::new(writer), Box::new(pieces)))
    }

    fn spool_stream(&mut self, replicas: usize) -> Result<Box<dyn StreamSpool>, SaveError> {
        let waker = self.waker_for_background()?;
        let path = scratch_path(self.snapshots.count());
        Ok(Box::new(saving::stream_spool::begin(&self.storage, path, replicas, waker)?))
    }

    fn keep_data_files(&mut self, config: &Config, ending: &str) -> Result<Vec<String>, String> {
        let path = |directive| Path::new(OsStr::from_bytes(config.bytes(directive))).to_owned();
        let (folder, log) = (path(param::APPENDDIRNAME), config.bytes(param::APPENDFILENAME));
        sluice_storage::keep_data(self.storage.as_ref(), &path(param::DBFILENAME), (&folder, log), ending)
            .map_err(|error| plain_error(&error))
    }

    fn snapshot_source(&mut self, name: &[u8]) -> Box<dyn SnapshotSource> {
        saving::snapshot::source(&self.storage, name)
    }
}

/// A snapshot that is saved in the foreground while older snapshots may still be written in the
/// background. An older snapshot must not replace this younger one, so the older writers are broken off,
/// but only when the younger snapshot is completely on disk.
struct YoungerSnapshot {
    writer: SnapshotWriter,
    older: Vec<WriterHandle>,
}

impl SnapshotSink for YoungerSnapshot {
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError> {
        SnapshotSink::write(&mut self.writer, piece)
    }

    fn finish(self: Box<Self>) -> Result<(), SaveError> {
        let YoungerSnapshot { writer, older } = *self;
        Box::new(writer).finish_through(&mut |step| {
            older.iter().for_each(WriterHandle::break_off);
            step()
        })
    }
}
