//! Input of the latency monitor.

use crate::Control;

impl Control {
    /// Records a spike in the latency monitor if it reaches the threshold.
    pub fn note_latency(&mut self, event: &'static str, now: sluice_base::Now, duration_ns: u64) {
        let threshold = self.limits.latency_threshold_ms;
        let ms = duration_ns / 1_000_000;
        if threshold > 0 && ms >= threshold {
            self.latency.add(event, now.unix_s(), ms);
        }
    }
}
