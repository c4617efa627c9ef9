//! What happens between two units and never while one stands open.
//!
//! A unit that stands still has changed a part of what it will change. Whatever shows the data to somebody
//! who was not there before, or changes the data or their history in a way that the rest of the unit would
//! meet, waits for its end; so do the users of a file, whose rights the rest of the unit would meet, and
//! invalidations that gather in an iteration, which would cut the unit's reply. Each such caller asks
//! [`Control::between_units`], and comes again later when the answer is no: in the next iteration, at the
//! cron, or at the end of the unit (`Engine::end_open_unit`).
//!
//! Not asked is what a queued command of the unit itself does (FLUSHALL saves the empty data, DEBUG RELOAD
//! loads), and what the link to a primary tells of the history of data that were loaded: those commands have
//! no part in it.
//!
//! What goes on meanwhile: messages and notifications, which leave with the command that causes them; the
//! cursor of a cut that was made before, slow reads, timeouts of clients that wait, writing and syncing of
//! closed units, PINGs and acknowledgements of replicas, accepts, the numbers of INFO.

use crate::Control;
use sluice_base::mistake::{self, Mistake};

/// What waits for the end of a unit that stands open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetweenUnits {
    /// The cut of a save.
    Save,
    /// The cut of a rewrite of the append-only file.
    Rewrite,
    /// The cut of a full synchronisation.
    FullSync,
    /// What a load has brought takes the place of the data.
    Load,
    /// This server becomes a replica, a primary, or the replica of another primary; a failover goes on.
    Role,
    /// A history of replication ends, and with it the id.
    History,
    /// Keys that another server has now are deleted.
    Migration,
    /// Keys that have expired are deleted.
    Expiry,
    /// Keys are evicted.
    Eviction,
    /// Clients that wait are served.
    Service,
    /// The server ends, and saves for that.
    End,
    /// The users of a file are put in force: the rest of the unit would meet other rights.
    Users,
    /// This node of a cluster has other slots, another role, other messages.
    Cluster,
    /// Clients that track are told what has gathered: prefixes, keys that make room, what was held back.
    Invalidations,
}

impl BetweenUnits {
    /// All of them.
    const ALL: [BetweenUnits; 14] = [
        BetweenUnits::Save,
        BetweenUnits::Rewrite,
        BetweenUnits::FullSync,
        BetweenUnits::Load,
        BetweenUnits::Role,
        BetweenUnits::History,
        BetweenUnits::Migration,
        BetweenUnits::Expiry,
        BetweenUnits::Eviction,
        BetweenUnits::Service,
        BetweenUnits::End,
        BetweenUnits::Users,
        BetweenUnits::Cluster,
        BetweenUnits::Invalidations,
    ];
}

impl Control {
    /// Whether this may happen now: whether no unit stands open.
    #[inline]
    pub fn between_units(&self, what: BetweenUnits) -> bool {
        let stands_open = *self.clients.unit_stands_open;
        if cfg!(debug_assertions) && stands_open {
            self.clients
                .refused_between_units
                .set(self.clients.refused_between_units.get() | 1 << what as u32);
        }
        let is_forgotten = what == BetweenUnits::Role && mistake::is_made(Mistake::RoleInsideRun);
        !stands_open || is_forgotten
    }

    /// What was refused since the last call because a unit stands open: in builds with assertions alone.
    pub fn take_refused_between_units(&self) -> Vec<String> {
        let refused = self.clients.refused_between_units.take();
        let is_refused = |what: &&BetweenUnits| refused & 1 << **what as u32 != 0;
        BetweenUnits::ALL.iter().filter(is_refused).map(|what| format!("{what:?}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn these_wait_for_the_end_of_a_unit() {
        let list: Vec<String> = BetweenUnits::ALL.iter().map(|what| format!("{what:?}")).collect();
        assert_eq!(
            list.join(" "),
            "Save Rewrite FullSync Load Role History Migration Expiry Eviction Service End Users Cluster Invalidations"
        );
    }
}
