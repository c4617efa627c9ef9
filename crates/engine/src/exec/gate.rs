//! The gate: checks before a command runs. It is asked for a client's request, for a queued command at
//! EXEC, and for a script's call. Only the gate makes a [`Permit`].
//!
//! Invariants: (1) every reason to hold back or reject a command is one row of one list, `checks::CHECKS`;
//! a client's request is checked in the order of the list, and a script's call in an order that the rows
//! state; a test prints both; (2) each row owns a bit. The engine keeps a word with the bits of the checks
//! that can reject a command in the current state (`Gate::armed`), each session a word with those that can
//! reject its requests, and each spec a word with those that concern the command: a plain command costs one
//! AND; (3) a queued command or a script's call never waits: a check that would postpone it rejects it
//! instead.

mod check;
mod checks;

pub(crate) use self::check::{Asked, CallRights, NotPermitted, Permit, Rejection, Verdict, flags_of_call};
use self::check::{Asker, Check};
use self::checks::{CHECKS, shows_data};
use crate::exec::standing::Standing;
use sluice_command::Spec;
use sluice_command::derive::keys::{is_row_whole, key_row};
use sluice_commands::{Args, Prepared};
use sluice_control::Control;
use sluice_control::cluster::mode::ServedSlots;
use sluice_keyspace::slot_of;
use sluice_session::{AskingState, ClientKind, Session};

/// Bit of the check `rights` in a session's mask: the session's user may not run everything.
pub(crate) const RIGHTS: u32 = 1 << 4;

/// Bit of the check `slots`.
const SLOTS: u32 = 1 << 5;

/// Bit of the check `read-only-script`, which is armed for the calls of one script.
const READ_ONLY_SCRIPT: u32 = 1 << 6;

/// Bit without a check, armed in a cluster: the slots of the command's keys are known from the hashes
/// that were computed when the request was prepared.
const SLOTS_AHEAD: u32 = 1 << 30;

/// Bit without a check, in the mask of a session that has sent ASKING: `Engine::ask_gate` notes to which
/// requests ASKING applies.
const NOTES_ASKING: u32 = 1 << 29;

/// Bit without a check. With `appendfsync always`, replies wait until the data that they show are durable:
/// `Engine::ask_gate` notes the position of the append-only file for which the reply of a command waits.
const NOTES_DURABILITY: u32 = 1 << 31;

/// The checks, and the bits that decide which of them are asked.
#[derive(Debug)]
pub struct Gate {
    checks: &'static [Check],
    /// Bits of the checks that can reject something in the current state.
    armed: u32,
    /// By `ClientKind`: the bits of `armed` that concern the requests of a client of that kind, and bits
    /// without a check.
    armed_for: [u32; ClientKind::ALL.len()],
    /// By `Spec::id`: bits of the checks that concern the command, and bits without a check.
    concerns: Vec<u32>,
    /// By `Asker`: bits of the checks that concern this asker.
    asked: [u32; Asker::ALL.len()],
    /// Indices of the checks of a script's call, in the order in which they are asked.
    call_order: Vec<usize>,
}

/// Bits of the checks for which `holds` is true.
fn bits_of(checks: &[Check], holds: impl Fn(&Check) -> bool) -> u32 {
    checks.iter().enumerate().filter(|(_, check)| holds(check)).fold(0, |bits, (i, _)| bits | 1 << i)
}

impl Gate {
    /// A gate for these specs, which are in the order of their ids.
    pub fn new(specs: &[&'static Spec]) -> Gate {
        Gate::with_checks(CHECKS, specs)
    }

    fn with_checks(checks: &'static [Check], specs: &[&'static Spec]) -> Gate {
        let concerns = |spec: &&'static Spec| {
            let durability = if shows_data(spec) { NOTES_DURABILITY } else { 0 };
            let ahead = if is_row_whole(spec) { SLOTS_AHEAD } else { 0 };
            bits_of(checks, |check| (check.concerns)(spec)) | durability | ahead | NOTES_ASKING
        };
        let position = |at: &usize| checks[*at].askers.position_in_call;
        let mut call_order: Vec<usize> = (0..checks.len()).filter(|at| position(at) > 0).collect();
        call_order.sort_by_key(position);
        Gate {
            checks,
            armed: 0,
            armed_for: [0; ClientKind::ALL.len()],
            concerns: specs.iter().map(concerns).collect(),
            asked: Asker::ALL.map(|asker| bits_of(checks, |check| check.askers.has(asker))),
            call_order,
        }
    }

    /// Recomputes which checks are armed. `Core::recompute_derived` calls this when the control plane has
    /// changed.
    pub(crate) fn rearm(&mut self, control: &Control) {
        let durability = if control.persistence.aof.is_strict() { NOTES_DURABILITY } else { 0 };
        self.armed = bits_of(self.checks, |check| (check.armed)(control));
        let of = |asker: Asker| self.armed & self.asked[asker as usize] | durability;
        let ahead = if control.cluster.is_some() { SLOTS_AHEAD } else { 0 };
        self.armed_for = ClientKind::ALL.map(|kind| match Asker::of(kind) {
            Asker::Client => of(Asker::Client) | ahead,
            asker => of(asker),
        });
    }

    /// Bits of the checks that can reject this session's requests: to be recomputed when the
    /// session has changed.
    #[inline(never)]
    pub(crate) fn session_mask(&self, session: &Session) -> u32 {
        let askers = [Asker::of(session.caller.kind), Asker::Queued, Asker::Call, Asker::ObeyedCall];
        let asked = askers.into_iter().fold(0, |bits, asker| bits | self.asked[asker as usize]);
        let asking = if session.caller.flags.asking == AskingState::No { 0 } else { NOTES_ASKING };
        bits_of(self.checks, |check| (check.armed_for)(session)) & asked | asking
    }

    /// A new session with its mask.
    pub(crate) fn masked(&self, mut session: Session) -> Session {
        session.mask = self.session_mask(&session);
        session
    }

    /// The permit of a command of this standing, or `None` if a check has to be asked first. A script's
    /// call uses `pass_called`.
    #[inline]
    pub(crate) fn pass(&self, spec: &Spec, session: &Session, standing: Standing) -> Option<Permit> {
        let pending = match standing {
            Standing::Client => self.pending(spec, session),
            Standing::Queued => self.pending_inside(spec, session, Asker::Queued),
            // Commands of a log were checked before they were appended.
            Standing::Replay => 0,
            Standing::Script => u32::MAX,
        };
        (pending == 0).then_some(Permit(()))
    }

    /// The permit of a client's request in a cluster, if only the check `slots` has to be asked, and the
    /// prepared hashes show that all keys are in one slot that this node owns.
    #[inline]
    pub(crate) fn pass_own_slot(
        &self,
        spec: &Spec,
        session: &Session,
        first: &Prepared,
        args: Args<'_>,
        served: &ServedSlots,
    ) -> Option<Permit> {
        let is_the_question = self.pending(spec, session) == SLOTS | SLOTS_AHEAD;
        let more = args.hashed_ahead();
        let are_known = key_row(spec).behind_first(args.len()) == more.len();
        let slot = slot_of(first.hash);
        let is_own = served.owns(slot) && more.iter().all(|hash| slot_of(*hash) == slot);
        (is_the_question && first.has_key() && are_known && is_own).then_some(Permit(()))
    }

    /// The permit of a command that a script calls, or `None` if a check has to be asked first.
    #[inline]
    pub(crate) fn pass_called(&self, spec: &Spec, session: &Session, call: CallRights) -> Option<Permit> {
        (call.is_replayed || self.pending_in_call(spec, session, call) == 0).then_some(Permit(()))
    }

    /// Bits of the checks that are armed and concern the request of a client or of another server.
    #[inline]
    fn pending(&self, spec: &Spec, session: &Session) -> u32 {
        (self.armed_for[session.caller.kind as usize] | session.mask) & self.concerns_of(spec)
    }

    /// Bits of the checks that are armed and concern a command of EXEC or of a script.
    #[inline]
    fn pending_inside(&self, spec: &Spec, session: &Session, asker: Asker) -> u32 {
        (self.armed | session.mask) & self.concerns_of(spec) & self.asked[asker as usize]
    }

    #[inline]
    fn pending_in_call(&self, spec: &Spec, session: &Session, call: CallRights) -> u32 {
        let asker = if call.is_replicated { Asker::ObeyedCall } else { Asker::Call };
        let own = if call.is_read_only { READ_ONLY_SCRIPT & self.concerns_of(spec) } else { 0 };
        self.pending_inside(spec, session, asker) | own
    }

    #[inline]
    fn concerns_of(&self, spec: &Spec) -> u32 {
        self.concerns.get(spec.id.0 as usize).copied().unwrap_or(u32::MAX)
    }

    /// Asks the checks about a client's request, in the order of the list.
    #[cold]
    pub(crate) fn ask(&self, asked: &Asked<'_>) -> Verdict {
        let asker = Asker::of(asked.caller.kind);
        let mut bits = self.pending(asked.spec, asked.session) & self.asked[asker as usize];
        while let Some(check) = self.checks.get(bits.trailing_zeros() as usize) {
            if let Some(verdict) = (check.ask)(asked) {
                return verdict;
            }
            bits &= bits - 1;
        }
        Verdict::Run(Permit(()))
    }

    /// Asks the checks about a command that EXEC is about to run, in the order of the list, or that a
    /// script calls, in the order of calls.
    ///
    /// # Errors
    /// The reason why the command may not run. Such a command is never postponed.
    #[cold]
    pub(crate) fn ask_inside(&self, asked: &Asked<'_>) -> Result<Permit, NotPermitted> {
        let (bits, order) = match asked.call {
            Some(call) => (self.pending_in_call(asked.spec, asked.session, call), Some(&self.call_order)),
            None => (self.pending_inside(asked.spec, asked.session, Asker::Queued), None),
        };
        for at in 0..order.map_or(self.checks.len(), Vec::len) {
            let index = order.map_or(at, |order| order[at]);
            if bits & 1 << index == 0 {
                continue;
            }
            match (self.checks[index].ask)(asked) {
                Some(Verdict::Reject(rejection)) => return Err(NotPermitted::Rejected(rejection)),
                Some(Verdict::Deny(denial)) => return Err(NotPermitted::Denied(denial)),
                // No check of these askers returns these verdicts; if one did, the command must not run.
                Some(Verdict::Queue | Verdict::Postpone) => {
                    return Err(NotPermitted::Rejected(Rejection::CANNOT_WAIT));
                }
                Some(Verdict::Run(_)) | None => {}
            }
        }
        Ok(Permit(()))
    }
}

#[cfg(test)]
mod tests;
