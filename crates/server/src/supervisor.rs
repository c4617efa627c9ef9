//! Notifications to systemd and upstart about the state of the process.

use crate::host::Host;
use crate::os::plain_error;
use sluice_base::LogLevel;
use sluice_config::choice::Supervisor;
use sluice_config::{Config, param};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells systemd about a state (lines of `NAME=value`), where `supervised` says so.
pub fn report_state(config: &Config, state: &str, host: &mut Host) {
    let socket = std::env::var_os("NOTIFY_SOCKET");
    let told = match (config.choice::<Supervisor>(param::SUPERVISED), socket) {
        (Supervisor::Systemd | Supervisor::Auto, Some(path)) => notify(&path, state),
        (Supervisor::Systemd, None) => Err(std::io::Error::other("NOTIFY_SOCKET not found!")),
        (Supervisor::No | Supervisor::Auto | Supervisor::Upstart, _) => Ok(()),
    };
    if let Err(error) = told {
        let reason = plain_error(&error);
        // The same reason at the end of the process is nothing new.
        if host.settings.supervisor_deaf.as_ref() != Some(&reason) {
            host.note(LogLevel::Warning, &format!("systemd supervision error: {reason}"));
            host.settings.supervisor_deaf = Some(reason);
        }
    }
}

/// The supervisor of the process, for which the process must stay in the foreground; `None` without a
/// supervisor, or when the configuration asks for none.
pub fn of(config: &Config) -> Option<&'static str> {
    let set = |name| std::env::var_os(name).is_some();
    let (upstart, systemd) = match config.choice::<Supervisor>(param::SUPERVISED) {
        Supervisor::No => (false, false),
        Supervisor::Systemd => (false, true),
        Supervisor::Upstart => (true, false),
        Supervisor::Auto => (true, true),
    };
    match () {
        () if upstart && set("UPSTART_JOB") => Some("upstart"),
        () if systemd && set("NOTIFY_SOCKET") => Some("systemd"),
        () => None,
    }
}

/// Stops until upstart lets go on, where `supervised` says so; upstart takes the stop as "ready".
pub fn stop_for_upstart(config: &Config, host: &mut Host) {
    let wanted = match config.choice::<Supervisor>(param::SUPERVISED) {
        Supervisor::Upstart => true,
        Supervisor::Auto => std::env::var_os("UPSTART_JOB").is_some(),
        Supervisor::No | Supervisor::Systemd => false,
    };
    if !wanted {
        return;
    }
    if std::env::var_os("UPSTART_JOB").is_none() {
        host.note(LogLevel::Warning, "upstart supervision requested, but UPSTART_JOB not found!");
        return;
    }
    host.note(LogLevel::Notice, "supervised by upstart, will stop to signal readiness.");
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
}

fn notify(path: &OsString, state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    let path = path.as_bytes();
    let address = match path.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}
