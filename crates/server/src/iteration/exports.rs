//! Moves of slots from this node: their connections come from threads, and are clients' from then on.

use super::Server;
use crate::connection::transport::Transport;
use crate::connection::{self, Connection};
use crate::net::Stream;
use crate::slot_export::{ExportReport, ExportSource};
use sluice_base::SessionKey;
use sluice_cluster::{ExportInput, JobName};
use sluice_config::param;
use sluice_control::cluster::slot_moves::ExportTarget;
use sluice_engine::exports::links;
use sluice_resp::AuthState;
use std::time::Duration;

impl Server {
    /// Begins to connect with the target of a move.
    pub(super) fn begin_export(&mut self, target: ExportTarget) {
        let config = self.engine.config();
        let source = ExportSource {
            address: config.str(param::BIND_SOURCE_ADDR).into_owned(),
            tls: self.host.settings.tls.context_of_links(),
            timeout: Duration::from_secs(config.uint(param::REPL_TIMEOUT)),
        };
        self.exports.begin(target, source);
    }

    /// Takes up what threads have come to.
    pub(super) fn hear_exports(&mut self) {
        while let Some(report) = self.exports.next() {
            let (engine, process) = (&mut self.engine, &mut self.host);
            match report {
                ExportReport::Step(job, step) => {
                    links::tell(engine, job, ExportInput::Handshake(step), process);
                }
                ExportReport::Refused(job, why) => {
                    links::tell(engine, job, ExportInput::NotConnected(&why), process);
                }
                ExportReport::Agreed(job, stream, rest) => self.adopt_export(job, stream, &rest),
            }
        }
    }

    /// Makes the connection with the target of a move a client.
    fn adopt_export(&mut self, job: JobName, stream: Stream, rest: &[u8]) {
        let key = self.session_of_export(&stream);
        let transport = Transport::attach(&mut self.sockets.event_loop, stream, key);
        self.sockets.clients.add(key);
        let mut connection = Connection::new(key, transport);
        connection.authentication = AuthState::Primary;
        connection.input.keep(rest);
        if !links::begin(&mut self.engine, job, key, &mut self.host) {
            // The move has ended meanwhile.
            connection::resume(self, connection);
            return self.end_client(key);
        }
        connection::resume(self, connection);
    }

    fn session_of_export(&mut self, stream: &Stream) -> SessionKey {
        let (addr, laddr) = stream.ends().shown();
        let client = sluice_session::ClientAddress {
            addr,
            laddr: laddr.as_str().into(),
            fd: stream.number(),
            medium: sluice_session::Medium::Tcp,
        };
        links::connect(&mut self.engine, client, &mut self.host)
    }
}
