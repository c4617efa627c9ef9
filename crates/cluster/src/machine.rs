//! The state of the machine, and what every part of it needs: logs, names of nodes, links that end, nodes
//! that go.

use crate::address::LogName;
use crate::candidacy::Candidacy;
use crate::durable::{Durable, OwnClaim, ToldView, Withheld};
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::link::{DialTarget, LinkKind, Links};
use crate::link_key::LinkKey;
use crate::migration::log::MoveLog;
use crate::node::{ClusterNode, LinkOut, Ms, NodeIx, NodeRole};
use crate::output::{ClusterOutput, ClusterState};
use crate::settings::ClusterSettings;
use crate::slots::{HashSlot, SlotSet};
use crate::statistics::Statistics;
use crate::table::{Blacklist, NodeTable};
use crate::wire::GossipBuffer;
use sluice_base::{HashSeed, Rng};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Writes a line of the log, which is made only if its level is asked for.
macro_rules! log {
    ($machine:expr, $level:ident, $($text:tt)+) => {
        if $machine.settings.log_level <= sluice_base::LogLevel::$level {
            let text = format!($($text)+);
            $machine.out.push_back(crate::output::ClusterOutput::Log(sluice_base::LogLevel::$level, text));
        }
    };
}
pub(crate) use log;

/// The time of the step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepTime {
    pub(crate) now: Ms,
    pub(crate) wall_ms: i64,
}

/// Epochs of the cluster (E-1). Each primary's own is in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    pub(crate) current: ClusterEpoch,
    pub(crate) last_vote: ClusterEpoch,
}

/// Why the cluster is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DownReason {
    Coverage,
    Minority,
}

/// The cluster's state and how it came about (F-20 to F-24).
#[derive(Clone, Debug)]
pub(crate) struct StateOfCluster {
    pub(crate) state: ClusterState,
    pub(crate) reason: Option<DownReason>,
    /// When the state was first evaluated in this process.
    pub(crate) first: Option<Ms>,
    /// Whether votes may be given (F-21).
    pub(crate) is_safe_to_join: bool,
    /// Whether this process began with slots by its file, beside other nodes.
    pub(crate) has_come_back: bool,
    /// Voters at the last evaluation.
    pub(crate) size: u32,
    pub(crate) last_minority: Option<Ms>,
    /// When this node went on after it had stood still, as long as no quorum has answered since (S-24).
    pub(crate) stood_until: Option<Ms>,
}

/// Whether this node's own line of the file could be read (N-26).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sureness {
    Sure,
    Unsure { warned: Option<Ms> },
}

/// Whether the epochs of the file could be read (N-27).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VoteRight {
    Free,
    EpochUnknown { since: Ms, heard: Vec<NodeId> },
}

/// A manual failover of this node as a primary (M3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManualFailover {
    Off,
    /// Writes are to be held back, and some may come yet: where the stream ends is not known. The request
    /// came by `link`.
    Pausing {
        replica: NodeIx,
        end: Ms,
        link: LinkKey,
    },
    /// No write comes, and the replica is told where the stream ends.
    Paused {
        replica: NodeIx,
        end: Ms,
    },
}

impl ManualFailover {
    /// The replica that is to take over.
    pub(crate) fn replica(self) -> Option<NodeIx> {
        match self {
            ManualFailover::Off => None,
            ManualFailover::Pausing { replica, .. } | ManualFailover::Paused { replica, .. } => Some(replica),
        }
    }

    /// When it is given up.
    pub(crate) fn end(self) -> Option<Ms> {
        match self {
            ManualFailover::Off => None,
            ManualFailover::Pausing { end, .. } | ManualFailover::Paused { end, .. } => Some(end),
        }
    }
}

/// Failovers that this node has a part in.
#[derive(Clone, Debug)]
pub(crate) struct Failovers {
    /// As a primary: whether a replica that takes over by hand has it paused.
    pub(crate) paused: ManualFailover,
    /// As a replica.
    pub(crate) candidacy: Candidacy,
    /// Whether this node is about to end, and as a replica wants no clients.
    pub(crate) is_leaving: bool,
    /// As a primary: until when a replica of this node may claim the slots by a vote of this node.
    pub(crate) voted_until: Ms,
}

/// What a settle has to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Todo {
    /// Evaluate the cluster's state.
    pub(crate) evaluate: bool,
    /// Give out a new map of slots.
    pub(crate) map: bool,
    /// Do both at the end of the event loop iteration: other nodes' health has changed. Where many nodes fail
    /// or come back together, the messages about them come together.
    pub(crate) reconsider: bool,
    /// Look whether this replica stands for election, at the end of the event loop iteration.
    pub(crate) elect: bool,
    /// Begin no write before the unit has ended whose commands have changed this node: others would be told
    /// of slots that one command has given up and the next one takes again.
    pub(crate) is_in_unit: bool,
    /// Let the writes go on that a failover by hand has held back, after the map by which they are judged,
    /// unless another failover by hand has begun.
    pub(crate) unpause: bool,
}

/// What this node owes its own keys, and the moves that bring it others.
#[derive(Clone, Debug)]
pub(crate) struct StrayKeys {
    /// Slots whose keys are here although another node owned them at the start: they wait for the owner's
    /// claim.
    pub(crate) strays: SlotSet,
    /// Slots taken from this node in the message being handled, with keys perhaps (E-15).
    pub(crate) dirty: SlotSet,
    /// Whether there are keys at all; true until the server has said that there are none.
    pub(crate) has_any: bool,
    /// Whether the server has said so, which it does not while it loads.
    pub(crate) are_known: bool,
    /// Atomic moves of slots.
    pub(crate) moves: MoveLog,
    /// Slots claimed by a grant, with their source, until that one is heard to give them up.
    pub(crate) granted_here: BTreeMap<HashSlot, NodeId>,
}

/// The state.
pub(crate) struct ClusterMachine {
    pub(crate) settings: Arc<ClusterSettings>,
    pub(crate) time: StepTime,
    pub(crate) rng: Rng,
    pub(crate) table: NodeTable,
    pub(crate) links: Links,
    pub(crate) blacklist: Blacklist,
    pub(crate) epochs: Epochs,
    pub(crate) cluster: StateOfCluster,
    pub(crate) durable: Durable,
    pub(crate) failover: Failovers,
    pub(crate) rights: VotingRights,
    pub(crate) keys: StrayKeys,
    pub(crate) todo: Todo,
    pub(crate) cron: CronMemory,
    pub(crate) statistics: Statistics,
    pub(crate) out: VecDeque<ClusterOutput>,
}

/// What this node may do after a damaged file.
#[derive(Clone, Debug)]
pub(crate) struct VotingRights {
    pub(crate) sureness: Sureness,
    pub(crate) votes: VoteRight,
}

/// The other primary of this node's shard (D-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TwinPrimary {
    pub(crate) id: NodeId,
    /// The moment of the cron that saw this primary first.
    pub(crate) since: Ms,
    /// Whether the log has said that keys stand in the way.
    pub(crate) is_said: bool,
}

/// What the cron remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct CronMemory {
    pub(crate) rounds: u64,
    /// When the first of the nodes that owe an answer is to be suspected (F-26).
    pub(crate) suspicion_at: Option<Ms>,
    /// Primaries that have lost their replicas, and since when they have been seen so (R20).
    pub(crate) orphans: BTreeMap<NodeId, Ms>,
    /// The other primary of this node's shard (D-7).
    pub(crate) twin: Option<TwinPrimary>,
    /// Room for the draws of gossip, kept between messages.
    pub(crate) draws: Vec<NodeIx>,
    /// Room for gossip and for a message while they are made.
    pub(crate) gossip: GossipBuffer,
    pub(crate) packet: Vec<u8>,
}

/// The key of a table's index of ids: it follows from the seed, and takes nothing from the draws to come.
pub(crate) fn index_seed(rng: &Rng) -> HashSeed {
    let mut rng = rng.clone();
    HashSeed { k0: !rng.next_u64(), k1: !rng.next_u64() }
}

impl ClusterMachine {
    /// The state of a new process whose table is `table`.
    pub(crate) fn new(
        table: NodeTable,
        epochs: Epochs,
        settings: Arc<ClusterSettings>,
        rng: Rng,
    ) -> ClusterMachine {
        let shard = table.me().shown_shard();
        let told = ToldView { current_epoch: epochs.current, claim: OwnClaim::Replica { of: None }, shard };
        let mut machine = ClusterMachine {
            settings,
            time: StepTime::default(),
            rng,
            table,
            links: Links::default(),
            blacklist: Blacklist::default(),
            epochs,
            cluster: StateOfCluster {
                state: ClusterState::Fail,
                reason: None,
                first: None,
                is_safe_to_join: false,
                has_come_back: false,
                size: 0,
                last_minority: None,
                stood_until: None,
            },
            durable: Durable::new(told),
            failover: Failovers {
                paused: ManualFailover::Off,
                candidacy: Candidacy::default(),
                is_leaving: false,
                voted_until: 0,
            },
            rights: VotingRights { sureness: Sureness::Sure, votes: VoteRight::Free },
            keys: StrayKeys {
                strays: SlotSet::EMPTY,
                dirty: SlotSet::EMPTY,
                has_any: true,
                are_known: false,
                moves: MoveLog::default(),
                granted_here: BTreeMap::new(),
            },
            todo: Todo { evaluate: true, map: true, ..Todo::default() },
            cron: CronMemory::default(),
            statistics: Statistics::default(),
            out: VecDeque::new(),
        };
        machine.durable.told = machine.view();
        machine
    }

    /// What the state of this moment says of this node. Slots that another node may claim by now are not
    /// claimed.
    pub(crate) fn view(&self) -> ToldView {
        let me = self.table.me();
        let claim = match me.role {
            NodeRole::Replica(primary) => {
                OwnClaim::Replica { of: primary.map(|primary| self.table.node(primary).id) }
            }
            NodeRole::Primary | NodeRole::Unknown => {
                let mut slots = Box::new(me.slots.clone());
                self.keys.moves.granted().for_each(|slot| _ = slots.remove(slot));
                OwnClaim::Primary { config_epoch: me.config_epoch, slots }
            }
        };
        ToldView { current_epoch: self.epochs.current, claim, shard: me.shown_shard() }
    }

    /// The node whose id is `text`.
    ///
    /// # Errors
    /// The error for the client.
    pub(crate) fn known(&self, text: &[u8]) -> Result<NodeIx, String> {
        let ix = NodeId::parse(text).and_then(|id| self.table.find(&id));
        ix.ok_or_else(|| format!("ERR Unknown node {}", String::from_utf8_lossy(text)))
    }

    /// The file has to be written again.
    pub(crate) fn save(&mut self) {
        self.durable.changed();
    }

    /// Tells every node what this one is by now, once that is durable.
    pub(crate) fn announce(&mut self) {
        self.durable.hold(Withheld::Announce);
    }

    /// Evaluates the cluster's state, and gives out the map, at the end of the step.
    pub(crate) fn reconsider(&mut self) {
        (self.todo.evaluate, self.todo.map) = (true, true);
        self.todo.reconsider = false;
    }

    /// Another node's health has changed: what follows for the cluster is found at the end of the event loop
    /// iteration, once for all messages of it, and at any other input.
    pub(crate) fn reconsider_soon(&mut self) {
        self.todo.reconsider = true;
    }

    /// An operator has said what this node is (N-26).
    pub(crate) fn grow_sure(&mut self) {
        if self.rights.sureness != Sureness::Sure {
            self.rights.sureness = Sureness::Sure;
            self.reconsider();
            self.save();
        }
    }

    /// Whether this node is a replica of `ix`.
    pub(crate) fn is_my_primary(&self, ix: NodeIx) -> bool {
        self.table.me().primary() == Some(ix)
    }

    /// Id and name of a node, for the log (N-6).
    pub(crate) fn name(&self, ix: NodeIx) -> NamedNode<'_> {
        NamedNode(self.table.node(ix), self.named(ix))
    }

    fn named(&self, ix: NodeIx) -> LogName<'_> {
        let node = self.table.node(ix);
        LogName {
            labels: &node.place.labels,
            address: &node.place.address,
            transport: self.settings.transport,
        }
    }

    /// A new node, of which nothing but the id is known.
    pub(crate) fn new_node(&mut self, id: NodeId) -> ClusterNode {
        let shard = ShardId::random(&mut self.rng);
        ClusterNode::new(id, shard, self.time.now)
    }

    /// Closes a link, on both sides of the interface.
    pub(crate) fn close(&mut self, key: LinkKey) {
        if self.unlink(key) {
            self.out.push_back(ClusterOutput::Close { link: key });
        }
    }

    /// Takes a link that has ended out of the state; whether it was there.
    pub(crate) fn unlink(&mut self, key: LinkKey) -> bool {
        let Some(link) = self.links.remove(key) else { return false };
        let now = self.time.now;
        match link.kind {
            LinkKind::Out { node, .. } => self.table.node_mut(node).place.link_out = LinkOut::None,
            LinkKind::In { node: Some(node), .. } => {
                let node = self.table.node_mut(node);
                if node.place.link_in == Some(key) {
                    node.place.link_in = None;
                    node.clocks.link_in_lost = now;
                }
            }
            LinkKind::In { node: None, .. } => {}
        }
        true
    }

    /// A connection has ended at its other end. That of a link out starts the clock of suspicion (F-1), which
    /// otherwise starts with the next PING that is due, up to half of the node timeout later: a process that
    /// was killed says nothing else.
    pub(crate) fn lost(&mut self, key: LinkKey) {
        let node = self.links.get(key).filter(|link| link.is_open).and_then(|link| match link.kind {
            LinkKind::Out { node, target: DialTarget::AnnouncedLabels } => Some(node),
            LinkKind::Out { .. } | LinkKind::In { .. } => None,
        });
        self.unlink(key);
        let now = self.time.now;
        if let Some(ix) = node.filter(|ix| !self.table.node(*ix).is_handshake()) {
            self.table.node_mut(ix).clocks.ping_sent.get_or_insert(now);
        }
    }

    /// Closes the link out of a node; the next cron dials again.
    pub(crate) fn drop_link_out(&mut self, ix: NodeIx) {
        if let Some(key) = self.table.node(ix).place.link_out.key() {
            self.close(key);
        }
    }

    /// Takes a node and its links away (G-22).
    pub(crate) fn delete(&mut self, ix: NodeIx) {
        self.drop_link_out(ix);
        if let Some(key) = self.table.node(ix).place.link_in {
            self.close(key);
        }
        if self.failover.paused.replica() == Some(ix) {
            self.end_pause();
        }
        let slots = self.table.delete(ix);
        self.channels_gone(slots);
        self.reconsider();
        self.save();
    }

    /// A manual failover of this node as a primary is over. Writes go on when the map of this step is in
    /// force: one that waited must not be taken by a node that has just lost the slot.
    pub(crate) fn end_pause(&mut self) {
        if self.failover.paused != ManualFailover::Off {
            self.failover.paused = ManualFailover::Off;
            self.todo.unpause = true;
        }
    }

    /// Takes a slot from its owner.
    pub(crate) fn unbind(&mut self, slot: HashSlot) -> Option<NodeIx> {
        let owner = self.table.unbind(slot)?;
        self.reconsider();
        Some(owner)
    }

    /// Tells subscribers of sharded channels that their slots are elsewhere.
    pub(crate) fn channels_gone(&mut self, slots: SlotSet) {
        if !slots.is_empty() {
            self.out.push_back(ClusterOutput::ChannelsGone(Box::new(slots)));
        }
    }
}

/// A node as the log names it: `<id> (<name>)`.
pub(crate) struct NamedNode<'a>(&'a ClusterNode, LogName<'a>);

impl fmt::Display for NamedNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.id, self.1)
    }
}
