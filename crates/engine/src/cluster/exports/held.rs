//! Who waits while writers of exported slots are held.

use crate::cluster::redirect::{SlotRoute, route_of, route_of_exec};
use crate::exec::gate::{Asked, Verdict};
use sluice_base::mistake::{Mistake, is_made};
use sluice_cluster::HashSlot;
use sluice_command::Flags;
use sluice_command::specs::{cluster, transactions};
use sluice_scripts::shebang::runs_script;

/// Whether a request waits for an export, whatever else it waits for.
pub(crate) fn waits(asked: &Asked<'_>) -> bool {
    let exports = asked.control.cluster.as_deref().map(|mode| mode.exports());
    exports.is_some_and(|exports| exports.may_hold()) && ask(asked).is_some()
}

/// The check `exported` of the gate: a write to slots whose writers are held waits (A-84, H-26). A script
/// that may write waits whatever its keys are: one without a first line may write to any slot.
pub(crate) fn ask(asked: &Asked<'_>) -> Option<Verdict> {
    let exports = asked.control.cluster.as_deref()?.exports();
    if asked.spec.id == cluster::CLUSTER_FLUSHSLOT.id {
        let slot = asked.args.get(2).and_then(sluice_base::num::parse_i64);
        let slot = slot.and_then(|number| u16::try_from(number).ok()).and_then(HashSlot::new);
        return slot.is_some_and(|slot| exports.hold(slot)).then_some(Verdict::Postpone);
    }
    let is_exec = asked.spec.id == transactions::EXEC.id;
    let may_replicate = asked.flags.has(Flags::MAY_REPLICATE);
    let writes = asked.flags.has(Flags::WRITE) || may_replicate && !asked.spec.flags.has(Flags::PUBSUB);
    if !writes || !exports.hold_any() || is_made(Mistake::WrittenAfterPaused) {
        return None;
    }
    let queue = match &asked.session.transaction {
        // It waits with its transaction.
        Some(_) if !is_exec => return None,
        Some(transaction) if transaction.aborted => return None,
        queue => queue.as_ref().filter(|_| is_exec),
    };
    // Of a queued script nothing but that is known.
    let is_script = runs_script(asked.spec) || is_exec && may_replicate;
    let route = match queue {
        Some(transaction) => route_of_exec(asked.spec, asked.args, &transaction.route),
        None => route_of(asked.spec, asked.args),
    };
    let is_held = match route {
        SlotRoute::Keyless => false,
        SlotRoute::Slot(slot) => exports.hold(slot),
        SlotRoute::Crosses => true,
    };
    (is_held || is_script).then_some(Verdict::Postpone)
}
