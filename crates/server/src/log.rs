//! The log: the reference's line format, to standard output or a file.
//!
//! A line is `pid:role day month year hour:minute:second.ms level text`, role `M` for a primary.

use sluice_base::Now;
use sluice_engine::LogLevel;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// Where log lines go and which.
#[derive(Debug)]
pub struct Log {
    level: Option<LogLevel>,
    target: Target,
    time: TimeFormat,
    pid: u32,
}

#[derive(Debug)]
enum Target {
    Stdout,
    File(PathBuf, Option<File>),
}

/// How a line writes the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// `20 Nov 2026 06:54:17.222`, local time.
    Legacy,
    /// `2026-11-20T06:54:17.222+00:00`, local time.
    Iso8601,
    /// Milliseconds since the epoch.
    Milliseconds,
}

impl Log {
    /// A log to standard output at level notice.
    pub fn stdout() -> Log {
        Log {
            level: Some(LogLevel::Notice),
            target: Target::Stdout,
            time: TimeFormat::Legacy,
            pid: std::process::id(),
        }
    }

    /// Sends lines to this file; the empty path is standard output.
    /// Errors: the file cannot be opened for appending.
    pub fn set_file(&mut self, path: &str) -> std::io::Result<()> {
        self.target = if path.is_empty() {
            Target::Stdout
        } else {
            let path = PathBuf::from(path);
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            Target::File(path, Some(file))
        };
        Ok(())
    }

    /// Keeps lines of this level and above; none when `None`.
    pub fn set_level(&mut self, level: Option<LogLevel>) {
        self.level = level;
    }

    /// Sets how lines write the time.
    pub fn set_time(&mut self, time: TimeFormat) {
        self.time = time;
    }

    /// The process's number changed: after becoming a daemon.
    pub fn set_pid(&mut self, pid: u32) {
        self.pid = pid;
    }

    /// Whether lines go to standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// Writes a line when its level is wanted. A line that cannot be written is lost: there is nobody to tell.
    pub fn line(&mut self, now: Now, level: LogLevel, text: &str) {
        if self.level.is_none_or(|wanted| level < wanted) {
            return;
        }
        let mark = match level {
            LogLevel::Debug => '.',
            LogLevel::Verbose => '-',
            LogLevel::Notice => '*',
            LogLevel::Warning => '#',
        };
        let line = format!("{}:M {} {mark} {text}\n", self.pid, self.stamp(now));
        self.raw(line.as_bytes());
    }

    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = match &mut self.target {
            Target::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Target::File(path, file) => {
                // The file may have been rotated away: a line opens it again by name, as the reference does.
                if !path.exists() {
                    *file = OpenOptions::new().create(true).append(true).open(&*path).ok();
                }
                file.as_mut().map_or(Ok(()), |f| f.write_all(bytes))
            }
        };
    }

    fn stamp(&self, now: Now) -> String {
        if self.time == TimeFormat::Milliseconds {
            return now.unix_ms().to_string();
        }
        let ms = now.unix_ms().rem_euclid(1000);
        let Ok(time) = jiff::Timestamp::from_millisecond(now.unix_ms()) else {
            return now.unix_ms().to_string();
        };
        let local = time.to_zoned(jiff::tz::TimeZone::system());
        match self.time {
            TimeFormat::Iso8601 => {
                format!("{}.{ms:03}{}", local.strftime("%Y-%m-%dT%H:%M:%S"), local.strftime("%:z"))
            }
            _ => format!("{}.{ms:03}", local.strftime("%d %b %Y %H:%M:%S")),
        }
    }
}
