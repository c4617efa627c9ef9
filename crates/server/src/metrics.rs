//! The metrics endpoint: HTTP for Prometheus and similar collectors, and for people with a browser. It
//! has a thread and a port of its own.
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
//! Invariants: (1) the main thread makes a sample when the thread requests one, at most once a second for
//! requests and once in five seconds for the history, and formats nothing; (2) the main thread never waits
//! for the thread, and if the main thread does not make a sample in time, the thread answers with the last
//! sample; (3) while `metrics-port` is 0 there is no thread, no socket and no sample; (4) the endpoint
//! listens on an address other than loopback only if it requires a token or a client's certificate.

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

/// The main thread's side of the endpoint.
#[derive(Default)]
pub struct MetricsEndpoint {
    link: Option<EndpointLink>,
}

struct EndpointLink {
    sender: Sender<ToEndpoint>,
    /// Whether the thread wants a sample. The thread sets the flag before it wakes the main thread, and the
    /// main thread clears the flag.
    wanted: Arc<AtomicBool>,
    /// The data that the page needs with the next sample; sent before `wanted` is set.
    asks: Receiver<PageAsk>,
}

impl MetricsEndpoint {
    /// Applies the settings: starts the thread if there is none, and ends it if there are no listeners.
    ///
    /// # Errors
    /// A line for the log: the thread of the endpoint, or its event loop, cannot be started.
    pub fn apply(&mut self, settings: MetricsSettings, main: Waker) -> Result<(), String> {
        if settings.listeners.is_empty() {
            if let Some(link) = self.link.take() {
                // The thread then ends, and closes the endpoint's sockets.
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
        // The result only says whether the kernel had to be asked to wake the thread.
        let _ = link.sender.send(ToEndpoint::Settings(Box::new(settings)));
        Ok(())
    }

    /// Whether the endpoint's thread runs.
    pub fn is_on(&self) -> bool {
        self.link.is_some()
    }

    /// Whether the thread wants a sample; true once for each sample that the thread requests. Cost: one
    /// read while no sample is wanted, and one comparison while there is no endpoint.
    #[inline]
    pub fn wants_sample(&self) -> bool {
        let Some(link) = &self.link else { return false };
        // The thread wakes the main thread after setting the flag, so an iteration that reads the flag
        // too early is followed by another iteration.
        link.wanted.load(Ordering::Relaxed) && link.wanted.swap(false, Ordering::Acquire)
    }

    /// The data that the page needs with the sample that [`MetricsEndpoint::wants_sample`] has announced;
    /// `None` if the sample is not for the page.
    pub fn take_ask(&self) -> Option<PageAsk> {
        self.link.as_ref().and_then(|link| link.asks.try_iter().last())
    }

    /// Gives the thread a sample.
    pub fn give(&self, sample: MetricsSample, details: Option<PageDetails>) {
        if let Some(link) = &self.link {
            let _ = link.sender.send(ToEndpoint::Sample(Box::new(sample), details.map(Box::new)));
        }
    }
}

/// The error for a configuration whose endpoint other machines could reach without a token or
/// certificate; `None` if the configuration is allowed.
pub fn refusal(config: &Config) -> Option<String> {
    if config.int(param::METRICS_PORT) == 0 || is_guarded(config) {
        return None;
    }
    let open = config.list(param::METRICS_BIND).iter().find(|word| !listen::is_loopback(word))?;
    Some(format!(
        "metrics-bind has an address other than loopback, {}: this needs metrics-token, or metrics-tls yes with tls-auth-clients yes",
        String::from_utf8_lossy(open)
    ))
}

/// Whether the endpoint requires a token or a client's certificate.
pub fn is_guarded(config: &Config) -> bool {
    let asks_for_certificate = config.bool(param::METRICS_TLS)
        && config.choice::<TlsAuthClients>(param::TLS_AUTH_CLIENTS) == TlsAuthClients::Yes;
    config.text(param::METRICS_TOKEN).is_some() || asks_for_certificate
}
