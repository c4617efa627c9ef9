//! The metrics endpoint: HTTP for Prometheus and its like, and for people with a browser, on a thread and a
//! port of its own.
//!
//! ```text
//!  main thread                                the thread (metrics/thread.rs)
//!   ◄─────── PageAsk, wanted, wake ─────────── a request, and the sample is older than a second; or a point of
//!   at the end of an iteration: a sample       the history is due (metrics/samples.rs)
//!   ──────────────────── Sample ─────────────► text (numbers/info/text.rs), JSON (numbers/page/json.rs),
//!                                              replies (metrics/http.rs), the page (metrics/page.rs)
//!   ──────────────────── Settings ───────────► listeners, token, TLS: at a start and by CONFIG SET
//! ```
//!
//! Invariants: (1) the main thread makes a sample when the thread wants one, once a second at most for those
//! who ask and once in five seconds for the history, and formats nothing; (2) the main thread waits for
//! nothing of the thread, which answers with the last sample where the main thread does not; (3) while
//! `metrics-port` is 0 there is no thread, no socket and no sample; (4) another address than loopback is
//! listened on only where a token is asked for, or a client's certificate.

mod facts;
pub mod http;
pub mod message;
mod page;
mod samples;
mod thread;

use self::message::{MainThread, MetricsSettings, ToEndpoint};
use crate::listen;
use sluice_config::choice::TlsAuthClients;
use sluice_config::{Config, param};
use sluice_evloop::{Sender, Waker};
use sluice_numbers::info::sample::MetricsSample;
use sluice_numbers::page::details::{PageAsk, PageDetails};
use sluice_storage::plain_error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

/// The endpoint as the main thread sees it.
#[derive(Default)]
pub struct MetricsEndpoint {
    link: Option<EndpointLink>,
}

struct EndpointLink {
    sender: Sender<ToEndpoint>,
    /// The thread wants a sample. Set there, ahead of the wake-up, and taken by the main thread.
    wanted: Arc<AtomicBool>,
    /// What somebody who looks at the page wants with the sample: sent ahead of `wanted`.
    asks: Receiver<PageAsk>,
}

impl MetricsEndpoint {
    /// Serves as the settings say: starts the thread where there is none, ends it where nothing is listened
    /// on.
    ///
    /// # Errors
    /// The system has no thread or no event loop for it: a line for the log.
    pub fn apply(&mut self, settings: MetricsSettings, main: Waker) -> Result<(), String> {
        if settings.listeners.is_empty() {
            if let Some(link) = self.link.take() {
                // It closes what it has.
                let _ = link.sender.send(ToEndpoint::End);
            }
            return Ok(());
        }
        let link = match &self.link {
            Some(link) => link,
            None => {
                let wanted = Arc::new(AtomicBool::new(false));
                let (ask, asks) = mpsc::channel();
                let sender = thread::start(MainThread { wanted: wanted.clone(), ask, waker: main })
                    .map_err(|error| format!("No thread for metrics: {}", plain_error(&error)))?;
                self.link.insert(EndpointLink { sender, wanted, asks })
            }
        };
        // Whether the kernel had to be asked to wake the thread is of no interest.
        let _ = link.sender.send(ToEndpoint::Settings(Box::new(settings)));
        Ok(())
    }

    /// Whether there is an endpoint.
    pub fn is_on(&self) -> bool {
        self.link.is_some()
    }

    /// Whether the thread wants a sample; it is told once. Cost: a read while it does not, and a comparison
    /// while there is no endpoint.
    #[inline]
    pub fn wants_sample(&self) -> bool {
        let Some(link) = &self.link else { return false };
        // The thread sets it, and wakes the main thread behind that: an iteration later it is seen.
        link.wanted.load(Ordering::Relaxed) && link.wanted.swap(false, Ordering::Acquire)
    }

    /// What is wanted for the page with the sample that [`MetricsEndpoint::wants_sample`] told of.
    pub fn take_ask(&self) -> Option<PageAsk> {
        self.link.as_ref().and_then(|link| link.asks.try_iter().last())
    }

    /// Hands a sample over.
    pub fn give(&self, sample: MetricsSample, details: Option<PageDetails>) {
        if let Some(link) = &self.link {
            let _ = link.sender.send(ToEndpoint::Sample(Box::new(sample), details.map(Box::new)));
        }
    }
}

/// Why the endpoint is not served as the configuration wants it.
pub fn refusal(config: &Config) -> Option<String> {
    if config.int(param::METRICS_PORT) == 0 || is_guarded(config) {
        return None;
    }
    let open = config.list(param::METRICS_BIND).iter().find(|word| !listen::is_loopback(word))?;
    Some(format!(
        "metrics-bind has an address beside loopback, {}: this needs metrics-token, or metrics-tls yes with tls-auth-clients yes",
        String::from_utf8_lossy(open)
    ))
}

/// Whether nobody is answered who has neither the token nor a certificate.
pub fn is_guarded(config: &Config) -> bool {
    let asks_for_certificate = config.bool(param::METRICS_TLS)
        && config.choice::<TlsAuthClients>(param::TLS_AUTH_CLIENTS) == TlsAuthClients::Yes;
    config.text(param::METRICS_TOKEN).is_some() || asks_for_certificate
}
