//! Clients that wait for keys of slots that leave.

use crate::cluster::driver::ClusterDriver;
use crate::cluster::redirect::end_of_wait;
use crate::waiting::ending::WaitEnds;
use sluice_control::process::Process;
use sluice_session::Session;

impl ClusterDriver<'_> {
    /// Answers the clients that wait for keys of slots which this node does not serve any more, or that the
    /// cluster does not (S-70, S-73). Cost: O(sessions) while one waits for a key.
    pub(super) fn answer_lost_waits(&mut self, process: &mut dyn Process) {
        let Some(mode) = &self.core.control.cluster else { return };
        if !self.core.control.clients.blocking.wants_keys() {
            return;
        }
        let end = |session: &Session| {
            let (spec, error) = end_of_wait(mode, &self.core.control.config, session)?;
            Some((session.key, spec, error))
        };
        let lost: Vec<_> = self.core.sessions.iter().filter_map(end).collect();
        for (client, spec, error) in lost {
            let text = error.wire();
            self.core.stats.count_error(&text);
            self.core.stats.commands[spec.id.0 as usize].rejected += 1;
            WaitEnds::of(self.core).end_wait(client, process, |reply| reply.error(&text));
        }
    }
}
