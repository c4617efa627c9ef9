//! The state of a node's state machine, and functions that all modules of the crate use: log lines, names of
//! nodes, closing links, deleting nodes.

use crate::address::LogName;
use crate::candidacy::Candidacy;
use crate::durable::{Durable, OwnClaim, PublishedView, Withheld};
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

/// Writes a line of the log; its text is formatted only if its level is enabled.
macro_rules! log {
    ($machine:expr, $level:ident, $($text:tt)+) => {
        if $machine.settings.log_level <= sluice_base::LogLevel::$level {
            let text = format!($($text)+);
            $machine.out.push_back(crate::output::ClusterOutput::Log(sluice_base::LogLevel::$level, text));
        }
    };
}
pub(crate) use log;

/// The time of the present step, on the monotonic clock and as wall time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepTime {
    pub(crate) now: Ms,
    pub(crate) wall_ms: i64,
}

/// Epochs of the cluster (E-1). The table holds each primary's config epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    pub(crate) current: ClusterEpoch,
    pub(crate) last_vote: ClusterEpoch,
}

/// The reason why the cluster is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DownReason {
    Coverage,
    Minority,
}

/// The cluster's state and its history (F-20 to F-24).
#[derive(Clone, Debug)]
pub(crate) struct StateOfCluster {
    pub(crate) state: ClusterState,
    pub(crate) reason: Option<DownReason>,
    /// Time at which the state was first evaluated in this process.
    pub(crate) first: Option<Ms>,
    /// Whether votes may be given (F-21).
    pub(crate) is_safe_to_join: bool,
    /// Whether this process has started from a file in which this node owned slots and other nodes were
    /// listed.
    pub(crate) has_come_back: bool,
    /// Number of voters at the last evaluation.
    pub(crate) size: u32,
    pub(crate) last_minority: Option<Ms>,
    /// Time at which this node's process continued after a suspension, or at which this node completed a
    /// takeover that it had forgotten (`roles.rs`); `None` again as soon as a quorum has answered since then
    /// (S-24).
    pub(crate) stood_until: Option<Ms>,
}

/// Whether this node is sure of its role and slots. A node whose own line of the file could not be read as a
/// whole is not sure until its role and slots are confirmed (N-26).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sureness {
    Sure,
    Unsure { warned: Option<Ms> },
}

/// Whether this node knows in which epochs it may have voted. A node that could not read the file's epochs
/// does not know until enough other nodes have sent theirs (N-27).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VoteRight {
    Free,
    EpochUnknown { since: Ms, heard: Vec<NodeId> },
}

/// A failover that this node assists as the primary: a manual one (M3), or the handover before its process
/// ends (M10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManualFailover {
    Off,
    /// Writes are about to be held back, but some may still be executed, so the end of the stream is not
    /// known. The request arrived on `link`.
    Pausing {
        replica: NodeIx,
        end: Ms,
        link: LinkKey,
    },
    /// No write is executed any more, and the replica is sent the offset of the stream's end.
    Paused {
        replica: NodeIx,
        end: Ms,
    },
}

impl ManualFailover {
    /// The replica that is to become the primary.
    pub(crate) fn replica(self) -> Option<NodeIx> {
        match self {
            ManualFailover::Off => None,
            ManualFailover::Pausing { replica, .. } | ManualFailover::Paused { replica, .. } => Some(replica),
        }
    }

    /// The time at which the failover is given up.
    pub(crate) fn end(self) -> Option<Ms> {
        match self {
            ManualFailover::Off => None,
            ManualFailover::Pausing { end, .. } | ManualFailover::Paused { end, .. } => Some(end),
        }
    }
}

/// Failovers in which this node takes part.
#[derive(Clone, Debug)]
pub(crate) struct Failovers {
    /// Used on a primary: whether writes are paused for a replica that is to take over.
    pub(crate) paused: ManualFailover,
    /// Used on a replica: this node's own election.
    pub(crate) candidacy: Candidacy,
    /// Whether this node's process is about to end; a replica then redirects its readers.
    pub(crate) is_leaving: bool,
    /// Used on a primary that has voted for one of its replicas: the time until which that replica may win
    /// its election and claim this node's slots.
    pub(crate) voted_until: Ms,
}

/// The work for the end of the step, or of the event loop iteration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Todo {
    /// Evaluate the cluster's state.
    pub(crate) evaluate: bool,
    /// Output a new map of slots.
    pub(crate) map: bool,
    /// Evaluate the state and output a new map at the end of the event loop iteration, because other nodes'
    /// health has changed. When many nodes fail or return together, the messages about them arrive together,
    /// and one evaluation is enough.
    pub(crate) reconsider: bool,
    /// Decide at the end of the event loop iteration whether this replica starts an election.
    pub(crate) elect: bool,
    /// Begin no write of the file before the present execution unit (such as a transaction) ends. Otherwise
    /// other nodes could take slots that one command of the unit gives up and the next command takes back.
    pub(crate) is_in_unit: bool,
    /// Let the writes that a failover has held back continue, unless another failover has begun. The new map,
    /// which decides where these writes are executed, is output first.
    pub(crate) unpause: bool,
}

/// This node's own keys in slots of other nodes, and the moves that bring keys to this node.
#[derive(Clone, Debug)]
pub(crate) struct StrayKeys {
    /// Slots that had keys here at the start or at a promotion although another node owned them. The keys are
    /// deleted when the owner claims the slot.
    pub(crate) strays: SlotSet,
    /// Slots taken from this node by the current message, possibly with keys here (E-15).
    pub(crate) dirty: SlotSet,
    /// Whether this node has any keys; `true` until the server has reported that it has none.
    pub(crate) has_any: bool,
    /// Whether the server has reported if this node has keys; it does not report while it loads data.
    pub(crate) are_known: bool,
    /// Atomic moves of slots.
    pub(crate) moves: MoveLog,
    /// Slots that this node has claimed after their source granted them (at the end of a move), each with the
    /// source, for as long as this node keeps them against claims of the source (see `contested.rs`).
    pub(crate) granted_here: BTreeMap<HashSlot, NodeId>,
}

/// The whole state of a node in a cluster.
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

/// Restrictions on this node after a damaged file.
#[derive(Clone, Debug)]
pub(crate) struct VotingRights {
    pub(crate) sureness: Sureness,
    pub(crate) votes: VoteRight,
}

/// Another primary in this node's shard (D-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TwinPrimary {
    pub(crate) id: NodeId,
    /// The time of the tick that first saw the other primary.
    pub(crate) since: Ms,
    /// Whether the log has reported that keys prevent this node from becoming a replica.
    pub(crate) is_said: bool,
}

/// State that the cron keeps between ticks.
#[derive(Clone, Debug, Default)]
pub(crate) struct CronMemory {
    pub(crate) rounds: u64,
    /// The earliest time at which a node with an unanswered ping is to be suspected (F-26).
    pub(crate) suspicion_at: Option<Ms>,
    /// Primaries that have lost their replicas, each with the time since which this node has seen that (R20).
    pub(crate) orphans: BTreeMap<NodeId, Ms>,
    /// The other primary in this node's shard (D-7).
    pub(crate) twin: Option<TwinPrimary>,
    /// Memory for the random draws of gossip, reused between messages.
    pub(crate) draws: Vec<NodeIx>,
    /// Memory for the gossip of a message, reused between messages.
    pub(crate) gossip: GossipBuffer,
    pub(crate) packet: Vec<u8>,
}

/// The hash key of a table's index of ids. The key is drawn from a copy of the generator, because a draw from
/// the generator itself would change later draws.
pub(crate) fn index_seed(rng: &Rng) -> HashSeed {
    let mut rng = rng.clone();
    HashSeed { k0: !rng.next_u64(), k1: !rng.next_u64() }
}

impl ClusterMachine {
    /// Sets the time, which never goes back. A PUBLISH within a long transaction or script comes with the
    /// time at which the transaction or script began, which may be earlier.
    pub(crate) fn advance(&mut self, time: StepTime) {
        if time.now >= self.time.now {
            self.time = time;
        }
    }

    /// The state of a new process whose table is `table`.
    pub(crate) fn new(
        table: NodeTable,
        epochs: Epochs,
        settings: Arc<ClusterSettings>,
        rng: Rng,
    ) -> ClusterMachine {
        let shard = table.me().shown_shard();
        let published =
            PublishedView { current_epoch: epochs.current, claim: OwnClaim::Replica { of: None }, shard };
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
            durable: Durable::new(published),
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
        machine.durable.published = machine.view();
        machine
    }

    /// This node's epochs, role, slots and shard at present, without slots that the target of a move may
    /// claim already.
    pub(crate) fn view(&self) -> PublishedView {
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
        PublishedView { current_epoch: self.epochs.current, claim, shard: me.shown_shard() }
    }

    /// The node whose id is `text`.
    ///
    /// # Errors
    /// The error for the client.
    pub(crate) fn known(&self, text: &[u8]) -> Result<NodeIx, String> {
        let ix = NodeId::parse(text).and_then(|id| self.table.find(&id));
        ix.ok_or_else(|| format!("ERR Unknown node {}", String::from_utf8_lossy(text)))
    }

    /// Marks the state as changed, so that the file is written.
    pub(crate) fn save(&mut self) {
        self.durable.changed();
    }

    /// Sends this node's state to all nodes, once it is durable.
    pub(crate) fn announce(&mut self) {
        self.durable.hold(Withheld::Announce);
    }

    /// Requests that the cluster's state be evaluated and a new map be output at the end of the step.
    pub(crate) fn reconsider(&mut self) {
        (self.todo.evaluate, self.todo.map) = (true, true);
        self.todo.reconsider = false;
    }

    /// Requests that the cluster's state be evaluated after a change of another node's health. This happens
    /// once for all messages, at the end of the event loop iteration or at the next input of another kind.
    pub(crate) fn reconsider_soon(&mut self) {
        self.todo.reconsider = true;
    }

    /// Records that an operator's command, or the grant of a move's source, has confirmed this node's role,
    /// so that the node is sure of its state again (N-26).
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

    /// A new node of which only the id is known.
    pub(crate) fn new_node(&mut self, id: NodeId) -> ClusterNode {
        let shard = ShardId::random(&mut self.rng);
        ClusterNode::new(id, shard, self.time.now)
    }

    /// Closes a link here and at the host.
    pub(crate) fn close(&mut self, key: LinkKey) {
        if self.unlink(key) {
            self.out.push_back(ClusterOutput::Close { link: key });
        }
    }

    /// Removes an ended link from the state; `false` if it was not there.
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

    /// Handles the end of a connection. If it was an established outgoing one to a node's announced address,
    /// the time to the suspicion of the node (F-1) starts now, unless a PING is unanswered already, because a
    /// killed process gives no other sign. Without this rule, the time would start with the next due PING, up
    /// to half of the node timeout later.
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

    /// Closes the outgoing link to a node; a later tick dials again.
    pub(crate) fn drop_link_out(&mut self, ix: NodeIx) {
        if let Some(key) = self.table.node(ix).place.link_out.key() {
            self.close(key);
        }
    }

    /// Deletes a node (G-22), closes its links, and ends its manual failover and the subscriptions to sharded
    /// channels of its slots.
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

    /// Ends the failover for which this primary's writes are paused. Writes continue once the map of this
    /// step is in force, because a write that waited must not be executed by a node that has just lost the
    /// slot.
    pub(crate) fn end_pause(&mut self) {
        if self.failover.paused != ManualFailover::Off {
            self.failover.paused = ManualFailover::Off;
            self.todo.unpause = true;
        }
    }

    /// Removes the owner of a slot; returns the former owner.
    pub(crate) fn unbind(&mut self, slot: HashSlot) -> Option<NodeIx> {
        let owner = self.table.unbind(slot)?;
        self.reconsider();
        Some(owner)
    }

    /// Ends the subscriptions to sharded channels of these slots.
    pub(crate) fn channels_gone(&mut self, slots: SlotSet) {
        if !slots.is_empty() {
            self.out.push_back(ClusterOutput::ChannelsGone(Box::new(slots)));
        }
    }
}

/// The form of a node in the log: `<id> (<name>)`.
pub(crate) struct NamedNode<'a>(&'a ClusterNode, LogName<'a>);

impl fmt::Display for NamedNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.id, self.1)
    }
}
