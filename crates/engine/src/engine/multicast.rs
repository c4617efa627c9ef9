//! Messages to groups of connections: how clients join and leave a group, and how the server takes the
//! messages that are listed for a group.

use crate::engine::Engine;
use sluice_base::SessionKey;
use sluice_control::process::Process;
use sluice_subscriptions::multicast::{GroupLists, GroupOutput, Listing, Multicasts, OutputGroup};

impl Engine {
    /// From now on, messages to this client may be listed together with messages to other clients of its
    /// group. The client's outbox must be sent by the same thread as the lists, after them.
    pub fn join_group(&mut self, key: SessionKey, group: OutputGroup) {
        let Multicasts { groups, clients, .. } = &mut self.core.control.clients.multicasts;
        if groups.len() <= usize::from(group.0) {
            groups.resize_with(usize::from(group.0) + 1, GroupLists::default);
        }
        if clients.len() <= key.slot as usize {
            clients.resize(key.slot as usize + 1, Listing::default());
        }
        clients[key.slot as usize] = Listing { group: Some(group), ..Listing::default() };
    }

    /// Takes a client out of its group, so that messages to it are no longer listed with others. The lists
    /// must be taken before the client's connection moves to another group.
    pub fn leave_group(&mut self, key: SessionKey) {
        if let Some(listing) = self.core.control.clients.multicasts.clients.get_mut(key.slot as usize) {
            *listing = Listing::default();
        }
    }

    /// Takes the messages listed for clients of a group, to be sent before any outbox of these clients
    /// that is taken later. `None` when nothing is listed any more. The bytes count against the output
    /// limits until [`Engine::sent`].
    #[inline]
    pub fn take_multicast(&mut self, process: &mut dyn Process) -> Option<GroupOutput> {
        if self.core.control.clients.multicasts.are_pending { take_listed(self, process) } else { None }
    }
}

#[inline(never)]
fn take_listed(engine: &mut Engine, process: &mut dyn Process) -> Option<GroupOutput> {
    let (group, multicasts) = engine.core.control.clients.multicasts.take()?;
    let mut receivers = 0;
    for key in multicasts.iter().flat_map(|multicast| &multicast.receivers) {
        let Some(session) = engine.core.sessions.get_mut(*key) else { continue };
        let Some(bytes) = engine.core.control.clients.multicasts.taken(*key) else { continue };
        receivers += 1;
        session.output_peak = session.output_peak.max(bytes);
        engine.core.stats.output_peaks.note(session.in_flight);
        if session.output_bytes() >= engine.core.control.limits.output_floor {
            engine.check_output_limit(*key, process);
        }
    }
    Some(GroupOutput { group, multicasts, receivers })
}
