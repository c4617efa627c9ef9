//! A unit that stands open: an EXEC that stands still between two of its commands, or a script that has used
//! up its slice, and goes on in a later iteration.
//!
//! Invariants: (1) while a unit stands open, the gate postpones the commands of everybody else, and nothing
//! of [`BetweenUnits`](sluice_control::between_units::BetweenUnits) happens; (2) the unit owns what it has
//! done, and commits that as one at its end; (3) a unit that has begun is finished whatever becomes of its
//! client: only the reply is lost.

mod lifecycle;

use crate::exec::unit::{StoodStill, Unit};
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_resp::Outbox;
use sluice_scripts::run::ScriptRun;
use sluice_session::Session;
use sluice_session::blocking::Waiting;

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    /// The unit, with what it has done.
    pub unit: Unit,
    /// Whose it is.
    pub client: SessionKey,
    /// Where it stands still.
    pub at: StoodStill,
    /// What is written of its reply: the client is sent the whole at the end.
    pub reply: Outbox,
    /// Messages of its commands to its own client: they come behind the whole reply.
    pub own_messages: Outbox,
    /// Time that EXEC itself has taken so far, ns; its commands have theirs.
    pub spent_ns: u64,
    /// The request, of a client that has gone.
    pub request: Option<Box<Waiting>>,
    /// The session, of a client that has gone.
    pub orphan: Option<Box<Session>>,
}

impl OpenUnit {
    /// A debugger has stopped its script.
    pub(crate) fn is_stopped(&self) -> bool {
        self.at.script.as_ref().is_some_and(|run| run.is_stopped())
    }

    /// Bytes that the allocator has given.
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

/// Bytes of a run beside its machine.
fn script_bytes(run: &ScriptRun) -> usize {
    let debugger = run.debugger.as_ref().map_or(0, |debugger| debugger.footprint());
    let library = run.library.as_ref().map_or(0, |load| load.footprint());
    run.reply.footprint() + run.buffers.footprint() + debugger + library
}
