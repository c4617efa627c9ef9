//! The interface between the link to the primary and its process, and the one driver of the link. The server
//! and the simulation implement connections and threads; both use this driver, so they cannot differ in the
//! order of the steps.
//!
//! Invariants: (1) outputs of the link are carried out in their order, before the link gets another input;
//! (2) a process names the attempt for which a connection was made, and events of an attempt that was given
//! up are ignored (D-1).

use crate::engine::Engine;
use crate::replication::link::LinkSteps;
use sluice_base::LogLevel;
use sluice_config::choice::DisklessLoad;
use sluice_control::process::Process;
use sluice_control::replication::role::SyncSource;
use sluice_replication::{HistoryPoint, Input, Primary, SyncFailure, TransportOrder};
use sluice_snapshot::SnapshotSource;

/// Connections to a primary, and the receiver of a snapshot. At any time, a connection is used by one
/// part of the process.
pub trait LinkTransport {
    /// The engine of the link, and its process.
    fn engine_and_process(&mut self) -> (&mut Engine, &mut dyn Process);

    /// When bytes last arrived on a connection that other threads read, monotonic ns.
    fn last_activity_ns(&mut self) -> u64;

    /// Begins to connect for this attempt. The result is reported by [`Input::Opened`] or [`Input::Refused`].
    ///
    /// # Errors
    /// The system's reason why no connection can be begun.
    fn connect_link(&mut self, attempt: u64, primary: Primary) -> Result<(), String>;

    /// Makes the present connection the main channel; the next connection will be that of the snapshot.
    fn keep_as_main_channel(&mut self);

    /// Sends bytes on the link. They are fewer than a socket takes at once.
    fn send_on_link(&mut self, bytes: Vec<u8>);

    /// Sends bytes on the main channel.
    fn send_on_main_channel(&mut self, bytes: Vec<u8>);

    /// Buffers the bytes that arrive on the main channel from now on, after `first`.
    fn buffer_stream(&mut self, first: Vec<u8>);

    /// Makes the event loop release the connection, because a snapshot begins with the bytes `first`.
    /// [`LinkDriver::link_left`] is to be called when the connection is released.
    fn leave_link(&mut self, first: Vec<u8>);

    /// Receives the snapshot from the released connection into a file. The end is reported by
    /// [`Input::Saved`] or [`Input::Failed`].
    ///
    /// # Errors
    /// The reason why receiving cannot begin.
    fn receive_to_disk(&mut self) -> Result<(), String>;

    /// Makes the released connection the source of a load.
    ///
    /// # Errors
    /// The reason why receiving cannot begin.
    fn receive_to_memory(&mut self) -> Result<Box<dyn SnapshotSource>, String>;

    /// Renames the received file to the RDB file. The result is reported by [`Input::InForce`] or
    /// [`Input::Failed`].
    fn commit_download(&mut self);

    /// Sends the primary a newline, so that it does not time out.
    fn keep_link_alive(&mut self);

    /// Executes the input of the connection as commands of the primary, beginning with the bytes `rest`, or
    /// with the bytes received after a snapshot. Returns whether there is a connection.
    fn stream_from_link(&mut self, rest: Vec<u8>) -> bool;

    /// Gives up the connections, and the threads that work for them, without waiting.
    fn close_link(&mut self);
}

/// Driver of the link to the primary.
pub trait LinkDriver: LinkTransport {
    /// Continues the work on the link: carries out its outputs, commits a file if it may, and runs its
    /// timers. To be called once an iteration, after the reports of other threads were handled.
    fn advance_link(&mut self) {
        self.carry_out();
        let (engine, process) = self.engine_and_process();
        if LinkSteps::of(&mut engine.core).takes_commit(process) {
            self.commit_download();
        }
        let (engine, process) = self.engine_and_process();
        if engine.core.control.replication.takes_link_tick(process.recent().mono_ns) {
            self.link_input(Input::Tick);
        }
    }

    /// Gives the link an input, and carries out its outputs.
    fn link_input(&mut self, input: Input<'_>) {
        self.carry_out();
        self.send_to_link(input);
        self.carry_out();
    }

    /// Gives the link an input. Its outputs are carried out later.
    fn send_to_link(&mut self, input: Input<'_>) {
        let last_activity_ns = self.last_activity_ns();
        let (engine, process) = self.engine_and_process();
        engine.step_link(input, last_activity_ns, process);
    }

    /// Carries out the outputs of the link.
    fn carry_out(&mut self) {
        loop {
            let (engine, process) = self.engine_and_process();
            let Some(order) = engine.next_transport_order(process) else { return };
            let attempt = engine.link_attempt();
            match order {
                TransportOrder::Connect(attempt, primary) => self.begin_connection(attempt, primary),
                TransportOrder::ConnectSecond(attempt, primary) => {
                    self.keep_as_main_channel();
                    self.begin_connection(attempt, primary);
                }
                TransportOrder::Send(bytes) => self.send_on_link(bytes),
                TransportOrder::SendMain(bytes) => self.send_on_main_channel(bytes),
                TransportOrder::Buffer(first) => self.buffer_stream(first),
                TransportOrder::Receive(first) => self.leave_link(first),
                TransportOrder::KeepAlive => self.keep_link_alive(),
                TransportOrder::Stream(rest) => {
                    if !self.stream_from_link(rest) {
                        self.send_to_link(Input::Ended(attempt));
                    }
                }
                TransportOrder::Close => self.close_link(),
            }
        }
    }

    /// Begins a connection, or reports to the link why it cannot.
    fn begin_connection(&mut self, attempt: u64, primary: Primary) {
        if let Err(reason) = self.connect_link(attempt, primary) {
            self.send_to_link(Input::Refused(attempt, &reason));
        }
    }

    /// Begins to receive the snapshot, after the event loop has released the connection of this attempt. If
    /// the attempt has been given up, for example because the role has changed, the connection is closed
    /// instead.
    fn link_left(&mut self, attempt: u64) {
        self.carry_out();
        let (engine, _) = self.engine_and_process();
        if engine.link_attempt() != attempt {
            return;
        }
        let begun = match LinkSteps::of(&mut engine.core).memory_load() {
            None => self
                .receive_to_disk()
                .map_err(|reason| format!("No thread to receive the snapshot: {reason}")),
            Some(how) => self
                .begin_memory_load(how)
                .map_err(|reason| format!("The snapshot cannot be loaded from the connection: {reason}")),
        };
        if let Err(reason) = begun {
            let (_, process) = self.engine_and_process();
            process.log(LogLevel::Warning, &reason);
            self.link_input(Input::Failed(attempt, SyncFailure::Transfer));
        }
    }

    /// Begins to load from the connection.
    ///
    /// # Errors
    /// The reason why the load cannot begin.
    fn begin_memory_load(&mut self, how: DisklessLoad) -> Result<(), String> {
        let (engine, _) = self.engine_and_process();
        // Only one load runs at a time, and a load of DEBUG, or of an attempt that was given up, may not have
        // ended.
        if engine.is_loading() {
            return Err("another load is under way".to_owned());
        }
        let source = self.receive_to_memory()?;
        let (engine, process) = self.engine_and_process();
        let source = match (how, engine.core.control.replication.awaited_point()) {
            (DisklessLoad::SwapDb, Some(HistoryPoint { replid, .. })) => {
                SyncSource::Exchanged(source, replid.clone())
            }
            _ => SyncSource::Stream(source),
        };
        engine.begin_sync_load(source, process);
        Ok(())
    }
}

impl<T: LinkTransport + ?Sized> LinkDriver for T {}
