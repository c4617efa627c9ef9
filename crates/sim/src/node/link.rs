//! The connections of a replica's link to its primary. This file takes the place of the server's event loop
//! and threads.
//!
//! The order of the actions is decided by [`LinkDriver`], which the server uses too.

use super::download::DownloadStage;
use super::main_channel::MainLink;
use super::{Holder, Peer, SimNode, connection, node_of};
use crate::net::{ConnId, Net, Side};
use sluice_control::process::Process;
use sluice_engine::{Engine, LinkDriver, LinkTransport};
use sluice_replication::Input;
use sluice_replication::{LinkState, Primary};
use sluice_snapshot::SnapshotSource;

/// A node, and the network to which its connections belong.
struct Wired<'a> {
    node: &'a mut SimNode,
    net: &'a mut Net,
}

impl SimNode {
    fn wired<'a>(&'a mut self, net: &'a mut Net) -> Wired<'a> {
        Wired { node: self, net }
    }

    /// Drives the link; called once in each iteration.
    pub(super) fn follow_primary(&mut self, net: &mut Net) {
        self.wired(net).carry_out();
        self.replay_stream();
        if self.engine.link_state() != LinkState::None {
            self.advance_download(net);
            self.wired(net).advance_link();
        }
    }

    pub(super) fn link_input(&mut self, input: Input<'_>, net: &mut Net) {
        self.wired(net).link_input(input);
    }

    /// Reports to the link that the event loop has released its connection.
    pub(super) fn link_left(&mut self, net: &mut Net) {
        let attempt = self.attempt;
        self.wired(net).link_left(attempt);
    }

    /// Reports the end of a snapshot's load to the link.
    pub(super) fn take_up_load(&mut self, net: &mut Net) {
        self.wired(net).carry_out();
    }

    /// Handles the outcome of a connection attempt that the link asked for.
    pub fn connected(&mut self, attempt: u64, made: Result<ConnId, &str>, net: &mut Net) {
        if attempt != self.attempt || !matches!(self.holder, Holder::Connecting) {
            if let Ok(conn) = made {
                net.close(conn, Side::Opener, &mut self.rng);
            }
            return;
        }
        match made {
            Ok(conn) => {
                self.holder = Holder::Attached(conn);
                self.link_input(Input::Opened(attempt), net);
            }
            Err(reason) => self.link_input(Input::Refused(attempt, reason), net),
        }
    }
}

impl LinkTransport for Wired<'_> {
    fn engine_and_process(&mut self) -> (&mut Engine, &mut dyn Process) {
        (&mut self.node.engine, &mut self.node.process)
    }

    fn last_activity_ns(&mut self) -> u64 {
        self.node.last_activity_ns
    }

    fn connect_link(&mut self, attempt: u64, primary: Primary) -> Result<(), String> {
        self.node.note_activity();
        self.node.attempt = attempt;
        self.node.holder = Holder::Connecting;
        self.node.wants = Some((attempt, node_of(&primary)));
        Ok(())
    }

    fn keep_as_main_channel(&mut self) {
        if let Holder::Attached(conn) = self.node.holder {
            self.node.main = Some(MainLink::new(conn));
        }
    }

    fn send_on_link(&mut self, bytes: Vec<u8>) {
        if let Holder::Attached(conn) = self.node.holder {
            self.net.send(conn, Side::Opener, bytes, &mut self.node.rng);
        }
    }

    fn send_on_main_channel(&mut self, bytes: Vec<u8>) {
        if let Some(main) = &self.node.main {
            self.net.send(main.conn, Side::Opener, bytes, &mut self.node.rng);
        }
    }

    fn buffer_stream(&mut self, first: Vec<u8>) {
        if let Some(main) = &mut self.node.main {
            main.buffer = Some(first);
        }
    }

    fn leave_link(&mut self, first: Vec<u8>) {
        let Holder::Attached(conn) = self.node.holder else { return };
        self.node.holder = Holder::Leaving(conn, first);
        if !self.node.leaves_later {
            self.node.end_leave(self.net);
        }
    }

    fn receive_to_disk(&mut self) -> Result<(), String> {
        self.node.begin_download(DownloadStage::ToDisk)
    }

    fn receive_to_memory(&mut self) -> Result<Box<dyn SnapshotSource>, String> {
        let (stage, source) = DownloadStage::to_memory();
        self.node.begin_download(stage)?;
        Ok(source)
    }

    fn commit_download(&mut self) {
        let at_ns = self.node.later(300);
        if let Holder::Receiving(download) = &mut self.node.holder {
            download.stage = DownloadStage::Committing(at_ns);
        }
    }

    fn keep_link_alive(&mut self) {
        if self.node.main.is_some() {
            self.send_on_main_channel(b"\n".to_vec());
        } else if let Holder::Received(conn, _) = self.node.holder {
            self.net.send(conn, Side::Opener, b"\n".to_vec(), &mut self.node.rng);
        }
    }

    fn stream_from_link(&mut self, rest: Vec<u8>) -> bool {
        let node = &mut *self.node;
        if let Some(main) = node.main.take() {
            node.stream_from_main(main, self.net);
            return true;
        }
        let (conn, rest) = match std::mem::replace(&mut node.holder, Holder::Nobody) {
            Holder::Attached(conn) => (conn, rest),
            Holder::Received(conn, behind) => (conn, behind),
            _ => return false,
        };
        let key = node.engine.connect_primary(connection(node.id), &mut node.process);
        node.note_activity();
        node.holder = Holder::Session(key);
        node.add_seat(key, Peer::Link(conn), rest);
        node.execute(key);
        true
    }

    fn close_link(&mut self) {
        let Wired { node, net } = self;
        node.close_main(net);
        match std::mem::replace(&mut node.holder, Holder::Nobody) {
            Holder::Nobody | Holder::Connecting => {}
            Holder::Attached(conn)
            | Holder::Leaving(conn, _)
            | Holder::Left(conn, _)
            | Holder::Received(conn, _) => net.close(conn, Side::Opener, &mut node.rng),
            Holder::Receiving(download) => {
                net.close(download.conn, Side::Opener, &mut node.rng);
                if let (DownloadStage::ToMemory(_), Some((due_ns, job))) = (&download.stage, &mut node.load) {
                    job.progress().stop();
                    *due_ns = 0;
                }
            }
            Holder::Session(key) => node.connection_lost(key, net),
        }
    }
}
