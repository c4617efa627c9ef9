//! What is gathered for the page between two asks, and until when.

use super::clients::ClientScan;
use sluice_base::Now;
use sluice_numbers::page::keys::KeyScan;

/// How long the cron goes on to gather after an ask, nanoseconds.
const WATCHED_NS: u64 = 10_000_000_000;
/// How long it goes on for a machine that asks for the sizes of slots: longer than from one scrape to the
/// next.
const SLOTS_WATCHED_NS: u64 = 150_000_000_000;

/// See the module.
#[derive(Debug, Default)]
pub struct PageWatch {
    /// Somebody looks at the page until then, ns of the monotonic clock.
    clients_until_ns: u64,
    /// Somebody looks at large keys until then, likewise.
    keys_until_ns: u64,
    /// A machine asks for the sizes of slots until then, likewise.
    slots_until_ns: u64,
    /// The clients that hold most.
    pub clients: ClientScan,
    /// The largest keys.
    pub keys: KeyScan,
}

impl PageWatch {
    /// Somebody looks at the page.
    pub fn note_look(&mut self, now: Now) {
        self.clients_until_ns = now.mono_ns.saturating_add(WATCHED_NS);
    }

    /// Somebody looks at large keys.
    pub fn note_look_at_keys(&mut self, now: Now) {
        self.keys_until_ns = now.mono_ns.saturating_add(WATCHED_NS);
    }

    /// A machine asks for the sizes of slots.
    pub fn note_look_at_slots(&mut self, now: Now) {
        self.slots_until_ns = now.mono_ns.saturating_add(SLOTS_WATCHED_NS);
    }

    /// Whether clients are gathered; what was found goes when they no longer are.
    #[inline]
    pub fn gathers_clients(&mut self, now: Now) -> bool {
        let gathers = now.mono_ns < self.clients_until_ns;
        if !gathers {
            self.clients.clear();
        }
        gathers
    }

    /// Whether somebody looks at the largest keys.
    pub fn looks_at_keys(&self, now: Now) -> bool {
        now.mono_ns < self.keys_until_ns
    }

    /// Whether keys are scanned, for somebody who looks at the largest or asks for the sizes of slots; what
    /// was found goes when nobody does any more.
    pub fn scans_keys(&mut self, now: Now) -> bool {
        let scans = self.looks_at_keys(now) || now.mono_ns < self.slots_until_ns;
        if !scans {
            self.keys.clear();
        }
        scans
    }
}
