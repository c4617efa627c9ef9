//! Tests how much of one connection's data the ring takes in at once.

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use sluice_evloop::{AnyLoop, Backend, Config, Deadline, Event, Received, Token};

use crate::common::next;

/// Whether the kernel can end a multishot receive after a number of bytes.
fn ends_receives() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 17)
}

fn fill(socket: &mut TcpStream) -> usize {
    let block = [7; 16 * 1024];
    let mut bytes = 0;
    loop {
        match socket.write(&block) {
            Ok(written) => bytes += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return bytes,
            Err(error) => panic!("write: {error}"),
        }
    }
}

#[test]
fn a_flooded_source_takes_few_ring_buffers_in_an_iteration_and_loses_nothing() {
    let config = Config { ring_buffers: 64, ..Config::default() };
    let mut lp = match AnyLoop::choose(Backend::IoUring, &config) {
        Ok(opened) => opened.event_loop,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let mut flooder = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (server, _) = listener.accept().expect("accept");
    flooder.set_nonblocking(true).expect("nonblocking");
    server.set_nonblocking(true).expect("nonblocking");
    let source = lp.attach(OwnedFd::from(server), Token(1));
    lp.recv_start(source);
    let (mut sent, mut got, mut most) = (0, 0, 0);
    for _ in 0..200 {
        sent += fill(&mut flooder);
        let before = lp.metrics().receives;
        let _ = lp.wait(1, Deadline::PAST).expect("wait");
        while let Some(event) = lp.next_event(1) {
            if let Event::Received { received: Received::Data(chunk), .. } = event {
                got += chunk.len();
                lp.give_back(chunk);
            }
        }
        most = most.max(lp.metrics().receives - before);
    }
    drop(flooder);
    loop {
        match next(&mut lp) {
            Event::Received { received: Received::Data(chunk), .. } => got += chunk.len(),
            Event::Received { received: Received::Eof, .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(got, sent);
    assert!(most > 0);
    if ends_receives() {
        // The limit is sixteen chunks of bytes. Some receives may return less than a chunk, so there may be
        // more buffers.
        assert!(most <= 32, "{most} buffers in one iteration");
        assert_eq!(lp.metrics().starvations, 0);
    }
}
