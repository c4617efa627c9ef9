//! The list of jobs, those under way and those that have ended.

use super::JobName;
use super::job::{ImportJob, ImportState};
use crate::slots::HashSlot;
use std::collections::VecDeque;

/// Jobs, the newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct MoveLog {
    jobs: VecDeque<ImportJob>,
    /// Something has happened to a job that its next look at the map may answer.
    pub(crate) wants_look: bool,
}

impl MoveLog {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ImportJob> {
        self.jobs.iter()
    }

    /// The newest job of a name: names of finished jobs may come again.
    pub(crate) fn find(&mut self, name: JobName) -> Option<&mut ImportJob> {
        self.jobs.iter_mut().find(|job| job.name() == name)
    }

    /// The job of a name that is not finished.
    pub(crate) fn unfinished(&mut self, name: JobName) -> Option<&mut ImportJob> {
        self.find(name).filter(|job| !job.state.is_finished())
    }

    /// Names of the jobs that this node carries out by connections of its own and that may still fail.
    pub(crate) fn open(&self) -> Vec<JobName> {
        self.jobs.iter().filter(|job| job.state.is_open()).map(ImportJob::name).collect()
    }

    /// Names of the jobs that are not finished and that this node carries out.
    pub(crate) fn of_this_node(&self) -> Vec<JobName> {
        let is_own =
            |job: &&ImportJob| !job.state.is_finished() && job.state != ImportState::OccurringOnPrimary;
        self.jobs.iter().filter(is_own).map(ImportJob::name).collect()
    }

    /// Whether a job that is not finished has this slot.
    pub(crate) fn has_slot(&self, slot: HashSlot) -> bool {
        self.jobs.iter().any(|job| !job.state.is_finished() && job.slots.contains(slot))
    }

    pub(crate) fn add(&mut self, job: ImportJob) {
        self.jobs.push_front(job);
        self.wants_look = true;
    }

    /// Adds a job that is older than all.
    pub(crate) fn add_oldest(&mut self, job: ImportJob) {
        self.jobs.push_back(job);
        self.wants_look = true;
    }

    pub(crate) fn clear(&mut self) {
        self.jobs.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Forgets finished jobs from the tail on, until the list is no longer than `len_max`.
    pub(crate) fn trim(&mut self, len_max: usize) {
        let mut at = self.jobs.len();
        while self.jobs.len() > len_max && at > 0 {
            at -= 1;
            if self.jobs[at].state.is_finished() {
                self.jobs.remove(at);
            }
        }
    }
}
