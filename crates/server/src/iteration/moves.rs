//! Connections that change their owner: from the main thread's event loop to an I/O thread, and back.

use super::Server;
use crate::clients::SocketOwner;
use crate::connection::{self, Connection, ConnectionHost, Residence};
use crate::iothreads::{IoThreadId, Moving, ToIoThread};
use crate::net::Stream;
use sluice_subscriptions::multicast::OutputGroup;

/// Maximum number of connections that begin to move in one iteration.
const SHARE: usize = 100;
/// Maximum number of client slots that one iteration examines for moves.
const LOOKED_AT: usize = 4096;

/// The output group of the clients of an I/O thread.
fn group_of(id: IoThreadId) -> OutputGroup {
    OutputGroup(u16::try_from(id.0).expect("there are fewer I/O threads"))
}

impl Server {
    /// Begins to move some of the connections that are to change their owner.
    pub(super) fn move_connections(&mut self) {
        if !self.io_threads.moves.are_pending() {
            return;
        }
        // The messages gathered for a group of clients are sent first, because a connection that has left
        // the group would not get them.
        self.send_multicasts();
        let slots = self.sockets.clients.slots();
        let mut begun = 0;
        for _ in 0..LOOKED_AT {
            let Some(slot) = self.io_threads.moves.next_slot(slots) else { return };
            begun += usize::from(self.begin_move(slot));
            if begun == SHARE {
                return;
            }
        }
    }

    /// Begins the move of the client in a slot if the connection is to change its owner, and its present
    /// owner can release it now. Returns whether the move has begun.
    fn begin_move(&mut self, slot: usize) -> bool {
        let link = self.primary_link.session();
        let (pool, moves) = (&self.io_threads.pool, &mut self.io_threads.moves);
        let Some((key, owner)) = self.sockets.clients.in_slot(slot) else { return false };
        match owner {
            SocketOwner::Main(connection) => {
                let may_go = pool.active() > 0 && moves.takes_from_main() && link != Some(key);
                let goes = may_go && connection.residence == Residence::Staying && connection.is_at_rest();
                if goes {
                    connection.begin_leaving(&mut self.sockets.event_loop);
                    connection.detach_if_at_rest(&mut self.sockets.event_loop);
                    moves.took_from_main();
                }
                goes
            }
            SocketOwner::IoThread(id) => {
                let id = *id;
                let goes = !pool.is_active(id) || moves.takes_from(id);
                if goes {
                    self.release(key, id);
                }
                goes
            }
            SocketOwner::InHand | SocketOwner::LeavingIoThread(_) => false,
        }
    }

    fn release(&mut self, key: sluice_base::SessionKey, id: IoThreadId) {
        if self.sockets.clients.release(key).is_some() {
            self.engine.leave_group(key);
            self.io_threads.pool.send(id, ToIoThread::Release(key));
        }
    }

    /// Takes a connection that an I/O thread returns.
    pub(super) fn returned(&mut self, moving: Moving) {
        let Moving { mut connection, stream } = moving;
        let traffic = std::mem::take(&mut connection.unreported);
        self.count_traffic(connection.key, traffic);
        // If the client has ended during the move, the socket is closed by being dropped.
        if let Some(id) = self.sockets.clients.returned(connection.key) {
            self.io_threads.pool.left(id);
            self.assign_owner(connection, stream);
        }
    }

    /// Chooses an I/O thread or the main thread as the owner of a connection that is in hand
    /// ([`SocketOwner::InHand`]) and whose socket is in no event loop.
    pub(super) fn assign_owner(&mut self, connection: Box<Connection>, stream: Stream) {
        let key = connection.key;
        if !connection.is_at_rest() {
            // The client was ended during the move, because the input received before exceeded the limit.
            drop(stream);
            self.put(connection);
            return self.end_client(key);
        }
        match self.io_threads.keeps_another(&self.engine) {
            true => self.take_in(connection, stream),
            false => self.hand_over(connection, stream),
        }
        // Output that came up during the move waits in the session.
        self.sockets.ready.push(key);
    }

    /// Hands a connection in hand to the least busy active I/O thread. If no I/O thread is active, the
    /// main thread takes the connection.
    pub(super) fn hand_over(&mut self, mut connection: Box<Connection>, stream: Stream) {
        let Some(id) = self.io_threads.pool.least_loaded() else { return self.take_in(connection, stream) };
        let key = connection.key;
        connection.authentication = self.engine.authentication(key);
        self.resume_if_done(&mut connection);
        self.sockets.clients.give(key, id);
        self.engine.join_group(key, group_of(id));
        self.io_threads.pool.send(id, ToIoThread::Adopt(Box::new(Moving { connection, stream })));
    }

    /// Takes a connection in hand into the main thread's event loop.
    fn take_in(&mut self, mut connection: Box<Connection>, stream: Stream) {
        connection.arrive(&mut self.sockets.event_loop, stream);
        connection.authentication = self.engine.authentication(connection.key);
        self.resume_if_done(&mut connection);
        connection::resume(self, connection);
    }

    /// Resumes a client whose deferred request ended while its connection was between two threads.
    fn resume_if_done(&self, connection: &mut Connection) {
        if !self.is_deferred(connection.key) {
            connection.input.resume();
        }
    }
}
