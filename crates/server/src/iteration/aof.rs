//! The append-only file in the event loop: opening it, appending to it, handling the news of its thread, and
//! closing it.

use super::Server;
use crate::aof::{AofCommand, AofEnding, AofNews};
use crate::host::Host;
use sluice_base::LogLevel;
use sluice_config::Config;
use sluice_config::choice::AppendFsync;
use sluice_config::param;
use sluice_storage::aof::{Folder, History};
use std::sync::atomic::Ordering::Relaxed;

/// The append-only file cannot be opened or created; the log has the reason.
#[derive(Clone, Copy, Debug)]
pub struct NotOpened;

impl Server {
    /// Sets the folder that is passed to [`Server::open_aof`] after the load under way has ended.
    pub fn open_when_loaded(&mut self, folder: Option<Folder>) {
        self.folder_to_open = folder;
    }

    /// Begins to serve clients after the data of the start were loaded.
    pub(super) fn serve_loaded(&mut self) -> Result<(), NotOpened> {
        let folder = self.folder_to_open.take();
        self.open_aof(folder)?;
        self.say(crate::start::announce);
        Ok(())
    }

    /// Opens the append-only file after the data were loaded. Does nothing if there is no folder, because the
    /// file is off.
    pub fn open_aof(&mut self, folder: Option<Folder>) -> Result<(), NotOpened> {
        let Some(folder) = folder else { return Ok(()) };
        let opened = self.host.open_aof_at_start(&mut self.engine, folder);
        opened.map_err(|line| {
            self.host.note(LogLevel::Warning, &line);
            NotOpened
        })?;
        self.engine.begin_aof();
        Ok(())
    }

    /// Calls `what`, a function that logs facts about the process.
    pub fn say(&mut self, what: fn(&mut Host, &Config)) {
        what(&mut self.host, self.engine.config());
    }

    /// Applies `appendfsync` and `aof-disable-auto-gc`.
    pub(super) fn configure_aof(&mut self) {
        if let Some(aof) = &self.host.aof.open {
            let config = self.engine.config();
            aof.order(AofCommand::Policy(config.choice::<AppendFsync>(param::APPENDFSYNC)));
            aof.order(AofCommand::History(History::of(config)));
        }
    }

    /// Appends the iteration's effects to the file, and takes the news of the file's thread.
    pub(super) fn feed_aof(&mut self) {
        let Some(aof) = &self.host.aof.open else { return };
        aof.shared().numbers.has_job.store(self.engine.has_job(), Relaxed);
        aof.append(&mut self.engine);
        let (durable, news) = (aof.shared().durable(), aof.shared().take_news());
        let backlog = aof.shared().backlog(self.engine.aof_backlog());
        self.engine.report_aof_backlog(backlog, &mut self.host);
        self.engine.report_aof_durable(durable, &mut self.host);
        news.into_iter().for_each(|news| self.take_aof_news(news));
    }

    fn take_aof_news(&mut self, news: AofNews) {
        match news {
            AofNews::Log(level, line) => self.host.note(level, &line),
            AofNews::Fault(fault) => self.engine.report_aof_fault(fault),
            // The process ends at once. No reply has been sent whose effects are not durable, and none is
            // sent any more.
            AofNews::Fatal => std::process::exit(1),
            AofNews::Latency(event, nanos) => self.engine.report_latency(event, nanos, &mut self.host),
            AofNews::IncrBegun(number, begun) => {
                if !begun && number == self.host.aof.rewrite {
                    self.engine.report_aof_cut_failed(&mut self.host);
                }
            }
            AofNews::BaseFinished(number, is_in_force) => {
                if let Some(aof) = self.host.aof.open.as_mut().filter(|_| is_in_force) {
                    aof.note_base();
                }
                if number == self.host.aof.rewrite {
                    self.engine.report_aof_rewrite(is_in_force, &mut self.host);
                }
            }
        }
    }

    /// Makes the effects of all executed commands durable; no command may be executed after this. Returns
    /// whether all effects are durable, or there is no append-only file. If they are not, and the file is
    /// strict (`is_aof_strict`), the process ends at once.
    pub(super) fn close_aof(&mut self) -> bool {
        // A former append-only file that is still being closed comes first, because its data are older.
        self.host.await_closing_aof();
        let Some(aof) = &self.host.aof.open else { return true };
        aof.append_all(&mut self.engine);
        self.host.note(LogLevel::Notice, "Calling fsync() on the AOF file.");
        let position = self.engine.aof_position();
        let ending = self.host.end_aof(Vec::new(), position);
        let is_durable = ending.is_none_or(|ending| ending == AofEnding::Durable);
        if self.engine.is_aof_strict() && !is_durable {
            // The process ends at once, so that the replies that wait for the file are not sent.
            std::process::exit(1);
        }
        self.engine.report_aof_durable(position, &mut self.host);
        is_durable
    }
}
