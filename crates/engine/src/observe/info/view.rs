//! What INFO looks at.

use crate::control::Control;
use crate::host::process::Facts;
use crate::observe::stats::Stats;
use crate::persistence::background::JobState;
use crate::scripting::state::ScriptFacts;
use crate::session::{Session, Sessions};
use sluice_base::Now;
use sluice_keyspace::Keyspace;

/// What a section may look at.
pub(crate) struct View<'a> {
    /// The time.
    pub now: Now,
    /// The session that asks; missing in `sessions` for the time being.
    pub asker: &'a Session,
    /// All other sessions.
    pub sessions: &'a Sessions,
    /// Configuration, logs, replicas.
    pub control: &'a Control,
    /// Counters.
    pub stats: &'a Stats,
    /// The data.
    pub keyspace: &'a Keyspace,
    /// What is written in the background.
    pub job: Option<JobState>,
    /// What scripts take.
    pub scripts: ScriptFacts,
    /// What the process knows.
    pub facts: &'a Facts,
}

impl<'a> View<'a> {
    /// The replicas, in order of arrival.
    pub(crate) fn replicas(&self) -> Vec<&'a Session> {
        let (asker, sessions) = (self.asker, self.sessions);
        let find = |key| if key == asker.key { Some(asker) } else { sessions.get(key) };
        let found = self.control.replicas().into_iter().filter_map(find);
        found.filter(|session| session.caller.replica.is_some()).collect()
    }
}
