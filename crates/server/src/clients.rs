//! The owner of every client's socket, as the main thread knows it.
//!
//! ```text
//!            its event loop lets go             the I/O thread is to let go
//!   Main --------------------------> IoThread -----------------------------> LeavingIoThread
//!    ^ <------- it is in hand -------------------------------------------------- |
//! ```
//!
//! Invariants: (1) a client's socket has exactly one owner; (2) a connection is in hand (`InHand`) while a
//! function of the main thread has taken it out of the table; at the end of each phase of an iteration, no
//! connection is in hand.

use crate::connection::Connection;
use crate::iothreads::IoThreadId;
use sluice_base::SessionKey;
use sluice_base::heap;

/// The owner of a client's socket.
pub enum SocketOwner {
    /// The main thread; the connection is in the table.
    Main(Box<Connection>),
    /// The main thread; one of its functions has taken the connection out of the table.
    InHand,
    /// An I/O thread, which handles input and output.
    IoThread(IoThreadId),
    /// An I/O thread that was asked to return the connection to the main thread. Output waits until the
    /// connection has arrived there.
    LeavingIoThread(IoThreadId),
}

impl SocketOwner {
    /// The I/O thread that has the connection; `None` for the main thread.
    pub fn io_thread(&self) -> Option<IoThreadId> {
        match self {
            SocketOwner::IoThread(id) | SocketOwner::LeavingIoThread(id) => Some(*id),
            SocketOwner::Main(_) | SocketOwner::InHand => None,
        }
    }
}

struct Client {
    key: SessionKey,
    owner: SocketOwner,
}

/// All clients, indexed by the slots of their sessions.
#[derive(Default)]
pub struct Clients {
    entries: Vec<Option<Client>>,
    /// Number of clients with the owner [`SocketOwner::LeavingIoThread`].
    leaving: usize,
}

impl Clients {
    /// Adds a client whose connection is in hand.
    ///
    /// # Panics
    /// If the slot has a client already.
    pub fn add(&mut self, key: SessionKey) {
        let slot = key.slot as usize;
        if self.entries.len() <= slot {
            self.entries.resize_with(slot + 1, || None);
        }
        assert!(
            self.entries[slot].is_none(),
            "the engine gives a slot away when its client was removed here"
        );
        self.entries[slot] = Some(Client { key, owner: SocketOwner::InHand });
    }

    /// Removes a client, and returns the owner of its socket; `None` if the client is gone already.
    pub fn remove(&mut self, key: SessionKey) -> Option<SocketOwner> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        let owner = entry.take_if(|client| client.key == key)?.owner;
        self.leaving -= usize::from(matches!(owner, SocketOwner::LeavingIoThread(_)));
        Some(owner)
    }

    /// The owner of a client's socket; `None` if the client is gone.
    #[inline]
    pub fn owner(&self, key: SessionKey) -> Option<&SocketOwner> {
        let client = self.entries.get(key.slot as usize)?.as_ref()?;
        (client.key == key).then_some(&client.owner)
    }

    #[inline]
    fn owner_mut(&mut self, key: SessionKey) -> Option<&mut SocketOwner> {
        let client = self.entries.get_mut(key.slot as usize)?.as_mut()?;
        (client.key == key).then_some(&mut client.owner)
    }

    /// Takes a connection out of the table; `None` if an I/O thread owns it, it is in hand, or the
    /// client is gone.
    #[inline]
    pub fn take(&mut self, key: SessionKey) -> Option<Box<Connection>> {
        let owner = self.owner_mut(key)?;
        match owner {
            SocketOwner::Main(_) => {}
            SocketOwner::InHand | SocketOwner::IoThread(_) | SocketOwner::LeavingIoThread(_) => return None,
        }
        match std::mem::replace(owner, SocketOwner::InHand) {
            SocketOwner::Main(connection) => Some(connection),
            SocketOwner::InHand | SocketOwner::IoThread(_) | SocketOwner::LeavingIoThread(_) => None,
        }
    }

    /// Puts back a connection that was in hand.
    ///
    /// # Panics
    /// If the client's connection was not in hand (the client would have two connections), or the client is
    /// gone.
    #[inline]
    pub fn put(&mut self, connection: Box<Connection>) {
        self.leave_hand(connection.key, SocketOwner::Main(connection));
    }

    /// Records that the connection in hand is handed to an I/O thread.
    ///
    /// # Panics
    /// If the client's connection was not in hand, or the client is gone.
    pub fn give(&mut self, key: SessionKey, to: IoThreadId) {
        self.leave_hand(key, SocketOwner::IoThread(to));
    }

    #[inline]
    fn leave_hand(&mut self, key: SessionKey, next: SocketOwner) {
        let owner = self.owner_mut(key).expect("a client stays in the table while its connection is in hand");
        let before = std::mem::replace(owner, next);
        let SocketOwner::InHand = before else { panic!("a connection that comes back was in hand") };
    }

    /// Records that an I/O thread is asked to return a connection. Returns the thread, or `None` if no
    /// I/O thread has the connection or the thread was asked before.
    pub fn release(&mut self, key: SessionKey) -> Option<IoThreadId> {
        let owner = self.owner_mut(key)?;
        let SocketOwner::IoThread(id) = *owner else { return None };
        *owner = SocketOwner::LeavingIoThread(id);
        self.leaving += 1;
        Some(id)
    }

    /// Records that an I/O thread has returned the connection, which is now in hand. Returns the thread,
    /// or `None` if the client is gone.
    pub fn returned(&mut self, key: SessionKey) -> Option<IoThreadId> {
        let owner = self.owner_mut(key)?;
        let id = owner.io_thread().expect("only an I/O thread gives a connection back");
        let before = std::mem::replace(owner, SocketOwner::InHand);
        self.leaving -= usize::from(matches!(before, SocketOwner::LeavingIoThread(_)));
        Some(id)
    }

    /// Number of connections that I/O threads were asked to return and still have.
    pub fn leaving(&self) -> usize {
        self.leaving
    }

    /// Number of slots, used or free; the slot of each client is below this number.
    pub fn slots(&self) -> usize {
        self.entries.len()
    }

    /// The client in a slot, with the owner of its socket; `None` if the slot is free.
    pub fn in_slot(&mut self, slot: usize) -> Option<(SessionKey, &mut SocketOwner)> {
        let client = self.entries.get_mut(slot)?.as_mut()?;
        Some((client.key, &mut client.owner))
    }

    /// Heap bytes of the table and of the main thread's connections in it. O(slots).
    pub fn footprint(&self) -> usize {
        let connection = |(_, owner): (SessionKey, &SocketOwner)| match owner {
            SocketOwner::Main(connection) => connection.footprint(),
            SocketOwner::InHand | SocketOwner::IoThread(_) | SocketOwner::LeavingIoThread(_) => 0,
        };
        heap::vec(&self.entries) + self.iter().map(connection).sum::<usize>()
    }

    /// All clients. O(slots).
    pub fn iter(&self) -> impl Iterator<Item = (SessionKey, &SocketOwner)> {
        self.entries.iter().flatten().map(|client| (client.key, &client.owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::transport::Transport;

    fn key(slot: u32, generation: u32) -> SessionKey {
        SessionKey { slot, generation }
    }

    fn connected(clients: &mut Clients, key: SessionKey) {
        clients.add(key);
        clients.put(Connection::new(key, Transport::detached()));
    }

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut clients = Clients::default();
        connected(&mut clients, key(3, 1));
        assert!(clients.remove(key(3, 1)).is_some());
        connected(&mut clients, key(3, 2));
        assert!(clients.owner(key(3, 1)).is_none() && clients.take(key(3, 1)).is_none());
        assert!(clients.release(key(3, 1)).is_none() && clients.returned(key(3, 1)).is_none());
        assert!(clients.remove(key(3, 1)).is_none());
        assert!(clients.take(key(3, 2)).is_some());
    }

    #[test]
    fn a_connection_goes_to_an_io_thread_and_back() {
        let mut clients = Clients::default();
        connected(&mut clients, key(0, 1));
        let connection = clients.take(key(0, 1)).unwrap();
        assert!(clients.take(key(0, 1)).is_none(), "it is in hand");
        clients.give(key(0, 1), IoThreadId(4));
        assert!(clients.take(key(0, 1)).is_none());
        assert_eq!(clients.release(key(0, 1)), Some(IoThreadId(4)));
        assert_eq!(clients.release(key(0, 1)), None, "it was asked before");
        assert_eq!(clients.returned(key(0, 1)), Some(IoThreadId(4)));
        clients.put(connection);
        assert!(clients.take(key(0, 1)).is_some());
    }

    #[test]
    #[should_panic(expected = "was in hand")]
    fn a_connection_has_one_owner() {
        let mut clients = Clients::default();
        connected(&mut clients, key(0, 1));
        clients.put(Connection::new(key(0, 1), Transport::detached()));
    }

    #[test]
    #[should_panic(expected = "only an I/O thread")]
    fn what_no_io_thread_has_none_can_give_back() {
        let mut clients = Clients::default();
        connected(&mut clients, key(0, 1));
        clients.returned(key(0, 1));
    }
}
