//! What INFO looks at.

use super::client_memory::ClientMemory;
use crate::Control;
use crate::persistence::background::JobNumbers;
use sluice_base::Now;
use sluice_keyspace::Keyspace;
use sluice_numbers::facts::Facts;
use sluice_numbers::stats::Stats;
use sluice_scripts::state::ScriptFacts;
use sluice_session::{Session, Sessions};

/// What a section may look at.
pub struct View<'a> {
    /// The time.
    pub now: Now,
    /// The session that asks, if one does; missing in `sessions` for the time being.
    pub asker: Option<&'a Session>,
    /// All other sessions.
    pub sessions: &'a Sessions,
    /// Configuration, logs, replicas.
    pub control: &'a Control,
    /// Counters.
    pub stats: &'a Stats,
    /// The data.
    pub keyspace: &'a Keyspace,
    /// What is written in the background.
    pub job: Option<JobNumbers>,
    /// What scripts take.
    pub scripts: ScriptFacts,
    /// What the process knows.
    pub facts: &'a Facts,
    /// Memory of clients, where it is known; otherwise each of them is looked at.
    pub client_memory: Option<ClientMemory>,
}

impl<'a> View<'a> {
    /// The replicas, in order of arrival.
    pub(crate) fn replicas(&self) -> Vec<&'a Session> {
        let (asker, sessions) = (self.asker, self.sessions);
        let find = |key| asker.filter(|asker| asker.key == key).or_else(|| sessions.get(key));
        let found = self.control.replicas().into_iter().filter_map(find);
        found.filter(|session| session.caller.replica.is_some()).collect()
    }
}
