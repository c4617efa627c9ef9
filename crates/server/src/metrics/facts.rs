//! The process's numbers that the endpoint's thread reads itself, to spare the main thread: resident
//! memory and processor times.

use sluice_daemon::usage;
use sluice_numbers::info::sample::MetricsSample;

/// Adds the numbers to a sample from the main thread. Called once for each sample, on its arrival. Cost:
/// some system calls.
pub fn complete(sample: &mut MetricsSample) {
    sample.set_process_numbers(usage::process_numbers());
}
