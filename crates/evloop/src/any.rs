//! The driver chosen at run time.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::config::Config;
use crate::driver::{Driver, GatherPlan, Sleep};
use crate::event::{Event, Interest, Sending, Shutdown};
use crate::event_loop::Loop;
use crate::file::FileOp;
use crate::handle::{Fd, FileId, FileOpId, ProcessId, Source, Token};
use crate::metrics::Metrics;
use crate::send_buf::SendBuf;
#[cfg(target_os = "linux")]
use crate::sys::epoll::Epoll;
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "dragonfly"))]
use crate::sys::kqueue::Kqueue;
use crate::sys::poll::Poll;
#[cfg(all(target_os = "linux", any(test, feature = "sim")))]
use crate::sys::sim::Sim;
#[cfg(target_os = "linux")]
use crate::sys::uring::Uring;
use crate::sys::wake::WakeFd;
use crate::waker::Waker;

/// Which driver to use, as the configuration names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The first that works on this machine: epoll on Linux and kqueue elsewhere, then poll.
    #[default]
    Auto,
    /// io_uring; opening fails where it is not available.
    #[cfg(target_os = "linux")]
    IoUring,
    /// epoll; opening fails where it is not available.
    #[cfg(target_os = "linux")]
    Epoll,
    /// poll(2), which works on every system.
    Poll,
    /// kqueue; opening fails where it is not available.
    #[cfg(not(target_os = "linux"))]
    Kqueue,
}

impl Backend {
    /// The names that [`Backend::from_str`] takes.
    #[cfg(target_os = "linux")]
    pub(crate) const NAMES: [&str; 4] = ["auto", "io_uring", "epoll", "poll"];
    /// The names that [`Backend::from_str`] takes.
    #[cfg(not(target_os = "linux"))]
    pub(crate) const NAMES: [&str; 3] = ["auto", "kqueue", "poll"];

    /// The name of this backend in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Auto => "auto",
            #[cfg(target_os = "linux")]
            Backend::IoUring => "io_uring",
            #[cfg(target_os = "linux")]
            Backend::Epoll => "epoll",
            Backend::Poll => "poll",
            #[cfg(not(target_os = "linux"))]
            Backend::Kqueue => "kqueue",
        }
    }
}

impl Backend {
    /// The reason, for the log and INFO, why this driver runs if none was configured and no better one failed
    /// to open.
    fn why_by_default(self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Backend::Epoll => "the default; io_uring runs only where it is configured",
            _ => "the default",
        }
    }
}

impl FromStr for Backend {
    type Err = io::Error;

    fn from_str(name: &str) -> io::Result<Backend> {
        let all = [
            Backend::Auto,
            #[cfg(target_os = "linux")]
            Backend::IoUring,
            #[cfg(target_os = "linux")]
            Backend::Epoll,
            #[cfg(not(target_os = "linux"))]
            Backend::Kqueue,
            Backend::Poll,
        ];
        all.into_iter().find(|backend| backend.name() == name).ok_or_else(|| {
            let line = format!("must be one of {}", Backend::NAMES.join(", "));
            io::Error::new(io::ErrorKind::InvalidInput, line)
        })
    }
}

/// A loop whose driver was chosen at run time: one predictable branch per operation.
/// [`Loop<Epoll>`](Loop) and the like avoid the branch.
pub type AnyLoop = Loop<AnyDriver>;

/// An open loop, and the reason for its driver.
#[derive(Debug)]
pub struct Opened {
    /// The loop with the chosen driver.
    pub event_loop: AnyLoop,
    /// One line for the log and INFO: which driver runs, and why (because it is configured or the default, or
    /// because no better one works).
    pub reason: String,
}

impl AnyLoop {
    /// Opens the driver that `backend` names on this thread; with [`Backend::Auto`] the first that works.
    /// Fails when the named driver does not work on this machine.
    pub fn choose(backend: Backend, config: &Config) -> io::Result<Opened> {
        match backend {
            // The ring was measured to be no cheaper on loopback, so it is used only if it is configured.
            Backend::Auto => AnyLoop::first_of(AnyLoop::AUTO, config),
            _ => {
                let event_loop =
                    Loop::with(config, |config, wake| AnyDriver::open_as(backend, config, wake))?;
                let reason = format!("{}: configured", event_loop.name());
                Ok(Opened { event_loop, reason })
            }
        }
    }

    /// The drivers that [`Backend::Auto`] tries, the best first.
    #[cfg(target_os = "linux")]
    const AUTO: &[Backend] = &[Backend::Epoll, Backend::Poll];
    /// The drivers that [`Backend::Auto`] tries, the best first.
    #[cfg(not(target_os = "linux"))]
    const AUTO: &[Backend] = &[Backend::Kqueue, Backend::Poll];

    /// The io_uring driver over a scripted ring with the worst behaviour that is allowed; for tests.
    #[cfg(all(target_os = "linux", any(test, feature = "sim")))]
    pub fn simulated(config: &Config) -> io::Result<AnyLoop> {
        Loop::with(config, |config, wake| Sim::open(config, wake).map(AnyDriver::Sim))
    }

    /// Opens the first of `backends` that works on this machine; [`Opened::reason`] says why the backends
    /// before it did not work. Fails with the last error, or when the list is empty.
    pub fn first_of(backends: &[Backend], config: &Config) -> io::Result<Opened> {
        let mut refusals = String::new();
        let mut failed = io::ErrorKind::InvalidInput.into();
        for &backend in backends {
            match Loop::with(config, |config, wake| AnyDriver::open_as(backend, config, wake)) {
                Ok(event_loop) => {
                    let why = if refusals.is_empty() { backend.why_by_default() } else { &refusals };
                    let reason = format!("{}: {why}", event_loop.name());
                    return Ok(Opened { event_loop, reason });
                }
                Err(error) => {
                    if !refusals.is_empty() {
                        refusals.push_str("; ");
                    }
                    refusals.push_str(&format!("no {}: {error}", backend.name()));
                    failed = error;
                }
            }
        }
        Err(failed)
    }
}

/// One of the drivers.
// `allow` rather than `expect`, because with the feature `sim` two variants share the largest size, so the
// lint does not fire.
#[allow(
    clippy::large_enum_variant,
    reason = "a thread has one, and a box would be one more load in each call"
)]
#[derive(Debug)]
pub enum AnyDriver {
    /// The driver over epoll.
    #[cfg(target_os = "linux")]
    Epoll(Epoll),
    /// The driver over io_uring.
    #[cfg(target_os = "linux")]
    IoUring(Uring),
    /// The driver over poll(2).
    Poll(Poll),
    /// The io_uring driver over a scripted ring, for tests.
    #[cfg(all(target_os = "linux", any(test, feature = "sim")))]
    Sim(Sim),
    /// The driver over kqueue.
    #[cfg(not(target_os = "linux"))]
    Kqueue(Kqueue),
}

impl AnyDriver {
    fn open_as(backend: Backend, config: &Config, wake: &Arc<WakeFd>) -> io::Result<AnyDriver> {
        match backend {
            #[cfg(target_os = "linux")]
            Backend::Auto | Backend::Epoll => Epoll::open(config, wake).map(AnyDriver::Epoll),
            #[cfg(target_os = "linux")]
            Backend::IoUring => Uring::open(config, wake).map(AnyDriver::IoUring),
            #[cfg(not(target_os = "linux"))]
            Backend::Auto | Backend::Kqueue => Kqueue::open(config, wake).map(AnyDriver::Kqueue),
            Backend::Poll => Poll::open(config, wake).map(AnyDriver::Poll),
        }
    }
}

macro_rules! each {
    ($self:expr, $driver:ident => $call:expr) => {
        match $self {
            #[cfg(target_os = "linux")]
            AnyDriver::Epoll($driver) => $call,
            #[cfg(target_os = "linux")]
            AnyDriver::IoUring($driver) => $call,
            AnyDriver::Poll($driver) => $call,
            #[cfg(all(target_os = "linux", any(test, feature = "sim")))]
            AnyDriver::Sim($driver) => $call,
            #[cfg(not(target_os = "linux"))]
            AnyDriver::Kqueue($driver) => $call,
        }
    };
}

impl Driver for AnyDriver {
    fn name(&self) -> &'static str {
        each!(self, driver => driver.name())
    }

    fn open(config: &Config, wake: &Arc<WakeFd>) -> io::Result<AnyDriver> {
        AnyDriver::open_as(Backend::Auto, config, wake)
    }

    #[inline]
    fn wait(&mut self, now_ns: u64, sleep: Sleep) -> io::Result<usize> {
        each!(self, driver => driver.wait(now_ns, sleep))
    }

    #[inline]
    fn next_event(&mut self, now_ns: u64) -> Option<Event> {
        each!(self, driver => driver.next_event(now_ns))
    }

    #[inline]
    fn metrics(&mut self) -> &mut Metrics {
        each!(self, driver => driver.metrics())
    }

    fn footprint(&self) -> usize {
        each!(self, driver => driver.footprint())
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        each!(self, driver => driver.due_ns())
    }

    fn batch(&mut self, batch: GatherPlan) {
        each!(self, driver => driver.batch(batch));
    }

    fn set_accepts_per_iteration(&mut self, accepts: u32) {
        each!(self, driver => driver.set_accepts_per_iteration(accepts));
    }

    fn attach(&mut self, fd: Fd, token: Token) -> Source {
        each!(self, driver => driver.attach(fd, token))
    }

    fn set_token(&mut self, source: Source, token: Token) {
        each!(self, driver => driver.set_token(source, token));
    }

    fn fd(&self, source: Source) -> Option<BorrowedFd<'_>> {
        each!(self, driver => driver.fd(source))
    }

    fn accept_start(&mut self, source: Source) {
        each!(self, driver => driver.accept_start(source));
    }

    fn recv_start(&mut self, source: Source) {
        each!(self, driver => driver.recv_start(source));
    }

    fn recv_stop(&mut self, source: Source) {
        each!(self, driver => driver.recv_stop(source));
    }

    fn recv_into(&mut self, source: Source, buf: Vec<u8>, wanted: usize) {
        each!(self, driver => driver.recv_into(source, buf, wanted));
    }

    #[inline]
    fn recv_into_end(&mut self, source: Source) {
        each!(self, driver => driver.recv_into_end(source));
    }

    #[inline]
    fn give_back(&mut self, chunk: Chunk) {
        each!(self, driver => driver.give_back(chunk));
    }

    #[inline]
    fn send(&mut self, source: Source, buf: SendBuf) -> Sending {
        each!(self, driver => driver.send(source, buf))
    }

    fn has_sent(&mut self, source: Source) -> bool {
        each!(self, driver => driver.has_sent(source))
    }

    fn watch(&mut self, source: Source, interest: Interest) {
        each!(self, driver => driver.watch(source, interest));
    }

    fn shutdown(&mut self, source: Source, how: Shutdown) {
        each!(self, driver => driver.shutdown(source, how));
    }

    fn close(&mut self, source: Source) {
        each!(self, driver => driver.close(source));
    }

    fn detach(&mut self, source: Source) {
        each!(self, driver => driver.detach(source));
    }

    fn file_open(&mut self, fd: Arc<OwnedFd>) -> FileId {
        each!(self, driver => driver.file_open(fd))
    }

    fn file_start(&mut self, file: FileId, op: FileOp, token: Token) -> FileOpId {
        each!(self, driver => driver.file_start(file, op, token))
    }

    fn file_cancel(&mut self, id: FileOpId) {
        each!(self, driver => driver.file_cancel(id));
    }

    fn file_close(&mut self, file: FileId) {
        each!(self, driver => driver.file_close(file));
    }

    fn process_wait(&mut self, pid: i32, token: Token) -> ProcessId {
        each!(self, driver => driver.process_wait(pid, token))
    }

    fn process_cancel(&mut self, id: ProcessId) {
        each!(self, driver => driver.process_cancel(id));
    }

    fn use_waker(&mut self, waker: Waker) {
        each!(self, driver => driver.use_waker(waker));
    }

    fn woken(&mut self) {
        each!(self, driver => driver.woken());
    }
}
