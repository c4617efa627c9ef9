//! Which keys clients access most, for HOTKEYS.
//!
//! Accesses that were drawn by lot go into an open window. A window that is over is shown until the next one
//! is over. A window counts by Space-Saving (Metwally, Agrawal, El Abbadi, 2005): a key that finds no room
//! takes the row of the key with the least count, and begins with that count as its possible error.
//!
//! Invariants: (1) a window has at most `hotkeys-top-k` rows, of names of at most [`NAME_MAX`] bytes; (2) the
//! count of a row is too high by its error at most, and never too low; (3) a key with more than one in
//! `hotkeys-top-k` of the accesses drawn has a row; (4) a window that is shown spans `hotkeys-window-seconds`
//! at least and less than twice as long; (5) nothing is allocated while detection is off.

mod steps;

use sluice_base::{Epoch, Watched, heap};
use sluice_commands::HotKeyLimits;
use sluice_keyspace::Key;

/// Bytes of the longest name that has a row. A longer name counts as an access and takes no memory.
pub(crate) const NAME_MAX: usize = 4096;

/// The counts of a server.
#[derive(Debug)]
pub(crate) struct HotKeyCounts {
    /// For HOTKEYS, as the configuration says.
    pub command: HotKeys,
    /// For the page of the metrics endpoint, while somebody looks.
    pub page: Watched<HotKeys>,
}

impl HotKeyCounts {
    /// Counts of a control plane with this epoch; nothing is counted.
    pub(crate) fn new(epoch: &Epoch) -> HotKeyCounts {
        HotKeyCounts { command: HotKeys::default(), page: Watched::new(HotKeys::default(), epoch) }
    }

    /// Both, to count in.
    pub(crate) fn both(&mut self) -> [&mut HotKeys; 2] {
        [&mut self.command, self.page.quietly()]
    }

    /// Forgets all keys.
    pub(crate) fn forget(&mut self, now_ns: u64) {
        self.both().into_iter().for_each(|hot_keys| hot_keys.forget(now_ns));
    }

    /// Forgets the keys of a database.
    pub(crate) fn forget_db(&mut self, db: usize) {
        self.both().into_iter().for_each(|hot_keys| hot_keys.forget_db(db));
    }

    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        self.command.footprint() + self.page.footprint()
    }
}

/// What HOTKEYS GET and INFO show, and what is being counted.
#[derive(Debug, Default)]
pub struct HotKeys {
    limits: HotKeyLimits,
    open: AccessWindow,
    shown: AccessWindow,
}

/// A key of the window that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HotKey<'a> {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub name: &'a [u8],
    /// Accesses in a second, estimated.
    pub per_second: u64,
}

/// Accesses of a time. The three lists have a row of each key, at the same index: what a search looks at
/// first stands close together.
#[derive(Debug, Default)]
struct AccessWindow {
    hashes: Vec<u64>,
    counts: Vec<u64>,
    keys: Vec<WindowKey>,
    /// Accesses drawn.
    samples: u64,
    /// When the window began, ns of the monotonic clock; `None` until somebody tells the time.
    began_ns: Option<u64>,
    /// How long the window was open, ns; 0 while it is.
    span_ns: u64,
    /// Of a hundred accesses so many are drawn.
    percent: u32,
}

#[derive(Debug)]
struct WindowKey {
    db: usize,
    name: Box<[u8]>,
    /// By how much the count may be too high.
    error: u64,
}

impl HotKeys {
    /// Counts as the configuration says from now on. What is counted already begins anew, as its counts are
    /// those of other settings; the window that is shown stays, with the hottest of its keys where fewer are
    /// wanted.
    pub(crate) fn configure(&mut self, limits: HotKeyLimits) {
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

    /// Whether anything is counted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.limits.keys > 0
    }

    /// Of a hundred accesses so many are to be counted.
    pub(crate) fn percent(&self) -> u64 {
        u64::from(self.limits.percent)
    }

    /// Counts an access that was drawn. O(`hotkeys-top-k`), over lists of eight bytes a key.
    pub(crate) fn count(&mut self, db: usize, key: Key<'_>, now_ns: u64) {
        self.open.began_ns.get_or_insert(now_ns);
        self.open.count(db, key, self.limits.keys);
    }

    /// Ends the open window if it is over. One that was open for twice its time or longer says nothing about
    /// the time that is asked about: nothing is shown then.
    pub(crate) fn end_window(&mut self, now_ns: u64) {
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

    /// Forgets all counts.
    pub(crate) fn forget(&mut self, now_ns: u64) {
        self.shown = AccessWindow::default();
        self.open = self.fresh_window(now_ns);
    }

    /// Forgets the keys of a database.
    pub(crate) fn forget_db(&mut self, db: usize) {
        self.open.forget_db(db);
        self.shown.forget_db(db);
    }

    fn fresh_window(&self, now_ns: u64) -> AccessWindow {
        AccessWindow { began_ns: Some(now_ns), percent: self.limits.percent, ..AccessWindow::default() }
    }

    /// The keys of the last whole window, the hottest first.
    pub(crate) fn hottest(&self) -> Vec<HotKey<'_>> {
        let rows = self.shown.keys.iter().zip(&self.shown.counts);
        let mut keys: Vec<HotKey<'_>> = rows
            .map(|(key, count)| HotKey {
                db: key.db,
                name: &key.name,
                per_second: self.shown.per_second(*count, key.error),
            })
            .collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.per_second));
        keys
    }

    /// Accesses drawn in the last whole window.
    pub(crate) fn samples(&self) -> u64 {
        self.shown.samples
    }

    /// How long the last whole window was open, ms; 0 where there is none.
    pub(crate) fn span_ms(&self) -> u64 {
        self.shown.span_ns / 1_000_000
    }

    /// Bytes that the allocator has given. O(`hotkeys-top-k`).
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
        let row = self.hashes.iter().enumerate().find(|(row, hash)| {
            **hash == key.hash && self.keys[*row].db == db && *self.keys[*row].name == *key.bytes
        });
        if let Some((row, _)) = row {
            self.counts[row] += 1;
            return;
        }
        let name: Box<[u8]> = key.bytes.into();
        if self.keys.len() < keys_max {
            self.hashes.push(key.hash);
            self.counts.push(1);
            self.keys.push(WindowKey { db, name, error: 0 });
            return;
        }
        let least = self.counts.iter().enumerate().min_by_key(|(_, count)| **count);
        if let Some((row, count)) = least.map(|(row, count)| (row, *count)) {
            self.hashes[row] = key.hash;
            self.counts[row] = count + 1;
            self.keys[row] = WindowKey { db, name, error: count };
        }
    }

    /// Accesses in a second of a key with this count, of which the middle of what may be true is taken, and
    /// as many added as were not drawn.
    fn per_second(&self, count: u64, error: u64) -> u64 {
        let twice = u128::from(count) * 2 - u128::from(error.min(count));
        let drawn_ns = u128::from(self.percent) * u128::from(self.span_ns) * 2;
        if drawn_ns == 0 {
            return 0;
        }
        let rounded = (twice * 100 * 1_000_000_000 + drawn_ns / 2) / drawn_ns;
        u64::try_from(rounded).unwrap_or(u64::MAX)
    }

    /// Leaves so many rows, those of the highest counts.
    fn keep_hottest(&mut self, keys_max: usize) {
        if self.keys.len() <= keys_max {
            return;
        }
        let mut rows: Vec<(u64, (u64, WindowKey))> =
            self.counts.drain(..).zip(self.hashes.drain(..).zip(self.keys.drain(..))).collect();
        rows.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        rows.truncate(keys_max);
        for (count, (hash, key)) in rows {
            self.counts.push(count);
            self.hashes.push(hash);
            self.keys.push(key);
        }
    }

    fn forget_db(&mut self, db: usize) {
        let mut row = 0;
        while let Some(key) = self.keys.get(row) {
            if key.db != db {
                row += 1;
                continue;
            }
            self.keys.swap_remove(row);
            self.hashes.swap_remove(row);
            self.counts.swap_remove(row);
        }
    }

    fn footprint(&self) -> usize {
        let names: usize = self.keys.iter().map(|key| heap::block(key.name.len())).sum();
        heap::vec(&self.hashes) + heap::vec(&self.counts) + heap::vec(&self.keys) + names
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
        // By the time that the window was open.
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
        assert_eq!((hot.open.counts.clone(), hot.open.keys[1].error), (vec![10, 6], 4));
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
        assert_eq!(hot.open.keys.len(), 10);
        hot.end_window(SECOND_NS);
        assert!(hot.hottest().iter().any(|key| key.name == b"hot"));
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
