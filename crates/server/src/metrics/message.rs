//! The messages between the main thread and the thread of the metrics endpoint.

use crate::listen::Listener;
use sluice_evloop::Waker;
use sluice_numbers::info::sample::MetricsSample;
use sluice_numbers::page::details::{PageAsk, PageDetails};
use sluice_tls::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// The settings with which the endpoint is served.
pub struct MetricsSettings {
    /// The listening sockets; empty if the endpoint is off.
    pub listeners: Vec<Listener>,
    /// The token that a request for metrics must have; `None` if no token is required.
    pub token: Option<Box<[u8]>>,
    /// The TLS context; `None` for plain HTTP.
    pub tls: Option<Context>,
    /// Whether a token or certificate is required. If so, a request may use any name of the server
    /// as its host.
    pub is_guarded: bool,
}

/// A message to the endpoint's thread.
pub enum ToEndpoint {
    Settings(Box<MetricsSettings>),
    Sample(Box<MetricsSample>, Option<Box<PageDetails>>),
    /// Ends the thread, which closes its connections.
    End,
}

/// The endpoint thread's link to the main thread.
pub(super) struct MainThread {
    /// The flag that is also `EndpointLink::wanted`.
    pub wanted: Arc<AtomicBool>,
    /// Sends the data that the page needs with a sample, before `wanted` is set.
    pub ask: mpsc::Sender<PageAsk>,
    pub waker: Waker,
}

impl MainThread {
    /// Requests a sample, and the additional data that the page needs.
    pub fn ask(&self, page: Option<PageAsk>) {
        if let Some(page) = page {
            // The send fails if the endpoint is ending.
            let _ = self.ask.send(page);
        }
        // Pairs with `MetricsEndpoint::wants_sample`, which acquires the request that was sent before.
        self.wanted.store(true, Ordering::Release);
        self.waker.wake();
    }
}
