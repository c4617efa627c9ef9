//! The frame of a call: what of a session and a unit is the call's own while a command runs that a script
//! calls.

use crate::exec::standing::Standing;
use crate::exec::unit::Unit;
use sluice_base::Now;
use sluice_commands::ReplyMode;
use sluice_replication::Audience;
use sluice_resp::{Outbox, Protocol};
use sluice_session::Session;

/// What the client's session and the unit had before the call.
#[must_use = "the session and the unit are the call's until it is left"]
pub(super) struct CallFrame {
    outbox: Outbox,
    proto: Protocol,
    reply: ReplyMode,
    standing: Standing,
}

/// The form in which a called command answers, and the receivers of its writes.
pub(super) struct FrameSettings {
    /// The protocol of the reply.
    pub(super) proto: Protocol,
    /// The receivers of what the command writes; none: nobody.
    pub(super) audience: Option<Audience>,
    /// The time that the command is told where it is not the unit's. Keys expire by the unit's still.
    pub(super) told_now: Option<Now>,
}

impl CallFrame {
    /// Makes session and unit the call's. The command writes its reply into `reply`.
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
        // Messages to the client itself are no part of the reply.
        unit.client_proto = Some(frame.proto);
        unit.told_now = settings.told_now;
        frame
    }

    /// Gives session and unit back. The reply of the call.
    #[must_use]
    pub(super) fn leave(self, session: &mut Session, unit: &mut Unit) -> Outbox {
        unit.audience = Some(Audience::All);
        (unit.client_proto, unit.told_now) = (None, None);
        unit.standing = self.standing;
        (session.caller.proto, session.caller.reply) = (self.proto, self.reply);
        std::mem::replace(&mut session.outbox, self.outbox)
    }
}
