//! Lines for the system log: datagrams to its socket, as `syslog(3)` sends them.

use sluice_base::LogLevel;
use sluice_config::choice::SyslogFacility;
use std::os::unix::net::UnixDatagram;

/// A socket for the system log. A line is lost if there is no receiver.
#[derive(Debug)]
pub struct Syslog {
    socket: UnixDatagram,
    ident: String,
    facility: u8,
    pid: u32,
}

impl Syslog {
    /// Opens a socket for lines under this name. Errors: no socket.
    pub fn open(ident: &str, facility: SyslogFacility) -> std::io::Result<Syslog> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Syslog {
            socket,
            ident: ident.to_owned(),
            facility: facility_number(facility),
            pid: std::process::id(),
        })
    }

    /// Sends one line. The log daemon may have been restarted, so the address is resolved each time.
    pub fn send(&mut self, level: LogLevel, text: &str) {
        let line = line(self.facility, &self.ident, self.pid, level, text);
        let _ = self.socket.send_to(line.as_bytes(), SOCKET);
    }
}

fn line(facility: u8, ident: &str, pid: u32, level: LogLevel, text: &str) -> String {
    let severity = match level {
        LogLevel::Debug => 7,
        LogLevel::Verbose => 6,
        LogLevel::Notice => 5,
        LogLevel::Warning => 4,
    };
    format!("<{}>{ident}[{pid}]: {text}", u32::from(facility) * 8 + severity)
}

fn facility_number(facility: SyslogFacility) -> u8 {
    match facility {
        SyslogFacility::User => 1,
        SyslogFacility::Local0 => 16,
        SyslogFacility::Local1 => 17,
        SyslogFacility::Local2 => 18,
        SyslogFacility::Local3 => 19,
        SyslogFacility::Local4 => 20,
        SyslogFacility::Local5 => 21,
        SyslogFacility::Local6 => 22,
        SyslogFacility::Local7 => 23,
    }
}

/// Path of the system log's socket.
const SOCKET: &str = "/dev/log";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_with_facility_and_severity() {
        let facility = facility_number(SyslogFacility::Local0);
        assert_eq!(line(facility, "valkey", 7, LogLevel::Notice, "hello"), "<133>valkey[7]: hello");
        assert_eq!(line(facility_number(SyslogFacility::User), "x", 7, LogLevel::Debug, ""), "<15>x[7]: ");
    }
}
