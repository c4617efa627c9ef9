//! Sessions of clients that take no tickets are kept here, on the server. The cache is bounded in number and
//! bytes, and drops the oldest sessions first.
//!
//! Invariants: (1) the cache has at most `entries_max` sessions; (2) it has no session whose state is longer
//! than [`STATE_BYTES_MAX`], so that certificate chains sent by clients cannot fill memory; (3) no session
//! older than the lifetime is returned.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rustls::server::StoresServerSessions;

/// Maximum length in bytes of a state that is kept; it has keys and the certificate chain that the client
/// sent.
const STATE_BYTES_MAX: usize = 8 * 1024;

/// Sessions by their ids.
pub(crate) struct Cache {
    sessions: Mutex<ResumableSessions>,
    entries_max: usize,
    lifetime_s: u64,
    now: fn() -> i64,
}

#[derive(Default)]
struct ResumableSessions {
    states: HashMap<Vec<u8>, CachedState>,
    /// Ids with the number of their `put`, oldest first. An id that was taken or replaced since stays until
    /// it is the oldest; its number then belongs to no state.
    order: VecDeque<(Vec<u8>, u64)>,
    puts: u64,
}

struct CachedState {
    bytes: Vec<u8>,
    made_s: i64,
    put: u64,
}

impl Cache {
    /// An empty cache. `now` is the clock, in unix seconds.
    pub(crate) fn new(entries_max: usize, lifetime_s: u64, now: fn() -> i64) -> Cache {
        Cache { sessions: Mutex::default(), entries_max, lifetime_s, now }
    }

    /// The state that `find` returns, if its age is within the lifetime.
    fn fresh(&self, find: impl FnOnce(&mut ResumableSessions) -> Option<(Vec<u8>, i64)>) -> Option<Vec<u8>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, made_s) = find(&mut sessions)?;
        let age_s = (self.now)().saturating_sub(made_s).max(0).unsigned_abs();
        (age_s <= self.lifetime_s).then_some(bytes)
    }
}

impl ResumableSessions {
    /// Makes room for one more session: drops the oldest, and ids whose state is gone.
    fn make_room(&mut self, entries_max: usize) {
        while self.states.len() >= entries_max || self.order.len() >= entries_max.saturating_mul(2) {
            let Some((id, put)) = self.order.pop_front() else { return };
            if self.states.get(&id).is_some_and(|state| state.put == put) {
                self.states.remove(&id);
            }
        }
    }
}

impl StoresServerSessions for Cache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        if value.len() > STATE_BYTES_MAX || self.entries_max == 0 {
            return false;
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.make_room(self.entries_max);
        sessions.puts += 1;
        let put = sessions.puts;
        sessions.order.push_back((key.clone(), put));
        sessions.states.insert(key, CachedState { bytes: value, made_s: (self.now)(), put });
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(|sessions| sessions.states.get(key).map(|state| (state.bytes.clone(), state.made_s)))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(|sessions| sessions.states.remove(key).map(|state| (state.bytes, state.made_s)))
    }

    fn can_cache(&self) -> bool {
        self.entries_max > 0
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Cache").field("entries_max", &self.entries_max).finish_non_exhaustive()
    }
}
