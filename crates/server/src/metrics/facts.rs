//! The figures of the process that the endpoint's thread reads itself, so that the main thread need not:
//! resident memory and processor times.

use sluice_daemon::usage;
use sluice_numbers::info::sample::MetricsSample;

/// Adds the figures to a sample from the main thread. Called once for each sample, when the sample
/// arrives. Cost: some system calls.
pub fn complete(sample: &mut MetricsSample) {
    sample.set_process_numbers(usage::process_numbers());
}
