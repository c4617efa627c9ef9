//! What a run may take until it stands still.

/// Units of the budget between two looks at the host's clock: some tens of microseconds.
const UNITS_PER_LOOK: u64 = 10_000;

/// Units of a request to the host, whatever the host makes of the request: after 64 requests at the latest
/// the clock is looked at.
pub(super) const REQUEST_UNITS: i64 = (UNITS_PER_LOOK / 64) as i64 + 1;

/// What a run may take until it stands still: a deadline, and the units until the host's clock is looked at.
///
/// A run cannot be resumed without one. The limit outlives each way out of the machine, so a program that
/// does nothing but requests meets its deadline as one does that does none. Units come from readings of the
/// clock alone: see [`RunLimit::note_time`].
///
/// The contract: a run whose deadline has come, as of the last reading, goes no further.
/// `Execution::resume` asks ahead of each resumption, since a host that notes the time after each request
/// gives units anew each time, and the machine would never look at the clock. A host that works for a run
/// without resuming the run (writes a result, goes on to the next library) asks [`RunLimit::is_over`].
#[derive(Debug)]
pub struct RunLimit {
    /// When the run stands still, ns of the host's clock.
    end_ns: u64,
    /// The last reading, ns.
    pub(super) seen_ns: u64,
    /// Units until the next look.
    pub(super) left: i64,
    /// Units from one look to the next.
    pub(super) per_look: i64,
}

impl RunLimit {
    /// From `now_ns`, which the host has read just now, until `end_ns`.
    pub fn until(now_ns: u64, end_ns: u64) -> RunLimit {
        let per_look = UNITS_PER_LOOK as i64;
        RunLimit { end_ns, seen_ns: now_ns, left: per_look, per_look }
    }

    /// So many units in all, without a clock.
    pub(super) fn units(units: u64) -> RunLimit {
        let left = i64::try_from(units).unwrap_or(i64::MAX);
        RunLimit { end_ns: 0, seen_ns: 0, left, per_look: 0 }
    }

    /// The host has read its clock for something else. A reading that is later than the one before gives the
    /// units until the next look anew; another gives none.
    #[inline]
    pub fn note_time(&mut self, now_ns: u64) {
        if now_ns > self.seen_ns {
            self.seen_ns = now_ns;
            self.left = self.per_look;
        }
    }

    /// The host has worked for the run: takes so many units, one for about an instruction's work.
    #[inline]
    pub fn charge(&mut self, units: u64) {
        self.left = self.left.saturating_sub(i64::try_from(units).unwrap_or(i64::MAX));
    }

    /// Whether the deadline has come, as of the last reading.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.seen_ns >= self.end_ns
    }

    /// The last reading of the clock, ns.
    pub fn seen_ns(&self) -> u64 {
        self.seen_ns
    }

    pub(super) fn look(&mut self, now_ns: u64) {
        self.seen_ns = self.seen_ns.max(now_ns);
        self.left = self.per_look;
    }
}
