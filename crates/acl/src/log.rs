//! The log of refusals, newest first.
//!
//! Invariants: (1) after a new entry was added, the log has at most as many entries as the caller's bound;
//! (2) no text of an entry is longer than [`TEXT_MAX`].

use crate::check::Reason;
use sluice_base::heap;
use std::collections::VecDeque;

/// A refusal is counted in the entry of an equal refusal if at most this many milliseconds lie between the
/// two.
const GROUPED_WITHIN_MS: i64 = 60_000;
/// How many of the newest entries a refusal is compared with.
const LOOKED_AT: usize = 10;
/// Maximum bytes that are kept of each text of an entry.
const TEXT_MAX: usize = 4096;

/// The reason of an entry in ACL LOG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A request for which the user lacks this kind of right.
    Request(Reason),
    /// A failed attempt to authenticate.
    Auth,
    /// A TLS certificate that names no enabled user.
    TlsCert,
}

impl Refusal {
    /// The value of the field `reason` in ACL LOG.
    pub const fn text(self) -> &'static str {
        match self {
            Refusal::Request(Reason::Command) => "command",
            Refusal::Request(Reason::Key) => "key",
            Refusal::Request(Reason::Channel) => "channel",
            Refusal::Request(Reason::Database) => "database",
            Refusal::Auth => "auth",
            Refusal::TlsCert => "tls-cert",
        }
    }
}

/// The surroundings in which the refused request ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RefusalContext {
    Toplevel,
    Multi,
    Lua,
    Script,
}

impl RefusalContext {
    /// The value of the field `context` in ACL LOG.
    pub const fn text(self) -> &'static str {
        match self {
            RefusalContext::Toplevel => "toplevel",
            RefusalContext::Multi => "multi",
            RefusalContext::Lua => "lua",
            RefusalContext::Script => "script",
        }
    }
}

/// Equal refusals, counted together: they have the same reason, context, object and user.
#[derive(Clone, Debug)]
pub struct RefusalEntry {
    /// Number of refusals counted in this entry, at least 1.
    pub count: u64,
    /// The reason for the refusals.
    pub refusal: Refusal,
    /// Where the requests ran: directly, in a transaction or in a script.
    pub context: RefusalContext,
    /// The refused command, key, channel or database; for an attempt to authenticate, the command or the
    /// page through which it was made; empty for a certificate. At most `TEXT_MAX` bytes.
    pub object: Vec<u8>,
    /// The name of the user, or the name given in the attempt to authenticate or in the certificate; at most
    /// `TEXT_MAX` bytes.
    pub username: Vec<u8>,
    /// The client of the latest refusal, described as in CLIENT INFO, or the peer of the metrics page; at
    /// most `TEXT_MAX` bytes.
    pub client_info: Vec<u8>,
    /// Sequence number of the entry, from 0 since the server began.
    pub id: u64,
    /// Time of the first refusal, in milliseconds since 1970.
    pub created_ms: i64,
    /// Time of the latest refusal, in milliseconds since 1970.
    pub updated_ms: i64,
}

impl RefusalEntry {
    /// Seconds since the latest refusal.
    pub fn age_seconds(&self, now_ms: i64) -> f64 {
        now_ms.saturating_sub(self.updated_ms) as f64 / 1000.0
    }
}

/// The entries of ACL LOG, newest first.
#[derive(Debug, Default)]
pub struct RefusalLog {
    entries: VecDeque<RefusalEntry>,
    next_id: u64,
}

impl RefusalLog {
    /// Adds a refusal. If one of the ten newest entries is equal and was updated within the last minute,
    /// the refusal is counted there, and that entry becomes the newest; otherwise the refusal becomes a new
    /// entry, and the oldest entries above `entries_max` are dropped. If `entries_max` is 0, the log is
    /// emptied and nothing added. Cost: ten comparisons and the copies of the texts, at most 4 KiB each.
    #[expect(clippy::too_many_arguments, reason = "the parts of an entry")]
    pub fn add(
        &mut self,
        refusal: Refusal,
        context: RefusalContext,
        object: &[u8],
        username: &[u8],
        client_info: &[u8],
        now_ms: i64,
        entries_max: usize,
    ) {
        let cut = |text: &[u8]| text[..text.len().min(TEXT_MAX)].to_vec();
        let (object, username, client_info) = (cut(object), cut(username), cut(client_info));
        let alike = self.entries.iter().take(LOOKED_AT).position(|entry| {
            entry.refusal == refusal
                && entry.context == context
                && entry.updated_ms.abs_diff(now_ms) <= GROUPED_WITHIN_MS.unsigned_abs()
                && entry.object == object
                && entry.username == username
        });
        if entries_max == 0 {
            self.entries.clear();
        } else if let Some(mut entry) = alike.and_then(|at| self.entries.remove(at)) {
            entry.client_info = client_info;
            entry.updated_ms = now_ms;
            entry.count += 1;
            self.entries.push_front(entry);
        } else {
            let id = self.next_id;
            self.next_id += 1;
            let (created_ms, updated_ms) = (now_ms, now_ms);
            let entry = RefusalEntry {
                count: 1,
                refusal,
                context,
                object,
                username,
                client_info,
                id,
                created_ms,
                updated_ms,
            };
            self.entries.push_front(entry);
            self.entries.truncate(entries_max);
        }
    }

    /// Bytes of heap memory that the log holds, as the allocator rounds them. Cost: O(entries).
    pub fn footprint(&self) -> usize {
        let texts = |entry: &RefusalEntry| {
            heap::vec(&entry.object) + heap::vec(&entry.username) + heap::vec(&entry.client_info)
        };
        heap::deque(&self.entries) + self.entries.iter().map(texts).sum::<usize>()
    }

    /// The entries, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &RefusalEntry> {
        self.entries.iter()
    }

    /// Removes all entries; the numbering continues.
    pub fn reset(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Refusal = Refusal::Request(Reason::Key);

    fn add(log: &mut RefusalLog, object: &[u8], now_ms: i64) {
        log.add(KEY, RefusalContext::Toplevel, object, b"u", b"id=1", now_ms, 128);
    }

    #[test]
    fn refusals_that_are_alike_count_in_one_entry() {
        let mut log = RefusalLog::default();
        add(&mut log, b"a", 0);
        add(&mut log, b"b", 1);
        add(&mut log, b"a", 60_000);
        let seen: Vec<_> =
            log.entries().map(|entry| (entry.object.as_slice(), entry.count, entry.id)).collect();
        assert_eq!(seen, [(&b"a"[..], 2, 0), (b"b", 1, 1)]);
        add(&mut log, b"a", 120_001);
        assert_eq!(log.entries().next().unwrap().id, 2, "more than a minute later");
        log.add(KEY, RefusalContext::Multi, b"a", b"u", b"", 120_001, 128);
        assert_eq!(log.entries().len(), 4, "another context");
        assert!((log.entries().next().unwrap().age_seconds(121_501) - 1.5).abs() < 1e-9);
    }

    #[test]
    fn only_the_ten_newest_are_compared() {
        let mut log = RefusalLog::default();
        for object in b"abcdefghijk" {
            add(&mut log, &[*object], 0);
        }
        add(&mut log, b"a", 0);
        assert_eq!(log.entries().len(), 12);
        add(&mut log, b"c", 0);
        assert_eq!(log.entries().len(), 12, "the tenth newest");
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = RefusalLog::default();
        for object in b"abc" {
            log.add(KEY, RefusalContext::Lua, &[*object], b"u", &[b'x'; 10_000], 0, 2);
        }
        assert_eq!(log.entries().map(|entry| entry.client_info.len()).collect::<Vec<_>>(), [4096, 4096]);
        log.add(KEY, RefusalContext::Lua, b"d", b"u", b"", 0, 0);
        assert_eq!(log.entries().len(), 0);
    }
}
