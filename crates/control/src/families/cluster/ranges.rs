//! Ranges of slots in the commands about slot migrations (A-10, rows 5 to 13; A-23).

use super::change::slot;
use sluice_cluster::{Cluster, HashSlot, OwnersOfRanges, SlotSet};
use sluice_commands::{Args, CmdError};

/// The direction of the migration, and the node that checks the slots.
#[derive(Clone, Copy)]
pub(super) enum RangesJudge<'a> {
    /// The slots are to be received by this node.
    Import(&'a Cluster),
    /// The slots are to leave this node.
    Export(&'a Cluster),
}

/// Parses ranges, each a first and a last slot, from argument `at` on up to the first argument that is no
/// number. Also returns the position of that argument. Without `judge` the slots are not checked against the
/// map. There are at most as many ranges as slots, because ranges may not overlap.
pub(super) fn parse(
    args: Args<'_>,
    mut at: usize,
    judge: Option<RangesJudge<'_>>,
) -> Result<(Vec<(u16, u16)>, usize), CmdError> {
    let (mut ranges, mut seen) = (Vec::new(), SlotSet::EMPTY);
    let mut owners = OwnersOfRanges::default();
    while at < args.len() && args.int(at).is_ok() {
        let first_slot = slot(args, at)?;
        let first = first_slot.number();
        if at + 1 == args.len() {
            return Err(CmdError::text("ERR No end slot for final slot range"));
        }
        let last_slot = slot(args, at + 1)?;
        let last = last_slot.number();
        if first > last {
            return Err(CmdError::owned(format!(
                "ERR Start slot number {first} is greater than end slot number {last}."
            )));
        }
        if let Some(RangesJudge::Import(node) | RangesJudge::Export(node)) = judge {
            node.add_range(&mut owners, first_slot, last_slot).map_err(CmdError::owned)?;
        }
        let is_new = |slot| HashSlot::new(slot).is_some_and(|slot| seen.insert(slot));
        if !(first..=last).all(is_new) {
            let meets = |(a, b): &&(u16, u16)| *a <= last && first <= *b;
            let (a, b) = ranges.iter().find(meets).copied().unwrap_or((first, last));
            return Err(CmdError::owned(format!(
                "ERR Slot range {first}-{last} overlaps with previous range {a}-{b}."
            )));
        }
        ranges.push((first, last));
        at += 2;
    }
    if ranges.is_empty() {
        return Err(CmdError::text("ERR No slot ranges specified"));
    }
    let verdict = match judge {
        Some(RangesJudge::Import(node)) => node.are_free_to_import(seen.iter()),
        Some(RangesJudge::Export(node)) => node.may_export(&seen),
        None => Ok(()),
    };
    verdict.map_err(CmdError::owned)?;
    Ok((ranges, at))
}
