//! Invalidations for clients that track prefixes: sent in slices, between two commands or transactions.

use crate::pubsub::delivery::Delivery;
use sluice_base::SessionKey;
use sluice_control::process::Process;
use sluice_subscriptions::tracking::TrackingMode;
use sluice_subscriptions::tracking::broadcast::{BroadcastsUnderWay, ViewId};
use sluice_subscriptions::tracking::table::Tracker;

impl Delivery<'_> {
    /// Reports changed keys to the clients that track their prefixes, for a slice of time. Each client gets
    /// the keys that its user may read now. If too many keys have changed, these clients drop all copies
    /// instead.
    pub(super) fn broadcast(&mut self, process: &mut dyn Process) {
        let mut under_way = std::mem::take(&mut self.control.clients.tracking.broadcasts);
        let mut until_ns = None;
        loop {
            let prefixes = &mut self.control.clients.tracking.prefixes;
            if prefixes.is_beyond() {
                under_way.give_up(prefixes.take_changed());
                self.drop_copies(|mode| mode == TrackingMode::Broadcast);
            } else if !under_way.is_idle() {
                self.broadcast_some(&mut under_way);
            } else if prefixes.has_changed() {
                under_way.begin(prefixes.take_changed());
            } else {
                break;
            }
            let now_ns = process.now().mono_ns;
            if now_ns >= *until_ns.get_or_insert(now_ns.saturating_add(SLICE_NS)) {
                break;
            }
        }
        self.control.clients.tracking.broadcasts = under_way;
    }

    /// Does a part of the work: frees memory, checks some names for a user, or sends a piece to some clients.
    fn broadcast_some(&mut self, under_way: &mut BroadcastsUnderWay) {
        if under_way.free_some() {
            return;
        }
        let Some((broadcast, piece, changed)) = under_way.current() else { return };
        if piece.judge_some(changed) {
            return;
        }
        let tracking = &self.control.clients.tracking;
        let trackers = tracking.prefixes.clients_after(broadcast, piece.told).take(CLIENTS_AT_ONCE);
        let trackers: Vec<Tracker> = trackers.collect();
        // The receivers are sorted by view (the names that a user may read), so that the clients of a user
        // are adjacent.
        let mut receivers: Vec<(ViewId, Option<SessionKey>, SessionKey)> = Vec::with_capacity(trackers.len());
        for client in trackers.iter().filter_map(|tracker| tracking.live(*tracker)) {
            let user = self.sessions.get(client.key).map(|session| session.caller.user());
            let Some(view) = user.map_or(Some(ViewId::WHOLE), |user| piece.view_of(user)) else { return };
            let but_of = Some(client.key).filter(|key| client.options.no_loop && piece.has_written(*key));
            receivers.push((view, but_of, client.key));
        }
        receivers.sort_unstable();
        for group in receivers.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let names = piece.names(group[0].0, group[0].1, changed);
            if names.is_empty() {
                continue;
            }
            let told: Vec<Option<&[u8]>> = names.iter().copied().map(Some).collect();
            let targets = group.iter().filter_map(|(_, _, client)| self.target_of(*client, &told));
            let targets: Vec<SessionKey> = targets.collect();
            self.send_names(&targets, &names, false);
        }
        piece.told = trackers.last().copied().or(piece.told);
        if trackers.len() < CLIENTS_AT_ONCE {
            under_way.end_piece();
        }
    }
}

/// Nanoseconds of a slice of sending.
const SLICE_NS: u64 = 1_000_000;

/// Maximum number of clients that are sent a piece between two readings of the clock.
const CLIENTS_AT_ONCE: usize = 1024;
