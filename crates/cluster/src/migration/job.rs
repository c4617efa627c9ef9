//! A job whose slots move to this node or to its primary, and the row that commands show for a job.

use super::{JobName, SlotMove};
use crate::address::NodeLabels;
use crate::id::NodeId;
use crate::node::Ms;
use crate::slots::{HashSlot, SlotSet};
use std::borrow::Cow;
use std::fmt::Write;

/// The state of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportState {
    /// The source has not sent its first ACK.
    WaitingForAck,
    ReceivingSnapshot,
    /// The snapshot has arrived. The source has been asked to hold writes back.
    WaitingForPaused,
    /// The source holds writes back, and all data have arrived.
    FailoverRequested,
    /// The source has granted the slots: they may be claimed, or have been claimed.
    FailoverGranted(Takeover),
    /// The job has failed, and its keys are being deleted.
    CleaningUp,
    /// The primary of this node carries the job out.
    OccurringOnPrimary,
    Success,
    Failed,
}

/// The state of the claim of a job's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takeover {
    Awaited,
    /// This node owns the slots, but the file with them is not durable yet.
    Claimed,
}

impl ImportState {
    /// The state's name in CLUSTER GETSLOTMIGRATIONS.
    pub(crate) fn text(self) -> &'static str {
        match self {
            ImportState::WaitingForAck => "waiting-for-ack",
            ImportState::ReceivingSnapshot => "receiving-snapshot",
            ImportState::WaitingForPaused => "waiting-for-paused",
            ImportState::FailoverRequested => "failover-requested",
            ImportState::FailoverGranted(_) => "failover-granted",
            ImportState::CleaningUp => "cleaning-up",
            ImportState::OccurringOnPrimary => "occurring-on-primary",
            ImportState::Success => "success",
            ImportState::Failed => "failed",
        }
    }

    pub(crate) fn is_finished(self) -> bool {
        matches!(self, ImportState::Success | ImportState::Failed)
    }

    /// Whether this node carries out the job with a connection of its own, and the job may still fail.
    pub(crate) fn is_open(self) -> bool {
        match self {
            ImportState::WaitingForAck
            | ImportState::ReceivingSnapshot
            | ImportState::WaitingForPaused
            | ImportState::FailoverRequested
            | ImportState::FailoverGranted(Takeover::Awaited) => true,
            ImportState::FailoverGranted(Takeover::Claimed)
            | ImportState::CleaningUp
            | ImportState::OccurringOnPrimary
            | ImportState::Success
            | ImportState::Failed => false,
        }
    }
}

/// A move to this shard.
#[derive(Clone, Debug)]
pub(crate) struct ImportJob {
    pub(crate) job: SlotMove,
    pub(crate) slots: Box<SlotSet>,
    /// The job's name in the log (V-8), formatted when the job began.
    pub(crate) described: Box<str>,
    pub(crate) state: ImportState,
    pub(crate) message: Cow<'static, str>,
    created_s: i64,
    /// Time of the last change of state, seconds since the epoch.
    pub(crate) updated_s: i64,
    /// Time of the source's last ACK, seconds since the epoch; the beginning of the job if no ACK arrived.
    pub(crate) acked_s: i64,
    /// Time at which the source last sent bytes.
    pub(crate) heard: Ms,
    /// Time at which this node sent its last ACK.
    pub(crate) said_ack: Option<Ms>,
    /// Time at which this node learnt that the source holds writes back, and began to ask for the slots.
    pub(crate) requested: Option<Ms>,
}

impl ImportJob {
    /// A job that begins now; `labels` are the names of its source.
    pub(crate) fn new(
        job: &SlotMove,
        state: ImportState,
        labels: Option<&NodeLabels>,
        now: Ms,
        now_s: i64,
    ) -> ImportJob {
        let mut slots = Box::new(SlotSet::EMPTY);
        job.slots().for_each(|slot| {
            slots.insert(slot);
        });
        ImportJob {
            described: described(job, ("import", "source", job.source), labels),
            slots,
            job: job.clone(),
            state,
            message: "".into(),
            created_s: now_s,
            updated_s: now_s,
            acked_s: now_s,
            heard: now,
            said_ack: None,
            requested: None,
        }
    }

    pub(crate) fn name(&self) -> JobName {
        self.job.name
    }

    /// The row of CLUSTER GETSLOTMIGRATIONS at the node `me`.
    pub(crate) fn row(&self, me: NodeId) -> MigrationRow<'_> {
        MigrationRow {
            name: self.name(),
            operation: "IMPORT",
            slot_ranges: ranges_text(&self.job.ranges),
            nodes: self.job.source.map(|source| (me, source)),
            numbers: [
                ("create_time", self.created_s),
                ("last_update_time", self.updated_s),
                ("last_ack_time", self.acked_s),
            ],
            state: self.state.text(),
            message: &self.message,
            sizes: [("cow_size", 0), ("remaining_repl_size", 0)],
        }
    }
}

/// A row of CLUSTER GETSLOTMIGRATIONS; the fields are in the reply's order.
#[derive(Clone, Debug)]
pub struct MigrationRow<'a> {
    /// The field `name`: the job's name.
    pub name: JobName,
    /// The field `operation`: `IMPORT` or `EXPORT`.
    pub operation: &'static str,
    /// The field `slot_ranges`: ranges such as `0-9 20-29`.
    pub slot_ranges: String,
    /// The fields `target_node` and `source_node`, if this node takes part in the move.
    pub nodes: Option<(NodeId, NodeId)>,
    /// The names and values of the times, in seconds since the epoch.
    pub numbers: [(&'static str, i64); 3],
    /// The field `state`: the name of the job's state.
    pub state: &'static str,
    /// The field `message`: the reason of a failure; empty without one.
    pub message: &'a str,
    /// The names and values of the sizes, in bytes.
    pub sizes: [(&'static str, i64); 2],
}

impl MigrationRow<'_> {
    /// The field `slot_ranges`. If it is longer than `bytes_max` bytes, it is cut after a whole range within
    /// these bytes; if no range ends there, it stays whole.
    pub fn slots_text(&self, bytes_max: usize) -> String {
        let ranges = &self.slot_ranges;
        match ranges.get(..bytes_max).and_then(|start| start.rfind(' ')) {
            Some(end) => format!("{} …", &ranges[..end]),
            None => ranges.clone(),
        }
    }
}

/// Ranges in the form `a-b c-d`.
pub(super) fn ranges_text(ranges: &[(HashSlot, HashSlot)]) -> String {
    let texts = ranges.iter().map(|(first, last)| format!("{}-{}", first.number(), last.number()));
    texts.collect::<Vec<_>>().join(" ")
}

/// The job's description in the log (V-8): its name, operation and slots, and the id and human name of the
/// other node as far as they are known.
pub(super) fn described(
    job: &SlotMove,
    (operation, part, other): (&str, &str, Option<NodeId>),
    labels: Option<&NodeLabels>,
) -> Box<str> {
    let mut text = format!("{{name: {}, operation: {operation}, {part}_node_id: ", job.name);
    // Writing to a string cannot fail.
    let _ = match other {
        Some(other) => write!(text, "{other}"),
        None => write!(text, "unknown"),
    };
    if let Some(labels) = labels.filter(|labels| !labels.human_name.is_empty()) {
        let name = String::from_utf8_lossy(&labels.human_name);
        let _ = write!(text, ", {part}_node_human_name: {name}");
    }
    let _ = write!(text, ", slots: {}}}", ranges_text(&job.ranges));
    text.into()
}
