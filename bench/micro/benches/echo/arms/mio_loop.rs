//! The application on mio, with edge-triggered registrations and a list of connections that may have more
//! input.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::pace::{ACCEPTS_PER_TURN, EVENTS_PER_TURN, Reading};
use super::sockets::{Flushed, Reads, Sockets};
use crate::app::App;

const LISTENER: Token = Token(usize::MAX);

struct Mio {
    poll: Poll,
    sockets: Sockets,
    reading: Reading,
    /// Connections to read in this iteration or the next.
    readable: Vec<u32>,
    /// The state of each connection, by its number.
    state: Vec<State>,
    acceptable: bool,
}

#[derive(Clone, Copy, Default)]
struct State {
    listed: bool,
    /// Whether the peer has closed its direction, or the connection has an error. No further edge follows
    /// then, so the connection is read until its end is reached.
    read_closed: bool,
}

pub fn serve(listener: TcpListener, app: App, reading: Reading) {
    let poll = Poll::new().expect("poll");
    let sockets = Sockets::new(listener, app);
    let fd = sockets.listener().as_raw_fd();
    poll.registry().register(&mut SourceFd(&fd), LISTENER, Interest::READABLE).expect("register");
    let mut this = Mio { poll, sockets, reading, readable: Vec::new(), state: Vec::new(), acceptable: false };
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    loop {
        let idle = this.readable.is_empty() && !this.acceptable;
        let timeout = if idle { None } else { Some(Duration::ZERO) };
        this.sockets.counters.system_calls += 1;
        this.sockets.counters.iterations += 1;
        this.poll.poll(&mut events, timeout).expect("poll");
        for event in &events {
            this.note(event);
        }
        this.accept();
        this.read();
        this.end_turn();
    }
}

impl Mio {
    fn note(&mut self, event: &mio::event::Event) {
        if event.token() == LISTENER {
            self.acceptable = true;
            return;
        }
        let id = event.token().0 as u32;
        let state = &mut self.state[id as usize];
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            state.read_closed |= event.is_read_closed() || event.is_error();
            if !std::mem::replace(&mut state.listed, true) {
                self.readable.push(id);
            }
        }
        if event.is_writable() && self.sockets.is_blocked(id) {
            self.sockets.app.touch(id);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.acceptable {
                return;
            }
            let Some(id) = self.sockets.accept() else {
                self.acceptable = false;
                return;
            };
            let fd = self.sockets.fd(id).expect("just accepted").as_raw_fd();
            let token = Token(id as usize);
            self.sockets.counters.system_calls += 1;
            let both = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut SourceFd(&fd), token, both).expect("register");
            if self.state.len() <= id as usize {
                self.state.push(State::default());
            }
            self.state[id as usize].read_closed = false;
        }
    }

    fn read(&mut self) {
        let listed = std::mem::take(&mut self.readable);
        for &id in &listed {
            let mut found = self.sockets.read(id);
            while self.reading == Reading::Drain && matches!(found, Reads::Full | Reads::Short) {
                found = self.sockets.read(id);
            }
            match found {
                Reads::End => {
                    self.sockets.close(id);
                    self.state[id as usize].listed = false;
                }
                Reads::Nothing => self.state[id as usize].listed = false,
                Reads::Short if !self.state[id as usize].read_closed => {
                    self.state[id as usize].listed = false
                }
                Reads::Short | Reads::Full => self.readable.push(id),
            }
        }
    }

    fn end_turn(&mut self) {
        self.sockets.answer_marks();
        let dirty = self.sockets.app.take_dirty();
        for &id in &dirty {
            match self.sockets.flush(id) {
                Flushed::Over => self.sockets.close(id),
                Flushed::All | Flushed::Blocked | Flushed::StillBlocked | Flushed::Unblocked => {}
            }
        }
        self.sockets.app.turn_over(dirty);
    }
}
