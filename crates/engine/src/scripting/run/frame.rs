//! The frame of a call: fields of a session and of an execution unit that are replaced while a script's call
//! runs.

use crate::exec::standing::Standing;
use crate::exec::unit::Unit;
use sluice_base::Now;
use sluice_commands::ReplyMode;
use sluice_replication::Audience;
use sluice_resp::{Outbox, Protocol};
use sluice_session::Session;

/// The saved fields of the client's session and the unit.
#[must_use = "the session and the unit are the call's until it is left"]
pub(super) struct CallFrame {
    outbox: Outbox,
    proto: Protocol,
    reply: ReplyMode,
    standing: Standing,
}

/// Protocol, receivers and time of a called command.
pub(super) struct FrameSettings {
    /// Protocol of the reply to the script.
    pub(super) proto: Protocol,
    /// Receivers of the command's writes; `None` for no receivers.
    pub(super) audience: Option<Audience>,
    /// Time that TIME replies with, if it differs from the unit's. Keys still expire by the unit's time.
    pub(super) told_now: Option<Now>,
}

impl CallFrame {
    /// Replaces the fields for a call. The command writes its reply into `reply`.
    pub(super) fn enter(
        settings: &FrameSettings,
        reply: Outbox,
        session: &mut Session,
        unit: &mut Unit,
    ) -> CallFrame {
        let frame = CallFrame {
            outbox: std::mem::replace(&mut session.outbox, reply),
            proto: std::mem::replace(&mut session.caller.proto, settings.proto),
            reply: std::mem::replace(&mut session.caller.reply, ReplyMode::On),
            standing: std::mem::replace(&mut unit.standing, Standing::Script),
        };
        unit.audience = settings.audience;
        // Messages to the client itself are not part of the reply.
        unit.client_proto = Some(frame.proto);
        unit.told_now = settings.told_now;
        frame
    }

    /// Restores the fields. Returns the reply of the call.
    #[must_use]
    pub(super) fn leave(self, session: &mut Session, unit: &mut Unit) -> Outbox {
        unit.audience = Some(Audience::All);
        (unit.client_proto, unit.told_now) = (None, None);
        unit.standing = self.standing;
        (session.caller.proto, session.caller.reply) = (self.proto, self.reply);
        std::mem::replace(&mut session.outbox, self.outbox)
    }
}
