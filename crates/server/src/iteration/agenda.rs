//! The work of an iteration other than clients' plain commands: the reasons for which phases run, and the
//! next deadline. `phases.rs` computes both.

/// A set of reasons for phases to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reasons(u16);

impl Reasons {
    /// A reason that every iteration has.
    pub(super) const EACH: Reasons = Reasons(1);
    /// An event other than a client's plain command has occurred: another event of the event loop, a
    /// wake-up by another thread, a change of the control plane, or a request of the engine.
    pub(super) const NEWS: Reasons = Reasons(1 << 1);
    /// The deadline `Agenda::next_ns` has passed.
    pub(super) const TIME: Reasons = Reasons(1 << 2);
    /// There is work that continues in each iteration until it ends: another thread works for the main
    /// thread, a job runs in slices, or connections wait or move.
    pub(super) const UNDER_WAY: Reasons = Reasons(1 << 3);
    /// I/O threads run.
    pub(super) const IO_THREADS: Reasons = Reasons(1 << 4);
    /// This server follows a primary, or is about to.
    pub(super) const PRIMARY: Reasons = Reasons(1 << 5);
    /// This server is a node of a cluster.
    pub(super) const CLUSTER: Reasons = Reasons(1 << 6);
    /// The metrics endpoint may want a sample.
    pub(super) const METRICS: Reasons = Reasons(1 << 7);
    /// Any reason other than [`Reasons::EACH`].
    pub(super) const MORE: Reasons = Reasons(!Reasons::EACH.0);

    #[inline]
    pub(super) const fn or(self, other: Reasons) -> Reasons {
        Reasons(self.0 | other.0)
    }

    #[inline]
    pub(super) const fn meets(self, other: Reasons) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    pub(super) const fn when(self, holds: bool) -> Reasons {
        if holds { self } else { Reasons(0) }
    }
}

/// The work of an iteration other than clients' plain commands.
#[derive(Debug)]
pub(super) struct Agenda {
    /// The reasons of the iteration under way.
    pub(super) reasons: Reasons,
    /// The reasons that apply until the state changes, as computed at the end of the last iteration that
    /// had more reasons than [`Reasons::EACH`] or ended with news.
    pub(super) standing: Reasons,
    /// The time until which the event loop may wait, monotonic ns; computed together with `standing`.
    pub(super) next_ns: u64,
    /// The control plane's epoch, a number that changes with its state, as last seen
    /// (`beside_commands::epoch`).
    pub(super) epoch: u32,
    /// Whether an event other than a client's plain command has occurred of which only the main thread knows.
    pub(super) is_news: bool,
}

impl Default for Agenda {
    /// An agenda without a deadline, whose first iteration has all reasons.
    fn default() -> Agenda {
        Agenda { reasons: Reasons::MORE, standing: Reasons::MORE, next_ns: 0, epoch: 0, is_news: true }
    }
}

impl Agenda {
    /// Records that an event other than a client's plain command has occurred.
    #[inline]
    pub(super) fn note_news(&mut self) {
        self.is_news = true;
    }
}
