//! The keys that clients access most, for HOTKEYS.
//!
//! Randomly sampled accesses are counted in an open window. A closed window is shown until the next one
//! closes. A window counts by Space-Saving (Metwally, Agrawal, El Abbadi, 2005): a key without a row
//! takes over the row with the least count, and starts with that count as its possible error.
//!
//! Invariants: (1) a window has at most `hotkeys-top-k` rows, of names of at most `NAME_MAX` bytes; (2)
//! unless `HotKeys::forget_db` has removed rows, the count of a row is too high by at most its error, and
//! never too low; (3) unless rows were removed, a key with such a name and with more than one in
//! `hotkeys-top-k` of the sampled accesses has a row; (4) a window that is shown was open for at least the
//! `hotkeys-window-seconds` set at its end, and less than twice that; (5) nothing is allocated while
//! detection is off.

use sluice_base::{Epoch, IdentityHasher, Watched, heap};
use sluice_commands::HotKeyLimits;
use sluice_keyspace::Key;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Longest name with a row, in bytes. An access to a longer name is counted without its name.
pub(crate) const NAME_MAX: usize = 4096;

/// The two counts of hot keys in a server.
#[derive(Debug)]
pub struct HotKeyCounts {
    /// Counts for HOTKEYS, as configured.
    pub command: HotKeys,
    /// Counts for the page of the metrics endpoint, made only while the page is watched.
    pub page: Watched<HotKeys>,
}

impl HotKeyCounts {
    /// Counts that are switched off. Switching the page's count on or off advances `epoch`, which belongs to
    /// the control plane.
    pub fn new(epoch: &Epoch) -> HotKeyCounts {
        HotKeyCounts { command: HotKeys::default(), page: Watched::new(HotKeys::default(), epoch) }
    }

    /// Both counts, for one access to be added to each.
    pub fn both(&mut self) -> [&mut HotKeys; 2] {
        [&mut self.command, self.page.quietly()]
    }

    /// Removes all keys from both counts and starts new windows.
    pub fn forget(&mut self, now_ns: u64) {
        self.both().into_iter().for_each(|hot_keys| hot_keys.forget(now_ns));
    }

    /// Removes the keys of one database from both counts.
    pub fn forget_db(&mut self, db: usize) {
        self.both().into_iter().for_each(|hot_keys| hot_keys.forget_db(db));
    }

    /// Heap bytes of both counts.
    pub fn footprint(&self) -> usize {
        self.command.footprint() + self.page.footprint()
    }
}

/// The open window, and the closed one that HOTKEYS GET and INFO show.
#[derive(Debug, Default)]
pub struct HotKeys {
    limits: HotKeyLimits,
    open: AccessWindow,
    shown: AccessWindow,
}

/// A key of the shown window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotKey<'a> {
    /// Number of the database.
    pub db: usize,
    /// The key's name, at most `NAME_MAX` bytes.
    pub name: &'a [u8],
    /// Estimated accesses per second, extrapolated from the sample.
    pub per_second: u64,
}

/// The sampled accesses of one time span.
#[derive(Debug, Default)]
struct AccessWindow {
    rows: Vec<WindowRow>,
    /// Newest row of each hash; older ones follow by [`WindowRow::same_hash`].
    by_hash: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>,
    /// Counts and row indexes as a min-heap: the pair at n is not greater than those at 2 n + 1 and 2 n + 2.
    by_count: Vec<(u64, u32)>,
    /// Number of sampled accesses, including those without a row.
    samples: u64,
    /// Start of the window, in ns of the monotonic clock; `None` until the first call with a time.
    began_ns: Option<u64>,
    /// Duration of the closed window, in ns; 0 while it is open.
    span_ns: u64,
    /// Percentage of accesses that are sampled.
    percent: u32,
}

#[derive(Debug)]
struct WindowRow {
    hash: u64,
    db: usize,
    name: Box<[u8]>,
    /// Greatest possible excess of the count.
    error: u64,
    /// Position of the count in `by_count`.
    heap_at: u32,
    /// The next older row with the same hash, usually the same name in another database.
    same_hash: Option<u32>,
}

impl HotKeys {
    /// Applies new settings. The open window starts again, because its counts belong to the old settings. The
    /// shown window stays, reduced to its hottest keys if fewer are wanted; with 0 keys it is removed.
    pub fn configure(&mut self, limits: HotKeyLimits) {
        if limits == self.limits {
            return;
        }
        if limits.keys == 0 {
            *self = HotKeys { limits, ..HotKeys::default() };
            return;
        }
        self.limits = limits;
        self.open = AccessWindow { percent: limits.percent, ..AccessWindow::default() };
        self.shown.keep_hottest(limits.keys);
    }

    /// Whether accesses are counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.limits.keys > 0
    }

    /// Percentage of accesses to sample.
    pub fn percent(&self) -> u64 {
        u64::from(self.limits.percent)
    }

    /// Counts a sampled access. O(log `hotkeys-top-k`).
    pub fn count(&mut self, db: usize, key: Key<'_>, now_ns: u64) {
        self.open.began_ns.get_or_insert(now_ns);
        self.open.count(db, key, self.limits.keys);
    }

    /// Closes the open window if its time is over. A window that was open for twice its time or longer
    /// does not describe the recent past, so then nothing is shown.
    pub fn end_window(&mut self, now_ns: u64) {
        if !self.is_on() {
            return;
        }
        let began_ns = *self.open.began_ns.get_or_insert(now_ns);
        let span_ns = now_ns.saturating_sub(began_ns);
        let length_ns = self.limits.window_s.saturating_mul(1_000_000_000);
        if span_ns < length_ns {
            return;
        }
        if span_ns >= length_ns.saturating_mul(2) {
            return self.forget(now_ns);
        }
        self.open.span_ns = span_ns;
        let fresh = self.fresh_window(now_ns);
        self.shown = std::mem::replace(&mut self.open, fresh);
    }

    /// Removes all counts and starts a new window.
    pub fn forget(&mut self, now_ns: u64) {
        self.shown = AccessWindow::default();
        self.open = self.fresh_window(now_ns);
    }

    /// Removes the keys of a database from both windows.
    pub(crate) fn forget_db(&mut self, db: usize) {
        self.open.forget_db(db);
        self.shown.forget_db(db);
    }

    fn fresh_window(&self, now_ns: u64) -> AccessWindow {
        AccessWindow { began_ns: Some(now_ns), percent: self.limits.percent, ..AccessWindow::default() }
    }

    /// The keys of the last closed window, hottest first.
    pub fn hottest(&self) -> Vec<HotKey<'_>> {
        let rows = self.shown.rows.iter();
        let mut keys: Vec<HotKey<'_>> = rows
            .map(|row| HotKey {
                db: row.db,
                name: &row.name,
                per_second: self.shown.per_second(self.shown.count_of(row), row.error),
            })
            .collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.per_second));
        keys
    }

    /// Number of sampled accesses in the last closed window; 0 if there is none.
    pub fn samples(&self) -> u64 {
        self.shown.samples
    }

    /// Duration of the last closed window, in ms; 0 if there is none.
    pub fn span_ms(&self) -> u64 {
        self.shown.span_ns / 1_000_000
    }

    /// Heap bytes of both windows. O(`hotkeys-top-k`).
    pub(crate) fn footprint(&self) -> usize {
        self.open.footprint() + self.shown.footprint()
    }
}

impl AccessWindow {
    fn count(&mut self, db: usize, key: Key<'_>, keys_max: usize) {
        self.samples += 1;
        if key.bytes.len() > NAME_MAX {
            return;
        }
        if let Some(row) = self.row_of(db, key) {
            return self.raise(self.rows[row as usize].heap_at as usize, 1);
        }
        if self.rows.len() < keys_max {
            let row = self.rows.len() as u32;
            let at = self.by_count.len();
            self.by_count.push((0, row));
            self.rows.push(WindowRow::of(db, key, 0, at));
            self.link(row);
            // The new count is moved up the heap, so that the root has the least count. Of equal counts,
            // older ones stay nearer to the root.
            self.sift_up(at);
            return self.raise(self.rows[row as usize].heap_at as usize, 1);
        }
        if let Some(&(count, row)) = self.by_count.first() {
            self.unlink(row);
            self.rows[row as usize] = WindowRow::of(db, key, count, 0);
            self.link(row);
            self.raise(0, 1);
        }
    }

    fn row_of(&self, db: usize, key: Key<'_>) -> Option<u32> {
        let mut next = self.by_hash.get(&key.hash).copied();
        while let Some(at) = next {
            let row = &self.rows[at as usize];
            if row.db == db && *row.name == *key.bytes {
                return Some(at);
            }
            next = row.same_hash;
        }
        None
    }

    fn count_of(&self, row: &WindowRow) -> u64 {
        self.by_count[row.heap_at as usize].0
    }

    /// Enters a row into `by_hash`.
    fn link(&mut self, at: u32) {
        let row = &mut self.rows[at as usize];
        row.same_hash = self.by_hash.insert(row.hash, at);
    }

    fn unlink(&mut self, at: u32) {
        let WindowRow { hash, same_hash, .. } = self.rows[at as usize];
        let Some(first) = self.by_hash.get_mut(&hash) else { return };
        if *first == at {
            match same_hash {
                Some(next) => *first = next,
                None => drop(self.by_hash.remove(&hash)),
            }
            return;
        }
        let mut before = *first as usize;
        while self.rows[before].same_hash != Some(at) {
            let Some(next) = self.rows[before].same_hash else { return };
            before = next as usize;
        }
        self.rows[before].same_hash = same_hash;
    }

    /// Increases the count at a heap position and sinks it to its place.
    fn raise(&mut self, mut at: usize, by: u64) {
        self.by_count[at].0 += by;
        loop {
            let below =
                (2 * at + 1..self.by_count.len().min(2 * at + 3)).min_by_key(|below| self.by_count[*below]);
            let Some(below) = below.filter(|below| self.by_count[*below] < self.by_count[at]) else { break };
            self.swap(at, below);
            at = below;
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 && self.by_count[at] < self.by_count[(at - 1) / 2] {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.by_count.swap(one, other);
        for at in [one, other] {
            self.rows[self.by_count[at].1 as usize].heap_at = at as u32;
        }
    }

    /// Replaces all rows, and rebuilds heap and hash map.
    fn fill(&mut self, rows: Vec<(u64, WindowRow)>) {
        (self.rows, self.by_count, self.by_hash) = Default::default();
        for (count, row) in rows {
            let (index, at) = (self.rows.len() as u32, self.by_count.len());
            self.rows.push(WindowRow { heap_at: at as u32, same_hash: None, ..row });
            self.by_count.push((count, index));
            self.link(index);
            self.sift_up(at);
        }
    }

    fn take_rows(&mut self) -> Vec<(u64, WindowRow)> {
        let rows = std::mem::take(&mut self.rows);
        rows.into_iter().map(|row| (self.by_count[row.heap_at as usize].0, row)).collect()
    }

    /// Accesses per second of a key: the mean of the possible counts, count - error / 2, extrapolated
    /// to all accesses.
    fn per_second(&self, count: u64, error: u64) -> u64 {
        let twice = u128::from(count) * 2 - u128::from(error.min(count));
        let drawn_ns = u128::from(self.percent) * u128::from(self.span_ns) * 2;
        if drawn_ns == 0 {
            return 0;
        }
        let rounded = (twice * 100 * 1_000_000_000 + drawn_ns / 2) / drawn_ns;
        u64::try_from(rounded).unwrap_or(u64::MAX)
    }

    /// Keeps the `keys_max` rows with the highest counts.
    fn keep_hottest(&mut self, keys_max: usize) {
        if self.rows.len() <= keys_max {
            return;
        }
        let mut rows = self.take_rows();
        rows.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        rows.truncate(keys_max);
        self.fill(rows);
    }

    fn forget_db(&mut self, db: usize) {
        let mut rows = self.take_rows();
        let mut at = 0;
        while at < rows.len() {
            match rows[at].1.db == db {
                true => drop(rows.swap_remove(at)),
                false => at += 1,
            }
        }
        self.fill(rows);
    }

    fn footprint(&self) -> usize {
        let names: usize = self.rows.iter().map(|row| heap::block(row.name.len())).sum();
        let hashes = self.by_hash.capacity() * (size_of::<(u64, u32)>() + 1);
        heap::vec(&self.rows) + heap::vec(&self.by_count) + hashes + names
    }
}

impl WindowRow {
    /// A row whose count is at heap position `heap_at`, not yet in `by_hash`.
    fn of(db: usize, key: Key<'_>, error: u64, heap_at: usize) -> WindowRow {
        WindowRow {
            hash: key.hash,
            db,
            name: key.bytes.into(),
            error,
            heap_at: heap_at as u32,
            same_hash: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn hot_keys(keys: usize, percent: u32, window_s: u64) -> HotKeys {
        let mut hot = HotKeys::default();
        hot.configure(HotKeyLimits { keys, percent, window_s });
        hot.end_window(0);
        hot
    }

    fn count(hot: &mut HotKeys, db: usize, name: &str, times: u64) {
        let hash = name.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(31) + u64::from(byte));
        for _ in 0..times {
            hot.count(db, Key { bytes: name.as_bytes(), hash, arg: Key::NO_ARG }, 0);
        }
    }

    fn shown(hot: &HotKeys) -> String {
        let shown =
            |key: &HotKey<'_>| format!("{}:{}={}", key.db, String::from_utf8_lossy(key.name), key.per_second);
        hot.hottest().iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_window_is_shown_once_it_is_over() {
        let mut hot = hot_keys(3, 100, 2);
        count(&mut hot, 0, "a", 10);
        count(&mut hot, 0, "b", 30);
        count(&mut hot, 1, "b", 20);
        hot.end_window(2 * SECOND_NS - 1);
        assert_eq!((shown(&hot).as_str(), hot.samples(), hot.span_ms()), ("", 0, 0));
        hot.end_window(2 * SECOND_NS);
        assert_eq!((shown(&hot).as_str(), hot.samples(), hot.span_ms()), ("0:b=15 1:b=10 0:a=5", 60, 2000));
        // The rate is relative to the actual duration of the window, not to the configured one.
        count(&mut hot, 0, "a", 10);
        hot.end_window(4 * SECOND_NS + SECOND_NS / 2);
        assert_eq!((shown(&hot).as_str(), hot.span_ms()), ("0:a=4", 2500));
        hot.end_window(7 * SECOND_NS);
        assert_eq!((shown(&hot).as_str(), hot.samples()), ("", 0));
    }

    #[test]
    fn a_window_that_was_open_for_too_long_is_not_shown() {
        let mut hot = hot_keys(3, 100, 1);
        count(&mut hot, 0, "a", 10);
        hot.end_window(SECOND_NS);
        assert_eq!(shown(&hot), "0:a=10");
        count(&mut hot, 0, "a", 10);
        hot.end_window(3 * SECOND_NS);
        assert_eq!((shown(&hot).as_str(), hot.span_ms()), ("", 0));
    }

    #[test]
    fn accesses_that_were_not_drawn_are_added() {
        let mut hot = hot_keys(3, 3, 1);
        count(&mut hot, 0, "a", 7);
        hot.end_window(SECOND_NS);
        assert_eq!(shown(&hot), "0:a=233");
    }

    #[test]
    fn a_key_without_room_takes_the_row_of_the_coldest() {
        let mut hot = hot_keys(2, 100, 1);
        count(&mut hot, 0, "a", 10);
        count(&mut hot, 0, "b", 4);
        count(&mut hot, 0, "c", 2);
        let counts: Vec<u64> = hot.open.rows.iter().map(|row| hot.open.count_of(row)).collect();
        assert_eq!((counts, hot.open.rows[1].error), (vec![10, 6], 4));
        hot.end_window(SECOND_NS);
        assert_eq!((shown(&hot).as_str(), hot.samples()), ("0:a=10 0:c=4", 16));
    }

    #[test]
    fn a_key_with_more_than_its_share_has_a_row() {
        let mut hot = hot_keys(10, 100, 1);
        for round in 0..1000 {
            count(&mut hot, 0, "hot", 1);
            (0..8).for_each(|other| count(&mut hot, 0, &format!("{round}-{other}"), 1));
        }
        assert_eq!(hot.open.rows.len(), 10);
        hot.end_window(SECOND_NS);
        assert!(hot.hottest().iter().any(|key| key.name == b"hot"));
    }

    /// The rows as a plain list, in which the first row with the least count is replaced.
    #[derive(Default)]
    struct Plain(Vec<(usize, Vec<u8>, u64, u64)>);

    impl Plain {
        fn count(&mut self, db: usize, name: &[u8], keys_max: usize) {
            if let Some(row) = self.0.iter_mut().find(|row| (row.0, &*row.1) == (db, name)) {
                row.2 += 1;
            } else if self.0.len() < keys_max {
                self.0.push((db, name.to_vec(), 1, 0));
            } else if let Some(row) = self.0.iter_mut().min_by_key(|row| row.2) {
                *row = (db, name.to_vec(), row.2 + 1, row.2);
            }
        }
    }

    #[test]
    fn the_rows_are_those_of_a_plain_search() {
        let mut rng = sluice_base::Rng::new(18);
        for keys in [1, 2, 3, 10, 100, 1000] {
            let (mut hot, mut plain) = (hot_keys(keys, 100, 1), Plain::default());
            for step in 0..20_000 {
                // There are few distinct hashes, so that several names share one.
                let range = rng.below(2 * keys as u64 + 3);
                let number = rng.below(1 + range);
                let (db, name) = (rng.below(2) as usize, format!("key:{number}").into_bytes());
                hot.count(db, Key { bytes: &name, hash: number % 40, arg: Key::NO_ARG }, 0);
                plain.count(db, &name, keys);
                if step % 5000 == 4000 {
                    hot.forget_db(1);
                    let mut at = 0;
                    while at < plain.0.len() {
                        match plain.0[at].0 {
                            1 => drop(plain.0.swap_remove(at)),
                            _ => at += 1,
                        }
                    }
                }
                if step % 100 == 0 {
                    let open = &hot.open;
                    let rows = open.rows.iter();
                    let rows: Vec<_> =
                        rows.map(|row| (row.db, row.name.to_vec(), open.count_of(row), row.error)).collect();
                    assert_eq!(rows, plain.0, "{keys} keys, step {step}");
                }
            }
        }
    }

    #[test]
    fn long_names_count_and_have_no_row() {
        let mut hot = hot_keys(2, 100, 1);
        count(&mut hot, 0, &"x".repeat(NAME_MAX + 1), 5);
        count(&mut hot, 0, &"x".repeat(NAME_MAX), 5);
        hot.end_window(SECOND_NS);
        assert_eq!((hot.hottest().len(), hot.samples()), (1, 10));
    }

    #[test]
    fn other_settings_begin_anew_and_keep_what_is_shown() {
        let mut hot = hot_keys(3, 100, 1);
        count(&mut hot, 0, "a", 10);
        count(&mut hot, 0, "b", 30);
        count(&mut hot, 0, "c", 20);
        hot.end_window(SECOND_NS);
        count(&mut hot, 0, "d", 9);
        hot.configure(HotKeyLimits { keys: 2, percent: 50, window_s: 1 });
        assert_eq!((shown(&hot).as_str(), hot.open.samples), ("0:b=30 0:c=20", 0));
        hot.forget_db(0);
        assert_eq!(shown(&hot), "");
        hot.configure(HotKeyLimits { keys: 0, percent: 50, window_s: 1 });
        assert_eq!((hot.is_on(), hot.footprint()), (false, 0));
    }
}
