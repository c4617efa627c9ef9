//! Durations, counted in logarithmic buckets with linear steps, exact to within 1.6 % from 1 ns to 1 s.
//!
//! Recording computes an index and increments two counters, which is cheap enough for every command; a
//! general histogram costs several times that and 30 KiB per command. The layout is that of HdrHistogram
//! (Tene, 2012): 64 steps per power of two.

use crate::heap;

/// A histogram of durations in nanoseconds; a duration longer than one second counts as one second.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// 64 bits wide, so that no counter saturates. If one did, `powers` would exceed the sum of the counts.
    counts: Box<[u64; BUCKETS]>,
    /// The sum of the counts of each power of two. The total is the sum of these, so a recording costs
    /// no more than it would with a single total.
    powers: [u64; Histogram::POWERS],
}

const STEP_BITS: u32 = 6;
const STEPS: usize = 1 << STEP_BITS;
/// The last bucket ends at 2^30 ns.
const BUCKETS: usize = (30 - STEP_BITS as usize + 1) * STEPS;
/// The longest duration that is distinguished, nanoseconds; longer ones count as this one.
pub(crate) const MAX_NS: u64 = 1_000_000_000;

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Box::new([0; BUCKETS]), powers: [0; Histogram::POWERS] }
    }
}

impl Histogram {
    /// Bytes that the allocator gives for a boxed histogram.
    pub const FOOTPRINT: usize = heap::boxed::<Histogram>() + heap::boxed::<[u64; BUCKETS]>();

    /// Counts one duration, in nanoseconds.
    #[inline]
    pub fn record(&mut self, duration_ns: u64) {
        let bucket = bucket_of(duration_ns.min(MAX_NS));
        if let (Some(count), Some(power)) =
            (self.counts.get_mut(bucket), self.powers.get_mut(bucket >> STEP_BITS))
        {
            *count += 1;
            *power += 1;
        }
    }

    /// Number of durations recorded.
    pub fn total(&self) -> u64 {
        self.powers.iter().sum()
    }

    /// The duration, in nanoseconds, that `percent` of the durations do not exceed. It is rounded up to the
    /// highest value of its bucket; 0 if no duration was recorded.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = ((percent / 100.0 * self.total() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return highest_of(bucket);
            }
        }
        0
    }

    /// How many powers of two [`Histogram::by_power_of_two`] has.
    pub const POWERS: usize = BUCKETS / STEPS;

    /// The counts by power of two. The first count is of durations below 64 ns; each further bound is twice
    /// the bound before it.
    pub fn by_power_of_two(&self) -> [u64; Histogram::POWERS] {
        self.powers
    }

    /// The longest duration of a power of two, nanoseconds.
    pub const fn power_ends_at(power: usize) -> u64 {
        ((STEPS as u64) << power) - 1
    }

    /// Like [`Histogram::percentile`], but reads at most the buckets of one power of two, given the result
    /// of `by_power_of_two`.
    pub fn percentile_by(&self, by_power: &[u64; Histogram::POWERS], percent: f64) -> u64 {
        let wanted = ((percent / 100.0 * self.total() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (power, count) in by_power.iter().enumerate() {
            if seen + count < wanted {
                seen += count;
                continue;
            }
            for bucket in power * STEPS..(power + 1) * STEPS {
                seen += self.counts[bucket];
                if seen >= wanted {
                    return highest_of(bucket);
                }
            }
        }
        0
    }

    /// Cumulative counts at powers of two times 1,024 ns, as LATENCY HISTOGRAM shows them:
    /// `(microseconds, count)` for each bound at which the count grew. The microseconds are those of the last
    /// duration that the reference's histogram (two significant digits) does not distinguish from the bound.
    pub fn cumulative_by_power_of_two(&self) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        let (total, mut next, mut seen) = (self.total(), 0, 0u64);
        for power in 10.. {
            let bound = 1u64 << power;
            let before = seen;
            let end = bucket_of(bound).min(BUCKETS - 1);
            seen += self.counts[next..=end].iter().sum::<u64>();
            next = end + 1;
            if seen > before {
                out.push(((bound + (bound >> 7) - 1) / 1000, seen));
            }
            if seen >= total || next == BUCKETS {
                break;
            }
        }
        out
    }
}

#[inline]
fn bucket_of(duration_ns: u64) -> usize {
    if duration_ns < STEPS as u64 {
        return duration_ns as usize;
    }
    let shift = 63 - duration_ns.leading_zeros() - STEP_BITS;
    ((shift as usize + 1) << STEP_BITS) + ((duration_ns >> shift) as usize - STEPS)
}

fn lowest_of(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = (bucket >> STEP_BITS) - 1;
    ((STEPS + (bucket & (STEPS - 1))) as u64) << shift
}

fn highest_of(bucket: usize) -> u64 {
    lowest_of(bucket + 1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_in_its_bucket_and_the_bucket_is_narrow() {
        for duration_ns in (0..200_000u64).chain((200_000..=MAX_NS).step_by(99_991)) {
            let bucket = bucket_of(duration_ns);
            let (low, high) = (lowest_of(bucket), highest_of(bucket));
            assert!(low <= duration_ns && duration_ns <= high, "{duration_ns} in {low}..={high}");
            assert!(high - low <= duration_ns / 64 + 1);
        }
    }

    #[test]
    fn percentiles_hold_beyond_four_billion_of_one_duration() {
        let mut h = Histogram::default();
        h.record(1000);
        let bucket = bucket_of(1000);
        h.counts[bucket] = u64::from(u32::MAX);
        h.powers[bucket >> STEP_BITS] = u64::from(u32::MAX);
        h.record(1000);
        assert_eq!(h.percentile(100.0), highest_of(bucket));
        assert_eq!(h.cumulative_by_power_of_two(), [(1, 1 << 32)]);
    }

    #[test]
    fn percentiles_come_from_the_counts() {
        let mut h = Histogram::default();
        for duration_ns in 1..=1000 {
            h.record(duration_ns * 1000);
        }
        let p50 = h.percentile(50.0);
        assert!((490_000..=510_000).contains(&p50), "{p50}");
        assert_eq!(h.total(), 1000);
        let powers = h.by_power_of_two();
        for percent in [0.0, 0.1, 37.5, 50.0, 99.0, 99.9, 100.0] {
            assert_eq!(h.percentile_by(&powers, percent), h.percentile(percent), "{percent}");
        }
        let below =
            |power: usize| (1..=1000u64).filter(|us| us * 1000 <= Histogram::power_ends_at(power)).count();
        let mut sum = 0;
        for (power, count) in powers.iter().enumerate() {
            sum += count;
            assert_eq!(sum, below(power) as u64, "{power}");
        }
        let cumulative = h.cumulative_by_power_of_two();
        let bounds: Vec<u64> = cumulative.iter().map(|x| x.0).collect();
        assert_eq!(bounds, [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056]);
        assert_eq!(cumulative.last().map(|x| x.1), Some(1000));
    }
}
