//! Work that runs only between two execution units, never while one is open. A unit is what takes effect at
//! one moment for all other clients: a command, or a transaction or script as a whole. It stays open while it
//! is suspended.
//!
//! A suspended unit has made only a part of its changes. Work that shows the data to a new reader, or that
//! changes the data or its history in a way the rest of the unit would see, waits for the end of the unit.
//! Users loaded from a file wait too, because the rest of the unit would see other rights. Invalidations
//! gathered during an iteration wait, because they would split the unit's reply if they were sent at once.
//! The code for each such kind of work asks [`Control::between_units`]; after a refusal it tries again in the
//! next iteration, in the cron, or at the end of the unit (`Engine::end_open_unit`).
//!
//! Commands of the unit itself do not ask, even if they save or load (FLUSHALL saves the empty data, DEBUG
//! RELOAD loads). The link to a primary does not ask either when it sets the history of loaded data, because
//! that step concerns no command of a unit.
//!
//! The following goes on while a unit is open: messages and notifications, which are sent with the command
//! that causes them; the capturing of entries for a snapshot that began before the unit, slow reads,
//! timeouts of blocked clients, writing and syncing of closed units, PINGs and acknowledgements of
//! replicas, accepts, the numbers of INFO.

use crate::Control;
use sluice_base::mistake::{self, Mistake};

/// Kinds of work that wait for the end of an open unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetweenUnits {
    /// A save begins: its snapshot shows the data of this moment.
    Save,
    /// A rewrite of the append-only file begins: the new base has the data of this moment.
    Rewrite,
    /// A full synchronisation begins: its snapshot shows the data of this moment.
    FullSync,
    /// Loaded data replace the present data.
    Load,
    /// This server becomes a replica or a primary, or follows another primary; a step of a failover.
    Role,
    /// A replication history ends, and its id changes.
    History,
    /// Keys moved to another server by MIGRATE are deleted.
    Migration,
    /// Expired keys are deleted.
    Expiry,
    /// Keys are evicted for `maxmemory`.
    Eviction,
    /// Blocked clients are served.
    Service,
    /// The server ends, with a last save.
    End,
    /// Users loaded from a file take effect; the rest of the unit would see other rights.
    Users,
    /// Decisions of the cluster node take effect: slots, role, published messages.
    Cluster,
    /// Gathered invalidations are sent to tracking clients, for example those for prefixes, and for keys that
    /// were evicted from the tracking table.
    Invalidations,
}

impl BetweenUnits {
    /// All kinds, from which the names of refused kinds are taken.
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
    /// Whether `what` may happen now, that is, whether no unit is open.
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

    /// The kinds refused since the last call because a unit was open. Empty in builds
    /// without debug assertions.
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
