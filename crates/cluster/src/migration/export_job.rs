//! A move from this node, and the row that commands show for it.

use super::job::{MigrationRow, described, ranges_text};
use super::{ExportHandshake, JobName, SlotMove};
use crate::address::NodeLabels;
use crate::id::NodeId;
use crate::node::Ms;
use crate::slots::SlotSet;
use std::borrow::Cow;

/// The state of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExportState {
    Handshake(ExportHandshake),
    /// The target has agreed, and the stream has not begun.
    WaitingToSnapshot,
    /// The snapshot of the slots is being sent, followed by later writes.
    Snapshotting,
    /// The snapshot has been sent.
    Replicating,
    /// The target has the snapshot; writes will be held back as soon as few bytes are unsent.
    WaitingToPause,
    /// Writes are held back.
    FailoverPaused,
    /// The target may claim the slots, or has claimed them.
    FailoverGranted,
    Success,
    Cancelled,
    Failed,
}

impl ExportState {
    /// The state's name in CLUSTER GETSLOTMIGRATIONS.
    pub(crate) fn text(self) -> &'static str {
        match self {
            ExportState::Handshake(ExportHandshake::Connecting) => "connecting",
            ExportState::Handshake(ExportHandshake::SendingAuthCommand) => "sending-auth-command",
            ExportState::Handshake(ExportHandshake::ReadingAuthResponse) => "reading-auth-response",
            ExportState::Handshake(ExportHandshake::SendingEstablishCommand) => "sending-establish-command",
            ExportState::Handshake(ExportHandshake::ReadingEstablishResponse) => "reading-establish-response",
            ExportState::WaitingToSnapshot => "waiting-to-snapshot",
            ExportState::Snapshotting => "snapshotting",
            ExportState::Replicating => "replicating",
            ExportState::WaitingToPause => "waiting-to-pause",
            ExportState::FailoverPaused => "failover-paused",
            ExportState::FailoverGranted => "failover-granted",
            ExportState::Success => "success",
            ExportState::Cancelled => "cancelled",
            ExportState::Failed => "failed",
        }
    }

    pub(crate) fn is_finished(self) -> bool {
        matches!(self, ExportState::Success | ExportState::Cancelled | ExportState::Failed)
    }

    /// Whether the target has agreed to the move, so that its messages count.
    pub(crate) fn is_established(self) -> bool {
        self >= ExportState::WaitingToSnapshot && !self.is_finished()
    }
}

/// A move from this node.
#[derive(Clone, Debug)]
pub(crate) struct ExportJob {
    pub(crate) job: SlotMove,
    pub(crate) target: NodeId,
    pub(crate) slots: Box<SlotSet>,
    /// The job's name in the log (V-8), formatted when the job began.
    pub(crate) described: Box<str>,
    pub(crate) state: ExportState,
    pub(crate) message: Cow<'static, str>,
    created_s: i64,
    /// Time of the last change of state, seconds since the epoch.
    pub(crate) updated_s: i64,
    /// Time of the target's last ACK, seconds since the epoch; the beginning of the job if no ACK arrived.
    pub(crate) acked_s: i64,
    /// Time of the target's last ACK on the monotonic clock; the beginning of the job if no ACK arrived.
    pub(crate) acked: Ms,
    /// Time at which a tick last sent an ACK.
    pub(crate) said_ack: Option<Ms>,
    /// Time at which writes continue, whatever the state of the move is; `None` before they are held back.
    pub(crate) unpauses: Option<Ms>,
}

impl ExportJob {
    /// A job that begins now; `labels` are the names of its target.
    pub(crate) fn new(
        job: SlotMove,
        (target, labels): (NodeId, &NodeLabels),
        now: Ms,
        now_s: i64,
    ) -> ExportJob {
        let mut slots = Box::new(SlotSet::EMPTY);
        job.slots().for_each(|slot| {
            slots.insert(slot);
        });
        ExportJob {
            described: described(&job, ("export", "target", Some(target)), Some(labels)),
            slots,
            job,
            target,
            state: ExportState::Handshake(ExportHandshake::Connecting),
            message: "".into(),
            created_s: now_s,
            updated_s: now_s,
            acked_s: now_s,
            acked: now,
            said_ack: None,
            unpauses: None,
        }
    }

    pub(crate) fn name(&self) -> JobName {
        self.job.name
    }

    /// The row of CLUSTER GETSLOTMIGRATIONS at the node `me`. The owner of the stream adds its sizes.
    pub(crate) fn row(&self, me: NodeId) -> MigrationRow<'_> {
        MigrationRow {
            name: self.name(),
            operation: "EXPORT",
            slot_ranges: ranges_text(&self.job.ranges),
            nodes: Some((self.target, me)),
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
