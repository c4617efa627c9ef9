//! The command log: slow commands, large requests, large replies.

use sluice_base::heap;
use std::collections::VecDeque;

/// The reasons for which a command is logged, each with a log of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The command took `commandlog-execution-slower-than` or longer.
    Slow,
    /// The request had `commandlog-request-larger-than` bytes or more.
    LargeRequest,
    /// The reply had `commandlog-reply-larger-than` bytes or more.
    LargeReply,
}

impl LogKind {
    /// Every kind, in the order of the logs.
    pub const ALL: [LogKind; 3] = [LogKind::Slow, LogKind::LargeRequest, LogKind::LargeReply];
}

/// A logged command, as COMMANDLOG GET shows it.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Number of the entry, unique within its log until the server ends.
    pub id: u64,
    /// Time of the command, in seconds since the epoch.
    pub time_s: i64,
    /// Microseconds for a slow command, else bytes.
    pub value: i64,
    /// The arguments, shortened by [`shorten`].
    pub argv: Vec<Vec<u8>>,
    /// The client's address and port.
    pub peer: Box<str>,
    /// The client's name, shortened.
    pub name: Box<[u8]>,
}

/// Three logs, newest entry first.
#[derive(Debug, Default)]
pub struct CommandLog {
    logs: [FamilyLog; 3],
}

#[derive(Debug, Default)]
struct FamilyLog {
    entries: VecDeque<LogEntry>,
    next_id: u64,
}

/// At most this many arguments of a command are kept. If the command has more, the last of these is replaced
/// by a note with the number of dropped arguments.
pub(crate) const ARGS_MAX: usize = 32;
/// At most this many bytes of an argument are kept. If the argument has more, a note with the number of
/// dropped bytes follows.
pub(crate) const ARG_BYTES_MAX: usize = 128;

impl CommandLog {
    /// Heap bytes of the logs. O(entries).
    pub fn footprint(&self) -> usize {
        let entry = |entry: &LogEntry| {
            let argv: usize = entry.argv.iter().map(heap::vec).sum();
            heap::vec(&entry.argv) + argv + heap::block(entry.peer.len()) + heap::block(entry.name.len())
        };
        let log = |log: &FamilyLog| heap::deque(&log.entries) + log.entries.iter().map(entry).sum::<usize>();
        self.logs.iter().map(log).sum()
    }

    /// Adds an entry, whose id is set here; entries beyond the newest `max_len` are dropped.
    pub fn push(&mut self, kind: LogKind, mut entry: LogEntry, max_len: usize) {
        let log = &mut self.logs[kind as usize];
        entry.id = log.next_id;
        log.next_id += 1;
        log.entries.push_front(entry);
        log.entries.truncate(max_len);
    }

    /// Drops the entries beyond the newest `max_len`, and frees their memory. Cost: O(entries).
    pub fn keep_newest(&mut self, kind: LogKind, max_len: usize) {
        let entries = &mut self.logs[kind as usize].entries;
        if entries.len() > max_len {
            entries.truncate(max_len);
            entries.shrink_to_fit();
        }
    }

    /// The newest `count` entries.
    pub fn newest(&self, kind: LogKind, count: usize) -> impl ExactSizeIterator<Item = &LogEntry> {
        let log = &self.logs[kind as usize];
        log.entries.iter().take(count)
    }

    /// Number of entries in one log.
    pub fn len(&self, kind: LogKind) -> usize {
        self.logs[kind as usize].entries.len()
    }

    /// Removes all entries of one log; the numbering continues.
    pub fn clear(&mut self, kind: LogKind) {
        self.logs[kind as usize].entries.clear();
    }
}

/// Shortens the number and the lengths of arguments for the log.
pub fn shorten<'a>(argv: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = argv.len();
    let kept = count.min(ARGS_MAX);
    argv.take(kept)
        .enumerate()
        .map(|(i, arg)| {
            if count > kept && i == kept - 1 {
                return format!("... ({} more arguments)", count - kept + 1).into_bytes();
            }
            shorten_one(arg)
        })
        .collect()
}

/// Shortens an argument or a client's name, which may be as long as a request.
pub fn shorten_one(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= ARG_BYTES_MAX {
        return arg.to_vec();
    }
    let mut short = arg[..ARG_BYTES_MAX].to_vec();
    short.extend_from_slice(format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX).as_bytes());
    short
}
