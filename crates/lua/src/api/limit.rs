//! The limits of a run between two pauses.

/// Units of the budget between two readings of the host's clock: some tens of microseconds.
const UNITS_PER_LOOK: u64 = 10_000;

/// Units charged for a request to the host, whatever the request is, so that the clock is read after at
/// most 64 requests.
pub(super) const REQUEST_UNITS: i64 = (UNITS_PER_LOOK / 64) as i64 + 1;

/// The limits of a run until its next pause: a deadline, and the units until the host's clock is read.
///
/// A run cannot be resumed without a limit. The limit survives each pause and request, so a program
/// that only makes requests reaches its deadline like any other. Only a reading of the clock gives
/// new units: see [`RunLimit::note_time`].
///
/// The contract: a run whose deadline has passed, according to the last reading of the clock, does not
/// continue. `Execution::resume` checks the deadline before it continues, because a host that notes the
/// time after each request gives new units each time, and the machine itself would never read the
/// clock. A host that works for a run without resuming it (writes a result, starts the next library)
/// checks [`RunLimit::is_over`].
#[derive(Debug)]
pub struct RunLimit {
    /// The deadline, in ns of the host's clock.
    end_ns: u64,
    /// The last reading of the clock, in ns.
    pub(super) seen_ns: u64,
    /// Number of units until the next reading of the clock.
    pub(super) left: i64,
    /// Number of units between two readings of the clock; 0 if the limit has no clock.
    pub(super) per_look: i64,
}

impl RunLimit {
    /// A limit from `now_ns`, which the host has just read from its clock, until the deadline `end_ns`.
    pub fn until(now_ns: u64, end_ns: u64) -> RunLimit {
        let per_look = UNITS_PER_LOOK as i64;
        RunLimit { end_ns, seen_ns: now_ns, left: per_look, per_look }
    }

    /// A limit of this many units in total, without a clock.
    pub(super) fn units(units: u64) -> RunLimit {
        let left = i64::try_from(units).unwrap_or(i64::MAX);
        RunLimit { end_ns: 0, seen_ns: 0, left, per_look: 0 }
    }

    /// Records a reading that the host has made for another purpose. If the reading is later than the
    /// last one, the run gets the full number of units until the next reading; if it is equal, the run
    /// gets no new units.
    #[inline]
    pub fn note_time(&mut self, now_ns: u64) {
        if now_ns > self.seen_ns {
            self.seen_ns = now_ns;
            self.left = self.per_look;
        }
    }

    /// Charges units for work that the host has done for the run; a unit is about the work of an
    /// instruction.
    #[inline]
    pub fn charge(&mut self, units: u64) {
        self.left = self.left.saturating_sub(i64::try_from(units).unwrap_or(i64::MAX));
    }

    /// Whether the deadline has passed, according to the last reading of the clock.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.seen_ns >= self.end_ns
    }

    /// The last reading of the clock, in ns.
    pub fn seen_ns(&self) -> u64 {
        self.seen_ns
    }

    pub(super) fn look(&mut self, now_ns: u64) {
        self.seen_ns = self.seen_ns.max(now_ns);
        self.left = self.per_look;
    }
}
