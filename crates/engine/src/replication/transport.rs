//! What the link to the primary needs of the process, and the one driver that uses it: the server and the
//! simulation give it connections and threads, or what stands for them, and cannot differ in what is done
//! when.
//!
//! Invariants: (1) wishes of the link are carried out in the order in which it had them, before anything else
//! is told to it; (2) a process names the attempt that a connection was made for: what comes of an attempt
//! that was given up is ignored (D-1).

use crate::engine::Engine;
use crate::replication::link::LinkSteps;
use sluice_base::LogLevel;
use sluice_config::choice::DisklessLoad;
use sluice_control::process::Process;
use sluice_control::replication::role::SyncSource;
use sluice_replication::{HistoryPoint, Input, Primary, SyncFailure, TransportOrder};
use sluice_snapshot::SnapshotSource;

/// Connections to a primary, and what receives a snapshot from one. One holder has a connection at a time.
pub trait LinkTransport {
    /// The engine that the link belongs to, and its process.
    fn engine_and_process(&mut self) -> (&mut Engine, &mut dyn Process);

    /// When something was heard last on a connection that others read, monotonic ns.
    fn heard_ns(&mut self) -> u64;

    /// Begins to make a connection for this attempt. Its end is told by [`Input::Opened`] or
    /// [`Input::Refused`].
    ///
    /// # Errors
    /// Why none is made, in the system's words.
    fn connect_link(&mut self, attempt: u64, primary: Primary) -> Result<(), String>;

    /// The connection that there is becomes the main channel; the next one is the snapshot's.
    fn keep_as_main_channel(&mut self);

    /// Sends this, which is shorter than what a socket takes at once.
    fn send_on_link(&mut self, bytes: Vec<u8>);

    /// Sends this on the main channel.
    fn send_on_main_channel(&mut self, bytes: Vec<u8>);

    /// What comes on the main channel from now on is kept, behind these bytes.
    fn buffer_stream(&mut self, first: Vec<u8>);

    /// A snapshot begins with these bytes: the event loop is to let go of the connection.
    /// [`LinkDriver::link_left`] is to be called when it has.
    fn leave_link(&mut self, first: Vec<u8>);

    /// The connection that was left is received into a file. Its end is told by [`Input::Saved`] or
    /// [`Input::Failed`].
    ///
    /// # Errors
    /// Why nothing receives it.
    fn receive_to_disk(&mut self) -> Result<(), String>;

    /// The connection that was left is the source of a load.
    ///
    /// # Errors
    /// Why nothing receives it.
    fn receive_to_memory(&mut self) -> Result<Box<dyn SnapshotSource>, String>;

    /// The file that was saved takes the place of the RDB file. Told by [`Input::InForce`] or
    /// [`Input::Failed`].
    fn commit_download(&mut self);

    /// Says to the primary that this server lives.
    fn keep_link_alive(&mut self);

    /// Executes what comes on the connection as the primary's: these bytes first, or what was received behind
    /// a snapshot. Whether there is a connection.
    fn stream_from_link(&mut self, rest: Vec<u8>) -> bool;

    /// Gives up the connections, and whatever works for them, without waiting.
    fn close_link(&mut self);
}

/// The driver of the link.
pub trait LinkDriver: LinkTransport {
    /// Goes on with the link: what the engine wants done, a file that can be committed, time. To be called
    /// once an iteration, behind whatever threads have reported.
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

    /// Tells the link something, and does what it wants.
    fn link_input(&mut self, input: Input<'_>) {
        self.carry_out();
        self.send_to_link(input);
        self.carry_out();
    }

    /// Tells the link something; what it wants is done later.
    fn send_to_link(&mut self, input: Input<'_>) {
        let heard_ns = self.heard_ns();
        let (engine, process) = self.engine_and_process();
        engine.step_link(input, heard_ns, process);
    }

    /// Does what the link wants done.
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

    /// Begins a connection, or tells why there is none.
    fn begin_connection(&mut self, attempt: u64, primary: Primary) {
        if let Err(reason) = self.connect_link(attempt, primary) {
            self.send_to_link(Input::Refused(attempt, &reason));
        }
    }

    /// The event loop has let go of the connection of this attempt: the snapshot is received. Where a client
    /// has changed the role meanwhile, the connection is closed.
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
    /// Why nothing is loaded.
    fn begin_memory_load(&mut self, how: DisklessLoad) -> Result<(), String> {
        let (engine, _) = self.engine_and_process();
        // One load at a time: one of DEBUG, or of an attempt that was given up, may not have ended.
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
