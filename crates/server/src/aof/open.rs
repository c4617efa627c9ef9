//! Opens the append-only file: at the start of the server, and when a rewrite turns it on.

use super::{
    Aof, AofCommand, AofEnding, AofItem, AofNews, AofShared, AofWorker, AppendedFiles, BaseSink, FileEnding,
    NamedFiles, NoFiles, RewriteNumber, clock,
};
use crate::host::Host;
use sluice_base::LogLevel;
use sluice_config::choice::AppendFsync;
use sluice_config::{Config, param};
use sluice_control::process::{AofBacklog, AofFiles, AofIncrement, SaveError};
use sluice_engine::Engine;
use sluice_persist::aof::BaseFormat;
use sluice_storage::aof::{Appender, Folder, History, Named, NewBase};
use sluice_storage::plain_error;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

impl Host {
    /// Opens the append-only file after the data were loaded. Errors: a line for the log.
    pub fn open_aof_at_start(&mut self, engine: &mut Engine, mut folder: Folder) -> Result<(), String> {
        folder.create()?;
        let is_new = folder.manifest().base().is_none() && folder.manifest().incr().is_empty();
        let base = if is_new { self.write_first_base(engine, &mut folder) } else { Ok(()) };
        let opened = base.and_then(|()| folder.open_to_append());
        // The log names files that were moved aside even if opening fails.
        folder.take_warnings().iter().for_each(|line| self.note(LogLevel::Warning, line));
        let (file, line) = opened?;
        self.note(LogLevel::Notice, &line);
        let position = engine.aof_position();
        let appender = Appender::new(file, position)
            .map_err(|error| format!("Can't open the append-only file: {}", plain_error(&error)))?;
        self.start_aof(engine.config(), folder, appender, (Named::Now, None))
    }

    /// Writes the base of a new append-only file from the loaded data.
    fn write_first_base(&mut self, engine: &mut Engine, folder: &mut Folder) -> Result<(), String> {
        let (early, format) = base_of(engine.config());
        let mut base = NewBase::begin(folder.storage().clone(), folder.path(), format, early, 0)?;
        // Nothing is written into a base of commands. No data were loaded, so such a base is an empty file.
        if format == BaseFormat::Rdb {
            engine.write_aof_base(&mut |piece| base.write(piece), self)?;
        }
        folder.finish_base(base, 0, Named::Now).map_err(|lines| lines.join("; "))?;
        let name = folder
            .manifest()
            .base()
            .map_or_else(String::new, |file| String::from_utf8_lossy(&file.name).into_owned());
        self.note(LogLevel::Notice, &format!("Creating AOF base file {name} on server start"));
        Ok(())
    }

    /// Starts the file's thread.
    fn start_aof(
        &mut self,
        config: &Config,
        folder: Folder,
        appender: Appender,
        (named, cut): (Named, Option<RewriteNumber>),
    ) -> Result<(), String> {
        let waker = self.waker.clone().ok_or("The append-only file is opened once the server runs")?;
        let shared = Arc::new(AofShared::default());
        let policy = config.choice::<AppendFsync>(param::APPENDFSYNC);
        // The first command removes files that earlier rewrites have replaced.
        shared.give(AofItem::Command(AofCommand::History(History::of(config))));
        shared.give(AofItem::Command(AofCommand::Delay(self.aof.delay)));
        let worker = AofWorker::new(shared.clone(), waker, folder, appender, policy, (named, cut), clock());
        let started = Aof::start(shared, worker, named == Named::Now);
        self.aof.open = Some(
            started.map_err(|error| format!("Can't start the thread of the AOF: {}", plain_error(&error)))?,
        );
        Ok(())
    }

    /// Checks whether the append-only file can be turned on, if the configuration turns it on. Errors: a
    /// text for the client.
    pub fn prepare_aof(&mut self, config: &Config) -> Result<(), String> {
        if !config.bool(param::APPENDONLY) || self.aof.open.is_some() {
            return Ok(());
        }
        // The former thread must have ended first, because only one thread at a time may use the folder.
        self.await_closing_aof();
        let folder = Folder::read(self.storage.clone(), config);
        let prepared = folder.map_err(|lines| lines.join("; ")).and_then(|mut folder| {
            folder.create()?;
            // The increment is created only to see whether it can be created. When the rewrite begins, it is
            // created again.
            let made = folder.create_incr(Named::WithBase);
            folder.remove_temporary_incr();
            made.map(drop)
        });
        prepared.map_err(|line| {
            self.note(LogLevel::Warning, &line);
            "Unable to turn on AOF. Check server logs.".to_owned()
        })
    }

    /// Implements [`sluice_control::process::AppendOnlyFile::switch_increment`]. Errors: a line for the log.
    pub fn switch_increment_file(
        &mut self,
        increment: AofIncrement,
        config: &Config,
        pending: Vec<u8>,
        position: u64,
    ) -> Result<AofBacklog, String> {
        self.aof.rewrite = self.aof.rewrite.next();
        let named = match (&self.aof.open, increment) {
            (Some(aof), AofIncrement::Next) => {
                aof.give(pending, position);
                let is_strict = config.choice::<AppendFsync>(param::APPENDFSYNC) == AppendFsync::Always;
                return Ok(aof.begin_incr(self.aof.rewrite, is_strict));
            }
            (_, AofIncrement::First | AofIncrement::Next) => Named::WithBase,
            (_, AofIncrement::None) => Named::Never,
        };
        // The append-only file may be off, or open in another directory. Both directories are claimed
        // until the former thread has ended.
        let mut directories = vec![std::env::current_dir().unwrap_or_default()];
        directories.extend(self.aof.directory().filter(|open| *open != directories[0]));
        self.claim_with_aof(config, &directories)?;
        // The former thread must have ended first, because only one thread at a time may use the folder.
        self.end_aof(Vec::new(), position);
        let opened = self.open_after_cut(named, config, position);
        self.apply_claims(config);
        opened.map(|()| AofBacklog::Fine)
    }

    /// Claims the files that are written from now on, after an append-only file was opened or closed.
    pub fn apply_claims(&mut self, config: &Config) {
        if let Err(line) = self.claim_data(config) {
            self.note(LogLevel::Warning, &line);
        }
    }

    /// Opens the increment that begins at the cut of a rewrite (the moment whose data are in the rewrite's
    /// base), in a folder that no thread uses.
    fn open_after_cut(&mut self, named: Named, config: &Config, position: u64) -> Result<(), String> {
        let folder = Folder::read(self.storage.clone(), config).map_err(|lines| lines.join("; "));
        let mut folder = folder?;
        let (file, name) = folder.open_after_cut(named, &mut |text| self.note(LogLevel::Notice, &text))?;
        if named == Named::WithBase {
            self.note(LogLevel::Notice, &format!("Creating AOF incr file {name} on background rewrite"));
        }
        let appender = Appender::new(file, position)
            .map_err(|error| format!("Can't open the append-only file {name}: {}", plain_error(&error)))?;
        self.start_aof(config, folder, appender, (named, Some(self.aof.rewrite)))
    }

    /// Ends the file's thread after it has written `pending`, which ends at `position`. Returns how the
    /// thread has ended; `None` if there was no thread.
    pub fn end_aof(&mut self, pending: Vec<u8>, position: u64) -> Option<AofEnding> {
        self.begin_end_of_aof(pending, position);
        self.await_closing_aof()
    }

    /// Orders the file's thread to end after it has written `pending`, which ends at `position`. Waits for
    /// a former thread that is still ending.
    pub fn begin_end_of_aof(&mut self, pending: Vec<u8>, position: u64) {
        let Some(aof) = self.aof.open.take() else { return };
        self.await_closing_aof();
        aof.give(pending, position);
        aof.begin_end();
        self.aof.closing = Some(aof);
    }

    /// Waits for the ending thread. Returns how the thread has ended; `None` if no thread was ending.
    pub fn await_closing_aof(&mut self) -> Option<AofEnding> {
        let aof = self.aof.closing.take()?;
        let shared = aof.shared().clone();
        let ending = aof.await_end();
        for news in shared.take_news() {
            match news {
                AofNews::Log(level, line) => self.note(level, &line),
                // The process ends at once. No reply has been sent whose effects are not durable, and
                // none is sent any more.
                AofNews::Fatal => std::process::exit(1),
                AofNews::Fault(_)
                | AofNews::Latency(..)
                | AofNews::IncrBegun(..)
                | AofNews::BaseFinished(..) => {}
            }
        }
        Some(ending)
    }

    /// Breaks off a rewrite when the server ends. Otherwise the rewrite's thread would have no time to remove
    /// the unfinished file.
    pub fn break_off_rewrite(&mut self) {
        if self.snapshots.break_off_rewrite() {
            let line = "Background AOF rewrite was stopped by the shutdown; the old AOF files are kept";
            self.note(LogLevel::Notice, line);
        }
    }

    /// Implements [`sluice_control::process::AppendOnlyFile::aof_files`].
    pub fn list_aof_files(&mut self, config: &Config, pending: Vec<u8>, position: u64) -> Box<dyn AofFiles> {
        if let Some(aof) = &self.aof.open {
            let (asker, answer) = sync_channel(1);
            aof.give(pending, position);
            aof.order(AofCommand::ListFiles(asker));
            return Box::new(AppendedFiles(answer));
        }
        self.await_closing_aof();
        match Folder::read(self.storage.clone(), config) {
            Ok(folder) => Box::new(NamedFiles::of(&folder, FileEnding::Left)),
            Err(lines) => Box::new(NoFiles(lines)),
        }
    }

    /// Begins the base file of a rewrite.
    pub fn create_aof_base(&mut self, as_commands: bool, sync_early: bool) -> Result<BaseSink, SaveError> {
        let Some(aof) = &self.aof.open else {
            return Err(SaveError("There is no append-only file".to_owned()));
        };
        let format = if as_commands { BaseFormat::Commands } else { BaseFormat::Rdb };
        let (path, written) = (aof.path().to_owned(), aof.written());
        let number = self.snapshots.count();
        let base =
            NewBase::begin(self.storage.clone(), &path, format, sync_early, number).map_err(SaveError)?;
        Ok(BaseSink::new(self.aof.rewrite, base, written))
    }
}

/// How a base is written: whether the file is synced while it is written, and the format.
fn base_of(config: &Config) -> (bool, BaseFormat) {
    let format = match config.bool(param::AOF_USE_RDB_PREAMBLE) {
        true => BaseFormat::Rdb,
        false => BaseFormat::Commands,
    };
    (config.bool(param::AOF_REWRITE_INCREMENTAL_FSYNC), format)
}
