//! How execution units are opened and closed.
//!
//! Handlers run only within a unit, between [`Core::begin_unit`] and [`Core::close_unit`], because
//! `Engine::run_command` takes a [`Unit`]. Effects are committed at two levels, in `exec/commit.rs`: after
//! each command, and after the unit.

use super::Unit;
use crate::core::Core;
use crate::exec::commit::CommitUnit;
use sluice_base::Now;
use sluice_command::{Flags, Spec};
use sluice_replication::{Grouping, UnitCommands};
use sluice_session::Session;

impl Core {
    /// Opens a unit that happens at `now`, for the command of a client.
    #[inline]
    pub(crate) fn begin_unit(&mut self, now: Now) -> Unit {
        debug_assert_eq!(
            self.derived.epoch,
            self.control.epoch.now(),
            "the effects would not record what somebody listens to"
        );
        Unit::new(now)
    }

    /// Closes the unit of a session's command.
    #[inline]
    pub(crate) fn close_unit(&mut self, mut unit: Unit, session: &mut Session, spec: &'static Spec) {
        if let Some(commands) = unit.commands.take() {
            let grouping = match spec.flags.has(Flags::TOUCHES_ARBITRARY_KEYS) {
                true => Grouping::Separate,
                false => Grouping::Transaction,
            };
            self.commit_commands(commands, grouping, unit.now);
            session.durable_at = self.control.persistence.aof.position();
        }
        session.caller.write_offset = self.control.replication.stream.offset;
        // There is nothing left to drop, but the compiler does not see that.
        std::mem::forget(unit);
    }

    /// Closes a unit that no client requested.
    pub(crate) fn close_own_unit(&mut self, unit: Unit) {
        if let Some(commands) = unit.commands {
            self.commit_commands(commands, Grouping::Separate, unit.now);
        }
    }

    /// Commits a unit's commands, and keeps their memory for the next unit.
    fn commit_commands(&mut self, mut commands: Box<UnitCommands>, grouping: Grouping, now: Now) {
        debug_assert!(
            !*self.control.clients.unit_stands_open,
            "nothing is committed while a unit stands open"
        );
        if !commands.is_empty() {
            self.commit_unit(CommitUnit { commands: &commands, grouping, now });
        }
        commands.clear();
        self.units.spare_commands = Some(commands);
    }
}
