//! Commands of an operator (sections 3.4, 5.1, 6.1, 6.3 and 7 of the specification).

use super::state::{Stock, Todo};
use crate::cluster::act::{Act, Failover, Order};
use crate::cluster::sets;
use sluice_cluster::wire::NodeFlags;
use sluice_cluster::{NodeId, ShardId, SlotSet};

impl Stock {
    /// Executes a command; the answer is sent after the file is written.
    pub(in crate::cluster) fn order(&mut self, now: u64, ticket: u64, order: &Order) {
        self.now = now;
        let text = self.execute(order).map(|()| "OK".to_owned()).map_err(str::to_owned);
        self.settle();
        self.out.push(Act::Answer { ticket, text });
    }

    fn execute(&mut self, order: &Order) -> Result<(), &'static str> {
        match order {
            Order::Meet(ip) => {
                self.begin_handshake(ip.clone(), NodeFlags::HANDSHAKE | NodeFlags::MEET);
                Ok(())
            }
            Order::Forget(id) => self.forget(*id),
            Order::Replicate(id) => self.replicate(*id),
            Order::ResetSoft => self.reset(None),
            Order::ResetHard => {
                let id = NodeId::random(&mut self.rng);
                self.reset(Some(id))
            }
            Order::AddSlots(slots) => {
                let is_busy = self.nodes.values().any(|node| !sets::and(&node.slots, slots).is_empty());
                if is_busy {
                    return Err("busy");
                }
                let own = self.own_mut();
                own.slots = sets::or(&own.slots, slots);
                self.changed()
            }
            Order::DelSlots(slots) => {
                for node in self.nodes.values_mut() {
                    node.slots = sets::minus(&node.slots, slots);
                    node.unclaimed = sets::minus(&node.unclaimed, slots);
                }
                self.changed()
            }
            Order::Bump => {
                self.bump();
                Ok(())
            }
            Order::SetEpoch(epoch) => {
                if self.nodes.len() > 1 || self.own().config_epoch != 0 {
                    return Err("not alone, or not at 0");
                }
                self.own_mut().config_epoch = *epoch as u64;
                self.current_epoch = self.current_epoch.max(*epoch as u64);
                self.changed()
            }
            Order::Failover(kind) => self.manual_failover(*kind),
        }
    }

    fn changed(&mut self) -> Result<(), &'static str> {
        self.todo = Todo { save: true, evaluate: true, ..self.todo };
        Ok(())
    }

    fn forget(&mut self, id: NodeId) -> Result<(), &'static str> {
        if id == self.me || self.own().primary == Some(id) {
            return Err("myself, or my primary");
        }
        if !self.nodes.contains_key(&id) {
            return Err("unknown");
        }
        self.blacklist.insert(id, self.now + self.settings.blacklist_ttl_ms);
        self.delete(id);
        self.changed()
    }

    fn replicate(&mut self, id: NodeId) -> Result<(), &'static str> {
        let node = self.nodes.get(&id).ok_or("unknown")?;
        if id == self.me || node.has(NodeFlags::REPLICA) {
            return Err("no primary");
        }
        if self.own().has(NodeFlags::PRIMARY) && !self.own().slots.is_empty() {
            return Err("not empty");
        }
        if self.own().primary != Some(id) {
            self.follow(id);
            self.pong_to_all();
        }
        Ok(())
    }

    /// M20 to M22: executes CLUSTER RESET, with HARD if `id` is a new id.
    fn reset(&mut self, id: Option<NodeId>) -> Result<(), &'static str> {
        self.clear_manual();
        let others: Vec<NodeId> = self.nodes.keys().copied().filter(|id| *id != self.me).collect();
        others.into_iter().for_each(|id| self.delete(id));
        self.blacklist.clear();
        self.election.time = 0;
        let shard = ShardId::random(&mut self.rng);
        let own = self.own_mut();
        own.become_primary();
        (own.slots, own.unclaimed, own.shard) = (SlotSet::EMPTY, SlotSet::EMPTY, shard);
        if let Some(id) = id {
            let mut own = self.nodes.remove(&self.me).ok_or("no node of my own")?;
            own.config_epoch = 0;
            self.nodes.insert(id, own);
            (self.me, self.current_epoch, self.last_vote) = (id, 0, 0);
        }
        self.changed()
    }

    /// M-1: CLUSTER FAILOVER, plain or with FORCE or TAKEOVER.
    fn manual_failover(&mut self, kind: Failover) -> Result<(), &'static str> {
        let primary = self.own().primary.and_then(|id| self.nodes.get(&id)).ok_or("no replica")?;
        let is_down = primary.has(NodeFlags::FAIL) || primary.link_out.is_none();
        match kind {
            Failover::Default if is_down => Err("down"),
            Failover::Default => {
                self.begin_manual(false);
                Ok(())
            }
            Failover::Force => {
                self.begin_manual(true);
                Ok(())
            }
            Failover::Takeover => {
                self.bump();
                self.take_over();
                Ok(())
            }
        }
    }
}
