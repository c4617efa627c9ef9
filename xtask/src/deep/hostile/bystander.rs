//! A client that runs beside a hostile program, sends one PING after another, and measures each wait.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::wire::{Connection, encode};
use crate::{Result, shell};

/// Maximum wait for a reply, after which the server counts as unresponsive.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// Pause between a reply and the next PING.
const PAUSE: Duration = Duration::from_millis(1);

/// The waits of PINGs. A reply of any kind counts: BUSY and LOADING come from a running event loop.
#[derive(Clone, Copy, Default)]
pub(super) struct Pings {
    /// The longest wait; at least [`PATIENCE`] if a reply did not arrive within that time.
    pub(super) longest: Duration,
    pub(super) total: Duration,
    pub(super) count: u32,
}

impl Pings {
    /// The mean wait of all PINGs.
    pub(super) fn mean(&self) -> Duration {
        self.total / self.count.max(1)
    }
}

/// A client on a thread of its own.
pub(super) struct Bystander {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Pings>,
}

impl Bystander {
    /// Connects to `port`, and starts to send PINGs on a new thread.
    pub(super) fn start(port: u16) -> Result<Bystander> {
        let connection = Connection::open(port)?;
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || ping(connection, &stopped));
        Ok(Bystander { stop, thread })
    }

    /// Ends the client after the reply to its last PING; returns its measurement.
    pub(super) fn stop(self) -> Pings {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn ping(mut connection: Connection, stopped: &mpsc::Receiver<()>) -> Pings {
    let mut request = Vec::new();
    encode(&["PING"], &mut request);
    let mut pings = Pings::default();
    while stopped.recv_timeout(PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
        let began = shell::now();
        connection.send(&request);
        let Ok(reply) = connection.next_within(PATIENCE) else { break };
        let wait = began.elapsed();
        pings.longest = pings.longest.max(wait);
        pings.total += wait;
        pings.count += 1;
        // A late reply to this PING would be taken for the reply to the next one.
        if reply.is_none() {
            break;
        }
    }
    pings
}
