//! The list of jobs, unfinished and finished ones.

use super::JobName;
use super::export_job::{ExportJob, ExportState};
use super::job::{ImportJob, ImportState, MigrationRow};
use crate::id::NodeId;
use crate::slots::{HashSlot, SlotSet};
use std::collections::VecDeque;

/// A job of this node, or one that was reported to it.
#[derive(Clone, Debug)]
enum MoveJob {
    Import(ImportJob),
    Export(ExportJob),
}

impl MoveJob {
    fn is_finished(&self) -> bool {
        match self {
            MoveJob::Import(job) => job.state.is_finished(),
            MoveJob::Export(job) => job.state.is_finished(),
        }
    }
}

/// All jobs, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct MoveLog {
    jobs: VecDeque<MoveJob>,
    /// Exports that have ended in this step.
    pub(crate) ended: Vec<JobName>,
    /// Whether an event has changed a job so that the map must be checked again.
    pub(crate) wants_look: bool,
}

impl MoveLog {
    fn imports(&self) -> impl Iterator<Item = &ImportJob> {
        self.jobs.iter().filter_map(|job| match job {
            MoveJob::Import(job) => Some(job),
            MoveJob::Export(_) => None,
        })
    }

    /// Moves from this node.
    pub(crate) fn exports(&self) -> impl Iterator<Item = &ExportJob> {
        self.jobs.iter().filter_map(|job| match job {
            MoveJob::Export(job) => Some(job),
            MoveJob::Import(_) => None,
        })
    }

    /// Moves to this node, or to its primary.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ImportJob> {
        self.imports()
    }

    /// The rows of CLUSTER GETSLOTMIGRATIONS at the node `me`.
    pub(crate) fn rows(&self, me: NodeId) -> impl Iterator<Item = MigrationRow<'_>> {
        self.jobs.iter().map(move |job| match job {
            MoveJob::Import(job) => job.row(me),
            MoveJob::Export(job) => job.row(me),
        })
    }

    /// The newest import with this name, because names of finished jobs may be used again.
    pub(crate) fn find(&mut self, name: JobName) -> Option<&mut ImportJob> {
        self.jobs.iter_mut().find_map(|job| match job {
            MoveJob::Import(job) if job.name() == name => Some(job),
            MoveJob::Import(_) | MoveJob::Export(_) => None,
        })
    }

    /// The unfinished import with this name.
    pub(crate) fn unfinished(&mut self, name: JobName) -> Option<&mut ImportJob> {
        self.find(name).filter(|job| !job.state.is_finished())
    }

    /// The newest export with this name.
    pub(crate) fn export(&mut self, name: JobName) -> Option<&mut ExportJob> {
        self.jobs.iter_mut().find_map(|job| match job {
            MoveJob::Export(job) if job.name() == name => Some(job),
            MoveJob::Import(_) | MoveJob::Export(_) => None,
        })
    }

    /// The unfinished export with this name.
    pub(crate) fn unfinished_export(&mut self, name: JobName) -> Option<&mut ExportJob> {
        self.export(name).filter(|job| !job.state.is_finished())
    }

    /// The names of all unfinished exports.
    pub(crate) fn unfinished_exports(&self) -> Vec<JobName> {
        self.exports().filter(|job| !job.state.is_finished()).map(ExportJob::name).collect()
    }

    /// The slots of all unfinished exports. O(jobs + slots of the exports).
    pub(crate) fn exported(&self) -> SlotSet {
        let mut exported = SlotSet::EMPTY;
        let unfinished = self.exports().filter(|job| !job.state.is_finished());
        unfinished.flat_map(|job| job.slots.iter()).for_each(|slot| _ = exported.insert(slot));
        exported
    }

    /// The slots that targets of exports may claim.
    pub(crate) fn granted(&self) -> impl Iterator<Item = HashSlot> + '_ {
        let granted = self.exports().filter(|job| job.state == ExportState::FailoverGranted);
        granted.flat_map(|job| job.slots.iter())
    }

    /// The names of the imports that this node carries out with its own connections and that may still fail.
    pub(crate) fn open(&self) -> Vec<JobName> {
        self.imports().filter(|job| job.state.is_open()).map(ImportJob::name).collect()
    }

    /// The names of the unfinished imports that this node carries out.
    pub(crate) fn of_this_node(&self) -> Vec<JobName> {
        let is_own =
            |job: &&ImportJob| !job.state.is_finished() && job.state != ImportState::OccurringOnPrimary;
        self.imports().filter(is_own).map(ImportJob::name).collect()
    }

    /// The slots of all unfinished imports. O(jobs + slots of the imports).
    pub(crate) fn imported(&self) -> SlotSet {
        let mut imported = SlotSet::EMPTY;
        let unfinished = self.imports().filter(|job| !job.state.is_finished());
        unfinished.flat_map(|job| job.slots.iter()).for_each(|slot| _ = imported.insert(slot));
        imported
    }

    pub(crate) fn add(&mut self, job: ImportJob) {
        self.jobs.push_front(MoveJob::Import(job));
        self.wants_look = true;
    }

    pub(crate) fn add_export(&mut self, job: ExportJob) {
        self.jobs.push_front(MoveJob::Export(job));
        self.wants_look = true;
    }

    /// Adds a job that is older than all others.
    pub(crate) fn add_oldest(&mut self, job: ImportJob) {
        self.jobs.push_back(MoveJob::Import(job));
        self.wants_look = true;
    }

    pub(crate) fn clear(&mut self) {
        self.jobs.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Removes the oldest finished jobs until the list has at most `len_max` jobs, or only unfinished ones
    ///
    pub(crate) fn trim(&mut self, len_max: usize) {
        let mut at = self.jobs.len();
        while self.jobs.len() > len_max && at > 0 {
            at -= 1;
            if self.jobs[at].is_finished() {
                self.jobs.remove(at);
            }
        }
    }
}
