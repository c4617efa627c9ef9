//! Tests whether this kernel does what the driver relies on. Multishot operations have no feature bits,
//! version numbers are unreliable (backports, custom kernels, emulations), and a filter may allow the set-up
//! and deny the rest. Each multishot operation is therefore tried once on a small ring that is used for
//! nothing else, which takes about a tenth of a millisecond.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use super::kernel::{CQE_MORE, Cqe, Kernel, Op, Wait, refused_by};

/// Optional features of this kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Whether a multishot receive can be limited to a number of bytes.
    pub ends_receives: bool,
}

/// Tries the multishot operations and their cancellation on `ring`, which has eight entries and two buffers
/// and is used for nothing else. Returns `Ok` if all operations behave as needed; otherwise an error with one
/// line about the first operation that does not behave so.
pub(super) fn check<K: Kernel>(ring: K) -> io::Result<Caps> {
    let mut probe = Probe { ring };
    probe.receives()?;
    probe.accepts()?;
    probe.wakes()?;
    Ok(Caps { ends_receives: probe.ends_receives()? })
}

struct Probe<K> {
    ring: K,
}

impl<K: Kernel> Probe<K> {
    /// Tests that a multishot receive continues after a completion, ends when buffers are lacking, and can be
    /// cancelled by its user data.
    fn receives(&mut self) -> io::Result<()> {
        let (mut one, two) = UnixStream::pair()?;
        for _ in 0..2 {
            self.ring.buffer_put(vec![0; 4].into_boxed_slice());
        }
        self.ring.buffers_publish();
        self.ring.push(Op::RecvMulti { fd: two.as_raw_fd() }, RECV);
        one.write_all(b"abcd")?;
        let first = self.await_of(RECV, "multishot receive")?;
        expect(first.result == 4 && first.more(), "multishot receive ends after one completion")?;
        let bytes = first.buffer().and_then(|id| self.ring.buffer_take(id));
        expect(bytes.as_deref() == Some(b"abcd"), "provided buffers are mixed up")?;
        one.write_all(b"efghi")?;
        let second = self.await_of(RECV, "multishot receive")?;
        expect(second.result == 4 && second.buffer().is_some(), "multishot receive loses bytes")?;
        let third = if second.more() { self.await_of(RECV, "multishot receive")? } else { second };
        expect(!third.more(), "multishot receive goes on without buffers")?;
        second.buffer().and_then(|id| self.ring.buffer_take(id));
        self.ring.buffer_put(vec![0; 4].into_boxed_slice());
        self.ring.buffers_publish();
        self.ring.push(Op::RecvMulti { fd: two.as_raw_fd() }, RECV);
        let rest = self.await_of(RECV, "multishot receive")?;
        expect(rest.result == 1, "multishot receive loses bytes")?;
        rest.buffer().and_then(|id| self.ring.buffer_take(id));
        if rest.more() {
            self.ring.push(Op::Cancel { target: RECV }, CANCEL);
            let end = self.await_of(RECV, "cancelling")?;
            expect(!end.more(), "cancelling does not end a multishot receive")?;
        }
        Ok(())
    }

    /// Whether a multishot receive ends after its limit of bytes. The group has two buffers of four bytes.
    fn ends_receives(&mut self) -> io::Result<bool> {
        let (mut one, two) = UnixStream::pair()?;
        while self.ring.buffers_missing() > 0 {
            self.ring.buffer_put(vec![0; 4].into_boxed_slice());
        }
        self.ring.buffers_publish();
        self.ring.cap_receives(4);
        self.ring.push(Op::RecvMulti { fd: two.as_raw_fd() }, CAPPED);
        self.ring.cap_receives(0);
        one.write_all(b"abcd")?;
        let first = self.await_of(CAPPED, "multishot receive")?;
        first.buffer().and_then(|id| self.ring.buffer_take(id));
        if first.more() {
            self.ring.push(Op::Cancel { target: CAPPED }, CANCEL);
            self.await_of(CAPPED, "cancelling")?;
        }
        Ok(first.result == 4 && !first.more())
    }

    /// Tests that a multishot accept returns two connections, each as a socket of its own.
    fn accepts(&mut self) -> io::Result<()> {
        let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        // The kernel chooses the address, which is in no directory.
        rustix::net::bind(&listener, &SocketAddrUnix::new_unnamed())?;
        rustix::net::listen(&listener, 4)?;
        let address = rustix::net::getsockname(&listener)?;
        self.ring.push(Op::AcceptMulti { fd: listener.as_raw_fd() }, ACCEPT);
        for _ in 0..2 {
            let peer = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
            rustix::net::connect(&peer, &address)?;
            let accepted = self.await_of(ACCEPT, "multishot accept")?;
            expect(accepted.result >= 0 && accepted.more(), "multishot accept ends after one completion")?;
            let socket = adopt(accepted.result);
            let domain = rustix::net::sockopt::socket_domain(&socket);
            expect(domain == Ok(AddressFamily::UNIX), "multishot accept returns wrong descriptors")?;
        }
        self.ring.push(Op::Cancel { target: ACCEPT }, CANCEL);
        let end = self.await_of(ACCEPT, "cancelling")?;
        expect(!end.more(), "cancelling does not end a multishot accept")
    }

    /// Tests the waker's operation: a poll of an eventfd that never ends by itself, although the eventfd is
    /// never read.
    fn wakes(&mut self) -> io::Result<()> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.ring.push(Op::PollMulti { fd: event.as_raw_fd(), events: 1 }, WAKE);
        for _ in 0..2 {
            rustix::io::write(&event, &1_u64.to_ne_bytes())?;
            let woken = self.await_of(WAKE, "multishot poll")?;
            expect(woken.result > 0 && woken.flags & CQE_MORE != 0, "multishot poll ends after one wake-up")?;
        }
        self.ring.push(Op::Cancel { target: WAKE }, CANCEL);
        self.await_of(WAKE, "cancelling").map(drop)
    }

    /// The next completion of the operation with this user data; completions of other operations are dropped.
    fn await_of(&mut self, user_data: u64, what: &str) -> io::Result<Cqe> {
        let mut cqes = Vec::with_capacity(1);
        for _ in 0..TRIES {
            cqes.clear();
            self.ring.reap(&mut cqes, 1);
            match cqes.first() {
                Some(cqe) if cqe.user_data == user_data => return Ok(*cqe),
                Some(_) => {}
                None => {
                    self.ring.enter(Wait::No).map_err(|error| refused_by("io_uring_enter", &error))?;
                }
            }
        }
        Err(wrong(&format!("{what} does not complete")))
    }
}

#[allow(unsafe_code)]
fn adopt(fd: i32) -> OwnedFd {
    // SAFETY: a successful accept made this descriptor, and no other owner of it exists.
    // JUSTIFICATION: the kernel hands descriptors over as numbers.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn expect(holds: bool, otherwise: &str) -> io::Result<()> {
    if holds { Ok(()) } else { Err(wrong(otherwise)) }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("io_uring misbehaves on this kernel: {what}"))
}

const RECV: u64 = 1;
const ACCEPT: u64 = 2;
const WAKE: u64 = 3;
const CANCEL: u64 = 4;
const CAPPED: u64 = 5;
const TRIES: u32 = 64;
