//! The listening sockets in the main thread's event loop.

use super::{Listener, tune};
use crate::net::Endpoint;
use sluice_config::Config;
use sluice_evloop::{AnyLoop, Source};
use socket2::SockRef;
use std::net::Shutdown;
use std::sync::Arc;

/// The accepting listeners, by slot. Slots of closed listeners are reused.
#[derive(Default)]
pub struct Listeners {
    slots: Vec<ListenerSlot>,
}

#[derive(Default)]
struct ListenerSlot {
    /// The number of listeners that have used this slot of the table. An event of an earlier listener has
    /// another generation.
    generation: u32,
    listener: Option<(Source, Listener)>,
}

impl Listeners {
    /// Closes the event loop's listeners that are not wanted, and adds the missing listeners. Accepted
    /// connections stay open.
    pub fn replace(&mut self, event_loop: &mut AnyLoop, wanted: Vec<Listener>) {
        let same = |a: &Listener, b: &Listener| Arc::ptr_eq(&a.socket, &b.socket);
        for slot in &mut self.slots {
            let is_unwanted = |old: &Listener| !wanted.iter().any(|new| same(new, old));
            if let Some((source, old)) = slot.listener.take_if(|(_, old)| is_unwanted(old)) {
                end(event_loop, source, &old);
            }
        }
        for listener in wanted {
            if self.iter().any(|old| same(old, &listener)) {
                continue;
            }
            let index = self.slots.iter().position(|slot| slot.listener.is_none()).unwrap_or_else(|| {
                self.slots.push(ListenerSlot::default());
                self.slots.len() - 1
            });
            let slot = &mut self.slots[index];
            slot.generation = slot.generation.wrapping_add(1);
            let endpoint = Endpoint::Listener { slot: index as u32, generation: slot.generation };
            let source = event_loop.attach(listener.socket.clone(), endpoint.token());
            event_loop.accept_start(source);
            slot.listener = Some((source, listener));
        }
    }

    /// The listener of an event; `None` if it is closed.
    pub fn get(&self, slot: u32, generation: u32) -> Option<&Listener> {
        let slot = self.slots.get(slot as usize).filter(|slot| slot.generation == generation)?;
        slot.listener.as_ref().map(|(_, listener)| listener)
    }

    /// Every open listener, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.slots.iter().filter_map(|slot| slot.listener.as_ref()).map(|(_, listener)| listener)
    }

    /// Sets the socket options that connections inherit, on every listener.
    pub fn tune(&self, config: &Config) {
        self.iter().for_each(|listener| tune(listener, config));
    }

    /// Closes all listeners, so that no connection is accepted any more.
    pub fn close(&mut self, event_loop: &mut AnyLoop) {
        for slot in &mut self.slots {
            if let Some((source, listener)) = slot.listener.take() {
                end(event_loop, source, &listener);
            }
        }
    }
}

/// Ends a listener at once. Closing the socket is not enough on io_uring, because an accept in flight
/// holds the socket until its cancellation is done, and the kernel would continue to accept connections
/// after the server's end.
fn end(event_loop: &mut AnyLoop, source: Source, listener: &Listener) {
    // The call fails without harm if the socket has been shut down already.
    let _ = SockRef::from(&*listener.socket).shutdown(Shutdown::Both);
    event_loop.close(source);
}
