//! Tests of drivers that are dropped with pending completions.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::config::Config;
use crate::driver::{Driver, Sleep};
use crate::event::{Interest, Sending};
use crate::file::FileOp;
use crate::handle::{Fd, Token};
use crate::send_buf::SendBuf;
use crate::sys::sim::SimRing;
use crate::sys::uring::kernel::{Cqe, Kernel};
use crate::sys::uring::{CANCEL, Other, Uring, ring};
use crate::sys::wake::WakeFd;

/// A driver with operations of every kind, some of which are done and not taken, and the peers that stay
/// open.
fn busy<K: Kernel>(config: &Config, iterations: usize) -> Option<(Uring<K>, Vec<UnixStream>)> {
    let wake = Arc::new(WakeFd::open().expect("a descriptor"));
    let mut driver = Uring::<K>::open(&config.clamped(), &wake).ok()?;
    let mut peers = Vec::new();
    for token in 0..8 {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        ours.set_nonblocking(true).expect("nonblocking");
        let source = driver.attach(Fd::from(OwnedFd::from(ours)), Token(token));
        match token {
            0..4 => driver.recv_start(source),
            4 => driver.watch(source, Interest::READABLE),
            _ => driver.recv_into(source, Vec::new(), 100),
        }
        theirs.write_all(&[1; 60]).expect("writes");
        // The lengths are alternately more than fits in the socket, and a few bytes.
        let len = if token % 2 == 0 { 4 << 20 } else { 10 };
        let sending = driver.send(source, SendBuf { head: vec![7; len], shared: Vec::new() });
        assert!(matches!(sending, Sending::InFlight));
        // The other peers are closed, so that some sends and receives fail.
        if token >= 3 {
            peers.push(theirs);
        }
    }
    let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).expect("pipe");
    let reader = driver.file_open(Arc::new(reader));
    driver.file_start(reader, FileOp::read(vec![0; 8]), Token(9));
    File::from(writer).write_all(b"1234").expect("writes");
    let disk = memfd_create("disk", MemfdFlags::CLOEXEC).expect("a file");
    let disk = driver.file_open(Arc::new(disk));
    driver.file_start(disk, FileOp::write(vec![1; 100_000]), Token(9));
    driver.file_start(disk, FileOp::sync(), Token(9));
    wake.kick();
    for _ in 0..iterations {
        driver.wait(0, Sleep::No).expect("wait");
    }
    Some((driver, peers))
}

/// Every operation ends, and so no memory leaks, whatever was reaped and not taken.
fn comes_to_rest<K: Kernel>(config: &Config) {
    for iterations in 0..6 {
        let Some((mut driver, _peers)) = busy::<K>(config, iterations) else {
            println!("skipped: no io_uring here");
            return;
        };
        assert!(iterations < 3 || !driver.ready.is_empty(), "something is at hand");
        assert!(
            driver.quiesce(),
            "{} after {iterations} iterations, {} in flight",
            K::NAME,
            driver.in_flight
        );
        assert_eq!(driver.in_flight, 0);
    }
}

#[test]
fn a_driver_comes_to_rest_with_completions_that_nobody_took() {
    comes_to_rest::<ring::KernelRing>(&Config::default());
    // This ring has less room than there are completions.
    comes_to_rest::<ring::KernelRing>(&Config { ring_entries: 2, ring_buffers: 2, ..Config::default() });
    for sim_seed in 1..=12 {
        comes_to_rest::<SimRing>(&Config { sim_seed, ..Config::default() });
    }
}

/// Whether the driver cancels an operation on a file again if its first cancellation fails with this error.
fn asks_again(fd: OwnedFd, error: i32) -> bool {
    let wake = Arc::new(WakeFd::open().expect("a descriptor"));
    let mut driver = Uring::<SimRing>::open(&Config::default().clamped(), &wake).expect("it needs nothing");
    let file = driver.file_open(Arc::new(fd));
    let id = driver.file_start(file, FileOp::read(vec![0; 8]), Token(1));
    driver.file_cancel(id);
    let before = driver.inline;
    let target = Other::File.user_data(0);
    driver.cancelled(Cqe { user_data: CANCEL << 56 | target >> 56 << 32, result: -error, flags: 0 });
    driver.inline != before
}

#[test]
fn a_cancellation_that_misses_is_asked_again_of_what_may_wait_for_ever() {
    let pipe = || pipe_with(PipeFlags::NONBLOCK).expect("pipe").0;
    let disk = || memfd_create("disk", MemfdFlags::CLOEXEC).expect("a file");
    assert!(asks_again(pipe(), libc::ENOENT));
    assert!(!asks_again(pipe(), libc::EALREADY), "a thread of the kernel was told");
    assert!(!asks_again(disk(), libc::ENOENT), "a disk's operation ends by itself");
}
