//! An echo server on the best driver there is: `cargo run --release -p sluice-evloop --example echo`, then
//! `nc localhost 7007`.
//!
//! Events carry the caller's [`Token`], whereas operations need the loop's [`Source`]. The caller therefore
//! stores each source under its token, here by its index in a vector.

use rustix::time::{ClockId, clock_gettime};
use sluice_evloop::{
    AnyLoop, Backend, Config, Deadline, Event, Received, SendBuf, Sending, Sent, Source, Token,
};
use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::OwnedFd;

const LISTENER: Token = Token(u64::MAX);

/// A connection: its source, bytes to send, and whether a send is in flight.
struct Client {
    source: Source,
    waiting: VecDeque<Vec<u8>>,
    sending: bool,
}

fn main() -> std::io::Result<()> {
    let opened = AnyLoop::choose(Backend::Auto, &Config::default())?;
    println!("event loop {}: {}", opened.event_loop.name(), opened.reason);
    let mut lp = opened.event_loop;
    let listener = TcpListener::bind("127.0.0.1:7007")?;
    listener.set_nonblocking(true)?;
    let source = lp.attach(OwnedFd::from(listener), LISTENER);
    lp.accept_start(source);
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut now = now_ns();
    loop {
        let _ = lp.wait(now, Deadline::NEVER)?;
        now = now_ns();
        while let Some(event) = lp.next_event(now) {
            match event {
                Event::Accepted { socket, .. } => {
                    let index = clients.iter().position(Option::is_none).unwrap_or(clients.len());
                    if index == clients.len() {
                        clients.push(None);
                    }
                    let source = lp.attach(socket, Token(index as u64));
                    lp.recv_start(source);
                    clients[index] = Some(Client { source, waiting: VecDeque::new(), sending: false });
                }
                Event::Received { token, received } => {
                    let slot = &mut clients[token.0 as usize];
                    match (received, slot.as_mut()) {
                        (Received::Data(chunk), Some(client)) => {
                            client.waiting.push_back(chunk.to_vec());
                            lp.give_back(chunk);
                            send(&mut lp, client);
                        }
                        (Received::Data(chunk), None) => lp.give_back(chunk),
                        (Received::Eof | Received::Failed(_), _) => {
                            if let Some(client) = slot.take() {
                                lp.close(client.source);
                            }
                        }
                    }
                }
                Event::Sent { token, sent } => {
                    if let Some(client) = &mut clients[token.0 as usize] {
                        finish(client, &sent);
                        send(&mut lp, client);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Sends the waiting bytes. At most one send may be in flight; a send that is done at once
/// brings no event.
fn send(lp: &mut AnyLoop, client: &mut Client) {
    while !client.sending
        && let Some(head) = client.waiting.pop_front()
    {
        match lp.send(client.source, SendBuf { head, shared: Vec::new() }) {
            Sending::InFlight => client.sending = true,
            Sending::Done(sent) => finish(client, &sent),
        }
    }
}

fn finish(client: &mut Client, sent: &Sent) {
    client.sending = false;
    if sent.error.is_some() {
        // A receive reports the end of the connection, too, and the client is removed then.
        client.waiting.clear();
    }
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
