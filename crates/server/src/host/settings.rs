//! The process's state that follows from the configuration.

mod consequences;

use crate::listen::{Listener, Listening};
use crate::net::tls::TlsState;
use sluice_daemon::oom_score::OomScore;
use sluice_daemon::title::Title;
use std::path::PathBuf;

/// The state that follows from the configuration.
pub struct HostSettings {
    /// Absolute path of the config file, if there is one.
    pub config_file: Option<PathBuf>,
    /// The TLS contexts for new connections.
    pub tls: TlsState,
    /// The listening sockets for clients.
    pub listening: Listening,
    /// The listening sockets of the cluster bus.
    pub bus: Listening,
    /// Whether connections of other nodes are accepted.
    pub bus_is_open: bool,
    /// The listening sockets of the metrics endpoint.
    pub metrics: Listening,
    /// Whether the metrics endpoint's settings have changed.
    pub metrics_changed: bool,
    /// Whether the event loop must apply a change, for example after CONFIG SET.
    pub changed: bool,
    /// Absolute path of the pid file, even if the file could not be written; `None` if there is to be no pid
    /// file.
    pub(super) pid_file: Option<PathBuf>,
    /// The out-of-memory score, by which the kernel chooses a process to kill.
    oom_score: OomScore,
    /// The process's title; `None` if the server does not set the title.
    pub title: Option<Title>,
    /// The logged reason why the supervisor could not be notified; the same reason is not logged again.
    pub supervisor_error: Option<String>,
}

impl HostSettings {
    /// The state before any configuration was applied.
    pub(super) fn new() -> HostSettings {
        HostSettings {
            config_file: None,
            tls: TlsState::default(),
            listening: Listening::default(),
            bus: Listening::of_bus(),
            bus_is_open: false,
            metrics: Listening::of_metrics(),
            metrics_changed: false,
            changed: false,
            pid_file: None,
            oom_score: OomScore::read(),
            title: None,
            supervisor_error: None,
        }
    }

    /// The sockets on which the main thread listens, if they have changed since the last call.
    pub fn take_listeners(&mut self) -> Option<Vec<Listener>> {
        let of_bus = if self.bus_is_open { self.bus.take_change() } else { None };
        let changed = [self.listening.take_change(), of_bus];
        let bus = if self.bus_is_open { self.bus.active() } else { &[] };
        changed.iter().any(Option::is_some).then(|| [self.listening.active(), bus].concat())
    }

    /// Begins to accept connections of other nodes. Connections that arrived earlier have waited in the
    /// kernel.
    pub fn open_bus(&mut self) {
        self.bus_is_open = true;
        self.changed = true;
    }
}
