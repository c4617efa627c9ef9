//! Messages and answers wait until the file (`nodes.conf`) with their state is durable (E-53).
//!
//! Invariants: (1) at most one write is under way, and generations (versions of the file) only rise; (2)
//! headers carry the claim of the last write that has ended, never a newer claim of this node; (3) an output
//! that waits for a generation leaves when the write of that generation or a later one has ended; after a
//! failed write votes are dropped, and all other outputs leave only with `cluster-config-save-behavior
//! best-effort`;
//! (4) keys of a lost slot are deleted only when the file that a restart would read no longer names this node
//! as the slot's owner, whatever `cluster-config-save-behavior` is, because otherwise a restarted process
//! would own a slot whose keys are deleted.

use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::migration::JobName;
use crate::node::Ms;
use crate::output::{ClusterAnswer, Generation, Ticket};
use crate::slots::{HashSlot, SlotSet};
use sluice_base::mistake::{Mistake, is_made};

/// This node's claim to a role and slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnClaim {
    Primary { config_epoch: ClusterEpoch, slots: Box<SlotSet> },
    Replica { of: Option<NodeId> },
}

/// The state that other nodes may receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishedView {
    pub(crate) current_epoch: ClusterEpoch,
    pub(crate) claim: OwnClaim,
    /// The shard that belongs to the claim. The two are kept together, because a role that is sent with the
    /// shard of another claim looks like a failover to other nodes.
    pub(crate) shard: ShardId,
}

/// An output that waits until a file is durable.
#[derive(Clone, Debug)]
pub(crate) enum Withheld {
    /// A vote for a node, in an epoch.
    Vote {
        to: NodeId,
        epoch: ClusterEpoch,
    },
    /// A request for votes in an epoch.
    VoteRequest {
        epoch: ClusterEpoch,
    },
    Reply {
        to: Ticket,
        answer: ClusterAnswer,
    },
    /// A PONG to every node.
    Announce,
    /// The end of a slot move to this node, which has claimed the slots.
    Takeover {
        job: JobName,
    },
}

/// The write under way.
#[derive(Clone, Debug)]
struct Writing {
    generation: Generation,
    /// The state that other nodes may receive once the write is durable.
    view: PublishedView,
    /// The slots that this node owns in the file.
    owned: Box<SlotSet>,
    since: Ms,
}

/// The result of the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastWrite {
    Succeeded,
    /// Votes are barred until a write succeeds (N-23).
    Failed {
        retry_at: Ms,
    },
}

/// Counts of begun and of failed writes of the file, for INFO (V-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Fields without a comment are explained by their names.
#[allow(missing_docs)]
pub struct SaveCounts {
    pub saves: u64,
    pub failures: u64,
}

/// Whether the state differs from the file of the last generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsaved {
    Nothing,
    Something,
}

/// The generations of the file, and the messages and answers that wait for them.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    pub(crate) published: PublishedView,
    pub(crate) last_write: LastWrite,
    pub(crate) counts: SaveCounts,
    /// The slots that this node owns in the file that a restart would read.
    owned: Box<SlotSet>,
    generation: Generation,
    durable: Generation,
    unsaved: Unsaved,
    writing: Option<Writing>,
    held: Vec<(Generation, Withheld)>,
    /// Time at which the log last reported that the node continues without its file.
    said_at: Option<Ms>,
}

/// Shortest time between two log lines that report that the node continues without its file, ms (N-22).
const SAID_AGAIN_MS: u64 = 30_000;

/// Milliseconds between a failed write and the next attempt, if the state does not change before that.
const RETRY_MS: u64 = 1_000;

impl Durable {
    /// The state at the start of the process: `published` counts as durable.
    pub(crate) fn new(published: PublishedView) -> Durable {
        Durable {
            published,
            last_write: LastWrite::Succeeded,
            counts: SaveCounts::default(),
            owned: Box::new(SlotSet::EMPTY),
            generation: Generation(0),
            durable: Generation(0),
            unsaved: Unsaved::Nothing,
            writing: None,
            held: Vec::new(),
            said_at: None,
        }
    }

    /// Records that the file was read at the start, so the claim in it may be sent. `owned` are this node's
    /// slots in the file.
    pub(crate) fn loaded(&mut self, published: PublishedView, owned: SlotSet) {
        (self.published, self.owned) = (published, Box::new(owned));
    }

    /// Whether this node would own a slot if its process restarted now.
    pub(crate) fn is_owned_in_file(&self, slot: HashSlot) -> bool {
        self.owned.contains(slot)
    }

    /// Whether it is time to log again that the node continues without its file; if so, the present time is
    /// recorded as the time of that log line.
    pub(crate) fn says_failure(&mut self, now: Ms) -> bool {
        let is_due = self.said_at.is_none_or(|at| now >= at.saturating_add(SAID_AGAIN_MS));
        if is_due {
            self.said_at = Some(now);
        }
        is_due
    }

    /// Marks the state as changed: a write begins at the end of the step, or after the write that is under
    /// way.
    pub(crate) fn changed(&mut self) {
        self.unsaved = Unsaved::Something;
    }

    /// Keeps `held` until the state of this moment is durable.
    pub(crate) fn hold(&mut self, held: Withheld) {
        let generation = match self.unsaved {
            Unsaved::Something => Generation(self.generation.0 + 1),
            Unsaved::Nothing => self.generation,
        };
        self.held.push((generation, held));
    }

    /// Whether a write must begin now.
    pub(crate) fn wants_write(&self, now: Ms) -> bool {
        let retries = matches!(self.last_write, LastWrite::Failed { retry_at } if now >= retry_at);
        self.writing.is_none() && (self.unsaved == Unsaved::Something || retries)
    }

    /// Begins a write of `view`, in a file in which this node owns `owned`; returns its generation.
    pub(crate) fn begin(&mut self, view: PublishedView, owned: SlotSet, now: Ms) -> Generation {
        self.generation = Generation(self.generation.0 + 1);
        self.unsaved = Unsaved::Nothing;
        if is_made(Mistake::SentBeforeFile) {
            self.published = view.clone();
        }
        self.writing =
            Some(Writing { generation: self.generation, view, owned: Box::new(owned), since: now });
        self.counts.saves += 1;
        self.generation
    }

    /// Ends a successful write; `true` if the claim that may be sent, or this node's slots in the file,
    /// have changed. Other generations than that of the write under way are ignored.
    pub(crate) fn saved(&mut self, generation: Generation) -> bool {
        let Some(mut writing) = self.writing.take_if(|writing| writing.generation == generation) else {
            return false;
        };
        self.last_write = LastWrite::Succeeded;
        std::mem::swap(&mut self.owned, &mut writing.owned);
        let is_other = self.owned != writing.owned;
        self.end_write(writing) || is_other
    }

    /// Makes the view of a finished write the one that may be sent; `true` if its claim differs from the
    /// claim sent before.
    fn end_write(&mut self, writing: Writing) -> bool {
        self.durable = writing.generation;
        let before = std::mem::replace(&mut self.published, writing.view);
        before.claim != self.published.claim
    }

    /// Ends a failed write after which the node continues (best-effort). Outputs that wait for the write are
    /// released, except votes, which are dropped. `true` if the claim that may be sent has changed.
    pub(crate) fn failed(&mut self, generation: Generation, now: Ms) -> bool {
        let Some(writing) = self.writing.take_if(|writing| writing.generation == generation) else {
            return false;
        };
        self.last_write = LastWrite::Failed { retry_at: now + RETRY_MS };
        self.counts.failures += 1;
        self.held.retain(|(of, held)| *of > generation || !matches!(held, Withheld::Vote { .. }));
        self.end_write(writing)
    }

    /// The next waiting output that may leave.
    pub(crate) fn release(&mut self) -> Option<Withheld> {
        let at = self.held.iter().position(|(generation, _)| *generation <= self.durable)?;
        Some(self.held.remove(at).1)
    }

    /// Whether the last write failed, or the write under way takes longer than `limit_ms`; in either case no
    /// vote may be given.
    pub(crate) fn bars_votes(&self, now: Ms, limit_ms: u64) -> bool {
        let is_slow = self.writing.as_ref().is_some_and(|writing| now - writing.since > limit_ms);
        is_slow || self.last_write != LastWrite::Succeeded
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Drops votes that were not sent, for a RESET.
    pub(crate) fn forget_votes(&mut self) {
        self.held.retain(|(_, held)| !matches!(held, Withheld::Vote { .. }));
    }

    /// Replaces the views that may be sent, because this node has a new id, and claims under the old id must
    /// not be sent with the new one.
    pub(crate) fn renamed(&mut self, view: PublishedView) {
        if let Some(writing) = &mut self.writing {
            writing.view = view.clone();
        }
        self.published = view;
    }

    /// Removes slots from the claim that may be sent, although the file still has them, because another
    /// node may claim these slots from now on.
    pub(crate) fn withhold(&mut self, slots: &SlotSet) {
        let written = self.writing.as_mut().map(|writing| &mut writing.view);
        for view in written.into_iter().chain([&mut self.published]) {
            if let OwnClaim::Primary { slots: published, .. } = &mut view.claim {
                slots.iter().for_each(|slot| _ = published.remove(slot));
            }
        }
    }

    /// Whether all waiting outputs belong to a generation that is not durable (S-6), and the write under
    /// way is the newest (S-7).
    pub(crate) fn is_consistent(&self) -> bool {
        let under_way = self.writing.as_ref().is_none_or(|writing| writing.generation == self.generation);
        under_way
            && self.durable <= self.generation
            && self.held.iter().all(|(generation, _)| *generation > self.durable)
    }
}
