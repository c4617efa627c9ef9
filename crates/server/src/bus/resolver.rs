//! Looks up the names of nodes on a separate thread, so that a name server that does not answer delays
//! only the lookups of other names.

use crate::threads::Thread;
use sluice_cluster::NodeId;
use sluice_evloop::Waker;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The lookups under way. The first name starts the thread.
#[derive(Default)]
pub struct Resolver {
    thread: Option<ResolverLink>,
    /// Nodes whose names are being looked up, each once, so that the queue is bounded.
    under_way: Vec<NodeId>,
}

struct ResolverLink {
    questions: Sender<(NodeId, Arc<str>)>,
    answers: Receiver<HostAddresses>,
}

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub struct HostAddresses {
    /// The node that has announced the name.
    pub node: NodeId,
    /// At most [`ADDRESSES_MAX`] addresses of the name; empty if the name has no address or the lookup fails.
    pub addresses: Vec<IpAddr>,
}

impl Resolver {
    /// Begins a lookup. At the end of each lookup, the waker that was passed to the first `ask` is woken, so
    /// all calls must pass the same waker. Does nothing while a name of the node is being looked up.
    ///
    /// # Errors
    /// The operating system cannot start the thread.
    pub fn ask(&mut self, node: NodeId, host: Arc<str>, waker: Waker) -> io::Result<()> {
        if self.under_way.contains(&node) {
            return Ok(());
        }
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(start(waker)?),
        };
        // The send succeeds, because the thread lives as long as this sender.
        if thread.questions.send((node, host)).is_ok() {
            self.under_way.push(node);
        }
        Ok(())
    }

    /// The result of the next finished lookup. Cost: one comparison while no lookup is under way.
    pub fn take(&mut self) -> Option<HostAddresses> {
        if self.under_way.is_empty() {
            return None;
        }
        let answer = self.thread.as_ref()?.answers.try_recv().ok()?;
        self.under_way.retain(|node| *node != answer.node);
        Some(answer)
    }
}

fn start(waker: Waker) -> io::Result<ResolverLink> {
    let (questions, asked) = channel::<(NodeId, Arc<str>)>();
    let (told, answers) = channel();
    Thread::Resolve.start(move || {
        for (node, host) in asked {
            let found = (&*host, 0).to_socket_addrs();
            let mut addresses: Vec<IpAddr> =
                found.map_or_else(|_| Vec::new(), |found| found.map(|a| a.ip()).collect());
            addresses.truncate(ADDRESSES_MAX);
            if told.send(HostAddresses { node, addresses }).is_err() {
                return;
            }
            waker.wake();
        }
    })?;
    Ok(ResolverLink { questions, answers })
}

/// Maximum number of addresses of a name that are returned.
const ADDRESSES_MAX: usize = 64;
