//! How the main thread begins a load, follows it, and ends it.

use crate::cluster::imports::{LOADED, RESTARTED, fail_imports};
use crate::core::Core;
use crate::persistence::loading::aof::replay::replay;
use crate::persistence::rewriting::Rewrites;
use crate::replication::replicas::ReplicaFeeds;
use crate::waiting::ending::WaitEnds;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_cluster::OpenSlotList;
use sluice_config::param;
use sluice_control::action::Action;
use sluice_control::between_units::BetweenUnits;
use sluice_control::persistence::loading::{
    LoadEnded, LoadPlan, LoadPurpose, LoadSource, LoadUnderWay, LoadedFrom, OldData,
};
use sluice_control::process::{AofFiles, Process};
use sluice_keyspace::{Access, AccessUpdate, ExpiryMode};
use sluice_snapshot::{Duplicates, LoadOutcome, NotLoaded};
use std::time::Duration;

/// Steps of the load that is under way, on the main thread.
pub(crate) struct Loads<'a> {
    core: &'a mut Core,
}

impl<'a> Loads<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> Loads<'a> {
        Loads { core }
    }
}

impl Loads<'_> {
    /// As [`Engine::begin_load_at_start`](crate::engine::Engine::begin_load_at_start).
    pub(crate) fn begin_load_at_start(&mut self, process: &mut dyn Process) -> Result<bool, NotLoaded> {
        let name = self.core.control.config.bytes(param::DBFILENAME).to_vec();
        let mut source = process.snapshot_source(&name);
        let opened = source.open().map_err(|reason| {
            let text = format!("Opening the RDB file {} failed: {reason}", name.escape_ascii());
            process.log(LogLevel::Warning, &text);
            NotLoaded::Failed
        })?;
        if opened.is_none() {
            return Ok(false);
        }
        let plan = LoadPlan::new(LoadPurpose::Start, OldData::Freed, Duplicates::Refused);
        self.begin_load_of(LoadSource::Snapshot(source), plan, process.now());
        Ok(true)
    }

    /// As [`Engine::begin_aof_load_at_start`](crate::engine::Engine::begin_aof_load_at_start).
    pub(crate) fn begin_aof_load_at_start(&mut self, files: Box<dyn AofFiles>, process: &mut dyn Process) {
        let plan = LoadPlan::new(LoadPurpose::Start, OldData::Freed, Duplicates::Refused);
        self.begin_load_of(LoadSource::Aof(files, replay), plan, process.now());
    }

    pub(crate) fn begin_load_of(&mut self, source: LoadSource, plan: LoadPlan, now: Now) {
        let job = self.core.control.begin_load(source, self.core.keyspace.empty_twin(), plan, now);
        self.core.actions.push(Action::Load(Box::new(job)));
    }

    /// As [`Engine::advance_load`](crate::engine::Engine::advance_load), without the work that follows:
    /// reporting the open slots to the cluster, serving clients that have waited, and the link's step.
    pub(crate) fn advance_load_under_way(
        &mut self,
        process: &mut dyn Process,
    ) -> Option<(LoadEnded, Option<OpenSlotList>)> {
        let load = self.core.control.persistence.load.as_ref()?;
        if !self.core.control.between_units(BetweenUnits::Load) {
            return None;
        }
        let news = load.progress.take_news();
        // Before the header is accepted, only the reason of a failure is reported.
        if news.is_accepted {
            self.free_old_data(process);
        }
        for (level, line) in news.lines {
            process.log(level, &line);
        }
        let outcome = news.outcome?;
        let load = self.core.control.persistence.load.take()?;
        Some(self.end_load(*load, outcome, process))
    }

    /// Frees the old data once the file's header was accepted, before a second data set takes memory. Does
    /// nothing if the old data are kept until the end of the load; at the start of the server there are none.
    fn free_old_data(&mut self, process: &mut dyn Process) {
        let Some(load) =
            self.core.control.persistence.load.as_mut().filter(|load| load.plan.old == OldData::Freed)
        else {
            return;
        };
        if load.plan.purpose == LoadPurpose::Start {
            return process.log(LogLevel::Verbose, "RDB signature and version check passed");
        }
        load.has_freed = true;
        process.log(LogLevel::Notice, "RDB signature and version check passed. Flushing old data");
        self.core.refresh_derived();
        let now = process.now();
        let twin = self.core.keyspace.empty_twin();
        self.core.keyspace.dataset(access_between_units(now), &mut self.core.effects).replace(twin);
        self.core.commit_unasked(now);
    }

    fn end_load(
        &mut self,
        load: LoadUnderWay,
        mut outcome: LoadOutcome,
        process: &mut dyn Process,
    ) -> (LoadEnded, Option<OpenSlotList>) {
        let open_slots = take_open_slots(&mut outcome, process);
        self.core.refresh_derived();
        let now = process.now();
        let mut data = self.core.keyspace.dataset(access_between_units(now), &mut self.core.effects);
        let loaded = self.core.control.install(outcome, &load, &mut data, process);
        self.core.refresh_derived();
        self.core.commit_unasked(now);
        self.core.control.persistence.rewriting.awaited_file = None;
        let has_all =
            load.plan.is_of_file && loaded.is_ok() && self.core.control.persistence.last_load.skipped == 0;
        self.core.control.persistence.loaded_file_at = has_all.then_some(self.core.control.persistence.dirty);
        self.core.announce_loaded(now);
        // Requests that were postponed during the load, such as commands of the primary, can run now.
        self.core.control.clients.blocking.release_postponed();
        match load.plan.purpose {
            LoadPurpose::Sync => {
                if loaded.is_ok() || load.has_freed {
                    ReplicaFeeds::of(self.core).leave_history(process);
                }
                if loaded.is_err() {
                    Rewrites::of(self.core).begin_aof_again();
                }
                (LoadEnded::Sync(loaded), loaded.is_ok().then_some(open_slots))
            }
            LoadPurpose::Start => {
                if loaded.is_ok() {
                    fail_imports(self.core, RESTARTED, process);
                    let spent = Duration::from_nanos(now.mono_ns.saturating_sub(load.began.mono_ns));
                    let what = match load.from {
                        LoadedFrom::Snapshot => "disk",
                        LoadedFrom::Aof => "append only file",
                    };
                    let text = format!("DB loaded from {what}: {:.3} seconds", spent.as_secs_f64());
                    process.log(LogLevel::Notice, &text);
                }
                (LoadEnded::Start(loaded), None)
            }
            LoadPurpose::Debug(client) => {
                let failed = load.from.failed();
                if loaded.is_ok() {
                    fail_imports(self.core, LOADED, process);
                }
                match loaded {
                    Ok(()) => process.log(LogLevel::Notice, load.from.done()),
                    Err(_) => self.core.stats.count_error(&failed.wire()),
                }
                WaitEnds::of(self.core).end_wait(client, process, |reply| match loaded {
                    Ok(()) => reply.ok(),
                    Err(_) => reply.error(&failed.wire()),
                });
                (LoadEnded::Debug, None)
            }
        }
    }
}

impl Core {
    /// As [`Engine::is_loading`](crate::engine::Engine::is_loading).
    pub(crate) fn is_loading(&self) -> bool {
        self.control.persistence.load.is_some()
    }
}

/// The open slots that a file of a primary of a cluster contains. A malformed text fails the load.
fn take_open_slots(outcome: &mut LoadOutcome, process: &mut dyn Process) -> OpenSlotList {
    let Ok(brought) = &mut outcome.result else { return OpenSlotList::default() };
    let Some(text) = brought.slot_states.take() else { return OpenSlotList::default() };
    OpenSlotList::parse(&text).unwrap_or_else(|| {
        let line = "The field cluster-slot-states of the snapshot cannot be read: the snapshot is not loaded";
        process.log(LogLevel::Warning, line);
        outcome.result = Err(NotLoaded::Failed);
        OpenSlotList::default()
    })
}

/// Access for exchanging databases without a command.
fn access_between_units(now: Now) -> Access {
    Access { now, touch: AccessUpdate::No { fresh: 0 }, expiry: ExpiryMode::Delete, must_obey: false }
}
