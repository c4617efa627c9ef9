//! A check of the gate: whom the check asks, what it sees and answers.

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

/// Why a command is rejected, in the words of a client and of a script.
#[derive(Debug)]
pub struct Rejection {
    /// The error of a client's reply, and of a script's call where scripts have no words of their own.
    pub error: CmdError,
    /// The text of the error of a script's call, without a code.
    pub in_script: Option<Cow<'static, str>>,
}

impl Rejection {
    /// A check would have a command wait that cannot.
    pub(super) const CANNOT_WAIT: Rejection = Rejection {
        error: CmdError::text("ERR This command cannot wait inside a transaction or a script"),
        in_script: None,
    };

    /// A rejection that scripts alone meet.
    pub(super) const fn of_call(text: &'static str) -> Rejection {
        Rejection { error: CmdError::text(text), in_script: Some(Cow::Borrowed(text)) }
    }
}

/// What the gate answers.
pub enum Verdict {
    /// The command runs.
    Run(Permit),
    /// The command is rejected.
    Reject(Rejection),
    /// The command is rejected, because the user may not run it.
    Deny(Denial),
    /// The command is kept for EXEC.
    Queue,
    /// The command waits for the end of what stands in its way.
    Postpone,
}

impl Verdict {
    /// A rejection in one wording for clients and scripts.
    pub(super) fn reject(error: CmdError) -> Verdict {
        Verdict::Reject(Rejection { error, in_script: None })
    }
}

/// What a check sees.
pub struct Asked<'a> {
    /// The command.
    pub spec: &'static Spec,
    /// Its arguments.
    pub args: Args<'a>,
    /// The command's flags; for EXEC, those of all commands queued as well.
    pub flags: Flags,
    /// The session that asks.
    pub session: &'a Session,
    /// The client of the session.
    pub caller: &'a Caller,
    /// The control plane.
    pub control: &'a Control,
    /// The data, to look at.
    pub keyspace: &'a Keyspace,
    /// The time.
    pub now: Now,
    /// Whether there is room for more: asked only when the limit is set.
    pub room: Headroom,
    /// In whose name the command would run.
    pub standing: Standing,
    /// The script that calls the command.
    pub call: Option<CallRights>,
}

impl<'a> Asked<'a> {
    /// A session's request at a moment; `script`: the flags of the script that the command runs, as far as
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

    /// Whether the request came before this server's role changed, and has waited since for something that is
    /// not over: another server to take over, or the end of a CLIENT PAUSE. A script's call never waits.
    pub(super) fn waits_through_failover(&self) -> bool {
        let is_in_progress =
            self.control.replication.failover.as_ref().is_some_and(|failover| failover.is_in_progress);
        let has_waited = self.session.was_postponed && self.standing == Standing::Client;
        has_waited && (is_in_progress || self.control.clients.pause.active(self.now))
    }

    /// Whether the command may change data. Of a script without flags nothing is known.
    pub(super) fn may_write(&self) -> bool {
        let is_unknown = runs_script(self.spec) && self.flags.has(Flags::MAY_REPLICATE);
        self.flags.has(Flags::WRITE) || is_unknown
    }

    /// Whether the command writes, and is no write of a script that has written before: a script that is half
    /// done is not failed.
    pub(super) fn begins_write(&self) -> bool {
        self.flags.has(Flags::WRITE) && self.call.is_none_or(|call| !call.has_written)
    }

    /// Whether the command begins to write, or is a PING by which a client asks whether writes are taken.
    pub(super) fn begins_write_or_asks_for_health(&self) -> bool {
        self.begins_write() || self.spec.id == connection::PING.id && self.call.is_none()
    }
}

/// What a command does that runs the script of these flags, or none.
pub(crate) fn flags_of_call(spec: &Spec, script: Option<ScriptFlags>) -> Flags {
    script.map_or(spec.flags, |script| flags_of_script(spec.flags, script))
}

/// The flags of a command whose script declares its own. A script without flags does what its command says.
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

/// Whose command asks, as the gate tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A client's request. EXEC is one, asked with the flags of all that is queued.
    Client,
    /// What this server's primary sends: the primary has decided on it.
    Primary,
    /// A command that MULTI has queued, at EXEC.
    Queued,
    /// A script's call.
    Call,
    /// A call of a script that this server's primary has decided on. Calls of a log's scripts are asked
    /// nothing.
    ObeyedCall,
    /// What the source of a move of slots to this server sends: it was decided there, and must be about
    /// those slots. The target of a move from this server says nothing but words about the move.
    Import,
}

impl Asker {
    pub(super) const ALL: [Asker; 6] =
        [Asker::Client, Asker::Primary, Asker::Queued, Asker::Call, Asker::ObeyedCall, Asker::Import];

    /// The asker of the requests of such a client.
    pub(super) fn of(kind: ClientKind) -> Asker {
        match kind {
            ClientKind::Normal | ClientKind::Replica | ClientKind::Log => Asker::Client,
            ClientKind::Primary => Asker::Primary,
            ClientKind::SlotImport | ClientKind::SlotExport => Asker::Import,
        }
    }
}

/// Whose commands a check concerns, and when a script's call is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Askers {
    /// One bit for each `Asker`.
    pub(super) bits: u8,
    /// Where the check comes among those of a script's call; 0 where no call is asked. Counted in tens, so
    /// that a new check needs no other number changed.
    pub(super) position_in_call: u8,
}

impl Askers {
    pub(super) const NONE: Askers = Askers { bits: 0, position_in_call: 0 };
    pub(super) const CLIENT: Askers = Askers { bits: 1 << Asker::Client as u8, position_in_call: 0 };

    /// Scripts alone, at a position.
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

/// One check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    /// The name, for the test that prints the order.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test below"))]
    pub(super) name: &'static str,
    /// Whether the check can concern this command.
    pub(super) concerns: fn(&Spec) -> bool,
    /// Whether the check can reject a command in this state of the server.
    pub(super) armed: fn(&Control) -> bool,
    /// Whether the check can reject this session anything, whatever the state of the server, so that a
    /// session with restrictions slows no other.
    pub(super) armed_for: fn(&Session) -> bool,
    /// Whose commands the check concerns.
    pub(super) askers: Askers,
    /// The answer; `None` lets the command pass. Must be `None` in a state in which the check is not armed.
    pub(super) ask: fn(&Asked<'_>) -> Option<Verdict>,
}

/// What a script may do that calls a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRights {
    /// The script has said that it writes nothing.
    pub is_read_only: bool,
    /// There was no memory when the script began, it has not said that it does without, and it has not
    /// written yet.
    pub is_full: bool,
    /// The script has written: what could fail it half done is not asked any more.
    pub has_written: bool,
    /// The script was decided on elsewhere.
    pub is_obeyed: bool,
    /// The script is in a log: its calls were decided on before the log was written.
    pub is_replayed: bool,
}

/// Why a command that may not wait may not run.
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
