//! Costs of commands, counted for the slot of their keys (section 8 of the specification of the slots).
//!
//! A client's command counts when it ends: an EXEC and a script count for all commands inside them. For a
//! refused command, only the request counts. While `cluster-slot-stats-enabled` is off, only
//! [`count_message`] is called here.

use crate::cluster::redirect::{SlotRoute, route_of, route_of_exec, slot_of_name};
use crate::core::Core;
use crate::exec::finish::{CommandCost, CommandEnding};
use crate::exec::unit::{CountedSlot, Unit};
use sluice_cluster::HashSlot;
use sluice_command::specs::transactions;
use sluice_command::{Flags, Spec};
use sluice_commands::Args;
use sluice_config::param;
use sluice_control::Control;
use sluice_control::cluster::slot_stats::SlotCounters;
use sluice_scripts::run::RunSlot;
use sluice_session::Session;

/// Bytes of a MULTI request, which is counted together with its EXEC, because the slot is not known earlier.
const MULTI_BYTES: usize = b"*1\r\n$5\r\nMULTI\r\n".len();

impl Core {
    /// Counts a client's command that has ended, if all keys that count for it are in one slot.
    #[inline(never)]
    pub(crate) fn count_in_slot(
        &mut self,
        ending: CommandEnding,
        unit: &Unit,
        spec: &'static Spec,
        args: Args<'_>,
        cost: CommandCost,
    ) {
        // As in the reference, a command that waited for keys counts nothing if its wait has ended without
        // a key.
        if ending == CommandEnding::Answered && spec.flags.has(Flags::BLOCKING) {
            return;
        }
        let slot = match (unit.counts_for, route_of(spec, args)) {
            (CountedSlot::Of(slot), _) | (CountedSlot::OfKeys, SlotRoute::Slot(slot)) => slot,
            (CountedSlot::None, _) | (CountedSlot::OfKeys, SlotRoute::Keyless | SlotRoute::Crosses) => return,
        };
        let replicas = self.control.replication.stream.replicas.len();
        let fed_bytes = match replicas {
            0 => 0,
            _ => unit.commands.as_ref().map_or(0, |commands| commands.bytes_for_replicas() * replicas),
        };
        let more = match ending {
            // Only the bytes for replicas count now: the command ends a second time, when its reply is
            // complete, and counts then.
            CommandEnding::Producing => {
                SlotCounters { bytes_out: fed_bytes as u64, ..SlotCounters::default() }
            }
            _ => SlotCounters {
                cpu_ns: cost.duration_ns,
                bytes_in: request_bytes(spec, cost.request_bytes) as u64,
                bytes_out: (cost.reply_bytes + fed_bytes) as u64,
            },
        };
        add(&mut self.control, slot, more);
    }
}

/// Counts the request of a refused command for the slot of the keys that it named, if they are in one slot
/// (L-8).
#[cold]
pub(crate) fn count_refused(
    control: &mut Control,
    session: &Session,
    spec: &'static Spec,
    args: Args<'_>,
    request_len: usize,
) {
    let transaction = session.transaction.as_ref().filter(|_| spec.id == transactions::EXEC.id);
    let route = match transaction {
        Some(transaction) => route_of_exec(spec, args, &transaction.route),
        None => route_of(spec, args),
    };
    if let SlotRoute::Slot(slot) = route {
        count_request(control, slot, request_bytes(spec, request_len));
    }
}
/// Bytes of a request that count for its slot.
fn request_bytes(spec: &Spec, len: usize) -> usize {
    if spec.id == transactions::EXEC.id { len + MULTI_BYTES } else { len }
}

/// Counts the bytes of a request.
pub(crate) fn count_request(control: &mut Control, slot: HashSlot, bytes: usize) {
    add(control, slot, SlotCounters { bytes_in: bytes as u64, ..SlotCounters::default() });
}

/// Counts the bytes of a sharded channel's message, summed over all receivers.
pub(crate) fn count_message(control: &mut Control, channel: &[u8], bytes: usize) {
    if control.config.bool(param::CLUSTER_SLOT_STATS_ENABLED) {
        let more = SlotCounters { bytes_out: bytes as u64, ..SlotCounters::default() };
        add(control, slot_of_name(channel), more);
    }
}

fn add(control: &mut Control, slot: HashSlot, more: SlotCounters) {
    if let Some(mode) = &mut control.cluster {
        mode.slot_stats.add(slot, more);
    }
}

/// Notes that a script calls a command, because the keys of the call may decide for which slot the script,
/// and an EXEC around it, counts.
pub(crate) fn note_call(unit: &mut Unit, held_to: RunSlot, spec: &'static Spec, args: Args<'_>) {
    let slot = match route_of(spec, args) {
        SlotRoute::Slot(slot) => Some(slot),
        SlotRoute::Crosses => None,
        SlotRoute::Keyless => return,
    };
    unit.counts_for = match (unit.counts_for, held_to, slot) {
        (_, RunSlot::Any, _) | (_, _, None) => CountedSlot::None,
        (CountedSlot::OfKeys, RunSlot::OfFirstCall | RunSlot::Of(_), Some(slot)) => CountedSlot::Of(slot),
        (before @ (CountedSlot::Of(_) | CountedSlot::None), _, Some(_)) => before,
    };
}
