//! The events of a run, ordered by time, and by the order of their insertion where times are equal.

use sluice_cluster::NodeId;
use std::collections::BTreeMap;

pub(super) type HostId = usize;
pub(super) type ConnId = u64;

/// An event. The `u64` next to a `HostId` is the `boot` of the process that the event is for: if the host has
/// been restarted since, the event is ignored.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Tick(HostId, u64),
    /// The end of an event loop iteration, after all events of the same moment have been handled.
    IterationEnd(HostId, u64),
    /// The deadline that the host's state machine has asked for is reached.
    Wake(HostId, u64),
    /// Bytes from this side of a connection, or the end of its stream, have arrived at the other side.
    Pipe(ConnId, usize),
    /// A dial has arrived at its target's host.
    Dial(ConnId),
    /// The target's process accepts the connection.
    Accept(ConnId),
    /// The dialling process finds the connection established.
    Made(ConnId),
    DialFailed(ConnId, bool),
    Disk(HostId, u64, u64),
    Resolved(HostId, u64, NodeId, String),
    Start(HostId),
    /// A round of checks.
    Look,
    Fault,
    /// A cut ends: with `Some`, the one from the first host to the second; with `None`, all cuts from and to
    /// the host.
    Mend(HostId, Option<HostId>),
    DiskHeals(HostId),
    /// A suspended process runs again.
    Thaw(HostId),
}

#[derive(Default)]
pub(super) struct Queue {
    events: BTreeMap<(u64, u64), Event>,
    next: u64,
}

impl Queue {
    pub(super) fn push(&mut self, at_ns: u64, event: Event) {
        self.next += 1;
        self.events.insert((at_ns, self.next), event);
    }

    /// The next event, if it is not later than `until_ns`.
    pub(super) fn pop(&mut self, until_ns: u64) -> Option<(u64, Event)> {
        let first = self.events.first_entry()?;
        let at_ns = first.key().0;
        (at_ns <= until_ns).then(|| (at_ns, first.remove()))
    }
}
