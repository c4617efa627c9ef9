//! What happens when, in the order of time, and of asking where times are equal.

use sluice_cluster::NodeId;
use std::collections::BTreeMap;

pub(super) type HostId = usize;
pub(super) type ConnId = u64;

/// Something that happens. A number beside a host is the process that it is meant for.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Tick(HostId, u64),
    /// The end of an event loop iteration: what came at the same moment has been handled.
    IterationEnd(HostId, u64),
    /// A deadline of the machine.
    Wake(HostId, u64),
    /// Something has arrived from a side of a connection.
    Pipe(ConnId, usize),
    /// A dial has come to its target's host.
    Dial(ConnId),
    /// The target's process finds the connection.
    Accept(ConnId),
    /// The dialling process finds the connection made.
    Made(ConnId),
    DialFailed(ConnId, bool),
    Disk(HostId, u64, u64),
    Resolved(HostId, u64, NodeId, String),
    Start(HostId),
    /// What must hold is looked at.
    Look,
    Fault,
    /// A fault's end.
    Mend(HostId, Option<HostId>),
    DiskHeals(HostId),
    /// A process goes on that stood still.
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
