//! The application on the crate `polling`, with level-triggered registrations, which need no renewal.
#![allow(unsafe_code)]

use std::net::TcpListener;
use std::os::fd::AsRawFd;

use polling::{Event, Events, PollMode, Poller};

use super::pace::{ACCEPTS_PER_TURN, EVENTS_PER_TURN};
use super::sockets::{Flushed, Reads, Sockets};
use crate::app::App;

const LISTENER: usize = usize::MAX - 1;
/// Number of system calls that one wait of the `polling` crate (version 3.11) makes on Linux: setting the
/// timer, renewing its interest, the wait, reading the notifier, renewing its interest.
const CALLS_PER_WAIT: u64 = 5;

pub fn serve(listener: TcpListener, app: App) {
    let poller = Poller::new().expect("poller");
    let mut sockets = Sockets::new(listener, app);
    let raw = sockets.listener().as_raw_fd();
    // SAFETY: the descriptor stays open as long as the poller is used; neither ever ends.
    // JUSTIFICATION: the crate has no other way to register.
    unsafe { poller.add_with_mode(raw, Event::readable(LISTENER), PollMode::Level) }.expect("register");
    let mut events = Events::with_capacity(EVENTS_PER_TURN.try_into().expect("not zero"));
    loop {
        events.clear();
        sockets.counters.system_calls += CALLS_PER_WAIT;
        sockets.counters.iterations += 1;
        poller.wait(&mut events, None).expect("wait");
        for event in events.iter() {
            if event.key == LISTENER {
                accept(&poller, &mut sockets);
                continue;
            }
            let id = event.key as u32;
            if event.readable && sockets.read(id) == Reads::End {
                sockets.close(id);
            }
            if event.writable {
                sockets.app.touch(id);
            }
        }
        end_turn(&poller, &mut sockets);
    }
}

fn accept(poller: &Poller, sockets: &mut Sockets) {
    for _ in 0..ACCEPTS_PER_TURN {
        let Some(id) = sockets.accept() else { return };
        let raw = sockets.fd(id).expect("just accepted").as_raw_fd();
        sockets.counters.system_calls += 1;
        // SAFETY: closing takes the descriptor out of the epoll set, since it has no duplicate.
        // JUSTIFICATION: as in `serve`.
        unsafe { poller.add_with_mode(raw, Event::readable(id as usize), PollMode::Level) }
            .expect("register");
    }
}

fn end_turn(poller: &Poller, sockets: &mut Sockets) {
    sockets.answer_marks();
    let dirty = sockets.app.take_dirty();
    for &id in &dirty {
        let interest = match sockets.flush(id) {
            Flushed::Over => {
                sockets.close(id);
                continue;
            }
            Flushed::All | Flushed::StillBlocked => continue,
            Flushed::Blocked => Event::all(id as usize),
            Flushed::Unblocked => Event::readable(id as usize),
        };
        sockets.counters.system_calls += 1;
        if let Some(fd) = sockets.fd(id) {
            poller.modify_with_mode(fd, interest, PollMode::Level).expect("modify");
        }
    }
    sockets.app.turn_over(dirty);
}
