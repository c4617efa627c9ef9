//! The execution unit: what happens at one moment for everybody else. A command, an EXEC, the service of a client that
//! waited, a deletion by the cron.
//!
//! [`Engine::open_unit`] and [`Engine::close_unit`] are the only way to run handlers: [`Engine::run_command`] wants a
//! [`Unit`], which only this file makes. Consequences come at two levels, in `exec/commit.rs`: after each command, and after
//! the unit.

use crate::engine::Engine;
use crate::exec::commit::CommitUnit;
use crate::exec::standing::Standing;
use crate::replication::unit_commands::Grouping;
use crate::session::Session;
use sluice_base::Now;
use sluice_command::{Flags, Spec};

/// An execution unit under way.
#[derive(Debug)]
#[must_use = "a unit that is not closed leaves its effects to the next one"]
pub(crate) struct Unit {
    /// The time at which the unit happens: keys expire by it.
    pub now: Now,
    /// In whose name its commands run just now.
    pub standing: Standing,
}

impl Engine {
    /// Opens a unit that happens at `now`, for the command of a client.
    #[inline]
    pub(crate) fn open_unit(&mut self, now: Now) -> Unit {
        debug_assert!(self.control.replication.unit_commands.is_empty(), "one unit at a time");
        Unit { now, standing: Standing::Client }
    }

    /// Closes the unit of a command that a session asked for.
    #[inline]
    pub(crate) fn close_unit(&mut self, unit: Unit, session: &mut Session, spec: &'static Spec) {
        let Unit { now, .. } = unit;
        if !self.control.replication.unit_commands.is_empty() {
            let grouping = match spec.flags.has(Flags::TOUCHES_ARBITRARY_KEYS) {
                true => Grouping::Loose,
                false => Grouping::Transaction,
            };
            self.commit_unit(CommitUnit { grouping, now });
            session.durable_at = self.control.persistence.aof.position();
        }
        session.caller.write_offset = self.control.replication.stream.offset;
    }

    /// Closes a unit that no client requested.
    pub(crate) fn close_own_unit(&mut self, unit: Unit) {
        let Unit { now, .. } = unit;
        if !self.control.replication.unit_commands.is_empty() {
            self.commit_unit(CommitUnit { grouping: Grouping::Loose, now });
        }
    }
}
