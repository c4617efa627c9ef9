//! A host: a node of ours, or of the stock model of Valkey, with its disk, its clocks and its address.

use crate::cluster::act::{Act, Failover, File, Link, Order};
use crate::cluster::clock::HostClock;
use crate::cluster::disk::HostDisk;
use crate::cluster::queue::{ConnId, Event};
use crate::cluster::stock::{Stock, StockSettings};
use crate::cluster::view::View;
use sluice_base::Now;
use sluice_cluster::{
    Cluster, ClusterAnswer, ClusterCommand, ClusterInput, ClusterOutput, ClusterSettings, DialMoment,
    FailoverKind, Generation, HasKeys, HashSlot, NodeId, ResetKind, RoleChange, SlotMap, SlotSet,
    Synchronisation, Ticket,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The model that a host runs, with its directives.
#[derive(Clone, Debug)]
pub(super) enum Model {
    Ours(Box<ClusterSettings>),
    Stock(StockSettings),
}

/// The running process of a host.
pub(super) enum Machine {
    Ours(Box<Cluster>),
    Stock(Box<Stock>),
}

/// The node's role, epoch and slots in a durable file, which the node may claim in messages.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnWord {
    pub(super) id: NodeId,
    pub(super) replica_of: Option<NodeId>,
    pub(super) is_replica: bool,
    pub(super) epoch: u64,
    pub(super) slots: SlotSet,
}

/// A node of ours or of the stock model, with its disk, its clocks, its address, and what the checks note
/// about it.
pub(super) struct Host {
    pub(super) model: Model,
    pub(super) machine: Option<Machine>,
    pub(super) disk: HostDisk,
    pub(super) clock: HostClock,
    pub(super) ip: Ipv4Addr,
    pub(super) boot: u64,
    pub(super) started_ns: u64,
    /// Whether the node may serve slots at once. A primary must wait after its start (F-21), unless it began
    /// as a replica, or has taken over from its primary since.
    pub(super) serves_at_once: bool,
    /// Whether the node, with `cluster-config-save-behavior best-effort`, may have announced state that its
    /// file does not have, so that after a restart it knows less about itself than other nodes do.
    pub(super) told_beyond_file: bool,
    /// Until when the process is suspended, ns.
    pub(super) frozen_ns: u64,
    /// When the first event that waits for the suspended process happened, ns.
    pub(super) stands_since_ns: u64,
    /// When the process of a voter of ours last continued after a suspension of more than the node timeout
    /// (at least 500 ms), ns.
    pub(super) stood_until_ns: Option<u64>,
    /// The events that wait for the suspended process, in order.
    pub(super) waiting: Vec<Event>,
    /// The number of the cluster that the node belongs to.
    pub(super) group: usize,
    pub(super) links: BTreeMap<Link, (ConnId, usize)>,
    pub(super) keys: SlotSet,
    /// For each slot with keys, the node's epoch when a check last saw the node own the slot.
    pub(super) held_at: BTreeMap<u16, u64>,
    pub(super) map: Option<Arc<SlotMap>>,
    /// Whether the end of an event loop iteration is due.
    pub(super) ends_iteration: bool,
    /// The last offset that was given to the node's state machine.
    pub(super) told_offset: u64,
    /// Until when a replica of ours loads a full sync of its primary's data, ns.
    pub(super) loads_until_ns: u64,
    /// Whether a replica of ours has data of its primary, also on its disk.
    pub(super) has_copy: bool,
    /// When a replica of ours last received data of its primary, ms of its clock.
    pub(super) contact_ms: Option<u64>,
    /// When a manual failover found that this replica has all of its primary's data, ns.
    pub(super) caught_up_ns: Option<u64>,
    /// Since when writes are paused by an order, ns; `None` without a pause.
    pub(super) paused_ns: Option<u64>,
    /// Since when no write is executed, ns: the beginning of the first of successive pauses.
    pub(super) quiet_ns: Option<u64>,
    /// All claims that the node may send, because a durable file has had them (S-23). `durable_epoch` and
    /// `durable_vote` are from such files, too.
    pub(super) words: Vec<OwnWord>,
    pub(super) durable_epoch: u64,
    pub(super) durable_vote: u64,
    pub(super) heard_epoch: u64,
    /// The last deadline that the node's state machine asked for, ms of its clock.
    pub(super) wakes_ms: Option<u64>,
    /// The node's view before its own line was damaged.
    pub(super) was: Option<View>,
    /// Messages sent, by type, since a scene began to count.
    pub(super) sent: [u64; 11],
}

impl Host {
    /// Drops all keys, and ends the load of a full sync.
    pub(super) fn drop_keys(&mut self) {
        self.keys = SlotSet::EMPTY;
        self.held_at.clear();
        self.loads_until_ns = 0;
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self.model, Model::Ours(_))
    }

    /// Starts the process from its file, or as a new node if the file is missing. Errors: the file of a node
    /// of ours cannot be read.
    pub(super) fn start(&mut self, now: Now, seed: u64) -> Result<(), String> {
        let local = [IpAddr::V4(self.ip)];
        self.machine = Some(match (&self.model, &self.disk.file) {
            (Model::Ours(settings), Some(File::Text(text))) => {
                let settings = Arc::new((**settings).clone());
                let cluster = Cluster::start(now, settings, seed, Some(text), &local);
                Machine::Ours(Box::new(cluster.map_err(|why| format!("{why}: {}", text.escape_ascii()))?))
            }
            (Model::Ours(settings), _) => {
                Machine::Ours(Box::new(Cluster::new(now, Arc::new((**settings).clone()), seed)))
            }
            (Model::Stock(settings), Some(File::Stock(file))) => {
                Machine::Stock(Box::new(Stock::load(wall_ms(now), settings.clone(), seed, file)))
            }
            (Model::Stock(settings), _) => {
                Machine::Stock(Box::new(Stock::new(wall_ms(now), settings.clone(), seed)))
            }
        });
        if let Some(Machine::Ours(cluster)) = &mut self.machine {
            cluster.step(now, &ClusterInput::KeysIn(&self.keys));
        }
        Ok(())
    }

    /// Reads a log line that reports that an agreed failover has all data, or that another election follows.
    pub(super) fn note_catching_up(&mut self, text: &str, now_ns: u64) {
        let is_other = text.starts_with("Manual failover timed out")
            || text.starts_with("Forced failover")
            || text.starts_with("Taking over the primary")
            || (text.starts_with("Start of election") && !text.contains("delayed for 0 milliseconds"));
        if text.starts_with("All primary replication stream processed") {
            self.caught_up_ns = Some(now_ns);
        } else if is_other {
            self.caught_up_ns = None;
        }
    }

    pub(super) fn is_primary(&self) -> bool {
        match &self.machine {
            Some(Machine::Ours(cluster)) => cluster.is_primary(),
            Some(Machine::Stock(stock)) => stock.is_primary(),
            None => false,
        }
    }

    pub(super) fn id(&self) -> Option<NodeId> {
        match self.machine.as_ref()? {
            Machine::Ours(cluster) => Some(cluster.id()),
            Machine::Stock(stock) => Some(stock.id()),
        }
    }

    pub(super) fn view(&self) -> Option<View> {
        match self.machine.as_ref()? {
            Machine::Ours(cluster) => Some(View::ours(cluster, self.map.as_deref())),
            Machine::Stock(stock) => Some(View::stock(stock)),
        }
    }

    /// Does a tick. `heard` is the offset that a node of ours has reached in its stream, if the node is in
    /// contact with the stream's source.
    pub(super) fn tick(&mut self, now: Now, heard: Option<u64>) {
        let is_primary = self.is_primary();
        if heard.is_some() {
            self.contact_ms = Some(now.mono_ns / 1_000_000);
            self.has_copy |= !is_primary;
        }
        let has_keys = if is_primary { !self.keys.is_empty() } else { self.has_copy };
        let keys = if has_keys { HasKeys::Yes } else { HasKeys::No };
        match &mut self.machine {
            Some(Machine::Ours(cluster)) => {
                if let Some(offset) = heard {
                    self.told_offset = offset;
                    cluster.step(now, &ClusterInput::Offset(offset));
                }
                cluster.step(now, &ClusterInput::PrimaryContact { at: self.contact_ms });
                cluster.step(now, &ClusterInput::HasKeys(keys));
                cluster.step(now, &ClusterInput::Tick);
            }
            Some(Machine::Stock(stock)) => stock.tick(wall_ms(now)),
            None => {}
        }
    }

    pub(super) fn accept(&mut self, now: Now, peer: Ipv4Addr) -> Option<Link> {
        match self.machine.as_mut()? {
            Machine::Ours(cluster) => {
                cluster.accept(now, IpAddr::V4(peer), IpAddr::V4(self.ip)).map(Link::Ours)
            }
            Machine::Stock(stock) => Some(stock.accept(wall_ms(now), peer.to_string(), self.ip.to_string())),
        }
    }

    pub(super) fn connected(&mut self, now: Now, link: Link) {
        match (&mut self.machine, link) {
            (Some(Machine::Ours(cluster)), Link::Ours(link)) => {
                cluster.step(now, &ClusterInput::Connected { link });
            }
            (Some(Machine::Stock(stock)), Link::Stock(link)) => stock.connected(wall_ms(now), link),
            _ => {}
        }
    }

    pub(super) fn received(&mut self, now: Now, link: Link, bytes: &[u8]) {
        match (&mut self.machine, link) {
            (Some(Machine::Ours(cluster)), Link::Ours(link)) => {
                cluster.step(now, &ClusterInput::ReceivedMessage { link, bytes });
            }
            (Some(Machine::Stock(stock)), Link::Stock(link)) => stock.received(wall_ms(now), link, bytes),
            _ => {}
        }
    }

    pub(super) fn closed(&mut self, now: Now, link: Link) {
        match (&mut self.machine, link) {
            (Some(Machine::Ours(cluster)), Link::Ours(link)) => {
                cluster.step(now, &ClusterInput::Closed { link });
            }
            (Some(Machine::Stock(stock)), Link::Stock(link)) => stock.closed(wall_ms(now), link),
            _ => {}
        }
    }

    pub(super) fn dial_failed(&mut self, now: Now, link: Link, at_once: bool) {
        match (&mut self.machine, link) {
            (Some(Machine::Ours(cluster)), Link::Ours(link)) => {
                let moment = if at_once { DialMoment::AtOnce } else { DialMoment::Later };
                cluster.step(now, &ClusterInput::DialFailed { link, moment });
            }
            (Some(Machine::Stock(stock)), Link::Stock(link)) => {
                stock.dial_failed(wall_ms(now), link, at_once);
            }
            _ => {}
        }
    }

    /// Passes an input to a node of ours; does nothing for a stock node, or without a process.
    pub(super) fn input(&mut self, now: Now, input: &ClusterInput<'_>) {
        if let Some(Machine::Ours(cluster)) = &mut self.machine {
            cluster.step(now, input);
        }
    }

    pub(super) fn order(&mut self, now: Now, ticket: u64, order: &Order) {
        let data = if self.keys.is_empty() { HasKeys::No } else { HasKeys::Yes };
        match &mut self.machine {
            Some(Machine::Ours(cluster)) => order_ours(cluster, now, ticket, order, data),
            Some(Machine::Stock(stock)) => stock.order(wall_ms(now), ticket, order),
            None => {}
        }
    }

    pub(super) fn awaits_iteration_end(&self) -> bool {
        matches!(&self.machine, Some(Machine::Ours(cluster)) if cluster.awaits_iteration_end())
    }

    /// The end of a primary's stream; 0 without a process. With a node of ours it grows with time, in bursts,
    /// except while writes are paused.
    pub(super) fn stream_end(&self, now: Now) -> u64 {
        match &self.machine {
            Some(Machine::Ours(_)) => {
                let at_ns = self.quiet_ns.map_or(now.mono_ns, |paused| self.clock.now(paused).mono_ns);
                self.clock.stream_end(at_ns)
            }
            Some(Machine::Stock(stock)) => stock.offset(),
            None => 0,
        }
    }

    /// The next deadline of a node of ours, ms of its clock; `None` for a stock node, which has ticks only.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        match &self.machine {
            Some(Machine::Ours(cluster)) => cluster.deadline(),
            _ => None,
        }
    }

    /// The requests of the node's state machine since the last call.
    pub(super) fn take_acts(&mut self) -> Vec<Act> {
        match &mut self.machine {
            Some(Machine::Ours(cluster)) => {
                std::iter::from_fn(|| cluster.next_output()).filter_map(act).collect()
            }
            Some(Machine::Stock(stock)) => stock.take_acts(),
            None => Vec::new(),
        }
    }
}

fn wall_ms(now: Now) -> u64 {
    now.unix_ms() as u64
}

fn order_ours(cluster: &mut Cluster, now: Now, ticket: u64, order: &Order, data: HasKeys) {
    let list: Vec<HashSlot> = match order {
        Order::AddSlots(slots) | Order::DelSlots(slots) => slots.iter().collect(),
        _ => Vec::new(),
    };
    let command = match order {
        Order::Meet(ip) => ClusterCommand::Meet { ip, port: 6_379, bus_port: None },
        Order::Forget(id) => ClusterCommand::Forget { node: id.as_bytes() },
        Order::Replicate(id) => ClusterCommand::Replicate { node: id.as_bytes(), data },
        Order::ResetSoft => ClusterCommand::Reset { kind: ResetKind::Soft, data },
        Order::ResetHard => ClusterCommand::Reset { kind: ResetKind::Hard, data },
        Order::AddSlots(_) => ClusterCommand::AddSlots { slots: &list },
        Order::DelSlots(_) => ClusterCommand::DelSlots { slots: &list },
        Order::Bump => ClusterCommand::BumpEpoch,
        Order::SetEpoch(epoch) => ClusterCommand::SetConfigEpoch { epoch: *epoch },
        Order::Failover(kind) => ClusterCommand::Failover {
            kind: match kind {
                Failover::Default => FailoverKind::Agreed,
                Failover::Force => FailoverKind::Forced,
                Failover::Takeover => FailoverKind::Takeover,
            },
        },
    };
    cluster.step(now, &ClusterInput::Command { ticket: Ticket(ticket), client: "sim", command });
}

/// The request in an output; `None` for outputs that have no effect in the simulation.
fn act(output: ClusterOutput) -> Option<Act> {
    Some(match output {
        ClusterOutput::Dial { link, ip, .. } => Act::Dial { link: Link::Ours(link), ip: ip.to_string() },
        ClusterOutput::Close { link } => Act::Close { link: Link::Ours(link) },
        ClusterOutput::Send { link, message, .. } => Act::Send { link: Link::Ours(link), message },
        ClusterOutput::Persist { generation: Generation(generation), file } => {
            Act::Persist { generation, file: File::Text(file) }
        }
        ClusterOutput::Resolve { node, host } => Act::Resolve { node, host },
        ClusterOutput::Reply { to: Ticket(ticket), answer } => {
            let text = match answer {
                ClusterAnswer::Ok => Ok("OK".to_owned()),
                ClusterAnswer::Integer(number) => Ok(number.to_string()),
                ClusterAnswer::Status(text) => Ok(text),
                ClusterAnswer::Error(text) => Err(text),
            };
            Act::Answer { ticket, text }
        }
        ClusterOutput::EmptySlots { slots, .. } => Act::Empty(slots),
        ClusterOutput::Role(RoleChange::DropData) => Act::DropKeys,
        ClusterOutput::Role(RoleChange::ReplicaOf { synchronisation, .. }) => {
            Act::Follow { is_full: synchronisation == Synchronisation::Full }
        }
        ClusterOutput::Role(RoleChange::Primary) => Act::Lead,
        ClusterOutput::PauseWrites { .. } => Act::Pause,
        ClusterOutput::Unpause => Act::Unpause,
        ClusterOutput::Slots(map) => Act::Map(map),
        ClusterOutput::Log(_, text) => Act::Log(text),
        ClusterOutput::End(_) => Act::End,
        ClusterOutput::ChannelsGone(_)
        | ClusterOutput::AskKeys
        | ClusterOutput::Deliver { .. }
        | ClusterOutput::Migration(_) => return None,
    })
}
