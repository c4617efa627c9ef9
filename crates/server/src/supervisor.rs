//! Notifications to systemd and upstart about the state of the process.

use crate::host::Host;
use sluice_base::LogLevel;
use sluice_config::choice::Supervisor;
use sluice_config::{Config, param};
use sluice_daemon::systemd::{self, NoteWait};
use sluice_storage::plain_error;

/// Notifies systemd of a state (lines of `NAME=value`) if `supervised` selects systemd or `auto`. Waits
/// for at most a second. An error is logged.
pub fn report_state(config: &Config, state: &str, host: &mut Host) {
    let told = match (config.choice::<Supervisor>(param::SUPERVISED), systemd::path()) {
        (Supervisor::Systemd | Supervisor::Auto, Some(path)) => {
            systemd::notify(&path, state, NoteWait::Second)
        }
        (Supervisor::Systemd, None) => Err(std::io::Error::other("NOTIFY_SOCKET not found!")),
        (Supervisor::No | Supervisor::Auto | Supervisor::Upstart, _) => Ok(()),
    };
    if let Err(error) = told {
        let reason = plain_error(&error);
        // A repeated reason is not logged again.
        if host.settings.supervisor_error.as_ref() != Some(&reason) {
            host.note(LogLevel::Warning, &format!("systemd supervision error: {reason}"));
            host.settings.supervisor_error = Some(reason);
        }
    }
}

/// The supervisor of the process, which must then stay in the foreground; `None` without a supervisor, or
/// if the configuration asks for none.
pub fn of(config: &Config) -> Option<&'static str> {
    let (upstart, systemd) = match config.choice::<Supervisor>(param::SUPERVISED) {
        Supervisor::No => (false, false),
        Supervisor::Systemd => (false, true),
        Supervisor::Upstart => (true, false),
        Supervisor::Auto => (true, true),
    };
    match () {
        () if upstart && std::env::var_os("UPSTART_JOB").is_some() => Some("upstart"),
        () if systemd && systemd::path().is_some() => Some("systemd"),
        () => None,
    }
}

/// Stops the process until upstart continues it, if `supervised` selects upstart. For upstart, the stop
/// means that the process is ready.
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
