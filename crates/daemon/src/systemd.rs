//! Systemd's socket: notes of `NAME=value` lines, one note in each datagram. No note waits longer than a
//! second.

use sluice_config::choice::Supervisor;
use sluice_config::{Config, param};
use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long to wait for room in the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteWait {
    /// No wait: a later note replaces this one.
    None,
    /// At most one second.
    Second,
}

/// The socket's path, if systemd has started the process.
pub fn path() -> Option<OsString> {
    std::env::var_os("NOTIFY_SOCKET")
}

/// The socket's path, if `supervised` says that systemd is to be notified.
pub fn wanted(config: &Config) -> Option<OsString> {
    match config.choice::<Supervisor>(param::SUPERVISED) {
        Supervisor::Systemd | Supervisor::Auto => path(),
        Supervisor::No | Supervisor::Upstart => None,
    }
}

/// Sends a note.
///
/// # Errors
/// The system's error: there is no such socket, or no room in it.
pub fn notify(path: &OsStr, note: &str, patience: NoteWait) -> std::io::Result<()> {
    let address = match path.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    match patience {
        NoteWait::None => socket.set_nonblocking(true)?,
        NoteWait::Second => socket.set_write_timeout(Some(Duration::from_secs(1)))?,
    }
    socket.send_to_addr(note.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_waits_for_nobody_where_another_follows() {
        // Each process that runs this test uses an address of its own.
        let name = format!("sluice-notify-{}", std::process::id());
        let receiver = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let path = OsString::from(format!("@{name}"));
        let full = (0..100_000).find_map(|_| notify(&path, "STATUS=x\n", NoteWait::None).err());
        assert_eq!(full.map(|error| error.kind()), Some(std::io::ErrorKind::WouldBlock));
        let mut note = [0; 20];
        let len = receiver.recv(&mut note).unwrap();
        assert_eq!(&note[..len], b"STATUS=x\n");
        notify(&path, "READY=1\n", NoteWait::Second).unwrap();
    }
}
