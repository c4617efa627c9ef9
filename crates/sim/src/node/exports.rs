//! The connections over which a node moves slots to other nodes: the counterpart of `server/slot_export.rs`,
//! whose threads establish the move with the target, and of `server/iteration/exports.rs`.

mod dial;

pub(super) use self::dial::ExportDial;

use super::{Call, Peer, SimNode, connection, port_of};
use crate::net::{ConnId, Net, Side};
use sluice_cluster::{ExportHandshake, ExportInput, JobName};
use sluice_control::cluster::slot_moves::ExportTarget;
use sluice_engine::exports::{links, slot_exports};

impl SimNode {
    pub(super) fn dial_export(&mut self, target: ExportTarget) {
        let ExportTarget { job, port, establish, .. } = target;
        self.exports.push(ExportDial { job, establish, conn: None, input: Vec::new() });
        self.calls.push((Call::Export(job), usize::from(port - port_of(0))));
    }

    /// Handles the outcome of a connection attempt that a move asked for.
    pub fn export_connected(&mut self, job: JobName, made: Result<ConnId, &str>, net: &mut Net) {
        let at = self.exports.iter().position(|dial| dial.job == job);
        match (made, at) {
            (Ok(conn), Some(at)) => {
                self.tell_export(job, ExportInput::Handshake(ExportHandshake::SendingEstablishCommand));
                let dial = &mut self.exports[at];
                dial.conn = Some(conn);
                net.send(conn, Side::Opener, std::mem::take(&mut dial.establish), &mut self.rng);
                self.tell_export(job, ExportInput::Handshake(ExportHandshake::ReadingEstablishResponse));
            }
            (Ok(conn), None) => net.close(conn, Side::Opener, &mut self.rng),
            (Err(why), Some(at)) => {
                self.exports.remove(at);
                let why = format!("Unable to connect to target node: {why}");
                self.tell_export(job, ExportInput::NotConnected(&why));
            }
            (Err(_), None) => {}
        }
    }

    /// Decides at random whether each reading of the clock advances the clock in this iteration. This is
    /// possible only in an iteration that scans or deletes keys for a move.
    pub(super) fn leaps(&mut self) -> bool {
        let Some(machine) = self.engine.node() else { return false };
        let cleans = machine.migrations().any(|row| row.state == "cleaning-up");
        let walks = slot_exports(&mut self.engine).is_some_and(|exports| exports.work_ns().is_some());
        (cleans || walks) && self.rng.below(3) == 0
    }

    fn tell_export(&mut self, job: JobName, input: ExportInput<'_>) {
        links::tell(&mut self.engine, job, input, &mut self.process);
    }

    /// Takes the answers of targets, and closes the connections of moves that have ended.
    pub(super) fn collect_exports(&mut self, net: &mut Net) {
        for mut dial in std::mem::take(&mut self.exports) {
            let Some(conn) = dial.conn else {
                self.exports.push(dial);
                continue;
            };
            if !links::is_wanted(&mut self.engine, dial.job) {
                net.close(conn, Side::Opener, &mut self.rng);
                continue;
            }
            let arrived = net.receive(conn, Side::Opener);
            dial.input.extend_from_slice(&arrived.bytes);
            let end = dial.input.windows(2).position(|two| two == b"\r\n");
            match end.map(|end| dial.input.split_at(end + 2)) {
                Some((b"+OK\r\n", rest)) => self.adopt_export(dial.job, conn, rest.to_vec()),
                Some((answer, _)) => {
                    let answer = String::from_utf8_lossy(answer.trim_ascii_end());
                    let why = format!("Received error during handshake to target: {answer}");
                    self.tell_export(dial.job, ExportInput::NotConnected(&why));
                    net.close(conn, Side::Opener, &mut self.rng);
                }
                None if arrived.has_ended => {
                    self.tell_export(dial.job, ExportInput::NotConnected("Connection lost to target."));
                    net.close(conn, Side::Opener, &mut self.rng);
                }
                None => self.exports.push(dial),
            }
        }
    }

    /// Gives the connection a session, because the target has agreed to the move.
    fn adopt_export(&mut self, job: JobName, conn: ConnId, rest: Vec<u8>) {
        let key = links::connect(&mut self.engine, connection(self.id), &mut self.process);
        self.add_seat(key, Peer::Export(conn), rest);
        links::begin(&mut self.engine, job, key, &mut self.process);
        self.execute(key);
    }
}
