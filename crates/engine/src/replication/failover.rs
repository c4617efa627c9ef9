//! The steps of FAILOVER on the server that hands over.

use crate::core::Core;
use crate::replication::maintenance::Notices;
use crate::replication::role::RoleChanges;
use sluice_base::LogLevel;
use sluice_base::mistake::{self, Mistake};
use sluice_control::process::Process;
use sluice_control::replication::acks::has_reached;
use sluice_control::replication::failover::FailoverTarget;
use sluice_control::replication::role::RoleWanted;
use sluice_replication::Primary;
use sluice_session::{ReplicaState, Session};

/// Result of looking at a failover that waits.
enum FailoverStep {
    Wait,
    GiveUp,
    HandOver(FailoverTarget, &'static str),
}

/// The steps of a FAILOVER.
pub(crate) struct FailoverSteps<'a> {
    core: &'a mut Core,
}

impl<'a> FailoverSteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> FailoverSteps<'a> {
        FailoverSteps { core }
    }
}

impl FailoverSteps<'_> {
    /// If the role that was asked for has been taken up, releases the held writes and returns `true`: the
    /// caller then serves clients that have waited.
    pub(crate) fn takes_up_asked_role(&mut self) -> bool {
        let replication = &mut self.core.control.replication;
        let is_taken_up = replication.failover_asked && replication.role_wanted.is_none();
        if is_taken_up {
            replication.failover_asked = false;
            self.core.control.clients.blocking.release_postponed();
        }
        is_taken_up
    }

    pub(crate) fn take_failover_step(&mut self, process: &mut dyn Process) {
        match self.failover_step(process) {
            FailoverStep::Wait => {}
            FailoverStep::GiveUp => {
                self.give_failover_up("Replica never caught up before timeout", None, process);
            }
            FailoverStep::HandOver(target, why) => self.hand_over(target, why, process),
        }
    }

    fn failover_step(&self, process: &mut dyn Process) -> FailoverStep {
        let control = &self.core.control;
        let Some(failover) =
            control.replication.failover.as_ref().filter(|failover| !failover.is_in_progress)
        else {
            return FailoverStep::Wait;
        };
        let now_ms = process.recent().mono_ns / 1_000_000;
        if failover.deadline_ms.is_some_and(|deadline_ms| now_ms >= deadline_ms) {
            return match &failover.target {
                Some(target) if failover.force => FailoverStep::HandOver(target.clone(), TIME_IS_OVER),
                Some(_) | None => FailoverStep::GiveUp,
            };
        }
        // The handover waits for migrations, because they delete keys, and the deletions are part of the
        // stream.
        if control.clients.migrations.are_under_way() {
            return FailoverStep::Wait;
        }
        // The target must have reached the current end of the stream, not the end at the time of FAILOVER,
        // because a REPLCONF GETACK sent since then is part of the stream. Without it the target would not
        // know the offset from which this server resumes. Replicas acknowledge once a second.
        let has_all = |replica: ReplicaState| {
            let is_there = replica.is_online() && replica.is_counted();
            let has_end = has_reached(replica.acked, control.replication.stream.offset);
            is_there && (has_end || mistake::is_made(Mistake::HandedOverEarly))
        };
        let found = match &failover.target {
            Some(target) => {
                control.replica_at(target, &self.core.sessions).is_some_and(has_all).then(|| target.clone())
            }
            None => {
                let mut sessions =
                    control.replication.stream.replicas.iter().filter_map(|key| self.core.sessions.get(*key));
                // A replica that has announced no port cannot be followed.
                let can_lead = |session: &&Session| {
                    session.caller.replica_address().1 > 0
                        && session.caller.replica_state().is_some_and(has_all)
                };
                sessions.find(can_lead).map(FailoverTarget::of)
            }
        };
        found.map_or(FailoverStep::Wait, |target| FailoverStep::HandOver(target, IS_SYNCED))
    }

    /// Asks the target to take over, and makes this server follow it from now on.
    fn hand_over(&mut self, target: FailoverTarget, why: &str, process: &mut dyn Process) {
        let FailoverTarget { host, port } = target.clone();
        let Ok(port) = u16::try_from(port) else {
            return self.give_failover_up("the target's port is invalid", None, process);
        };
        process.log(LogLevel::Notice, &why.replace("{}", &format!("{host}:{port}")));
        if let Some(failover) = self.core.control.replication.failover.as_mut() {
            failover.target = Some(target);
            failover.is_in_progress = true;
        }
        self.core.control.replication.role_wanted =
            Some(RoleWanted { primary: Some(Primary { host, port }), by: String::new(), keeps_data: true });
        RoleChanges::of(self.core).apply_role(process);
    }

    /// Ends the failover, whose target has taken over. The caller then serves clients that have waited.
    pub(crate) fn note_handed_over(&mut self, process: &mut dyn Process) {
        if let Some(failover) = self.core.control.replication.failover.take() {
            // The notification precedes the replies to commands that wait, so that a client that gets
            // READONLY knows the new address.
            let mut notices = Notices::of(self.core, None, process);
            notices.tell_failed_over(&failover);
            notices.tell_moving(Some(failover.asked_by));
            RoleChanges::of(self.core).unblock_for_role(process);
            self.core.control.clients.blocking.release_postponed();
        }
    }

    /// Called after a command, and after the end of a suspended transaction or script: ends a failover that a
    /// client has aborted, and notifies clients of a failover that has begun. `caller` is the session that
    /// runs the command.
    #[inline]
    pub(crate) fn apply_failover(&mut self, caller: Option<&Session>, process: &mut dyn Process) {
        let failover = self.core.control.replication.failover.as_deref();
        if failover.is_some_and(|failover| failover.is_aborted) {
            self.give_failover_up("Failover manually aborted", caller, process);
        } else if failover.is_some_and(|failover| failover.told_as.is_none()) {
            Notices::of(self.core, caller, process).tell_failing_over();
        }
    }

    #[cold]
    pub(crate) fn give_failover_up(
        &mut self,
        reason: &str,
        caller: Option<&Session>,
        process: &mut dyn Process,
    ) {
        let Some(failover) = self.core.control.replication.failover.take() else { return };
        let target = match &failover.target {
            Some(FailoverTarget { host, port }) => format!("to {host}:{port} "),
            None => String::new(),
        };
        process.log(LogLevel::Notice, &format!("FAILOVER {target}aborted: {reason}"));
        if failover.is_in_progress {
            self.core.control.replication.role_wanted =
                Some(RoleWanted { primary: None, by: String::new(), keeps_data: true });
            RoleChanges::of(self.core).apply_role(process);
        }
        Notices::of(self.core, caller, process).tell_failed_over(&failover);
        if !mistake::is_made(Mistake::PausedForGood) {
            self.core.control.clients.blocking.release_postponed();
        }
    }
}

const TIME_IS_OVER: &str = "FAILOVER to {} time out exceeded, failing over.";

const IS_SYNCED: &str = "Failover target {} is synced, failing over.";
