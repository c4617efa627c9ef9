//! What the main thread tells the thread of the metrics endpoint.

use crate::listen::Listener;
use sluice_engine::MetricsSample;
use sluice_tls::Context;

/// How the endpoint is served.
pub struct MetricsSettings {
    /// The sockets.
    pub listeners: Vec<Listener>,
    /// What a request for metrics must show.
    pub token: Option<Box<[u8]>>,
    /// By what TLS is spoken; none: HTTP is plain.
    pub tls: Option<Context>,
}

/// See the module.
pub enum ToEndpoint {
    Settings(Box<MetricsSettings>),
    Sample(Box<MetricsSample>),
    /// The thread ends.
    End,
}
