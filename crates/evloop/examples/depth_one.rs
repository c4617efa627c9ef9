//! Measures what a request costs outside the kernel: one connection sends one request at a time, and its peer
//! and the loop share a thread. Run under `valgrind --tool=callgrind` or `strace -c`; the argument is the
//! number of rounds. The second argument names the driver (`epoll` if it is missing); with `bare`, only the
//! peer's part runs, so that its costs can be subtracted.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use sluice_evloop::{AnyLoop, Backend, Config, Deadline, Event, Received, SendBuf, Sending, Token};

fn main() {
    let rounds: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let how = std::env::args().nth(2).unwrap_or_else(|| "epoll".to_owned());
    if how == "bare" {
        return bare(rounds);
    }
    let backend: Backend = how.parse().expect("the name of a driver");
    let mut lp = AnyLoop::choose(backend, &Config::default()).expect("a loop opens").event_loop;
    let (ours, mut peer) = UnixStream::pair().expect("a socket pair");
    ours.set_nonblocking(true).expect("nonblocking");
    let source = lp.attach(OwnedFd::from(ours), Token(1));
    lp.recv_start(source);
    let mut reply = SendBuf::new();
    let mut got = [0; 5];
    for _ in 0..rounds {
        peer.write_all(b"GET k").expect("write");
        let iteration = lp.wait(1, Deadline::at_ns(u64::MAX - 1)).expect("wait");
        assert!(!iteration.woken);
        while let Some(event) = lp.next_event(1) {
            match event {
                Event::Received { received: Received::Data(chunk), .. } => {
                    reply.head.extend_from_slice(&chunk);
                    lp.give_back(chunk);
                    if let Sending::Done(sent) = lp.send(source, std::mem::take(&mut reply)) {
                        reply = sent.buf;
                        reply.clear();
                    }
                }
                Event::Sent { sent, .. } => {
                    reply = sent.buf;
                    reply.clear();
                }
                other => panic!("{other:?}"),
            }
        }
        if backend == Backend::IoUring {
            // The reply is queued, so the next iteration sends it.
            let _ = lp.wait(1, Deadline::PAST).expect("wait");
        }
        peer.read_exact(&mut got).expect("read");
    }
    println!("{:?}", lp.metrics());
}

fn bare(rounds: u32) {
    let (mut one, mut two) = UnixStream::pair().expect("a socket pair");
    let mut got = [0; 5];
    for _ in 0..rounds {
        one.write_all(b"GET k").expect("write");
        two.read_exact(&mut got).expect("read");
    }
}
