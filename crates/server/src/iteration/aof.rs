//! The append-only file in the event loop: opened, fed, listened to, closed.

use super::Server;
use crate::aof::{self, Aof, Appender, Folder, Named, News, Order, Shared, Worker};
use crate::host::Host;
use crate::os::plain_error;
use sluice_config::Config;
use sluice_config::choice::AppendFsync;
use sluice_config::param;
use sluice_engine::LogLevel;
use sluice_persist::aof::BaseFormat;
use std::sync::Arc;

/// The server cannot keep what it is asked to keep; the log says why.
#[derive(Clone, Copy, Debug)]
pub struct NotOpened;

impl Server {
    /// Opens the append-only file where the configuration wants one, behind the data that were loaded.
    pub fn open_aof(&mut self, folder: Option<Folder>) -> Result<(), NotOpened> {
        let Some(folder) = folder else { return Ok(()) };
        self.try_open_aof(folder).map_err(|line| {
            self.host.note(LogLevel::Warning, &line);
            NotOpened
        })
    }

    /// Has the process say something about itself in the log.
    pub fn say(&mut self, what: fn(&mut Host, &Config)) {
        what(&mut self.host, self.engine.config());
    }

    /// Errors: a line for the log.
    fn try_open_aof(&mut self, mut folder: Folder) -> Result<(), String> {
        folder.create()?;
        let is_new = folder.manifest().base().is_none() && folder.manifest().incr().is_empty();
        if is_new {
            self.write_first_base(&mut folder)?;
        }
        let (file, line) = match folder.open_incr()? {
            Some((file, name)) => (file, format!("Opening AOF incr file {name} on server start")),
            None => {
                let (file, name) = folder.create_incr(Named::Now)?;
                (file, format!("Creating AOF incr file {name} on server start"))
            }
        };
        self.host.note(LogLevel::Notice, &line);
        let position = self.engine.aof_position();
        let appender = Appender::new(file, position)
            .map_err(|error| format!("Can't open the append-only file: {}", plain_error(&error)))?;
        self.start_aof(folder, appender, Named::Now)
    }

    /// Writes the base of an append-only file that begins with what was loaded.
    fn write_first_base(&mut self, folder: &mut Folder) -> Result<(), String> {
        let config = self.engine.config();
        let (early, format) = (config.bool(param::AOF_REWRITE_INCREMENTAL_FSYNC), base_format(config));
        let mut base = folder.begin_base(early)?;
        self.engine.write_aof_base(&mut |piece| base.write(piece), &mut self.host)?;
        folder.finish_base(base, format, 0, Named::Now).map_err(|lines| lines.join("; "))?;
        let name = folder
            .manifest()
            .base()
            .map_or_else(String::new, |file| String::from_utf8_lossy(&file.name).into_owned());
        self.host.note(LogLevel::Notice, &format!("Creating AOF base file {name} on server start"));
        Ok(())
    }

    /// Starts the thread of the file, and appends from the next unit on.
    fn start_aof(&mut self, folder: Folder, appender: Appender, named: Named) -> Result<(), String> {
        let shared = Arc::new(Shared::default());
        let waker = self.sockets.event_loop.waker();
        let policy = self.engine.config().choice::<AppendFsync>(param::APPENDFSYNC);
        let mut worker = Worker::new(shared.clone(), waker, folder, appender, policy, named, aof::clock());
        if let Some(garbage) = self.host.bio.as_ref().and_then(|bio| bio.sender()) {
            worker = worker.remove_by(garbage);
        }
        let started = Aof::start(shared.clone(), worker);
        let aof =
            started.map_err(|error| format!("Can't start the thread of the AOF: {}", plain_error(&error)))?;
        self.host.aof = Some(shared);
        self.aof = Some(aof);
        self.engine.begin_aof();
        self.arm_barrier();
        Ok(())
    }

    /// Lets output wait, or not, as `appendfsync` says now.
    pub(super) fn arm_barrier(&mut self) {
        // It goes when nothing waits there any more.
        if self.engine.is_aof_strict() {
            self.barrier.get_or_insert_default();
        }
    }

    /// Takes up `appendfsync`.
    pub(super) fn configure_aof(&mut self) {
        if let Some(aof) = &self.aof {
            aof.order(Order::Policy(self.engine.config().choice::<AppendFsync>(param::APPENDFSYNC)));
        }
        self.arm_barrier();
    }

    /// Gives the file what the iteration has to append, and takes what has happened there.
    pub(super) fn feed_aof(&mut self) {
        let Some(aof) = &self.aof else { return };
        aof.append(&mut self.engine);
        let (durable, news) = (aof.shared().durable(), aof.shared().take_news());
        self.engine.report_aof_durable(durable);
        news.into_iter().for_each(|news| self.take_aof_news(news));
    }

    fn take_aof_news(&mut self, news: News) {
        match news {
            News::Log(level, line) => self.host.note(level, &line),
            News::Fault(fault) => self.engine.report_aof_fault(fault),
            // No reply that is not durable was sent, and none is.
            News::Fatal => std::process::exit(1),
            News::Latency(event, nanos) => self.engine.report_latency(event, nanos, &mut self.host),
            News::IncrBegun(_) | News::BaseFinished(_) => {}
        }
    }

    /// Makes everything durable that was executed; nothing may be executed after this.
    pub(super) fn close_aof(&mut self) {
        let Some(mut aof) = self.aof.take() else { return };
        self.host.note(LogLevel::Notice, "Calling fsync() on the AOF file.");
        aof.append(&mut self.engine);
        aof.end();
        for news in aof.shared().take_news() {
            self.take_aof_news(news);
        }
    }
}

/// How a base is written.
pub(super) fn base_format(config: &Config) -> BaseFormat {
    match config.bool(param::AOF_USE_RDB_PREAMBLE) {
        true => BaseFormat::Rdb,
        false => BaseFormat::Commands,
    }
}
