//! A relay between a replica and its primary that the test can cut and restore.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A TCP relay; see the module. Its threads end with the process, or with the connections.
pub struct Relay {
    pub port: u16,
    state: Arc<RelayState>,
}

#[derive(Default)]
struct RelayState {
    is_cut: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// A relay to this port.
    pub fn to(target: u16) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(RelayState::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                if let Ok(far) = TcpStream::connect(("127.0.0.1", target)) {
                    shared.join(&near, &far);
                }
            }
        });
        Relay { port, state }
    }

    /// Ends all connections, and from now on each new connection at once.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Relaxed);
        self.cut_once();
    }

    /// Ends all connections; new ones are relayed.
    pub fn cut_once(&self) {
        let streams = std::mem::take(&mut *self.state.streams.lock().unwrap());
        for stream in streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Relays connections again.
    pub fn mend(&self) {
        self.state.is_cut.store(false, Relaxed);
    }
}

impl RelayState {
    fn join(&self, near: &TcpStream, far: &TcpStream) {
        // The lock is held until the streams are listed, so that a cut at this time is either seen below or
        // ends these streams.
        let mut streams = self.streams.lock().unwrap();
        if self.is_cut.load(Relaxed) {
            let _ = near.shutdown(Shutdown::Both);
            return;
        }
        for (from, to) in [(near, far), (far, near)] {
            from.set_nodelay(true).unwrap();
            streams.push(from.try_clone().unwrap());
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || carry(from, to));
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len) = from.read(&mut buffer) {
        if len == 0 || to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
