//! The end of a rewrite of the append-only file, with or without success.

use crate::Control;
use crate::persistence::background::JobNumbers;
use crate::process::{Process, SaveError};
use sluice_base::{LogLevel, Now};

impl Control {
    /// Handles the end of writing a base: has the process install the base, or handles the failure.
    pub fn rewrite_written(
        &mut self,
        state: JobNumbers,
        outcome: Result<(), SaveError>,
        process: &mut dyn Process,
    ) {
        self.persistence.rewriting.last_copied_bytes = state.changed.1;
        match outcome {
            Ok(()) => {
                process.log(LogLevel::Notice, "Background AOF rewrite terminated with success");
                process.end_aof_rewrite(true);
            }
            Err(SaveError(line)) => {
                process.log(LogLevel::Warning, &line);
                process.log(LogLevel::Warning, "Background AOF rewrite terminated with error");
                process.end_aof_rewrite(false);
                self.rewrite_failed(process.recent(), process);
            }
        }
    }

    /// Handles a failed rewrite: after several consecutive failures, the next automatic or scheduled rewrite
    /// begins only after a pause.
    pub fn rewrite_failed(&mut self, now: Now, process: &mut dyn Process) {
        // The setting decides, not whether the file is on, because a rewrite that failed before it began has
        // not turned the file on.
        let waits_for_base = self.wants_aof() && !process.has_aof_base();
        let rewriting = &mut self.persistence.rewriting;
        if let Some(began_s) = rewriting.began_s.take() {
            rewriting.last_s = Some(now.unix_s() - began_s);
        }
        rewriting.failed = true;
        rewriting.failures += 1;
        if rewriting.failures >= FAILURES_FREE {
            let doublings = (rewriting.failures - FAILURES_FREE).min(6);
            let minutes = (1_i64 << doublings).min(REST_MIN_MAX);
            rewriting.rests_until_s = now.unix_s() + minutes * 60;
            let text = format!(
                "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in {minutes} minutes"
            );
            process.log(LogLevel::Warning, &text);
        }
        // Another rewrite is scheduled for a newly enabled append-only file, which still needs a base.
        rewriting.scheduled |= waits_for_base;
        self.leave_aof_if_off(process);
    }

    /// If the append-only file is off, closes the files that a rewrite has left open.
    pub fn leave_aof_if_off(&mut self, process: &mut dyn Process) {
        if !self.persistence.aof.is_on() {
            process.close_aof(&self.config, Vec::new(), self.persistence.aof.position());
        }
    }

    /// Logs, at most once an hour, that the disk has no room for a rewrite.
    pub fn log_disk_too_small(&mut self, free: u64, now: Now, process: &mut dyn Process) {
        let rewriting = &mut self.persistence.rewriting;
        if now.unix_s() >= rewriting.too_small_said_until_s {
            rewriting.too_small_said_until_s = now.unix_s() + TOO_SMALL_SAID_EVERY_S;
            let text = format!(
                "The AOF has grown and the disk has no room for a rewrite: {free} bytes are free, fewer than after the last rewrite"
            );
            process.log(LogLevel::Warning, &text);
        }
    }
}

/// Time between two log lines about the lack of disk space for a rewrite, in seconds.
const TOO_SMALL_SAID_EVERY_S: i64 = 3600;

/// From this number of consecutive failures on, the next automatic or scheduled rewrite begins only after a
/// pause.
const FAILURES_FREE: u32 = 3;

/// Longest pause after failures, in minutes.
const REST_MIN_MAX: i64 = 60;
