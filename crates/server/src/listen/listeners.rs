//! The listening sockets in the main thread's event loop.

use super::{Listener, tune};
use sluice_evloop::{AnyLoop, Source, Token};
use std::sync::Arc;

/// The listeners that accept, by the distance of their tokens from [`Listeners::TOKEN_BASE`]. Places of closed ones are used
/// again.
#[derive(Default)]
pub struct Listeners {
    places: Vec<Option<(Source, Listener)>>,
}

impl Listeners {
    /// Tokens of listeners: above those of every session, whose generation begins at 1 and stays far below.
    const TOKEN_BASE: u64 = u64::MAX - 1024;

    /// Brings the event loop's listeners in line with those that are wanted. Connections stay.
    pub fn replace(&mut self, event_loop: &mut AnyLoop, wanted: Vec<Listener>) {
        let same = |a: &Listener, b: &Listener| Arc::ptr_eq(&a.socket, &b.socket);
        for place in &mut self.places {
            if let Some((source, _)) = place.take_if(|(_, old)| !wanted.iter().any(|new| same(new, old))) {
                event_loop.close(source);
            }
        }
        for listener in wanted {
            if self.iter().any(|old| same(old, &listener)) {
                continue;
            }
            let index = self.places.iter().position(Option::is_none).unwrap_or_else(|| {
                self.places.push(None);
                self.places.len() - 1
            });
            let token = Token(Self::TOKEN_BASE + index as u64);
            let source = event_loop.attach(listener.socket.clone(), token);
            event_loop.accept_start(source);
            self.places[index] = Some((source, listener));
        }
    }

    /// The listener that a token names.
    pub fn get(&self, token: Token) -> Option<&Listener> {
        let index = token.0.checked_sub(Self::TOKEN_BASE)? as usize;
        self.places.get(index)?.as_ref().map(|(_, listener)| listener)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.places.iter().flatten().map(|(_, listener)| listener)
    }

    /// Sets on every listener what its connections are to have.
    pub fn tune(&self, keepalive_s: i64) {
        self.iter().for_each(|listener| tune(listener, keepalive_s));
    }

    /// Accepts nothing more.
    pub fn close(&mut self, event_loop: &mut AnyLoop) {
        self.places.drain(..).flatten().for_each(|(source, _)| event_loop.close(source));
    }
}
