//! The mean number of requests that arrive together, over the last receives.

/// The mean number of requests in a receive, in sixteenths, so that a mean of one can be distinguished
/// from a mean between one and two.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth {
    mean: u64,
}

/// Number of parts of a request in which the mean is counted.
const UNIT: u64 = 16;
/// If there are more requests than this for each receive, this many are counted, so that sums do not
/// overflow.
const EACH_MAX: u64 = 1 << 16;

impl Depth {
    /// Records that `requests` requests arrived in `receives` receives. The old mean has `weight` times
    /// the weight of the new value. If `receives` is 0, the mean does not change.
    #[inline]
    pub fn learn(&mut self, requests: u64, receives: u64, weight: u64) {
        if let Some(each) = (requests.min(u64::MAX / UNIT) * UNIT).checked_div(receives) {
            self.mean = (self.mean * weight + each.min(EACH_MAX * UNIT)) / (weight + 1);
        }
    }

    /// Whether the mean is at least `requests`.
    #[inline]
    pub fn is_at_least(&self, requests: u64) -> bool {
        self.mean >= requests.saturating_mul(UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_what_comes() {
        let mut depth = Depth::default();
        assert!(depth.is_at_least(0) && !depth.is_at_least(1));
        (0..200).for_each(|_| depth.learn(32, 2, 7));
        assert!(depth.is_at_least(15) && !depth.is_at_least(17));
        (0..200).for_each(|_| depth.learn(3, 3, 7));
        assert!(!depth.is_at_least(2));
        depth.learn(5, 0, 7);
        depth.learn(u64::MAX, 1, 31);
        assert!(!depth.is_at_least(u64::MAX));
    }
}
