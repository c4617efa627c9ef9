//! The capacity of a ring: a power of two, checked once when the capacity is made.

/// A number of values: a power of two from 2 to 2^30, so that differences of wrapping indexes
/// keep their sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capacity(usize);

impl Capacity {
    /// The smallest capacity: two values.
    pub const MIN: Capacity = Capacity(2);

    /// A capacity of `count` values, or `None` unless `count` is a power of two from 2 to 2^30.
    pub const fn new(count: usize) -> Option<Capacity> {
        if count.is_power_of_two() && count >= 2 && count <= 1 << 30 { Some(Capacity(count)) } else { None }
    }

    /// The smallest capacity of at least `count` values; 2^30 for a larger `count`.
    pub const fn at_least(count: usize) -> Capacity {
        if count <= 2 {
            Capacity::MIN
        } else if count >= 1 << 30 {
            Capacity(1 << 30)
        } else {
            Capacity(count.next_power_of_two())
        }
    }

    /// The number of values, from 2 to 2^30.
    pub const fn count(self) -> usize {
        self.0
    }

    /// Selects the slot of an index: `count - 1`.
    pub(crate) const fn mask(self) -> usize {
        self.0 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::Capacity;

    #[test]
    fn only_powers_of_two_pass() {
        for (count, passes) in [(0, false), (1, false), (2, true), (3, false), (4096, true), (1 << 31, false)]
        {
            assert_eq!(Capacity::new(count).is_some(), passes, "{count}");
        }
    }

    #[test]
    fn a_wish_is_rounded_up() {
        for (count, rounded) in [(0, 2), (2, 2), (3, 4), (4096, 4096), (4097, 8192), (usize::MAX, 1 << 30)] {
            assert_eq!(Capacity::at_least(count).count(), rounded);
        }
    }
}
