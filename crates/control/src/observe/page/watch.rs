//! Data gathered for the page between two requests, and the time until which it is gathered.

use super::clients::ClientScan;
use sluice_base::Now;
use sluice_numbers::page::keys::KeyScan;

/// Time for which the cron continues to gather after a request, in ns.
const WATCHED_NS: u64 = 10_000_000_000;
/// Time for which key scans continue after a request for the sizes of slots, in ns: longer than the
/// interval between two scrapes.
const SLOTS_WATCHED_NS: u64 = 150_000_000_000;

/// The state of gathering for the page.
#[derive(Debug, Default)]
pub struct PageWatch {
    /// The page counts as displayed until this time, in ns of the monotonic clock.
    clients_until_ns: u64,
    /// The view of large keys counts as displayed until this time, in ns of the monotonic clock.
    keys_until_ns: u64,
    /// The sizes of slots are wanted until this time, in ns of the monotonic clock.
    slots_until_ns: u64,
    /// The clients that use most memory.
    pub clients: ClientScan,
    /// The largest keys and slots.
    pub keys: KeyScan,
}

impl PageWatch {
    /// Records that the page is displayed.
    pub fn note_look(&mut self, now: Now) {
        self.clients_until_ns = now.mono_ns.saturating_add(WATCHED_NS);
    }

    /// Records that the view of large keys is displayed.
    pub fn note_look_at_keys(&mut self, now: Now) {
        self.keys_until_ns = now.mono_ns.saturating_add(WATCHED_NS);
    }

    /// Records a request for the sizes of slots.
    pub fn note_look_at_slots(&mut self, now: Now) {
        self.slots_until_ns = now.mono_ns.saturating_add(SLOTS_WATCHED_NS);
    }

    /// Whether to gather clients; if not, the results are dropped.
    #[inline]
    pub fn gathers_clients(&mut self, now: Now) -> bool {
        let gathers = now.mono_ns < self.clients_until_ns;
        if !gathers {
            self.clients.clear();
        }
        gathers
    }

    /// Whether the view of large keys is displayed.
    pub fn looks_at_keys(&self, now: Now) -> bool {
        now.mono_ns < self.keys_until_ns
    }

    /// Whether to scan keys, for the view of large keys or for the sizes of slots; if not, the
    /// results are dropped.
    pub fn scans_keys(&mut self, now: Now) -> bool {
        let scans = self.looks_at_keys(now) || now.mono_ns < self.slots_until_ns;
        if !scans {
            self.keys.clear();
        }
        scans
    }
}
