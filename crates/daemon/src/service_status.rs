//! Progress of long work for the operator: the status of the service in systemd, and a bar on the
//! terminal of a server that was started by hand. The engine also reports this progress in INFO and in the
//! log.
//!
//! Invariants: (1) nothing here waits: output that systemd or the terminal does not accept at once is
//! lost, and later output follows; (2) the bar is drawn only by the log that writes to the same terminal,
//! so that bar and lines do not mix ([`Log::show_bar`](crate::log::Log::show_bar)); (3) names from peers
//! are printed without control characters.

use sluice_base::progress::printable;
use sluice_numbers::progress::{LongWork, WorkKind};
use std::ffi::OsString;

/// The status of long work for systemd, as `NAME=value` lines.
#[derive(Debug, Default)]
pub struct ServiceStatus {
    /// The socket of systemd; `None`: no status is sent.
    pub socket: Option<OsString>,
    /// Systemd has been notified that clients are served.
    is_ready: bool,
    /// Time of the last note about unfinished work, monotonic ns.
    told_ns: Option<u64>,
    /// Progress of all work together at the time `told_ns`.
    done: Option<u64>,
}

impl ServiceStatus {
    /// Records that systemd was notified that clients are served.
    pub fn note_ready(&mut self) {
        (self.is_ready, self.told_ns) = (true, None);
    }

    /// The note to send now, if any; it counts as sent. `works` is the long work in progress.
    pub fn due(&mut self, works: &[LongWork], now_ns: u64) -> Option<String> {
        self.socket.as_ref()?;
        let mut long = works.iter().filter(|work| work.is_long()).peekable();
        if long.peek().is_none() {
            return (self.told_ns.take().is_some() && self.is_ready).then(|| format!("STATUS={READY}\n"));
        }
        if self.told_ns.is_some_and(|told_ns| now_ns.saturating_sub(told_ns) < TOLD_EVERY_NS) {
            return None;
        }
        self.told_ns = Some(now_ns);
        let ends =
            works.iter().any(|work| matches!(work.kind, WorkKind::FinalSave | WorkKind::Ending { .. }));
        let mut state = format!("STATUS={}\n", summary(long));
        let done: u64 = works.iter().map(|work| work.progress.done).sum();
        let moves = self.done.replace(done) != Some(done);
        if (ends || !self.is_ready) && moves {
            // An extension is sent only during a start or a stop, because systemd limits only their time.
            // Work that has not progressed since the last note gets no extension.
            state.push_str(&format!("EXTEND_TIMEOUT_USEC={EXTENSION_US}\n"));
        }
        Some(state)
    }
}

/// One line about several long tasks: it describes the first tasks, and gives the number of the others.
fn summary<'w>(mut works: impl Iterator<Item = &'w LongWork>) -> String {
    let first: Vec<String> = works.by_ref().take(NAMED_MAX).map(|work| work.to_string()).collect();
    let further = match works.count() {
        0 => String::new(),
        more => format!("; {more} more"),
    };
    printable(&(first.join("; ") + &further))
}

/// The status of a server that serves clients.
pub const READY: &str = "Ready to accept connections";

/// Time between two notes to systemd, ns; equal to the time between two log lines about progress.
const TOLD_EVERY_NS: u64 = 5_000_000_000;
/// A note extends systemd's time limit to this many microseconds from now, so that systemd does not end a
/// start whose disk stalls for less.
const EXTENSION_US: u64 = 60_000_000;
/// A status names at most this many long tasks.
const NAMED_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::progress::{ProgressUnit, WorkProgress};
    use sluice_numbers::progress::AwaitedAtEnd;

    const SECOND: u64 = 1_000_000_000;

    fn work(kind: WorkKind, seconds: u64) -> LongWork {
        let unit = ProgressUnit::Bytes;
        let (done, total) = (1_000_000, Some(4_000_000));
        LongWork { kind, progress: WorkProgress { done, total, unit, spent_ns: seconds * SECOND } }
    }

    fn served() -> ServiceStatus {
        ServiceStatus { socket: Some("/run/notify".into()), is_ready: true, ..ServiceStatus::default() }
    }

    #[test]
    fn systemd_is_told_every_five_seconds_and_at_the_end() {
        let mut status = served();
        assert_eq!(status.due(&[], 0), None);
        assert_eq!(status.due(&[work(WorkKind::Saving, 0)], 0), None, "work that may end at once");
        let told = status.due(&[work(WorkKind::Saving, 2)], SECOND).expect("a status");
        assert_eq!(told, "STATUS=Saving: 25.0% of 4 MB, 0.5 MB/s, 6 seconds left\n");
        assert_eq!(status.due(&[work(WorkKind::Saving, 6)], 5 * SECOND), None);
        assert!(status.due(&[work(WorkKind::Saving, 7)], 6 * SECOND).is_some());
        assert_eq!(status.due(&[], 7 * SECOND).as_deref(), Some("STATUS=Ready to accept connections\n"));
        assert_eq!(status.due(&[], 8 * SECOND), None);
        let mut nobody = ServiceStatus::default();
        assert_eq!(nobody.due(&[work(WorkKind::Saving, 2)], SECOND), None);
    }

    #[test]
    fn a_start_and_an_end_are_given_more_time() {
        let longer = |status: &mut ServiceStatus, kind| {
            let told = status.due(&[work(kind, 2)], 0).expect("a status");
            told.ends_with("\nEXTEND_TIMEOUT_USEC=60000000\n")
        };
        let mut starting = ServiceStatus { is_ready: false, ..served() };
        assert!(longer(&mut starting, WorkKind::Loading));
        let stuck = starting.due(&[work(WorkKind::Loading, 8)], 6 * SECOND).expect("a status");
        assert!(!stuck.contains("EXTEND_TIMEOUT"), "a load that does not move: {stuck}");
        assert_eq!(starting.due(&[], 7 * SECOND), None, "whether clients are served is not said here");
        assert!(!longer(&mut served(), WorkKind::Loading));
        assert!(longer(&mut served(), WorkKind::Ending(AwaitedAtEnd::Clients)));
        assert!(longer(&mut served(), WorkKind::FinalSave));
    }

    #[test]
    fn a_name_forges_no_line_and_many_works_make_no_long_one() {
        let name = WorkKind::Receiving { primary: "a\nREADY=1\n\x1b[2J:6379".to_owned() };
        let told = served().due(&[work(name, 2)], 0).expect("a status");
        assert_eq!(told.lines().count(), 1, "{told}");
        let many: Vec<LongWork> = (0..100).map(|_| work(WorkKind::Saving, 2)).collect();
        let told = served().due(&many, 0).expect("a status");
        assert!(told.ends_with("; 97 more\n") && told.len() < 300, "{told}");
    }
}
