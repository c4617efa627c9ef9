//! A check of the gate: the kinds of commands that it applies to (`Asker`), what it is told about a command
//! (`Asked`), and its answer (`Verdict`).

use crate::exec::standing::Standing;
use sluice_acl::Denial;
use sluice_base::Now;
use sluice_command::specs::{connection, transactions};
use sluice_command::{Flags, Spec};
use sluice_commands::{Args, CmdError};
use sluice_control::Control;
use sluice_control::upkeep::evict::Headroom;
use sluice_keyspace::Keyspace;
use sluice_scripts::shebang::{ScriptFlags, runs_script};
use sluice_session::{Caller, ClientKind, Session};
use std::borrow::Cow;

/// Proof that the gate let a command pass.
pub struct Permit(pub(super) ());

/// Why a command is rejected, in the wording for a client and for a script.
#[derive(Debug)]
pub struct Rejection {
    /// The error for a client, and for a script's call if scripts have no wording of their own.
    pub error: CmdError,
    /// The text of the error of a script's call, without a code.
    pub in_script: Option<Cow<'static, str>>,
}

impl Rejection {
    /// Rejection of a command that a check would postpone, and that cannot wait.
    pub(super) const CANNOT_WAIT: Rejection = Rejection {
        error: CmdError::text("ERR This command cannot wait inside a transaction or a script"),
        in_script: None,
    };

    /// A rejection that only scripts get.
    pub(super) const fn of_call(text: &'static str) -> Rejection {
        Rejection { error: CmdError::text(text), in_script: Some(Cow::Borrowed(text)) }
    }
}

/// Answer of the gate about a command.
pub enum Verdict {
    /// The command may run once, by this permit.
    Run(Permit),
    /// The command is rejected.
    Reject(Rejection),
    /// The command is rejected, because the user may not run it.
    Deny(Denial),
    /// The command is kept for EXEC.
    Queue,
    /// The command waits until the reason is gone, and the gate is asked again.
    Postpone,
}

impl Verdict {
    /// A rejection with one wording for clients and scripts.
    pub(super) fn reject(error: CmdError) -> Verdict {
        Verdict::Reject(Rejection { error, in_script: None })
    }
}

/// A command that asks to run, as a check sees it.
pub struct Asked<'a> {
    /// Specification of the command.
    pub spec: &'static Spec,
    /// Arguments of the command, its name first.
    pub args: Args<'a>,
    /// Flags of the command, adjusted for the script that it runs; for EXEC, those of all queued commands as
    /// well.
    pub flags: Flags,
    /// The session that asks.
    pub session: &'a Session,
    /// The client of the session.
    pub caller: &'a Caller,
    /// The control plane, for reading.
    pub control: &'a Control,
    /// The data, for reading.
    pub keyspace: &'a Keyspace,
    /// Time at which the command would run.
    pub now: Now,
    /// Whether there is memory below `maxmemory`: computed only if the limit is set.
    pub room: Headroom,
    /// On whose behalf the command would run.
    pub standing: Standing,
    /// The script that calls the command; `None` if none does.
    pub call: Option<CallRights>,
}

impl<'a> Asked<'a> {
    /// A session's request at a moment. `script`: the flags of the script that the command runs, if
    /// they are known.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        spec: &'static Spec,
        args: Args<'a>,
        session: &'a Session,
        control: &'a Control,
        keyspace: &'a Keyspace,
        script: Option<ScriptFlags>,
        now: Now,
        room: Headroom,
    ) -> Asked<'a> {
        let flags = match (&session.transaction, script) {
            (Some(transaction), _) if is_exec(spec) => {
                let conditions = if args.len() > 1 { Flags::READONLY } else { Flags::NONE };
                spec.flags.or(transaction.flags()).or(conditions)
            }
            (_, script) => flags_of_call(spec, script),
        };
        let (caller, standing) = (&session.caller, Standing::Client);
        Asked { spec, args, flags, session, caller, control, keyspace, now, room, standing, call: None }
    }

    /// A command that EXEC is about to run.
    pub(crate) fn queued(
        spec: &'static Spec,
        args: Args<'a>,
        session: &'a Session,
        control: &'a Control,
        keyspace: &'a Keyspace,
        now: Now,
    ) -> Asked<'a> {
        let standing = Standing::Queued;
        Asked { standing, ..Asked::new(spec, args, session, control, keyspace, None, now, Headroom::Enough) }
    }

    /// A command that a script calls.
    pub(crate) fn called(
        spec: &'static Spec,
        args: Args<'a>,
        session: &'a Session,
        control: &'a Control,
        keyspace: &'a Keyspace,
        call: CallRights,
        now: Now,
    ) -> Asked<'a> {
        let room = if call.is_full { Headroom::None } else { Headroom::Enough };
        let (flags, caller, standing) = (spec.flags, &session.caller, Standing::Script);
        Asked { spec, args, flags, session, caller, control, keyspace, now, room, standing, call: Some(call) }
    }

    /// Whether a client's postponed request runs again while a failover is still in progress or a CLIENT
    /// PAUSE is still active. A command of EXEC or of a script never waits.
    pub(super) fn waits_through_failover(&self) -> bool {
        let is_in_progress =
            self.control.replication.failover.as_ref().is_some_and(|failover| failover.is_in_progress);
        let has_waited = self.session.was_postponed && self.standing == Standing::Client;
        has_waited && (is_in_progress || self.control.clients.pause.active(self.now))
    }

    /// Whether the command may change data. A script without flags may.
    pub(super) fn may_write(&self) -> bool {
        let is_unknown = runs_script(self.spec) && self.flags.has(Flags::MAY_REPLICATE);
        self.flags.has(Flags::WRITE) || is_unknown
    }

    /// Whether the command writes, unless it is called by a script that has written already: such a
    /// script must not fail half done.
    pub(super) fn begins_write(&self) -> bool {
        self.flags.has(Flags::WRITE) && self.call.is_none_or(|call| !call.has_written)
    }

    /// Whether the command begins to write, or is a PING by which a client asks whether writes are accepted.
    pub(super) fn begins_write_or_asks_for_health(&self) -> bool {
        self.begins_write() || self.spec.id == connection::PING.id && self.call.is_none()
    }
}

/// Flags of a command, adjusted for the script that it runs, if any.
pub(crate) fn flags_of_call(spec: &Spec, script: Option<ScriptFlags>) -> Flags {
    script.map_or(spec.flags, |script| flags_of_script(spec.flags, script))
}

/// Flags of a command whose script declares its own. A script without declared flags has those
/// of its command.
fn flags_of_script(command: Flags, script: ScriptFlags) -> Flags {
    if script.has(ScriptFlags::COMPATIBLE) {
        return command;
    }
    let judged = Flags::STALE.or(Flags::DENYOOM).or(Flags::WRITE).or(Flags::MAY_REPLICATE);
    let mut flags = command.without(judged);
    let writes = !script.has(ScriptFlags::NO_WRITES);
    if writes {
        flags = flags.or(Flags::WRITE);
    }
    if writes && !script.has(ScriptFlags::ALLOW_OOM) {
        flags = flags.or(Flags::DENYOOM);
    }
    if script.has(ScriptFlags::ALLOW_STALE) {
        flags = flags.or(Flags::STALE);
    }
    flags
}

/// Kinds of commands that the gate distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A client's request, including EXEC, which is checked with the flags of all queued commands.
    Client,
    /// A command from this server's primary, which has checked it.
    Primary,
    /// A command that MULTI has queued, when EXEC is about to run it.
    Queued,
    /// A command called by a script that a client runs.
    Call,
    /// A command called by a script that this server's primary has sent. Commands called by scripts in a
    /// loaded append-only file are not checked.
    ObeyedCall,
    /// A command from the source of a move of slots to this server: the source has checked it, and it must be
    /// about the moved slots. The target of a move from this server is checked in the same way; it may only
    /// send messages about the move.
    Import,
}

impl Asker {
    pub(super) const ALL: [Asker; 6] =
        [Asker::Client, Asker::Primary, Asker::Queued, Asker::Call, Asker::ObeyedCall, Asker::Import];

    /// The asker for the requests of a client of this kind.
    pub(super) fn of(kind: ClientKind) -> Asker {
        match kind {
            ClientKind::Normal | ClientKind::Replica | ClientKind::Log => Asker::Client,
            ClientKind::Primary => Asker::Primary,
            ClientKind::SlotImport | ClientKind::SlotExport => Asker::Import,
        }
    }
}

/// The askers that a check concerns, and its place in the order for a script's call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Askers {
    /// One bit for each `Asker`.
    pub(super) bits: u8,
    /// Position of the check in the order for a command that a script calls; 0 if the check is not made for
    /// such commands. Numbered in tens, so that a new check changes no other number.
    pub(super) position_in_call: u8,
}

impl Askers {
    pub(super) const NONE: Askers = Askers { bits: 0, position_in_call: 0 };
    pub(super) const CLIENT: Askers = Askers { bits: 1 << Asker::Client as u8, position_in_call: 0 };

    /// Only calls of scripts, at this position.
    pub(super) const fn calls(position: u8) -> Askers {
        Askers { bits: 0, position_in_call: 0 }.and_calls(position).and(Asker::ObeyedCall)
    }

    pub(super) const fn and(self, asker: Asker) -> Askers {
        Askers { bits: self.bits | 1 << asker as u8, ..self }
    }

    pub(super) const fn and_calls(self, position: u8) -> Askers {
        Askers { position_in_call: position, ..self.and(Asker::Call) }
    }

    pub(super) const fn has(self, asker: Asker) -> bool {
        self.bits & 1 << asker as u8 != 0
    }
}

/// A check of the gate: the commands and states that it applies to, its askers, and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    /// The check's name, for the test that prints the order.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test below"))]
    pub(super) name: &'static str,
    /// Whether the check can concern this command.
    pub(super) concerns: fn(&Spec) -> bool,
    /// Whether the check can reject or hold back a command in this state of the server.
    pub(super) armed: fn(&Control) -> bool,
    /// Whether the check can reject or hold back requests of this session, in any state of the server. Only
    /// this session pays for such a check, because each session has its own mask of these checks.
    pub(super) armed_for: fn(&Session) -> bool,
    /// The askers that the check concerns.
    pub(super) askers: Askers,
    /// The answer; `None` lets the command pass. Must be `None` in a state in which the check is not armed.
    pub(super) ask: fn(&Asked<'_>) -> Option<Verdict>,
}

/// State of a script that limits the commands that it calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRights {
    /// The script has declared that it writes nothing.
    pub is_read_only: bool,
    /// There was no memory when the script began, the script has not declared `allow-oom`, and it has not
    /// written yet. With `script-deny-oom-calls`, the condition is that there is no memory now.
    pub is_full: bool,
    /// The script has written: checks that could stop it half done are not asked any more.
    pub has_written: bool,
    /// The script was sent by this server's primary, or is in a log.
    pub is_replicated: bool,
    /// The script is in a log: its calls were checked before the log was written.
    pub is_replayed: bool,
}

/// Why a command that cannot wait may not run.
pub(crate) enum NotPermitted {
    /// A check has rejected the command.
    Rejected(Rejection),
    /// The client's user may not run the command.
    Denied(Denial),
}

/// Whether the command is EXEC.
pub(super) fn is_exec(spec: &Spec) -> bool {
    spec.id == transactions::EXEC.id
}
