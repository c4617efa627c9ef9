//! The data that the sections of INFO read.

use super::client_memory::ClientMemory;
use crate::Control;
use crate::persistence::background::JobNumbers;
use sluice_base::Now;
use sluice_keyspace::Keyspace;
use sluice_numbers::facts::Facts;
use sluice_numbers::stats::Stats;
use sluice_scripts::state::ScriptFacts;
use sluice_session::{Session, Sessions};

/// Everything that a section may read.
pub struct View<'a> {
    /// Time of the request.
    pub now: Now,
    /// The session that runs INFO, if any; temporarily missing in `sessions`.
    pub asker: Option<&'a Session>,
    /// All sessions except `asker`.
    pub sessions: &'a Sessions,
    /// Configuration, logs and replicas.
    pub control: &'a Control,
    /// The counters of the engine.
    pub stats: &'a Stats,
    /// The databases with their keys.
    pub keyspace: &'a Keyspace,
    /// Numbers of the background job, if one runs.
    pub job: Option<JobNumbers>,
    /// Memory and counts of scripts.
    pub scripts: ScriptFacts,
    /// Facts about the process.
    pub facts: &'a Facts,
    /// Memory of clients if known; otherwise each client is inspected.
    pub client_memory: Option<ClientMemory>,
}

impl<'a> View<'a> {
    /// The replicas, in the order of [`Control::replicas`].
    pub(crate) fn replicas(&self) -> Vec<&'a Session> {
        let (asker, sessions) = (self.asker, self.sessions);
        let find = |key| asker.filter(|asker| asker.key == key).or_else(|| sessions.get(key));
        let found = self.control.replicas().into_iter().filter_map(find);
        found.filter(|session| session.caller.replica.is_some()).collect()
    }
}
