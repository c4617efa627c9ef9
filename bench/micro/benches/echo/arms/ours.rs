//! The application on our loop, with any driver.

use std::net::TcpListener;
use std::os::fd::OwnedFd;

use sluice_clock::Clock;
use sluice_evloop::{
    AnyLoop, Backend, Config, Deadline, Event, Received, SendBuf, Sending, Sent, Source, Token,
};

use crate::app::App;
use crate::machine::Counters;

const LISTENER: Token = Token(u64::MAX);

struct Peer {
    source: Source,
    /// The buffer of the next send.
    spare: SendBuf,
    in_flight: bool,
}

struct Ours {
    lp: AnyLoop,
    app: App,
    peers: Vec<Peer>,
    sends: u64,
    fills: u64,
}

pub fn serve(backend: Backend, config: &Config, listener: TcpListener, app: App) {
    let mut lp = AnyLoop::choose(backend, config).expect("the driver opens").event_loop;
    let listener = lp.attach(OwnedFd::from(listener), LISTENER);
    lp.accept_start(listener);
    let mut this = Ours { lp, app, peers: Vec::new(), sends: 0, fills: 0 };
    let mut clock = Clock::system();
    let mut now_ns = clock.now().mono_ns;
    loop {
        let _ = this.lp.wait(now_ns, Deadline::NEVER).expect("wait");
        now_ns = clock.now().mono_ns;
        while let Some(event) = this.lp.next_event(now_ns) {
            this.take(event);
        }
        this.end_turn();
    }
}

impl Ours {
    fn take(&mut self, event: Event) {
        match event {
            Event::Accepted { socket, .. } => {
                let id = self.app.opened();
                let source = self.lp.attach(socket, Token(u64::from(id)));
                self.lp.recv_start(source);
                let peer = Peer { source, spare: SendBuf::new(), in_flight: false };
                match self.peers.get_mut(id as usize) {
                    Some(old) => *old = Peer { spare: std::mem::take(&mut old.spare), ..peer },
                    None => self.peers.push(peer),
                }
            }
            Event::Received { token, received: Received::Data(chunk) } => {
                let id = token.0 as u32;
                self.app.received(id, &chunk);
                self.lp.give_back(chunk);
                if let Some(wanted) = self.app.wants(id) {
                    let value = std::mem::take(self.app.value(id));
                    self.lp.recv_into(self.peers[id as usize].source, value, wanted);
                }
            }
            Event::Received { token, received: Received::Eof | Received::Failed(_) } => {
                self.close(token.0 as u32);
            }
            Event::Filled { token, buf, error } => self.filled(token.0 as u32, buf, error),
            Event::Sent { token, sent } => self.sent(token.0 as u32, sent),
            Event::AcceptFailed { error, .. } => eprintln!("accept: {error}"),
            Event::Ready { .. }
            | Event::Detached { .. }
            | Event::Timer { .. }
            | Event::FileDone { .. }
            | Event::ProcessEnded { .. } => {}
        }
    }

    fn filled(&mut self, id: u32, buf: Vec<u8>, error: Option<std::io::Error>) {
        if error.is_some() {
            return self.close(id);
        }
        self.fills += 1;
        let missing = self.app.wants(id).unwrap_or(0);
        *self.app.value(id) = buf;
        self.app.filled(id, missing);
        self.lp.recv_start(self.peers[id as usize].source);
    }

    fn sent(&mut self, id: u32, sent: Sent) {
        let peer = &mut self.peers[id as usize];
        peer.in_flight = false;
        peer.spare = sent.buf;
        peer.spare.clear();
        if sent.error.is_some() || self.app.is_ending(id) {
            self.close(id);
        } else if !self.app.out(id).is_empty() {
            self.app.touch(id);
        }
    }

    fn close(&mut self, id: u32) {
        self.lp.close(self.peers[id as usize].source);
        self.peers[id as usize].in_flight = false;
        self.app.closed(id);
    }

    fn flush(&mut self, id: u32) {
        let peer = &mut self.peers[id as usize];
        if peer.in_flight || !self.app.is_open(id) || self.app.out(id).is_empty() {
            return;
        }
        let mut buf = std::mem::take(&mut peer.spare);
        std::mem::swap(&mut buf.head, self.app.out(id));
        self.sends += 1;
        match self.lp.send(peer.source, buf) {
            Sending::Done(sent) => self.sent(id, sent),
            Sending::InFlight => peer.in_flight = true,
        }
    }

    fn end_turn(&mut self) {
        let (lp, sends, fills) = (&mut self.lp, self.sends, self.fills);
        self.app.answer_marks(|| {
            let metrics = lp.metrics();
            Counters {
                system_calls: metrics.system_calls,
                iterations: metrics.iterations,
                sends,
                starvations: metrics.starvations,
                fills,
                ..Counters::default()
            }
            .with_cpu()
        });
        let dirty = self.app.take_dirty();
        for &id in &dirty {
            self.flush(id);
        }
        self.app.turn_over(dirty);
    }
}
