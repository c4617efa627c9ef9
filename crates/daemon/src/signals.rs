//! Signals: after a first TERM or INT the server ends in good order, after a second one at once.
//!
//! The handlers come from `signal-hook` and write a byte into a socket that the event loop watches.

use signal_hook::consts::{SIGINT, SIGTERM};
use sluice_config::row::kind;
use sluice_config::{Id, param};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A signal that ends the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGTERM, for which `shutdown-on-sigterm` has the flags.
    Term,
    /// SIGINT, for which `shutdown-on-sigint` has the flags.
    Int,
}

impl EndSignal {
    /// The signal's name in the log.
    pub fn name(self) -> &'static str {
        match self {
            EndSignal::Term => "SIGTERM",
            EndSignal::Int => "SIGINT",
        }
    }

    /// The directive with the shutdown flags for this signal.
    pub fn shutdown_flags(self) -> Id<kind::Flags> {
        match self {
            EndSignal::Term => param::SHUTDOWN_ON_SIGTERM,
            EndSignal::Int => param::SHUTDOWN_ON_SIGINT,
        }
    }
}

/// The receiving end of the signals, in the event loop.
pub struct Signals {
    reader: UnixStream,
    watched: Option<OwnedFd>,
    /// SIGTERM was received: the next signal ends the process at once.
    term: Arc<AtomicBool>,
    /// SIGINT was received: the next signal ends the process at once.
    int: Arc<AtomicBool>,
    /// The socket as a source of the event loop; `None` until it is attached.
    pub source: Option<sluice_evloop::Source>,
}

impl Signals {
    /// Installs the handlers. SIGHUP and SIGPIPE are ignored, as in the reference.
    pub fn install() -> std::io::Result<Signals> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let term = Arc::new(AtomicBool::new(false));
        let int = Arc::new(AtomicBool::new(false));
        for (signal, own, other) in [(SIGTERM, &term, &int), (SIGINT, &int, &term)] {
            // The second signal of either kind ends the process at once. One handler may interrupt the
            // other anywhere, so each handler sets its own flag before it reads the other handler's flag:
            // then at least one of the two sees both flags set.
            crate::crash::remove_unfinished_at(signal, own.clone())?;
            signal_hook::flag::register_conditional_shutdown(signal, 1, own.clone())?;
            signal_hook::flag::register(signal, own.clone())?;
            crate::crash::remove_unfinished_at(signal, other.clone())?;
            signal_hook::flag::register_conditional_shutdown(signal, 1, other.clone())?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        let ignored = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGHUP, ignored.clone())?;
        signal_hook::flag::register(signal_hook::consts::SIGPIPE, ignored)?;
        let watched = Some(OwnedFd::from(reader.try_clone()?));
        Ok(Signals { reader, watched, term, int, source: None })
    }

    /// The descriptor to watch; `None` after the first call.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.watched.take()
    }

    /// Cancels the shutdown: the server does not end, and the next signal requests a new one.
    pub fn refuse(&self) {
        for flag in [&self.term, &self.int] {
            // Relaxed: the handlers run on this process's threads, and nothing else is published by these
            // flags.
            flag.store(false, Relaxed);
        }
    }

    /// Empties the socket and returns the signal that was received, if any.
    pub fn drain(&mut self) -> Option<EndSignal> {
        let mut bytes = [0; 64];
        while self.reader.read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
        if self.term.load(Relaxed) {
            Some(EndSignal::Term)
        } else if self.int.load(Relaxed) {
            Some(EndSignal::Int)
        } else {
            None
        }
    }
}

/// Ends the process as a fault would, for DEBUG SEGFAULT.
pub fn raise_segfault() {
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSEGV);
}
