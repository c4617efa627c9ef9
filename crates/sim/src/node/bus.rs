//! The bus of a node, over the simulated network; the counterpart of `server/iteration/bus.rs`.

mod links;

pub use self::links::ip_of;

pub(super) use self::links::Bus;

use self::links::BusSeat;
use super::{Call, SimNode};
use crate::net::{ConnId, Net, NodeId, Side};
use sluice_cluster::{ClusterInput, DialMoment, LinkKey};
use sluice_control::cluster::order::BusOrder;

/// Difference between the bus port and the port for clients.
const BUS_PORT: u16 = 10_000;

impl SimNode {
    /// Handles the bytes that other nodes have sent, and the result of a finished write of `nodes.conf`.
    pub(super) fn collect_bus(&mut self, net: &mut Net) {
        let now_ns = self.process.base.now.mono_ns;
        let Some(bus) = &mut self.bus else { return };
        if let Some((generation, is_durable)) = bus.file.end(now_ns) {
            match is_durable {
                true => self.step_bus(&ClusterInput::Saved { generation }),
                false => self.step_bus(&ClusterInput::SaveFailed { generation }),
            }
        }
        let conns: Vec<(LinkKey, ConnId, Side)> = match &self.bus {
            Some(bus) => bus.seats.iter().map(|seat| (seat.link, seat.conn, seat.side)).collect(),
            None => Vec::new(),
        };
        for (link, conn, side) in conns {
            let arrived = net.receive(conn, side);
            if !arrived.bytes.is_empty() {
                self.step_bus(&ClusterInput::ReceivedMessage { link, bytes: &arrived.bytes });
            }
            if arrived.has_ended && self.leave_bus(link, net) {
                self.step_bus(&ClusterInput::Closed { link });
            }
        }
        self.drive_bus(net);
    }

    fn step_bus(&mut self, input: &ClusterInput<'_>) {
        self.engine.step_cluster(input, &mut self.process);
    }

    /// Closes a link's connection; returns `false` if the link had none.
    fn leave_bus(&mut self, link: LinkKey, net: &mut Net) -> bool {
        let Some(bus) = &mut self.bus else { return false };
        bus.dialling.retain(|dialled| *dialled != link);
        let Some(at) = bus.seats.iter().position(|seat| seat.link == link) else { return false };
        let seat = bus.seats.swap_remove(at);
        net.close(seat.conn, seat.side, &mut self.rng);
        true
    }

    /// Carries out the engine's orders for the bus until there are no more.
    pub(super) fn drive_bus(&mut self, net: &mut Net) {
        while let Some(order) = self.engine.next_bus_order() {
            let now_ns = self.process.base.now.mono_ns;
            let Some(bus) = &mut self.bus else { return };
            match order {
                BusOrder::Dial { link, port, .. } => {
                    bus.dialling.push(link);
                    self.calls.push((Call::Bus(link), usize::from(port - BUS_PORT - super::port_of(0))));
                }
                BusOrder::Close { link } => {
                    self.leave_bus(link, net);
                }
                BusOrder::Resolve { node, .. } => {
                    self.step_bus(&ClusterInput::Resolved { node, addresses: &[] });
                }
                BusOrder::Send { link, message, lane } => {
                    if let Some(seat) = bus.seats.iter().find(|seat| seat.link == link) {
                        net.send(seat.conn, seat.side, message.to_vec(), &mut self.rng);
                        self.step_bus(&ClusterInput::Sent { link, lane, bytes: message.len() });
                    }
                }
                BusOrder::Persist { generation, file } => {
                    bus.file.begin(generation, file, now_ns, &mut self.rng);
                }
                BusOrder::End => self.is_ending = true,
            }
        }
    }

    /// Adds to the bus a connection that another node has opened. If the engine refuses the link, the
    /// connection is closed.
    pub fn accept_bus(&mut self, conn: ConnId, from: NodeId, net: &mut Net) {
        let local = ip_of(self.id);
        match self.engine.accept_bus_link(ip_of(from), local, &mut self.process) {
            Some(link) => self.seat_on_bus(link, conn, Side::Acceptor),
            None => net.close(conn, Side::Acceptor, &mut self.rng),
        }
    }

    fn seat_on_bus(&mut self, link: LinkKey, conn: ConnId, side: Side) {
        if let Some(bus) = &mut self.bus {
            bus.seats.push(BusSeat { link, conn, side });
        }
    }

    /// Handles the outcome of a connection attempt that a link asked for.
    pub fn bus_connected(&mut self, link: LinkKey, made: Result<ConnId, &str>, net: &mut Net) {
        let Some(bus) = &mut self.bus else { return };
        let is_wanted = bus.dialling.contains(&link);
        bus.dialling.retain(|dialled| *dialled != link);
        match (made, is_wanted) {
            (Ok(conn), true) => {
                self.seat_on_bus(link, conn, Side::Opener);
                self.step_bus(&ClusterInput::Connected { link });
            }
            (Ok(conn), false) => net.close(conn, Side::Opener, &mut self.rng),
            (Err(_), true) => {
                self.step_bus(&ClusterInput::DialFailed { link, moment: DialMoment::Later });
            }
            (Err(_), false) => {}
        }
        self.drive_bus(net);
    }
}
