//! The log: the reference's line formats, to standard output or a file, and to the system log if configured.
//!
//! `legacy`: `pid:role day month year hour:minute:second.ms level text`, role `M` for a primary and `S`
//! for a replica. `logfmt` and `json`: the same five facts with names. An entry is always one line,
//! whatever its text.

use crate::named_file;
use crate::syslog::Syslog;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_base::progress::{ProgressDisplay, TerminalLine, bar};
use sluice_config::choice::{LogFormat, LogTimestampFormat};
use sluice_numbers::progress::LongWork;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The log: its target, level and format.
#[derive(Debug)]
pub struct Log {
    level: Option<LogLevel>,
    target: Target,
    style: Style,
    syslog: Option<Syslog>,
    /// The progress bar below the last line, on a terminal.
    bar: TerminalLine,
    pid: u32,
    role: LogRole,
}

/// The server's role, as log lines show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRole {
    /// The server is no replica.
    Primary,
    /// The server is a replica.
    Replica,
}

#[derive(Debug)]
enum Target {
    Stdout,
    File(PathBuf, Option<File>),
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// How the facts of a line are arranged.
    pub format: LogFormat,
    /// The format of the time: local time, except milliseconds since the epoch.
    pub time: LogTimestampFormat,
}

impl Log {
    /// A log to standard output at level notice.
    pub fn stdout() -> Log {
        Log {
            level: Some(LogLevel::Notice),
            target: Target::Stdout,
            style: Style { format: LogFormat::Legacy, time: LogTimestampFormat::Legacy },
            syslog: None,
            bar: TerminalLine::default(),
            pid: std::process::id(),
            role: LogRole::Primary,
        }
    }

    /// Sets the role that lines show from now on.
    pub fn set_role(&mut self, role: LogRole) {
        self.role = role;
    }

    /// Sends lines to this file; the empty path is standard output. A relative path is resolved now,
    /// against the working directory. Errors: the file cannot be opened for appending.
    pub fn set_file(&mut self, path: &str) -> std::io::Result<()> {
        self.target = if path.is_empty() {
            Target::Stdout
        } else {
            let path = std::path::absolute(path)?;
            let file = named_file::append(&path)?;
            Target::File(path, Some(file))
        };
        Ok(())
    }

    /// The absolute path of the log file; `None` for standard output.
    pub fn file(&self) -> Option<&Path> {
        match &self.target {
            Target::Stdout => None,
            Target::File(path, _) => Some(path),
        }
    }

    /// Keeps lines of this level and above; `None` keeps no lines.
    pub fn set_level(&mut self, level: Option<LogLevel>) {
        self.level = level;
    }

    /// Sets the format of lines.
    pub fn set_style(&mut self, style: Style) {
        self.style = style;
    }

    /// Sends lines to the system log too.
    pub fn set_syslog(&mut self, syslog: Syslog) {
        self.syslog = Some(syslog);
    }

    /// Whether lines of this level are kept. If not, a caller need not format them.
    pub fn wants(&self, level: LogLevel) -> bool {
        self.level.is_some_and(|wanted| level >= wanted)
    }

    /// Writes a line if its level is kept. A line that cannot be written is lost: there is no other place
    /// to report it.
    pub fn line(&mut self, now: Now, level: LogLevel, text: &str) {
        if !self.wants(level) {
            return;
        }
        let line = self.style.line((self.pid, self.role), &stamp(self.style.time, now), level, text);
        self.raw(line.as_bytes());
        if let Some(syslog) = &mut self.syslog {
            syslog.send(level, &one_line(text));
        }
    }

    /// Shows a progress bar below the last line if the log goes to a terminal in whose foreground this
    /// process runs and that accepts output at once. `more`: number of other long tasks in progress.
    pub fn show_bar(&mut self, work: &LongWork, more: usize) {
        let is_shown = matches!(self.target, Target::Stdout) && display() == ProgressDisplay::Bar;
        if !is_shown || !is_in_foreground() || !takes_bytes_now() {
            return;
        }
        let name = match more {
            0 => work.kind.to_string(),
            more => format!("{} (+{more})", work.kind),
        };
        write_out(self.bar.draw(&bar(&name, &work.progress, columns())).as_bytes());
    }

    /// Removes the bar, if there is one: the next line replaces it.
    pub fn clear_bar(&mut self) {
        if let Some(bytes) = self.bar.clear() {
            write_out(bytes.as_bytes());
        }
    }

    /// Writes bytes as they are, after removing the bar.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.clear_bar();
        let _ = match &mut self.target {
            Target::Stdout => return write_out(bytes),
            Target::File(path, file) => {
                // If the file has been rotated away, it is opened again by name, as in the reference.
                if !path.exists() {
                    *file = named_file::append(path).ok();
                }
                file.as_mut().map_or(Ok(()), |f| f.write_all(bytes))
            }
        };
    }
}

impl Style {
    /// Formats a complete line.
    fn line(self, (pid, role): (u32, LogRole), stamp: &str, level: LogLevel, text: &str) -> String {
        let (letter, role) = match role {
            LogRole::Primary => ('M', "primary"),
            LogRole::Replica => ('S', "replica"),
        };
        let name = match level {
            LogLevel::Debug => "debug",
            LogLevel::Verbose => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
        };
        match self.format {
            LogFormat::Legacy => {
                let mark = match level {
                    LogLevel::Debug => '.',
                    LogLevel::Verbose => '-',
                    LogLevel::Notice => '*',
                    LogLevel::Warning => '#',
                };
                format!("{pid}:{letter} {stamp} {mark} {}\n", one_line(text))
            }
            LogFormat::Logfmt => {
                let text = one_line(text).replace('"', "'");
                format!("pid={pid} role={role} timestamp=\"{stamp}\" level={name} message=\"{text}\"\n")
            }
            LogFormat::Json => {
                let text = json_escaped(text);
                format!(
                    "{{\"pid\":{pid},\"role\":\"{role}\",\"timestamp\":\"{stamp}\",\"level\":\"{name}\",\"message\":\"{text}\"}}\n"
                )
            }
        }
    }
}

/// Whether this process runs in the foreground of its terminal: a background process must not draw a bar.
fn is_in_foreground() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdout()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Whether standard output accepts bytes without waiting: a terminal stopped with Ctrl-S does not.
fn takes_bytes_now() -> bool {
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready == 1)
        && fds[0].revents().is_some_and(|events| events == PollFlags::POLLOUT)
}

/// Writes to standard output. Bytes that cannot be written are lost.
fn write_out(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// How standard output can show progress. Cost: a system call.
fn display() -> ProgressDisplay {
    let (term, no_color) = (std::env::var_os("TERM"), std::env::var_os("NO_COLOR"));
    let is_terminal = std::io::stdout().is_terminal();
    ProgressDisplay::of(
        is_terminal,
        term.as_deref().map(OsStr::as_bytes),
        no_color.as_deref().map(OsStr::as_bytes),
    )
}

/// Columns of the terminal at standard output; 80 if unknown.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// The text without line breaks, because a client that could write a line break could forge the next line.
fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\n', '\r']) {
        Cow::Owned(text.replace(['\n', '\r'], " "))
    } else {
        Cow::Borrowed(text)
    }
}

fn json_escaped(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

fn stamp(format: LogTimestampFormat, now: Now) -> String {
    let unix_ms = now.unix_ms();
    if format == LogTimestampFormat::Milliseconds {
        return unix_ms.to_string();
    }
    let ms = unix_ms.rem_euclid(1000);
    let Ok(time) = jiff::Timestamp::from_millisecond(unix_ms) else { return unix_ms.to_string() };
    let local = time.to_zoned(jiff::tz::TimeZone::system());
    match format {
        LogTimestampFormat::Iso8601 => {
            format!("{}.{ms:03}{}", local.strftime("%Y-%m-%dT%H:%M:%S"), local.strftime("%:z"))
        }
        _ => format!("{}.{ms:03}", local.strftime("%d %b %Y %H:%M:%S")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: LogFormat, text: &str) -> String {
        line_of(LogRole::Primary, format, text)
    }

    fn line_of(role: LogRole, format: LogFormat, text: &str) -> String {
        Style { format, time: LogTimestampFormat::Milliseconds }.line((7, role), "5", LogLevel::Verbose, text)
    }

    #[test]
    fn a_replica_says_so_in_each_line() {
        let replica = |format| line_of(LogRole::Replica, format, "a");
        assert_eq!(replica(LogFormat::Legacy), "7:S 5 - a\n");
        assert!(replica(LogFormat::Logfmt).starts_with("pid=7 role=replica "));
        assert!(replica(LogFormat::Json).starts_with(r#"{"pid":7,"role":"replica","#));
    }

    #[test]
    fn each_format_tells_the_same_facts() {
        assert_eq!(line(LogFormat::Legacy, "a"), "7:M 5 - a\n");
        assert_eq!(
            line(LogFormat::Logfmt, "a"),
            "pid=7 role=primary timestamp=\"5\" level=info message=\"a\"\n"
        );
        let json = r#"{"pid":7,"role":"primary","timestamp":"5","level":"info","message":"a"}"#;
        assert_eq!(line(LogFormat::Json, "a"), format!("{json}\n"));
    }

    #[test]
    fn text_cannot_break_out_of_a_line() {
        let hostile = "a\"b\\ c\n\u{1} ä / \t\r'x'";
        assert_eq!(line(LogFormat::Legacy, hostile), "7:M 5 - a\"b\\ c \u{1} ä / \t 'x'\n");
        assert!(line(LogFormat::Logfmt, hostile).ends_with("message=\"a'b\\ c \u{1} ä / \t 'x'\"\n"));
        let json = line(LogFormat::Json, hostile);
        assert!(json.ends_with("\"message\":\"a\\\"b\\\\ c\\n\\u0001 ä / \\t\\r'x'\"}\n"), "{json}");
    }

    #[test]
    fn milliseconds_since_the_epoch_need_no_time_zone() {
        let now = Now { mono_ns: 0, unix_us: 1_700_000_000_123_456 };
        assert_eq!(stamp(LogTimestampFormat::Milliseconds, now), "1700000000123");
    }
}
