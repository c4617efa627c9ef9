//! What the main thread tells the thread of the metrics endpoint, and is asked by it.

use crate::listen::Listener;
use sluice_evloop::Waker;
use sluice_numbers::info::sample::MetricsSample;
use sluice_numbers::page::details::{PageAsk, PageDetails};
use sluice_tls::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// How the endpoint is served.
pub struct MetricsSettings {
    /// The sockets.
    pub listeners: Vec<Listener>,
    /// What a request for metrics must show.
    pub token: Option<Box<[u8]>>,
    /// By what TLS is spoken; none: HTTP is plain.
    pub tls: Option<Context>,
    /// Nobody is answered who has neither the token nor a certificate: so any name of the server may be used.
    pub is_guarded: bool,
}

/// See the module.
pub enum ToEndpoint {
    Settings(Box<MetricsSettings>),
    Sample(Box<MetricsSample>, Option<Box<PageDetails>>),
    /// The thread ends.
    End,
}

/// The main thread as the endpoint's thread sees it.
pub(super) struct MainThread {
    /// See `EndpointLink::wanted`.
    pub wanted: Arc<AtomicBool>,
    /// What the page needs with a sample, sent ahead of `wanted`.
    pub ask: mpsc::Sender<PageAsk>,
    pub waker: Waker,
}

impl MainThread {
    /// Asks for a sample, and for what the page needs beside it.
    pub fn ask(&self, page: Option<PageAsk>) {
        if let Some(page) = page {
            // Without a receiver the endpoint is at its end.
            let _ = self.ask.send(page);
        }
        // `MetricsEndpoint::wants_sample` acquires what was sent ahead.
        self.wanted.store(true, Ordering::Release);
        self.waker.wake();
    }
}
