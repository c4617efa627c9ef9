//! The open unit: an EXEC that is suspended between two of its commands, or a script that has used up its
//! slice or was stopped by its debugger. It goes on in a later iteration.
//!
//! Invariants: (1) while a unit is open, the gate postpones or rejects the commands of all other clients,
//! except for acknowledgements of replicas, and no work of
//! [`BetweenUnits`](sluice_control::between_units::BetweenUnits) is done; (2) the unit owns the commands that
//! it has recorded, and commits them as one at its end; (3) a unit that has begun is finished even if its
//! client is gone, and only the reply is lost; but a script that has written nothing is then ended early.

mod lifecycle;

use crate::exec::unit::{Suspension, Unit};
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_resp::Outbox;
use sluice_scripts::run::ScriptRun;
use sluice_session::Session;
use sluice_session::blocking::Waiting;

/// A suspended EXEC or script, with its unit. The top of this file describes it.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    /// The unit, with the commands that it has recorded.
    pub unit: Unit,
    /// Key of the client that sent the command.
    pub client: SessionKey,
    /// Where the run is suspended.
    pub at: Suspension,
    /// The part of the reply that is written so far: the client is sent the whole reply when the unit ends.
    pub reply: Outbox,
    /// Messages that the unit's commands sent to its own client: they follow the whole reply.
    pub own_messages: Outbox,
    /// Time of EXEC itself so far, ns, without the time of its commands.
    pub spent_ns: u64,
    /// The request, if the client has gone.
    pub request: Option<Box<Waiting>>,
    /// The session, if the client has gone.
    pub orphan: Option<Box<Session>>,
}

impl OpenUnit {
    /// Whether a debugger has stopped the script.
    pub(crate) fn is_stopped(&self) -> bool {
        self.at.script.as_ref().is_some_and(|run| run.is_stopped())
    }

    /// Bytes of heap memory that the open unit takes without the Lua machine, as the allocator rounds them.
    pub(crate) fn footprint(&self) -> usize {
        let commands = self.unit.commands.as_deref().map_or(0, |commands| commands.footprint_boxed());
        let request = self.request.as_deref().map_or(0, Waiting::footprint);
        let orphan = self.orphan.as_deref().map_or(0, Session::footprint);
        let transaction = self.at.transaction.as_ref().map_or(0, |position| position.transaction.footprint());
        let script = self.at.script.as_ref().map_or(0, |run| script_bytes(run));
        let at = transaction + script + self.reply.footprint() + self.own_messages.footprint();
        heap::boxed::<OpenUnit>() + commands + request + orphan + at
    }
}

/// Bytes of a script's run without the Lua machine.
fn script_bytes(run: &ScriptRun) -> usize {
    let debugger = run.debugger.as_ref().map_or(0, |debugger| debugger.footprint());
    let library = run.library.as_ref().map_or(0, |load| load.footprint());
    run.reply.footprint() + run.buffers.footprint() + debugger + library
}
