//! What a replica remembers of its own elections, and of a failover that an operator asks of it.

use crate::id::{ClusterEpoch, NodeId};
use crate::node::Ms;

/// How far this replica's election is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ElectionStage {
    #[default]
    Idle,
    /// The request for votes leaves at this time.
    Waiting(Schedule),
    /// Votes were asked for, or will be when the epoch is durable.
    Requested { schedule: Schedule, epoch: ClusterEpoch, votes: Vec<NodeId> },
    /// Too few votes came in time.
    Expired(Schedule),
}

/// When an election begins, and by which order among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) at: Ms,
    pub(crate) rank: u64,
    /// Failed shards ahead of this one.
    pub(crate) shard_rank: u64,
    /// Voters are asked although they may not hold the primary for failed.
    pub(crate) forces: bool,
}

/// A failover that an operator has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WantedFailover {
    #[default]
    None,
    /// The primary was asked to pause; its offset is awaited.
    AwaitsOffset { end: Ms },
    /// The primary is paused at this offset.
    CatchesUp { end: Ms, goal: u64 },
    /// The election may begin, whatever the primary's health. `is_agreed`: since the primary is paused.
    MayStart { end: Ms, is_agreed: bool },
}

impl WantedFailover {
    /// When it is given up.
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

/// What this node remembers as a candidate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidacy {
    pub(crate) stage: ElectionStage,
    pub(crate) wanted: WantedFailover,
    /// When the primary was heard last on the replication link; none: never in this process.
    pub(crate) contact: Option<Ms>,
    /// The highest epoch in which another replica was heard to ask for votes.
    pub(crate) rival: ClusterEpoch,
    /// When the request for votes of the open election left; none: it waits for the file.
    pub(crate) asked_at: Option<Ms>,
    /// How many elections in a row were begun anew since votes were split.
    pub(crate) splits: u32,
    /// What was said last of why no election is held, and when.
    pub(crate) said: Option<(Obstacle, Ms)>,
}

/// Why no election is held, or none is won yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    OldData,
    Delay,
    Expired,
    Votes,
}

impl Candidacy {
    /// Ends a failover against a primary that this node no longer follows (R1, M6).
    pub(crate) fn give_up(&mut self) {
        self.stage = ElectionStage::Idle;
        self.wanted = WantedFailover::None;
        self.splits = 0;
    }

    /// Another replica asks for votes in this epoch. In the epoch of an open election, or a later one, votes
    /// go to either of the two: with two shards without a primary neither may get a majority (D23).
    pub(crate) fn heard_rival(&mut self, epoch: ClusterEpoch) {
        self.rival = self.rival.max(epoch);
    }

    /// Whether the election of this epoch is open, and if so whether it forces voters.
    pub(crate) fn open_election(&self, epoch: ClusterEpoch) -> Option<Schedule> {
        match self.stage {
            ElectionStage::Requested { schedule, epoch: open, .. } if open == epoch => Some(schedule),
            _ => None,
        }
    }
}
