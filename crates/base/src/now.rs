//! The time of one command or transaction, read once by the server and passed down.

/// One reading of the clock: a monotonic and a wall time taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds of a monotonic clock; only differences mean anything.
    pub mono_ns: u64,
    /// Microseconds since the Unix epoch.
    pub unix_us: i64,
}

impl Now {
    /// Milliseconds since the Unix epoch.
    #[inline]
    pub fn unix_ms(self) -> i64 {
        self.unix_us / 1000
    }

    /// Seconds since the Unix epoch.
    #[inline]
    pub fn unix_s(self) -> i64 {
        self.unix_us / 1_000_000
    }
}
