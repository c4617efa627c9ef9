//! What the process has made of the configuration.

mod consequences;

use crate::listen::{Listener, Listening};
use crate::net::tls::TlsState;
use sluice_daemon::oom_score::OomScore;
use sluice_daemon::title::Title;
use std::path::PathBuf;

/// What was made of the configuration.
pub struct HostSettings {
    /// Path of the config file, absolute.
    pub config_file: Option<PathBuf>,
    /// By what connections of TLS begin.
    pub tls: TlsState,
    /// The listening sockets.
    pub listening: Listening,
    /// The listening sockets of the cluster's bus.
    pub bus: Listening,
    /// Whether other nodes' connections are accepted.
    pub bus_is_open: bool,
    /// The listening sockets of the metrics endpoint.
    pub metrics: Listening,
    /// How the endpoint is to be served has changed.
    pub metrics_changed: bool,
    /// A CONFIG SET changed something that the server's loop must take up.
    pub changed: bool,
    /// The pid file that was written, absolute.
    pub(super) pid_file: Option<PathBuf>,
    /// How the kernel chooses between processes when memory runs out.
    oom_score: OomScore,
    /// The process's title, where it is to be set.
    pub title: Option<Title>,
    /// The reason that was logged when the supervisor could not be notified last; the same reason is not
    /// logged again.
    pub supervisor_deaf: Option<String>,
}

impl HostSettings {
    /// Nothing was configured yet.
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
            supervisor_deaf: None,
        }
    }

    /// The sockets that the main thread listens on, if they changed since the last call.
    pub fn take_listeners(&mut self) -> Option<Vec<Listener>> {
        let of_bus = if self.bus_is_open { self.bus.take_change() } else { None };
        let changed = [self.listening.take_change(), of_bus];
        let bus = if self.bus_is_open { self.bus.active() } else { &[] };
        changed.iter().any(Option::is_some).then(|| [self.listening.active(), bus].concat())
    }

    /// Has other nodes' connections accepted: those that came before wait for it in the kernel.
    pub fn open_bus(&mut self) {
        self.bus_is_open = true;
        self.changed = true;
    }
}
