//! The state of a replica's own elections, and of a failover that an operator has ordered.

use crate::id::{ClusterEpoch, NodeId};
use crate::node::Ms;

/// The stage of this replica's election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ElectionStage {
    #[default]
    Idle,
    /// The request for votes leaves at the time in the schedule.
    Waiting(Schedule),
    /// Votes are requested, or will be when the epoch is durable.
    Requested { schedule: Schedule, epoch: ClusterEpoch, votes: Vec<NodeId> },
    /// Too few votes arrived in time.
    Expired(Schedule),
}

/// The time of an election, and the ranks from which this time was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) at: Ms,
    pub(crate) rank: u64,
    /// Number of shards with a failed primary whose ids are smaller than the id of this shard. The replicas
    /// of those shards ask for votes first.
    pub(crate) shard_rank: u64,
    /// Whether voters may vote although the primary has not failed in their view.
    pub(crate) forces: bool,
}

/// A failover that an operator has ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WantedFailover {
    #[default]
    None,
    /// The primary was asked to pause; the replica waits for the offset at which the primary is paused.
    AwaitsOffset { end: Ms },
    /// The primary is paused at this offset, which the replica has not reached yet.
    CatchesUp { end: Ms, goal: u64 },
    /// The election may begin, whatever the primary's health is. `is_agreed`: the primary is paused.
    MayStart { end: Ms, is_agreed: bool },
}

impl WantedFailover {
    /// The time at which the failover is given up.
    pub(crate) fn end(self) -> Option<Ms> {
        match self {
            WantedFailover::None => None,
            WantedFailover::AwaitsOffset { end }
            | WantedFailover::CatchesUp { end, .. }
            | WantedFailover::MayStart { end, .. } => Some(end),
        }
    }

    /// Whether the election may begin.
    pub(crate) fn may_start(self) -> bool {
        matches!(self, WantedFailover::MayStart { .. })
    }
}

/// The state of this node as a candidate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidacy {
    pub(crate) stage: ElectionStage,
    pub(crate) wanted: WantedFailover,
    /// Time at which the primary last sent data on the replication link; `None` if it has not done so since
    /// this process started.
    pub(crate) contact: Option<Ms>,
    /// The highest epoch in which another replica is known to have asked for votes.
    pub(crate) rival: ClusterEpoch,
    /// Time at which the request for votes of the open election left; `None` while the request waits for the
    /// file.
    pub(crate) asked_at: Option<Ms>,
    /// Number of successive elections that were restarted because votes were split.
    pub(crate) splits: u32,
    /// The last logged reason why no election is held, and the time of that log line.
    pub(crate) said: Option<(Obstacle, Ms)>,
}

/// The reason why no election is held, or why the open one is not won yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    OldData,
    Delay,
    Expired,
    Votes,
}

impl Candidacy {
    /// Gives up this replica's election and any failover that was ordered, for example because the node no
    /// longer follows the failed primary (R1, M6).
    pub(crate) fn give_up(&mut self) {
        self.stage = ElectionStage::Idle;
        self.wanted = WantedFailover::None;
        self.splits = 0;
    }

    /// Records that another replica asks for votes in this epoch. If this replica's election has the same
    /// epoch or an earlier one, the voters' votes are divided between the two replicas. If, for example, two
    /// shards have lost their primaries, perhaps neither replica gets a majority (D23).
    pub(crate) fn heard_rival(&mut self, epoch: ClusterEpoch) {
        self.rival = self.rival.max(epoch);
    }

    /// The schedule of the open election, if the election has this epoch.
    pub(crate) fn open_election(&self, epoch: ClusterEpoch) -> Option<Schedule> {
        match self.stage {
            ElectionStage::Requested { schedule, epoch: open, .. } if open == epoch => Some(schedule),
            _ => None,
        }
    }
}
