//! The gate's check for requests that wait while writers of exported slots are held.

use crate::cluster::redirect::{SlotRoute, route_of};
use crate::exec::gate::{Asked, Verdict};
use sluice_base::mistake::{Mistake, is_made};
use sluice_cluster::HashSlot;
use sluice_command::specs::{cluster, server, transactions};
use sluice_command::{Flags, Named, Spec};
use sluice_commands::{Args, Hashing};
use sluice_control::cluster::exports::SlotExports;
use sluice_keyspace::Keyspace;
use sluice_scripts::shebang::runs_script;
use sluice_session::transaction::Transaction;

/// Whether a request waits for an export, even if it waits for something else, too.
pub(crate) fn waits(asked: &Asked<'_>) -> bool {
    let exports = asked.control.cluster.as_deref().map(|mode| mode.exports());
    exports.is_some_and(|exports| exports.may_hold()) && ask(asked).is_some()
}

/// The check `exported` of the gate: a request that may change slots whose writers are held waits (A-84,
/// H-26); a transaction waits as a whole.
pub(crate) fn ask(asked: &Asked<'_>) -> Option<Verdict> {
    let exports = asked.control.cluster.as_deref()?.exports();
    if !exports.hold_any() || is_made(Mistake::WrittenAfterPaused) {
        return None;
    }
    let is_exec = asked.spec.id == transactions::EXEC.id;
    let waits = match asked.session.transaction.as_deref() {
        Some(transaction) if is_exec => queue_waits(exports, transaction, asked.keyspace),
        // A queued command waits with its transaction.
        Some(_) => false,
        None => call_waits(exports, asked.spec, asked.args, asked.flags),
    };
    waits.then_some(Verdict::Postpone)
}

/// Whether a command of this transaction would wait on its own.
fn queue_waits(exports: &SlotExports, transaction: &Transaction, keyspace: &Keyspace) -> bool {
    if transaction.aborted {
        return false;
    }
    let hashing = Hashing { hasher: keyspace.hasher(), hashes: Vec::new() };
    transaction.prepared.iter().enumerate().any(|(at, prepared)| {
        let request = transaction.requests.at(at);
        let Named::Command(spec) = prepared.named else { return false };
        // Flags of a script from the time of queueing may be outdated, because a library can be
        // replaced. The command's flags cover every script.
        call_waits(exports, spec, Args::new(&request, prepared, &hashing), spec.flags)
    })
}

/// Whether a command waits. CLUSTER FLUSHSLOT waits while writers of its slot are held. A script that may
/// write waits, because it can access keys in slots that it does not declare. A command that empties
/// databases ends a move that is not granted. It waits for a granted move, because the other node has
/// the keys by then, and they would reappear after the command.
fn call_waits(exports: &SlotExports, spec: &Spec, args: Args<'_>, flags: Flags) -> bool {
    if spec.id == cluster::CLUSTER_FLUSHSLOT.id {
        let slot = args.int(2).ok().and_then(|number| u16::try_from(number).ok()).and_then(HashSlot::new);
        return slot.is_some_and(|slot| exports.hold(slot));
    }
    if [server::FLUSHALL.id, server::FLUSHDB.id].contains(&spec.id) {
        return exports.have_granted();
    }
    let may_replicate = flags.has(Flags::MAY_REPLICATE) && !spec.flags.has(Flags::PUBSUB);
    let writes = flags.has(Flags::WRITE) || may_replicate;
    let is_held = || match route_of(spec, args) {
        SlotRoute::Keyless => false,
        SlotRoute::Slot(slot) => exports.hold(slot),
        SlotRoute::Crosses => true,
    };
    writes && (runs_script(spec) || is_held())
}
