//! Calls by which the process reads the figures of the engine that it shows: the page and the samples of the
//! metrics endpoint.

use crate::engine::Engine;
use crate::observe::page::PageRows;
use sluice_control::observe::info::{LOOKED_AT_MAX, View, sample};
use sluice_control::process::Process;
use sluice_numbers::info::sample::MetricsSample;
use sluice_numbers::page::details::{PageAsk, PageDetails};

impl Engine {
    /// The rows of the page that a sample does not contain. To be called at the same points of an iteration
    /// as [`Engine::metrics_sample`]. Cost: tens of rows, and one hash for each password to check, of which
    /// there are at most [`JUDGED_MAX`](sluice_numbers::page::details::JUDGED_MAX).
    pub fn page_details(&mut self, ask: &PageAsk, process: &mut dyn Process) -> PageDetails {
        PageRows::of(&mut self.core).page_details(ask, process)
    }

    /// All numbers at this moment. To be called between two phases of an iteration, even during a load, a
    /// script or a save. Cost: some system calls, and a step for each field, database and command; at most
    /// `LOOKED_AT_MAX` clients are read.
    pub fn metrics_sample(&mut self, process: &mut dyn Process) -> MetricsSample {
        let facts = process.sample_facts(&self.core.keyspace);
        let is_crowd = self.core.sessions.len() > LOOKED_AT_MAX;
        let view = View {
            now: process.recent(),
            asker: None,
            sessions: &self.core.sessions,
            control: &self.core.control,
            stats: &self.core.stats,
            keyspace: &self.core.keyspace,
            job: self.core.job_state(),
            scripts: self.script_facts(),
            facts: &facts,
            client_memory: self.core.upkeep.cron.client_memory.last.filter(|_| is_crowd),
        };
        sample(&view)
    }
}
