//! The server arms. Each arm runs the same application on a different event loop.

mod mio_loop;
mod ours;
mod pace;
mod polling_loop;
mod sockets;

use std::net::TcpListener;

use sluice_evloop::{Backend, Config};

use self::pace::Reading;
use super::app::{App, Taking};
use super::machine::pin;

/// Serves with this setup until the process is ended. The setup is `epoll`, `io_uring`, `poll`, `mio` or
/// `polling`. Options follow after slashes: a number of ring buffers, `small` (eight ring buffers), `direct`
/// (large values are received at their final place) or, for mio, `drain` (a connection is read until it is
/// empty).
pub fn serve(setup: &str) {
    let mut words = setup.split('/');
    let driver = words.next().unwrap_or_default();
    let mut config = Config::default();
    let mut taking = Taking::Chunks;
    let mut reading = Reading::Budget;
    for word in words {
        match word {
            "small" => config.ring_buffers = 8,
            "direct" => taking = Taking::Direct,
            "drain" => reading = Reading::Drain,
            other => config.ring_buffers = other.parse().expect("a word that an arm's name has"),
        }
    }
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port is free");
    rustix::net::listen(&listener, 4096).expect("a longer backlog");
    // The option is set on the listener, because accepted connections inherit it.
    rustix::net::sockopt::set_tcp_nodelay(&listener, true).expect("a socket option");
    listener.set_nonblocking(true).expect("a socket option");
    println!("{}", listener.local_addr().expect("a bound socket has an address").port());
    pin(0);
    let app = App::new(taking);
    match driver {
        "mio" => mio_loop::serve(listener, app, reading),
        "polling" => polling_loop::serve(listener, app),
        name => ours::serve(name.parse::<Backend>().expect("an arm's name"), &config, listener, app),
    }
}
