//! Reports of the progress of long work.

use crate::core::Core;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_control::observe::progress::under_way::{WorkSources, is_any};
use sluice_control::process::Process;
use sluice_numbers::progress::{ProgressClock, ProgressOutput};

/// Reports the progress of long work to the log and the process from time to time; to be called by the cron.
pub(crate) fn tell_progress(core: &mut Core, now: Now, process: &mut dyn Process) {
    if !is_any(&core.control) {
        if core.upkeep.cron.progress.take().is_some() {
            process.show_progress(&[]);
        }
        return;
    }
    let clock = core.upkeep.cron.progress.get_or_insert_with(|| ProgressClock::new(now.mono_ns));
    let telling = clock.tick(now.mono_ns);
    if telling == ProgressOutput::Nothing {
        return;
    }
    let sources = WorkSources {
        now,
        control: &core.control,
        keyspace: &core.keyspace,
        sessions: &core.sessions,
        job: core.job_state(),
        sync: process.sync(),
    };
    let works = sources.list();
    if telling == ProgressOutput::ProcessAndLog {
        for work in works.iter().filter(|work| work.is_long()) {
            process.log(LogLevel::Notice, &work.to_string());
        }
    }
    process.show_progress(&works);
}
