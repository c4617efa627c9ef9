//! What an iteration has to do beside clients' plain commands: the reasons for which phases run, and when
//! something is due. `phases.rs` says how the two come about.

/// Reasons for phases to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reasons(u16);

impl Reasons {
    /// The iteration itself.
    pub(super) const EACH: Reasons = Reasons(1);
    /// Something happened that is no plain command of a client: another event, a wake-up by another thread, a
    /// change of the control plane, a request of the engine.
    pub(super) const NEWS: Reasons = Reasons(1 << 1);
    /// A deadline has come.
    pub(super) const TIME: Reasons = Reasons(1 << 2);
    /// Something goes on in each iteration until it is over: what another thread does for this one, work in
    /// slices, connections that wait or move.
    pub(super) const UNDER_WAY: Reasons = Reasons(1 << 3);
    /// I/O threads run.
    pub(super) const IO_THREADS: Reasons = Reasons(1 << 4);
    /// This server follows a primary, or is about to.
    pub(super) const PRIMARY: Reasons = Reasons(1 << 5);
    /// This server is a node of a cluster.
    pub(super) const CLUSTER: Reasons = Reasons(1 << 6);
    /// The metrics endpoint may want a sample.
    pub(super) const METRICS: Reasons = Reasons(1 << 7);
    /// Whatever makes an iteration more than clients' plain commands.
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

/// What an iteration has to do beside clients' plain commands.
#[derive(Debug)]
pub(super) struct Agenda {
    /// Of the iteration under way.
    pub(super) reasons: Reasons,
    /// The reasons that stand: as of the end of the last iteration that was not plain.
    pub(super) standing: Reasons,
    /// Until when the event loop may wait: as of then.
    pub(super) next_ns: u64,
    /// The epoch of the control plane that was seen last.
    pub(super) epoch: u32,
    /// Something has happened that is no plain command, and that this thread alone knows of.
    pub(super) is_news: bool,
}

impl Default for Agenda {
    /// Nothing is planned, and the first iteration has news.
    fn default() -> Agenda {
        Agenda { reasons: Reasons::MORE, standing: Reasons::MORE, next_ns: 0, epoch: 0, is_news: true }
    }
}

impl Agenda {
    /// Something has happened that is no plain command of a client.
    #[inline]
    pub(super) fn note_news(&mut self) {
        self.is_news = true;
    }
}
