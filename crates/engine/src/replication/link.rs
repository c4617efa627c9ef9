//! The link to the primary, as far as the server behind it is concerned: what a step of its machine can see.
//!
//! The process has the connection and the clock; what the machine learns of this server comes from here alone, so that a simulation and
//! the server cannot differ in it.

use crate::engine::Engine;
use crate::host::process::Process;
use sluice_config::param;
use sluice_replication::{Credentials, HistoryPoint, Input, LinkOutput, ReplicaLink, Surroundings};

impl Engine {
    /// Takes a step of the machine of the link, and learns how far the link is. What the machine wants done is returned, in order;
    /// [`Engine::settle_link`] is to be called behind that. While the link does not know whom this server follows now, what it receives is
    /// dropped: [`Input::Follow`] comes next, and ends the connection.
    /// `heard_ns`: when something was heard last on a connection that others read; `version`: the one that is announced.
    pub fn step_link(
        &mut self,
        link: &mut ReplicaLink,
        input: Input<'_>,
        (heard_ns, version): (u64, &str),
        process: &mut dyn Process,
    ) -> Vec<LinkOutput> {
        match &input {
            Input::Follow(_) | Input::HandOver(_) => {
                self.control.replication.link_epoch = self.control.replication.role_epoch
            }
            // What the primary of before answers, when a client has changed the role in the same iteration, would be taken for the history of
            // the data: those may be ahead of it, because the writes that waited for a failover were executed.
            Input::Received(..) | Input::MainReceived(..) | Input::Saved(_)
                if self.control.replication.link_epoch != self.control.replication.role_epoch =>
            {
                return Vec::new();
            }
            Input::Accepted(_) if self.control.replication.replica.is_none() => return Vec::new(),
            Input::Loaded(_) if self.control.replication.replica.is_none() => {
                self.begin_history_of_loaded(process);
                return Vec::new();
            }
            _ => {}
        }
        let config = &self.control.config;
        let (user, password) = (config.bytes(param::PRIMARYUSER), config.bytes(param::PRIMARYAUTH));
        let announced = config.int(param::REPLICA_ANNOUNCE_PORT);
        let port = if announced > 0 { announced } else { config.int(param::PORT) };
        let resume = self.resume_point();
        let around = Surroundings {
            now_ns: process.recent().mono_ns,
            timeout_ns: config.uint(param::REPL_TIMEOUT).saturating_mul(SECOND_NS),
            heard_ns,
            credentials: (!password.is_empty())
                .then_some(Credentials { user: (!user.is_empty()).then_some(user), password }),
            port: u16::try_from(port).unwrap_or(0),
            address: config.bytes(param::REPLICA_ANNOUNCE_IP),
            version,
            dual_channel: config.bool(param::DUAL_CHANNEL_REPLICATION_ENABLED),
            resume: resume.as_ref(),
        };
        link.step(input, &around);
        let outputs = link.take_outputs();
        self.note_link(link.state(), link.is_committed(), process);
        outputs
    }

    /// Where the data stand in a history, if they belong to one and no snapshot is about to replace them.
    pub fn history_point(&self) -> Option<HistoryPoint> {
        match self.control.replication.replica.as_ref() {
            Some(role) if role.is_committed => None,
            Some(_) => self.resume_point(),
            None => self
                .control
                .replication
                .stream
                .point()
                .map(|point| HistoryPoint { replid: point.replid.to_owned(), offset: point.offset }),
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;
