//! What is told waits for its file (E-53).
//!
//! Invariants: (1) at most one write is under way, and generations only rise; (2) headers show the claim of
//! the last durable file, never a newer one of this node's own making; (3) what waits for a generation leaves
//! when a file of that generation or a later one is durable, and a vote leaves at no other moment; (4) keys
//! of a lost slot are deleted when the file that a start would read is without the slot, whatever
//! `cluster-config-save-behavior` says: a process that ended before would come back as an owner without
//! keys.

use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::migration::JobName;
use crate::node::Ms;
use crate::output::{ClusterAnswer, Generation, Ticket};
use crate::slots::{HashSlot, SlotSet};
use sluice_base::mistake::{Mistake, is_made};

/// What this node says of its own role and slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnClaim {
    Primary { config_epoch: ClusterEpoch, slots: Box<SlotSet> },
    Replica { of: Option<NodeId> },
}

/// What others may be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToldView {
    pub(crate) current_epoch: ClusterEpoch,
    pub(crate) claim: OwnClaim,
    /// The shard of that claim: a role told with the shard of another one would pass for a failover.
    pub(crate) shard: ShardId,
}

/// What leaves once a file is durable.
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
    /// The end of a job whose slots this node has claimed.
    Takeover {
        job: JobName,
    },
}

/// A write under way.
#[derive(Clone, Debug)]
struct Writing {
    generation: Generation,
    /// What may be told once it is durable.
    view: ToldView,
    /// Slots that are this node's in the file.
    owned: Box<SlotSet>,
    since: Ms,
}

/// How the last finished write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastWrite {
    Succeeded,
    /// Votes are barred until a write succeeds (N-23).
    Failed {
        retry_at: Ms,
    },
}

/// Numbers of V-6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Names say all of the undocumented ones.
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

/// Generations, and messages and answers until a file is durable.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    pub(crate) told: ToldView,
    pub(crate) last_write: LastWrite,
    pub(crate) counts: SaveCounts,
    /// Slots that are this node's in the file that a start would read.
    owned: Box<SlotSet>,
    generation: Generation,
    durable: Generation,
    unsaved: Unsaved,
    writing: Option<Writing>,
    held: Vec<(Generation, Withheld)>,
    /// When the log said last that the node goes on without its file.
    said_at: Option<Ms>,
}

/// Milliseconds between two such lines (N-22).
const SAID_AGAIN_MS: u64 = 30_000;

/// Milliseconds between a failed write and the next one, if nothing changes meanwhile.
const RETRY_MS: u64 = 1_000;

impl Durable {
    /// The state of a start: what the file says was durable once.
    pub(crate) fn new(told: ToldView) -> Durable {
        Durable {
            told,
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

    /// The file of the start was read: what it said may be told, and these slots are this node's in it.
    pub(crate) fn loaded(&mut self, told: ToldView, owned: SlotSet) {
        (self.told, self.owned) = (told, Box::new(owned));
    }

    /// Whether this node would come back as the owner of a slot if its process ended now.
    pub(crate) fn is_owned_in_file(&self, slot: HashSlot) -> bool {
        self.owned.contains(slot)
    }

    /// Whether the log shall say now that the node goes on without its file.
    pub(crate) fn says_failure(&mut self, now: Ms) -> bool {
        let is_due = self.said_at.is_none_or(|at| now >= at.saturating_add(SAID_AGAIN_MS));
        if is_due {
            self.said_at = Some(now);
        }
        is_due
    }

    /// The state has changed: the next settle writes it.
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

    /// Whether a write has to begin now.
    pub(crate) fn wants_write(&self, now: Ms) -> bool {
        let retries = matches!(self.last_write, LastWrite::Failed { retry_at } if now >= retry_at);
        self.writing.is_none() && (self.unsaved == Unsaved::Something || retries)
    }

    /// A write begins: of `view`, in a file by which this node owns `owned`. The result is its generation.
    pub(crate) fn begin(&mut self, view: ToldView, owned: SlotSet, now: Ms) -> Generation {
        self.generation = Generation(self.generation.0 + 1);
        self.unsaved = Unsaved::Nothing;
        if is_made(Mistake::ToldBeforeFile) {
            self.told = view.clone();
        }
        self.writing =
            Some(Writing { generation: self.generation, view, owned: Box::new(owned), since: now });
        self.counts.saves += 1;
        self.generation
    }

    /// A write has succeeded; the result says whether this node's claim, or what the file says of its slots,
    /// is another one by that. Inputs about other generations than the one under way change nothing.
    pub(crate) fn saved(&mut self, generation: Generation) -> bool {
        let Some(mut writing) = self.writing.take_if(|writing| writing.generation == generation) else {
            return false;
        };
        self.last_write = LastWrite::Succeeded;
        std::mem::swap(&mut self.owned, &mut writing.owned);
        let is_other = self.owned != writing.owned;
        self.end_write(writing) || is_other
    }

    /// The view that a write was to make durable may be told; whether that is another claim than before.
    fn end_write(&mut self, writing: Writing) -> bool {
        self.durable = writing.generation;
        let before = std::mem::replace(&mut self.told, writing.view);
        before.claim != self.told.claim
    }

    /// A write has failed, and the node goes on (best-effort): what waits is let go, but votes, which are
    /// dropped. Whether this node's claim is another one by that.
    pub(crate) fn failed(&mut self, generation: Generation, now: Ms) -> bool {
        let Some(writing) = self.writing.take_if(|writing| writing.generation == generation) else {
            return false;
        };
        self.last_write = LastWrite::Failed { retry_at: now + RETRY_MS };
        self.counts.failures += 1;
        self.held.retain(|(of, held)| *of > generation || !matches!(held, Withheld::Vote { .. }));
        self.end_write(writing)
    }

    /// The next of what may leave.
    pub(crate) fn release(&mut self) -> Option<Withheld> {
        let at = self.held.iter().position(|(generation, _)| *generation <= self.durable)?;
        Some(self.held.remove(at).1)
    }

    /// Whether the last write failed, or the one under way has taken longer than `limit_ms`: no votes then.
    pub(crate) fn bars_votes(&self, now: Ms, limit_ms: u64) -> bool {
        let is_slow = self.writing.as_ref().is_some_and(|writing| now - writing.since > limit_ms);
        is_slow || self.last_write != LastWrite::Succeeded
    }

    /// Whether a write is under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// A RESET: votes that were not sent are not.
    pub(crate) fn forget_votes(&mut self) {
        self.held.retain(|(_, held)| !matches!(held, Withheld::Vote { .. }));
    }

    /// Another id speaks from now on: nothing of the old one's claims is told under it.
    pub(crate) fn renamed(&mut self, view: ToldView) {
        if let Some(writing) = &mut self.writing {
            writing.view = view.clone();
        }
        self.told = view;
    }

    /// Slots are claimed no more, though the file has them: another node may claim them from now on.
    pub(crate) fn withhold(&mut self, slots: &SlotSet) {
        let written = self.writing.as_mut().map(|writing| &mut writing.view);
        for view in written.into_iter().chain([&mut self.told]) {
            if let OwnClaim::Primary { slots: told, .. } = &mut view.claim {
                slots.iter().for_each(|slot| _ = told.remove(slot));
            }
        }
    }

    /// Whether what is held is bound to a generation that is not durable (S-6), and writes are in order
    /// (S-7).
    pub(crate) fn is_consistent(&self) -> bool {
        let under_way = self.writing.as_ref().is_none_or(|writing| writing.generation == self.generation);
        under_way
            && self.durable <= self.generation
            && self.held.iter().all(|(generation, _)| *generation > self.durable)
    }
}
