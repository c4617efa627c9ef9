//! What the endpoint's thread reads of the process by itself, so that the main thread need not: resident
//! memory and processor times.

use sluice_daemon::usage;
use sluice_numbers::info::sample::MetricsSample;

/// Puts the numbers into a sample that the main thread has made. To be called once for each sample, as it
/// comes. Cost: some system calls.
pub fn complete(sample: &mut MetricsSample) {
    sample.set_process_numbers(usage::process_numbers());
}
