//! Moves of hash slots from this node. Threads make the connections to the targets, and this file makes
//! them connections of clients.

use super::Server;
use crate::connection::transport::Transport;
use crate::connection::{self, Connection};
use crate::net::Stream;
use crate::slot_export::ExportReport;
use sluice_cluster::{ExportInput, JobName};
use sluice_engine::exports::links;
use sluice_resp::AuthState;
use sluice_session::{ClientAddress, Medium};

impl Server {
    /// Takes the reports of the threads that connect.
    pub(super) fn poll_exports(&mut self) {
        while let Some(report) = self.exports.next() {
            let (engine, process) = (&mut self.engine, &mut self.host);
            match report {
                ExportReport::Step(job, step) => {
                    links::tell(engine, job, ExportInput::Handshake(step), process);
                }
                ExportReport::Refused(job, why) => {
                    links::tell(engine, job, ExportInput::NotConnected(&why), process);
                }
                ExportReport::Agreed(job, stream, rest) => adopt(self, job, stream, &rest),
            }
        }
    }
}

/// Makes a client of the connection with the target of a slot move.
fn adopt(server: &mut Server, job: JobName, stream: Stream, rest: &[u8]) {
    if !links::is_wanted(&mut server.engine, job) {
        // The move has ended in the meantime, so the connection is closed by dropping the stream.
        return;
    }
    let (addr, laddr) = stream.ends().shown();
    let client = ClientAddress {
        addr,
        laddr: laddr.as_str().into(),
        fd: stream.number(),
        medium: Medium::Tcp,
        has_priority: false,
    };
    let key = links::connect(&mut server.engine, client, &mut server.host);
    let transport = Transport::attach(&mut server.sockets.event_loop, stream, key);
    server.sockets.clients.add(key);
    let mut connection = Connection::new(key, transport);
    connection.authentication = AuthState::Primary;
    connection.input.keep(rest);
    links::begin(&mut server.engine, job, key, &mut server.host);
    connection::resume(server, connection);
}
