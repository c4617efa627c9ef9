//! A move from this node, and what is shown of one.

use super::job::{MigrationRow, described, ranges_text};
use super::{ExportHandshake, JobName, SlotMove};
use crate::address::NodeLabels;
use crate::id::NodeId;
use crate::node::Ms;
use crate::slots::SlotSet;
use std::borrow::Cow;

/// How far an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExportState {
    Handshake(ExportHandshake),
    /// The target has agreed, and the stream has not begun.
    WaitingToSnapshot,
    /// The image of the slots is on its way, and the writes after it.
    Snapshotting,
    /// The image has left.
    Replicating,
    /// The target has the image: writes are held back as soon as little is left to be sent.
    WaitingToPause,
    /// Writes are held back.
    FailoverPaused,
    /// The target may claim the slots, and may have done so.
    FailoverGranted,
    Success,
    Cancelled,
    Failed,
}

impl ExportState {
    /// What is shown.
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

    /// Whether the target has agreed to the move, and what it says counts.
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
    /// How the log names the job (V-8): made when the job began.
    pub(crate) described: Box<str>,
    pub(crate) state: ExportState,
    pub(crate) message: Cow<'static, str>,
    created_s: i64,
    /// The last change of state.
    pub(crate) updated_s: i64,
    /// The last ACK of the target.
    pub(crate) acked_s: i64,
    /// When that was; the beginning of the job where none came.
    pub(crate) acked: Ms,
    /// When this node sent its last ACK.
    pub(crate) said_ack: Option<Ms>,
    /// When writes go on, whatever has become of the move; none before they are held back.
    pub(crate) unpauses: Option<Ms>,
}

impl ExportJob {
    /// A job that begins now; `labels` are those of its target.
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

    /// What CLUSTER GETSLOTMIGRATIONS shows, at the node `me`. Whoever has the stream adds its sizes.
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
