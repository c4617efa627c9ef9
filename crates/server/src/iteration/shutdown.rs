//! The end of the server: pending replies are sent, and then sockets and files are closed.

use super::Server;
use crate::clients::SocketOwner;
use crate::connection::Residence;
use crate::supervisor;
use sluice_base::LogLevel;
use sluice_control::process::ProcessClock;
use sluice_evloop::Deadline;
use std::time::Duration;

/// How long the end of the server waits for clients to read their last replies.
const FINISH_NS_MAX: u64 = 500_000_000;
/// The time between two checks while the end of the server waits.
const FINISH_WAIT: Duration = Duration::from_micros(100);

impl Server {
    /// Ends the server. Returns the exit status, which is `status`, or at least 1 if the last writes are
    /// not in the append-only file on disk. Does not return if the process executes its program again
    /// (DEBUG RESTART).
    pub(super) fn shut_down(&mut self, mut status: i32) -> i32 {
        if let Some(load) = &self.host.incoming.load {
            load.stop();
        }
        self.end_link();
        self.slow_reads.cancel_all();
        self.engine.save_rest(&mut self.host);
        self.engine.stop();
        self.host.break_off_rewrite();
        if !self.close_aof() {
            let line = "The last writes are not on disk: the AOF file could not be written or fsynced. Exiting with status 1";
            self.host.note(LogLevel::Warning, line);
            status = status.max(1);
        }
        supervisor::report_state(self.engine.config(), "STOPPING=1\n", &mut self.host);
        self.end_bus();
        self.listeners.close(&mut self.sockets.event_loop);
        // Without active I/O threads, connections that arrive from now on stay with the main thread.
        self.io_threads.pool.set_active(0);
        let deadline_ns = self.host.now().mono_ns + FINISH_NS_MAX;
        self.drain_until(deadline_ns, Server::has_moving_connections);
        // The I/O threads have a deadline of their own to send their last output, even if the first wait
        // used all its time.
        let deadline_ns = deadline_ns.max(self.host.now().mono_ns + FINISH_NS_MAX / 5);
        self.io_threads.pool.finish();
        self.drain_until(deadline_ns, |server| {
            server.io_threads.pool.is_running() || server.sockets.kept_back != 0 || server.is_sending()
        });
        self.host.remove_files();
        self.host.note(LogLevel::Warning, "Sluice is now ready to exit, bye bye...");
        self.host.start_again();
        status
    }

    /// Sends pending output and takes connections that I/O threads return, until `goes_on` returns false, the
    /// deadline has passed, or the event loop fails. No more commands are executed, because `ending` is set
    /// and the engine has stopped.
    fn drain_until(&mut self, deadline_ns: u64, goes_on: fn(&Server) -> bool) {
        loop {
            self.flush();
            // Replies of the last iteration were handed to the event loop already; this call hands them
            // to the kernel.
            let now_ns = self.host.now().mono_ns;
            if self.sockets.event_loop.wait(now_ns, Deadline::PAST).is_err() {
                return;
            }
            self.collect();
            self.write();
            if !goes_on(self) || self.host.now().mono_ns >= deadline_ns {
                return;
            }
            std::thread::sleep(FINISH_WAIT);
        }
    }

    /// Whether a connection is being moved between two threads.
    fn has_moving_connections(&self) -> bool {
        self.sockets.clients.iter().any(|(_, owner)| match owner {
            SocketOwner::Main(connection) => connection.residence == Residence::Detached,
            SocketOwner::LeavingIoThread(_) => true,
            SocketOwner::IoThread(_) | SocketOwner::InHand => false,
        })
    }

    /// Whether a connection of the main thread has a send in flight.
    fn is_sending(&self) -> bool {
        self.sockets.clients.iter().any(|(_, owner)| match owner {
            SocketOwner::Main(connection) => connection.output.is_sending(),
            SocketOwner::IoThread(_) | SocketOwner::LeavingIoThread(_) | SocketOwner::InHand => false,
        })
    }
}
