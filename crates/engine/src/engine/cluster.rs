//! Calls of the process about the cluster: events of the bus, and questions about the node.

use crate::cluster::driver::ClusterDriver;
use crate::cluster::{export_links, exports};
use crate::engine::Engine;
use sluice_cluster::{Cluster, ClusterInput, LinkKey, SavedCluster, StartRefused};
use sluice_control::cluster::order::BusOrder;
use sluice_control::process::Process;
use std::net::IpAddr;

impl Engine {
    /// Starts the node of the cluster: as `nodes.conf` says, or as a new node if there is no file. `local`
    /// are the addresses of this host. To be called before the first request, and before the data set is
    /// loaded.
    ///
    /// # Errors
    /// The reason why the node cannot start from the file, with the line if one is to blame.
    pub fn start_cluster(
        &mut self,
        file: Option<&[u8]>,
        local: &[IpAddr],
        process: &mut dyn Process,
    ) -> Result<(), StartRefused> {
        ClusterDriver::of(&mut self.core).start_cluster(file, local, process)
    }

    /// The cluster node that this server is; `None` without cluster mode.
    pub fn node(&self) -> Option<&Cluster> {
        self.core.control.cluster.as_ref().map(|mode| &mode.machine)
    }

    /// As [`Engine::start_cluster`], from the parsed contents of a file: for tests.
    #[doc(hidden)]
    pub fn begin_cluster(
        &mut self,
        saved: Option<&SavedCluster>,
        local: &[IpAddr],
        process: &mut dyn Process,
    ) {
        ClusterDriver::of(&mut self.core).begin_cluster(saved, local, process)
    }

    /// Reports a new connection to the bus port. `None` if the connection is to be closed.
    pub fn accept_bus_link(
        &mut self,
        peer: IpAddr,
        local: IpAddr,
        process: &mut dyn Process,
    ) -> Option<LinkKey> {
        self.core.control.cluster.as_mut()?.machine.accept(process.recent(), peer, local)
    }

    /// Reports an event of the bus, or of the node's file.
    pub fn step_cluster(&mut self, input: &ClusterInput<'_>, process: &mut dyn Process) {
        ClusterDriver::of(&mut self.core).take_cluster_step(input, process);
        self.serve_waiting(process);
    }

    /// The next order for the process. Commands and calls such as [`Engine::step_cluster`] and
    /// [`Engine::end_iteration`] add orders; the process takes all orders once an iteration, after these
    /// calls.
    pub fn next_bus_order(&mut self) -> Option<BusOrder> {
        self.core.control.cluster.as_mut()?.orders.pop_front()
    }

    /// When the cluster needs [`Engine::end_iteration`] even without an event, monotonic ns; `u64::MAX`
    /// without cluster mode.
    pub fn cluster_deadline_ns(&self) -> u64 {
        let Some(mode) = &self.core.control.cluster else { return u64::MAX };
        // Input that the node's state machine received after the end of an iteration must not wait for the
        // next event.
        let is_unit_over = mode.machine.awaits_unit_end() && !self.core.has_open_unit();
        if mode.machine.awaits_iteration_end() || is_unit_over {
            return 0;
        }
        // Keys are deleted and freed in slices, one in each iteration.
        if self.core.keyspace.has_detached() {
            return 0;
        }
        // If the kernel has taken all bytes of a link at once, no event reports that the link has room
        // again.
        if export_links::have_room(mode, &self.core.sessions) {
            return 0;
        }
        let emptying_ns = mode.emptying_due_ns();
        let own = mode.machine.deadline().map_or(u64::MAX, |ms| ms.saturating_mul(1_000_000));
        let exports = exports::deadline_ns(mode.exports(), mode.pulse.moved_ns);
        mode.pulse.next_tick_ns.min(own).min(exports).min(emptying_ns)
    }

    /// Continues the walk over the keys of slots that are exported: once an iteration, after replies were
    /// sent. Cost: at most about a quarter of a millisecond, or two milliseconds while many changes wait for
    /// the image of a large value. Returns whether there was something to do.
    #[inline]
    pub fn walk_exports(&mut self, process: &mut dyn Process) -> bool {
        self.core.control.cluster.is_some() && exports::walk_exports(&mut self.core, process)
    }

    /// Reports the time and this server's offset to the node, and carries out what a transaction or script in
    /// progress has held back: once an iteration.
    pub(crate) fn advance_cluster(&mut self, process: &mut dyn Process) {
        if self.core.control.cluster.is_some() {
            ClusterDriver::of(&mut self.core).advance_node(process);
            self.serve_waiting(process);
            ClusterDriver::of(&mut self.core).advance_node_data(process);
        }
    }
}
